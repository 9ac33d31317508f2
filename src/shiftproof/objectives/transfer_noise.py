"""The "noise" training of a source extractor, in both readings of its text."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import nn

from shiftproof.objectives.measures import cross_entropy, noise_of, spread
from shiftproof.objectives.objective import OBJECTIVES, Objective, Recipe, Selection
from shiftproof.perturbations.noise import Noise
from shiftproof.perturbations.threat import project
from shiftproof.types import Batch, Loss, NonNegative, Range

__all__ = ["TransferNoise"]


@OBJECTIVES.register(
    "transfer-noise",
    paper="Provably Robust Transfer, 2022",
    buys="representations that noise moves little",
    cost="1 forward, 1 backward",
)
@dataclass(frozen=True)
class TransferNoise(Objective):
    """Cross-entropy under noise: "gauss" is normal of `sigma`; "sphere", the text to the letter, at most `eps` long.

    The letter draws standard normal noise and shortens it to an l2 norm of `eps`. In 784 dimensions that is 28 times
    shorter than the noise by which the model is smoothed, so that only "gauss" prepares for it.
    """

    reading: Literal["gauss", "sphere"] = "gauss"
    sigma: Annotated[NonNegative, Range(0.05, 0.5, log=True)] = 0.1
    eps: Annotated[NonNegative, Range(0.05, 0.5, log=True)] = 0.1

    recipe = Recipe(optimiser="adam", lr=1e-4, batch=128, steps=2_000, evaluate_every=100)
    selection: ClassVar[Selection] = "source-validation"
    splits: ClassVar[bool] = True
    kind: ClassVar[str] = "image"
    neutral: ClassVar[tuple[dict[str, Any], ...]] = ({"sigma": 0.0, "eps": 0.0},)

    @property
    def noise(self) -> Noise | None:
        """Under which it is selected: that of the smoothing, which a sphere is not."""
        return noise_of(self.sigma) if self.reading == "gauss" else None

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """Mean over domains of the mean cross-entropy of the noisy inputs."""
        shape = batch.inputs.shape[1:]
        if self.reading == "gauss":
            noise = spread(batch, shape, self.sigma, generator)
        else:
            noise = project(spread(batch, shape, 1.0, generator), "l2", self.eps)
        return Loss(batch.mean_over_domains(cross_entropy(model(batch.inputs + noise.to(batch.inputs)), batch.labels)))
