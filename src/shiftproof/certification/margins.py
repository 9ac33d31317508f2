"""Deterministic certificates: the margin of a classifier over what an input can move it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from shiftproof.certification.certificates import Certificates
from shiftproof.certification.certifier import CERTIFIERS, Certifier, Job
from shiftproof.certification.facts import facts_of
from shiftproof.certification.promise import BasePromise, Promise
from shiftproof.certification.representations import (
    Encoded,
    Parts,
    check_precision,
    diameter,
    encode,
    head_rounding,
    linear_parts,
    one_pass,
)
from shiftproof.errors import UsageError
from shiftproof.perturbations.noise.gaussian import Gaussian
from shiftproof.perturbations.threat import Norm
from shiftproof.types import Cost, FloatArray, IntArray

__all__ = ["LatentMargin", "LipschitzMargin", "margins", "over_constant", "safe_margins", "useless"]

FARTHEST = 1e6
"""The radius of a classifier that never changes its mind; a number, so that averages stay numbers."""

USELESS = 100.0
ROUNDING_WORDS = (
    "That holds in exact arithmetic; for rounding in float32 an allowance is taken off, which is measured, not proven."
)

_DUAL = {"l2": 2, "linf": 1, "l1": np.inf}
_OF_TWO_LOGITS = {"l2": np.sqrt(2.0), "linf": 2.0, "l1": 1.0}
"""How far the difference of two logits moves at most when all logits together move by 1 in a norm."""


def margins(
    logits: FloatArray, weight: FloatArray | None, norm: str, slack: FloatArray | None = None
) -> tuple[IntArray, FloatArray]:
    """The winning class of each row (N x K), and how far the values behind the logits may move in `norm` to keep it.

    With the weight (K x D) of a linear head that is the exact distance to the nearest decision boundary; without one
    the logits themselves move. `slack` (N x K) is what each logit may be off by.

    >>> winner, margin = margins(np.array([[0.9, 0.3]]), np.eye(2), "l2")
    >>> int(winner[0]), float(margin[0].round(6))
    (0, 0.424264)
    """
    winner = logits.argmax(1)
    rows = np.arange(len(logits))
    gaps = logits[rows, winner][:, None] - logits
    if slack is not None:
        gaps = gaps - slack - slack[rows, winner][:, None]
    if weight is None:
        slopes = np.full((len(logits), logits.shape[1]), _OF_TWO_LOGITS[norm])
    else:
        between = np.linalg.norm(weight[:, None] - weight[None], _DUAL[norm], axis=2)
        slopes = between[winner]
    # classes whose rows are equal can't change places, whatever happens to the input
    with np.errstate(divide="ignore", invalid="ignore"):
        distances = np.where(slopes > 0, gaps / slopes, np.where(gaps > 0, FARTHEST, 0.0))
    distances[rows, winner] = FARTHEST
    return winner, np.minimum(distances.min(1), FARTHEST)


def safe_margins(
    parts: Parts, encoded: Encoded, shape: tuple[int, ...], norm: Norm
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Classes, their margins behind the body less what rounding may take, and the radii of inputs that follow."""
    farthest = diameter(shape, norm)
    logits = parts.logits(encoded.values)
    winner, margin = margins(logits, parts.weight, norm)
    if parts.weight is not None:
        slack = head_rounding(parts, encoded.values, np.minimum(margin, parts.constant * farthest), norm)
        margin = margins(logits, parts.weight, norm, slack)[1]
    # rounding counts at the input and again wherever it moves to; what moves nothing can't be moved over a boundary
    margin = np.minimum(margin - 2 * encoded.rounding, parts.constant * farthest)
    if parts.constant > 0:
        return winner, margin, margin / parts.constant
    return winner, margin, np.where(margin >= 0, farthest, 0.0)


def margin_certificates(job: Job, parts: Parts, norm: Norm, what: str, certifier: Certifier) -> Certificates:
    """Certificates from one forward pass: margin over constant."""
    encoded = encode(job, parts, norm)
    winner, margin, radius = safe_margins(parts, encoded, job.domain.shape, norm)
    return Certificates.blank(
        job.domain.ids,
        winner,
        radius,
        bound=np.full(len(winner), "exact"),
        margin=margin,
        norm=norm,
        units=Gaussian.units,
        alpha=0.0,
        guarantee=_margin_guarantee(norm, what),
        constant=parts.constant,
        **facts_of(job, certifier, encoded.seconds, rounding=encoded.rounding, passes=len(winner)),
    )


