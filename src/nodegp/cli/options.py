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
        "id": "Column of node ids; the first column by default.",
        "fit label": "Column of labels; empty cells are unlabelled nodes.",
        "fit labels": "Table of ids and labels, if the node table has no label column.",
        "label label": "Column of labels that exist already; empty cells are unlabelled nodes.",
        "label labels": "Table of ids and labels that exist already.",
        "prepare label": "Column of labels, which are stored for `nodegp fit --store` and are not "
        "used as a feature; empty cells are unlabelled nodes.",
        "source": "Column with one end of each edge; the first column by default.",
        "target": "Column with the other end; the second column by default.",
        "weight": "Column of edge weights.",
        "features": "Feature columns, separated by commas; by default all numeric columns that do "
        "not look like ids. Text columns among them are treated as categories. 'none' uses no "
        "column.",
        "prepare features": "Feature columns, separated by commas; by default all columns of "
        "numbers or lists of numbers that do not look like ids. 'none' uses no column.",
        "exclude": "Columns not to use as features.",
        "prepare exclude": "Columns not to use as features, such as other labels.",
        "fit show": "Columns to display for a node, such as its title; text columns by default.",
        "label show": "Columns to display for a node, the title first; by default those stored in "
        "the model, or text columns.",
        "query show": "Columns to display for a node; by default those stored in the model.",
        "explain show": "Columns to display for a node; by default those stored in the model.",
        "predict show": "Columns stored in the model to write beside the ids.",
        "text": "Text columns, whose words become features.",
        "svd": "Reduce words and other sparse features to this many dense columns, such as 128.",
        "categorical": "Columns of categories, even if they look like numbers.",
        "features_npy": "Dense features (numpy .npy), rows in the order of the nodes.",
        "features_npz": "Sparse features (scipy .npz), rows in the order of the nodes.",
        "features_table": "Table of additional features by id; or JSON of ids with numbers.",
        "graph": "GraphML, GEXF or GML file instead of --nodes and --edges; attributes become "
        "columns.",
        "knn": "Without edges: link each node to this many nearest neighbours by features.",
        "classes_anyway": "Treat numbers as classes even if nearly all of them differ.",
        "prepare ignore_unknown": "Leave out edges to unknown ids, if they are at most half.",
        "ignore_unknown": "Leave out edges and labels of unknown ids, if they are at most half.",
        "sep": "Field separator of text files: a character, tab or space; detected by default.",
        "encoding": "Encoding of text files, such as cp1252; detected by default.",
    },
    "A stored graph": {
        "store": "Folder written by `nodegp prepare`, instead of tables.",
        "memory": "Memory limit over all processes, such as 512MiB; 4GiB by default.",
        "cluster": "Run on Dask: local:2 for two processes on this machine, or the address of a "
        "scheduler, tcp://host:8786, whose workers see the folder under the same path.",
        "dry_run": "Print the resources that it would need, and stop.",
    },
    "Labelling": {
        "classes": "Names of the classes, separated by commas, if there are no labels yet; more "
        "can be added later.",
        "demo": "Try it on synthetic papers, without tables or model.",
        "label strategy": f"{', '.join(STRATEGY_NAMES[:-1])} or {STRATEGY_NAMES[-1]}; hybrid by "
        "default. `nodegp query --help` says what they do.",
        "random_share": "Share of questions drawn at random, to estimate the accuracy.",
        "suggestions": "Show the model's prediction with the question. This biases the answers, so "
        "a tenth of the questions is still asked without.",
        "confidence": "Probability that an answer given with Shift ('probably') is right.",
        "guideline": "Markdown file that describes what belongs to which class.",
        "annotator": "Name of the person who labels, for the journal.",
        "journal": "File for the answers; beside the model by default.",
        "apply": "Update the model with the answers of the journal, and stop.",
        "export": "Write the answers to a .csv, .jsonl or .parquet file, and stop.",
        "label out": "With --apply: the model file to write; MODEL by default.",
        "port": "Port on 127.0.0.1; 8719 by default, or any free one.",
        "open": "Open the page in the browser.",
    },
    "Uncertainty": {
        "coverage": "Prediction sets that contain the true class about this often, such as 0.9.",
        "abstain_below": "Leave the label empty where the most probable class has a lower "
        "probability than this, such as 0.8.",
    },
    "The model": {
        "recipe": "auto (default), or paper: exactly the published model.",
        "likelihood": "softmax (default), robustmax (the paper's), or bernoulli for two classes.",
        "filter": "auto (default): a sum of several views of the graph, weighted by how well each "
        "predicts left-out labels. Or a single filter: mean (the node and its neighbours), "
        "pagerank (nodes further away too), identity (ignores the edges). More in Python.",
    },
    None: {
        "as_json": "Print results as JSON.",
        "quiet": "Print nothing but results.",
        "verbose": "Also print hyper-parameters, the ELBO, and what a score means.",
        "seed": "Seed of all random draws.",
        "force": "Also replace a file that nodegp did not write, or that contains answers.",
        "example force": "Overwrite existing files.",
        "prepare force": "Replace an existing stored graph.",
        "fit out": "The model file to write.",
        "prepare out": "The folder to write.",
        "prepare memory": "About how much memory to use, such as 4GiB or 500MB.",
        "prepare dry_run": "Print what was found and the resources needed, and write nothing.",
        "predict out": "File to write: .csv, .tsv (also .gz) or .parquet; by default CSV is "
        "printed. With --store a folder, which gets one Parquet file for each part.",
        "query out": "Table to fill in: .csv, .tsv or .parquet.",
        "update out": "The model file to write; MODEL by default.",
        "query count": "How many nodes to ask about.",
        "explain count": "How many labels and neighbours to list.",
        "strategy": f"{', '.join(STRATEGY_NAMES[:-1])} or {STRATEGY_NAMES[-1]}; see above.",
        "folds": "Cross-validation with this many folds of the labels.",
        "evaluate labels": "Table of held-out labels (ids and labels) to score on.",
        "update labels": "Table of ids and labels; rows without a label are skipped.",
        "label": "Column of labels; named as in the model by default.",
        "compare": "Also score other methods on the same labels, separated by commas: "
        "lp,gcn,logistic and more; with 5 folds unless --folds or --labels is given.",
        "report": "Also write an HTML page with figures.",
        "new_classes": "Accept labels of classes that the model does not know yet.",
        "for_class": "The class to explain; the predicted one by default.",
        "calibrate": "Fit a temperature to leave-one-out predictions.",
        "doubtful": "How many of the most uncertain nodes to list.",
    },
}
_OPTIONS = {name: (panel, text) for panel, rows in _PANELS.items() for name, text in rows.items()}

# What is given without a name: how it is called there, and its help.
_ARGUMENTS = {
    "model": ("MODEL", "A model file."),
    "query model": ("[MODEL]", "A model file; omit it if there are no labels yet."),
    "label model": ("[MODEL]", "A model file; omit it if there are no labels yet."),
    "node": ("NODE", "The node's id."),
    "folder": ("FOLDER", "The folder to write to; created if it does not exist."),
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
