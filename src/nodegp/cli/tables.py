"""The commands that read a user's tables: `nodegp fit`, `predict` and `query`; and `example`, which
writes some to read."""

from __future__ import annotations

from typing import Any

from nodegp.cli import show as terminal
from nodegp.cli import stored
from nodegp.cli.models import model_facts
from nodegp.cli.options import comma_list, table_files, table_options, takes

__all__ = ["example", "fit", "predict", "query"]


@takes("folder! force seed as_json quiet")
def example(folder, force, seed, as_json, quiet):
    """Write small tables to try the other commands on: 300 papers and their citations.

    The papers are synthetic, with readable titles: 40 have a topic, and answers.csv has the topics
    of all, so that you can play the expert. README.txt lists the commands to run.
    """
    from nodegp.app.example import write_example

    paths = write_example(folder, seed, force)
    if as_json:
        terminal.as_json({"files": [str(path) for path in paths]})
    elif not quiet:
        nodes, edges, _, readme = paths
        print(f"written: {', '.join(map(str, paths))}")
        print(
            f"next (more in {readme}):\nnodegp fit --nodes {nodes} --edges {edges} --id paper "
            "--label topic --text title -o topics.nodegp"
        )


@takes(
    "nodes out! edges graph id label labels source target weight features text categorical exclude "
    "show features_table features_npy features_npz knn ignore_unknown classes_anyway sep encoding "
    "store memory cluster dry_run recipe likelihood filter seed force as_json quiet verbose"
)
def fit(
    out, recipe, likelihood, filter, seed, classes_anyway, force, as_json, quiet, verbose, store,
    memory, cluster, dry_run, **tables
):  # fmt: skip
    """Fit a model to a graph in tables and write it to a file.

    Two tables are enough: one with a row per node (id, label where known, features) and one with a
    row per edge. Columns are given by name, or by position counted from 1. The model file contains
    the graph, so the other commands need only that file.

    nodegp fit --nodes papers.csv --edges cites.csv --id paper --label topic -o topics.nodegp

    A graph that is larger than memory is first prepared with `nodegp prepare`; the model file then
    does not contain it. Filtered features are kept in the store, so that the next fit, with other
    labels, takes seconds.

    nodegp fit --store store --memory 4GiB -o topics.nodegp

    It learns from the labels that the graph was prepared with (`nodegp prepare --label`), or from
    those of a table: --labels.
    """
    from nodegp.app import ModelOptions, Project
    from nodegp.app.outputs import check_model_place

    if store is None and tables["label"] is None and tables["labels"] is None:
        raise ValueError("say where the labels are: --label COLUMN, or --labels FILE")
    check_model_place(out, table_files(tables), force)
    options = ModelOptions(recipe, likelihood=likelihood, filter=filter, seed=seed)
    if store is not None:
        work = stored.Work(store, memory, cluster, dry_run, as_json, quiet)
        stored.fit(work, out, options, tables, classes_anyway, verbose)
        return
    stored.refuse_without_store(memory, cluster, dry_run)
    progress = terminal.Terminal(quiet)
    project = Project.from_tables(**table_options(tables), options=options, progress=progress)
    summary = project.summary
    if not (quiet or as_json):
        terminal.facts(summary.rows(), "What came in")
    for remark in summary.remarks():
        progress.note(remark)
    info = project.fit(classes_anyway)
    project.save(out)
    if as_json:
        terminal.as_json({"input": summary, "model": info | {"file": str(out)}})
    elif not quiet:
        facts = [*model_facts(info, verbose), ("seconds", f"{info['seconds']:.2f}")]
        terminal.facts(facts, "The model")
        print(f"written to {out}")
        print("these terms are explained in docs/glossary.md")


