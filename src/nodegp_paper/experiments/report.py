"""The experiments' report: one page with everything, and each table and figure as a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from nodegp.files import write_atomically
from nodegp.report import Figure, Remarks, Table, check_available, page
from nodegp_paper.experiments.figures import all_figures
from nodegp_paper.experiments.models import ASSUMPTIONS, SETTINGS
from nodegp_paper.experiments.runner import seconds_text
from nodegp_paper.experiments.store import Record
from nodegp_paper.experiments.tables import all_tables

# Tables and figures in the order of the page.
ORDER = (
    "table1",
    "reliability",
    "table2",
    "table3",
    "figure2",
    "claim_steps",
    "claim_hubs",
    "few_labels",
    "claim_few_labels",
)
TITLE = "Bayesian semi-supervised learning with graph Gaussian processes: the paper, reproduced"


def write_report(records: list[Record], folder: Path) -> list[Path]:
    """Write ``report.html``, ``*.md``, ``*.svg`` and ``*.png``; returns their paths."""
    lead = "Ng, Colombo and Silva, NeurIPS 2018. Our numbers beside the printed ones: "
    remarks = Remarks(
        "settings",
        "Settings and assumptions",
        [
            ("", SETTINGS),
            (
                "What neither the paper nor the authors' code says, and was assumed here:",
                ASSUMPTIONS,
            ),
        ],
    )
    parts = chain[Table | Figure](all_tables(records), all_figures(records))
    return write_page(folder / "report.html", TITLE, lead, parts, ORDER, remarks, records)


def write_page(
    path: Path,
    title: str,
    lead: str,
    parts: Iterable[Table | Figure],
    order: Sequence[str],
    remarks: Remarks,
    records: list[Record],
) -> list[Path]:
    """Write a page with these parts, and each of them beside it; returns all paths.

    ``lead`` is a sentence that ends in how much was computed.
    """
    check_available()
    written: list[Path] = []

    def write(name: str, content: bytes) -> None:
        write_atomically(path.with_name(name), content)
        written.append(path.with_name(name))

    shown = []
    for part in parts:
        shown.append(part)
        if isinstance(part, Table):
            write(f"{part.name}.md", part.markdown().encode())
        else:
            for form in ("svg", "png"):
                write(f"{part.name}.{form}", part.rendered(form))
    shown.sort(key=lambda part: order.index(part.name))
    environment = Remarks("environment", "Environment", [("", _environments(records))])
    total = seconds_text(sum(record.seconds for record in records))
    lead += f"{len(records)} runs, {total} of computing."
    write(path.name, page(title, lead, [*shown, remarks, environment]).encode())
    return written


def _environments(records: list[Record]) -> list[str]:
    versions = Counter(tuple(sorted(record.versions.items())) for record in records)
    return [
        f"{count} runs with " + ", ".join(f"{name} {version}" for name, version in names)
        for names, count in versions.most_common()
    ]
