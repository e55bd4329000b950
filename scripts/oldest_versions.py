"""Print the lowest versions that pyproject.toml allows, as requirements for pip.

    python scripts/oldest_versions.py                        # of the library and its extras
    python scripts/oldest_versions.py --but torch==2.13.0    # a release that can be had here

`make test-oldest` installs them into build/oldest and runs the tests with them. torch is the
exception that is usually needed: old releases of its CPU build are not on every index.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
EXTRAS = ("baselines", "reports", "interop", "excel", "label")
FOR_TESTS = ("pandas", "polars")  # of the extra dev, whose tools are taken as they are
_FLOOR = re.compile(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)")


def floors(extras: tuple[str, ...] = EXTRAS) -> dict[str, str]:
    """Package -> the lowest version allowed."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    tools = project["optional-dependencies"]["dev"]
    wanted += [tool for tool in tools if tool.startswith(FOR_TESTS)]
    found = {}
    for requirement in wanted:
        match = _FLOOR.match(requirement)
        if match is None:
            raise ValueError(f"{requirement!r} has no lowest version; give it one with >=")
        found[match[1]] = match[2]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="The lowest versions that are allowed.")
    parser.add_argument("--but", action="append", default=[], metavar="NAME==VERSION")
    options = parser.parse_args()
    pinned = floors() | dict(other.split("==", 1) for other in options.but)
    print("\n".join(f"{name}=={version}" for name, version in pinned.items()))


if __name__ == "__main__":
    main()
