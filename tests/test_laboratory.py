"""The laboratory is built on public names of the library, and says which of its own are public."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

LABORATORY = Path(__file__).parents[1] / "src" / "nodegp_paper"
MODULES = sorted(path.relative_to(LABORATORY.parent) for path in LABORATORY.rglob("*.py"))

every_module = pytest.mark.parametrize("module", MODULES, ids=str)


def imports(module: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of everything that is imported from ours, wherever in the file."""
    for node in ast.walk(ast.parse((LABORATORY.parent / module).read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "*") for alias in node.names)


@every_module
def test_only_public_names_of_the_library_are_used(module):
    for home, name in imports(module):
        if home.partition(".")[0] == "nodegp":
            public = getattr(import_module(home), "__all__", [])
            assert name in public, f"{module} imports {name} from {home}, which is not in __all__"


@every_module
def test_nothing_private_is_imported(module):
    for home, name in imports(module):
        if home.partition(".")[0] == "nodegp_paper":
            parts = [*home.split("."), name]
            assert not [p for p in parts if p.startswith("_")], f"{module}: {home}.{name}"


@every_module
def test_every_module_says_what_others_may_import(module):
    loaded = import_module(".".join(module.with_suffix("").parts).removesuffix(".__init__"))
    homes = {getattr(value, "__module__", None) for value in vars(loaded).values()}
    if loaded.__name__ not in homes:
        return  # a package that only gathers modules
    assert loaded.__all__ == sorted(loaded.__all__, key=_ruff_order)
    assert all(hasattr(loaded, name) for name in loaded.__all__)


@every_module
def test_what_is_imported_is_public_in_the_laboratory_too(module):
    for home, name in imports(module):
        if home.partition(".")[0] == "nodegp_paper":
            is_submodule = (LABORATORY.parent / Path(*home.split("."), f"{name}.py")).exists()
            public = getattr(import_module(home), "__all__", [])
            assert is_submodule or name in public, f"{module} imports {home}.{name}"


def _ruff_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name
