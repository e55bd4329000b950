"""One self-contained page with everything, and each table and figure as a file of its own."""

from __future__ import annotations

import io
import re
from collections import Counter
from importlib.resources import files
from pathlib import Path

from nodegp.experiments.figures import Figure, all_figures
from nodegp.experiments.models import ASSUMPTIONS, SETTINGS
from nodegp.experiments.runner import seconds_text
from nodegp.experiments.store import Record
from nodegp.experiments.tables import all_tables
from nodegp.files import write_atomically

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
EXTRA = "the report needs matplotlib and jinja2: pip install 'nodegp[reports]'"


def check_available() -> None:
    """Raise if the report's packages are missing: before the runs, not hours after."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ValueError(f"{EXTRA} ({error})") from None


def write_report(records: list[Record], folder: Path) -> list[Path]:
    """Write ``report.html``, ``*.md``, ``*.svg`` and ``*.png``; returns their paths."""
    check_available()
    written: list[Path] = []

    def write(name: str, content: str | bytes) -> None:
        path = folder / name
        write_atomically(path, content.encode() if isinstance(content, str) else content)
        written.append(path)

    tables = all_tables(records)
    for table in tables:
        write(f"{table.name}.md", table.markdown())
    drawn = []
    for figure in all_figures(records):
        svg, png = _rendered(figure, "svg").decode(), _rendered(figure, "png")
        write(f"{figure.name}.svg", svg)
        write(f"{figure.name}.png", png)
        drawn.append((figure, _inline(svg, figure.name)))
    write("report.html", _page(records, tables, drawn))
    return written


def _rendered(figure: Figure, form: str) -> bytes:
    import matplotlib

    buffer = io.BytesIO()
    # Without a date and with fixed ids: the same records make the same file.
    metadata = {"Date": None} if form == "svg" else {}
    with matplotlib.rc_context({"svg.hashsalt": figure.name, "svg.fonttype": "path"}):
        figure.drawing.savefig(buffer, format=form, dpi=150, metadata=metadata)
    return buffer.getvalue()


def _inline(svg: str, name: str) -> str:
    """The drawing for use within a page: no XML header, and ids that no other drawing has."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(xlink:href="|url\()#', rf"\1#{name}-", body)
    return re.sub(r' width="[\d.]+pt"| height="[\d.]+pt"', "", body, count=2)


def _page(records: list[Record], tables: list, drawn: list[tuple[Figure, str]]) -> str:
    from jinja2 import Environment
    from markupsafe import Markup

    template = (files("nodegp.experiments") / "report.html.j2").read_text(encoding="utf-8")
    parts = {figure.name: (None, figure, Markup(svg)) for figure, svg in drawn}
    parts |= {table.name: (table, None, None) for table in tables}
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    versions = Counter(tuple(sorted(r.versions.items())) for r in records)
    return environment.from_string(template).render(
        parts=[parts[name] for name in ORDER if name in parts],
        settings=SETTINGS,
        assumptions=ASSUMPTIONS,
        n_runs=len(records),
        total=seconds_text(sum(r.seconds for r in records)),
        environments=[(dict(names), count) for names, count in versions.most_common()],
    )
