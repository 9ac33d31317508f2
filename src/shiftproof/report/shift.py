"""What is guaranteed around each domain: shift certificates of the certificates of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from shiftproof.certification import Certificates
from shiftproof.certification.imported import largest_radius
from shiftproof.errors import UsageError
from shiftproof.evidence import Evidence, Measurement, worst_seen
from shiftproof.evidence.certificates import certificates_in
from shiftproof.execution.recent import Recent
from shiftproof.perturbations.noise import NOISES, as_noise
from shiftproof.perturbations.noise.normal import Normal
from shiftproof.report.certified import Series, series_of_evidence
from shiftproof.theory import DrawCertificate, ShiftCertificate, draw_certificate, shift_certificate, worst_share
from shiftproof.theory.transport import check_order, unit_weights
from shiftproof.theory.words import percent_down
from shiftproof.types import Finding, FloatArray

__all__ = [
    "CONFIDENCE",
    "ORDERS",
    "KnownDistance",
    "ShiftSeries",
    "nice_distances",
    "order_name",
    "refusal_sentences",
    "shift_order",
    "shift_series",
]

Shares = Literal["same", "any"]
CONFIDENCE = 0.95
"""The probability with which every curve holds as a whole."""
ORDERS = {"w1": 1.0, "w2": 2.0, "winf": math.inf}
"""Wasserstein distances by the names that requirements have for them."""
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_KEPT = 64 << 20
_EDGE = 6.5
"""Over the root of the votes, in scales of the noise: so near the edge of a radius a vote that is measured may err."""


@dataclass(frozen=True)
class KnownDistance:
    """A target lies at least `lower` (W1, in `norm` and `units`) from a domain, with probability `level`; what to say
    of it is in `sentence`, and `outside` whether that is beyond what is guaranteed there.
    """

    target: str
    domain: str
    norm: str
    units: str
    lower: float
    level: float
    outside: bool
    sentence: str


@dataclass(frozen=True, eq=False)
class ShiftSeries:
    """The shift certificates of one model on one domain under one setting, for each training seed.

    They hold a number for each sample: those that were used last are `kept`, and others made again.
    """

    series: Series
    attacks: tuple[Measurement, ...] = ()
    kept: Recent[Any] = field(default_factory=lambda: Recent(_KEPT, size=_bytes), repr=False)

    @property
    def model(self) -> str:
        """Model name."""
        return self.series.model

    @property
    def domain(self) -> str:
        """Domain name."""
        return self.series.domain

    @property
    def title(self) -> str:
        """The certificate in a few words."""
        return self.series.name

    @property
    def classifier(self) -> str:
        """The classifier that is certified: base | smoothed | adapted | latent | median."""
        return self.series.classifier

    @property
    def norm(self) -> str:
        """In which distances are measured."""
        return self.series.norm

    @property
    def units(self) -> str:
        """Of distances."""
        return self.series.units

    @cached_property
    def refusal(self) -> str:
        """Why nothing can be guaranteed around this domain, as a sentence; nothing where it can."""
        rows = self.series.repeats.measurements
        if (seen := worst_seen(one.seen_in_training for one in rows)) != "no":
            return f"the model may have been trained on these samples (seen in training: {seen})"
        if (chose := worst_seen(one.chose_weights for one in rows)) != "no":
            return f"these samples {'decided' if chose == 'yes' else 'may have decided'} which weights were kept"
        if any(one.fact("sampled") == "balanced" for one in rows):
            return "samples were balanced by class, so that their shares are not those of the domain"
        if any(one.fact("sampled") == "unknown" for one in rows):
            return "how these samples were chosen is not known"
        if self.series.stated_alpha is None:
            return "with what probability a certificate is wrong was not stated"
        if any(map(_impossible, rows)):
            return "its largest radius is more than so many votes can certify"
        return ""

    @property
    def remedy(self) -> str:
        """What to do about a refusal."""
        if "largest radius" in self.refusal:
            return "import it with the alpha and the number of votes that it was made with"
        if self.series.imported:
            return "import it with --alpha, and with --held-out if the samples served neither training nor selection"
        if "weights" in self.refusal:
            return "train with --set selection=last, or mark test rows in a split column"
        return "measure held-out samples of a model whose record says what it was trained on"

    def certificates(self, p: float = 1.0, shares: Shares = "same") -> list[ShiftCertificate]:
        """One for each training seed; together they hold with `CONFIDENCE`."""
        if self.refusal:
            raise UsageError(f"{self.model} on {self.domain}: no shift certificate, because {self.refusal}")
        known: list[ShiftCertificate] = self.kept.get((self, shares), lambda: self._certify(shares))
        # what was measured does not depend on the order of the distance
        return known if p == 1.0 else [replace(one, p=check_order(p)) for one in known]

    def _certify(self, shares: Shares) -> list[ShiftCertificate]:
        rows = self.series.repeats.measurements
        level = (1 - CONFIDENCE) / len(rows)
        return [
            shift_certificate(
                _certificates(one),
                one["label"],
                groups=one["group"] if one.grouped else None,
                shares=shares,
                confidence=1 - level,
                domain=one.domain,
            )
            for one in rows
        ]

    def at(self, eps: ArrayLike, p: float = 1.0, shares: Shares = "same") -> FloatArray:
        """Accuracy that is guaranteed within W_p `eps`, of the worst training seed."""
        key = np.asarray(eps, np.float64).tobytes(), np.shape(eps), p, shares
        if key not in self._curves:
            worst = np.min([one.at(eps) for one in self.certificates(p, shares)], axis=0)
            self._curves[key] = np.asarray(worst)
        return self._curves[key]

    @cached_property
    def _curves(self) -> dict[tuple[Any, ...], FloatArray]:
        return {}

    def estimate(self, eps: ArrayLike, p: float = 1.0) -> FloatArray:
        """The same of the measured samples alone, without what is paid for their being few."""
        return np.asarray(np.min([one.estimate(eps) for one in self.certificates(p)], axis=0))

    @cached_property
    def ends(self) -> float:
        """The W1 distance from which on nothing is guaranteed; 0 where nothing ever is."""
        return 0.0 if self.refusal else min(one.ends for one in self.certificates())

    @property
    def first(self) -> ShiftCertificate:
        """That of the first training seed, for what all share."""
        return self.certificates()[0]

    def sentence(self, eps: float, p: float = 1.0) -> str:
        """The guarantee at one distance, in words."""
        place = self.certificates(p)[0].place.format(f"{eps:g}")
        claims = "as the imported log claims, " if self.series.imported else ""
        return f"{claims}{percent_down(float(self.at(eps, p)))} are guaranteed ({CONFIDENCE:.0%}) on {place}"

    def attacked(self, eps: ArrayLike) -> FloatArray | None:
        """The worst accuracy of the measured samples within W1 `eps` that attacks have found; None without attacks.

        Of the same classifier, in the same norm. A stronger attack may find less: it bounds the guarantee from above.
        """
        rows = self.series.repeats.measurements
        reach = [(_attack_reach(one, self._attacks_of(one)), unit_weights(one.units_of.codes)) for one in rows]
        curves = [worst_share(one, eps, weights=weights) for one, weights in reach if one is not None]
        return np.asarray(np.min(curves, axis=0)) if curves else None

    @property
    def one_draw(self) -> DrawCertificate | None:
        """The guarantee on one noisy draw in place of the vote; None where votes are not of Gaussian noise."""
        drawn: DrawCertificate | None = self.kept.get((self, "one draw"), self._draw) if self.has_draw else None
        return drawn

    @cached_property
    def has_draw(self) -> bool:
        """Whether there is such a guarantee."""
        rows = self.series.repeats.measurements
        noise = rows[0].fact("noise_options")
        able = _is_own(noise) and isinstance(as_noise(noise), Normal) and self.classifier == "smoothed"
        # an imported log has no votes
        return not (self.refusal or not able or self.series.grouped or len(rows) > 1 or not rows[0]["n"].any())

    def _draw(self) -> DrawCertificate:
        one = self.series.repeats.first
        return draw_certificate(_certificates(one), one["label"], confidence=CONFIDENCE, domain=self.domain)

    def _attacks_of(self, held: Measurement) -> list[Measurement]:
        seed = held.fact("train_seed")
        return [one for one in self.attacks if one.fact("train_seed") == seed and "distance" in one]

    def broken(self) -> bool:
        """Whether attacks have found less than is certified, which can't be: one of the two is wrong."""
        for held in self.series.repeats.measurements:
            reach = _attack_reach(held, self._attacks_of(held), slack=True)
            if reach is not None:
                radii = np.where(held["correct"] & ~held["skipped"], held["radius"], 0.0)
                eps = np.linspace(0, float(radii.max(initial=0.0)), 50)
                # certificates that are wrong by chance, as many as alpha allows, and one more
                allowed = float(held.fact("alpha")) + 1 / len(held)
                weights = unit_weights(held.units_of.codes)
                below = worst_share(radii, eps, weights=weights), worst_share(reach, eps, weights=weights)
                if bool((below[0] > below[1] + allowed).any()):
                    return True
        return False


