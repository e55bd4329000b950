"""Every module says what is public, and others import nothing else: within the library, within the
laboratory that is built on it, and from the one to the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MODULES = sorted(
    path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if path.name != "__main__.py"
)

every_module = pytest.mark.parametrize("module", MODULES, ids=str)


def imports(module: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of everything that is imported from ours, wherever in the file."""
    for node in ast.walk(ast.parse((SOURCE / module).read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "*") for alias in node.names)


@every_module
def test_every_module_says_what_others_may_import(module):
    loaded = import_module(".".join(module.with_suffix("").parts).removesuffix(".__init__"))
    homes = {getattr(value, "__module__", None) for value in vars(loaded).values()}
    if loaded.__name__ not in homes:
        return  # a package that only gathers modules
    assert loaded.__all__ == sorted(loaded.__all__, key=_ruff_order)
    assert all(hasattr(loaded, name) for name in loaded.__all__)


@every_module
def test_what_is_imported_is_public(module):
    for home, name in imports(module):
        if home.partition(".")[0] in ("nodegp", "nodegp_paper"):
            folder = SOURCE / Path(*home.split("."), name)
            is_submodule = folder.is_dir() or folder.with_suffix(".py").exists()
            public = getattr(import_module(home), "__all__", [])
            assert is_submodule or name in public, f"{module} imports {home}.{name}"


def _ruff_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name
