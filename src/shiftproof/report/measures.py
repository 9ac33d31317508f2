"""What was measured of a model, side by side: clean, attacked, corrupted and certified, on the same samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from shiftproof.evidence import Evidence, metrics, seen_note, worst_seen
from shiftproof.perturbations.threat import eps_text
from shiftproof.report.cells import csv_text
from shiftproof.report.certified import Series, series_of_evidence
from shiftproof.statistics import Sample, bootstrap_mean
from shiftproof.types import Estimate, FloatArray

__all__ = ["Kind", "Line", "Measure", "SideBySide", "measures_of", "shared_rows", "side_by_side"]

Kind = Literal["clean", "attacked", "corrupted", "certified"]


@dataclass(frozen=True, eq=False)
class Measure:
    """One thing measured of one model: a number from 0 to 1 for every sample of every domain.

    `size` is the eps of an attack or the radius of a certificate, in `norm` and `units`; nothing else has one. `seen`
    says of each domain whether the model was trained on the samples: no | unknown | yes.
    """

    model: str
    kind: Kind
    title: str
    classifier: str
    samples: dict[str, Sample]
    norm: str = ""
    units: str = ""
    size: float = 0.0
    noise: str = ""
    seen: Mapping[str, str] = field(default_factory=dict)

    def seen_in(self, domains: Iterable[str]) -> str:
        """What a figure that rests on these domains must say: no | unknown | yes."""
        return worst_seen(self.seen.get(domain, "no") for domain in domains)

    def at(self, domain: str) -> Estimate:
        """The mean of a domain with its 95 % interval: Clopper-Pearson where samples are right or wrong, each alone."""
        sample = self.samples[domain]
        whole = bool(np.isin(sample.values, (0.0, 1.0)).all())
        if whole and len(set(sample.units.tolist())) == len(sample.units):
            return metrics.accuracy(sample.values)
        return bootstrap_mean(sample, limits=(0, 1))

    def mean(self, domains: Sequence[str]) -> float:
        """The mean over domains, each of which weighs the same."""
        return float(np.mean([self.samples[domain].values.mean() for domain in domains]))

    def gap(self, sources: Sequence[str], target: str, seed: int) -> Estimate:
        """What is lost between sources and target."""
        return metrics.gap([self.samples[source] for source in sources], self.samples[target], seed)


@dataclass(frozen=True)
class Line:
    """A row of the table: a measure of a model on each domain, and what is lost between sources and target."""

    measure: Measure
    accuracy: dict[str, Estimate]
    gap: Estimate | None

    @property
    def model(self) -> str:
        """Whose it is."""
        return self.measure.model

    def note(self, domain: str | None = None) -> str:
        """What is said beside the figure of a domain, or beside the gap, if its samples may have been trained on."""
        return seen_note(self.measure.seen_in(self.accuracy if domain is None else [domain]))


@dataclass(frozen=True)
class SideBySide:
    """All measures of all models, one row each, on sources and target.

    `beyond` is how many samples of a domain some probes measured, where not all did: rows are of those that all did.
    """

    sources: tuple[str, ...]
    target: str | None
    rows: list[Line]
    beyond: Mapping[str, int] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """On which samples the rows stand, if these are not all."""
        if not self.beyond or not self.rows:
            return ""
        first = self.rows[0].accuracy
        counts = ", ".join(f"{domain} {first[domain].n} of {count}" for domain, count in self.beyond.items())
        return (
            f"Every row is of the samples that all probes measured ({counts}), the first of one order; accuracy "
            "on samples as they are was measured on all"
        )

    @property
    def domains(self) -> tuple[str, ...]:
        """Sources, then the target."""
        return self.sources if self.target is None else (*self.sources, self.target)

    def csv(self) -> str:
        """One line for each number, in full."""
        header = ["model", "measure", "classifier", "norm", "size", "domain", "value", "low", "high", "n"]
        lines: list[list[Any]] = [[*header, "seen_in_training"]]
        for row in self.rows:
            one = row.measure
            head = [one.model, one.title, one.classifier, one.norm, one.size]
            numbers = [(domain, row.accuracy[domain]) for domain in self.domains]
            for domain, e in numbers + ([] if row.gap is None else [("gap", row.gap)]):
                seen = one.seen_in(self.domains if domain == "gap" and e is row.gap else [domain])
                lines.append([*head, domain, e.value, e.low, e.high, e.n, seen])
        return csv_text(lines)


def side_by_side(evidence: Evidence, sources: Sequence[str], target: str | None, seed: int = 0) -> SideBySide:
    """Rows by model, in the order clean, attacked, corrupted, certified; of the samples that all probes measured."""
    whole, evidence = evidence, shared_rows(evidence)
    domains = (*sources, *([target] if target else []))
    rows = []
    for model in evidence.distinct("model"):
        for measure in measures_of(evidence.where(model=model), model):
            if set(domains) <= set(measure.samples):
                gap = measure.gap(sources, target, seed) if target is not None else None
                rows.append(Line(measure, {domain: measure.at(domain) for domain in domains}, gap))
    counts, shared = ({domain: _samples_of(some, domain) for domain in domains} for some in (whole, evidence))
    beyond = {domain: count for domain, count in counts.items() if count != shared[domain]}
    return SideBySide(tuple(sources), target, rows, beyond)


def shared_rows(evidence: Evidence) -> Evidence:
    """Only samples that every probe of a model has measured on a domain; all, where all measured the same."""
    shared = {}
    for part in evidence.by("model", "domain"):
        sets = [set(one["id"].tolist()) for one in part]
        common = set.intersection(*sets)
        if common and any(one != common for one in sets):
            shared[part[0].model, part[0].domain] = list(common)
    return Evidence(
        [
            one.take(np.isin(one["id"].astype(str), kept)) if (kept := shared.get((one.model, one.domain))) else one
            for one in evidence
        ]
    )


def _samples_of(evidence: Evidence, domain: str) -> int:
    """How many samples of a domain any probe measured."""
    return len({sample for one in evidence.where(domain=domain) for sample in one["id"].tolist()})


def measures_of(evidence: Evidence, model: str) -> list[Measure]:
    """What was measured of one model, from its evidence."""
    rows = evidence.where(model=model)
    attacked = list(_attacked(rows, model))
    every = [*_clean(rows, model), *attacked, *_corrupted(rows, model), *_certified(rows, model, attacked)]
    seen = {domain: rows.where(domain=domain).seen_in_training for domain in rows.distinct("domain")}
    every = [replace(one, seen=seen) for one in every]
    return sorted(every, key=lambda one: get_args(Kind).index(one.kind))


def _clean(rows: Evidence, model: str) -> Iterator[Measure]:
    clean = rows.where(probe="clean")
    if len(clean):
        yield Measure(model, "clean", "as they are", "base", {one.domain: one.sample() for one in clean})


def _attacked(rows: Evidence, model: str) -> Iterator[Measure]:
    """Within every size; within 0, that is what a vote says to samples as they are."""
    votes = set()
    for part in rows.where(probe="attack").by("setting"):
        first, samples = part[0], {one.domain: one.sample() for one in part}
        size, noise = float(first.fact("eps")), str(first.fact("noise") or "")
        if size:
            ball = str(first.fact("norm")), str(first.fact("units")), size
            yield Measure(model, "attacked", first.title, first.classifier, samples, *ball, noise)
        elif noise and noise not in votes:
            votes.add(noise)
            yield Measure(model, "clean", f"as they are, vote under {noise}", first.classifier, samples, noise=noise)


def _corrupted(rows: Evidence, model: str) -> Iterator[Measure]:
    corrupted = rows.where(probe="corrupt")
    if len(corrupted):
        kinds = len(corrupted.distinct("corruption"))
        levels = sorted(int(level) for level in corrupted.distinct("severity"))
        span = f"{levels[0]} to {levels[-1]}" if len(levels) > 2 else " and ".join(map(str, levels))
        title = f"corrupted: mean of {kinds}, severity {span}"
        samples = {part[0].domain: _mean_by_sample(part) for part in corrupted.by("domain")}
        yield Measure(model, "corrupted", title, "base", samples)


def _certified(rows: Evidence, model: str, attacked: Sequence[Measure]) -> Iterator[Measure]:
    by_setting: dict[str, list[Series]] = {}
    for one in series_of_evidence(rows):
        by_setting.setdefault(one.setting, []).append(one)
    for series in by_setting.values():
        first = series[0]
        noise = str(rows.where(probe="certify", setting=first.setting)[0].fact("noise") or "")
        matching = [one.size for one in attacked if one.size and (one.norm, one.units) == (first.norm, first.units)]
        # at the sizes of attacks in the same norm, so that the two stand side by side
        for radius in dict.fromkeys([0.0, *(matching or [first.scale])]):
            within = f"{first.norm} {eps_text(radius, first.norm)}" if radius else "any radius"
            yield Measure(
                model,
                "certified",
                f"certified within {within}, {first.title}",
                first.classifier,
                {one.domain: one.sample(radius) for one in series},
                first.norm,
                first.units,
                radius,
                noise,
            )


def _mean_by_sample(corrupted: Evidence) -> Sample:
    """The part of corruptions under which each sample of a domain is right; all have the same samples."""
    right: FloatArray = np.mean([one["correct"] for one in corrupted], axis=0)
    return Sample(right, corrupted[0].units_of)
