"""Leave-one-out: a study that is run once for each domain, which training then leaves out, and what all runs found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from shiftproof.errors import DataError, DataNotFound, UsageError
from shiftproof.evidence import slug
from shiftproof.execution import Mode, as_path, check_writable, read_json, write_atomically, write_json
from shiftproof.report.claims import (
    ClaimOutcome,
    Published,
    RunEvidence,
    judge_over_targets,
    published_over_targets,
)
from shiftproof.report.leave_one_out import LeaveOneOutReport, leave_one_out_report
from shiftproof.report.leave_one_out.page import leave_one_out_page
from shiftproof.report.page import FORMATS, render_page, write_report
from shiftproof.runs.distances import keep_pairs, read_gaps, read_pairs
from shiftproof.runs.engine import run_study
from shiftproof.runs.facts import facts_of_all
from shiftproof.runs.how_far import Distances, measure_distances
from shiftproof.runs.identity import digest, study_identity
from shiftproof.runs.record import LEAVE_ONE_OUT, seal_of
from shiftproof.runs.reproduce import refresh_overview
from shiftproof.runs.run import Run, open_run
from shiftproof.runs.spec import Study
from shiftproof.runs.study_files import find_study

__all__ = ["LeaveOneOut", "folders_of", "is_leave_one_out", "left_out_of", "open_leave_one_out", "run_leave_one_out"]

EACH = "each"
MEASURES = ("frechet", "frechet-extrapolated", "kernel", "sliced-wasserstein", "w1-bound")
"""How far sources are from a target: what is shown beside what is lost on the way."""
_OF_ONE_RUN = ("card", "junit")
"""Formats that speak of one run; every run of a leave-one-out has them itself."""


@dataclass(frozen=True, eq=False, repr=False)
class LeaveOneOut:
    """Finished runs of one study, each with another target; made by `run_leave_one_out`."""

    folder: Path
    name: str
    runs: tuple[Run, ...]
    published: tuple[Published, ...] = ()

    def __repr__(self) -> str:
        return f"LeaveOneOut({self.folder}: {', '.join(self.targets)} left out, one run for each)"

    @property
    def targets(self) -> tuple[str, ...]:
        """The domain that each run left out."""
        return tuple(run.study.targets[0] for run in self.runs)

    @cached_property
    def claims(self) -> list[ClaimOutcome]:
        """What the study claims of the mean over all targets, and what the evidence of all runs says of it."""
        each = [
            RunEvidence(run.evidence, name, run.study.seed, tuple(run.record["sources"]))
            for name, run in self._by_target
        ]
        return judge_over_targets(self.runs[0].study.claims, each, self.published)

    @cached_property
    def content(self) -> LeaveOneOutReport:
        """What the page says."""
        return self._content(images=True)

    def distances(self, features: str = "auto", limit: int | None = 1_000, progress: Mode = "auto") -> Distances:
        """Measure how far the sources of each run are from its target, and keep it for the report."""
        found = measure_distances(runs=self.runs, features=features, measures=MEASURES, limit=limit, progress=progress)
        keep_pairs(self.folder, found.pairs, found.gaps)
        return found

    def report(self, path: Path | str | None = None, *, images: bool = True) -> Path:
        """Write the page, which opens offline; returns where."""
        where = self.folder / "report.html" if path is None else Path(path)
        write_atomically(where, render_page(self._content(images)).encode())
        return where

    def export(
        self, formats: Sequence[str] = FORMATS, folder: Path | None = None, *, images: bool = True
    ) -> list[Path]:
        """Write the page, tables, figures and all numbers below `folder` or the own one; returns paths, the page first.

        With the format reproduction, a page for the documents of a project.
        """
        if one := next((name for name in formats if name in _OF_ONE_RUN), None):
            raise UsageError(f"{one} is of one run: name the folder of one, such as {self.runs[0].folder}")
        where, content = folder or self.folder, self._content(images)
        written = write_report(content, where, [name for name in formats if name != "reproduction"])
        if "reproduction" in formats:
            remarks = where / f"{slug(self.name)}.remarks.md"
            text = remarks.read_text("utf-8") if remarks.is_file() else ""
            command = f"make reproduce STUDY={self.name}"
            for name, page in leave_one_out_page(content, slug(self.name), command, text).items():
                write_atomically(where / name, page)
                written.append(where / name)
            written += refresh_overview(where)
        return written

    @property
    def _by_target(self) -> list[tuple[str, Run]]:
        return list(zip(self.targets, self.runs, strict=True))

    def _content(self, images: bool) -> LeaveOneOutReport:
        first = self.runs[0].study
        parts = [run.content(images) for run in self.runs]
        facts = {f"without {name}": f"hash {run.record['hash']}" for name, run in self._by_target}
        facts |= facts_of_all(parts[0].facts, first, self.targets)
        published = published_over_targets([(run.evidence, name) for name, run in self._by_target], self.published)
        return leave_one_out_report(
            first.title or self.name,
            first.about,
            parts,
            facts,
            read_pairs(self.folder),
            read_gaps(self.folder),
            self.claims,
            published,
        )


def left_out_of(study: Study) -> tuple[str, ...]:
    """The domains that a study leaves out one after the other, by name."""
    if study.leave_out is None:
        raise UsageError(f"the study {study.name!r} has no leave_out; name the domains there, or 'each' for all")
    try:
        names = study.data.load().names
    except DataNotFound:
        # a dry run needs no data, only its names
        if (outline := study.data.outline()) is None:
            raise
        names = tuple(outline.counts)
    chosen = names if study.leave_out == (EACH,) else study.leave_out
    for target in chosen:
        if target not in names:
            raise UsageError(
                f"the study {study.name!r} leaves out {', '.join(chosen)}, and there is no domain {target!r} in "
                f"{study.data.source}, which has {', '.join(names)}: --set leave_out=each leaves out each of these, "
                f"--set leave_out=[{names[0]}] some"
            )
    if len(names) < 2:
        raise UsageError(f"{study.data.source} has one domain, {names[0]}: without it nothing is left to train on")
    return chosen


def run_leave_one_out(
    study: Study | str,
    out: Path | str | None = None,
    *,
    distances: bool = True,
    run_one: Callable[[Study, Path], Run] | None = None,
    progress: Mode = "auto",
    images: bool = True,
    **options: Any,
) -> LeaveOneOut:
    """Run a study once for each domain that it leaves out, below one folder; the same call continues what was stopped.

    Args:
        out: The folder; every run is one of its folders, such as without-photo.
        distances: Whether to measure how far the sources of each run are from its target.
        run_one: What runs one of the studies in a folder; `run_study` unless told.
        images: Whether the report may show samples.
        options: Of `run_study`: workers, device, require, ...
    """
    study = find_study(study) if isinstance(study, str) else study
    targets = left_out_of(study)
    folder = as_path("out", out) if out else default_folder(study, targets)
    if (folder / "run.json").exists():
        raise UsageError(f"{folder} is a run, and not the folder of a leave-one-out; choose another --out")
    check_writable(folder)

    def measured(part: Study, where: Path) -> Run:
        return run_study(part, where, progress=progress, images=images, **options)

    run_one = measured if run_one is None else run_one
    parts = {f"without-{slug(target)}": study.leaving_out(target) for target in targets}
    runs = tuple(run_one(part, folder / name) for name, part in parts.items())
    published = [one.model_dump(mode="json") for one in study.published]
    record = {"name": study.name, "runs": list(parts), "published": published}
    write_json(folder / LEAVE_ONE_OUT, {**record, "seal": seal_of(record)})
    found = LeaveOneOut(folder, study.name, runs, study.published)
    if distances and not read_pairs(folder):
        found.distances(progress=progress)
    return found


def default_folder(study: Study, targets: Sequence[str]) -> Path:
    """Where the runs go unless told: all that makes the runs what they are is in its name."""
    identity = study_identity(study.leaving_out(targets[0]))
    return Path("runs") / f"{slug(study.name)}-{digest({**identity, 'leave_out': sorted(targets)})}"


def is_leave_one_out(folder: Path) -> bool:
    """Whether a folder is that of a finished leave-one-out."""
    return (folder / LEAVE_ONE_OUT).is_file()


def open_leave_one_out(folder: Path | str) -> LeaveOneOut:
    """A leave-one-out from its folder; nothing is loaded but records and evidence."""
    where = as_path("the folder of the leave-one-out", folder)
    record, folders = _read_record(where), folders_of(where)
    try:
        published = tuple(Published.model_validate(one) for one in record.get("published", ()))
    except (ValidationError, TypeError) as error:
        raise DataError(f"{where / LEAVE_ONE_OUT} is damaged: its published tables can't be read") from error
    runs = tuple(open_run(one) for one in folders)
    if torn := next((run for run in runs if len(run.study.targets) != 1), None):
        raise DataError(f"{torn.folder} should have one target, as a run of a leave-one-out has")
    return LeaveOneOut(where, str(record.get("name", where.name)), runs, published)


def folders_of(folder: Path) -> list[Path]:
    """The folders of a leave-one-out's runs."""
    names = _read_record(folder).get("runs")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and "/" not in name for name in names):
        raise DataError(f"{folder / LEAVE_ONE_OUT} is damaged: it should name the folders of its runs")
    return [folder / name for name in names]


def _read_record(folder: Path) -> dict[str, Any]:
    return read_json(folder / LEAVE_ONE_OUT, DataError)
