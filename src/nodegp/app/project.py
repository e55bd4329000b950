"""A project: a graph with some labels, a model of it once one is fitted, and answers that wait.

All that a front end does with a user's data goes through here: every method gives a result that is
data, says how far it is to a :class:`~nodegp.app.frontend.Progress`, and raises a sentence where
something is wrong with what it was given.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from nodegp import evaluation
from nodegp.active import suggest
from nodegp.app.evaluation import Comparison, rivals
from nodegp.app.explanation import explain
from nodegp.app.frontend import SILENT, OptionError, Progress, check_share, refuse_without
from nodegp.app.model import DEFAULT, ModelOptions, describe, refuse_amounts
from nodegp.app.opening import open_model, shown_columns
from nodegp.app.outlook import outlook
from nodegp.app.predictions import Predictions
from nodegp.app.questions import (
    Labels,
    Questions,
    as_pairs,
    asked_about,
    changes,
    positions,
    require_classes,
)
from nodegp.estimators import GraphGPClassifier
from nodegp.graph import Graph
from nodegp.io import Encoder, Loaded, Summary, TableSource, join_tables, read_labels, read_tables
from nodegp.io.labels import targets_of
from nodegp.labels import is_labelled
from nodegp.persistence import save

__all__ = ["ModelOptions", "OptionError", "Progress", "Project"]

_FOLDS = 5  # where other methods are compared with, and nothing is said


@dataclass(eq=False)
class Project:
    """A user's graph, labels and model; :meth:`from_tables` and :meth:`open` make one."""

    graph: Graph
    model: GraphGPClassifier | None = None
    loaded: Loaded | None = None  # what was read, if it was
    tables: dict[str, Any] = field(default_factory=dict)  # encoder and columns, as in a model file
    options: ModelOptions = DEFAULT
    progress: Progress = SILENT
    # By node number: they wait for a fit or an update.
    _answers: dict[int, Any] = field(default_factory=dict, init=False)

    @classmethod
    def from_tables(
        cls,
        nodes: Any = None,
        edges: Any = None,
        *,
        options: ModelOptions = DEFAULT,
        progress: Progress = SILENT,
        **columns: Any,
    ) -> Self:
        """Read a graph, with or without labels; ``columns`` as in :class:`nodegp.io.TableSource`.

        ``options`` are those of the later fit; they determine how words and counts are weighted.
        """
        source = TableSource(nodes, edges, counts=options.counts, **columns)
        with progress.stage("reading"):
            loaded = read_tables(source)
        tables = {
            "encoder": loaded.encoder.to_dict(),
            "shown": loaded.shown,
            "id": loaded.id_name,
            "label": loaded.label_name or "label",
        }
        return cls(loaded.graph, None, loaded, tables, options, progress)

    @classmethod
    def open(cls, path: str | Path, progress: Progress = SILENT) -> Self:
        """Open a model file that contains its graph."""
        model, tables = open_model(path)
        return cls(model.graph_, model, tables=tables, progress=progress)

    def save(self, path: str | Path) -> None:
        """Write the model with its graph, so that :meth:`open` needs nothing else."""
        save(self._fitted, path, include_graph=True, tables=self.tables or None)

    # --- what is there --------------------------------------------------------------------------

    @property
    def summary(self) -> Summary:
        """What came in from tables."""
        if self.loaded is None:
            raise ValueError("a model file does not tell what its tables looked like")
        return self.loaded.summary

    @property
    def sources(self) -> list[str]:
        """What the features were made from, as far as that is known."""
        return self._encoder.describe() if self.tables else []

    @property
    def ids(self) -> np.ndarray:
        """The user's names of the nodes, or their numbers."""
        return np.arange(self.graph.n_nodes) if self.graph.ids is None else self.graph.ids

    def shown(self, columns: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """What people are shown of each node, by column: these, or all that the model remembers."""
        return shown_columns(self.tables, columns)

    @property
    def labels(self) -> np.ndarray:
        """The labels of the model, or those to fit one to; None at nodes without."""
        if self.model is None and self.loaded is not None and self.loaded.labels is not None:
            return self.loaded.labels
        y = np.full(self.graph.n_nodes, None, dtype=object)
        if self.model is not None:
            y[self.model.labelled_] = self.model.labels_
        return y

    @property
    def classes(self) -> list[Any]:
        """The classes of the model, or of the labels and answers so far."""
        if self.model is not None:
            return self.model.classes_.tolist()
        return sorted({label for label in self._with_answers() if label is not None})

    def info(self) -> dict[str, Any]:
        """The model in numbers, as :func:`nodegp.app.model.describe` gives them."""
        return describe(self._fitted, self.graph)

    # --- a model --------------------------------------------------------------------------------

    def fit(self, classes_anyway: bool = False) -> dict[str, Any]:
        """Fit a model to the labels and pending answers; returns :meth:`info` and ``seconds``.

        Numeric labels that nearly all differ are refused, unless ``classes_anyway``.
        """
        y = self._with_answers()
        if not is_labelled(y, None).any():
            raise ValueError("no node has a label yet; name a column of labels, or answer some")
        if not classes_anyway:
            refuse_amounts(self.classes, int(is_labelled(y, None).sum()))
        y, unlabelled = targets_of(y)
        if self.loaded is None and self.model is not None:
            model = clone(self.model).set_params(unlabelled=unlabelled)
        else:
            model = self.options.classifier(unlabelled)
        started = time.perf_counter()
        with self.progress.stage("fitting"):
            model.fit(self.graph, y)
        seconds = time.perf_counter() - started
        self.model, self._answers = model, {}
        return self.info() | {"seconds": seconds}

    def predict(
        self,
        ids: Iterable[Any] | None = None,
        *,
        nodes: Any = None,
        coverage: float | None = None,
        abstain_below: float | None = None,
        show: Sequence[str] = (),
        **tables: Any,
    ) -> Predictions:
        """Predict every node, those with these ids, or the rows of a table of new nodes.

        Parameters
        ----------
        ids : known nodes
        nodes : table of nodes to join to the graph, and ``tables`` as in
            :func:`nodegp.io.join_tables`
        coverage : target coverage of prediction sets
        abstain_below : no label where the most probable class has a lower probability than this
        show : columns of :meth:`shown` to include, for known nodes
        """
        check_share(coverage=coverage, abstain_below=abstain_below)
        model, graph = self._fitted, self.graph
        if ids is not None and nodes is not None:
            raise OptionError("give `ids` or `nodes`, not both", "ids", "nodes")
        places = None if ids is None else positions(ids, self.ids)
        if nodes is not None:
            if show:
                raise OptionError("`show` is for nodes that the model knows", "show")
            with self.progress.stage("reading"):
                graph, places = join_tables(
                    graph, self._encoder, nodes, usual_id=self._columns[0], **tables
                )
        else:
            refuse_without("nodes", "give the new nodes too", tables)
        beside = self.shown(show)
        return Predictions(
            model, graph, places, coverage, abstain_below, self._columns[0], beside, self.progress
        )

    def explain(
        self, node: Any, for_class: Any = None, n: int = 8, show: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """The ``n`` labels and neighbours that contribute most to the prediction of a node, as in
        :func:`nodegp.app.explanation.explain`. ``show`` is as in :meth:`shown`."""
        place = int(positions([node], self.ids)[0])
        return explain(self._fitted, self.ids, self.labels, self.shown(show), place, for_class, n)

    def evaluate(
        self,
        *,
        folds: int | None = None,
        labels: Labels | None = None,
        compare: Sequence[str] = (),
        coverage: float | None = None,
        abstain_below: float | None = None,
        seed: int = 0,
        **columns: Any,
    ) -> Comparison:
        """Score the model on labels that it has not seen.

        By default leave-one-out; cross-validation with ``folds``; with ``labels`` it is scored on
        held-out labels, and ``columns`` are as in :meth:`answer`. ``compare`` names baselines of
        :mod:`nodegp.plugins`, which need one of the two: 5 folds by default.
        """
        check_share(coverage=coverage, abstain_below=abstain_below)
        if folds is not None and labels is not None:
            raise OptionError("give `folds` or `labels`, not both", "folds", "labels")
        model, baselines = self._fitted, rivals(compare, seed, self.graph, self.progress)
        if labels is None:
            refuse_without("labels", "name a table of labels too", columns)
        if labels is not None:
            y = self._unseen(*self._read(labels, **columns))
            scores = {"nodegp": evaluation.against(model, y, coverage=coverage)}
            for name, other in baselines.items():
                with self.progress.stage(f"fitting {name}"):
                    other.fit(self.graph, self.labels, classes=model.classes_)
                scores[name] = evaluation.against(other, y)
        elif folds is None and not baselines:
            scores = {"nodegp": evaluation.leave_one_out(model, coverage)}
        else:
            folds, scores = folds or _FOLDS, {}
            for name, method in {"nodegp": model, **baselines}.items():
                with self.progress.stage(f"{name}: {folds} fits", folds):
                    scores[name] = evaluation.cross_validate(
                        method, self.graph, self.labels, folds, classes=model.classes_,
                        random_state=seed, coverage=coverage,
                        progress=lambda done: self.progress.advance(),
                    )  # fmt: skip
        return Comparison(scores, coverage, abstain_below)

    # --- questions and answers ------------------------------------------------------------------

    def query(
        self,
        n: int = 10,
        strategy: str = "sopt",
        seed: int = 0,
        show: Sequence[str] | None = None,
    ) -> Questions:
        """The ``n`` nodes to ask about next, none of them labelled or answered; also where there
        is no model yet. ``show`` is as in :meth:`shown`."""
        y = self._with_answers() if self.model is None else self.labels
        unanswered = np.setdiff1d(np.arange(self.graph.n_nodes), list(self._answers))
        with self.progress.stage("choosing"):
            choice = suggest(
                self.graph,
                n,
                strategy,
                y=y if is_labelled(y, None).any() else None,
                model=self.model,
                candidates=unanswered,
                unlabelled=None,
                random_state=seed,
            )
        columns = asked_about(
            self.graph, self.model, choice, y, self.ids, self._columns, self.shown(show)
        )
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        heads = tuple(columns) if rows else self._columns
        return Questions(strategy, choice.score_means, rows, heads, choice.note)

    def answer(
        self, labels: Labels, *, new_classes: bool = False, **columns: Any
    ) -> dict[str, int]:
        """Take labels, to be used by the next :meth:`update` or :meth:`fit`.

        Returns the numbers of ``new_labels`` and ``replaced_labels``, and of all answers
        ``waiting``.

        Parameters
        ----------
        labels : table of ids and labels, or pairs of them; rows without a label are skipped
        new_classes : accept classes that the model does not know, which are an error otherwise
        columns : for a table, ``id`` and ``label``, by default those of the project's own tables,
            ``ignore_unknown`` to skip ids that no node has, and ``sep`` and ``encoding`` of text
        """
        source, places, values = self._read(labels, **columns)
        if not len(places):
            raise ValueError(f"{source} has no labels yet; fill in the label column first")
        if self.model is not None and not new_classes:
            require_classes(source, values, self.classes)
        counts = changes(self._with_answers()[places], values)
        if not any(counts.values()):
            raise ValueError(f"{source} says nothing new: the model has these labels already")
        self._answers.update(zip(places.tolist(), values.tolist(), strict=True))
        return counts | {"waiting": len(self._answers)}

    def update(self) -> dict[str, Any]:
        """Update the model with the pending answers, starting from the last fit.

        Returns the numbers of ``new_labels`` and ``replaced_labels``; how much the predictions of
        unlabelled nodes ``changed`` and ``moved``, whether to ``stop``, the ``expected_gain`` of
        one more label, and the same in words as ``advice`` (each None if every node has a label);
        and the ``model`` as in :meth:`info`.
        """
        model = self._fitted
        if not self._answers:
            raise ValueError("there are no answers to update the model with; give some before")
        places, labels = np.array(list(self._answers)), list(self._answers.values())
        values = np.array(labels, dtype=object if isinstance(labels[0], str) else None)
        counts = changes(self.labels[places], values)
        earlier, classes = model.predict_proba(), model.classes_
        with self.progress.stage("fitting"):
            model.update(places, values)
        self._answers = {}
        change = outlook(model, self.labels, earlier, classes, len(places), self.progress)
        return counts | change | {"model": self.info()}

    # --- labels and ids -------------------------------------------------------------------------

    @property
    def _fitted(self) -> GraphGPClassifier:
        if self.model is None:
            raise ValueError("there is no model yet; fit one first")
        return self.model

    @property
    def _encoder(self) -> Encoder:
        """What turns later rows into features."""
        if "encoder" not in self.tables:
            raise ValueError(
                "this model was not made by `nodegp fit`, so it does not know how to turn tables "
                "into its features; predict on new nodes in Python"
            )
        return Encoder.from_dict(self.tables["encoder"])

    @property
    def _columns(self) -> tuple[str, str]:
        """The user's names of the columns of ids and labels."""
        return self.tables.get("id", "id"), self.tables.get("label", "label")

    def _with_answers(self) -> np.ndarray:
        """The labels, with the answers that wait."""
        y = self.labels.copy()
        for place, value in self._answers.items():
            y[place] = value
        return y

    def _read(
        self,
        labels: Labels,
        id: str | None = None,
        label: str | None = None,
        ignore_unknown: bool = False,
        **text: str | None,
    ) -> tuple[str, np.ndarray, np.ndarray]:
        """Where labels are from, their nodes' numbers, and the labels."""
        is_frame = hasattr(labels, "__arrow_c_stream__")
        if not isinstance(labels, str | Path) and not is_frame:
            refuse_without("labels", "they name columns of a table", {"id": id, "label": label})
            answers = as_pairs(labels, self.classes)
            values = np.array(list(answers.values()), dtype=object)
            return "the list of answers", positions(answers, self.ids), values
        places, values = read_labels(
            labels, self.ids, id, label, usual=self._columns, classes=self.classes,
            ignore_unknown=ignore_unknown, **text,
        )  # fmt: skip
        return "the labels table" if is_frame else str(labels), places, values

    def _unseen(self, source: str, places: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Labels at nodes that the model was not fitted to, one entry per node."""
        fresh = ~np.isin(places, self._fitted.labelled_)
        if not fresh.any():
            raise ValueError(
                f"{source} has no label that the model has not seen: nothing to score on"
            )
        if not fresh.all():
            seen = int((~fresh).sum())
            self.progress.note(f"{seen:,} labels of {source} are training labels and are left out")
        y = np.full(self.graph.n_nodes, None, dtype=object)
        y[places[fresh]] = values[fresh]
        return y
