"""The state of a long optimisation, on disk: one safetensors file, no pickle.

A checkpoint belongs to one fit. Its fingerprint says which: a file of another fit is left
alone and the fit begins anew, over it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from nodegp.files import write_atomically

__all__ = ["optimiser_tensors", "read", "restore_optimiser", "write"]


def write(path: Path, mark: str, state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Store numbers and lists (``state``) and tensors under a fingerprint."""
    stored = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    metadata = {"fingerprint": mark, "state": json.dumps(state)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, save(stored, metadata))


def read(path: Path, mark: str) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """What was stored under this fingerprint, or None."""
    if not path.is_file():
        return None
    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("fingerprint") != mark:
                return None
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return json.loads(metadata["state"]), tensors
    except (SafetensorError, KeyError, json.JSONDecodeError):
        return None  # cut short or foreign: as good as none


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimiser's memory under flat names."""
    return {
        f"optimiser.{i}.{key}": torch.as_tensor(value)
        for i, memory in optimiser.state_dict()["state"].items()
        for key, value in memory.items()
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of :func:`optimiser_tensors`."""
    memory: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimiser."):
            _, i, key = name.split(".")
            memory.setdefault(int(i), {})[key] = value
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": memory, "param_groups": groups})
