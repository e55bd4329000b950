"""The experiments' report: one page with everything, and each table and figure as a file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from nodegp.experiments.figures import all_figures
from nodegp.experiments.models import ASSUMPTIONS, SETTINGS
from nodegp.experiments.runner import seconds_text
from nodegp.experiments.store import Record
from nodegp.experiments.tables import all_tables
from nodegp.files import write_atomically
from nodegp.report import Figure, Remarks, Table, check_available, page

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
    check_available()
    written: list[Path] = []

    def write(name: str, content: bytes) -> None:
        write_atomically(folder / name, content)
        written.append(folder / name)

    parts: dict[str, Table | Figure] = {}
    for table in all_tables(records):
        write(f"{table.name}.md", table.markdown().encode())
        parts[table.name] = table
    for figure in all_figures(records):
        for form in ("svg", "png"):
            write(f"{figure.name}.{form}", figure.rendered(form))
        parts[figure.name] = figure
    shown = [parts[name] for name in ORDER if name in parts]
    total = seconds_text(sum(record.seconds for record in records))
    lead = (
        "Ng, Colombo and Silva, NeurIPS 2018. Our numbers beside the printed ones: "
        f"{len(records)} runs, {total} of computing."
    )
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
    environment = Remarks("environment", "Environment", [("", _environments(records))])
    write("report.html", page(TITLE, lead, [*shown, remarks, environment]).encode())
    return written


def _environments(records: list[Record]) -> list[str]:
    versions = Counter(tuple(sorted(record.versions.items())) for record in records)
    return [
        f"{count} runs with " + ", ".join(f"{name} {version}" for name, version in names)
        for names, count in versions.most_common()
    ]
