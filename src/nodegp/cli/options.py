"""The options of all commands as data, and what makes a command of a function that takes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from nodegp.app.frontend import STRATEGY_NAMES, OptionError

__all__ = ["comma_list", "table_files", "table_options", "takes"]

_FILES = "csv, tsv, txt (also gzipped), parquet, xlsx or json"

# The help of each option, by the panel of --help that it stands in. "fit label" is the option
# `label` of `nodegp fit`, where other commands have another.
_PANELS: dict[str | None, dict[str, str]] = {
    "Your tables": {
        "nodes": f"Table with a row per node: {_FILES}.",
        "edges": f"Table with a row per edge: {_FILES}.",
        "prepare nodes": f"File or folder with a row per node: {_FILES}.",
        "prepare edges": f"File or folder with a row per edge: {_FILES}.",
        "id": "Column of the nodes' ids; the first by default.",
        "fit label": "Column of the labels, empty where there is none.",
        "fit labels": "Table of ids and labels, if they are not among the nodes.",
        "label label": "Column of labels that are there already, empty where there is none.",
        "label labels": "Table of ids and labels that are there already.",
        "prepare label": "Column of the labels, empty where there is none: they are kept for "
        "`nodegp fit --store`, and are no feature.",
        "source": "Column of the edges' one end; the first.",
        "target": "Column of the edges' other end; the second.",
        "weight": "Column of the edges' weights.",
        "features": "Columns that are features, with commas; by default all that hold numbers, but "
        "for ids and the like; none for no column. Text in them is taken for categories.",
        "prepare features": "Columns that are features, with commas; by default all that hold "
        "numbers or lists of them, but for ids and the like; none for no column.",
        "exclude": "Columns that are no features.",
        "prepare exclude": "Columns that are no features, such as other labels.",
        "fit show": "Columns to show people of a node, such as its title; text columns by default.",
        "label show": "Columns to show of a node, the title first; text columns by default, or "
        "those that the model remembers.",
        "query show": "Columns to show of a node; by default those that the model remembers.",
        "explain show": "Columns to show of a node; by default those that the model remembers.",
        "predict show": "Columns that the model remembers, to set beside the ids.",
        "text": "Columns of text, whose words become features.",
        "svd": "Reduce words and other wide sparse features to so many dense columns: 128.",
        "categorical": "Columns of categories, if they look like numbers.",
        "features_npy": "Dense features (numpy .npy), rows in the order of the nodes.",
        "features_npz": "Sparse features (scipy .npz), rows in the order of the nodes.",
        "features_table": "Table of more features, rows by id; or JSON of id: [numbers].",
        "graph": "GraphML, GEXF or GML in place of --nodes and --edges; attributes are columns.",
        "knn": "Without edges: link each node to so many nearest by features.",
        "classes_anyway": "Take numbers for classes though nearly all of them differ.",
        "prepare ignore_unknown": "Leave out edges of ids that no node has, up to half of all.",
        "ignore_unknown": "Leave out edges and labels of ids that no node has, up to half of all.",
        "sep": "What separates fields of text: a character, tab or space; found out by default.",
        "encoding": "Encoding of text, such as cp1252; found out by default.",
    },
    "A stored graph": {
        "store": "Folder that `nodegp prepare` wrote, in the place of tables.",
        "memory": "What may be in memory at a time, over all processes: 4GiB (default), 512MiB.",
        "cluster": "Have Dask do it: local:2 for two processes here, or the address of a "
        "scheduler, tcp://host:8786, whose workers see the folder under the same path.",
        "dry_run": "Say what it would take, and stop.",
    },
    "Labelling": {
        "classes": "The classes there are, with commas, if no label tells; more can be added.",
        "demo": "Play with made-up papers: no tables, no model.",
        "label strategy": f"{', '.join(STRATEGY_NAMES[:-1])} or {STRATEGY_NAMES[-1]}; hybrid by "
        "default. `nodegp query --help` says what they do.",
        "random_share": "Share of the questions drawn at random, to estimate accuracy by.",
        "suggestions": "Show what the model thinks with the question. It shifts the answers: a "
        "tenth of the questions stays without.",
        "confidence": "What Shift and a digit, probably, means.",
        "guideline": "A Markdown file that says what belongs in which class.",
        "annotator": "Who labels, for the journal.",
        "journal": "The file that keeps the answers; beside the model by default.",
        "apply": "Write the model with the answers of the journal, and stop.",
        "export": "Write the answers to .csv, .jsonl or .parquet, and stop.",
        "label out": "With --apply: where to; over MODEL by default.",
        "port": "Of 127.0.0.1; 8719, or any that is free, by default.",
        "open": "Open the browser.",
    },
    "What it does not know": {
        "coverage": "Sets of classes, of which about this share hold the true one: 0.9.",
        "abstain_below": "No label for a node whose likeliest class has less than this "
        "probability: 0.8.",
    },
    "The model": {
        "recipe": "auto (default) or paper: exactly the published model.",
        "likelihood": "softmax (default), robustmax (the paper's), or bernoulli for two classes.",
        "filter": "auto (default): what predicts the labels best when each is left out in turn; "
        "mean: a node is what its neighbourhood is; pagerank: what lies near it, further off too; "
        "identity: the edges do not matter. Python has more.",
    },
    None: {
        "as_json": "Print results as JSON.",
        "quiet": "Print nothing but results.",
        "verbose": "Also what is inside: hyper-parameters, the bound, what a score means.",
        "seed": "For whatever is drawn at random.",
        "force": "Replace a file that nodegp did not write, or that has answers in it.",
        "example force": "Write over files that are there.",
        "prepare force": "Replace a stored graph that is there.",
        "fit out": "The model file to write.",
        "prepare out": "The folder to write.",
        "prepare memory": "About how much memory to take, such as 4GiB or 500MB.",
        "prepare dry_run": "Say what there is and what it will take, and write nothing.",
        "predict out": "Where to: .csv, .tsv (also .gz) or .parquet; else CSV on screen. With "
        "--store a folder, for one Parquet file of each part.",
        "query out": "Table to fill in: .csv, .tsv or .parquet.",
        "update out": "Where to; over MODEL by default.",
        "query count": "How many nodes to ask about.",
        "explain count": "How many of each to list.",
        "strategy": f"{', '.join(STRATEGY_NAMES[:-1])} or {STRATEGY_NAMES[-1]}; see below.",
        "folds": "Fit again with each of so many parts of the labels hidden.",
        "evaluate labels": "Table of ids and labels that the model has not seen, to score on.",
        "update labels": "Table of ids and labels; rows without a label are skipped.",
        "label": "Column of the labels; the model's own by default.",
        "compare": "Other methods on the same labels, with commas: lp,gcn,logistic and more; 5 "
        "folds unless --folds or --labels is given.",
        "report": "Also write a page with figures (.html).",
        "new_classes": "Take labels that no node had so far.",
        "for_class": "Explain this class; the predicted one by default.",
        "calibrate": "Temperature from leave-one-out.",
        "doubtful": "How many doubtful nodes to list.",
    },
}
_OPTIONS = {name: (panel, text) for panel, rows in _PANELS.items() for name, text in rows.items()}

# What is given without a name: how it is called there, and its help.
_ARGUMENTS = {
    "model": ("MODEL", "A model file."),
    "query model": ("[MODEL]", "A model file; none for a cold start."),
    "label model": ("[MODEL]", "A model file; none for a cold start."),
    "node": ("NODE", "The node's id."),
    "folder": ("FOLDER", "Where to; it is made if it is not there."),
}

# What is not text; how an option is written, where that is not its name; and so on.
_KINDS: dict[Any, str] = {
    Path: "folder model nodes edges labels features_npy features_npz features_table graph out "
    "report guideline journal export store",
    int: "knn seed count folds doubtful port svd",
    float: "coverage abstain_below random_share confidence",
    bool: "ignore_unknown as_json quiet new_classes force classes_anyway verbose demo suggestions "
    "apply open dry_run",
    bool | None: "calibrate",
}
_FLAGS = {
    "as_json": ("--json",),
    "calibrate": ("--calibrate/--no-calibrate",),
    "count": ("-n",),
    "for_class": ("--class",),
    "open": ("--open/--no-open",),
    "out": ("--out", "-o"),
    "quiet": ("--quiet", "-q"),
    "verbose": ("--verbose", "-v"),
}
_DEFAULTS: dict[str, Any] = {
    "annotator": "expert",
    "confidence": 0.75,
    "doubtful": 5,
    "explain count": 8,
    "label strategy": "hybrid",
    "prepare memory": "1GiB",
    "open": True,
    "query count": 10,
    "random_share": 0.1,
    "recipe": "auto",
    "seed": 0,
    "strategy": "sopt",
}
_LEAST = {"count": 1, "doubtful": 0, "folds": 2, "knn": 1, "port": 1, "svd": 1}


def takes(names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command these options, which it gets as keywords; one that ends in ! must be given.

    An error that names options as the application does names them as they are written here.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = [_parameter(command.__name__, name) for name in names.split()]
        command.__annotations__ = {p.name: p.annotation for p in parameters}

        @wraps(command)
        def run(**options: Any) -> None:
            try:
                command(**options)
            except OptionError as error:
                raise ValueError(error.worded(_written)) from None

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _parameter(command: str, name: str) -> inspect.Parameter:
    """An option or argument as typer takes it."""
    required, name = name.endswith("!"), name.rstrip("!")
    special = f"{command} {name}"
    key = special if special in _OPTIONS or special in _ARGUMENTS else name
    kind = next((kind for kind, names in _KINDS.items() if name in names.split()), str)
    info: Any
    if key in _ARGUMENTS:
        metavar, text = _ARGUMENTS[key]
        info = typer.Argument(metavar=metavar, help=text)
    else:
        panel, text = _OPTIONS[key]
        flags = _FLAGS.get(name, (_written(name),))
        info = typer.Option(*flags, help=text, rich_help_panel=panel, min=_LEAST.get(name))
    default = _DEFAULTS.get(key, _DEFAULTS.get(name, False if kind is bool else None))
    if default is None and not required:
        kind = kind | None
    if required:
        default = inspect.Parameter.empty
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info]
    )


def _written(option: str) -> str:
    return "--" + option.replace("_", "-")


def comma_list(value: str | None) -> list[str] | None:
    """A list written with commas; None if it was not given."""
    return None if value is None else [name.strip() for name in value.split(",") if name.strip()]


def table_files(options: dict[str, Any]) -> list[Path]:
    """The files among the options, which are read."""
    return [value for value in options.values() if isinstance(value, Path)]


def table_options(options: dict[str, Any], needs_edges: bool = True) -> dict[str, Any]:
    """The options of tables as the application takes them."""
    edges, knn, graph = options["edges"], options["knn"], options.get("graph")
    if "graph" in options and (options["nodes"] is None) == (graph is None):
        raise ValueError("give --nodes FILE, or --graph FILE with nodes and edges, and not both")
    if graph is not None and (edges or knn) is not None:
        raise ValueError("--graph has edges of its own: give no --edges and no --knn")
    if needs_edges and edges is None and knn is None and graph is None:
        raise ValueError(
            "give --edges FILE, or --knn NUMBER to link each node to those most like it by features"
        )
    if edges is not None and knn is not None:
        raise ValueError("give --edges or --knn, not both")
    source, target = options.pop("source"), options.pop("target")
    columns = None if source is None and target is None else (source or "1", target or "2")
    if options.get("features") == "none":
        options["features"] = ""
    lists = options.keys() & {"features", "text", "categorical", "exclude", "show"}
    return options | {n: comma_list(options[n]) for n in lists} | {"edge_columns": columns}
