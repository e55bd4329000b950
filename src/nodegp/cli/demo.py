"""`nodegp demo`: what the library does, on the Cora that comes with it."""

from __future__ import annotations

from nodegp.cli import show
from nodegp.cli.options import takes

__all__ = ["demo"]


@takes("recipe likelihood calibrate doubtful as_json")
def demo(recipe, likelihood, calibrate, doubtful, as_json):
    """Fit the bundled Cora citation graph with its 140 public labels and show the result.

    Cora: 2,708 papers in 7 topics, linked by citations. Takes about a second.
    """
    from rich.text import Text

    from nodegp.app import ModelOptions
    from nodegp.app.demo import run_demo

    options = ModelOptions(recipe, likelihood=likelihood, calibrate=calibrate)
    result = run_demo(options, doubtful)
    if as_json:
        show.as_json(result)
        return
    n = result.numbers
    learnt = ", ".join(
        f"{name} {value:.3g}" + ("" if name in n["learnt"] else " (fixed)")
        for name, value in n["hyperparameters"].items()
    )
    unfinished = "" if n["converged"] else " [red](not converged)[/]"
    rows = {
        "test accuracy": f"[bold green]{n['accuracy']:.1%}[/] on 1,000 papers",
        "log loss": f"{n['log_loss']:.3f}",
        "calibration error": f"{n['calibration_error']:.3f}",
        "leave-one-out": f"{n['loo_accuracy']:.1%} accuracy, log loss {n['loo_log_loss']:.3f} "
        "(from the labels alone)",
        "seconds": f"{n['seconds_fit']:.2f} to fit, {n['seconds_predict_all']:.2f} to predict all "
        "papers",
        "model": f"{n['recipe'] or n['filter'] + ' filter'}, {n['likelihood']}, features "
        f"{n['preprocessing']}",
        "hyper-parameters": learnt,
        "temperature": f"{n['temperature']:.2f}" + (" (off)" if n["temperature"] == 1.0 else ""),
        "evidence bound": f"{n['elbo']:.2f} after {n['iterations']} iterations{unfinished}",
    }
    title = (
        f"[bold]Cora[/]: {result.papers:,} papers, {result.citations:,} citations, "
        f"{result.topics} topics, {n['labels']} labels\n"
    )
    marked = [(name, Text.from_markup(value)) for name, value in rows.items()]
    show.facts(marked, Text.from_markup(title), gap=bool(result.doubtful))
    if result.doubtful:
        papers = [
            (row["paper"], row["links"], row["entropy"],
             ", ".join(f"{name} {p:.0%}" for name, p in row["likeliest"]))
            for row in result.doubtful
        ]  # fmt: skip
        title = "[bold]The papers worth asking an expert about[/] (highest entropy)"
        heads = ["paper", "links", "entropy", "likeliest topics"]
        show.grid(heads, papers, Text.from_markup(title), digits=2, gap=False)
