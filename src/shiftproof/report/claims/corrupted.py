"""Accuracy under some corruptions: those that a metric such as `corrupted@fog:5` names, planned or measured."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.errors import UsageError
from shiftproof.evidence import Evidence
from shiftproof.perturbations.corruptions import TEXT
from shiftproof.probes import Probe
from shiftproof.probes.corrupt import Corrupt, as_corruptions
from shiftproof.report.claims.sides import Metric, Side
from shiftproof.report.estimates import Values
from shiftproof.report.measures import mean_by_sample

__all__ = ["check_corrupted", "corrupted_values"]


def check_corrupted(metric: Metric, side: Side, probes: Sequence[Probe], *, known: bool = False) -> None:
    """Refuse corruptions and severities that no probe of the model asks for; once data is `known`, those of text as
    well, which "standard" may mean until then.
    """
    planned = {setting for one in probes if isinstance(one, Corrupt) for setting in one.settings}
    if not planned:
        # what no probe measures at all is told once data is known
        return
    names, severities = {name for name, _ in planned}, {severity for _, severity in planned}
    if lacking := [one for one in _named(metric) if one not in names and (known or one not in TEXT)]:
        raise UsageError(f"{metric} of {side}: no probe of {side.model} asks for {', '.join(lacking)}")
    if metric.size is not None and metric.size not in severities:
        told = ", ".join(map(str, sorted(severities)))
        raise UsageError(f"{metric} of {side}: {side.model} is corrupted at the severities {told}")
    meant = [one for one in _named(metric) or sorted(names) if one in names]
    if lacking := [one for one in meant if metric.size is not None and (one, int(metric.size)) not in planned]:
        raise UsageError(f"{metric} of {side}: {', '.join(lacking)} is not asked for at severity {metric.size:g}")
    levels = {one: {level for name, level in planned if name == one} for one in meant}
    if metric.size is None and len({tuple(sorted(one)) for one in levels.values()}) > 1:
        raise UsageError(f"{metric} of {side}: corruptions are asked for at different severities; name one of them")


def corrupted_values(metric: Metric, side: Side, rows: Evidence) -> Values:
    """The part of the corruptions of a metric under which each sample is right."""
    there = rows.where(probe="corrupt")
    there = there if metric.size is None else there.where(severity=int(metric.size))
    names = _named(metric) or tuple(there.distinct("corruption"))
    meant = Evidence([one for one in there if one.fact("corruption") in names])
    if lacking := [name for name in names if name not in meant.distinct("corruption")]:
        raise UsageError(f"there is no measurement of {metric} of {side}: what lacks is {', '.join(lacking)}")
    if len({tuple(sorted(part.distinct("severity"))) for part in meant.by("corruption")}) != 1:
        raise UsageError(f"{metric} of {side}: corruptions were measured at different severities; name one of them")
    if len(meant.distinct("constants")) > 1:
        raise UsageError(f"{metric} of {side}: corruptions were measured with different constants")
    return mean_by_sample(meant)


def _named(metric: Metric) -> tuple[str, ...]:
    return as_corruptions(metric.of.split("+")) if metric.of else ()
