"""A project on a stored graph: the same questions as :class:`~nodegp.app.Project` answers, where
nothing of the size of the graph is in memory."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from nodegp import __version__
from nodegp.app.evaluation import Comparison
from nodegp.app.explanation import explain
from nodegp.app.frontend import SILENT, OptionError, Progress, check_share, refuse_without
from nodegp.app.model import DEFAULT, ModelOptions, describe, refuse_amounts
from nodegp.app.prediction_folder import PartFolder, missing_parts, prediction_folder
from nodegp.app.questions import changes, require_classes
from nodegp.disk import GraphOnDisk, StoreAddress, Threads, on_disk, using, workers
from nodegp.disk.preprocess import fit_preprocessor
from nodegp.estimators import GraphGPClassifier
from nodegp.evaluation import Evaluation
from nodegp.files import lock
from nodegp.identity import fingerprint
from nodegp.io import read_labels
from nodegp.io.stored_ids import StoreIndex
from nodegp.io.summary import class_remarks
from nodegp.io.words import amount
from nodegp.io.write import write_tables
from nodegp.labels import encode
from nodegp.model.plan import Plan, plan_filters, priors_to_weigh
from nodegp.persistence import load, save
from nodegp.prior import FilteredFeatures, SumPrior
from nodegp.propagation import watched
from nodegp.store import open_store
from nodegp.store.arrays import writing

__all__ = ["StoredProject", "memory_of", "working"]

_JUST_MADE = 60.0  # seconds in which a model that predictions are made with is locked for sure
_UNITS = {"": 1, "K": 10, "M": 20, "G": 30, "T": 40}


def memory_of(text: str) -> int:
    """Bytes, written as 4GiB, 512MiB, 4G or a number."""
    plain = text.strip().upper().removesuffix("B").removesuffix("I")
    number, unit = (plain[:-1], plain[-1:]) if plain[-1:].isalpha() else (plain, "")
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if unit not in _UNITS or not value > 0:
        raise OptionError(f"`memory` is an amount such as 4GiB, got {text!r}", "memory")
    return int(value) if not unit else int(value * 2 ** _UNITS[unit])


@contextmanager
def working(memory: str | None = None, cluster: str | None = None) -> Iterator[None]:
    """Work on stored graphs within so much memory, on a cluster if one is named: ``local:2``, or
    the address of a scheduler."""
    limit = memory_of(memory or "4GiB")
    if cluster is None:
        with using(memory=limit):
            yield
        return
    from nodegp.disk.cluster import connected

    with connected(cluster) as client, using(client, memory=limit):
        yield


@dataclass(eq=False)
class StoredProject:
    """A stored graph and a model of it; :meth:`open` and :meth:`fit` make the model."""

    graph: GraphOnDisk
    model: GraphGPClassifier | None = None
    options: ModelOptions = DEFAULT
    progress: Progress = SILENT

    @classmethod
    def at(
        cls, store: str | Path, options: ModelOptions = DEFAULT, progress: Progress = SILENT
    ) -> Self:
        """A stored graph without a model."""
        return cls(on_disk(open_store(store)), None, options, progress)

    @classmethod
    def open(cls, model: str | Path, store: str | Path, progress: Progress = SILENT) -> Self:
        """A model file and the stored graph that it was fitted on."""
        project = cls.at(store, progress=progress)
        fitted = load(model)
        if not isinstance(fitted, GraphGPClassifier):
            raise ValueError(
                f"{model} holds a {type(fitted).__name__}; a project works with classifiers"
            )
        if "store" not in fitted.model_.known_by:
            raise ValueError(
                f"{model} was not fitted on a stored graph; fit one with `nodegp fit --store`"
            )
        fitted.model_ = fitted.model_.with_graph(project.graph)
        project.model = fitted
        return project

    def save(self, path: str | Path) -> None:
        """Write the model; the graph stays where it is."""
        save(self._fitted, path)

    def info(self) -> dict[str, Any]:
        return describe(self._fitted, self.graph)

    # --- a model --------------------------------------------------------------------------------

    def plan_fit(self, labels: Any = None, **columns: Any) -> Plan:
        """What a fit to these labels takes."""
        _, values = self._training_labels(labels, **columns)
        recipe, is_open = self.options.classifier(None).parts()
        if self.graph.is_dense:
            preprocessor = fit_preprocessor(recipe.preprocessing, self.graph.store)
        else:
            preprocessor = recipe.preprocessing.fit(
                self.graph.features, self.graph.n_nodes, self.graph.is_prepared
            )
        per_class = len(values) / len(set(values.tolist()))
        priors = priors_to_weigh(self.graph, preprocessor, recipe, is_open, per_class)
        return plan_filters(self.graph, preprocessor, priors, len(values), is_open=is_open)

    def plan_predict(self) -> Plan:
        """What predictions for all nodes take."""
        model = self._fitted.model_
        priors = [(type(model.recipe.filter).__name__, model.prior)]
        n_labels, n_nodes = len(model.observations.nodes), self.graph.n_nodes
        return plan_filters(self.graph, model.preprocessor, priors, n_labels, n_nodes)

    def fit(
        self, labels: Any = None, classes_anyway: bool = False, **columns: Any
    ) -> dict[str, Any]:
        """Fit a model to a table of ids and labels, or else to the labels that the graph was
        prepared with; ``columns`` as in :func:`nodegp.io.read_labels`."""
        places, values = self._training_labels(labels, **columns)
        counts = Counter(values.tolist())
        if not classes_anyway:
            refuse_amounts(sorted(counts), len(values))
        for remark in class_remarks({name: counts[name] for name in sorted(counts)}):
            self.progress.note(remark)
        model, started = self.options.classifier(None), time.perf_counter()
        with self.progress.stage("fitting"), watched(self.progress.note):
            model.fit(self.graph.store, (self._ids(places), values))
        self.model = model
        return self.info() | {"seconds": time.perf_counter() - started}

    def update(self, labels: Any, new_classes: bool = False, **columns: Any) -> dict[str, Any]:
        """Fit again with more labels, from where the last fit ended."""
        model = self._fitted
        places, values = self._read(labels, model.classes_, **columns)
        if not new_classes:
            require_classes(str(labels), values, model.classes_.tolist())
        known = _Labels(model)
        counts = changes(np.array([known[place] for place in places], dtype=object), values)
        if not any(counts.values()):
            raise ValueError(f"{labels} says nothing new: the model has these labels already")
        with self.progress.stage("fitting"), watched(self.progress.note):
            model.update(places, values)
        return counts | {"model": self.info()}

    def predict(
        self,
        folder: str | Path,
        coverage: float | None = None,
        abstain_below: float | None = None,
        force: bool = False,
    ) -> dict[str, Any]:
        """Predict every node into a folder, with one Parquet file for each part of the graph.
        Files of the same model that are there already, of a run that was killed, are kept."""
        check_share(coverage=coverage, abstain_below=abstain_below)
        model, store = self._fitted, self.graph.store
        with prediction_folder(Path(folder), force) as place:
            self._predict(model, place.absolute(), coverage, abstain_below)
        return {"predictions": store.n_nodes, "files": store.n_parts}

    def _predict(
        self,
        model: GraphGPClassifier,
        place: Path,
        coverage: float | None,
        abstain_below: float | None,
    ) -> None:
        store = self.graph.store
        with watched(self.progress.note):
            _make_filtered(model)  # here, and not in each of the tasks
        chosen, address = workers(), StoreAddress.of(store)
        domain = model.model_.domain()
        if not domain.reads_whole(0):  # columns of labels are in memory, for all parts
            domain.cache.budget = max(domain.cache.budget, chosen.memory)
            chosen = Threads(1, chosen.memory)
        # By way of a file: tasks stay small, whoever does them.
        file = _clear_models(store.path.absolute() / "work") / f".model-{secrets.token_hex(8)}"
        fixed = (file, PartFolder(place), coverage, abstain_below)
        held = ExitStack()
        try:
            with writing(file):
                save(model, file)
            with suppress(OSError):  # a file system without locks
                lock(held.enter_context(file.open("rb")).fileno())
            asked = [store.fingerprint, coverage, abstain_below, __version__]
            missing = missing_parts(place, store, fingerprint(_hash_of(file), asked))
            if len(missing) < store.n_parts:
                there, files = store.n_parts - len(missing), amount(store.n_parts, "file")
                exist = "exists" if there == 1 else "exist"
                self.progress.note(f"{there:,} of {files} {exist} already")
            tasks = [(address, part, *fixed) for part in missing]
            with self.progress.stage("predicting"), watched(self.progress.note):
                chosen.run(predict_part, tasks)
        finally:
            held.close()
            file.unlink(missing_ok=True)

    def explain(
        self, node: Any, for_class: Any = None, n: int = 8, show: Any = None
    ) -> dict[str, Any]:
        """Why a node is predicted as it is, as :meth:`nodegp.app.Project.explain` says it."""
        index = StoreIndex(self.graph.store)
        place = int(index.find(pa.array([str(node)], pa.large_string()))[0])
        if place < 0:
            first = ", ".join(map(str, self._ids(np.arange(min(3, len(index)))).tolist()))
            raise ValueError(f"there is no node {str(node)!r}; ids look like {first}")
        ids: Any = _Ids(self)
        labels: Any = _Labels(self._fitted)
        return explain(self._fitted, ids, labels, {}, place, for_class, n)

    def evaluate(
        self,
        labels: Any,
        coverage: float | None = None,
        abstain_below: float | None = None,
        **columns: Any,
    ) -> Comparison:
        """Score the model on labels of nodes that it was not fitted to."""
        check_share(coverage=coverage, abstain_below=abstain_below)
        model = self._fitted
        places, values = self._read(labels, model.classes_, **columns)
        fresh = ~np.isin(places, model.labelled_)
        if not fresh.any():
            raise ValueError(
                f"{labels} has no label that the model has not seen: nothing to score on"
            )
        if not fresh.all():
            seen = int((~fresh).sum())
            one = f"label of {labels} is a training label and is"
            many = f"labels of {labels} are training labels and are"
            self.progress.note(f"{amount(seen, one, many)} left out")
        places, values = places[fresh], values[fresh]
        require_classes(str(labels), values, model.classes_.tolist())
        order = np.argsort(places)
        places, targets = places[order], encode(values[order], model.classes_)[1]
        with watched(self.progress.note):
            proba = model.predict_proba(nodes=places)
            sets = None if coverage is None else model.predict_set(None, places, coverage)
        scores = Evaluation("held-out nodes", model.classes_, places, targets, proba, sets)
        return Comparison({"nodegp": scores}, coverage, abstain_below)

    # --- ids and labels -------------------------------------------------------------------------

    @property
    def _fitted(self) -> GraphGPClassifier:
        if self.model is None:
            raise ValueError("there is no model yet; fit one first")
        return self.model

    def _ids(self, nodes: np.ndarray) -> np.ndarray:
        return self.graph.store.ids_at(nodes) if self.graph.store.has_ids else nodes

    def _training_labels(self, labels: Any, **columns: Any) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and labels of a table, or those that the graph was prepared with."""
        if labels is not None:
            return self._read(labels, None, **columns)
        store, wanted = self.graph.store, columns.pop("label", None)
        if store.label_name is None:
            raise OptionError(
                f"{store.path} was prepared without labels: say where they are with `labels`, a "
                "table of ids and labels, or prepare it again with `label`, their column",
                *("labels", "label"),
            )
        if wanted not in (None, store.label_name):
            raise OptionError(
                f"{store.path} has the labels of column {store.label_name!r}, not of {wanted!r}: "
                "leave `label` out, prepare it again with that column, or give a table of ids and "
                "labels with `labels`",
                *("label", "labels"),
            )
        refuse_without("labels", "the stored graph has its labels", columns)
        return store.labelled()

    def _read(self, labels: Any, classes: Any, **columns: Any) -> tuple[np.ndarray, np.ndarray]:
        columns = {name: value for name, value in columns.items() if value is not None}
        index = StoreIndex(self.graph.store)
        return read_labels(labels, index, classes=classes, **columns)


