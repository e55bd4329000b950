"""How to install what only some of the library needs."""

__all__ = ["to_install"]


def to_install(extra: str) -> str:
    """The command, for users and for those who have a checkout."""
    return f"pip install 'nodegp[{extra}]', or in a checkout: pip install '.[{extra}]'"