def shift_series(evidence: Evidence) -> list[ShiftSeries]:
    """Of all certificates of a run, by model and setting; those that are refused say why."""
    found, kept = [], Recent[Any](_KEPT, size=_bytes)
    for one in series_of_evidence(evidence):
        attacks = evidence.where(probe="attack", model=one.model, domain=one.domain, classifier=one.classifier)
        same = [
            other
            for other in attacks
            if (other.fact("norm"), other.fact("units")) == (one.norm, one.units)
            and (one.classifier == "base" or str(other.fact("noise") or "") == one.noise)
        ]
        found.append(ShiftSeries(one, tuple(same), kept))
    return found


def shift_order(series: Sequence[ShiftSeries]) -> Iterator[Finding]:
    """Failures where attacks have found less accuracy near a domain than is guaranteed there."""
    for one in series:
        if one.broken():
            message = (
                f"{one.model} on {one.domain}, {one.title}: attacks leave less within a W1 distance than is certified"
            )
            yield Finding("fail", "shift-order-broken", message)


def nice_distances(series: Sequence[ShiftSeries]) -> tuple[float, ...]:
    """A few round distances from 0 to where nothing is guaranteed any more."""
    farthest = max((one.ends for one in series), default=0.0)
    step = next((step for step in _STEPS if farthest / step < 5), _STEPS[-1])
    return tuple(round(step * i, 4) for i in range(max(2, min(5, int(farthest / step) + 1))))


