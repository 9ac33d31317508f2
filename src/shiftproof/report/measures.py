"""What was measured of a model: clean, attacked, corrupted and certified, one number a sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from shiftproof.evidence import Evidence, Measurement, worst_seen
from shiftproof.evidence.titles import relative_size
from shiftproof.perturbations.threat import size_text
from shiftproof.report.certified import Series, by_setting, series_of_evidence
from shiftproof.report.estimates import TRAIN_SEED, SeedValues, Values, estimate, gap, repeats_in
from shiftproof.statistics.units import join_units
from shiftproof.types import Estimate, FloatArray

__all__ = ["Kind", "Measure", "certified_measure", "mean_by_sample", "measures_of", "shared_rows"]

Kind = Literal["clean", "attacked", "corrupted", "certified"]


@dataclass(frozen=True, eq=False)
class Measure:
    """One thing measured of one model: a number from 0 to 1 for every sample of every domain.

    `size` is the eps of an attack or the radius of a certificate, in `norm` and `units`; nothing else has one. `alpha`
    is the chance that a certificate is wrong, at most: 0 where nothing is left to chance. `seen` says of each domain
    whether the model was trained on the samples: no | unknown | yes. `relative` says in words how large `size` is,
    where units alone do not tell. What is `imported` others have measured.
    """

    model: str
    kind: Kind
    title: str
    classifier: str
    samples: dict[str, Values]
    norm: str = ""
    units: str = ""
    size: float = 0.0
    noise: str = ""
    alpha: float = 0.0
    seen: Mapping[str, str] = field(default_factory=dict)
    relative: str = ""
    imported: bool = False

    def seen_in(self, domains: Iterable[str]) -> str:
        """The worst that is known of any of these domains: no | unknown | yes."""
        return worst_seen(self.seen.get(domain, "no") for domain in domains)

    def at(self, domain: str) -> Estimate:
        """The mean of a domain with its 95 % interval: Clopper-Pearson where samples are right or wrong, each alone."""
        values = self.samples[domain]
        return estimate(values, exact=values.separate)

    def mean(self, domains: Sequence[str]) -> float:
        """The mean over domains, each of which weighs the same."""
        return float(np.mean([self.samples[domain].mean for domain in domains]))

    def count(self, domains: Sequence[str]) -> int:
        """How many samples these domains have together."""
        return sum(len(self.samples[domain].by_seed[0]) for domain in domains)

    def gap(self, sources: Sequence[str], target: str, seed: int) -> Estimate:
        """What is lost between sources and target."""
        return gap([self.samples[source] for source in sources], self.samples[target], seed)


def shared_rows(evidence: Evidence) -> Evidence:
    """Only samples that every probe of a model has measured on a domain; all, where all measured the same."""
    rows: dict[Measurement, NDArray[np.int64]] = {}
    for part in evidence.by("model", "domain"):
        ids = [one.ids for one in part]
        names, codes = join_units(ids)
        measured = {id(one): np.bincount(some, minlength=len(names)) > 0 for one, some in zip(ids, codes, strict=True)}
        common = np.logical_and.reduce(list(measured.values()))
        if common.any() and not all((one == common).all() for one in measured.values()):
            # probes that measured the same samples share what is kept of them
            kept = {id(one): np.flatnonzero(common[some]) for one, some in zip(ids, codes, strict=True)}
            rows |= {one: kept[id(its)] for one, its in zip(part, ids, strict=True)}
    return Evidence([one.take(rows[one]) if one in rows else one for one in evidence])


def measures_of(evidence: Evidence, model: str) -> list[Measure]:
    """What was measured of one model, from its evidence."""
    rows = evidence.where(model=model)
    attacked = list(_attacked(rows, model))
    every = [*_clean(rows, model), *attacked, *_corrupted(rows, model), *_certified(rows, model, attacked)]
    seen = {domain: rows.where(domain=domain).seen_in_training for domain in rows.distinct("domain")}
    imported = any(one.fact("imported") for one in rows)
    every = [replace(one, seen=seen, imported=imported) for one in every]
    return sorted(every, key=lambda one: get_args(Kind).index(one.kind))


def _clean(rows: Evidence, model: str) -> Iterator[Measure]:
    clean = _by_domain(rows.where(probe="clean"))
    if clean:
        yield Measure(model, "clean", "as they are", "base", clean)


def _attacked(rows: Evidence, model: str) -> Iterator[Measure]:
    """Within every size; within 0, that is what a vote says to samples as they are."""
    votes = set()
    for part in rows.where(probe="attack").by("setting"):
        first, samples = part[0], _by_domain(part)
        size, noise = float(first.fact("eps")), str(first.fact("noise") or "")
        if size:
            ball = str(first.fact("norm")), str(first.fact("units")), size
            relative = relative_size(part, size)
            yield Measure(model, "attacked", first.title, first.classifier, samples, *ball, noise, relative=relative)
        elif noise and noise not in votes:
            votes.add(noise)
            yield Measure(model, "clean", f"as they are, vote under {noise}", first.classifier, samples, noise=noise)


def _corrupted(rows: Evidence, model: str) -> Iterator[Measure]:
    corrupted = rows.where(probe="corrupt")
    if len(corrupted):
        kinds = len(corrupted.distinct("corruption"))
        levels = sorted(int(level) for level in corrupted.distinct("severity"))
        whole = len(levels) > 2 and levels == list(range(levels[0], levels[-1] + 1))
        span = f"{levels[0]} to {levels[-1]}" if whole else ", ".join(map(str, levels))
        title = f"corrupted: mean of {kinds}, severity {span}"
        samples = {part[0].domain: mean_by_sample(part) for part in corrupted.by("domain")}
        yield Measure(model, "corrupted", title, "base", samples)


def _certified(rows: Evidence, model: str, attacked: Sequence[Measure]) -> Iterator[Measure]:
    for series in by_setting(series_of_evidence(rows)):
        first = series[0]
        matching = [one.size for one in attacked if one.size and (one.norm, one.units) == (first.norm, first.units)]
        # at the sizes of attacks in the same norm, so that the two stand side by side
        yield from (certified_measure(series, radius) for radius in dict.fromkeys([0.0, *(matching or [first.scale])]))


def certified_measure(series: Sequence[Series], radius: float) -> Measure:
    """What is right and certified within a radius: by the certificates of a model under one setting, on each domain."""
    first = series[0]
    within = f"within {size_text(radius, first.norm)}" if radius else "at all"
    return Measure(
        first.model,
        "certified",
        f"certified {within}, {first.name}",
        first.classifier,
        {one.domain: one.values(radius) for one in series},
        first.norm,
        first.units,
        radius,
        first.noise,
        first.alpha,
        {one.domain: one.seen for one in series},
        imported=any(bool(one.repeats.fact("imported")) for one in series),
    )


def _by_domain(evidence: Evidence) -> dict[str, Values]:
    """Whether each sample is right, by domain."""
    return {one.domain: one.values() for one in repeats_in(evidence)}


def mean_by_sample(corrupted: Evidence) -> Values:
    """The part of corruptions under which each sample of a domain is right; all have the same samples."""
    return Values(tuple(SeedValues(part[0], partial(_mean_right, part)) for part in corrupted.by(TRAIN_SEED)))


def _mean_right(part: Evidence) -> FloatArray:
    total = np.zeros(len(part[0]))
    for one in part:
        total += one["correct"]
    return total / len(part)
