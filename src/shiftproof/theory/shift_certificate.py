"""Shift certificates: the accuracy of a certified classifier on every distribution near one that was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftproof.certification import Certificates
from shiftproof.errors import UsageError
from shiftproof.perturbations.edits import Edits
from shiftproof.theory.confidence import Terms, check_level, split_terms
from shiftproof.theory.transport import check_order, unit_weights, worst_share, worst_share_at
from shiftproof.theory.words import level_text, percent_down
from shiftproof.types import FloatArray

__all__ = ["FIXED_ALPHA", "Population", "ShiftCertificate", "certified_reach", "read_again", "shift_certificate"]

Shares = Literal["same", "any"]
FIXED_ALPHA = 1e-5
"""Error probability at which stored votes are read again: small, so that the term for wrong certificates is."""
_THRESHOLDS = np.concatenate([[0.0], np.geomspace(1 / 8, 8, 17)])
"""Of groups: radii at which the bound is evaluated, in units of a radius that was fixed in advance."""
_HALVINGS = 60


@dataclass(frozen=True, eq=False)
class Population:
    """Samples of one law: how far each must be moved before it may be wrong, and what is paid for their being few.

    `groups` are numbers from 0; where there are any, the law is "a random group, then a random sample of it", and the
    bound is evaluated at `thresholds` that were fixed before the data was seen.
    """

    reach: FloatArray
    terms: Terms
    groups: NDArray[np.int64] | None = None
    thresholds: FloatArray | None = None

    @cached_property
    def weights(self) -> FloatArray:
        """Of the samples: every group weighs the same, and within it every sample."""
        return unit_weights(np.arange(len(self.reach)) if self.groups is None else self.groups)

    def estimate(self, eps: ArrayLike, p: float) -> FloatArray:
        """The bound for the samples themselves, as if they were all there is."""
        return worst_share(self.reach, eps, p, self.weights)

    def lower(self, eps: ArrayLike, p: float) -> FloatArray:
        """The bound for the law that they were drawn from; below 0 where nothing is left."""
        if self.groups is None or self.thresholds is None:
            return worst_share(self.reach, eps, p) - self.terms.total
        means, costs = worst_share_at(self.reach, eps, self.thresholds, p, self.weights)
        bounds = means.reshape(-1, *(1,) * np.ndim(eps)) - costs
        found: FloatArray = bounds.max(0) - self.terms.total
        return found


@dataclass(frozen=True, eq=False, repr=False)
class ShiftCertificate:
    """A guarantee on the accuracy of one classifier on every distribution near a domain.

    `at(eps)` holds for all eps at once, with probability `confidence` over the samples and the noise of the
    certificates. Distances are Wasserstein's of order `p` in `norm` and `units`; they move inputs, never labels. With
    `shares` "same", of distributions with the domain's own class shares; with "any", of all over the classes that have
    samples here whose classes are each within eps of the same class of the domain.
    """

    populations: Sequence[Population]
    p: float
    norm: str
    units: str
    classifier: str
    confidence: float
    alpha: float
    shares: Shares
    n: int
    grouped: bool
    domain: str = "the measured domain"
    note: str = ""

    def __repr__(self) -> str:
        at_0 = float(self.at(0.0))
        return f"ShiftCertificate({self.distance}, {self.norm}: {at_0:.1%} at 0, ends at {self.ends:.3g}; n = {self.n})"

    def at(self, eps: ArrayLike) -> FloatArray:
        """Accuracy that is guaranteed on every distribution within `eps`; an array of the same shape, at least 0."""
        lowest = np.min([one.lower(eps, self.p) for one in self.populations], axis=0)
        return np.asarray(np.clip(lowest, 0.0, 1.0))

    def estimate(self, eps: ArrayLike) -> FloatArray:
        """The same of the samples alone, without what is paid for their being few: no guarantee of the domain."""
        return np.asarray(np.min([one.estimate(eps, self.p) for one in self.populations], axis=0))

    @cached_property
    def ends(self) -> float:
        """The distance from which on nothing is guaranteed; 0 if nothing ever is."""
        finite = [one.reach[np.isfinite(one.reach)] for one in self.populations]
        high = max([float(some.max(initial=0.0)) for some in finite]) or 1.0
        if not self.at(0.0) > 0:
            return 0.0
        low = 0.0
        high *= 1 + 1e-9
        if self.at(1e9 * high) > 0:
            return math.inf
        while self.at(high) > 0:
            high *= 2
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.at(middle) > 0 else (low, middle)
        return low

    @property
    def mean_reach(self) -> float:
        """The distance at which `estimate` ends for p = 1 and the domain's own shares: the average certified radius."""
        one = self.populations[0]
        return float(one.weights @ one.reach)

    @property
    def term(self) -> float:
        """What is taken off the estimate at most: for few samples, and for certificates that may be wrong."""
        return max(one.terms.total for one in self.populations)

    @property
    def distance(self) -> str:
        """The distance in a word: W1, W2 or W-infinity."""
        return "W-infinity" if math.isinf(self.p) else f"W{self.p:g}"

    @property
    def place(self) -> str:
        """Of which distributions it speaks, at a distance that is still to be named."""
        where = f"{self.domain} ({self.norm}, {self.units})"
        if self.shares == "same":
            return f"every distribution with the class shares of {self.domain} within {self.distance} {{}} of {where}"
        return (
            f"every distribution over the classes that were measured of which each is within {self.distance} {{}} of "
            f"the same class of {where}"
        )

    def sentence(self, eps: float) -> str:
        """The guarantee at one distance."""
        share, level = percent_down(float(self.at(eps))), percent_down(self.confidence)
        return f"{share} guaranteed ({level}) on {self.place.format(f'{eps:g}')}"

    @property
    def guarantee(self) -> str:
        """What is guaranteed, of which classifier, with which probability, and what it does not cover."""
        who = "classifier itself" if self.classifier == "base" else f"{self.classifier} classifier"
        units = "groups" if self.grouped else "samples"
        of_class = " that has any of the class" if self.shares == "any" else ""
        law = f", drawn as a random group{of_class} and then a random sample of it" if self.grouped else ""
        return (
            f"With probability {level_text(self.confidence)} over the {units}"
            f"{' and the noise' if self.alpha else ''}, the {who} is right on at least the stated share of "
            f"{self.place.format('eps')}{law}, for all eps at once, if the {units} are independent draws that served "
            "neither training nor selection. "
            f"Inputs move and labels do not.{f' {self.note}' if self.note else ''}"
        )