def refusal_sentences(series: Sequence[ShiftSeries]) -> list[str]:
    """A sentence for each reason: which models and domains, why, and what to do about it."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in series:
        if one.refusal:
            found.setdefault((one.refusal, one.remedy), []).append(f"{one.model} on {one.domain}")
    return [
        f"Nothing is guaranteed around a domain for {', '.join(dict.fromkeys(names))}: {why}; {remedy}"
        for (why, remedy), names in found.items()
    ]


def order_name(p: float) -> str:
    """How a distance is called in a table: W1, W2, W-infinity."""
    return "W-infinity" if math.isinf(p) else f"W{p:g}"


def _certificates(one: Measurement) -> Certificates:
    """The stored certificates; whether their runner-up has a bound of its own tells two classes from more."""
    levels = one.fact("levels") or {}
    if not _is_own(one.fact("noise_options")):
        # votes under the noise of a plug-in are not read again: figures are the same where it is not installed
        one = one.with_facts(noise_options=None)
    return certificates_in(one, 3 if levels.get("final_rival") else 2)


def _is_own(noise: Mapping[str, Any] | None) -> bool:
    """Whether a noise is one of ours, and not a plug-in's."""
    if noise is None or noise["name"] not in NOISES:
        return False
    return NOISES[str(noise["name"])].cls.__module__.startswith("shiftproof.")


def _impossible(one: Measurement) -> bool:
    """Whether a log that others wrote claims more than unanimous votes could give; a little is for rounding."""
    noise, votes = one.fact("noise_options"), int(one.fact("votes") or 0)
    if one.fact("imported") is None or noise is None or noise["name"] != "gaussian" or not votes:
        return False
    most = largest_radius(float(noise["sigma"]), votes, float(one.fact("alpha")))
    return bool(one["radius"].max(initial=0.0) > most * (1 + 1e-9))


def _attack_reach(held: Measurement, attacks: Sequence[Measurement], slack: bool = False) -> FloatArray | None:
    """How far each certified sample was moved by the nearest attack that succeeded; infinity where none did."""
    if not attacks:
        return None
    nearest, ids = np.full(len(held), math.inf), held.ids
    for other in attacks:
        votes = float(other.fact("votes") or 0.0)
        edge = _EDGE / votes**0.5 * float(held.fact("scale")) if slack and votes else 0.0
        places = other.ids.places_in(ids)
        overturned = ~other["correct"] & (places >= 0)
        np.fmin.at(nearest, places[overturned], other["distance"][overturned] + edge)
    return nearest


def _bytes(value: list[ShiftCertificate] | DrawCertificate) -> int:
    """Of what is kept: the reach of every sample with its weight, or two numbers for each."""
    if isinstance(value, DrawCertificate):
        return value.probability.nbytes + value.votes.nbytes
    return sum(2 * part.reach.nbytes for one in value for part in one.populations)
