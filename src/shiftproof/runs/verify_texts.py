"""What people read of a run, derived again and compared: tables, the page, figures and logs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from shiftproof.certification import Certificates
from shiftproof.certification.logs import Log, write
from shiftproof.domains import Domain
from shiftproof.runs.run import Run
from shiftproof.types import Finding

__all__ = ["check_log", "check_report"]

_FORMATS = {
    "report.html": "html",
    "report.json": "json",
    ".csv": "csv",
    ".md": "markdown",
    ".tex": "latex",
    ".svg": "svg",
    ".html": "interactive",
}
"""Formats of a report by the name or ending of their files; pictures of pixels are not compared."""


def check_report(run: Run) -> Iterator[Finding]:
    """Whether the page, tables and drawings in a run's folder are those that its evidence gives now.

    What a plug-in that is not installed may have written, or shown on the page, is not looked at.
    """
    there = [path for path in _written(run.folder) if _format_of(path) is not None]
    if run.absent:
        there = [path for path in there if path.parent != run.folder]
    if not there:
        return
    formats = sorted({name for path in there if (name := _format_of(path)) is not None})
    with tempfile.TemporaryDirectory() as scratch:
        run.export(formats, Path(scratch))
        due = {path.relative_to(scratch).as_posix(): path.read_bytes() for path in _written(Path(scratch))}
    wrong, compared = [], sum(path.relative_to(run.folder).as_posix() in due for path in there)
    for path in there:
        name = path.relative_to(run.folder).as_posix()
        if name not in due and run.absent:
            continue
        if name not in due:
            yield Finding("fail", "table-unexpected", f"{name}: no table or figure of this run has that name")
        elif path.read_bytes() != due[name]:
            wrong.append(name)
    for name in wrong:
        yield Finding(
            "fail",
            "table-differs",
            f"{name} does not say what the evidence gives: it was edited, or written by another version. "
            f"'shiftproof report {run.folder}' writes it again",
        )
    if not wrong:
        yield Finding("pass", "tables-same", f"{compared} tables, drawings and pages say what the evidence gives")


def _written(folder: Path) -> list[Path]:
    tables, figures = (sorted((folder / name).glob("*")) for name in ("tables", "figures"))
    written = [folder / "report.html", folder / "report.json", *tables, *figures]
    return [path for path in written if path.is_file()]


def _format_of(path: Path) -> str | None:
    return _FORMATS.get(path.name, _FORMATS.get(path.suffix) if path.parent.name in ("tables", "figures") else None)


def check_log(path: Path, certificates: Certificates, domain: Domain, name: str) -> Iterator[Finding]:
    """Whether a log that other tools read says what the certificates say."""
    if not path.is_file():
        return
    due = write(Log(certificates.ids, domain.labels, certificates.prediction, certificates.radius))
    if path.read_bytes() != due.encode():
        message = f"{name}: logs/{path.name} does not say what the certificates say; it was edited after it was written"
        yield Finding("fail", "log-differs", message)
