"""What people read of a leave-one-out, derived again from its runs and compared; its runs are verified on their own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from shiftproof.errors import DataError
from shiftproof.evidence import slug
from shiftproof.execution import read_json
from shiftproof.report.page import FORMATS
from shiftproof.runs.distances import keep_pairs, read_gaps, read_pairs
from shiftproof.runs.leave_one_out import LeaveOneOut
from shiftproof.runs.record import LEAVE_ONE_OUT, is_sealed
from shiftproof.runs.verify_texts import written_files
from shiftproof.types import Finding

__all__ = ["check_leave_one_out"]

_NOT_COMPARED = (".png",)
"""Pictures of pixels differ between machines."""


def check_leave_one_out(found: LeaveOneOut) -> Iterator[Finding]:
    """Whether the record names the runs that are there, each in its own folder, and page and tables say what they do.

    Distances between domains are taken as they were measured.
    """
    yield from _check_record(found)
    compared, wrong = 0, False
    due = [_derive(found, images) for images in (True, False)]
    for path in written_files(found.folder):
        name = path.relative_to(found.folder).as_posix()
        if path.suffix in _NOT_COMPARED:
            continue
        if all(name not in one for one in due):
            wrong = True
            yield Finding("fail", "table-unexpected", f"{path}: no page or table of these runs has that name")
        elif path.read_bytes() not in [one.get(name) for one in due]:
            wrong = True
            yield Finding(
                "fail",
                "table-differs",
                f"{path} does not say what the runs give: it was edited, or written by another version. "
                f"'shiftproof report {found.folder}' writes it again",
            )
        compared += 1
    if read_pairs(found.folder):
        message = "distances between domains stand on the page as they were measured"
        yield Finding("warn", "distances-unchecked", f"{message}: ask again with shiftproof shift --distances")
    if not compared:
        message = f"there is no page about all runs: 'shiftproof report {found.folder}' writes it"
        yield Finding("warn", "report-missing", message)
    elif not wrong:
        yield Finding(
            "pass", "tables-same", f"{compared} tables, drawings and pages about all runs say what these give"
        )


def _check_record(found: LeaveOneOut) -> Iterator[Finding]:
    record, path = read_json(found.folder / LEAVE_ONE_OUT, DataError), found.folder / LEAVE_ONE_OUT
    # records of before have no seal
    if "seal" in record and not is_sealed(record):
        yield Finding("fail", "record-edited", f"{path} was edited after it was written")
    named = {run.folder.name for run in found.runs}
    if others := sorted(one.parent.name for one in found.folder.glob("*/run.json") if one.parent.name not in named):
        message = f"{path} does not name {', '.join(others)}: a run was taken out, or another study left it there"
        yield Finding("fail" if "seal" in record else "warn", "run-not-named", message)
    for run, target in zip(found.runs, found.targets, strict=True):
        if run.folder.name != f"without-{slug(target)}":
            message = f"{run.folder} holds the run without {target}: folders were renamed or swapped"
            yield Finding("fail", "run-misplaced", message)


def _derive(found: LeaveOneOut, images: bool) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as empty:
        scratch = Path(empty)
        if pairs := read_pairs(found.folder):
            keep_pairs(scratch, pairs, read_gaps(found.folder))
        formats = [name for name in FORMATS if name != "png"]
        replace(found, folder=scratch).export(formats, images=images)
        return {path.relative_to(scratch).as_posix(): path.read_bytes() for path in written_files(scratch)}
