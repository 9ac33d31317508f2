"""Which measurements of two models pair: those of the same probe and options, on the same samples of a domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftproof.errors import UsageError
from shiftproof.evidence import Evidence, Measurement
from shiftproof.report.comparison.settings import nearest, told
from shiftproof.statistics.units import Units, join_units

__all__ = ["MEASURED", "OtherSamples", "Paired", "pair_evidence"]

MEASURED = ("clean", "attack", "corrupt", "certify")
"""Probes whose samples are right or wrong, attacked, corrupted or certified; others say something else of a model."""
_SAME = ("classifier", "norm", "units", "alpha", "precision", "noise", "unsound")
"""Facts that follow from a setting, or from how it was computed."""
_MOST = 4
_BALL = "certificate in "
Key = tuple[str, str, str]


class OtherSamples(UsageError):  # noqa: N818 - reads better without Error
    """Two measurements of a domain that are not of the same samples; `domain` says of which."""

    def __init__(self, domain: str, message: str) -> None:
        self.domain = domain
        super().__init__(message)

    def __reduce__(self) -> tuple[type[OtherSamples], tuple[str, str]]:
        return OtherSamples, (self.domain, str(self))


@dataclass(frozen=True, eq=False)
class Paired:
    """Evidence of two models, row by row of the same samples, and what has no counterpart.

    Both have the same domains, probes and settings in the same order. `ids` are those of the samples, by domain and
    probe. `left_out` are sentences about measurements of one side alone, `fewer` is how many samples of a domain both
    measured, where one measured more.
    """

    baseline: Evidence
    other: Evidence
    ids: dict[tuple[str, str], NDArray[np.object_]]
    left_out: tuple[str, ...] = ()
    fewer: dict[str, int] = field(default_factory=dict)

    @property
    def domains(self) -> list[str]:
        """Those that both were measured on."""
        return [str(name) for name in self.baseline.distinct("domain")]


def pair_evidence(
    baseline: Evidence, other: Evidence, *, shared: bool = False, any_certificate: bool = False
) -> Paired:
    """Pair the measurements of one model with those of another.

    What one side lacks, or has with other options, is named in `left_out`. Samples that differ are refused
    (`OtherSamples`); with `shared`, those that both have are compared. Nothing in common is refused, too. With
    `any_certificate`, certificates in one norm and units pair whatever made them, where each side has one of these.
    """
    here, there = _by_key(baseline), _by_key(other)
    if any_certificate:
        here, there = _by_norm(here), _by_norm(there)
    keys = [key for key in here if key in there and (key[2].startswith(_BALL) or _agree(here[key], there[key]))]
    left_out = _left_out(here, there, keys)
    if not keys:
        raise UsageError(f"nothing was measured alike: {'; '.join(left_out) or 'no domain is in both'}")
    ids: dict[tuple[str, str], Units] = {}
    fewer: dict[str, int] = {}
    for domain, probe in dict.fromkeys(key[:2] for key in keys):
        parts = [one for key in keys if key[:2] == (domain, probe) for one in (*here[key], *there[key])]
        common, most = _common_ids(parts, shared)
        ids[domain, probe] = common
        if most > len(common):
            fewer[domain] = min(len(common), fewer.get(domain, len(common)))
    aligned = _Aligned()
    sides = [
        Evidence([aligned(one, ids[key[:2]]) for key in keys for one in measured[key]]) for measured in (here, there)
    ]
    for key in keys:
        _check_labels(*(aligned(side[key][0], ids[key[:2]]) for side in (here, there)))
    # domains that several probes measured have their names once
    names = {id(one): np.array(list(one), object) for one in ids.values()}
    return Paired(sides[0], sides[1], {key: names[id(one)] for key, one in ids.items()}, tuple(left_out), fewer)


def _by_key(evidence: Evidence) -> dict[Key, list[Measurement]]:
    """The measurements of all seeds, by domain, probe and setting."""
    found: dict[Key, list[Measurement]] = {}
    for one in evidence:
        if one.probe in MEASURED and "correct" in one:
            found.setdefault((one.domain, one.probe, one.setting), []).append(one)
    return found


def _by_norm(measured: dict[Key, list[Measurement]]) -> dict[Key, list[Measurement]]:
    """The same with the norm and units of a certificate in place of its setting, where there is one such."""
    new = {key: (*key[:2], _ball(parts[0])) if key[1] == "certify" else key for key, parts in measured.items()}
    names = list(new.values())
    return {new[key] if names.count(new[key]) == 1 else key: parts for key, parts in measured.items()}


def _ball(one: Measurement) -> str:
    return f"{_BALL}{one.fact('norm')} ({one.fact('units')}){', unsound' if one.fact('unsound') else ''}"


def _agree(here: Sequence[Measurement], there: Sequence[Measurement]) -> bool:
    return not _differing_facts(here[0], there[0])


def _differing_facts(here: Measurement, there: Measurement) -> dict[str, tuple[str, str]]:
    return {
        name: (str(here.fact(name)), str(there.fact(name))) for name in _SAME if here.fact(name) != there.fact(name)
    }


def _common_ids(parts: Sequence[Measurement], shared: bool) -> tuple[Units, int]:
    """The ids that all have, ascending, and how many the largest has."""
    several = [one.ids for one in parts]
    for one, ids in zip(parts, several, strict=True):
        if not ids.separate:
            raise UsageError(f"{one.title} of {one.model} on {one.domain} has several samples of one id")
    names, codes = join_units(several)
    everywhere = np.bincount(np.concatenate(codes), minlength=len(names)) == len(parts)
    common, most = int(everywhere.sum()), max(map(len, several))
    domain = parts[0].domain
    if not common:
        raise OtherSamples(domain, f"no sample of {domain} was measured in both")
    if common < most and not shared:
        raise OtherSamples(domain, f"the samples of {domain} differ: both measured {common} of up to {most}")
    return Units(np.arange(common, dtype=np.int32), names.filter(pa.array(everywhere))), most


class _Aligned:
    """Puts the rows of measurements into the order of some ids; those of the same samples share their places."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Units, NDArray[np.int64]]] = {}

    def __call__(self, one: Measurement, ids: Units) -> Measurement:
        own = one.ids
        # the units are kept with their places, so that no other can get their number
        key = id(own), id(ids)
        if key not in self._known:
            self._known[key] = own, ids.places_in(own)
        return one.take(self._known[key][1])


