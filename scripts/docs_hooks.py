"""What the documentation site needs beyond mkdocs: our docstrings read well on a page.

They are written for editors and `help()` first. So roles such as ``:class:`~nodegp.graph.Graph` ``
become ``Graph``, with a link to its place in the reference if it has one. Backticks inside a type
go, and so do "default -1" in the place of a type (the signature says it too) and the dash before a
description that is not there.
"""

from __future__ import annotations

import re
from typing import Any

_ROLE = re.compile(r":(?:class|func|meth|mod):<code>(~?)([\w.]+)</code>")
_DEFAULT_FOR_TYPE = re.compile(r'<code><span title="default">default</span>[^<]*</code>,\s*')
_NO_DESCRIPTION = re.compile(r'\s*–\s*<div class="doc-md-description">\s*</div>')


def on_page_content(html: str, **kwargs: Any) -> str:
    """Called by mkdocs with the body of each page."""
    html = _DEFAULT_FOR_TYPE.sub("", _ROLE.sub(_linked, html))
    return _NO_DESCRIPTION.sub("", html).replace("``", "")


def _linked(role: re.Match[str]) -> str:
    shortened, name = role.groups()
    shown = name.rsplit(".", 1)[-1] if shortened else name
    # mkdocs-autorefs makes a link of it, or leaves the words if nothing of that name is described.
    return f'<autoref optional identifier="{name}"><code>{shown}</code></autoref>'
