"""The commands about a model: `nodegp evaluate`, `update`, `explain`, `info` and `demo`."""

from __future__ import annotations

from typing import Any

from nodegp.cli import show as terminal
from nodegp.cli import stored
from nodegp.cli.options import comma_list, takes

__all__ = ["demo", "evaluate", "explain", "info", "model_facts", "update"]


@takes(
    "model! folds labels id label compare report ignore_unknown sep encoding store memory cluster "
    "coverage abstain_below seed force as_json quiet"
)
def evaluate(
    model, compare, report, force, as_json, quiet, store, memory, cluster, **options
):  # fmt: skip
    """Score a model on labels that it has not seen.

    By default leave-one-out: each label is predicted from the others, without a new fit. --folds
    does cross-validation, and --labels scores the model on a table of held-out labels; nodes
    that the model was fitted on are left out of that table.

    With --coverage it also prints the coverage and size of prediction sets; with --abstain-below,
    how many nodes get an answer and how accurate these answers are.
    """
    from nodegp.app import Project
    from nodegp.app.outputs import check_page_place
    from nodegp.app.page import evaluation_page
    from nodegp.files import write_atomically
    from nodegp.report import check_available

    if report is not None:
        check_available()
        check_page_place(report, [model, options["labels"]], force)
    if store is not None:
        work = stored.Work(store, memory, cluster, False, as_json, quiet)
        stored.evaluate(work, model, options | {"compare": compare, "report": report})
        return
    stored.refuse_without_store(memory, cluster, False)
    project = Project.open(model, terminal.Terminal(quiet))
    comparison = project.evaluate(compare=comma_list(compare) or (), **options)
    if report is not None:
        write_atomically(report, evaluation_page(comparison, project, str(model)).encode())
    if as_json:
        terminal.as_json(comparison)
        return
    for table in comparison.tables():
        terminal.grid(table.columns, table.rows, table.title)
    if report is not None and not quiet:
        print(f"written to {report}")


@takes(
    "model! labels! id label out new_classes ignore_unknown sep encoding store memory cluster "
    "force as_json quiet verbose"
)
def update(
    model, labels, out, force, as_json, quiet, verbose, store, memory, cluster, **options
):  # fmt: skip
    """Add labels to a model, starting from its last fit.

    A node that already had a label gets the new one. Prints how much the predictions changed,
    which helps to decide when to stop labelling.
    """
    from nodegp.app import Project
    from nodegp.app.outputs import check_model_place

    if out is not None:
        check_model_place(out, [labels], force)
    if store is not None:
        work = stored.Work(store, memory, cluster, False, as_json, quiet)
        stored.update(work, model, labels, out or model, options, verbose)
        return
    stored.refuse_without_store(memory, cluster, False)
    project = Project.open(model, terminal.Terminal(quiet))
    project.answer(labels, **options)
    result = project.update()
    project.save(out or model)
    if as_json:
        terminal.as_json(result | {"file": str(out or model)})
    elif not quiet:
        counts = f"{result['new_labels']:,} new, {result['replaced_labels']:,} replaced"
        terminal.facts(
            [("labels read", counts), *model_facts(result["model"], verbose)], "The model"
        )
        if result["advice"] is not None:
            print(result["advice"])
        print(f"written to {out or model}")


@takes("model! node! for_class count show store memory as_json")
def explain(model, node, for_class, count, show, store, memory, as_json):
    """Show which labels and which neighbours a prediction comes from.

    Every class has a score, and the class with the highest score is predicted.

    By label: what each label adds to the score of its own class, which is the similarity of the
    node to that labelled node (above the average over labelled nodes) times the weight of the
    label. Labels of the explained class come first, then those of other classes.

    By neighbour: what the features of the node itself, and of each node near it, add to the score
    of the class. These terms and the bias ("anywhere in the graph") sum to the score.
    """
    from nodegp.app import Project
    from nodegp.io.tables import amount

    if store is not None:
        work = stored.Work(store, memory, None, False, as_json, True)
        result = stored.explain(work, model, node, for_class, count, show)
    else:
        stored.refuse_without_store(memory, None, False)
        result = Project.open(model).explain(node, for_class, count, comma_list(show))
    if as_json:
        terminal.as_json(result)
        return
    name, heads = result["class"], list(result["shown"])
    lines = [
        ("node", str(result["node"])),
        *result["shown"].items(),
        ("class", f"{name}, probability {result['probability']:.3f}"),
    ]
    if rival := result["rival"]:
        lines.append(("next", f"{rival['class']}, probability {rival['probability']:.3f}"))
    terminal.facts(lines)

    def cells(one: dict[str, Any]) -> list[str]:
        """What to know of a node: who it is, what is shown of it, and its label."""
        who = f"{one['id']} (itself)" if one["itself"] else str(one["id"])
        return [who, *one["shown"].values(), "" if one["label"] is None else str(one["label"])]

    for kind, title in (
        ("labels", f"Labels that speak for {name}, and how much"),
        ("against", "Labels that speak for other classes, and how much"),
    ):
        rows = [[*cells(one), f"{one['share']:+.3f}"] for one in result[kind]]
        if rows:
            terminal.grid(["labelled node", *heads, "label", "share"], rows, title)

    columns = ["node", *heads, "label", "predicted"]
    if result["by_neighbour"]:
        signs = f"What made the score of {name}: + speaks for it, - against it"
        rows = [
            [*cells(one), str(one["predicted"]), f"{one['share']:+.3f}"]
            for one in result["neighbours"]
        ]
        blank, more = [""] * (len(heads) + 2), result["n_neighbours"] - len(rows)
        rest = [(amount(more, "other node"), result["other_neighbours"])] if more else []
        rest += [("anywhere in the graph", result["anywhere"]), ("sum", result["latent_mean"])]
        rows += [[what, *blank, f"{share:+.3f}"] for what, share in rest]
        terminal.grid([*columns, "share"], rows, signs)
    elif result["linked"]:
        rows = [[*cells(one), str(one["predicted"])] for one in result["linked"]]
        title = "Neighbours (with this kernel the score is not a sum over them)"
        terminal.grid(columns, rows, title)


