"""For the API reference: a plain ``ClassVar`` is no parameter of a dataclass.

griffe, which reads the source, knows only ``ClassVar[...]`` for what it is.
"""

from __future__ import annotations

from typing import Any

import griffe


class ClassVariables(griffe.Extension):
    """Takes plain class variables out of the signatures of dataclasses."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        if str(attr.annotation) == "ClassVar":
            attr.labels.discard("instance-attribute")
