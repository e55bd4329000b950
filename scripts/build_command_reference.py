"""Write docs/commands.md, the reference of the command line, from the command line itself.

    python scripts/build_command_reference.py

A test compares the page with what this makes, so run it after changing a command.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer

from nodegp.cli.app import app

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"

HEAD = """\
# Command reference

*Generated from the commands by `scripts/build_command_reference.py`; `nodegp COMMAND --help` shows
the same text.*

Exit codes: 0 for success, 1 for bad input (with a one-line error on standard error), 2 for a
command or option that does not exist, 130 if you interrupted it. Results go to standard output,
messages and progress to standard error. A file is written completely or not at all.

`nodegp --install-completion` installs completion with the Tab key in your shell.
"""


def page() -> str:
    """The whole page."""
    root = typer.main.get_command(app)
    parts = [HEAD, _index(root)]
    parts += [_section(path, command) for path, command in _commands(root)]
    return "\n".join(parts)


def _commands(group: Any, path: str = "nodegp") -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its full name."""
    for name, command in group.commands.items():
        full = f"{path} {name}"
        if hasattr(command, "commands"):
            yield from _commands(command, full)
        else:
            yield full, command


def _index(root: Any) -> str:
    rows = ["| command | what it does |", "|---|---|"]
    for path, command in _commands(root):
        summary = inspect.cleandoc(command.help).split("\n\n")[0]
        rows.append(f"| [`{path}`](#{path.replace(' ', '-')}) | {_one_line(summary)} |")
    return "\n".join(rows) + "\n"


def _section(path: str, command: Any) -> str:
    values = _value_names(command)
    lines = [f"## {path}", "", "```text", _usage(path, command, values), "```", ""]
    for paragraph in inspect.cleandoc(command.help).split("\n\n"):
        text = _one_line(paragraph)
        lines += ["```sh", *_wrapped(text), "```", ""] if text.startswith("nodegp ") else [text, ""]
    for title, parameters in _panels(command).items():
        lines += [f"| {title} | |", "|---|---|"]
        lines += [f"| `{_name(p, values)}` | {_meaning(p)} |" for p in parameters]
        lines.append("")
    return "\n".join(lines)


def _value_names(command: Any) -> dict[str, str]:
    """What stands for the value of each parameter, by its Python type."""
    hints = get_type_hints(inspect.unwrap(command.callback))
    kinds = {Path: "FILE", int: "NUMBER", float: "NUMBER"}
    return {
        name: next(
            (text for kind, text in kinds.items() if kind in (hint, *get_args(hint))), "TEXT"
        )
        for name, hint in hints.items()
    }


def _usage(path: str, command: Any, values: dict[str, str]) -> str:
    arguments = [_name(p, values) for p in command.params if p.param_type_name == "argument"]
    needed = [f"{p.opts[0]} {values[p.name]}" for p in _options(command) if p.required]
    return " ".join([path, *arguments, *needed, *(["[OPTIONS]"] if _options(command) else [])])


def _panels(command: Any) -> dict[str, list[Any]]:
    """Arguments and options in the groups that `--help` shows."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    panels = {"Arguments": arguments} if arguments else {}
    for option in _options(command):
        panels.setdefault(getattr(option, "rich_help_panel", None) or "Options", []).append(option)
    return panels


def _options(command: Any) -> list[Any]:
    return [
        p
        for p in command.params
        if p.param_type_name == "option" and not p.hidden and p.name != "help"
    ]


def _name(parameter: Any, values: dict[str, str]) -> str:
    if parameter.param_type_name == "argument":
        name = parameter.metavar.strip("[].") + ("..." if parameter.nargs == -1 else "")
        return name if parameter.required else f"[{name}]"
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {values[parameter.name]}"


def _meaning(parameter: Any) -> str:
    text = _one_line(parameter.help or "").replace("|", "\\|")
    if parameter.required and parameter.param_type_name == "option":
        return f"{text} Required."
    default = parameter.default
    if callable(default) or default is None or isinstance(default, bool) or default == ():
        return text
    return f"{text} Default: `{default}`."


def _wrapped(command: str) -> list[str]:
    """A long command on several lines, as a shell takes it."""
    lines = textwrap.wrap(command, 74, subsequent_indent="  ", break_on_hyphens=False)
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"written to {PAGE}")
