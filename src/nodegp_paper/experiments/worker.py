"""How a worker process begins: with one thread, and with an eye on its parent.

Nothing heavy is imported above: a worker whose parent is killed must notice while it still imports.
"""

from __future__ import annotations

import multiprocessing
import os
import threading

__all__ = ["start_worker"]


def start_worker() -> None:
    """What a worker does first."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