@takes(
    "model! out nodes edges id source target weight features_table features_npy features_npz knn "
    "ignore_unknown sep encoding store memory cluster dry_run coverage abstain_below show force "
    "as_json quiet"
)
def predict(
    model, out, nodes, coverage, abstain_below, show, force, as_json, quiet, store, memory, cluster,
    dry_run, **tables
):  # fmt: skip
    """Predict the class of every node the model was fitted on, or of new nodes.

    One row per node: id, the most probable label, its probability, a column for each class, the
    entropy (total uncertainty, in nats), and information: its epistemic part, which more labels
    could remove. (Under robust-max the two differ by a constant.)

    With --coverage there is a column `set`: a prediction set of classes, the most probable first,
    separated by | in a text file. With --abstain-below the label is empty where the model is not
    sure enough; the other columns stay.

    With --nodes, the rows of that table are predicted: new nodes, which --edges links to each
    other and to the known nodes, without a new fit.

    nodegp predict topics.nodegp --store store -o predictions
    """
    from nodegp.app import Project
    from nodegp.app.outputs import check_table_place
    from nodegp.io.tables import amount

    if store is not None:
        work = stored.Work(store, memory, cluster, dry_run, as_json, quiet)
        stored.predict(work, model, out, coverage, abstain_below, force, tables | {"show": show})
        return
    stored.refuse_without_store(memory, cluster, dry_run)
    tables = table_options(tables, needs_edges=False)
    if out is not None:
        check_table_place(out, [model, nodes, *table_files(tables)], force)
    progress = terminal.Terminal(quiet)
    predictions = Project.open(model, progress).predict(
        nodes=nodes,
        coverage=coverage,
        abstain_below=abstain_below,
        show=comma_list(show) or (),
        **tables,
    )
    if as_json and out is None:
        table, counts = predictions.read()
        terminal.as_json(table.to_pylist())
    else:
        counts = predictions.write(out)
        if as_json:
            terminal.as_json(counts | {"file": str(out)})
        elif out is not None and not quiet:
            print(f"{amount(counts['predictions'], 'prediction')} written to {out}")
    for remark in predictions.remarks(counts):
        progress.note(remark)


@takes(
    "model count strategy out nodes edges graph id source target weight features text categorical "
    "exclude show features_table features_npy features_npz knn ignore_unknown sep encoding seed "
    "force as_json quiet verbose"
)
def query(model, count, strategy, out, show, seed, force, as_json, quiet, verbose, **tables):
    """Choose the nodes whose labels would help most (active learning).

    The table has an empty label column: fill it in and give it to `nodegp update`. Without a
    model, --nodes and --edges describe a graph that has no labels yet.

    Strategies: sopt and vopt spread the questions over the graph and need no labels; gp-vopt
    spreads them by graph and features, under the model's own covariance; hybrid also prefers nodes
    that the model expects to get wrong; gp-eer and eer minimise the expected error after the
    answer, by the model and by the graph alone; s2 searches for the border between classes;
    entropy and margin select the most uncertain nodes, bald those with the largest epistemic
    uncertainty; degree takes hubs, and random any node.
    """
    from nodegp.app import Project
    from nodegp.app.frontend import refuse_without
    from nodegp.app.outputs import check_table_place
    from nodegp.io.write import write_tables

    if out is not None:
        check_table_place(out, [model, *table_files(tables)], force)
    if (model is None) == (tables["nodes"] is None and tables["graph"] is None):
        raise ValueError("give a model file, or --nodes (and --edges) for a cold start")
    progress = terminal.Terminal(quiet)
    if model is not None:
        refuse_without("nodes", "the model has its graph", tables)
        project = Project.open(model, progress)
    else:
        if tables["features"] is None and tables["knn"] is None:
            tables["features"] = ""  # edges are enough to choose by: no columns but those named
        project = Project.from_tables(
            **table_options(tables), show=comma_list(show), progress=progress
        )
        if not (quiet or as_json):
            terminal.facts(project.summary.rows(), "What came in")
    questions = project.query(count, strategy, seed, comma_list(show))
    if questions.note:
        progress.note(questions.note)
    if as_json:
        terminal.as_json(questions)
    elif not quiet or out is None:
        id, _, *columns = questions.columns
        columns = [name for name in columns if name not in ("probability", "degree")]
        rows = [
            [str(row[id]), *(_on_screen(row, name) for name in columns)] for row in questions.ask
        ]
        terminal.grid([id, *columns], rows)
        if not quiet:
            means = questions.score if verbose else "a label helps more where it is higher"
            print(f"score: {means}")
    if out is not None:
        write_tables(out, [questions.table()])
        if not (quiet or as_json):
            then = " and give it to `nodegp fit --labels`"
            if model is not None:
                then = f", then: nodegp update {model} --labels {out}"
            print(f"written to {out}; fill in {questions.columns[1]!r}{then}")


def _on_screen(row: dict[str, Any], name: str) -> Any:
    """A cell of a question, which a terminal has little room for."""
    if name == "predicted":
        return f"{row[name]} {row['probability']:.2f}"
    return row[name]