def shift_certificate(
    certificates: Certificates,
    labels: ArrayLike,
    p: float = 1.0,
    *,
    groups: ArrayLike | None = None,
    shares: Shares = "same",
    confidence: float = 0.95,
    alpha: float | None = FIXED_ALPHA,
    shared_noise: bool = True,
    domain: str = "the measured domain",
) -> ShiftCertificate:
    """Accuracy that is guaranteed on every distribution within a Wasserstein distance, from stored certificates.

    No forward pass is needed: a sample that is right within its radius stays right unless it is moved farther. Samples
    should be independent draws of the domain that served neither training nor selection; certificates of an unsound
    rule are refused. With R a sample's radius, 0 where it is wrong, and d the distance that it is moved, 1{d < R} >=
    min(1, l R^p) - l d^p for every l >= 0; the mean of the right side, at the best l, is the bound. Drawing samples
    costs the term of Massart, "The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality" (1990).

    Args:
        p: Order of the distance: 1, 2 or math.inf.
        groups: Of each sample (patient, slide), where samples of one group are alike.
        shares: "same" for distributions with the domain's class shares, "any" for all shares (the worst class); the
            latter is also right for samples that were balanced by class.
        confidence: Probability that the whole curve holds.
        alpha: Error probability at which the votes are read again, fixed in advance; None keeps that of the
            certificates. What holds without chance has none.
        shared_noise: Whether samples share noise, as those of one call of `certify` do.
        domain: Name for sentences.
    """
    order, level = check_order(p), check_level(confidence)
    wanted = np.asarray(labels)
    read = read_again(certificates, alpha)
    reach = certified_reach(read, wanted)
    units = None if groups is None else _numbered(groups, len(read))
    if shares not in ("same", "any"):
        raise UsageError(f"shares is {shares!r}; it is 'same' (the domain's class shares) or 'any' (the worst class)")
    parts = [np.arange(len(read))] if shares == "same" else [np.flatnonzero(wanted == y) for y in np.unique(wanted)]
    populations = [
        _population(reach[rows], None if units is None else units[rows], read, level / len(parts), shared_noise)
        for rows in parts
    ]
    return ShiftCertificate(
        populations,
        order,
        read.norm,
        read.units,
        read.classifier,
        float(confidence),
        read.alpha,
        shares,
        len(read) if units is None else len(np.unique(units)),
        units is not None,
        domain,
        _note(read),
    )