def _check_labels(one: Measurement, other: Measurement) -> None:
    """Refuse samples of one id that have another label or group in the other run: they are not the same."""
    if one.grouped != other.grouped:
        raise OtherSamples(one.domain, f"samples of {one.domain} have groups in one run alone")
    for column in ("label", "group"):
        if column in one and column in other and bool(np.any(one[column] != other[column])):
            row = int(np.flatnonzero(one[column] != other[column])[0])
            values = f"{one[column][row]} and {other[column][row]}"
            raise OtherSamples(one.domain, f"sample {one['id'][row]} of {one.domain} has the {column} {values}")


def _left_out(here: dict[Key, Any], there: dict[Key, Any], keys: Sequence[Key]) -> list[str]:
    """What was measured on one side alone, and in which options the nearest of the other side differs."""
    sentences: dict[str, list[str]] = {}
    domains = [{key[0] for key in side} for side in (here, there)]
    missing = [
        dict.fromkeys(key[1:] for key in side if key not in keys and key[0] in domains[0] & domains[1])
        for side in (here, there)
    ]
    told_of: set[tuple[str, str]] = set()
    for probe, setting in missing[0]:
        near = nearest(setting, [other for kind, other in missing[1] if kind == probe and (kind, other) not in told_of])
        if near is None:
            sentences.setdefault("only the baseline has", []).append(_named(here, probe, setting))
            continue
        told_of.add((probe, near[0]))
        differing = near[1] or _facts_of(here, there, probe, setting)
        sentences.setdefault(f"{probe} differs in {told(differing)}", []).append(_named(here, probe, setting))
    for probe, setting in missing[1]:
        if (probe, setting) not in told_of:
            sentences.setdefault("only the other run has", []).append(_named(there, probe, setting))
    return [f"{what} ({_several(names)})" for what, names in sentences.items()]


def _facts_of(here: dict[Key, Any], there: dict[Key, Any], probe: str, setting: str) -> dict[str, tuple[str, str]]:
    """Facts in which measurements of one setting differ, such as the precision that computed them."""
    for key in here:
        if key[1:] == (probe, setting) and key in there:
            return _differing_facts(here[key][0], there[key][0])
    return {}


def _named(side: dict[Key, Any], probe: str, setting: str) -> str:
    title = next(str(parts[0].title) for key, parts in side.items() if key[1:] == (probe, setting))
    return title if title.startswith(probe) or probe == "attack" else f"{probe} {title}"


def _several(names: Sequence[str]) -> str:
    each = list(dict.fromkeys(names))
    more = f" and {len(each) - _MOST} more" if len(each) > _MOST else ""
    return ", ".join(each[:_MOST]) + more
