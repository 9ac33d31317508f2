"""`shiftproof run STUDY` of a study that leaves out one domain after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from shiftproof.cli.lines import show_report_path, tell
from shiftproof.cli.measure import measure
from shiftproof.cli.options import EXIT_FAILED
from shiftproof.cli.show import STYLES, outcomes_now, say, show_costs, show_json, show_outcomes, show_page_table
from shiftproof.cli.summary import VERDICT_STYLES

if TYPE_CHECKING:
    from pathlib import Path

    from shiftproof.execution import Compute
    from shiftproof.runs import Run, Study
    from shiftproof.runs.leave_one_out import LeaveOneOut

__all__ = ["estimate_each", "run_each"]


def run_each(
    study: Study, out: Path | None, *, require: list[str] | None, compute: Compute, json: bool, images: bool
) -> None:
    """Run the study once for each domain that it leaves out, write the page about all of them, and say what it says."""
    from shiftproof.runs.leave_one_out import left_out_of, run_leave_one_out

    targets = left_out_of(study)

    def run_one(part: Study, folder: Path) -> Run:
        place = targets.index(part.targets[0]) + 1
        typer.echo(f"leaving out {part.targets[0]} ({place} of {len(targets)}), {folder}", err=True)
        run = measure(part, folder, require=require, estimate=False, compute=compute, json=json, images=images)
        assert run is not None
        return run

    found = run_leave_one_out(study, out, run_one=run_one, progress="lines")
    found.export(images=images)
    if json:
        show_json(_as_json(found, require))
    else:
        _show(found, require)
    if any(not one.met for run in found.runs for one in outcomes_now(run, require)):
        raise typer.Exit(EXIT_FAILED)


def estimate_each(study: Study, compute: Compute, json: bool) -> None:
    """What the first of the runs takes, times their number; all of them have models and probes alike."""
    from dataclasses import replace

    from shiftproof.runs.estimate_not_run import estimate_or_try_blank
    from shiftproof.runs.leave_one_out import left_out_of

    targets = left_out_of(study)
    if not json:
        told = f"{len(targets)} runs, each leaving out one of {', '.join(targets)}"
        typer.echo(f"{told}; tried is the first, and figures are of all", err=True)
    cost, times = estimate_or_try_blank(study.leaving_out(targets[0]), compute, "lines"), len(targets)
    whole = replace(
        cost,
        costs=[one.times(times) for one in cost.costs],
        forward_passes=cost.forward_passes * times,
        most_forward_passes=cost.most_forward_passes * times,
        seconds=cost.seconds * times,
        most_seconds=cost.most_seconds * times,
        besides_seconds=cost.besides_seconds * times,
    )
    show_costs(whole, json)


def _show(found: LeaveOneOut, require: list[str] | None) -> None:
    """Accuracy on every domain that was left out, what is certified, claims, and where everything is."""
    from dataclasses import replace

    from shiftproof.report.sections.claims import difference_words

    content = found.content
    say(f"\n{content.title}", "bold")
    tell("left out", f"{', '.join(found.targets)}, each by a run of its own")
    say("")
    for name in ("accuracy", "certified"):
        for table in content.sections[name].tables() if name in content.sections else ():
            say(table.caption)
            # how far targets are is on the page
            show_page_table(replace(table, rows=[row for row in table.rows if row.cells[0].strong]))
    if "doubts" in content.sections:
        for doubt in content.sections["doubts"].words():
            tell("warn", doubt, STYLES["warn"])
    for run in found.runs:
        _show_findings(run)
    for claim in found.claims:
        figures = difference_words(claim)
        said = f"{claim.verdict}: {claim.id}, {claim.says}{f' ({figures})' if figures else ''}"
        tell("claim", said, VERDICT_STYLES.get(claim.verdict, "yellow"))
    for run in found.runs:
        show_outcomes(outcomes_now(run, require))
    tell("runs", ", ".join(str(run.folder) for run in found.runs))
    show_report_path(found.folder / "report.html")


def _show_findings(run: Run) -> None:
    """Failures, and how many warnings there are: each run has a report of its own."""
    target, suspicious = run.study.targets[0], run.content().story.suspicious
    failures = [one for one in suspicious if one.level == "fail"]
    for finding in failures:
        tell("fail", f"{target} left out: {finding.message}", STYLES["fail"])
    if others := len(suspicious) - len(failures):
        tell("warn", f"{target} left out: {others} warnings, in {run.folder / 'report.html'}", STYLES["warn"])


def _as_json(found: LeaveOneOut, require: list[str] | None) -> dict[str, Any]:
    from dataclasses import asdict

    content = found.content
    return {
        "folder": str(found.folder),
        "report": str(found.folder / "report.html"),
        "runs": {target: str(run.folder) for target, run in zip(found.targets, found.runs, strict=True)},
        **{name: content.sections[name].to_json() for name in ("accuracy", "certified") if name in content.sections},
        "claims": [asdict(one) for one in found.claims],
        "requirements": {
            target: [asdict(one) for one in outcomes_now(run, require)]
            for target, run in zip(found.targets, found.runs, strict=True)
        },
    }
