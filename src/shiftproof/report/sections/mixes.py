"""Other mixes of the same samples: what is left of each share when a population is weighted anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from shiftproof.evidence import Evidence, worst_seen
from shiftproof.perturbations.threat import size_text
from shiftproof.report.measures import measures_of
from shiftproof.report.section import SECTIONS, Section
from shiftproof.report.shift import CONFIDENCE, ShiftSeries
from shiftproof.report.tables import Cell, Heading, Records, Row, Table
from shiftproof.statistics import hoeffding_lower, lower_bound
from shiftproof.statistics.units import Units
from shiftproof.theory import DIVERGENCES
from shiftproof.theory.confidence import split_terms
from shiftproof.theory.words import percent_down
from shiftproof.types import FloatArray

__all__ = ["Mixes", "Share", "shares_of"]

SIZE = 0.1
"""Of the balls that are shown, in the units of each divergence."""
_COLUMNS = ("model", "domain", "measure", "lower_limit", "divergence", "size", "guaranteed", "confidence", "n")


@dataclass(frozen=True)
class Share:
    """A share that was measured: its lower limit, what is left of it in each ball, and from how many units.

    Not all are `shown` on the page; files have them all.
    """

    model: str
    domain: str
    title: str
    lower: float
    left: dict[str, float]
    n: int
    certified: bool
    shown: bool


@SECTIONS.register("mixes")
class Mixes(Section):
    """What is left of every share if the same kinds of samples come in another mix."""

    title = "If the mix of samples changes"
    order = 1260

    def applies(self) -> bool:
        """Whether more than accuracy was measured, on samples that a model was not made with."""
        return any(one.certified or not one.shown for one in self._shares)

    def tables(self) -> list[Table]:
        """A row for each model, domain and measure."""
        rows, records = [], []
        for one in self._shares:
            if one.shown:
                name = self.report.row_name(one.model, one.domain, one.title)
                cells = [name, *(Cell(percent_down(value, 1)) for value in [one.lower, *one.left.values()])]
                rows.append(Row(cells, tint=one.domain in self.report.targets, mark=one.certified))
            records += [
                [one.model, one.domain, one.title, one.lower, ball, SIZE, value, CONFIDENCE, one.n]
                for ball, value in one.left.items()
            ]
        heads = [Heading("lower limit", ("this mix",)), *(Heading(f"{ball} {SIZE:g}") for ball in DIVERGENCES)]
        return [Table("mixes", [Heading("model, domain, measure"), *heads], rows, Records(_COLUMNS, records))]

    def words(self) -> list[str]:
        """What a ball is, and when it says nothing."""
        return [
            f"Each row begins with the one-sided {CONFIDENCE:.0%} limit of a share that was measured. The others are "
            "what is left of it, with the same probability, on every population of the same kinds of samples in "
            "another mix (more of one class, other patients), up to a distance from this one. A total variation of 0.1 "
            "is one sample in ten that is exchanged. Two domains that look different share no sample: their distance "
            "is the largest there is, and nothing is left. For those see the section on distributions around each "
            "domain. All other shares of the report are in tables/mixes.csv."
        ]

    @cached_property
    def _shares(self) -> list[Share]:
        return list(shares_of(self.report.shared, self.report.around))


def shares_of(evidence: Evidence, around: Sequence[ShiftSeries]) -> Iterator[Share]:
    """Of every model: each measure on each domain, unless its samples were, or may have been, part of making it.

    Certificates are read again at the alpha of shift certificates, `around`.
    """
    for model in evidence.distinct("model"):
        part = evidence.where(model=model)
        for measure in measures_of(part, model):
            for domain, values in measure.samples.items():
                rows = part.where(domain=domain)
                used = [flag for one in rows for flag in (one.seen_in_training, one.chose_weights)]
                drawn = not {"balanced", "unknown"} & set(rows.distinct("sampled"))
                if measure.kind != "certified" and drawn and worst_seen(used) == "no" and len(values.by_seed) == 1:
                    sample = values.by_seed[0]
                    shown = measure.kind == "clean" and measure.classifier == "base"
                    yield _share(model, domain, measure.title, sample.values, sample.units, shown=shown)
        for one in around:
            if one.model == model and not one.refusal and len(one.certificates()) == 1:
                yield from _certified(one)


def _certified(one: ShiftSeries) -> Iterator[Share]:
    held, rows = one.first, one.series.repeats.first
    for radius in (0.0, one.series.scale):
        within = f"within {size_text(radius, one.norm)}" if radius else "at all"
        reached = (held.populations[0].reach > radius).astype(np.float64)
        title, shown = f"certified {within}, {one.title}", radius > 0
        share = _share(one.model, one.domain, title, reached, rows.units_of, held.alpha, shown=shown)
        yield replace(share, certified=not one.series.imported)


def _share(
    model: str,
    domain: str,
    title: str,
    values: FloatArray,
    units: Units,
    alpha: float | None = None,
    *,
    shown: bool,
) -> Share:
    """The lower limit, less what wrong certificates may have added, and its image in each ball."""
    count = len(units.names)
    means = np.bincount(units.codes, values) / np.bincount(units.codes)
    # of certificates that share noise, a part of the level goes to how many are wrong together
    terms = split_terms(count, alpha or 0.0, 1 - CONFIDENCE)
    level = 1 - CONFIDENCE - terms.noise_level
    separate = units.separate and bool(((values == 0) | (values == 1)).all())
    least = (
        float(lower_bound(int(values.sum()), len(values), level))
        if separate
        else float(hoeffding_lower(means.mean(), count, level))
    )
    least = max(0.0, least - terms.wrong)
    left = {name: float(share_of(least, SIZE)) for name, share_of in DIVERGENCES.items()}
    return Share(model, domain, title, least, left, count, alpha is not None, shown)
