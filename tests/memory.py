"""How much memory this process has or had, by the system's own account."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

without_proc = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads the peak memory from /proc"
)


def mebibytes(what: str) -> int:
    """``VmRSS`` is what is resident now, ``VmHWM`` the most that ever was; in MiB. (The peak that
    getrusage tells is that of the parent, where the parent had more when it started this one.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(what)).split()[1]) // 1024
