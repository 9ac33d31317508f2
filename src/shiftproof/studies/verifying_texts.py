"""What people read of a run, derived again and compared: tables, the page, figures and logs."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from shiftproof.certification import Certificates
from shiftproof.certification.logs import Log, write
from shiftproof.domains import Domain
from shiftproof.errors import UsageError
from shiftproof.report.certified import certified_csv, series_of
from shiftproof.studies.certifying import Place
from shiftproof.studies.run import Run
from shiftproof.types import Finding

__all__ = ["check_certified_table", "check_log", "check_report"]

_FORMATS = {"report.html": "html", ".csv": "csv", ".md": "markdown", ".tex": "latex", ".svg": "svg"}
"""Formats of a report by the name or ending of their files; pictures of pixels are not compared."""


def check_report(run: Run) -> Iterator[Finding]:
    """Whether the page, tables and drawings in a run's folder are those that its evidence gives now."""
    there = [path for path in _written(run.folder) if _format_of(path) is not None]
    if not there:
        return
    formats = sorted({name for path in there if (name := _format_of(path)) is not None})
    with tempfile.TemporaryDirectory() as scratch:
        run.export(formats, Path(scratch))
        due = {path.relative_to(scratch).as_posix(): path.read_bytes() for path in _written(Path(scratch))}
    wrong = []
    for path in there:
        name = path.relative_to(run.folder).as_posix()
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
        yield Finding("pass", "tables-same", f"{len(there)} tables, drawings and pages say what the evidence gives")


def _written(folder: Path) -> list[Path]:
    found = [folder / "report.html", *sorted((folder / "tables").glob("*")), *sorted((folder / "figures").glob("*"))]
    return [path for path in found if path.is_file()]


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


def check_certified_table(
    folder: Path, model: str, certified: Mapping[tuple[str, str], tuple[Certificates, Place]]
) -> Iterator[Finding]:
    """Whether the table that `shiftproof certify` wrote follows from certificates by domain and title.

    At which radii and which further alphas they are read was the user's choice, and is taken from the table.
    """
    path = folder / "tables" / "certified.csv"
    if not path.is_file():
        return
    text = path.read_text(errors="replace")
    try:
        rows = list(csv.DictReader(text.splitlines()))
        due = _certified_table(rows, _typed_name(rows, model), certified)
    except (KeyError, ValueError, UsageError, csv.Error):
        due = ""
    if text != due:
        message = (
            "tables/certified.csv does not say what the certificates give: it was edited, or written by another version"
        )
        yield Finding("fail", "table-differs", message)
    else:
        yield Finding("pass", "tables-same", "tables/certified.csv says what the certificates give")


def _certified_table(
    rows: Sequence[Mapping[str, str]],
    model: str,
    certified: Mapping[tuple[str, str], tuple[Certificates, Place]],
) -> str:
    titles = {name: key for key in certified for name in _shown(key)}
    keys = dict.fromkeys((titles[row["domain"], row["certificate"]], float(row["alpha"])) for row in rows)
    radii = dict.fromkeys(float(row["radius"]) for row in rows if row["radius"])
    series = []
    for key, alpha in keys:
        certificates, place = certified[key]
        domain, seen = place.domain, place.seen_in_training
        if alpha != certificates.alpha:
            certificates = certificates.at_alpha(alpha)
        series.append(series_of(model, domain.name, certificates, domain.labels, domain.groups, seen))
    return certified_csv(series, list(radii))


def _typed_name(rows: Sequence[Mapping[str, str]], model: str) -> str:
    """The model as the user typed it, with a path that may be relative, if it can be the recorded one."""
    typed = rows[0]["model"].lstrip("'")
    kind, _, path = typed.partition(":")
    same = model == typed or (kind == "file" and model.endswith(f"/{path.removeprefix('./')}"))
    return typed if same else model


def _shown(key: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """A domain and a title as a table may write them: a name that a spreadsheet would compute has a quote before it."""
    for domain in (key[0], f"'{key[0]}"):
        for title in (key[1], f"'{key[1]}"):
            yield domain, title
