"""The page of the experiments beyond the paper."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from nodegp.report import Figure, Remarks, Table
from nodegp_paper.experiments.beyond import learning
from nodegp_paper.experiments.beyond.figures import all_figures
from nodegp_paper.experiments.beyond.tables import all_tables
from nodegp_paper.experiments.report import write_page
from nodegp_paper.experiments.store import Record

ORDER = (
    "beyond_splits",
    "beyond_differences",
    "beyond_public",
    "beyond_few_labels",
    "beyond_few_labels_curves",
    "beyond_calibration",
    "beyond_reliability",
    "beyond_sets",
    "beyond_active",
    "beyond_learning",
    "beyond_seconds",
)
TITLE = "Beyond the paper: the default model against others on the same labels"
LEAD = (
    "nodegp is GraphGPClassifier() as it comes, one recipe for all data and no validation labels; "
    "GGP is the model of Ng, Colombo and Silva (NeurIPS 2018) with our engine. "
)
CUT = (
    "This is the quick version, to see that all works and not to compare: networks were stopped "
    "after 20 epochs, and labels are fewer than the settings say. "
)
SETTINGS = (
    "Random splits: training nodes by class, then 1,000 test and 500 validation nodes, all from "
    "outside the public test nodes. The same for every model: differences are split by split.",
    "Validation labels: GCN and APPNP stop by them, as their papers do, and may fit a temperature "
    "to them; nodegp-X and GGP-X train on them; the others do without.",
    "Few labels: no validation labels for anyone; GCN and APPNP run all of 200 epochs.",
    "GGP: TF-IDF on Cora and Citeseer, Pubmed as it comes; kernel (<x, x'> + offset)^3 with the "
    "offset learnt; robust-max; no calibration. In active learning its centred linear kernel.",
    "GCN, APPNP, LP and logistic regression: the settings of their papers, one for all data.",
    f"Active learning: the largest component, one label at a time up to {learning.N_LABELS}; the "
    "models are fitted anew after each.",
    "Every run has one thread. Those that measure seconds run one at a time.",
)


def write_report(records: list[Record], folder: Path) -> list[Path]:
    """Write ``beyond.html`` and its parts ``beyond_*``; returns their paths."""
    parts = chain[Table | Figure](all_tables(records), all_figures(records))
    lead = LEAD
    if any("epochs" in record.spec.settings for record in records):
        lead += CUT
    remarks = Remarks("settings", "Settings", [("", SETTINGS)])
    return write_page(folder / "beyond.html", TITLE, lead, parts, ORDER, remarks, records)
