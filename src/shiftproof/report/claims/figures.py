"""The figures that claims are about, found in evidence: the numbers of every sample, for each training seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.errors import UsageError
from shiftproof.evidence import Evidence, Measurement
from shiftproof.evidence.titles import certificate_titles
from shiftproof.report.certified import Series, series_of_evidence
from shiftproof.report.claims.asked import measured_by, searched
from shiftproof.report.claims.corrupted import corrupted_values
from shiftproof.report.claims.sides import SOURCES, Metric, Side
from shiftproof.report.estimates import TRAIN_SEED, OverDomains, Values, estimate, repeats_in
from shiftproof.report.measures import Measure, measures_of
from shiftproof.types import Estimate

__all__ = ["Figure", "Figures"]


@dataclass(frozen=True, eq=False)
class Figure:
    """A metric of one side, for each training seed.

    `limits` are those of a share, `ball` is the norm and units of radii, `note` what a reader should know of it. Where
    sampling stopped early, `values` are lower bounds, and `reachable` what all votes could have given at most.
    """

    values: Values | OverDomains
    seeds: tuple[Any, ...]
    limits: tuple[float, float] | None
    ball: str = ""
    note: str = ""
    reachable: Values | OverDomains | None = None

    @property
    def most(self) -> Values | OverDomains:
        """The largest that the values can be."""
        return self.values if self.reachable is None else self.reachable

    @cached_property
    def estimate(self) -> Estimate:
        """The mean over samples and seeds with its 95 % interval."""
        return estimate(self.values, exact=self.limits is not None and self.values.separate, limits=self.limits)


class Figures:
    """Looks figures up; what is not there, or not unambiguous, is a `UsageError` that says what is missing.

    `sources` are the domains that the word `sources` stands for.
    """

    def __init__(self, evidence: Evidence, sources: Sequence[str] = ()) -> None:
        self.evidence = evidence
        self.sources = tuple(sources)
        self._found: dict[tuple[Metric, str], Figure] = {}
        self._measures: dict[str, list[Measure]] = {}

    def find(self, metric: Metric, side: Side) -> Figure:
        """The figure of a side."""
        key = metric, str(side)
        if key not in self._found and side.domain == SOURCES and self.sources:
            self._found[key] = _mean([self.find(metric, replace(side, domain=name)) for name in self.sources], side)
        if key not in self._found:
            rows = self.evidence.where(model=side.model, domain=side.domain)
            if not len(rows):
                raise UsageError(f"{side.model} was not measured on {side.domain}")
            if metric.needs_certificate:
                self._found[key] = self._certified(metric, side, self._series)
            elif metric.is_searched or side.probe_for(metric) is not None:
                self._found[key] = self._asked(metric, side)
            else:
                self._found[key] = self._of(metric, side)
        return self._found[key]

    def claimed(self, metric: Metric, side: Side) -> Figure:
        """What an unsound rule claims: it stands beside what that rule has published, and no claim is judged by it."""
        rules = Evidence([one for one in self.evidence.where(probe="certify") if one.fact("unsound")])
        names = certificate_titles(rules)
        return self._certified(metric, side, [Series(one, names[one.first.setting]) for one in repeats_in(rules)])

    @cached_property
    def _series(self) -> list[Series]:
        return series_of_evidence(self.evidence)

    def _certified(self, metric: Metric, side: Side, series: Sequence[Series]) -> Figure:
        there = [
            one
            for one in series
            if (one.model, one.domain) == (side.model, side.domain) and metric.norm in (None, one.norm)
        ]
        meant = [one for one in there if side.by is None or side.by.matches(one.repeats.fact("certifier") or {})]
        if not meant:
            others = f"; there is {_names(there)}" if there else ""
            raise UsageError(f"there is no certificate of {side}{others}")
        if len(meant) > 1:
            raise UsageError(f"there are {len(meant)} certificates of {side} ({_names(meant)}); 'by' should say which")
        (one,) = meant
        ball, seeds = f"{one.norm} ({one.units})", tuple(part.fact(TRAIN_SEED) for part in one.repeats.measurements)
        if metric.kind == "answers":
            # answers can be compared whatever radii are measured in
            return Figure(one.repeats.values(_answered_right), seeds, (0.0, 1.0))
        if metric.kind == "acr":
            if not one.biased:
                return Figure(one.radii, seeds, None, ball)
            if one.reachable_radii is None:
                raise UsageError(f"votes for {side} stopped early, and the run does not say by which rule")
            note = f"votes for {side} stopped early: the interval counts what all of them could have given"
            return Figure(one.radii, seeds, None, ball, note, one.reachable_radii)
        assert metric.size is not None
        return Figure(one.values(metric.size), seeds, (0.0, 1.0), ball)

    def _asked(self, metric: Metric, side: Side) -> Figure:
        rows, by = self._answers(side), side.probe_for(metric)
        if metric.is_searched or by is None:
            return Figure(*searched(metric, side, rows), (0.0, 1.0))
        return Figure(*measured_by(by, metric, side, rows), (0.0, 1.0))

    def _answers(self, side: Side) -> Evidence:
        """What was measured of a side, if answers are right or wrong."""
        rows = self.evidence.where(model=side.model, domain=side.domain)
        if any("correct" not in one for one in rows):
            raise UsageError("labels are numbers to predict, so that no answer is right or wrong")
        return rows

    def _of(self, metric: Metric, side: Side) -> Figure:
        rows = self._answers(side)
        if metric.of or (metric.kind == "corrupted" and metric.size is not None):
            return Figure(corrupted_values(metric, side, rows), tuple(rows.distinct(TRAIN_SEED)), (0.0, 1.0))
        if side.model not in self._measures:
            self._measures[side.model] = measures_of(self.evidence, side.model)
        kind = "clean" if metric.kind in ("accuracy", "clean-vote") else metric.kind
        meant = [
            one
            for one in self._measures[side.model]
            if one.kind == kind
            and side.domain in one.samples
            and (one.classifier != "base") == (metric.kind == "clean-vote")
            and metric.norm in (None, one.norm)
            and (metric.size is None or abs(one.size - metric.size) <= 1e-6 * max(1.0, metric.size))
        ]
        if len(meant) != 1:
            of = f"of {metric} of {side.model} on {side.domain}"
            if not meant:
                raise UsageError(f"there is no measurement {of}")
            titles = ", ".join(one.title for one in meant)
            raise UsageError(f"there are {len(meant)} measurements {of} ({titles}); 'by' should say which probe")
        return Figure(meant[0].samples[side.domain], tuple(rows.distinct(TRAIN_SEED)), (0.0, 1.0))


def _mean(figures: Sequence[Figure], side: Side) -> Figure:
    """The mean over domains of what was measured of one model on each."""
    first = figures[0]
    if len(figures) == 1:
        return first
    if any((one.seeds, one.ball) != (first.seeds, first.ball) for one in figures):
        raise UsageError(f"{side.model} was not measured on all sources with the same seeds and in the same ball")
    reachable = None
    if any(one.reachable is not None for one in figures):
        reachable = OverDomains(tuple(part for one in figures for part in _parts(one.most)))
    values = OverDomains(tuple(part for one in figures for part in _parts(one.values)))
    note = next((one.note for one in figures if one.note), "")
    return Figure(values, first.seeds, first.limits, first.ball, note, reachable)


def _parts(values: Values | OverDomains) -> tuple[Values, ...]:
    return values.parts if isinstance(values, OverDomains) else (values,)


def _answered_right(one: Measurement) -> NDArray[np.bool_]:
    """Whether the certified classifier answers right, certified or not; what abstains from an answer is wrong.

    A vote that is not sure of its class abstains. The median classifier has a class of its own, which the samples of
    noise have chosen that are put aside for that, and `prediction` keeps it only where its radius is reached.
    """
    if one.classifier != "median":
        return one["correct"]
    right: NDArray[np.bool_] = one["chosen"] == one["label"]
    return right


def _names(series: Sequence[Series]) -> str:
    return ", ".join(one.name for one in series)