@takes("model! as_json verbose")
def info(model, as_json, verbose):
    """Show what a model file contains: graph, classes, and a summary of the fit."""
    from nodegp.app import Project

    project = Project.open(model)
    numbers = project.info()
    if as_json:
        terminal.as_json({"file": str(model)} | numbers)
        return
    graph = ", ".join(f"{numbers[name]:,} {name}" for name in ("nodes", "edges", "features"))
    classes = ", ".join(f"{name} {count:,}" for name, count in numbers["label_counts"].items())
    rows = [("file", str(model)), ("graph", graph), ("classes", classes)]
    if project.sources:
        rows.append(("made from", "; ".join(project.sources)))
    terminal.facts([*rows, *model_facts(numbers, verbose)])


def model_facts(info: dict[str, Any], verbose: bool = False) -> list[tuple[str, str]]:
    """The numbers of a model, for people; ``verbose`` for those who know what is inside."""
    from nodegp.io.tables import amount

    scores, temperature = info["leave_one_out"], info["temperature"]
    recipe = info["recipe"] or f"{info['filter']} filter"
    if not info["features"]:
        recipe = f"the edges alone ({recipe})"
    effect = "sharpened" if temperature < 1 else "flattened"
    calibration = f"{effect} by calibration (temperature {temperature:.2f})"
    facts = [
        ("labels", f"{info['labels']:,} in {amount(len(info['classes']), 'class', 'classes')}"),
        (
            "leave-one-out",
            f"{scores['accuracy']:.1%} right (± {scores['accuracy_error']:.1%}), log loss "
            f"{scores['log_loss']:.3f}, calibration error {scores['calibration_error']:.3f}",
        ),
        ("believe it", info["belief"]),
        ("model", f"{recipe}, {info['likelihood']}"),
        ("probabilities", "not calibrated" if temperature == 1.0 else calibration),
    ]
    if info["views"]:
        facts.insert(3, ("what counts", info["views"]))
    if not info["converged"]:
        facts.append(("warning", "the fit did not converge"))
    if verbose:
        for name, value in info["hyperparameters"].items():
            how = "learnt" if name in info["learnt"] else "fixed"
            facts.append((name, f"{float(value):.3g} ({how})"))
        facts.append(("ELBO", f"{info['elbo']:.2f}"))
    return facts


@takes("recipe likelihood calibrate doubtful as_json verbose")
def demo(recipe, likelihood, calibrate, doubtful, as_json, verbose):
    """Fit the bundled Cora citation graph with its 140 public labels and show the result.

    Cora: 2,708 papers in 7 topics, linked by citations. Takes about a second.
    """
    from nodegp.app import ModelOptions
    from nodegp.app.demo import run_demo

    n = run_demo(ModelOptions(recipe, likelihood=likelihood, calibrate=calibrate), doubtful)
    if as_json:
        terminal.as_json(n)
        return
    rows = [
        ("test accuracy", f"{n['accuracy']:.1%} on 1,000 papers"),
        ("log loss", f"{n['log_loss']:.3f}"),
        ("calibration error", f"{n['calibration_error']:.3f}"),
        ("seconds", f"{n['seconds_fit']:.2f} to fit, {n['seconds_predict_all']:.2f} to predict"),
        ("features", f"{n['features']:,}, {n['preprocessing']}"),
    ]
    title = f"Cora: {n['nodes']:,} papers, {n['edges']:,} citations, {n['labels']} labels"
    terminal.facts([*rows, *model_facts(n, verbose)], title)
    if n["doubtful"]:
        papers = [
            [*row, ", ".join(f"{name} {p:.0%}" for name, p in likeliest)]
            for _, *row, likeliest in map(dict.values, n["doubtful"])
        ]
        heads = ["paper", "links", "entropy", "likeliest topics"]
        terminal.grid(heads, papers, "The papers worth asking an expert about (highest entropy)")
