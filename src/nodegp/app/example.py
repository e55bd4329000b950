"""A folder with tables to try the commands on."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from nodegp.app.frontend import OptionError
from nodegp.datasets.papers import make_papers
from nodegp.files import write_atomically
from nodegp.io.write import write_tables

__all__ = ["write_example"]

_README = """\
Tables to try nodegp on. All of it is made up: no such paper was ever written.

papers.csv   300 papers: id, title, month, and the topic of 40 of them
cites.csv    which paper cites which
answers.csv  the topics of all papers, for you to play the expert

Run these in this folder:

nodegp fit --nodes papers.csv --edges cites.csv --id paper --label topic --text title \
-o topics.nodegp
nodegp evaluate topics.nodegp
nodegp evaluate topics.nodegp --labels answers.csv
nodegp query topics.nodegp -n 10 -o ask.csv

Read the titles of the papers in ask.csv and fill in their topics, or take them from answers.csv:

nodegp update topics.nodegp --labels ask.csv
nodegp evaluate topics.nodegp --labels answers.csv

Or label them on a page in the browser, one key for one paper: `nodegp label topics.nodegp`
"""


def write_example(folder: Path, seed: int = 0, force: bool = False) -> list[Path]:
    """Write the tables of :func:`nodegp.datasets.papers.make_papers` and a README.txt, and say
    where; over files that are there only by ``force``."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; name a folder")
    tables = {folder / f"{name}.csv": columns for name, columns in make_papers(seed).items()}
    readme = folder / "README.txt"
    paths = [*tables, readme]
    if (taken := [path.name for path in paths if path.exists()]) and not force:
        raise OptionError(
            f"{folder} has {', '.join(taken)} already; name another folder, or give `force` to "
            "write over them",
            "force",
        )
    folder.mkdir(parents=True, exist_ok=True)
    for path, columns in tables.items():
        write_tables(path, [pa.table(columns)])
    write_atomically(readme, _README.encode())
    return paths
