"""The reports: one page with everything, and each table and figure as a file beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nodegp.files import write_atomically
from nodegp.report import Figure, Remarks, Table, check_available, page
from nodegp_paper.experiments.plan import TARGETS, plan
from nodegp_paper.experiments.runner import seconds_text
from nodegp_paper.experiments.store import Record
from nodegp_paper.experiments.tasks.active import N_LABELS, ZOO_GRAPHS
from nodegp_paper.experiments.tasks.zoo import N_VALIDATION

__all__ = ["PAGES", "Page", "write_report"]


@dataclass(frozen=True)
class Page:
    """What a page says besides its tables and figures."""

    file: str
    title: str
    lead: str  # ends in how much was computed
    remarks: Remarks
    cut: str = ""  # of the quick version, where it must not be taken for the full one
    document: str = ""  # the file of the same page in Markdown, where there is one


_SETTINGS = (
    "GGP, semi-supervised: TF-IDF on Cora and Citeseer, Pubmed as it comes; kernel "
    "(<x, x'> + offset)^3 with the offset learnt; robust-max with epsilon 0.001; public splits.",
    "Paper's engine: as many inducing points as labels, from k-means over all nodes; whitened q "
    "from m = 0, S = I; offset from |N(5, 1)|; single precision; Adam at 0.0005 for 10,000 steps, "
    "the best bound at every 200th kept.",
    "Default engine: the labelled nodes as inducing variables, natural gradients to convergence, "
    "offset by quasi-Newton from 5; double precision. Neither engine uses a validation label.",
    "GGP, active learning: largest connected component, TF-IDF then centred features, linear "
    "kernel with variance 1, nothing learnt but q; paper's engine: Adam at 0.005 for 300 steps, "
    "from scratch after every label. Accuracy is over all nodes still unlabelled.",
    "GCN: two layers, 16 hidden units, dropout 0.5, weight decay 0.0005, Adam at 0.01, at most 200 "
    "epochs; in Table 1 the 500 validation labels stop it early, as in its own paper.",
)
_ASSUMPTIONS = (
    "GGP-X trains on the training and validation labels together, with the same recipe.",
    "The ten trials of active learning start at nodes 0 to 9 of the component.",
    "Ten nodes of Citeseer's component have no label: they stay in the graph, and are neither "
    "asked about nor scored.",
    "The area under the learning curve is that under the curve as drawn, straight from one of the "
    "50 accuracies to the next; their mean, which is lower by 0.004 or so, stands beside it.",
    "RAND draws uniformly among the unlabelled nodes.",
    "The GCN in active learning and with few labels runs all its 200 epochs: there are no "
    "validation labels.",
    "LP is the harmonic solution with class-mass normalisation; nodes that no label reaches get "
    "the class prior.",
    "The paper does not say whether its errors are standard deviations or errors; ours are "
    "standard errors of the mean in Table 3 and Figure 2, standard deviations in Table 1.",
)
_SETTINGS_BEYOND = (
    "Random splits: training nodes by class, then 1,000 test and 500 validation nodes, all from "
    "outside the public test nodes. Every model gets the same splits: differences are paired.",
    "Validation labels: GCN and APPNP use them for early stopping, as their papers do, and may fit "
    "a temperature to them; nodegp-X and GGP-X train on them; the others do not use them.",
    "Few labels: no method has validation labels; GCN and APPNP run for 200 epochs.",
    "GGP: TF-IDF on Cora and Citeseer, Pubmed as it comes; kernel (<x, x'> + offset)^3 with the "
    "offset learnt; robust-max; no calibration. In active learning its centred linear kernel.",
    "GCN, APPNP, LP and logistic regression: the settings of their papers, one for all data.",
    f"Active learning: the largest component, one label at a time up to {N_LABELS}; the "
    "models are refitted after each.",
    "Every run has one thread. Those that measure seconds run one at a time.",
)
_SETTINGS_ZOO = (
    "Labels: min(k, half the class) of each class, for k = 3, 10 and 20. Classes of fewer than six "
    "nodes are dropped: their nodes stay in the graph, and are neither labelled nor scored.",
    "Scored: all other nodes whose class is known. The public test nodes of cora, citeseer and "
    "pubmed are neither labelled nor scored.",
    "Split s is drawn with seed s, the same for every method: seeds 0 to 19 for the fast methods, "
    "0 to 9 for the networks.",
    "nodegp: GraphGPClassifier(). paper: GraphGPClassifier(recipe='paper'). features: "
    "GraphGPClassifier(filter='identity'), which ignores the edges. LP: label propagation. "
    "Logistic: logistic regression on the features.",
    "GCN and APPNP: the hyper-parameters of their papers and no validation labels, so that they "
    "run for 200 epochs without early stopping. Without features, one column per node (X = I).",
    f"GCN+val and APPNP+val: with up to {N_VALIDATION} validation labels, and at most half of the "
    "remaining ones, for early stopping and to choose weights, as in their papers. Validation "
    "nodes are not scored.",
    f"Active learning: {', '.join(ZOO_GRAPHS)}, the largest component of each; one label at a time "
    f"up to {N_LABELS}, the default model refitted after each.",
    "Leave-one-out: the default model, 100 draws with seeds 0 to 99.",
    "Every run has one thread.",
)
# By the name that stands for all targets of a page.
PAGES = {
    "beyond": Page(
        "beyond.html",
        "Beyond the paper: the default model against others on the same labels",
        "nodegp is GraphGPClassifier() as it comes, one recipe for all data and no validation "
        "labels; GGP is the model of Ng, Colombo and Silva (NeurIPS 2018) with our engine. ",
        Remarks("settings", "Settings", [("", _SETTINGS_BEYOND)]),
        "This is the quick version, to see that all works and not to compare: networks were "
        "stopped after 20 epochs, and labels are fewer than the settings say. ",
    ),
    "zoo": Page(
        "zoo.html",
        "The zoo: one default on twelve graphs",
        "GraphGPClassifier() without any tuning, on Cora, Citeseer, Pubmed and nine other graphs, "
        "compared with other methods on the same labels. ",
        Remarks("settings", "Settings", [("", _SETTINGS_ZOO)]),
        "This is the quick version, to see that all works and not to compare: networks were "
        "stopped after 20 epochs. ",
        "zoo.md",
    ),
    "all": Page(
        "report.html",
        "Bayesian semi-supervised learning with graph Gaussian processes: the paper, reproduced",
        "Ng, Colombo and Silva, NeurIPS 2018. Our numbers beside the printed ones: ",
        Remarks(
            "settings",
            "Settings and assumptions",
            [
                ("", _SETTINGS),
                (
                    "What neither the paper nor the authors' code says, and was assumed here:",
                    _ASSUMPTIONS,
                ),
            ],
        ),
    ),
}


def write_report(name: str, records: list[Record], folder: Path) -> list[Path]:
    """Write the page of this name, and ``*.md``, ``*.svg`` and ``*.png`` of what is on it; returns
    all paths."""
    check_available()
    frame = PAGES[name]
    written: list[Path] = []

    def write(file: str, content: bytes) -> None:
        write_atomically(folder / file, content)
        written.append(folder / file)

    drawn = (target.show(records) for target in TARGETS if target.page == name)
    parts: list[Table | Figure | Remarks] = [part for part in drawn if part is not None]
    for part in parts:
        if isinstance(part, Table):
            write(f"{part.name}.md", part.markdown().encode())
        elif isinstance(part, Figure):
            for form in ("svg", "png"):
                write(f"{part.name}.{form}", part.rendered(form))
    lead = frame.lead
    if any("epochs" in record.spec.settings for record in records):
        lead += frame.cut
    total = seconds_text(sum(record.seconds for record in records))
    lead += f"{len(records)} runs, {total} of computing."
    environment = Remarks("environment", "Environment", [("", _environments(records))])
    if frame.document:
        ran = Remarks("runs", "What was run", [(_how_much(name, records), _what_was_run(records))])
        parts = [ran, *parts]
        text = _markdown(name, frame, lead, [*parts, frame.remarks, environment])
        write(frame.document, text.encode())
    html = page(frame.title, lead, [*parts, frame.remarks, environment])
    write(frame.file, html.encode())
    return written


def _how_much(name: str, records: Sequence[Record]) -> str:
    """Whether this is the whole experiment."""
    whole = {spec.key for spec in plan([name])}
    there = len(whole & {record.spec.key for record in records})
    if there == len(whole):
        return f"All of it, {there:,} runs:"
    return f"A part of the experiment, {there:,} of {len(whole):,} runs:"


def _what_was_run(records: Sequence[Record]) -> list[str]:
    """A line to each experiment and number of seeds: what of it there is."""
    kinds: dict[tuple[str, str], set[int]] = {}
    for record in records:
        kinds.setdefault((record.spec.task, record.spec.model), set()).add(record.spec.seed)
    alike: dict[tuple[str, int], list[str]] = {}
    for (task, model), seeds in kinds.items():
        alike.setdefault((task, len(seeds)), []).append(model)
    order = [target.task.name for target in TARGETS]
    lines = []
    for (task, n_seeds), models in sorted(alike.items(), key=lambda kind: order.index(kind[0][0])):
        runs = [r for r in records if r.spec.task == task and r.spec.model in models]
        graphs = ", ".join(dict.fromkeys(run.spec.dataset for run in runs))
        sizes = sorted({run.spec.settings.get("per_class", 0) for run in runs} - {0})
        labels = f" {', '.join(map(str, sizes))} labels per class;" if sizes else ""
        count = "1 seed" if n_seeds == 1 else f"{n_seeds} seeds"
        lines.append(f"{task}: {', '.join(models)} on {graphs};{labels} {count}, {len(runs)} runs")
    return lines


def _markdown(name: str, frame: Page, lead: str, parts: Sequence[Table | Figure | Remarks]) -> str:
    """The page for the documentation."""
    sections = [
        f"# {frame.title}",
        lead,
        "This page is written by a command, which can be interrupted and continues where it "
        "stopped:\n\n"
        f"```\nnodegp reproduce {name} --jobs 2 --out {name}\n```",
    ]
    for part in parts:
        if isinstance(part, Table):
            sections.append(part.markdown().strip())
        elif isinstance(part, Remarks):
            lines = [f"## {part.title}"]
            for sentence, points in part.groups:
                lines += [*([sentence] if sentence else []), "\n".join(f"- {p}" for p in points)]
            sections.append("\n\n".join(lines))
        else:
            sections.append(
                f"## {part.title}\n\n![{part.title}]({part.name}.svg)\n\n{part.caption}"
            )
    return "\n\n".join(sections) + "\n"


def _environments(records: Sequence[Record]) -> list[str]:
    versions = Counter(tuple(sorted(record.versions.items())) for record in records)
    return [
        f"{count} runs with " + ", ".join(f"{name} {version}" for name, version in names)
        for names, count in versions.most_common()
    ]
