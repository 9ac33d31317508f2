"""How a finished run is told on the command line: about 25 lines, and with --verbose every table and finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shiftproof.cli.lines import show_compact, show_report_path, tell, tell_command
from shiftproof.cli.measure import show_repeat
from shiftproof.cli.show import (
    STYLES,
    outcomes_now,
    say,
    show_accuracy,
    show_claims,
    show_findings,
    show_measures,
    show_outcomes,
    show_scores,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shiftproof.report import Report
    from shiftproof.runs import Run

__all__ = [
    "VERDICT_STYLES",
    "show_details",
    "show_doubts",
    "show_end",
    "show_findings_short",
    "show_samples",
    "show_summary",
]

VERDICT_STYLES = {"supported": "green", "contradicted": "red"}


def show_summary(run: Run, require: Sequence[str] | None, verbose: bool, more: Sequence[tuple[str, str]] = ()) -> None:
    """The whole story of a run; `more` are labels and sentences that a verb has besides."""
    from shiftproof.report.sections.claims import difference_words
    from shiftproof.report.story import NOTHING

    content = run.content()
    if verbose:
        show_details(content)
    say(f"\n{content.title}", "bold")
    tell("tested", content.story.tested)
    show_doubts(content)
    say("")
    if content.overview.rows:
        show_compact(content.overview.to_table())
    for one in content.probe_tables if not content.overview.rows else ():
        say(f"{one.title} ({one.classifier} classifier):")
        show_accuracy(one.table)
    if content.overview.note:
        tell("samples", f"{content.overview.note}.")
    say("")
    for sentence in content.story.holds:
        tell("holds", sentence, "green")
    for sentence in content.story.guaranteed:
        style = "yellow" if sentence.startswith(NOTHING) else "green"
        tell("logged" if run.imported else "guaranteed", sentence, style)
    show_findings_short(content)
    for claim in content.claims:
        figures = difference_words(claim)
        said = f"{claim.verdict}: {claim.id}, {claim.says}{f' ({figures})' if figures else ''}"
        tell("claim", said, VERDICT_STYLES.get(claim.verdict, "yellow"))
    for label, text in more:
        tell(label, text)
    show_end(run, require)


def show_doubts(content: Report) -> None:
    """Why figures can't be trusted or checked, before any of them; that little was learned is a finding of its own."""
    for sentence in content.doubts:
        if not sentence.startswith("What follows says little"):
            tell("doubt", sentence, STYLES["fail"])


def show_findings_short(content: Report) -> None:
    """Failures and warnings in short, and how many checks passed."""
    story = content.story
    for finding in story.suspicious:
        tell(finding.level, finding.message, STYLES[finding.level])
    if story.untold:
        tell("", f"and {story.untold} more kinds of findings: see the report, or --verbose")
    if story.passed:
        tell("pass", f"{story.passed} check{'s' if story.passed != 1 else ''}", STYLES["pass"])


def show_end(run: Run, require: Sequence[str] | None, takes_target: bool = True) -> None:
    """What to do next, what was required, and where the report is."""
    from shiftproof.runs.next_steps import next_steps

    for step in next_steps(run, takes_target):
        if step.command:
            tell_command("next", step.command, step.text)
        else:
            tell("next", step.text)
    show_repeat(run)
    show_outcomes(outcomes_now(run, require))
    show_report_path(run.folder / "report.html")


def show_details(content: Report) -> None:
    """Everything that was measured, one table a kind, all findings, and the verdict in plain words."""
    if content.scores.rows:
        show_scores(content.scores)
    elif content.measures.several:
        if content.measures.beyond:
            say("As they are, on all samples:")
            show_accuracy(content.accuracy)
        show_measures(content.measures)
    else:
        show_accuracy(content.accuracy)
    for one in content.probe_tables:
        say(f"{one.title} ({one.classifier} classifier):")
        show_accuracy(one.table)
    for sentence in content.seed_words:
        say(f"{sentence}\n")
    if content.claims:
        show_claims(content.claims)
    show_findings(content.findings)
    if content.verdict:
        say("")
    for sentence in content.verdict:
        say(sentence, "bold")


def show_samples(run: Run) -> None:
    """Which samples of each domain were measured, of a run of one model."""
    from shiftproof.runs.sample_words import describe_samples

    for name, facts in run.samples.items():
        count = f"{facts['n']:,} sample{'s' if facts['n'] != 1 else ''}"
        tell("tested", f"{name}: {count} ({describe_samples(facts, next(iter(run.study.models)))})")
