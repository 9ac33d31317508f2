"""What evidence records of single samples: answers, attacks, corruptions, votes and radii, by model and domain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftproof.evidence import Evidence, Measurement
from shiftproof.evidence.titles import certificate_titles

__all__ = ["ABSTAINS", "Attacked", "Certified", "Corrupted", "SampleOutcome", "first_seed", "outcomes_of"]

ABSTAINS = -1
"""The prediction of a certificate that certifies no class."""


@dataclass(frozen=True)
class Attacked:
    """What one attack, at its largest size, did to a sample: `distance` is how far it went, in `norm` and `units`."""

    setting: str
    title: str
    classifier: str
    noise: str
    norm: str
    units: str
    eps: float
    answer: int
    right: bool
    distance: float


@dataclass(frozen=True)
class Corrupted:
    """The answer to a corrupted sample."""

    setting: str
    title: str
    answer: int
    right: bool


@dataclass(frozen=True)
class Certified:
    """What one certificate says of a sample; `n` is 0 where no votes were counted."""

    setting: str
    title: str
    classifier: str
    noise: str
    norm: str
    units: str
    prediction: int
    right: bool
    radius: float
    skipped: bool
    chosen: int
    count: int
    label_count: int
    runner_up: int
    runner_up_count: int
    n: int

    @property
    def holds(self) -> bool:
        """Whether the right answer is certified within some radius."""
        return self.right and not self.skipped and self.radius > 0

    @property
    def abstained(self) -> bool:
        """Whether no class is certified."""
        return self.prediction == ABSTAINS and not self.skipped


@dataclass(frozen=True)
class SampleOutcome:
    """All that was measured of one sample by one model.

    `label` and `answer` are classes; of models that predict numbers `truth` and `predicted` are there instead.
    """

    label: int | None
    answer: int | None
    truth: float | None
    predicted: float | None
    attacked: Sequence[Attacked]
    corrupted: Sequence[Corrupted]
    certified: Sequence[Certified]

    @property
    def right(self) -> bool:
        """Whether the model is right on the sample as it is."""
        return self.label is not None and self.answer == self.label

    @property
    def wrong(self) -> bool:
        """Whether it is known to be wrong on the sample as it is."""
        return self.label is not None and self.answer is not None and self.answer != self.label

    @property
    def broken_by(self) -> list[Attacked]:
        """Attacks that made a right answer wrong; the answer of a vote, where the vote was attacked.

        An attack leaves alone what is wrong before it, at a distance of 0.
        """
        return [one for one in self.attacked if not one.right and one.distance > 0]

    @property
    def lost_to(self) -> list[Corrupted]:
        """Corruptions that made a right answer wrong."""
        return [one for one in self.corrupted if self.right and not one.right]

    @property
    def first(self) -> Certified | None:
        """The first certificate of the run, which filters and pictures speak of."""
        return self.certified[0] if self.certified else None


def first_seed(evidence: Evidence) -> Evidence:
    """Of models that were trained with several seeds, what was measured of the first."""
    seeds = [seed for seed in evidence.distinct("train_seed") if seed is not None]
    return Evidence([one for one in evidence if one.fact("train_seed") in (None, *seeds[:1])])


def outcomes_of(evidence: Evidence, ids: Sequence[str]) -> dict[str, SampleOutcome]:
    """By id, what was measured of samples; `evidence` is of one model on one domain, trained with one seed."""
    tables = [(one, _rows(one, ids)) for one in evidence]
    titles = certificate_titles(evidence)
    return {sample: _outcome([(one, rows[sample]) for one, rows in tables if sample in rows], titles) for sample in ids}


def _rows(one: Measurement, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The rows of some samples as plain values, by id."""
    places = sorted(one.places_of(ids).values())
    return {row["id"]: row for row in one.take(np.array(places)).table.to_pylist()} if places else {}


def _outcome(found: Sequence[tuple[Measurement, Mapping[str, Any]]], titles: Mapping[str, str]) -> SampleOutcome:
    clean = next((row for one, row in found if one.probe in ("clean", "score")), {})
    label = next((row["label"] for _, row in found if row.get("label") is not None), None)
    return SampleOutcome(
        label,
        clean.get("prediction"),
        clean.get("truth"),
        clean.get("predicted"),
        list(_attacked(found)),
        [
            Corrupted(one.setting, one.title, row["prediction"], row["correct"])
            for one, row in found
            if one.probe == "corrupt"
        ],
        [_certified(one, row, titles) for one, row in found if one.probe == "certify" and not one.fact("unsound")],
    )


def _attacked(found: Sequence[tuple[Measurement, Mapping[str, Any]]]) -> Iterator[Attacked]:
    """Each attack at its largest size: what is found within a smaller one counts there, too."""
    attacks: dict[str, list[tuple[Measurement, Mapping[str, Any]]]] = {}
    for one, row in found:
        # imported flags say neither the answer nor how far
        if one.probe == "attack" and row.get("distance") is not None and row.get("prediction") is not None:
            attacks.setdefault(str(one.fact("attack")), []).append((one, row))
    for sizes in attacks.values():
        one, row = max(sizes, key=lambda pair: float(pair[0].fact("eps") or 0.0))
        noise, eps = str(one.fact("noise") or ""), float(one.fact("eps"))
        threat = str(one.fact("norm")), str(one.fact("units")), eps
        reached = row["prediction"], row["correct"], row["distance"]
        yield Attacked(one.setting, one.title, one.classifier, noise, *threat, *reached)


def _certified(one: Measurement, row: Mapping[str, Any], titles: Mapping[str, str]) -> Certified:
    def whole(name: str, missing: int) -> int:
        value = row.get(name)
        return missing if value is None else int(value)

    return Certified(
        one.setting,
        titles[one.setting],
        one.classifier,
        str(one.fact("noise") or ""),
        str(one.fact("norm")),
        str(one.fact("units")),
        whole("prediction", ABSTAINS),
        bool(row["correct"]),
        float(row.get("radius") or 0.0),
        bool(row.get("skipped")),
        whole("chosen", ABSTAINS),
        whole("count", 0),
        whole("label_count", -1),
        whole("runner_up", ABSTAINS),
        whole("runner_up_count", 0),
        whole("n", 0),
    )
