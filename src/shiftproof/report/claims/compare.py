"""One part of a claim judged: the difference of its two sides with an interval that counts samples and trainings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from shiftproof.errors import UsageError
from shiftproof.report.claims.figures import Figure, Figures
from shiftproof.report.claims.published import Published, published_figure
from shiftproof.report.claims.sides import SOURCES, Comparison, Side
from shiftproof.report.differences import Interval, OneRun, mean_difference, mean_over_runs
from shiftproof.report.tables import points
from shiftproof.statistics import p_value
from shiftproof.types import Estimate

__all__ = ["FEWEST_SEEDS", "Measured", "PartOutcome", "compare"]

FEWEST_SEEDS = 3
"""With fewer trainings of a model, nothing is decided about it."""
LEFT_OUT = "the domains that were left out"


@dataclass(frozen=True)
class PartOutcome:
    """One comparison of a claim: figures of both sides, their difference, and what its interval alone decides.

    Args:
        sentence: What is compared.
        verdict: supported | contradicted | undecided | not measured, by the interval, without a correction.
        this: The figure of the claim's side, with its 95 % interval.
        that: The figure of the other side; a number that is known has no width.
        difference: This less that, with an interval at the claim's confidence.
        published_this: The published figure of the claim's side.
        published_that: That of the other side.
        p: The smallest 1 - level at which the interval still supports it.
        p_against: The same for contradicting it.
        why: What decided it, in a sentence.
    """

    sentence: str
    verdict: str
    this: Estimate | None = None
    that: Estimate | None = None
    difference: Estimate | None = None
    published_this: float | None = None
    published_that: float | None = None
    p: float = 1.0
    p_against: float = 1.0
    why: str = ""
    is_share: bool = True

    @property
    def published_difference(self) -> float | None:
        """The published difference, where both figures were published, or one was and the other is a number."""
        if self.published_this is None or self.published_that is None:
            return None
        return self.published_this - self.published_that


@dataclass(frozen=True)
class Measured:
    """The figures of one run, and a comparison about its target; `seed` is of its bootstrap."""

    figures: Figures
    comparison: Comparison
    seed: int = 0


def compare(
    measured: Sequence[Measured],
    confidence: float,
    published: Sequence[Published] = (),
    domain: str | None = None,
) -> PartOutcome:
    """Judge a comparison by evidence; what was not measured is an outcome, not an error.

    Of several runs that leave out another domain each, what is judged is the mean over these domains.
    """
    one = measured[0].comparison
    several = len(measured) > 1
    outcome = PartOutcome(
        str(_anywhere(one) if several else one),
        "not measured",
        published_this=published_figure(published, one.metric, one.this, domain),
        published_that=published_figure(published, one.metric, one.that, domain)
        if isinstance(one.that, Side)
        else one.that,
        is_share=one.metric.is_share,
    )
    try:
        sides = [_sides(run) for run in measured]
        interval = _difference([run.comparison for run in measured], sides, measured[0].seed)
    except UsageError as error:
        return replace(outcome, why=str(error))

    found = interval(confidence)
    outcome = replace(
        outcome,
        verdict="undecided",
        this=_mean([this for this, _ in sides]),
        that=_mean([that for _, that in sides]),
        difference=found,
    )
    for run, pair in zip(measured, sides, strict=True):
        if few := _too_few(run.comparison, *pair):
            return replace(outcome, why=few)
    verdict = "supported" if supports(one, found) else "contradicted" if opposes(one, found) else "undecided"
    notes = [side.note for pair in sides for side in pair if isinstance(side, Figure) and side.note]
    return replace(
        outcome,
        verdict=verdict,
        p=p_value(interval, lambda wide: supports(one, wide)),
        p_against=p_value(interval, lambda wide: opposes(one, wide)),
        why="; ".join([_why(one, verdict, found), *notes]),
    )


def _sides(run: Measured) -> tuple[Figure, Figure | Estimate]:
    """The figures that a run has of both sides; of a number that is known, that."""
    one, figures = run.comparison, run.figures
    this = figures.find(one.metric, one.this)
    return this, figures.find(one.metric, one.that) if isinstance(one.that, Side) else _number(one.that)


def _anywhere(one: Comparison) -> Comparison:
    """The comparison about no domain in particular."""

    def anywhere(side: Side) -> Side:
        return replace(side, domain="their sources" if side.domain == SOURCES else LEFT_OUT)

    return replace(one, this=anywhere(one.this), that=anywhere(one.that) if isinstance(one.that, Side) else one.that)


def supports(one: Comparison, found: Estimate) -> bool:
    """Whether the whole interval lies beyond the effect, or, for `near`, within it."""
    if one.direction == "above":
        return found.low > one.effect
    return found.high < -one.effect if one.direction == "below" else -one.effect < found.low <= found.high < one.effect


def opposes(one: Comparison, found: Estimate) -> bool:
    """Whether the whole interval lies where the claim is false: short of the effect, or, for `near`, outside of it."""
    if one.direction == "above":
        return found.high < one.effect
    return found.low > -one.effect if one.direction == "below" else found.low > one.effect or found.high < -one.effect


def _mean(sides: Sequence[Figure | Estimate]) -> Estimate:
    """The mean over runs of one side; a number is the same in all of them."""
    figures = [one for one in sides if isinstance(one, Figure)]
    if not figures:
        return _number(float(np.mean([one.value for one in sides if isinstance(one, Estimate)])))
    return (
        figures[0].estimate if len(figures) == 1 else mean_over_runs([one.values for one in figures], figures[0].limits)
    )


def _difference(
    comparisons: Sequence[Comparison], sides: Sequence[tuple[Figure, Figure | Estimate]], seed: int
) -> Interval:
    """This less that, with an interval of any level; of a number that is known, or of another figure.

    Of several runs, the mean of their differences. Where votes stopped early, the interval reaches as far as all of
    them could.
    """
    runs = [_of_run(one, *pair) for one, pair in zip(comparisons, sides, strict=True)]
    figures = [side for pair in sides for side in pair if isinstance(side, Figure)]
    return mean_difference(runs, _limits(*figures), shares=figures[0].limits is not None, seed=seed)


def _of_run(one: Comparison, this: Figure, that: Figure | Estimate) -> OneRun:
    if isinstance(that, Estimate):
        return OneRun(this.values, that.value, this_most=this.reachable)
    if one.metric.needs_certificate and this.ball != that.ball:
        raise UsageError(f"radii of {one.this} are in {this.ball}, those of {one.that} in {that.ball}")
    assert isinstance(one.that, Side)
    apart = one.this.model != one.that.model
    if not apart and this.seeds != that.seeds:
        raise UsageError(f"{one.this} and {one.that} were not measured with the same seeds")
    return OneRun(this.values, that.values, apart, this.reachable, that.reachable)


def _limits(*sides: Figure) -> tuple[float, float]:
    """The least and greatest value that there can be; of radii, the greatest that was measured: no other is known."""
    return sides[0].limits or (0.0, max(_greatest(side) for side in sides))


def _greatest(figure: Figure) -> float:
    return figure.most.greatest


def _too_few(one: Comparison, this: Figure, that: Figure | Estimate) -> str:
    """Why nothing can be decided, whatever was measured."""
    sides = [(one.this.model, this)]
    if isinstance(that, Figure) and isinstance(one.that, Side):
        sides.append((one.that.model, that))
    for model, figure in sides:
        if (seeds := len(figure.values.by_seed)) < FEWEST_SEEDS:
            return f"{model} was trained with {seeds} seed{'s' if seeds > 1 else ''}, and {FEWEST_SEEDS} are needed"
        if figure.values.fewest_units < 2:
            return f"{model} was measured on one group, which says nothing of others"
    if this.limits is None and not any(_greatest(figure) for _, figure in sides):
        return "no sample has a radius, so that nothing is known of how large one can be"
    return ""


def _why(one: Comparison, verdict: str, found: Estimate) -> str:
    share = one.metric.is_share
    low, high = (f"{points(end)}" if share else f"{end:+.3g}" for end in (found.low, found.high))
    reach = f"the difference lies between {low} and {high}{' points' if share else ''}"
    effect = f"{100 * one.effect:g} points" if share else f"{one.effect:g}"
    if verdict == "supported":
        return f"{reach}, {f'within {effect}' if one.direction == 'near' else f'all of it beyond {effect}'}"
    if verdict == "undecided":
        return f"{reach}, which holds differences that matter and others that do not"
    if one.direction == "near":
        return f"{reach}, all of it outside of {effect}"
    reverse = found.high < 0 if one.direction == "above" else found.low > 0
    return f"{reach}: {'the reverse is true' if reverse else f'less than the {effect} that matter'}"


def _number(value: float) -> Estimate:
    return Estimate(value, value, value, 0, method="given")
