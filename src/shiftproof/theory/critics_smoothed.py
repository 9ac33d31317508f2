"""Critics in the parameters that a noise moves: what a yes-or-no question answers on average under the noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from shiftproof.errors import UsageError
from shiftproof.perturbations.noise import Noise
from shiftproof.perturbations.noise.noise import as_noise, draw, label
from shiftproof.rng import numpy_generator
from shiftproof.theory.critics import Critic
from shiftproof.theory.critics_linear import LinearCritic, linear_critics
from shiftproof.theory.points import Folds
from shiftproof.types import FloatArray

__all__ = ["SmoothedCritic", "SmoothedFit", "reach_of"]

_ROWS, _DRAWS = 256, 4


@dataclass(frozen=True, eq=False)
class SmoothedCritic(Critic):
    """K times P_e[question(apply(x, e)) > 0] for parameters e of the noise; one own draw of e a value.

    If the parameters move by t, the noise before and after differ by at most t / K in total variation, and so does any
    yes-or-no answer under it: times K that is Lipschitz with constant 1 in the parameters, whatever the question.
    A value for one draw, 0 or K, has that as its mean. As with certificates, parameters are those inside one
    interpolation of the clean image.
    """

    noise: Noise
    question: LinearCritic

    kind: ClassVar[str] = "smoothed"

    @property
    def norm(self) -> str:  # type: ignore[override]
        """That of the noise."""
        return self.noise.norm

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Of one input."""
        return self.question.shape

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        return f"smoothed critic ({label(self.noise)})"

    @property
    def range(self) -> tuple[float, float]:
        """From 0 to K: no distance beyond K can be seen."""
        return 0.0, reach_of(self.noise, self.shape)

    def values(self, inputs: NDArray[np.float32], generator: np.random.Generator) -> FloatArray:
        """0 or K for each input, by one draw of the noise."""
        noisy = deform(inputs, self.noise, generator)
        return np.where(self.question.values(noisy, generator) > 0, self.range[1], 0.0)

    def allowance(self, inputs: NDArray[np.float32]) -> float:
        """Nothing: any question will do, one that rounds as well."""
        return 0.0

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The noise and the question."""
        facts, arrays = self.question.to_state()
        return {"noise": self.noise.to_config(), "question": facts}, arrays

    @classmethod
    def from_state(cls, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> SmoothedCritic:
        """Made again."""
        critic = cls(as_noise(dict(facts["noise"])), LinearCritic.from_state(facts["question"], arrays))
        reach_of(critic.noise, critic.shape)
        return critic


@dataclass(frozen=True)
class SmoothedFit:
    """Critics under a noise whose questions are linear: on which side of the middle of two noisy samples."""

    noise: Noise

    def __call__(self, fold: Folds, seed: int) -> list[Critic]:
        """One critic for each linear direction, fitted to several draws of every sample."""
        reach_of(self.noise, fold.reference.shape)
        sides = []
        for points in fold:
            generator = numpy_generator(seed, "noise that fits critics", points.name)
            sides.append(np.concatenate([deform(points.inputs, self.noise, generator) for _ in range(_DRAWS)]))
        return [SmoothedCritic(self.noise, question) for question in linear_critics(sides[0], sides[1], "l2")]


def reach_of(noise: Noise, shape: tuple[int, ...]) -> float:
    """K: how far parameters may move, in the noise's norm, per unit of total variation between noise and moved noise.

    Normal: 2 Phi(t / (2 sigma)) - 1 <= t / (sigma sqrt(2 pi)) in l2. Uniform: at most the l1 norm over twice the width.
    Any other noise is refused.

    >>> from shiftproof.perturbations.noise import Rotation
    >>> round(reach_of(Rotation(0.1), (1, 8, 8)), 6), round(2 * 0.1 * math.pi, 6)
    (0.628319, 0.628319)
    """
    if noise.kind == "image" and not noise.embedded:
        single = noise.size(shape) == 1
        if noise.law == "normal" and (noise.norm == "l2" or single):
            return noise.scale * math.sqrt(2 * math.pi)
        if noise.law == "uniform" and (noise.norm == "l1" or single):
            return 2 * noise.scale
    raise UsageError(
        f"how far the noise {label(noise)} may move per unit of total variation is not proven for distances in "
        f"{noise.norm}: no critic smoothed by it is offered; take --space pixels or --space representation"
    )


def deform(inputs: NDArray[np.float32], noise: Noise, generator: np.random.Generator) -> NDArray[np.float32]:
    """Each input with its own draw of the noise."""
    results = []
    for start in range(0, len(inputs), _ROWS):
        images = torch.from_numpy(np.ascontiguousarray(inputs[start : start + _ROWS]))
        parameters = noise.scale * draw(noise, tuple(images.shape[1:]), len(images), generator)
        results.append(noise.apply(images, torch.from_numpy(parameters)).float().numpy())
    return np.concatenate(results) if results else inputs
