"""How the kept weights are chosen: on held-out source samples, never on the target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.attacks import Smoothed
from shiftproof.attacks.attack import attack_samples
from shiftproof.domains import Domain, Domains, validation_part
from shiftproof.errors import UsageError
from shiftproof.models.placement import device_of
from shiftproof.models.text import EmbeddedTexts, noise_shape
from shiftproof.objectives import OBJECTIVES, Objective, Recipe
from shiftproof.objectives.measures import error_of
from shiftproof.objectives.objective import Selection, Until
from shiftproof.perturbations.noise import Noise, draw
from shiftproof.rng import numpy_generator
from shiftproof.statistics import pearson
from shiftproof.training.machine import input_type, to_layout
from shiftproof.types import FloatArray, IntArray

__all__ = [
    "COST_SHARE",
    "FEWEST",
    "FEWEST_RADII",
    "RADIUS_VOTES",
    "ROBUST_SAMPLES",
    "Validation",
    "check_rule",
    "default_rule",
    "mean_accuracy",
    "radius_estimate",
    "usual_rule",
]

COST_SHARE = 10
"""Evaluations take at most this part, a tenth, of the passes of training."""
FEWEST = 100
"""Validation samples of each domain that are always measured, where there are so many."""
ROBUST_SAMPLES = 500
"""Validation samples of each domain that are attacked, at most."""
FEWEST_RADII = 500
"""Validation samples of each domain whose radii are always estimated, where there are so many: a gain in the mean that
ends training must not be one of chance."""
RADIUS_VOTES = 100
"""Noisy copies of a validation sample that vote."""


def check_rule(rule: Selection, objective: Objective) -> None:
    """Refuse to select by robust accuracy where the objective knows no attack, by radii where it has no noise."""
    if rule == "robust-source-validation" and objective.attack is None:
        able = ", ".join(entry.name for entry in OBJECTIVES if entry.cls.selection == rule)
        raise UsageError(f"{OBJECTIVES.name_of(objective)} has no attack to select by; these have one: {able}")
    if rule == "radius-source-validation" and objective.noise is None:
        raise UsageError(
            f"{OBJECTIVES.name_of(objective)} has no noise under which a vote has a radius to select by; leave "
            "selection=radius-source-validation out, or train with noise: --objective gaussian"
        )


def default_rule(objective: Objective, recipe: Recipe) -> Selection:
    """The objective's own; until a plateau of radii, or while the loss falls, what stops training selects, too."""
    if recipe.until == "patience":
        return "loss-source-validation"
    stops_by_radius = recipe.until == "plateau" and objective.noise is not None
    return "radius-source-validation" if stops_by_radius else objective.selection


def usual_rule(objective: Objective, recipe: Recipe, domains: Domains) -> Selection:
    """The default; where a model predicts numbers, nothing is right or wrong under attack, and what it predicts as it
    is decides.
    """
    rule = default_rule(objective, recipe)
    guards = rule in ("robust-source-validation", "radius-source-validation")
    return "source-validation" if guards and domains.is_regression else rule


