"""What `nodegp reproduce` does: plan, run what is missing, write the report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from nodegp.report import check_available
from nodegp_paper.experiments.plan import TARGETS, TASKS, expected_seconds, plan
from nodegp_paper.experiments.report import PAGES, write_report
from nodegp_paper.experiments.runner import run_all, seconds_text
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.store import Record

__all__ = ["run"]


def run(
    targets: list[str],
    datasets: str | None,
    models: str | None,
    engine: str,
    seeds: int | None,
    jobs: int,
    out: Path,
    quick: bool,
    data_dir: str | None,
) -> None:
    """Plan, run what is missing, write the report."""
    engines = None if engine == "both" else [engine]
    specs = plan(targets, _split(datasets), _split(models), engines, seeds, quick)
    if not specs:
        raise ValueError(
            "nothing to run: these models have no runs in what was asked for, or none on these data"
        )
    check_available()
    _check_data(specs, data_dir)
    progress = _Bar() if sys.stderr.isatty() else _Lines()
    alone = [spec for spec in specs if TASKS[spec.task].alone]
    together = [spec for spec in specs if not TASKS[spec.task].alone]
    failed: list[Spec] = []
    try:
        for batch, n_jobs in ((together, jobs), (alone, 1)):
            if batch:
                records, lost = run_all(batch, out, progress, n_jobs, data_dir, expected_seconds)
                failed += lost
    except KeyboardInterrupt:
        typer.echo(f"\nstopped; the same command goes on with what is in {out}", err=True)
        raise typer.Exit(130) from None
    finally:
        progress.close()
    for page in PAGES:
        tasks = {target.task.name for target in TARGETS if target.page == page}
        requested = [spec for spec in specs if spec.task in tasks]
        if requested:
            # Also what earlier commands left here, as far as it belongs to the same experiments.
            on_page = [*requested, *plan([page], seeds=seeds, quick=quick)]
            keys = dict.fromkeys(spec.key for spec in on_page)
            for path in write_report(page, [records[k] for k in keys if k in records], out):
                typer.echo(path)
    if failed:
        typer.echo(f"nodegp: {len(failed)} of {len(specs)} runs failed; see above", err=True)
        raise typer.Exit(1)


def _split(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def _check_data(specs: list[Spec], data_dir: str | None) -> None:
    """Find or fetch every data set now, not an hour later in a worker process."""
    from nodegp.datasets import load_dataset

    for name in dict.fromkeys(spec.dataset for spec in specs):
        load_dataset(name, data_dir)


def _result(record: Record) -> str:
    texts: list[str] = []
    for name, label, form in (
        ("alc", "ALC", "{:.3f}"),
        ("accuracy", "accuracy", "{:.1%}"),
        ("log_loss", "log loss", "{:.3f}"),
        ("calibration_error", "calibration error", "{:.3f}"),
        ("rank_correlation", "rank correlation", "{:.2f}"),
        ("fit", "a fit", "{:.2f} s"),
    ):
        if name in record.metrics:
            texts.append(f"{label} {form.format(record.metrics[name])}")
    return ", ".join(texts)


class _Lines:
    """Progress as plain lines, for logs."""

    def begin(self, n_runs: int, n_finished: int, seconds: float) -> None:
        self.total, self.done = n_runs, n_finished
        done = f", {n_finished} finished before" if n_finished else ""
        self._say(f"{n_runs} runs{done}; about {seconds_text(seconds)} to go")

    def finished(self, record: Record, seconds_left: float) -> None:
        self.done += 1
        self._say(
            f"[{self.done}/{self.total}] {record.spec.title}: {_result(record)} "
            f"({record.seconds:.1f} s; {seconds_text(seconds_left)} left)"
        )

    def failed(self, spec: Spec, error: str) -> None:
        self.done += 1
        self._say(f"[{self.done}/{self.total}] {spec.title} FAILED\n{error}")

    def close(self) -> None:
        pass

    def _say(self, line: str) -> None:
        typer.echo(line, err=True)


class _Bar:
    """Progress as a bar with the time that is left, for terminals."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed

        columns: list[Any] = [
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            Elapsed(),
            TextColumn("{task.fields[left]}"),
        ]
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._progress.start()

    def begin(self, n_runs: int, n_finished: int, seconds: float) -> None:
        self._task = self._progress.add_task(
            "runs", total=n_runs, completed=n_finished, left=f"{seconds_text(seconds)} left"
        )

    def finished(self, record: Record, seconds_left: float) -> None:
        self._progress.console.print(
            f"[green]✓[/] {record.spec.title}  [dim]{_result(record)}, {record.seconds:.1f} s[/]"
        )
        self._progress.update(self._task, advance=1, left=f"{seconds_text(seconds_left)} left")

    def failed(self, spec: Spec, error: str) -> None:
        self._progress.console.print(f"[red]✗ {spec.title}[/]")
        self._progress.console.print(error, markup=False)
        self._progress.update(self._task, advance=1)

    def close(self) -> None:
        self._progress.stop()
