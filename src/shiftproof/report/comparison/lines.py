"""The figures of a comparison: a measure of both models on a domain, their difference, and the samples that changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.certification import CERTIFIERS
from shiftproof.errors import UsageError
from shiftproof.evidence import worst_seen
from shiftproof.perturbations.threat import size_text
from shiftproof.report.certified import Series, by_setting, nice_radii, series_of_evidence
from shiftproof.report.comparison.pairing import Paired
from shiftproof.report.comparison.settings import tell_apart
from shiftproof.report.differences import difference
from shiftproof.report.estimates import Values, estimate
from shiftproof.report.measures import Measure, measures_of
from shiftproof.types import Estimate, FloatArray

__all__ = ["Line", "lines_of"]

LEVEL = 0.95
RADIUS = "radius"
"""The kind of a line of mean certified radii, which is no share of samples."""


@dataclass(frozen=True, eq=False)
class Line:
    """One measure of two models on the same samples of a domain.

    `metric` is the word of requirements (clean, clean-vote, attacked, corrupted, certified), attacked-vote, or radius.
    `values()` is what each sample has before and after: 1 where it is right (certified within `size`), else 0; a mean
    over corruptions or training seeds where there are several; a radius. `difference` is the other less the baseline,
    with a 95 % interval. `note` is what a reader should know of it.
    """

    metric: str
    title: str
    domain: str
    classifier: str
    baseline: Estimate
    other: Estimate
    difference: Estimate
    ids: NDArray[np.object_]
    values: Callable[[], tuple[FloatArray, FloatArray]]
    norm: str = ""
    units: str = ""
    size: float = 0.0
    seen: str = "no"
    note: str = ""

    @property
    def is_share(self) -> bool:
        """Whether it is a part of samples; else a mean radius."""
        return self.metric != RADIUS

    @cached_property
    def gained(self) -> list[str]:
        """Ids of samples that have more than before: right, or certified, and not before."""
        before, after = self.values()
        return [str(one) for one in self.ids[after > before]]

    @cached_property
    def lost(self) -> list[str]:
        """Ids of samples that have less than before."""
        before, after = self.values()
        return [str(one) for one in self.ids[after < before]]

    @property
    def verdict(self) -> str:
        """better | worse | undecided: whether the whole interval of the difference is on one side of 0."""
        if self.difference.low > 0:
            return "better"
        return "worse" if self.difference.high < 0 else "undecided"


def lines_of(
    paired: Paired,
    *,
    radii: Sequence[float] = (),
    also: Sequence[tuple[str | None, float]] = (),
    apart: bool = True,
    seed: int = 0,
) -> list[Line]:
    """A line for every measure and domain: clean, attacked, corrupted, certified at each radius, mean radius.

    Args:
        radii: Where certified accuracy is compared; none: where a certificate was decided, or at round ones.
        also: Further radii, each with its norm, or with None for all certificates.
        apart: Whether the two are models that were trained on their own, so that their seeds are independent.
        seed: Of the bootstrap.
    """
    sides = [
        [one for one in measures_of(side, side[0].model) if one.kind != "certified"]
        for side in (paired.baseline, paired.other)
    ]
    named = _attack_titles(paired, sides[0])
    lines = [
        line
        for here, there, title in zip(sides[0], sides[1], named, strict=True)
        for line in _measured(paired, replace(here, title=title), there, apart, seed)
    ]
    series = [series_of_evidence(side) for side in (paired.baseline, paired.other)]
    counterparts = dict(zip(series[0], series[1], strict=True))
    settings = by_setting(series[0])
    names = tell_apart([_name(some[0], counterparts[some[0]]) for some in settings], [s[0].setting for s in settings])
    for some, name in zip(settings, names, strict=True):
        further = [radius for norm, radius in also if norm in (None, some[0].norm)]
        shown = _radii([*some, *(counterparts[one] for one in some)], radii, further)
        for radius in shown:
            lines += [_certified(paired, one, counterparts[one], radius, name, apart, seed) for one in some]
        lines += [_radius(paired, one, counterparts[one], name, apart, seed) for one in some]
    return lines


def _attack_titles(paired: Paired, measures: Sequence[Measure]) -> list[str]:
    """The titles of measures; attacks of one size by several methods also say which method, or which options."""
    attacks = paired.baseline.where(probe="attack").by("setting")
    settings = iter([part[0].setting for part in attacks if float(part[0].fact("eps"))])
    # measures keep the order of settings
    return tell_apart(
        [one.title for one in measures], [next(settings) if one.kind == "attacked" else one.title for one in measures]
    )


def _measured(paired: Paired, here: Measure, there: Measure, apart: bool, seed: int) -> Iterator[Line]:
    assert (here.kind, here.size) == (there.kind, there.size)
    voted = here.classifier != "base"
    probe = "attack" if voted else {"attacked": "attack", "corrupted": "corrupt"}.get(here.kind, here.kind)
    for domain in here.samples:
        yield _line(
            (here.samples[domain], there.samples[domain]),
            (here.at(domain), there.at(domain)),
            paired.ids[domain, probe],
            apart=apart,
            seed=seed,
            metric=f"{here.kind}-vote" if voted else here.kind,
            title=here.title,
            domain=domain,
            classifier=here.classifier,
            norm=here.norm,
            units=here.units,
            size=here.size,
            seen=worst_seen([here.seen_in([domain]), there.seen_in([domain])]),
        )


def _certified(paired: Paired, here: Series, there: Series, radius: float, name: str, apart: bool, seed: int) -> Line:
    within = f"within {size_text(radius, here.norm)}" if radius else "at all"
    early = "votes stopped early: more of them could certify more" if here.biased or there.biased else ""
    return _line(
        (here.values(radius), there.values(radius)),
        (here.at(radius), there.at(radius)),
        paired.ids[here.domain, "certify"],
        apart=apart,
        seed=seed,
        metric="certified",
        title=f"certified {within}, {name}",
        size=radius,
        note="" if _decides(here, radius) else early,
        **_facts(here, there),
    )


def _radius(paired: Paired, here: Series, there: Series, name: str, apart: bool, seed: int) -> Line:
    most = [one.reachable_radii if one.biased else None for one in (here, there)]
    biased = here.biased or there.biased
    known = all(one.reachable_radii is not None for one in (here, there))
    note = "votes stopped early: " if biased else ""
    note += ("the interval counts what all could give" if known else "the difference is biased") if biased else ""
    return _line(
        (here.radii, there.radii),
        (estimate(here.radii, exact=False, limits=None), estimate(there.radii, exact=False, limits=None)),
        paired.ids[here.domain, "certify"],
        apart=apart,
        seed=seed,
        most=(most[0], most[1]),
        metric=RADIUS,
        title=f"mean certified radius, {name}",
        note=note,
        **_facts(here, there),
    )


def _line(
    values: tuple[Values, Values],
    estimates: tuple[Estimate, Estimate],
    ids: NDArray[np.object_],
    *,
    apart: bool,
    seed: int,
    most: tuple[Values | None, Values | None] = (None, None),
    note: str = "",
    **facts: Any,
) -> Line:
    before, after = values
    shares = facts["metric"] != RADIUS
    greatest = max(float(part.values.max()) for one in (*values, *most) if one is not None for part in one.by_seed)
    limits = (0.0, 1.0) if shares else (0.0, greatest)
    interval = difference(
        after, before, limits, shares=shares, apart=apart, seed=seed, this_most=most[1], that_most=most[0]
    )
    found = replace(interval(LEVEL), n=len(ids))
    if len(before.by_seed[0].units.names) < 2:
        # one group says nothing of others: every difference is possible
        found = replace(found, low=min(found.low, limits[0] - limits[1]), high=max(found.high, limits[1] - limits[0]))
        note = "one group or sample says nothing of others"
    return Line(
        baseline=estimates[0],
        other=estimates[1],
        difference=found,
        ids=ids,
        values=lambda: (before.averaged.values, after.averaged.values),
        note=note,
        **facts,
    )


def _facts(here: Series, there: Series) -> dict[str, Any]:
    return {
        "domain": here.domain,
        "classifier": here.classifier,
        "norm": here.norm,
        "units": here.units,
        "seen": worst_seen([here.seen, there.seen]),
    }


def _name(here: Series, there: Series) -> str:
    return here.name if here.name == there.name else f"{here.name} and {there.name}"


def _decided(one: Series) -> tuple[float, ...] | None:
    """The radii at which alone a certificate was decided, where votes stopped early for them."""
    config = one.repeats.fact("certifier")
    known = isinstance(config, Mapping) and str(config.get("name")) in CERTIFIERS
    return CERTIFIERS.make(config).asked_radii if known else None


def _decides(one: Series, radius: float) -> bool:
    decided = _decided(one)
    return decided is not None and any(abs(radius - each) <= 1e-9 for each in decided)


def _radii(series: Sequence[Series], asked: Sequence[float], further: Sequence[float]) -> tuple[float, ...]:
    """Those that were asked for; else 0 and what the certificates decide, or round ones."""
    decided = [radii for one in series if (radii := _decided(one)) is not None]
    usual = {0.0, *(radius for radii in decided for radius in radii)} if decided else nice_radii(series)
    for radius in (*asked, *further):
        if not all(any(abs(radius - each) <= 1e-9 for each in radii) for radii in decided):
            known = ", ".join(f"{each:g}" for each in decided[0])
            raise UsageError(f"radius {radius:g} was not decided: votes for {series[0].name} stopped at {known}")
    return tuple(sorted({*(asked or usual), *further}))
