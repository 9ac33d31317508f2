"""What people read of a run, derived again and compared: tables, the page, figures and logs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from shiftproof.domains import Domain
from shiftproof.execution import write_atomically
from shiftproof.report.gallery.gradients import gradient_path
from shiftproof.report.gallery.sheet import contact_sheet
from shiftproof.report.page import FORMATS
from shiftproof.runs.distances import keep_distances, keep_pairs, read_distances, read_gaps, read_pairs
from shiftproof.runs.gallery.gradients import gradient_domains
from shiftproof.runs.run import Run, sheet_path
from shiftproof.types import Finding

__all__ = ["check_report", "written_files"]

_FORMATS = {
    "report.html": "html",
    "report.json": "json",
    ".csv": "csv",
    ".md": "markdown",
    ".tex": "latex",
    ".svg": "svg",
}
"""Formats of a report by the name or ending of their files; pictures of pixels are not compared."""
_READ = (
    *("figures/samples-*.png", "figures/gallery-*.json", "figures/gradients-*.png"),
    "figures/changed-samples.png",
    *("models/*.json", "model.json", "not-run.json"),
)
"""What a page is made of besides evidence and record."""


def check_report(run: Run, measured: Sequence[Domain] = ()) -> Iterator[Finding]:
    """Whether the page, tables, drawings and logs in a run's folder are those that its evidence gives now.

    What is gone is a warning: no number is lost with it. What a plug-in that is not installed may have written, or
    shown on the page, is not looked at.
    """
    there = [path for path in written_files(run.folder) if _format_of(path) is not None]
    if run.absent:
        there = [path for path in there if path.parent != run.folder]
    if not there:
        message = f"there are no tables, drawings and page: 'shiftproof report {run.folder}' writes them"
        yield Finding("warn", "report-missing", message)
        return
    formats = {*FORMATS, *(name for path in there if (name := _format_of(path)) is not None)} - {"png", "logs"}
    shown = [one for one in measured if len(one.shape) == 3 and run.record.get("images", True)]
    lost = [one for one in shown if not sheet_path(run.folder, one.name).is_file()]
    due = _derive(run, sorted(formats))
    # a page from before pictures of samples were lost shows them; one from after it does not
    with_lost = _derive(run, ["html", "json"], lost) if lost else {}
    # somebody may have written it without samples; that is rare, and derived where nothing else fits
    private = cache(lambda: _derive(run, ["html", "json"], images=False))
    # nor can a page be made again that showed samples one by one, once their pictures are gone
    no_gallery = bool(lost) and not any(run.folder.glob("figures/gallery-*.json"))
    undrawn = [one.name for one in _with_gradients(run, shown) if not gradient_path(run.folder, one.name).is_file()]
    unknown = ("report.html", "report.json") if no_gallery or undrawn else ()
    wrong, compared = [], sum(path.relative_to(run.folder).as_posix() in due for path in there)
    for path in there:
        name = path.relative_to(run.folder).as_posix()
        kind = "log" if path.suffix == ".tsv" else "table"
        if name in unknown or (name not in due and run.absent):
            continue
        if name not in due:
            what = "log" if kind == "log" else "table or figure"
            yield Finding("fail", f"{kind}-unexpected", f"{name}: no {what} of this run has that name")
        elif (content := path.read_bytes()) not in (due[name], with_lost.get(name)) and content != private().get(name):
            wrong.append(name)
            yield Finding(
                "fail",
                f"{kind}-differs",
                f"{name} does not say what the evidence gives: it was edited, or written by another version. "
                f"'shiftproof report {run.folder}' writes it again",
            )
    yield from _missing(run, lost, due)
    if undrawn:
        message = f"there are no pictures of loss gradients on {', '.join(undrawn)}, and the page is not compared"
        yield Finding("warn", "pictures-missing", f"{message}; the command that made the run draws them again")
    if known := read_distances(run.folder):
        message = f"{len(known)} distances of targets stand in the report, which is not checked without these targets"
        yield Finding("warn", "distances-unchecked", f"{message}: ask again with shiftproof shift")
    if pairs := read_pairs(run.folder):
        message = f"{len(pairs)} distances between domains stand in the report as they were measured"
        yield Finding("warn", "distances-unchecked", f"{message}: ask again with shiftproof shift --distances")
    if not wrong:
        message = f"{compared} tables, drawings, logs and pages say what the evidence gives"
        yield Finding("pass", "tables-same", message)


def _with_gradients(run: Run, shown: Sequence[Domain]) -> list[Domain]:
    """The domains of which there should be pictures of loss gradients."""
    adapted = {one.domain for one in run.evidence if one.classifier == "adapted"}
    return [one for one in gradient_domains(run.study, shown) if one.name in adapted]


def _derive(run: Run, formats: Sequence[str], lost: Sequence[Domain] = (), *, images: bool = True) -> dict[str, bytes]:
    """What a report writes, by name, with the pictures of samples that are there and those that are `lost`."""
    with tempfile.TemporaryDirectory() as empty:
        scratch = Path(empty)
        for path in (path for kind in _READ for path in run.folder.glob(kind)):
            write_atomically(scratch / path.relative_to(run.folder), path.read_bytes())
        keep_distances(scratch, read_distances(run.folder))
        if pairs := read_pairs(run.folder):
            keep_pairs(scratch, pairs, read_gaps(run.folder))
        for domain in lost:
            write_atomically(sheet_path(scratch, domain.name), contact_sheet(domain))
        replace(run, folder=scratch).export(formats, images=images)
        return {path.relative_to(scratch).as_posix(): path.read_bytes() for path in written_files(scratch)}


def _missing(run: Run, lost: Sequence[Domain], due: dict[str, bytes]) -> Iterator[Finding]:
    """Files of the usual report that are not there; of every drawing there is a picture, too."""
    drawings = [name.removesuffix(".svg") for name in due if name.endswith(".svg")]
    wanted = {*due, *(f"{name}.png" for name in drawings)}
    if gone := sorted(name for name in wanted if not (run.folder / name).is_file()):
        message = f"{len(gone)} of {len(wanted)} files of the report are not there, such as {gone[0]}"
        yield Finding("warn", "report-missing", f"{message}; 'shiftproof report {run.folder}' writes them again")
    if lost:
        message = f"there are no pictures of the samples of {', '.join(one.name for one in lost)}, and a page with them"
        message += " is not compared"
        yield Finding("warn", "pictures-missing", f"{message}; the command that made the run draws them again")


def written_files(folder: Path) -> list[Path]:
    """Pages, tables, drawings and logs of a report that are in a folder."""
    inside = [path for name in ("tables", "figures", "logs") for path in sorted((folder / name).glob("*"))]
    return [path for path in (folder / "report.html", folder / "report.json", *inside) if path.is_file()]


def _format_of(path: Path) -> str | None:
    if path.parent.name == "logs":
        return "logs" if path.suffix == ".tsv" else None
    inside = path.parent.name in ("tables", "figures") and path.suffix != ".tsv"
    return _FORMATS.get(path.name, _FORMATS.get(path.suffix) if inside else None)
