"""Something to label within a minute: the made-up papers of :mod:`nodegp.datasets.papers`."""

from __future__ import annotations

import pyarrow as pa

from nodegp.app.frontend import SILENT, Progress
from nodegp.app.project import Project
from nodegp.datasets.papers import make_papers

__all__ = ["GUIDELINE", "demo_project"]

GUIDELINE = """\
# What the papers are about

No such paper was ever written: titles were put together from lists of words. Read the title, look
at what it is linked to, and choose.

- **statistics**: estimating, testing, regression, samplers, priors
- **networks**: graphs, links, communities, random walks
- **vision**: images, video, recognition of things, convolutional networks
- **language**: texts, speech, translation, grammars

A title may have a word of another topic in it, and a few cannot be told: say so with *cannot tell*.
"""


def demo_project(
    seed: int = 0, progress: Progress = SILENT
) -> tuple[Project, list[str], dict[str, str]]:
    """Papers without any label, the topics there are, and who has which."""
    tables = make_papers(seed)
    papers = {name: column for name, column in tables["papers"].items() if name != "topic"}
    answers = dict(zip(*tables["answers"].values(), strict=True))
    project = Project.from_tables(
        pa.table(papers),
        pa.table(tables["cites"]),
        id="paper",
        text=["title"],
        show=["title", "published"],
        progress=progress,
    )
    project.tables["label"] = "topic"
    return project, sorted(set(answers.values())), answers
