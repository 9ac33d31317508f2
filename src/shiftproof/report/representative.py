"""Which measures stand for a model in one line: the same question to all, never chosen by numbers of a target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shiftproof.report.certified import Series, by_setting, series_of_evidence
from shiftproof.report.measures import Kind, Measure, certified_measure
from shiftproof.report.sections.measures import Line, line_of

if TYPE_CHECKING:
    from shiftproof.report.report import Report

__all__ = ["Ball", "certified_ball", "on_sources", "representative_lines", "threat_ball"]


@dataclass(frozen=True)
class Ball:
    """A norm, its units and a size: what an attack may do, or within what a certificate holds."""

    norm: str
    units: str
    size: float

    @classmethod
    def of(cls, measure: Measure) -> Ball:
        """The ball that a measure is of."""
        return cls(measure.norm, measure.units, measure.size)

    def same_norm(self, other: Series) -> bool:
        """Whether certificates have radii in this norm."""
        return (self.norm, self.units) == (other.norm, other.units)


def representative_lines(report: Report) -> dict[str, dict[Kind, Line]]:
    """By model and kind, the measure that stands for it, on the samples that all probes measured.

    Clean and corrupted are those of the model itself; attacked is the strongest attack within `threat_ball`, and
    certified the best certificate within `certified_ball`. Strongest and best are judged on the sources.
    """
    lines, sources = report.measures.rows, report.sources
    series = series_of_evidence(report.shared)
    threat = threat_ball([line.measure for line in lines], series)
    ball = certified_ball(series, threat)
    chosen: dict[str, dict[Kind, Line]] = {}
    for model in report.evidence.distinct("model"):
        own = [line for line in lines if line.model == model]
        kinds: dict[Kind, Line | None] = {
            "clean": _first(line for line in own if _is_base(line, "clean")),
            "attacked": _strongest([line for line in own if threat and _attacks(line.measure, threat)], sources),
            "corrupted": _first(line for line in own if _is_base(line, "corrupted")),
            "certified": _best(report, [one for one in series if one.model == model], ball),
        }
        chosen[model] = {kind: line for kind, line in kinds.items() if line is not None}
    return chosen


def threat_ball(measures: Sequence[Measure], series: Sequence[Series]) -> Ball | None:
    """The threat that an overview shows of every model, if anything was attacked.

    Of the model itself if that was attacked, else of the vote. Of several threats the one that most models were
    attacked by; then one in the norm of certificates, which are then shown within the same size; then the smallest.
    """
    attacked = [one for one in measures if one.kind == "attacked"]
    attacked = [one for one in attacked if one.classifier == "base"] or attacked
    models = Counter(ball for ball, _ in dict.fromkeys((Ball.of(one), one.model) for one in attacked))
    return min(models, key=lambda ball: (-models[ball], not any(map(ball.same_norm, series)), ball.size), default=None)


def certified_ball(series: Sequence[Series], threat: Ball | None) -> Ball | None:
    """Within what an overview shows certificates: the threat's own size, where certificates have its norm.

    Else the norm in which most models are certified, at the least of the radii that were of interest in advance.
    """
    if threat is not None and any(map(threat.same_norm, series)):
        return threat
    norms = Counter(pair for pair, _ in dict.fromkeys(((one.norm, one.units), one.model) for one in series))
    if not norms:
        return None
    norm, units = norms.most_common(1)[0][0]
    return Ball(norm, units, min(one.scale for one in series if (one.norm, one.units) == (norm, units)))


def _is_base(line: Line, kind: Kind) -> bool:
    return (line.measure.kind, line.measure.classifier) == (kind, "base")


def _attacks(measure: Measure, threat: Ball) -> bool:
    return measure.kind == "attacked" and Ball.of(measure) == threat


def _first(lines: Iterable[Line]) -> Line | None:
    return next(iter(lines), None)


def _strongest(attacked: Sequence[Line], sources: Sequence[str]) -> Line | None:
    """What leaves the least on the sources, of the model itself if that was attacked."""
    lines = [line for line in attacked if line.measure.classifier == "base"] or list(attacked)
    return min(lines, key=lambda line: on_sources(line, sources), default=None)


def _best(report: Report, series: Sequence[Series], ball: Ball | None) -> Line | None:
    """The certificate that holds for most on the sources; of those that differ in alpha alone, the surest."""
    if ball is None:
        return None
    measures = [
        certified_measure(part, ball.size) for part in by_setting([one for one in series if ball.same_norm(one)])
    ]
    least: dict[tuple[str, str], float] = {}
    for one in measures:
        least[one.classifier, one.noise] = min(one.alpha, least.get((one.classifier, one.noise), one.alpha))
    surest = [one for one in measures if one.alpha == least[one.classifier, one.noise]]
    lines = [line_of(one, report.sources, report.targets, report.seed) for one in surest]
    return max((one for one in lines if one), key=lambda line: on_sources(line, report.sources), default=None)


def on_sources(line: Line, sources: Sequence[str]) -> float:
    """The mean over the sources on which it was measured; 0 without any, so that the first of several stands."""
    here = [name for name in sources if name in line.accuracy]
    return line.measure.mean(here) if here else 0.0
