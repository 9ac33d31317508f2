"""Figures by a probe that a claim names: noise without a vote, attacks of one threat, searches; planned or measured."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.errors import UnknownName, UsageError
from shiftproof.evidence import Evidence, Measurement
from shiftproof.probes import PROBES, Probe
from shiftproof.probes.adapted import Adapted
from shiftproof.probes.attack import Attack
from shiftproof.probes.corrupt import Corrupt
from shiftproof.probes.search import Search
from shiftproof.report.claims.sides import By, Metric, Side
from shiftproof.report.draws import share_right
from shiftproof.report.estimates import TRAIN_SEED, SeedValues, Values, repeats_in

__all__ = ["check_asked", "measured_by", "searched"]

_READ_OTHERWISE = {
    "attack": "attacked@..., with the size and its norm",
    "search": "reached@..., with the size and its norm",
    "corrupt": "corrupted",
    "certify": "answers or certified@..., with 'by: ...' and the name of the certifier",
    "refute": "answers or certified@..., with 'by: ...' and the name of a certifier that holds",
    "input-robustness": "accuracy without 'by'",
    "hidden-state": "accuracy without 'by'",
    "counterfactual": "accuracy without 'by'",
}
"""Probes whose measurements are no accuracy, and the metric that speaks of them."""


def check_asked(metric: Metric, side: Side, by: By | None, probes: Sequence[Probe]) -> None:
    """Refuse a probe that the model does not have, or that is not told from another; `by` is None for any search."""
    if by is not None:
        _check_form(metric, by)
    meant = [one for one in probes if (by is None or by.matches(one.to_config())) and _measures(one, metric)]
    if not meant:
        others = ", ".join(dict.fromkeys(one.title for one in probes if by is None or one.name == by.name))
        others = others or ", ".join(dict.fromkeys(one.title for one in probes)) or "nothing"
        raise UsageError(f"{metric} of {side}: no such probe is planned; {side.model} is measured by {others}")
    if len(meant) > 1:
        _refuse_several(f"{metric} of {side}", "probes are meant", [one.title for one in meant], meant[0].name)


def measured_by(by: By, metric: Metric, side: Side, rows: Evidence) -> tuple[Values, tuple[Any, ...]]:
    """What a probe found of every sample of a side, and the training seeds."""
    _check_form(metric, by)
    there = [one for one in repeats_in(rows) if _is_of(by, one.first)]
    meant = [one for one in there if _is_about(metric, one.first)]
    if not meant:
        others = f"; there is {', '.join(one.first.title for one in there)}" if there else ""
        raise UsageError(f"there is no measurement of {metric} of {side}{others}")
    if len(meant) > 1:
        _refuse_several(f"{metric} of {side}", "measurements match", [one.first.title for one in meant], by.name)
    return meant[0].values(share_right), _seeds(meant[0].measurements)


def searched(metric: Metric, side: Side, rows: Evidence) -> tuple[Values, tuple[Any, ...]]:
    """Which predictions a search has changed, within a size or by the nearest adversarial representation."""
    found, by = [], side.probe_for(metric)
    for part in rows.where(probe="search").by("search"):
        if by is not None and not _is_of(by, part[0]):
            continue
        repeats = repeats_in(part)
        after = [one for one in repeats if _is_searched(metric, one.first)]
        before = [one for one in repeats if one.fact("eps") == 0]
        if len(after) == len(before) == 1:
            found.append((after[0], before[0]))
    if not found:
        raise UsageError(f"there is no search that measured {metric} of {side}")
    if len(found) > 1:
        titles = [str(after.fact("search")) for after, _ in found]
        _refuse_several(f"{metric} of {side}", "searches match", titles, "search")
    pairs = found[0][0].pairs(found[0][1])
    values = tuple(SeedValues(after, partial(_changed, after, before)) for after, before in pairs)
    return Values(values), _seeds([after for after, _ in pairs])


def _check_form(metric: Metric, by: By) -> None:
    """Refuse an option that the probe does not have, and a metric that it says nothing of."""
    options = PROBES[by.name].options
    for key in by.options:
        if key not in options:
            raise UnknownName(f"option of {by.name}", key, options)
    if metric.kind == "accuracy" and by.name in _READ_OTHERWISE:
        raise UsageError(f"what {by.name} measures is no accuracy; the metric is {_READ_OTHERWISE[by.name]}")
    if metric.is_searched and by.name != "search":
        raise UsageError(f"{metric} is by a search, not by {by.name}")
    if metric.kind in ("corrupted", "clean-vote"):
        raise UsageError(f"{metric} is not told by the probe {by.name}; leave 'by' out")


def _measures(probe: Probe, metric: Metric) -> bool:
    """Whether a planned probe will have measured it."""
    inner = probe.probe if isinstance(probe, Adapted) else probe
    if metric.kind == "accuracy":
        return not isinstance(inner, Attack | Corrupt)
    if metric.kind == "attacked":
        return isinstance(inner, Attack) and _has(metric, inner.attack.threat.norm, inner.budgets)
    if metric.kind == "reached-representation":
        return isinstance(inner, Search)
    return isinstance(inner, Search) and _has(metric, inner.threat.norm, inner.budgets)


def _has(metric: Metric, norm: str, sizes: Sequence[float]) -> bool:
    return metric.norm in (None, norm) and any(_near(metric, size) for size in sizes if size)


def _near(metric: Metric, size: float) -> bool:
    return metric.size is not None and abs(size - metric.size) <= 1e-6 * max(1.0, size)


def _is_of(by: By, one: Measurement) -> bool:
    """Whether a probe has measured it that has this name and these options; of one without a record, the name alone."""
    asked = one.fact("asked")
    return one.probe == by.name and (asked is None or by.matches(asked))


def _is_about(metric: Metric, one: Measurement) -> bool:
    if metric.kind == "attacked":
        size = one.fact("eps")
        return bool(size) and metric.norm in (None, one.fact("norm")) and _near(metric, float(size))
    # an adapted model is also asked under attack and with corruptions
    return not one.fact("eps") and one.fact("corruption") is None


def _is_searched(metric: Metric, one: Measurement) -> bool:
    size = one.fact("eps")
    if metric.kind == "reached-representation":
        return size is None
    return bool(size) and metric.norm in (None, one.fact("norm")) and _near(metric, float(size))


def _changed(after: Measurement, before: Measurement) -> NDArray[np.bool_]:
    """Where another class answers; -1 is of a head that has no adversarial representation."""
    changed: NDArray[np.bool_] = (after["prediction"] != before["prediction"]) & (after["prediction"] >= 0)
    return changed


def _seeds(measurements: Sequence[Measurement]) -> tuple[Any, ...]:
    return tuple(one.fact(TRAIN_SEED) for one in measurements)


def _refuse_several(what: str, verb: str, titles: Sequence[str], name: str) -> None:
    raise UsageError(
        f"{what}: {len(titles)} {verb} ({', '.join(dict.fromkeys(titles))}); say which, such as "
        f"'by: {{name: {name}, ...}}' with an option in which they differ"
    )
