"""Deterministic certificates: the margin of a classifier over what an input can move it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from shiftproof.certification.certificates import Certificates
from shiftproof.certification.certifier import CERTIFIERS, Job
from shiftproof.certification.promise import BasePromise, Promise
from shiftproof.certification.representations import Parts, encode, linear_parts, one_pass
from shiftproof.errors import UsageError
from shiftproof.models.files import fingerprint
from shiftproof.perturbations.noise.gaussian import Gaussian
from shiftproof.types import Cost, FloatArray, IntArray

__all__ = ["LatentMargin", "LipschitzMargin", "margins"]

FARTHEST = 1e6
"""The radius of a classifier that never changes its mind; a number, so that averages stay numbers."""

_DUAL = {"l2": 2, "linf": 1, "l1": np.inf}
_OF_TWO_LOGITS = {"l2": np.sqrt(2.0), "linf": 2.0, "l1": 1.0}
"""How far the difference of two logits moves at most when all logits together move by 1 in a norm."""


def margins(logits: FloatArray, weight: FloatArray | None, norm: str) -> tuple[IntArray, FloatArray]:
    """The winning class of each row (N x K), and how far the values behind the logits may move in `norm` to keep it.

    With the weight (K x D) of a linear head that is the exact distance to the nearest decision boundary; without one
    the logits themselves move.

    >>> winner, margin = margins(np.array([[0.9, 0.3]]), np.eye(2), "l2")
    >>> int(winner[0]), float(margin[0].round(6))
    (0, 0.424264)
    """
    winner = logits.argmax(1)
    gaps = logits[np.arange(len(logits)), winner][:, None] - logits
    if weight is None:
        slopes = np.full((len(logits), logits.shape[1]), _OF_TWO_LOGITS[norm])
    else:
        between = np.linalg.norm(weight[:, None] - weight[None], _DUAL[norm], axis=2)
        slopes = between[winner]
    # classes whose rows are equal can't change places, whatever happens to the input
    with np.errstate(divide="ignore", invalid="ignore"):
        distances = np.where(slopes > 0, gaps / slopes, np.where(gaps > 0, FARTHEST, 0.0))
    distances[np.arange(len(logits)), winner] = FARTHEST
    return winner, np.minimum(distances.min(1), FARTHEST)


def margin_certificates(job: Job, parts: Parts, norm: str, title: str, what: str, details: str) -> Certificates:
    """Certificates from one forward pass: margin over constant."""
    encoded = encode(job, parts, norm)
    winner, margin = margins(parts.logits(encoded.values), parts.weight, norm)
    # rounding counts at the input and again wherever it moves to
    margin = margin - 2 * encoded.rounding
    radius = np.minimum(margin / parts.constant, FARTHEST)
    return Certificates.blank(
        job.domain.ids,
        winner,
        radius,
        bound=np.full(len(winner), "exact"),
        margin=margin,
        norm=norm,
        units=Gaussian.units,
        alpha=0.0,
        guarantee=(
            f"The classifier itself gives the certified class under every change of the input whose {norm} norm "
            f"({Gaussian.units}) is below the radius: {what}. Nothing is random. Rounding in float32 is allowed for "
            f"with {encoded.rounding:.1e}, four times what was measured."
        ),
        title=title,
        classifier="base",
        constant=parts.constant,
        classes=job.classes,
        precision="f32",
        seed=None,
        fingerprint=fingerprint(job.model),
        details={
            "certifier": details,
            "domain": job.domain.name,
            "data": job.domain.fingerprint,
            "rounding": encoded.rounding,
            "seconds": encoded.seconds,
            "n0": 1,
        },
    )


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
        return np.clip(certificates.margin / (certificates.constant or np.inf), 0.0, FARTHEST)


@CERTIFIERS.register(
    "latent-margin",
    paper="in place of document 001, Theorem 2",
    needs="a linear head over an encoder of known constant",
    norm="l2",
    cost="1 forward pass a sample",
)
@dataclass(frozen=True)
class LatentMargin(_Margin):
    """The distance to the decision boundary of a linear head, over the constant of the encoder; alpha is 0.

    No smoothing of the representation can certify more: a class's region lies in a half-space for every other class.
    """

    title: ClassVar[str] = "latent margin"

    def applies(self, job: Job) -> str:
        """To a linear head over an encoder whose constant is known."""
        parts = linear_parts(job.model, job.domain.shape, "l2", needs_split=True)
        return f"a linear head over an encoder of l2 constant {parts.constant:.4g}"

    def certify(self, job: Job) -> Certificates:
        """Certificates for every sample of the job's domain."""
        parts = linear_parts(job.model, job.domain.shape, "l2", needs_split=True)
        what = f"the margin of the linear head over the encoder's constant, {parts.constant:.7g}"
        return margin_certificates(job, parts, "l2", self.title, what, repr(self))


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
        parts = linear_parts(job.model, job.domain.shape, self.norm)
        before = "" if parts.weight is None else " before the last layer"
        return f"every layer's constant is known; the {self.norm} constant{before} is at most {parts.constant:.4g}"

    def certify(self, job: Job) -> Certificates:
        """Certificates for every sample of the job's domain."""
        parts = linear_parts(job.model, job.domain.shape, self.norm)
        before = "" if parts.weight is None else " before the last layer"
        what = f"the margin over the network's constant{before}, {parts.constant:.7g}"
        return margin_certificates(job, parts, self.norm, self.title, what, repr(self))
