"""The commands about a model: `nodegp evaluate`, `update`, `explain`, `info` and `demo`."""

from __future__ import annotations

from typing import Any

from nodegp.cli import show
from nodegp.cli.options import comma_list, takes

__all__ = ["demo", "evaluate", "explain", "info", "model_facts", "update"]


@takes(
    "model! folds labels id label compare report ignore_unknown coverage abstain_below seed "
    "as_json quiet"
)
def evaluate(model, compare, report, as_json, quiet, **options):
    """Score a model on labels that it had not seen.

    By default leave-one-out: what the model says of each label without that label, which costs
    nothing. With --folds the model is fitted again with labels hidden; with --labels it is scored
    on a table of other labels. Nodes fitted to are left out of that table.

    With --coverage it also says how many prediction sets hold the true class and how large they
    are; with --abstain-below, how many nodes get an answer and how many of these are right.
    """
    from nodegp.app import Project
    from nodegp.app.page import evaluation_page
    from nodegp.files import check_place, write_atomically
    from nodegp.report import check_available

    if report is not None:
        check_available()
        check_place(report)
    project = Project.open(model, show.Terminal(quiet))
    comparison = project.evaluate(compare=comma_list(compare) or (), **options)
    if report is not None:
        write_atomically(report, evaluation_page(comparison, project, str(model)).encode())
    if as_json:
        show.as_json(comparison)
        return
    for table in comparison.tables():
        show.grid(table.columns, table.rows, table.title)
    if report is not None and not quiet:
        print(f"written to {report}")


@takes("model! labels! id label out new_classes ignore_unknown as_json quiet")
def update(model, labels, out, as_json, quiet, **options):
    """Add labels to a model, starting from where its fit ended.

    A node that had a label gets the new one. Says how much the predictions changed, which is
    also how to know when to stop asking.
    """
    from nodegp.app import Project
    from nodegp.files import check_place

    if out is not None:
        check_place(out)
    project = Project.open(model, show.Terminal(quiet))
    project.answer(labels, **options)
    result = project.update()
    project.save(out or model)
    if as_json:
        show.as_json(result | {"file": str(out or model)})
    elif not quiet:
        counts = f"{result['new_labels']:,} new, {result['replaced_labels']:,} replaced"
        show.facts([("labels read", counts), *model_facts(result["model"])], "The model")
        if result["advice"] is not None:
            print(result["advice"])
        print(f"written to {out or model}")


@takes("model! node! for_class count as_json")
def explain(model, node, for_class, count, as_json):
    """Show which labels and which neighbours made a prediction.

    Every class has a score, and the highest wins. The score is taken apart twice, and both parts
    add up to it: + speaks for the class, - against it.

    By label: how much more the node is like each labelled node than like labelled nodes on
    average. A label of the class itself is + where the node is like it; a label of another class
    is + where the node is unlike it. What is the same for all labelled nodes is a line of its own.

    By neighbour: what each adds to the mean over the neighbourhood. A filter of features, such as
    PageRank, mixes neighbours before the model looks at them; then there is no such part.
    """
    from nodegp.app import Project
    from nodegp.io.tables import amount

    result = Project.open(model).explain(node, for_class, count)
    if as_json:
        show.as_json(result)
        return
    name, total = result["class"], ("sum", result["latent_mean"])
    lines = [
        ("node", str(result["node"])),
        ("class", f"{name}, probability {result['probability']:.3f}"),
        ("score", f"{result['latent_mean']:+.3f}"),
    ]
    if rival := result["rival"]:
        score = "" if rival["score"] is None else f", score {rival['score']:+.3f}"
        text = f"{rival['class']}, probability {rival['probability']:.3f}{score}"
        lines.append(("rival", text))
    show.facts(lines)

    def shares(columns: list[str], rows: list[tuple[Any, ...]], title: str) -> None:
        """Names, as many as there are, and a share in the last column."""
        cells = [(*r[:-1], *[""] * (len(columns) - len(r)), f"{r[-1]:+.3f}") for r in rows]
        show.grid(columns, cells, title)

    def others(kind: str, text: str) -> list[tuple[Any, ...]]:
        count = result[f"n_{kind}"] - len(result[kind])
        return [(amount(count, text), result[f"other_{kind}"])] if count else []

    signs = f"+ speaks for {name}, - against it"
    rows: list[tuple[Any, ...]]
    rows = [(str(one["id"]), str(one["label"]), one["share"]) for one in result["labels"]]
    rows += [*others("labels", "other label"), ("in common with all of them", result["common"])]
    shares(["labelled node", "label", "share"], [*rows, total], f"The score by label: {signs}")

    by_class = sorted(result["labels_by_class"].items(), key=lambda item: -item[1])
    title = f"The same by class: a label of another class is + where {result['node']} is unlike it"
    shares(["labels", "share"], by_class, title)

    if not result["by_neighbour"]:
        print(f"No neighbour has a share of its own here (the filter is {result['filter']}).")
        return
    rows = [
        (
            f"{one['id']} (itself)" if one["itself"] else str(one["id"]),
            "" if one["label"] is None else str(one["label"]),
            str(one["predicted"]),
            one["share"],
        )
        for one in result["neighbours"]
    ]
    columns = ["neighbour", "label", "predicted", "share"]
    rows = [*rows, *others("neighbours", "other"), total]
    shares(columns, rows, f"The score by neighbour: {signs}")