def _margin_guarantee(norm: Norm, what: str) -> str:
    return (
        f"The classifier itself gives the certified class under every change of the input whose {norm} norm "
        f"({Gaussian.units}) is below the radius: {what}. Nothing is random. {ROUNDING_WORDS}"
    )


def over_constant(margin: FloatArray, constant: float | None, radius: FloatArray) -> FloatArray:
    """Margin over constant, no smaller than 0; of a body that moves nothing, the radius as it is."""
    if constant is None:
        return np.zeros(len(margin))
    return np.maximum(margin / constant, 0.0) if constant > 0 else np.where(margin >= 0, radius, 0.0)


def useless(constant: float) -> str:
    """A warning for constants that leave next to nothing of a margin."""
    return ", which leaves radii too small to be of use" if constant > USELESS else ""


class _Margin:
    """What both margins share: nothing is sampled, and what is certified is the classifier itself."""

    classifier: ClassVar[str] = "base"
    scale: ClassVar[float] = 0.25

    def estimate(self, job: Job) -> Cost:
        """One forward pass a sample."""
        return one_pass(job)

    def promise(self, job: Job) -> Promise:
        """The classifier itself."""
        return BasePromise(job.model)

    def rederive(self, certificates: Certificates) -> FloatArray:
        """Margin over constant; the margin itself only the model knows."""
        return over_constant(certificates.margin, certificates.constant, certificates.radius)


@CERTIFIERS.register(
    "latent-margin",
    paper="in place of GLEAN's Theorem 2",
    needs="a linear head over an encoder of known constant",
    norm="l2",
    cost="1 forward pass a sample",
)
@dataclass(frozen=True)
class LatentMargin(_Margin):
    """The distance to the decision boundary of a linear head, over the constant of the encoder; alpha is 0.

    Of the head, noise on the representation can't certify more: a class's region lies in a half-space for every other.
    """

    title: ClassVar[str] = "latent margin"

    def applies(self, job: Job) -> str:
        """To a linear head over an encoder whose constant is known."""
        check_precision(job)
        parts = linear_parts(job.model, job.domain.shape, "l2", needs_split=True)
        return f"a linear head over an encoder of l2 constant {parts.constant:.4g}{useless(parts.constant)}"

    def certify(self, job: Job) -> Certificates:
        """Certificates for every sample of the job's domain."""
        parts = linear_parts(job.model, job.domain.shape, "l2", needs_split=True)
        return margin_certificates(job, parts, "l2", self._what(parts), self)

    def guarantee_of(self, job: Job, certificates: Certificates) -> str:
        """The sentence that certificates of the job should carry."""
        return _margin_guarantee("l2", self._what(linear_parts(job.model, job.domain.shape, "l2", needs_split=True)))

    def _what(self, parts: Parts) -> str:
        return f"the margin of the linear head over the encoder's constant, {parts.constant:.7g}"


@CERTIFIERS.register(
    "lipschitz-margin",
    paper="Tsuzuku et al. 2018; Li et al. 2019",
    needs="layers of known constant throughout",
    norm="l2, linf or l1",
    cost="1 forward pass a sample",
)
@dataclass(frozen=True)
class LipschitzMargin(_Margin):
    """The margin of a network over its Lipschitz constant in a norm; alpha is 0. A linear last layer counts exactly."""

    norm: Literal["l2", "linf", "l1"] = "l2"

    def __post_init__(self) -> None:
        if self.norm not in _DUAL:
            raise UsageError(f"norm is {self.norm!r}; it should be l2, linf or l1")

    @property
    def title(self) -> str:
        """What tells it from others in a table."""
        return f"lipschitz margin {self.norm}"

    def applies(self, job: Job) -> str:
        """To a network of layers whose constants are known."""
        check_precision(job)
        parts = linear_parts(job.model, job.domain.shape, self.norm)
        before = "" if parts.weight is None else " before the last layer"
        bound = f"the {self.norm} constant{before} is at most {parts.constant:.4g}{useless(parts.constant)}"
        return f"every layer's constant is known; {bound}"

    def certify(self, job: Job) -> Certificates:
        """Certificates for every sample of the job's domain."""
        parts = linear_parts(job.model, job.domain.shape, self.norm)
        return margin_certificates(job, parts, self.norm, self._what(parts), self)

    def guarantee_of(self, job: Job, certificates: Certificates) -> str:
        """The sentence that certificates of the job should carry."""
        return _margin_guarantee(self.norm, self._what(linear_parts(job.model, job.domain.shape, self.norm)))

    def _what(self, parts: Parts) -> str:
        before = "" if parts.weight is None else " before the last layer"
        return f"the margin over the network's constant{before}, {parts.constant:.7g}"
