"""The command line. Each command is a module of its own; none holds any maths."""

from nodegp.cli.app import main

__all__ = ["main"]