class _Ids:
    """Ids of a stored graph, by number."""

    def __init__(self, project: StoredProject):
        self._project = project

    def __getitem__(self, node: Any) -> Any:
        return self._project._ids(np.array([node]))[0]


class _Labels:
    """Labels of a model, by number; None at nodes without."""

    def __init__(self, model: GraphGPClassifier):
        self._by_node = dict(zip(model.labelled_.tolist(), model.labels_.tolist(), strict=True))

    def __getitem__(self, node: Any) -> Any:
        return self._by_node.get(int(node))


def predict_part(
    address: StoreAddress,
    part: int,
    model: Path,
    folder: PartFolder,
    coverage: float | None,
    abstain_below: float | None,
) -> None:
    """Predict the nodes of a part into a file."""
    store = address.open()
    rows = store.rows_of(part)
    tables = _model_at(model).predict_frames(
        store, np.arange(rows.start, rows.stop), coverage=coverage, abstain_below=abstain_below
    )
    with writing(folder.file(part)):
        write_tables(folder.file(part), tables)


def _clear_models(folder: Path) -> Path:
    """The folder without the models of predictions that were killed."""
    folder.mkdir(exist_ok=True)
    for left in folder.glob(".model-*"):
        with suppress(OSError):  # whoever works with it has locked it
            if time.time() - left.stat().st_mtime > _JUST_MADE:
                with left.open("rb") as file:
                    lock(file.fileno())
                    left.unlink()
    return folder


def _hash_of(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


@lru_cache(maxsize=1)
def _model_at(path: Path) -> GraphGPClassifier:
    """A model, which each process reads once."""
    model: GraphGPClassifier = load(path)
    return model


def _make_filtered(model: GraphGPClassifier) -> None:
    """Have all filtered features that a model asks for."""
    prior, domain = model.prior_, model.model_.domain()
    for part in prior.parts if isinstance(prior, SumPrior) else (prior,):
        if isinstance(part, FilteredFeatures) and domain.reads_whole(0):
            part.where(domain).whole(part.filter.polynomial())