@dataclass(frozen=True, eq=False)
class Validation:
    """Held-out samples of the sources, and the rule by which one state of the weights is better than another.

    What is measured also says when training until a plateau stops.

    Where a model predicts numbers, Pearson's correlation with the true ones stands in place of accuracy.
    """

    domains: list[Domain]
    rule: Selection
    objective: Objective
    seed: int
    layout: torch.memory_format = torch.contiguous_format
    until: Until = "steps"

    @classmethod
    def of(
        cls,
        sources: Iterable[Domain],
        recipe: Recipe,
        rule: Selection,
        objective: Objective,
        seed: int,
        model: nn.Module,
        layout: torch.memory_format = torch.contiguous_format,
    ) -> Validation:
        """A random part of the sources' validation parts, the same at every evaluation.

        All evaluations together take at most a tenth of the forward and backward passes of the training steps, but
        have `FEWEST` samples of each domain, or `FEWEST_RADII`, where there are so many. Passes are counted, never
        timed, so that the part is the same on every machine and after a resume.
        """
        whole = [validation_part(domain) for domain in sorted(sources, key=lambda domain: domain.name)]
        validation = cls(whole, rule, objective, seed, layout, recipe.until)
        count = validation.samples_each(recipe, model)
        return replace(validation, domains=[_random_part(domain, count, seed) for domain in whole])

    def samples_each(self, recipe: Recipe, model: nn.Module) -> int:
        """How many samples of a domain are measured at every evaluation, at most, with a recipe that is planned."""
        assert recipe.evaluate_every is not None, "steps are counted out by planned_recipe"
        # one more than there are rows in the history: the clean accuracy of what is kept
        evaluations = -(-recipe.steps // recipe.evaluate_every) + 1
        trained = 2 * recipe.steps * recipe.batch * self.objective.passes
        affordable = trained // (COST_SHARE * evaluations * self.passes(model))
        count = max(FEWEST_RADII if self.selects_by == "radius_validation" else FEWEST, affordable)
        return min(count, ROBUST_SAMPLES) if self.selects_by == "robust_validation" else count

    @property
    def selects_by(self) -> str:
        """The column of the history that is measured: accuracy under attack, noise, or as it is; radii; a loss."""
        if self.rule == "loss-source-validation" or (self.rule == "last" and self.until == "patience"):
            return "loss_validation"
        if self.rule == "robust-source-validation":
            return "robust_validation"
        stops = self.rule == "last" and self.until == "plateau" and self.objective.noise is not None
        if self.rule == "radius-source-validation" or stops:
            return "radius_validation"
        return "noisy_validation" if self.objective.noise is not None else "validation"

    @property
    def samples(self) -> dict[str, int]:
        """How many samples of each domain are measured."""
        return {domain.name: len(domain) for domain in self.domains}

    def measure(self, model: nn.Module) -> dict[str, dict[str, float]]:
        """Accuracy, or mean radius, on every domain under what the rule looks at; leaves the model in eval mode."""
        model.eval()
        kind = self.selects_by
        if kind == "robust_validation":
            return {kind: {domain.name: self._robust(model, domain) for domain in self.domains}}
        if kind == "validation":
            return {kind: self.clean(model)}
        if kind == "loss_validation":
            return {kind: {domain.name: self._loss(model, domain) for domain in self.domains}}
        noise = self.objective.noise
        assert noise is not None
        if kind == "radius_validation":
            return {kind: {domain.name: self._radius(model, noise, domain) for domain in self.domains}}
        found = {name: self._noisy(model, noise, name) for name in self.samples}
        return {kind: {domain.name: self._accuracy(model, domain, found[domain.name]) for domain in self.domains}}

    def clean(self, model: nn.Module) -> dict[str, float]:
        """Accuracy on every domain as it is; the model is in eval mode."""
        return {domain.name: self._accuracy(model, domain) for domain in self.domains}

    def score(self, row: Mapping[str, Any]) -> float:
        """By which rows of the history compare: the larger is kept, of equal ones the first.

        A model that is trained to be smoothed is judged by what it says under that noise.
        """
        if self.rule == "last":
            return float(row["step"])
        return self.measured(row)

    def measured(self, row: Mapping[str, Any]) -> float:
        """What was measured at an evaluation, as a mean over domains, the larger the better: plateaus are plateaus of
        this; of a loss it is the negative.
        """
        sign = -1 if self.selects_by == "loss_validation" else 1
        return sign * mean_accuracy(row[self.selects_by])

    def passes(self, model: nn.Module) -> int:
        """Forward and backward passes of one sample in an evaluation, at most."""
        if self.selects_by == "radius_validation":
            return RADIUS_VOTES
        if self.selects_by != "robust_validation":
            return 1
        victim, attack = self.objective.victim(model), self.objective.attack
        assert attack is not None
        votes = victim.votes if isinstance(victim, Smoothed) else 1
        return int(2 * attack.passes * victim.passes + 2 * votes)

    def _accuracy(self, model: nn.Module, domain: Domain, under: Callable[[Tensor], Tensor] | None = None) -> float:
        """By the logits of the model, or of what it is `under`; of numbers that it predicts, their correlation."""
        answers, outputs_of = [], under or (lambda inputs: self._logits(model, inputs))
        with torch.no_grad():
            for block in domain.blocks:
                outputs = outputs_of(domain.take(block)[0])
                answers.append((outputs[:, 0] if domain.is_regression else outputs.argmax(1)).cpu().numpy())
        if domain.is_regression:
            return pearson(domain.labels, np.concatenate(answers)) if len(domain) > 1 else 0.0
        return float((np.concatenate(answers) == domain.labels).mean())

    def _loss(self, model: nn.Module, domain: Domain) -> float:
        """The mean cross-entropy, or squared error of numbers; under the objective's noise, if it has one."""
        noise, total = self.objective.noise, 0.0
        outputs_of = self._noisy(model, noise, domain.name) if noise is not None else partial(self._logits, model)
        with torch.no_grad():
            for block in domain.blocks:
                inputs, labels = domain.take(block)
                outputs = outputs_of(inputs).double()
                total += float(error_of(outputs, labels.to(outputs.device)).sum())
        return total / len(domain)

    def _logits(self, model: nn.Module, inputs: Tensor) -> Tensor:
        logits: Tensor = model(self._placed(inputs, model))
        return logits

    def _placed(self, inputs: Tensor, model: nn.Module) -> Tensor:
        """Inputs as the model takes them."""
        return to_layout(inputs.to(device_of(model), input_type(model)), self.layout)

    def _noisy(self, model: nn.Module, noise: Noise, domain: str) -> Callable[[Tensor], Tensor]:
        """The model's logits of inputs under noise."""
        # the same draws at every evaluation: what differs is the model
        generator = numpy_generator(self.seed, "noisy validation", domain)

        def logits_of(inputs: Tensor) -> Tensor:
            shape = noise_shape(noise, model, tuple(inputs.shape[1:]))
            draws = torch.from_numpy(draw(noise, shape, len(inputs), generator) * noise.scale).to(inputs)
            if noise.embedded:
                return EmbeddedTexts.of(model, inputs).moved(draws)
            return self._logits(model, noise.apply(inputs, draws))

        return logits_of

    def _radius(self, model: nn.Module, noise: Noise, domain: Domain) -> float:
        """The mean radius of the majority vote, 0 where it is wrong."""
        # here, too, the same draws at every evaluation, for all samples
        smoothed = Smoothed(model, noise, votes=RADIUS_VOTES, seed=self.seed)
        counts = [smoothed.counts(self._placed(domain.take(block)[0], model)) for block in domain.blocks]
        return float(radius_estimate(np.concatenate(counts), domain.labels, noise).mean())

    def _robust(self, model: nn.Module, domain: Domain) -> float:
        attack = self.objective.attack
        assert attack is not None
        inputs, labels = domain.tensors()
        # here, too, the same draws at every evaluation
        (result,) = attack_samples(
            self.objective.victim(model),
            attack,
            self._placed(inputs, model),
            labels.to(device_of(model)),
            domain.ids,
            [attack.threat.eps],
            self.seed,
        )
        return result.robust_accuracy


def radius_estimate(counts: IntArray, labels: IntArray, noise: Noise) -> FloatArray:
    """Radii (N) that votes (N x classes) let expect, 0 where most are for a wrong class; an estimate, no certificate.

    The share of the most voted class is taken for its probability, drawn in by half a vote so that a unanimous vote has
    a finite radius: of 100 votes 2.58 sigma, about what 2,000 votes can certify.

    >>> from shiftproof.perturbations.noise import as_noise
    >>> votes, labels = np.array([[100, 0], [80, 20], [80, 20]]), np.array([0, 0, 1])
    >>> radius_estimate(votes, labels, as_noise("gaussian:0.5")).round(2)
    array([1.29, 0.42, 0.  ])
    """
    votes = counts.sum(1)
    miss = (votes - counts.max(1) + 0.5) / (votes + 1)
    radii = np.where(counts.argmax(1) == labels, noise.radius(miss, miss), 0.0)
    return np.maximum(radii, 0.0)


def mean_accuracy(accuracy: Mapping[str, float]) -> float:
    """The mean over domains, each weighing the same."""
    return sum(accuracy.values()) / len(accuracy)


def _random_part(domain: Domain, count: int, seed: int) -> Domain:
    """So many samples of the domain, or all of them, in their order."""
    if count >= len(domain):
        return domain
    chosen = numpy_generator(seed, "validation part", domain.name).choice(len(domain), count, replace=False)
    return domain.subset(np.sort(chosen))
