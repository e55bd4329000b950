"""The runs of the zoo by method, graph and labels per class: ranks, regret, and what is best.

Methods are compared where they have the same labels; those with validation labels stand beside
them, and have neither rank nor regret. A difference is one between runs on the same splits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from operator import itemgetter
from statistics import mean

import numpy as np
from scipy.stats import rankdata

from nodegp_paper.experiments.results import Score, percent, standard_error
from nodegp_paper.experiments.store import Record, select
from nodegp_paper.experiments.tasks import zoo

__all__ = ["LOSS", "Case", "Regret", "Zoo", "covers"]

LOSS: Score = itemgetter("log_loss")
Case = tuple[str, int]  # a graph, and labels per class


@dataclass(frozen=True)
class Regret:
    """How far a method is below the best one with the same labels, in points of accuracy."""

    points: float
    error: float | None  # standard error of the paired difference
    case: Case
    best: str

    @property
    def counts(self) -> bool:
        """Whether it is more than 1.5 points, and more than chance may have made it."""
        return self.points > 1.5 and self.points > 2 * (self.error or 0.0)


@dataclass(frozen=True)
class Zoo:
    """All runs of the splits."""

    runs: dict[tuple[str, str, int], list[Record]]

    @classmethod
    def of(cls, records: Iterable[Record]) -> Zoo:
        runs: dict[tuple[str, str, int], list[Record]] = {}
        for record in select(records, task=zoo.SPLITS.name):
            spec = record.spec
            runs.setdefault((spec.model, spec.dataset, spec.settings["per_class"]), []).append(
                record
            )
        return cls(runs)

    # --- what there is ------------------------------------------------------------------------

    @cached_property
    def methods(self) -> list[str]:
        return self._in_order(zoo.METHODS, {method for method, _, _ in self.runs})

    @property
    def rivals(self) -> list[str]:
        """The methods with the same labels."""
        return [name for name in self.methods if not zoo.METHODS[name].has_validation]

    @cached_property
    def graphs(self) -> list[str]:
        return self._in_order(zoo.GRAPHS, {graph for _, graph, _ in self.runs})

    @cached_property
    def sizes(self) -> list[int]:
        return sorted({size for _, _, size in self.runs})

    @property
    def cases(self) -> list[Case]:
        there = {(graph, size) for _, graph, size in self.runs}
        return [case for case in product(self.graphs, self.sizes) if case in there]

    def of_size(self, per_class: int) -> Zoo:
        return Zoo({key: runs for key, runs in self.runs.items() if key[2] == per_class})

    def complete(self) -> list[Case]:
        """The cases in which there is every method, so that means over them can be compared."""
        return [case for case in self.cases if all((m, *case) in self.runs for m in self.methods)]

    @staticmethod
    def _in_order(order: Iterable[str], names: set[str]) -> list[str]:
        return [name for name in order if name in names]

    # --- scores -------------------------------------------------------------------------------

    def values(self, method: str, case: Case, score: Score) -> list[float]:
        return [score(run.metrics) for run in self.runs.get((method, *case), [])]

    def mean(self, method: str, cases: Sequence[Case], score: Score) -> float | None:
        """Of the means of these cases; None if one of them is missing."""
        found = [self.values(method, case, score) for case in cases]
        return mean(map(mean, found)) if found and all(found) else None

    def gaps(self, method: str, other: str, case: Case, score: Score = percent) -> list[float]:
        """The other's score less this one's, split by split."""
        ours, theirs = (
            {run.spec.seed: score(run.metrics) for run in self.runs.get((name, *case), [])}
            for name in (method, other)
        )
        return [theirs[seed] - ours[seed] for seed in sorted(ours.keys() & theirs.keys())]

    def regret(self, method: str, case: Case) -> Regret | None:
        """Against the best of the rivals, on the splits that both have; None without one."""
        if (method, *case) not in self.runs:
            return None
        gaps = {other: self.gaps(method, other, case) for other in self.rivals}
        means = {other: mean(gap) for other, gap in gaps.items() if gap}
        if not means:
            return None
        best = max(means, key=lambda other: (means[other], other == method))  # itself among equals
        return Regret(means[best], standard_error(gaps[best]), case, best)

    def regrets(self, method: str) -> list[Regret]:
        found = (self.regret(method, case) for case in self.cases)
        return [regret for regret in found if regret is not None]

    def ranks(self, case: Case, score: Score = percent) -> dict[str, float]:
        """1 is the best of the rivals there are, by the splits that all of them have."""
        present = [name for name in self.rivals if (name, *case) in self.runs]
        by_seed = [
            {run.spec.seed: score(run.metrics) for run in self.runs[(name, *case)]}
            for name in present
        ]
        shared = set.intersection(*map(set, by_seed)) if by_seed else set()
        if not shared:
            return {}
        means = [mean(scores[seed] for seed in shared) for scores in by_seed]
        ranks = rankdata(-np.round(means, 9))
        return dict(zip(present, ranks.tolist(), strict=True))

    def mean_rank(self, method: str) -> float | None:
        found = [ranks[method] for case in self.cases if method in (ranks := self.ranks(case))]
        return mean(found) if found else None

    def worst_regret(self, method: str) -> Regret | None:
        return max(self.regrets(method), key=lambda regret: regret.points, default=None)

    # --- probabilities ------------------------------------------------------------------------

    def uniform_loss(self, case: Case) -> float:
        """The log loss of uniform guessing."""
        runs = (self.runs.get((method, *case), []) for method in self.methods)
        loss: float = next(found[0].metrics["uniform_log_loss"] for found in runs if found)
        return loss

    def above_uniform(self, method: str, case: Case) -> float | None:
        """Log loss less that of uniform guessing."""
        losses = self.values(method, case, LOSS)
        return mean(losses) - self.uniform_loss(case) if losses else None

    def lowest_losses(self) -> dict[str, int]:
        """In how many cases each of the rivals has the lowest log loss of all of them."""
        counts = dict.fromkeys(self.rivals, 0)
        for case in self.cases:
            for method, rank in self.ranks(case, lambda metrics: -LOSS(metrics)).items():
                counts[method] += rank == 1
        return counts

    def calibration(self, method: str, case: Case) -> float | None:
        """Debiased calibration error over the splits, on the scale of a probability."""
        squares = self.values(method, case, itemgetter("debiased_calibration_error"))
        return max(mean(squares), 0.0) ** 0.5 if squares else None


def covers(percents: Sequence[float]) -> bool:
    """Whether sets of 90 % cover as they should: 87 to 94 %, or 90 % for all that is known."""
    middle, error = mean(percents), standard_error(percents) or 0.0
    return 87 <= middle <= 94 or abs(middle - 90) <= 2 * error
