"""The reports: one page with everything, and each table and figure as a file beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nodegp.files import write_atomically
from nodegp.report import Remarks, Table, check_available, page
from nodegp_paper.experiments.plan import TARGETS
from nodegp_paper.experiments.runner import seconds_text
from nodegp_paper.experiments.store import Record
from nodegp_paper.experiments.tasks.active import N_LABELS

__all__ = ["PAGES", "Page", "write_report"]


@dataclass(frozen=True)
class Page:
    """What a page says besides its tables and figures."""

    file: str
    title: str
    lead: str  # ends in how much was computed
    remarks: Remarks
    cut: str = ""  # of the quick version, where it must not be taken for the full one


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
    "outside the public test nodes. The same for every model: differences are split by split.",
    "Validation labels: GCN and APPNP stop by them, as their papers do, and may fit a temperature "
    "to them; nodegp-X and GGP-X train on them; the others do without.",
    "Few labels: no validation labels for anyone; GCN and APPNP run all of 200 epochs.",
    "GGP: TF-IDF on Cora and Citeseer, Pubmed as it comes; kernel (<x, x'> + offset)^3 with the "
    "offset learnt; robust-max; no calibration. In active learning its centred linear kernel.",
    "GCN, APPNP, LP and logistic regression: the settings of their papers, one for all data.",
    f"Active learning: the largest component, one label at a time up to {N_LABELS}; the "
    "models are fitted anew after each.",
    "Every run has one thread. Those that measure seconds run one at a time.",
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
    parts = [part for part in drawn if part is not None]
    for part in parts:
        if isinstance(part, Table):
            write(f"{part.name}.md", part.markdown().encode())
        else:
            for form in ("svg", "png"):
                write(f"{part.name}.{form}", part.rendered(form))
    lead = frame.lead
    if any("epochs" in record.spec.settings for record in records):
        lead += frame.cut
    total = seconds_text(sum(record.seconds for record in records))
    lead += f"{len(records)} runs, {total} of computing."
    environment = Remarks("environment", "Environment", [("", _environments(records))])
    html = page(frame.title, lead, [*parts, frame.remarks, environment])
    write(frame.file, html.encode())
    return written


def _environments(records: Sequence[Record]) -> list[str]:
    versions = Counter(tuple(sorted(record.versions.items())) for record in records)
    return [
        f"{count} runs with " + ", ".join(f"{name} {version}" for name, version in names)
        for names, count in versions.most_common()
    ]
