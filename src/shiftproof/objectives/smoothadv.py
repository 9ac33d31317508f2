"""Training on attacks against the smoothed classifier."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Interval
from torch import Tensor, nn

from shiftproof.attacks import Base, Smoothed, Victim
from shiftproof.attacks.ascent import ascend, attackable, weaknesses
from shiftproof.attacks.pgd import PGD
from shiftproof.execution.compute import TrainingPrecision
from shiftproof.objectives.measures import cross_entropy, spread
from shiftproof.objectives.objective import OBJECTIVES, Outcome, Recipe, Selection
from shiftproof.objectives.smoothed import ForSmoothing
from shiftproof.perturbations import Threat
from shiftproof.types import Batch, Finding, Loss, Natural, NonNegative, Positive, Range

__all__ = ["SmoothAdv"]

_VALIDATION_STEPS, _VALIDATION_VOTES = 4, 32


@OBJECTIVES.register(
    "smoothadv",
    paper="Salman et al. 2019",
    buys="L2 radii under noise of that sigma",
    cost="samples (steps + 1) forward and backward",
)
@dataclass(frozen=True)
class SmoothAdv(ForSmoothing):
    """Cross-entropy of noisy inputs moved, in l2, to where their mean probability of the label is low.

    The attack is on -log of the mean over `samples` noisy copies, and training sees the same noise. A step is
    2 eps / `steps` long; gradients are normalised. Over the first `warmup` steps of training eps grows linearly from 0
    to what it is: the paper's own training took 10 of its epochs for that.

    Salman et al., "Provably robust deep learning via adversarially trained smoothed classifiers" (2019,
    arXiv:1906.04584).
    """

    eps: Annotated[NonNegative, Range(0.25, 2.0, log=True)] = 0.5
    steps: Annotated[Positive, Range(2, 10)] = 10
    samples: Annotated[Positive, Range(1, 8, log=True)] = 2
    step: Annotated[float, Interval(gt=0, lt=math.inf)] | None = None
    precision: TrainingPrecision = "f32"
    warmup: Natural = 0

    recipe = Recipe(optimiser="adam", lr=1e-3, batch=128, steps=1_000, schedule="cosine", evaluate_every=100)
    selection: ClassVar[Selection] = "robust-source-validation"
    splits: ClassVar[bool] = True
    neutral: ClassVar[tuple[dict[str, Any], ...]] = ({"sigma": 0.0, "eps": 0.0},)

    @property
    def passes(self) -> int:
        """Forward passes of a sample in a step."""
        return self.samples * ((self.steps if self.eps > 0 else 0) + 1)

    @property
    def warm_up(self) -> int:
        """Steps before the attack is as strong as it will be."""
        return self.warmup

    def eps_at(self, step: int) -> float:
        """The radius of the attack at a step.

        >>> [SmoothAdv(eps=1.0, warmup=4).eps_at(step) for step in (0, 1, 3, 100)]
        [0.25, 0.5, 1.0, 1.0]
        """
        return self.eps * min(1.0, (step + 1) / self.warmup) if self.warmup else self.eps

    @property
    def attack(self) -> PGD:
        """By which the model is selected, against `victim`."""
        return PGD(Threat("l2", self.eps), steps=_VALIDATION_STEPS, early_exit=True)

    def victim(self, model: nn.Module) -> Victim:
        """The majority vote under the noise of training."""
        noise = self.noise
        return Base(model) if noise is None else Smoothed(model, noise, max(4, self.samples), _VALIDATION_VOTES)

    def findings(self, outcome: Outcome) -> Iterator[Finding]:
        """What weakens the attack."""
        return weaknesses(Threat("l2", self.eps), self.steps, self.step, "steepest")

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """Mean over domains of the mean cross-entropy of all noisy copies of the attacked inputs."""
        inputs, labels = batch.inputs, batch.labels
        eps = self.eps_at(batch.step)
        noise = spread(batch, inputs.shape[1:], self.sigma, generator, self.samples).to(inputs)

        def copies(points: Tensor) -> Tensor:
            return (points + noise).flatten(0, 1)

        with attackable(model, inputs, self.precision) as scores:

            def losses(logits: Tensor) -> Tensor:
                errors = cross_entropy(logits, labels.repeat(self.samples))
                # -log of the mean probability of the label, but for a constant
                return -(-errors.reshape(self.samples, -1)).logsumexp(0)

            attacked = ascend(
                lambda points: scores(copies(points)),
                losses,
                inputs,
                Threat("l2", eps),
                self.steps,
                generator,
                step=2 * eps / self.steps if self.step is None else self.step,
                random_start=False,
            )
        errors = cross_entropy(model(copies(attacked)), labels.repeat(self.samples))
        return Loss(batch.mean_over_domains(errors.reshape(self.samples, -1).mean(0)))
