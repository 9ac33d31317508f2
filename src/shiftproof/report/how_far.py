"""How far apart the domains of a run are, and whether that goes with what models lose from one to the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from shiftproof.evidence import Evidence
from shiftproof.report.accuracy import accuracy_table
from shiftproof.report.certified import series_of_evidence
from shiftproof.statistics import RankCorrelation, rank_correlation
from shiftproof.theory.distances.measures import MEASURES
from shiftproof.theory.words import rounded_down

__all__ = [
    "CLEAN",
    "Gap",
    "KnownPair",
    "RelatedGap",
    "by_ends",
    "gaps_of",
    "mixture_name",
    "related_gaps",
    "value_words",
]

CLEAN = "clean accuracy"
Kind = Literal["pair", "halves", "mixture"]


@dataclass(frozen=True)
class KnownPair:
    """How far apart two domains are by one measure of one kind of features.

    Two `halves` of one domain say what chance alone gives; a `mixture` is of several domains, with its weights, against
    a target. `n` are the units of either side; `level` is the probability of what is proven.
    """

    measure: str
    features: str
    reference: str
    target: str
    kind: Kind
    value: float
    n: tuple[int, int]
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None
    weights: tuple[float, ...] = ()


@dataclass(frozen=True)
class Gap:
    """What a model loses from its sources to a target by one figure: sources less target, above 0 if that is worse.

    `low` and `high` are the 95 % interval where there is one. `run` names the run where it is not the report's own.
    """

    model: str
    sources: tuple[str, ...]
    target: str
    figure: str
    value: float
    low: float | None = None
    high: float | None = None
    run: str = ""


@dataclass(frozen=True)
class RelatedGap:
    """Whether a distance from sources to target goes with a gap, over the targets of one model.

    Where several runs have the same model and target (other seeds), the gap is their mean.
    """

    measure: str
    features: str
    model: str
    figure: str
    targets: tuple[str, ...]
    distances: tuple[float, ...]
    gaps: tuple[float, ...]
    spearman: RankCorrelation
    kendall: RankCorrelation


def mixture_name(domains: Sequence[str]) -> str:
    """What several domains together are called."""
    return " + ".join(domains)


def gaps_of(evidence: Evidence, sources: Sequence[str], targets: Sequence[str], seed: int = 0) -> list[Gap]:
    """Gaps of every model and target in clean accuracy, and in the mean radius of each certificate."""
    found = []
    for row in accuracy_table(evidence, sources, targets, seed).rows:
        own = tuple(name for name in sources if name in row.accuracy)
        found += [Gap(row.model, own, target, CLEAN, e.value, e.low, e.high) for target, e in row.gaps.items()]
    found += _radius_gaps(evidence, sources, targets)
    return found


def _radius_gaps(evidence: Evidence, sources: Sequence[str], targets: Sequence[str]) -> Iterator[Gap]:
    means: dict[tuple[str, str], dict[str, float]] = {}
    for one in series_of_evidence(evidence):
        means.setdefault((one.model, one.name), {})[one.domain] = one.mean_radius()
    for (model, certificate), radii in means.items():
        own = tuple(name for name in sources if name in radii)
        for target in (name for name in targets if own and name in radii):
            lost = sum(radii[name] for name in own) / len(own) - radii[target]
            yield Gap(model, own, target, f"mean radius, {certificate}", lost)


def by_ends(pairs: Sequence[KnownPair]) -> dict[tuple[str, str, str, str], KnownPair]:
    """Distances by measure, features, reference and target; one between two domains is found from either end."""
    both = [one for one in pairs if one.kind != "halves"]
    turned = {(one.measure, one.features, one.target, one.reference): one for one in both if one.kind == "pair"}
    return turned | {(one.measure, one.features, one.reference, one.target): one for one in both}


def related_gaps(pairs: Sequence[KnownPair], gaps: Sequence[Gap]) -> list[RelatedGap]:
    """For every measure, model and figure with two targets or more, the rank correlations of distance and gap."""
    known = by_ends(pairs)
    kinds = dict.fromkeys((one.measure, one.features) for one in pairs if MEASURES[one.measure].is_distance)
    found = []
    for measure, features in kinds:
        for model, figure in dict.fromkeys((one.model, one.figure) for one in gaps):
            points: dict[str, list[tuple[float, float]]] = {}
            for one in gaps:
                key = (measure, features, mixture_name(one.sources), one.target)
                if (one.model, one.figure) == (model, figure) and key in known:
                    points.setdefault(one.target, []).append((known[key].value, one.value))
            if len(points) < 2:
                continue
            distances, lost = zip(
                *(tuple(map(fmean, zip(*some, strict=True))) for some in points.values()), strict=True
            )
            correlations = rank_correlation(distances, lost), rank_correlation(distances, lost, "kendall")
            found.append(RelatedGap(measure, features, model, figure, tuple(points), distances, lost, *correlations))
    return found


def value_words(pair: KnownPair) -> str:
    """A distance in three digits: with its standard error, as a bound (rounded down), or as a p-value."""
    if not MEASURES[pair.measure].is_distance:
        return f"p = {pair.value:.2g}"
    if pair.level is not None:
        return f">= {rounded_down(pair.value)}" if pair.value > 0 else "-"
    return _with_error(pair.value, pair.standard_error or 0.0)


def _with_error(value: float, error: float) -> str:
    """A number to the digit in which its standard error begins.

    >>> _with_error(2218.4, 130.0), _with_error(0.01234, 0.0031), _with_error(9e-5, 0.004), _with_error(2.0, 0.0)
    ('2,200 ± 100', '0.012 ± 0.003', '0.000 ± 0.004', '2 ± 0')
    """
    if not error > 0:
        return f"{value:.3g} ± 0"
    error = float(f"{error:.1g}")
    places = -math.floor(math.log10(error))
    digits = max(0, places)
    return f"{round(value, places) + 0.0:,.{digits}f} ± {error:,.{digits}f}"
