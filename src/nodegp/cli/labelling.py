"""The command that opens the labelling page: `nodegp label`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nodegp.cli import show as terminal
from nodegp.cli.options import comma_list, table_files, table_options, takes

__all__ = ["label"]


@takes(
    "model demo nodes edges graph id label labels source target weight features text categorical "
    "exclude show features_table features_npy features_npz knn ignore_unknown sep encoding "
    "classes strategy random_share suggestions confidence guideline annotator journal apply out "
    "export port open seed force quiet"
)
def label(
    model, demo, show, classes, strategy, random_share, suggestions, confidence, guideline,
    annotator, journal, apply, out, export, port, open, seed, force, quiet, **tables
):  # fmt: skip
    """Label nodes in the browser: one key per answer, and the model learns from each.

    Opens a page on this machine, for this user only. It shows a node with its texts, numbers and
    neighbourhood; a digit labels it, and the next node is the one whose label helps most. Every
    answer is saved in a journal before the next question appears: stop at any time, and continue
    later.

    nodegp label topics.nodegp

    nodegp label --nodes papers.csv --edges cites.csv --text title --classes theory,learning

    nodegp label --demo
    """
    from nodegp.label.export import write_answers
    from nodegp.label.session import Session

    progress = terminal.Terminal(quiet)
    check(random_share, confidence, apply, out, model, export, force)
    guide = "" if guideline is None else read_guideline(guideline)
    if demo:
        subject, beside, name, demo_guide = from_demo(model, tables, seed, progress)
        guide = guide or demo_guide
    else:
        subject, beside, name = from_user(model, classes, show, tables, progress)
    path = journal or beside.with_name(beside.name + ".labels.sqlite")
    with progress.stage("starting"):
        session = Session(
            subject,
            path,
            strategy=strategy,
            random_share=random_share,
            suggestions=suggestions,
            confidence=confidence,
            annotator=annotator,
            seed=seed,
        )
    try:
        if apply:
            written = applied(session, out or model)
            if not quiet:
                print(f"{answers(session)}; {written:,} labels in the model {out or model}")
        if export is not None:
            rows = write_answers(session, export)
            if not quiet:
                print(f"{rows:,} rows written to {export}")
        if not apply and export is None:
            page(session, port, open, guide, name, quiet)
    finally:
        session.close()


def check(
    random_share: float,
    confidence: float,
    apply: bool,
    out: Path | None,
    model: Path | None,
    export: Path | None,
    force: bool,
) -> None:
    """Refuse options that make no sense, before anything is read."""
    from nodegp.app.frontend import OptionError
    from nodegp.app.outputs import check_model_place
    from nodegp.label.export import FORMATS

    if not 0 <= random_share <= 1:
        raise OptionError(
            f"`random_share` must lie between 0 and 1, got {random_share:g}", "random_share"
        )
    if not 0 < confidence <= 1:
        raise OptionError(
            f"`confidence` must be above 0 and at most 1, got {confidence:g}", "confidence"
        )
    if out is not None and not apply:
        raise OptionError("`out` without `apply`: nothing is written", "out", "apply")
    if apply and out is None and model is None:
        raise OptionError("`apply`: say where the model goes, with `out`", "apply", "out")
    if out is not None:
        check_model_place(out, [], force)
    if export is not None:
        if export.suffix.removeprefix(".").lower() not in FORMATS:
            endings = ", ".join("." + name for name in FORMATS)
            raise OptionError(f"`export`: name a file that ends in {endings}", "export")
        if export.exists() and not force:
            raise OptionError(
                f"{export} is there already; name another file, or pass `force` to replace it",
                "force",
            )


def read_guideline(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text in UTF-8; save the guideline as such") from None


def from_demo(
    model: Path | None, tables: dict[str, Any], seed: int, progress: Any
) -> tuple[Any, Path, str, str]:
    """The made-up papers, and a folder that is theirs for now."""
    import tempfile

    from nodegp.label.demo import GUIDELINE, demo_project
    from nodegp.label.opening import subject_of

    if model is not None or table_files(tables):
        raise ValueError("--demo has papers of its own: give no model and no tables")
    project, classes, _ = demo_project(seed, progress)
    folder = Path(tempfile.mkdtemp(prefix="nodegp-label-"))
    return subject_of(project, classes), folder / "demo", "made-up papers", GUIDELINE


def from_user(
    model: Path | None,
    classes: str | None,
    show: str | None,
    tables: dict[str, Any],
    progress: Any,
) -> tuple[Any, Path, str]:
    """What a user has: a model, or tables."""
    from nodegp.app import Project
    from nodegp.app.frontend import refuse_without
    from nodegp.label.opening import subject_of

    source = tables["nodes"] or tables["graph"]
    if (model is None) == (source is None):
        raise ValueError("give a model file, or --nodes (and --edges), or --demo")
    if model is not None:
        refuse_without("nodes", "the model has its graph", tables)
        project = Project.open(model, progress)
    else:
        options = table_options(tables | {"show": show})
        project = Project.from_tables(**options, progress=progress)
        for remark in project.summary.remarks():
            progress.note(remark)
    subject = subject_of(project, comma_list(classes), comma_list(show) if model else None)
    place = model or source
    assert place is not None
    return subject, place, place.name


def applied(session: Any, path: Path) -> int:
    """Write the model that has learnt from the journal, and count its labels."""
    project, model = session.subject.project, session.knowledge.model
    if model is None:
        raise ValueError("no node has a label yet, so there is no model to write")
    project.model = model
    project.save(path)
    return len(model.labelled_)


def page(session: Any, port: int | None, open: bool, guide: str, name: str, quiet: bool) -> None:
    """Serve the page until it is stopped."""
    from nodegp.extras import to_install

    try:
        from nodegp.web.serving import serve
    except ImportError as error:
        raise ImportError(f"nodegp label needs {error.name}: {to_install('label')}") from error

    def say(link: str) -> None:
        if not quiet:
            print(f"answers go to {session.journal.path}")
            if session.is_read_only:
                print("another server has it open: this one shows it and takes no answers")
            print("open this link; Ctrl+C stops, and nothing is lost")
        print(link, flush=True)

    serve(session, port=port, open_browser=open, guideline=guide, name=name, say=say)
    if not quiet:
        print(f"{answers(session)}; `--apply` puts answers into a model")


def answers(session: Any) -> str:
    """How many there are, and where."""
    count = sum(mark.label is not None for mark in session.state.marks.values())
    said = f"{count:,} answer{'s' * (count != 1)}" if count else "no answer yet"
    return f"{said} in {session.journal.path}"
