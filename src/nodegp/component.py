"""What kernels, filters, likelihoods, inducing choices and engines have in common.

A component is a frozen dataclass: its fields are its settings and its positive
hyper-parameters. It can be written as plain data and read back, it lists the
hyper-parameters that are free to be learnt, and it gives a copy of itself with other
values in their place (numbers, or torch tensors to differentiate through).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from numbers import Real
from typing import Any, ClassVar, Self

from nodegp.declared import check_types
from nodegp.plugins import load_components

__all__ = ["Component", "UnknownComponentError", "aliases", "as_component", "from_dict"]


class UnknownComponentError(ValueError):
    """A saved component whose class is not known here."""


@dataclass(frozen=True)
class Component:
    """Base of every named part of a model.

    ``positive`` names the fields that are positive hyper-parameters. They are learnt on a
    log scale unless they are named in ``fixed``; a fixed one may be zero. ``alias`` is a name that
    users may write in the place of an object with the default settings.
    """

    registry: ClassVar[dict[str, type[Component]]] = {}
    positive: ClassVar[tuple[str, ...]] = ()
    alias: ClassVar[str] = ""

    fixed: tuple[str, ...] = field(default=(), kw_only=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        other = Component.registry.get(cls.__name__)
        if other is not None and other.__module__ != cls.__module__:
            raise ValueError(
                f"there is a component {cls.__name__} already, in {other.__module__}; saved models "
                "name components, so choose another name"
            )
        alias, kin = vars(cls).get("alias"), set(cls.__mro__) - {Component, object}
        for name, cousin in Component.registry.items() if alias else ():
            is_taken = name != cls.__name__ and vars(cousin).get("alias") == alias
            if is_taken and kin.intersection(cousin.__mro__):
                raise ValueError(f"{name} has the alias {alias!r} already")
        Component.registry[cls.__name__] = cls
        cls.__repr__ = Component.__repr__  # type: ignore[method-assign]  # not dataclass's own

    def __post_init__(self) -> None:
        names = (self.fixed,) if isinstance(self.fixed, str) else tuple(self.fixed)
        object.__setattr__(self, "fixed", names)
        unknown = [name for name in names if name not in self.positive]
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has no hyper-parameter {unknown[0]!r} to fix; "
                f"it has {list(self.positive)}"
            )
        for name in self.positive:
            self._check_positive(name, getattr(self, name))

    def _check_positive(self, name: str, value: Any) -> None:
        if hasattr(value, "requires_grad"):
            return  # a tensor, put there by with_parameters
        if not isinstance(value, Real):
            raise TypeError(f"{type(self).__name__}: {name} must be a number, got {value!r}")
        if not isinstance(value, int | float):  # a numpy number, which JSON does not know
            value = float(value)
            object.__setattr__(self, name, value)
        if not math.isfinite(value) or value < 0:
            raise ValueError(f"{type(self).__name__}: {name} must be positive, got {value!r}")
        if value == 0 and name not in self.fixed:
            raise ValueError(
                f"{type(self).__name__}: {name}=0 cannot be learnt (it moves on a log scale); "
                f"start from a positive value or pass fixed=({name!r},)"
            )

    def __repr__(self) -> str:
        """As one would write it, without what is as it is by default."""
        settings = [
            f"{item.name}={_written(getattr(self, item.name))}"
            for item in fields(self)
            if item.init and not _is_default(item, getattr(self, item.name))
        ]
        return f"{type(self).__name__}({', '.join(settings)})"

    def children(self) -> Iterator[tuple[str, Component]]:
        """The components this one is made of, with the name that paths use for them."""
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Component):
                yield item.name, value
            elif isinstance(value, tuple) and value and isinstance(value[0], Component):
                for position, child in enumerate(value):
                    yield f"{item.name}[{position}]", child

    def parameters(self) -> dict[str, Any]:
        """Every positive hyper-parameter by its path, such as ``terms[0].variance``."""
        own = {name: getattr(self, name) for name in self.positive}
        for path, child in self.children():
            own |= {f"{path}.{name}": value for name, value in child.parameters().items()}
        return own

    def free_parameters(self) -> dict[str, float]:
        """Those of :meth:`parameters` that are to be learnt."""
        free = {name: getattr(self, name) for name in self.positive if name not in self.fixed}
        for path, child in self.children():
            free |= {f"{path}.{name}": value for name, value in child.free_parameters().items()}
        return free

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        """A copy with these values, by path, in place of its own."""
        if not values:
            return self
        unknown = [k for k in values if k not in self.parameters()]
        if unknown:
            raise ValueError(f"{type(self).__name__} has no hyper-parameter {unknown[0]!r}")
        changes: dict[str, Any] = {k: v for k, v in values.items() if k in self.positive}
        for path, child in self.children():
            prefix = f"{path}."
            inner = {k[len(prefix) :]: v for k, v in values.items() if k.startswith(prefix)}
            name, bracket, position = path.partition("[")
            if not inner:
                continue
            if bracket:
                items = list(changes.get(name, getattr(self, name)))
                items[int(position[:-1])] = child.with_parameters(inner)
                changes[name] = tuple(items)
            else:
                changes[name] = child.with_parameters(inner)
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data (for JSON) from which :func:`from_dict` builds an equal component."""
        # What has no place in the constructor follows from the others.
        names = [item.name for item in fields(self) if item.init]
        return {"type": type(self).__name__} | {n: _plain(getattr(self, n)) for n in names}


def _plain(value: Any) -> Any:
    if isinstance(value, Component):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value  # of numpy


def _built(value: Any) -> Any:
    """What :func:`_plain` was given."""
    if isinstance(value, dict) and "type" in value:
        return from_dict(value)
    return tuple(_built(item) for item in value) if isinstance(value, list) else value


def _is_default(item: Field[Any], value: Any) -> bool:
    if item.default_factory is not MISSING:
        return bool(value == item.default_factory())
    return item.default is not MISSING and bool(value == item.default)


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_written, value))}{',' if len(value) == 1 else ''})"
    return str(value) if isinstance(value, Component) else repr(value)


def aliases(kind: Any) -> dict[str, Any]:
    """The components of a kind that can be asked for by name."""
    classes = [cls for cls in Component.registry.values() if issubclass(cls, kind)]
    return {cls.alias: cls for cls in classes if vars(cls).get("alias")}


def as_component(value: Any, kind: Any, what: str) -> Any:
    """A part of a model that is given as an object or by its alias."""
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and value not in aliases(kind):
        load_components()
    names = aliases(kind)
    if isinstance(value, str) and value in names:
        return names[value]()
    raise ValueError(
        f"{what} must be one of {list(names)}, or an object that is a kind of {kind.__name__}, got "
        f"{value!r}"
    )


def from_dict(data: Mapping[str, Any]) -> Component:
    """The component that :meth:`Component.to_dict` described."""
    settings = dict(data)
    name = settings.pop("type")
    if name not in Component.registry:
        load_components()
    if name not in Component.registry:
        raise UnknownComponentError(
            f"unknown component {name!r}: import the module that defines it first, or use the "
            "version of nodegp that has it"
        )
    kind = Component.registry[name]
    settings = {key: _built(value) for key, value in settings.items()}
    check_types(kind, settings)
    return kind(**settings)
