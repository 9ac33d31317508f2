"""Smoothing of models whose BatchNorm is adapted to the noise, at one sigma or several."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Interval
from pydantic import BeforeValidator
from torch import nn

from shiftproof.certification.calibration import Calibration, CalibrationOption, calibration_images
from shiftproof.certification.certificates import ABSTAIN, Certificates
from shiftproof.certification.certified_classifier import CertifiedClassifier
from shiftproof.certification.certifier import CERTIFIERS, Alpha, Certifier, Job, Memory, Sigma
from shiftproof.certification.certifiers.adapted_classifier import (
    CertifiedAgreement,
    CertifiedLargestRadius,
    CertifiedSelection,
)
from shiftproof.certification.certifiers.adapted_radii import Rule, Signed, answer, has_score, joint_choice, signed
from shiftproof.certification.certifiers.randomized_smoothing import RandomizedSmoothing
from shiftproof.certification.rederive import Record, scores_from_votes
from shiftproof.certification.sampling.engine import sample
from shiftproof.domains import Domain
from shiftproof.errors import ModelError, UsageError
from shiftproof.models.adaptation import adapt_batchnorm, batchnorm_layers, statistics_hash
from shiftproof.perturbations.noise import Noise, Uniform, as_noise
from shiftproof.rng import derive
from shiftproof.types import Cost, FloatArray, Positive

__all__ = ["AdaptedSmoothing"]

CHOICE_IMAGES, CHOICE_VOTES = 128, 200


def _as_sigmas(value: Any) -> Any:
    return (value,) if isinstance(value, int | float) else value


@CERTIFIERS.register(
    "adapted-smoothing",
    paper="Adversarially Trained Models with Test-Time Covariate Shift Adaptation, 2022, with rules that hold",
    needs="BatchNorm, and calibration images",
    norm="that of the noise",
    cost="n0 + n forward passes a sample and sigma",
)
@dataclass(frozen=True)
class AdaptedSmoothing(Certifier):
    """Randomized smoothing of copies of a model whose BatchNorm statistics are adapted to each sigma.

    Adapted once, on `calibration` images that are never certified (a number takes so many of the training images).
    `family` is the name of the noise, of which sigmas are the scales: gaussian (l2), uniform (l1), rotation, ...
    What several sigmas make together depends on the rule:

    - "fixed": one sigma, the best on calibration images if there are several;
    - "selection": the class with the largest score of all, sigma Phi^-1(p) of normal noise and 2 width p of uniform
      noise, which change no faster than the input; its radius is half the lead;
    - "agreement": an answer only where all sigmas agree; constant within the smallest radius.

    The published rule, the largest radius of all for each image, is no certificate; `unsound="as-published"` computes
    it for comparison.

    After "Adversarially trained models with test-time covariate shift adaptation" (submitted to ICLR 2022).
    """

    sigmas: Annotated[tuple[Sigma, ...], BeforeValidator(_as_sigmas)]
    calibration: CalibrationOption = 512
    momentum: Annotated[float, Interval(ge=0, le=1)] = 1.0
    rule: Rule = "fixed"
    n: Positive = 100_000
    n0: Positive = 100
    alpha: Alpha = 0.001
    runner_up: bool = True
    unsound: Literal["", "as-published"] = ""
    family: str = "gaussian"

    classifier: ClassVar[str] = "adapted"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sigmas or len(set(self.sigmas)) != len(self.sigmas):
            raise UsageError(f"sigmas are {list(self.sigmas)}; one or several different ones are needed")
        first = self.noises[0]
        if first.kind != "image" or first.embedded:
            raise UsageError(f"BatchNorm is adapted to noise on images, and {self.family} is noise on texts")
        if self.rule == "selection" and not has_score(first):
            raise UsageError(
                f"rule='selection' compares scores of several noises, and {self.family} has none; it can be used with "
                "gaussian, uniform, translation, affine and dct, or with another rule"
            )

    @cached_property
    def noises(self) -> tuple[Noise, ...]:
        """The noise of every sigma."""
        return tuple(as_noise(f"{self.family}:{sigma!r}") for sigma in self.sigmas)

    @property
    def norm(self) -> str:
        """The norm of its radii, that of the noise."""
        return self.noises[0].norm

    @property
    def units(self) -> str:
        """The units of its radii."""
        return self.noises[0].units

    @property
    def title(self) -> str:
        """What tells it from others in a table."""
        sigmas = ",".join(f"{sigma:g}" for sigma in self.sigmas)
        rule = self.unsound or ("" if len(self.sigmas) == 1 else self.rule)
        family = "" if self.family == "gaussian" else f"{self.family} "
        return f"adapted {family}{sigmas}{', ' if rule else ''}{rule}"

    @property
    def scale(self) -> float:
        """A radius of interest, fixed before anything is measured: that of the least noise."""
        return min(self.sigmas)

    @property
    def votes(self) -> int:
        """Of each sigma."""
        return self.n

    @property
    def passes(self) -> int:
        """Votes of both kinds, of all sigmas that vote; one that is fixed beforehand votes alone."""
        alone = self.rule == "fixed" and not self.unsound
        return (self.n0 + self.n) * (1 if alone else len(self.sigmas))

    def applies(self, job: Job) -> str:
        """To a model with BatchNorm, if there are images to adapt it to."""
        layers = batchnorm_layers(job.model)
        if not layers:
            raise ModelError("the model has no BatchNorm with running statistics, so that there is nothing to adapt")
        images = calibration_images(self.calibration, job.calibration)
        images.check_apart(job.domain)
        for setting in self._settings(self.share):
            setting.applies(job)
        return f"{len(layers)} BatchNorm layers, adapted to noise on {images.name}"

    def certify(self, job: Job) -> Certificates:
        """Certificates for every sample of the job's domain."""
        images = calibration_images(self.calibration, job.calibration)
        images.check_apart(job.domain)
        one = self._with_one_sigma(job, images) if self.rule == "fixed" and not self.unsound else self
        models = one.models(job.model, images)
        choice = partial(joint_choice, one.noises) if one._joint else None
        parts = sample(job, one._settings(one.share), models, choice)
        combined = one._combine(parts, models, images)
        return replace(
            combined, title=self.title, scale=self.scale, guarantee=combined.guarantee + self._choice_sentence(one)
        )

    def estimate(self, job: Job) -> Cost:
        """As for smoothing, once a sigma."""
        noises = self.noises[:1] if self.rule == "fixed" and not self.unsound else self.noises
        costs = [RandomizedSmoothing(noise, self.n, self.n0).estimate(job) for noise in noises]
        passes, seconds = sum(c.passes for c in costs), sum(c.seconds for c in costs)
        return Cost(passes, seconds, passes, seconds)

    def certified_classifier(self, job: Job) -> CertifiedClassifier:
        """The rule over the adapted models."""
        images = calibration_images(self.calibration, job.calibration)
        one = self._with_one_sigma(job, images) if self.rule == "fixed" and not self.unsound else self
        models = nn.ModuleList(one.models(job.model, images))
        votes = max(1_000, min(self.n, 4_000))
        if self.unsound:
            if not has_score(self.noises[0]):
                raise UsageError(f"{self.family} noise has no score by which to answer as the published rule does")
            return CertifiedLargestRadius(models, one.noises, job.seed, votes=votes, runner_up=self.runner_up)
        kind = CertifiedAgreement if self.rule == "agreement" else CertifiedSelection
        return kind(models, one.noises, job.seed, votes=votes)

    def as_recorded(self, certificates: Certificates) -> AdaptedSmoothing:
        """With the one sigma that certificates say was chosen, where the rule chooses one of several.

        How it was chosen is no part of the guarantee, as long as it was not on the samples that are certified.
        """
        recorded = {tuple(json.loads(text)["sigmas"]) for text in certificates.parts}
        chosen = self.rule == "fixed" and len(recorded) == 1 and recorded <= {(sigma,) for sigma in self.sigmas}
        return replace(self, sigmas=recorded.pop()) if chosen else self

    def guarantee_of(self, job: Job, certificates: Certificates) -> str:
        """The sentence that certificates of the job should carry."""
        images, one = calibration_images(self.calibration, job.calibration), self.as_recorded(certificates)
        models = one.models(job.model, images)
        return one._guarantee(images, one._statistics(models)) + self._choice_sentence(one)

    def rederive(self, certificates: Certificates) -> FloatArray:
        """The radii that follow from the votes at every sigma."""
        if not len(certificates):
            return np.zeros(0)
        one = self.as_recorded(certificates)
        if {tuple(json.loads(text)["sigmas"]) for text in certificates.parts} != {one.sigmas}:
            return np.zeros(len(certificates))
        known = []
        for noise, votes in zip(one.noises, certificates.ballots, strict=True):
            count, rival, drawn = votes[:, 1], votes[:, 2], votes[:, 3]
            record = Record(count, rival, drawn, one.n, one.share, certificates.classes, one.runner_up, False)
            known.append(Signed(*scores_from_votes(noise, record), certificates.off_grid))
        return np.maximum(answer(one._rule, certificates.ballots[..., 0], known)[1], 0.0)

    def outer_radius(self, certificates: Certificates) -> FloatArray:
        """Within which an agreeing answer never becomes another class, though it may become none.

        All sigmas have to hold for that, so that they share alpha.
        """
        if self.rule != "agreement":
            raise UsageError("only the agreement rule abstains, and so only it has such a radius")
        known = self._signed(certificates, self.alpha / len(self.sigmas))
        farthest = np.max([one.radius for one in known], axis=0)
        return np.where(certificates.radius > 0, np.maximum(farthest, 0.0), 0.0)

    def models(self, model: nn.Module, images: Calibration) -> list[nn.Module]:
        """A copy adapted to each sigma; the noise of adapting is its own."""
        return [adapt_batchnorm(model, images.inputs, noise, momentum=self.momentum) for noise in self.noises]

    @property
    def share(self) -> float:
        """Of alpha, for each sigma. To be constant within the smallest radius only one certificate has to hold."""
        shared = len(self.sigmas) if self.rule == "selection" and not self.unsound else 1
        return self.alpha / shared

    @property
    def _rule(self) -> Rule | Literal["as-published"]:
        return self.unsound or self.rule

    @property
    def _score(self) -> str:
        return "2 width p" if isinstance(self.noises[0], Uniform) else "sigma Phi^-1(p)"

    @property
    def _joint(self) -> bool:
        return self.rule == "selection" and not self.unsound and len(self.sigmas) > 1

    def _settings(self, alpha: float) -> list[RandomizedSmoothing]:
        return [RandomizedSmoothing(noise, self.n, self.n0, alpha, runner_up=self.runner_up) for noise in self.noises]

    def _signed(self, certificates: Certificates, alpha: float) -> list[Signed]:
        """What recorded votes say at every sigma, each at `alpha`."""
        return [
            signed(setting, votes[:, 1], votes[:, 2], votes[:, 3], certificates.classes, certificates.off_grid)
            for setting, votes in zip(self._settings(alpha), certificates.ballots, strict=True)
        ]

    def _with_one_sigma(self, job: Job, images: Calibration) -> AdaptedSmoothing:
        """With the one sigma that certifies most on calibration images; certified images and noise play no part."""
        if len(self.sigmas) == 1:
            return self
        if images.labels is None:
            raise UsageError(
                "rule='fixed' chooses one of several sigmas on calibration images, which needs their labels: "
                "use Calibration.of(domain), one sigma, or another rule"
            )
        few = np.unique(np.linspace(0, len(images.inputs) - 1, CHOICE_IMAGES, dtype=np.int64))
        labels = images.labels[few]
        names = [str(c) for c in range(job.classes)]
        domain = Domain.from_arrays("calibration", images.inputs[few], labels, names)
        seed = derive(0, "sigma choice", images.hash)
        trial = replace(job, domain=domain, seed=seed, record=Memory(), compute=job.compute.alone(), progress="off")
        settings = [replace(one, n=CHOICE_VOTES) for one in self._settings(self.alpha)]
        trials = sample(trial, settings, self.models(job.model, images))
        means = [float(np.where(one.prediction == labels, one.radius, 0.0).mean()) for one in trials]
        return replace(self, sigmas=(self.sigmas[int(np.argmax(means))],))

    def _combine(self, parts: Sequence[Certificates], models: Sequence[nn.Module], images: Calibration) -> Certificates:
        chosen = np.stack([part.chosen for part in parts])
        known = [
            signed(setting, part.count, part.runner_up_count, part.n, part.classes, part.off_grid)
            for setting, part in zip(self._settings(self.share), parts, strict=True)
        ]
        winner, radius, best = answer(self._rule, chosen, known)
        first, rows = parts[0], np.arange(len(parts[0]))
        columns: dict[str, Any] = {
            name: np.stack([getattr(part, name) for part in parts])[best, rows]
            for name in ("count", "label_count", "runner_up", "runner_up_count", "p_lower", "p_upper", "bound")
        }
        details = {key: value for key, value in first.details.items() if key != "prepared"}
        adapted = self._statistics(models)
        details |= {"certifier": repr(self), "calibration": repr(images), "statistics": adapted}
        details["n0"] = len(parts) * self.n0
        held = radius > 0
        return replace(
            first,
            chosen=winner,
            prediction=np.where(held, winner, ABSTAIN),
            radius=np.where(held, radius, 0.0),
            n=np.sum([part.n for part in parts], axis=0),
            parts=self._parts(parts),
            **columns,
            alpha=self.alpha,
            title=self.title,
            classifier=self.classifier,
            scale=self.scale,
            unsound=self.unsound,
            levels=first.levels if len(parts) == 1 else None,
            noise=first.noise if len(parts) == 1 else None,
            guarantee=self._guarantee(images, adapted),
            details=details,
        )

    def _statistics(self, models: Sequence[nn.Module]) -> dict[str, str]:
        """A hash of what was adapted, for each sigma."""
        return {f"{sigma:g}": statistics_hash(model) for sigma, model in zip(self.sigmas, models, strict=True)}

    def _choice_sentence(self, one: AdaptedSmoothing) -> str:
        """What is said of a sigma that was chosen among several."""
        if one.sigmas == self.sigmas:
            return ""
        return f" Sigma {one.sigmas[0]:g} was chosen among {', '.join(map(str, self.sigmas))} on calibration images."

    def _parts(self, parts: Sequence[Certificates]) -> Any:
        votes = np.stack([np.stack([p.chosen, p.count, p.runner_up_count, p.n], 1) for p in parts], 1)
        texts = [json.dumps({"sigmas": self.sigmas, "votes": row}) for row in votes.tolist()]
        return np.array(texts, object)

    def _guarantee(self, images: Calibration, adapted: dict[str, str]) -> str:
        what = "sigma" if self.family == "gaussian" else self.family
        of = ", ".join(f"{what} {sigma} (statistics {hash_})" for sigma, hash_ in adapted.items())
        on = f"adapted to {of} on {images.name} ({images.hash})"
        if self.unsound:
            return (
                f"NOT A GUARANTEE. The largest radius over models {on}, chosen anew for every image: at a nearby image "
                "another sigma may win with another class."
            )
        change = self.noises[0].claim
        wrong = f"for each image fixed before the seed was drawn, wrong with probability at most {self.alpha:g}"
        if len(self.sigmas) == 1:
            return f"The smoothed classifier of the model {on} gives the certified class under {change}; {wrong}."
        if self.rule == "agreement":
            return f"Smoothed classifiers of the model {on} all give the certified class under {change}; {wrong}."
        return (
            f"The classifier that answers with the class of the largest {self._score}, over models {on}, gives the "
            f"certified class under {change}; {wrong}."
        )
