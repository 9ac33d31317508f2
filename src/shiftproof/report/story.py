"""What a reader in a hurry should know: what holds, what is guaranteed, what is suspicious. A few lines, no tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shiftproof.certification.imported import alpha_text
from shiftproof.evidence import seen_note, worst_seen
from shiftproof.perturbations.threat import size_text
from shiftproof.report.overview import Overview, OverviewFigure
from shiftproof.report.sections.findings import TELLING, certificate_judgements, shift_judgements
from shiftproof.types import Finding

if TYPE_CHECKING:
    from shiftproof.report.report import Report

__all__ = ["NOTHING", "Step", "Story", "story_of"]

MOST = 6
"""Findings that are told one by one."""
ALIKE = 2
"""Of more findings than this with one code, the first is told for all."""
SEVERAL = 6
"""Domains of one role that are named; of more, how many they are."""
NOTHING = "nothing"
"""What a sentence on a guarantee begins with where there is none."""
NAMED = 4
"""Models that are named; of more, how many they are."""


@dataclass(frozen=True)
class Step:
    """What to do, in a sentence; with a command, what the command does."""

    text: str
    command: str = ""


@dataclass(frozen=True)
class Story:
    """Sentences, and findings in short.

    Args:
        tested: How many models on how many samples of which domains.
        holds: What is not measurably worse on a target.
        guaranteed: What certificates promise.
        suspicious: Failures and warnings, failures first, as many as a reader takes in.
        untold: How many failures and warnings were left out.
        passed: How many checks passed.
    """

    tested: str
    holds: list[str]
    guaranteed: list[str]
    suspicious: list[Finding]
    untold: int
    passed: int


def story_of(report: Report) -> Story:
    """What a report says first, from its overview and its findings."""
    told = list(_short(report))
    passed = sum(one.level == "pass" for one in report.findings)
    overview = report.overview
    guaranteed = [*_guaranteed(overview), *report.around_verdict]
    return Story(_tested(report), list(_holds(overview)), guaranteed, told[:MOST], len(told[MOST:]), passed)


def _tested(report: Report) -> str:
    """How many models on how many samples of which domains, and whether these were trained on."""
    counts: dict[str, int] = {}
    for one in report.evidence:
        # every probe takes the first of one order
        counts[one.domain] = max(len(one), counts.get(one.domain, 0))
    places = [
        _places([name for name in names if name in counts], counts, role)
        for names, role in (
            (report.targets, "unseen"),
            (report.sources, "source" if report.targets or report.trained_here else "measured"),
        )
        if any(name in counts for name in names)
    ]
    models, seeds = len(report.models), len([one for one in report.evidence.distinct("train_seed") if one is not None])
    who = f"{models} models" if models > 1 else next(iter(report.models), "a model")
    trained = f", each trained with {seeds} seeds" if seeds > 1 else ""
    return f"{who}{trained}, on {', '.join(places)}"


def _places(names: Sequence[str], counts: dict[str, int], role: str) -> str:
    if len(names) > SEVERAL:
        return f"{sum(counts[name] for name in names):,} samples of {len(names)} domains ({role})"
    return ", ".join(f"{name} ({role}, n = {counts[name]:,})" for name in names)


def _short(report: Report) -> Iterator[Finding]:
    """Failures and warnings in a few words; many of one kind in one line."""
    judged = [
        *shift_judgements(report.accuracy, report.class_counts),
        *certificate_judgements(report.series, report.sources, report.targets, report.seed),
    ]
    words = {one.finding.message: one.short for one in judged}
    by_code: dict[tuple[str, str], list[Finding]] = {}
    for one in report.findings:
        if one.level != "pass":
            by_code.setdefault((one.level, one.code), []).append(
                replace(one, message=words.get(one.message, one.message))
            )
    for alike in by_code.values():
        if len(alike) > ALIKE:
            yield replace(alike[0], message=f"{alike[0].message}; and {len(alike) - 1} more findings like this")
        else:
            yield from alike


def _holds(overview: Overview) -> Iterator[str]:
    """A sentence for the kinds of figures that the same models keep on every target."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for kind in ("clean", "attacked", "corrupted"):
        keeping = tuple(row.model for row in overview.rows if kind in row.figures and _kept(row.figures[kind]))
        if keeping:
            kinds.setdefault(keeping, []).append(kind)
    where = overview.targets[0] if len(overview.targets) == 1 else f"any of {len(overview.targets)} targets"
    for models, some in kinds.items():
        named = ", ".join(some[:-1]) + " and " + some[-1] if len(some) > 1 else some[0]
        figures = [row.figures[kind] for row in overview.rows if row.model in models for kind in some]
        seen = worst_seen(value for figure in figures for value in figure.gap_seen.values())
        who = _models(models, len(overview.rows))
        yield f"{who}no loss is measurable on {where}, {named}{_noted(seen)}"


def _kept(figure: OverviewFigure) -> bool:
    """Whether no loss is measurable on any target; too few samples to tell is not that."""
    return bool(figure.gaps) and all(gap.low <= 0 and gap.high <= TELLING for gap in figure.gaps.values())


def _models(models: Sequence[str], all_models: int) -> str:
    if all_models == 1:
        return ""
    return f"{'; '.join(models)}: " if len(models) <= NAMED else f"{len(models)} of {all_models} models: "


def _guaranteed(overview: Overview) -> Iterator[str]:
    """A sentence on what is certified: of one model with its interval, of several the least and the most."""
    figures = {row.model: row.figures["certified"] for row in overview.rows if "certified" in row.figures}
    if len(figures) == 1:
        (figure,) = figures.values()
        if not figure.there.value and figure.measure is not None:
            yield f"{NOTHING} on {figure.domain} within {size_text(figure.measure.size, figure.measure.norm)}"
            return
        interval = f"{100 * figure.there.low:.1f} to {100 * figure.there.high:.1f}"
        yield f"{figure.there.value:.1%} ({interval}) of {figure.domain} {_promise(figure)}"
    elif figures:
        least, most = (choose(figures, key=lambda model: figures[model].there.value) for choose in (min, max))
        one_place = figures[least].domain == figures[most].domain
        where = f"on {figures[most].domain} " if one_place else ""
        ends = [
            f"{figures[name].there.value:.1%} ({name}{'' if one_place else f' on {figures[name].domain}'})"
            for name in (least, most)
        ]
        if figures[least].there.value == figures[most].there.value:
            ends = [f"{figures[most].there.value:.1%} (all {len(figures)} models)"]
        yield f"{where}{' to '.join(ends)} {_promise(figures[most])}"


def _promise(figure: OverviewFigure) -> str:
    measure = figure.measure
    assert measure is not None
    held = "certified by an imported log" if measure.imported else "guaranteed to stay so"
    chance = f", {alpha_text(measure.alpha)} for each" if measure.alpha else ""
    seen = _noted(figure.seen.get(figure.domain, "no"))
    return f"are right and {held} within {size_text(measure.size, measure.norm)}{chance}{seen}"


def _noted(seen: str) -> str:
    return f" ({note})" if (note := seen_note(seen)) else ""
