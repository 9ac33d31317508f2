"""How often two classifiers of one model give the same answer: the model itself, its votes, its adapted copies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.evidence import Evidence, Measurement, worst_seen
from shiftproof.evidence.titles import certificate_titles
from shiftproof.report.estimates import SeedValues, Values, estimate, repeats_in
from shiftproof.types import Estimate

__all__ = ["Agreement", "agreements_of"]

_CLEAN = "clean"


@dataclass(frozen=True, eq=False)
class Agreement:
    """The model itself and another classifier of it on the same samples, for each training seed."""

    title: str
    pairs: tuple[tuple[Measurement, Measurement], ...]

    @property
    def model(self) -> str:
        """Model name."""
        return self.pairs[0][0].model

    @property
    def domain(self) -> str:
        """Domain name."""
        return self.pairs[0][0].domain

    @property
    def classifier(self) -> str:
        """The other one: smoothed | adapted | latent | median."""
        return self.pairs[0][1].classifier

    @property
    def seen(self) -> str:
        """no | unknown | yes: whether the model was trained on the samples."""
        return worst_seen(one.seen_in_training for pair in self.pairs for one in pair)

    @property
    def same(self) -> Estimate:
        """The share of samples with one answer; where the other abstains, there is none."""
        return self._share(lambda own, other: own["prediction"] == other["prediction"])

    @property
    def abstained(self) -> Estimate:
        """The share of samples on which the other abstains."""
        return self._share(lambda own, other: other["prediction"] < 0)

    @property
    def different(self) -> Estimate:
        """The share of samples with two different answers."""
        return self._share(lambda own, other: (other["prediction"] >= 0) & (own["prediction"] != other["prediction"]))

    @property
    def own_accuracy(self) -> Estimate:
        """Of the model itself, on these samples."""
        return self._share(lambda own, other: own["correct"])

    @property
    def other_accuracy(self) -> Estimate:
        """Of the other, on these samples: to abstain is not to be right."""
        return self._share(lambda own, other: other["correct"])

    def _share(self, of: Callable[[Measurement, Measurement], NDArray[Any]]) -> Estimate:
        values = Values(tuple(SeedValues(own, partial(of, own, other)) for own, other in self.pairs))
        return estimate(values, exact=not self.pairs[0][0].grouped)


def agreements_of(evidence: Evidence) -> list[Agreement]:
    """The model itself beside every sound certificate of another classifier, and beside its adapted copies.

    Only of models and domains with clean answers and such a certificate; on samples that both have answered.
    """
    return [one for part in evidence.by("model", "domain") for one in _of_model(part)]


def _of_model(evidence: Evidence) -> Iterator[Agreement]:
    titles = certificate_titles(evidence)
    own = repeats_in(evidence.where(probe=_CLEAN))
    certified = evidence.where(probe="certify")
    sound = _each_once([one for one in certified if not one.fact("unsound") and one.classifier != "base"])
    if not own or not sound:
        return
    asked = [(one, (one.fact("asked") or {}).get("probe")) for one in evidence.where(probe="adapted")]
    copies = [one for one, probe in asked if isinstance(probe, dict) and probe.get("name") == _CLEAN]
    others = [(f"adapted copy, {one.first.title}", one) for one in repeats_in(copies)]
    others += [(f"{one.first.classifier} classifier, {titles[one.first.setting]}", one) for one in repeats_in(sound)]
    for title, other in others:
        pairs = tuple(pair for both in own[0].pairs(other) if (pair := _common(*both)) is not None)
        if pairs and len({len(pair[0]) for pair in pairs}) == 1:
            yield Agreement(title, pairs)


def _each_once(certified: Sequence[Measurement]) -> list[Measurement]:
    """Of votes that were read at several alphas, the first reading; another alpha abstains elsewhere, and says no more
    of the classifier.
    """
    first: dict[str, str] = {}
    for one in certified:
        config = one.fact("certifier")
        alike = {**config, "alpha": None} if isinstance(config, Mapping) else one.setting
        first.setdefault(json.dumps(alike, sort_keys=True), one.setting)
    return [one for one in certified if one.setting in first.values()]


def _common(own: Measurement, other: Measurement) -> tuple[Measurement, Measurement] | None:
    """Both on the samples that both have answered, in one order; certificates that were skipped are no answer."""
    if any(name not in one for one in (own, other) for name in ("prediction", "correct")):
        return None
    answered = other.take(~other["skipped"].astype(bool)) if "skipped" in other else other
    ids = answered["id"].tolist()
    known = own.places_of(ids)
    if not known:
        return None
    kept = np.array([one in known for one in ids])
    return own.take(np.array(list(known.values()), np.int64)), answered.take(kept)
