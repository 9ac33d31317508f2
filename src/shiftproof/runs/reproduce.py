"""The page that shows a study beside its publication, for the documents of a project."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shiftproof.errors import ModelError
from shiftproof.evidence import Evidence, slug
from shiftproof.execution import write_atomically
from shiftproof.execution.progress import duration
from shiftproof.models import read_card
from shiftproof.report import Report
from shiftproof.report.claims.overview import with_overview
from shiftproof.report.reproduction import reproduction_files
from shiftproof.runs.models import model_file
from shiftproof.runs.spec import Study
from shiftproof.runs.study_files import list_studies

__all__ = ["compute_words", "refresh_overview", "write_reproduction"]


def write_reproduction(report: Report, study: Study, record: Mapping[str, Any], folder: Path, out: Path) -> list[Path]:
    """Write NAME.md and what it shows below `out`; remarks in NAME.remarks.md, if there are any, become part of it."""
    # a name is anything that somebody has written
    name = slug(study.name)
    remarks = out / f"{name}.remarks.md"
    text = remarks.read_text() if remarks.is_file() else ""
    files = reproduction_files(
        report, name, _command(study, record), compute_words(report.evidence, study, record, folder), text
    )
    for name, content in files.items():
        write_atomically(out / name, content)
    return [*(out / name for name in files), *refresh_overview(out)]


def refresh_overview(out: Path) -> list[Path]:
    """Write the table of all claims into the README beside the pages, if it has a place for it."""
    path = out / "README.md"
    if not path.is_file():
        return []
    text = path.read_text("utf-8")
    told = with_overview(text, out)
    if told == text:
        return []
    write_atomically(path, told.encode())
    return [path]


def _command(study: Study, record: Mapping[str, Any]) -> str:
    """What makes the page again, of a study that comes with shiftproof and is run as it is; else what was typed."""
    typed = str(record.get("command") or f"# in Python: sp.run_study({study.name!r})")
    changed = any(
        option in typed.split() for option in ("--set", "--seed", "--seeds", "--limit", "--scale", "--budget")
    )
    return f"make reproduce STUDY={study.name}" if study.name in list_studies() and not changed else typed


def compute_words(evidence: Evidence, study: Study, record: Mapping[str, Any], folder: Path) -> str:
    """What it took, by the clocks of training and of every measurement."""
    trained = 0.0
    for member in study.members:
        try:
            trained += float(read_card(model_file(folder, study, member)).get("seconds", 0.0))
        except ModelError:
            continue
    measured = sum(float(one["seconds"].sum()) for one in evidence if "seconds" in one)
    threads = int(record.get("cell_threads", record["environment"]["threads"]))
    cap = f"; the study's cap is {study.cap}" if study.cap else ""
    models = f"{len(study.members)} models ({len(study.models)} settings{_seeds(study)})"
    return (
        f"{models}: {duration(trained)} of training on {_threads(threads)}, {duration(measured)} of measuring on one "
        f"thread, shared by {record['environment']['cores']} cores{cap}."
    )


def _threads(count: int) -> str:
    return "one thread" if count == 1 else f"{count} threads"


def _seeds(study: Study) -> str:
    return f", {len(study.seeds)} seeds each" if study.seeds else ""