def certified_reach(certificates: Certificates, labels: ArrayLike) -> FloatArray:
    """How far each sample must be moved before it may be wrong: its radius if it is right, else 0.

    Edits are counted in whole numbers: a text that is certified for k of them needs k + 1.
    """
    wanted = np.asarray(labels)
    if certificates.unsound:
        raise UsageError(f"{certificates.title}: these are no certificates but what a published rule claims")
    if wanted.shape != certificates.prediction.shape:
        raise UsageError(f"there are {len(certificates)} certificates but labels of shape {wanted.shape}")
    if not len(certificates):
        raise UsageError("a shift certificate needs at least one sample")
    if not bool(np.all(certificates.radius >= 0)):
        raise UsageError("a radius is no number of at least 0; these certificates were changed, or come from elsewhere")
    right = (certificates.prediction == wanted) & ~certificates.skipped
    radii = np.floor(certificates.radius) + 1 if certificates.norm == Edits.norm else certificates.radius
    return np.where(right, radii, 0.0)


def read_again(certificates: Certificates, alpha: float | None) -> Certificates:
    """The same votes at a smaller alpha where that can be done, else as they are."""
    able = certificates.noise is not None and certificates.levels is not None and not certificates.unsound
    if alpha is None or not able or certificates.classifier != "smoothed" or certificates.alpha <= alpha:
        return certificates
    return certificates.at_alpha(alpha)


def _population(
    reach: FloatArray, groups: NDArray[Any] | None, certificates: Certificates, level: float, shared: bool
) -> Population:
    alpha = float(certificates.alpha)
    # where every group has one sample, samples are what was drawn
    if groups is None or len(np.unique(groups)) == len(groups):
        return Population(reach, split_terms(len(reach), alpha, level, shared=shared))
    numbers = np.unique(groups, return_inverse=True)[1]
    functions = len(_THRESHOLDS)
    terms = split_terms(int(numbers.max()) + 1, alpha, level, shared=shared, functions=functions)
    return Population(reach, terms, numbers, _THRESHOLDS * _unit(certificates))


def _unit(certificates: Certificates) -> float:
    """A distance of interest that does not depend on what was measured."""
    return 1.0 if certificates.norm == Edits.norm else float(certificates.scale)


def _numbered(groups: ArrayLike, n: int) -> NDArray[Any]:
    units = np.asarray(groups, object).astype(str)
    if units.shape != (n,):
        raise UsageError(f"there are {n} certificates but groups of shape {units.shape}")
    return np.unique(units, return_inverse=True)[1]


def _note(certificates: Certificates) -> str:
    noise = certificates.noise
    if noise is not None and noise.kind == "image" and not noise.additive:
        return "Distances are in parameters of the deformation, inside one interpolation of each image."
    if certificates.norm == Edits.norm:
        return "A text that is certified for k edits is k + 1 away from a wrong answer, since edits are whole."
    return ""
