"""What a person wants to know of a fitted model first: what counted, and how far to believe it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["belief", "views_in_words"]

# Views that do not look along the graph's own edges.
_WITHOUT_EDGES = ("own features", "own features, curved", "nodes alike")
_MOSTLY = 0.8
_ERRORS = 2.0  # standard errors by which predictions must beat guessing


def views_in_words(selection: Sequence[Mapping[str, Any]]) -> str:
    """Which views of the graph count, and how much, in one line; empty if nothing was weighed."""
    if not selection:
        return ""
    weights = {score["name"]: score["weight"] for score in selection}
    listed = sorted(((w, name) for name, w in weights.items() if w >= 0.005), reverse=True)
    parts = ", ".join(f"{name} {weight:.2f}" for weight, name in listed)
    if all(score["log_loss"] is None for score in selection):
        return f"{parts} (typical weights: too few labels to tell)"
    by_edges = sum(w for name, w in weights.items() if name not in _WITHOUT_EDGES)
    helps = "yes" if by_edges >= _MOSTLY else "no" if by_edges <= 1.0 - _MOSTLY else "in part"
    return f"edges help: {helps}; {parts}"


def belief(scores: Mapping[str, Any]) -> str:
    """How far the probabilities can be believed, from the scores of labels left out."""
    accuracy, error, n_labels = scores["accuracy"], scores["accuracy_error"], scores["n"]
    gain, gain_error = scores["gain"], scores["gain_error"]
    if not gain > _ERRORS * gain_error:
        return (
            f"not yet: with {n_labels} labels the model cannot be told from guessing "
            f"({gain:+.2f} ± {gain_error:.2f} nats per label). Label more nodes"
        )
    low, high = max(accuracy - _ERRORS * error, 0.0), min(accuracy + _ERRORS * error, 1.0)
    return (
        f"better than guessing by {gain:.2f} ± {gain_error:.2f} nats per label; expected accuracy "
        f"{low:.0%} to {high:.0%}, estimated from {n_labels} labels"
    )