@takes("model! as_json")
def info(model, as_json):
    """Show what a model file holds: graph, classes, how the fit went."""
    from nodegp.app import Project

    project = Project.open(model)
    numbers = project.info()
    if as_json:
        show.as_json({"file": str(model)} | numbers)
        return
    graph = ", ".join(f"{numbers[name]:,} {name}" for name in ("nodes", "edges", "features"))
    classes = ", ".join(f"{name} {count:,}" for name, count in numbers["label_counts"].items())
    rows = [("file", str(model)), ("graph", graph), ("classes", classes)]
    if project.sources:
        rows.append(("made from", "; ".join(project.sources)))
    show.facts([*rows, *model_facts(numbers)])


def model_facts(info: dict[str, Any]) -> list[tuple[str, str]]:
    """The numbers of a model, for people."""
    from nodegp.io.tables import amount

    scores = info["leave_one_out"]
    learnt = ", ".join(f"{name} {float(v):.3g}" for name, v in info["hyperparameters"].items())
    unfinished = "" if info["converged"] else " (not converged)"
    off = " (off)" if info["temperature"] == 1.0 else ""
    return [
        ("labels", f"{info['labels']:,} in {amount(len(info['classes']), 'class', 'classes')}"),
        (
            "leave-one-out",
            f"{scores['accuracy']:.1%} right (± {scores['accuracy_error']:.1%}), log loss "
            f"{scores['log_loss']:.3f}, calibration error {scores['calibration_error']:.3f}",
        ),
        ("model", f"{info['recipe'] or info['filter'] + ' filter'}, {info['likelihood']}"),
        ("hyper-parameters", learnt or "none"),
        ("temperature", f"{info['temperature']:.2f}{off}"),
        ("evidence bound", f"{info['elbo']:.2f}{unfinished}"),
    ]


@takes("recipe likelihood calibrate doubtful as_json")
def demo(recipe, likelihood, calibrate, doubtful, as_json):
    """Fit the bundled Cora citation graph with its 140 public labels and show the result.

    Cora: 2,708 papers in 7 topics, linked by citations. Takes about a second.
    """
    from nodegp.app import ModelOptions
    from nodegp.app.demo import run_demo

    n = run_demo(ModelOptions(recipe, likelihood=likelihood, calibrate=calibrate), doubtful)
    if as_json:
        show.as_json(n)
        return
    rows = [
        ("test accuracy", f"{n['accuracy']:.1%} on 1,000 papers"),
        ("log loss", f"{n['log_loss']:.3f}"),
        ("calibration error", f"{n['calibration_error']:.3f}"),
        ("seconds", f"{n['seconds_fit']:.2f} to fit, {n['seconds_predict_all']:.2f} to predict"),
        ("features", f"{n['features']:,}, {n['preprocessing']}"),
    ]
    title = f"Cora: {n['nodes']:,} papers, {n['edges']:,} citations, {n['labels']} labels"
    show.facts([*rows, *model_facts(n)], title)
    if n["doubtful"]:
        papers = [
            [*row, ", ".join(f"{name} {p:.0%}" for name, p in likeliest)]
            for _, *row, likeliest in map(dict.values, n["doubtful"])
        ]
        heads = ["paper", "links", "entropy", "likeliest topics"]
        show.grid(heads, papers, "The papers worth asking an expert about (highest entropy)")
