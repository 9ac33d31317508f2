"""Critics that are networks of orthogonal layers, trained to tell two domains apart."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftproof.certification.bounds.representations import Parts, body_rounding, linear_parts
from shiftproof.errors import ModelError, UsageError
from shiftproof.execution import Mode, progress_bar
from shiftproof.models.networks.architecture import NetworkBlueprint
from shiftproof.models.split import SplitModel
from shiftproof.rng import numpy_generator
from shiftproof.theory.critics import Critic
from shiftproof.theory.points import Folds
from shiftproof.types import FloatArray

__all__ = ["NETWORKS", "NetworkCritic", "NetworkFit"]

NETWORKS = {"mlp-cayley": {"width": 64}, "cnn-cayley": {"width": 16}}
"""Networks that can be critics, with their options: layers are orthogonal, so that constants in l2 are about 1.

They are narrower than classifiers: a critic sees some hundred samples, and each step solves a linear system a layer.
"""
_ROWS, _FEW = 256, 32
_BATCH, _RATE = 64, 0.01
_SAFETY = 1e-6


@dataclass(frozen=True, eq=False)
class NetworkCritic(Critic):
    """A network with one output, divided by its own constant in l2, less an offset.

    The constant is the product of what its layers measure, computed from the weights as they are. `parts` are its
    body, of that constant, and its last layer.
    """

    network: SplitModel
    parts: Parts
    offset: float
    architecture: str
    shape: tuple[int, ...]
    norm: str = "l2"

    kind: ClassVar[str] = "network"

    @classmethod
    def of(cls, network: SplitModel, offset: float, architecture: str, shape: tuple[int, ...]) -> NetworkCritic:
        """A critic of a trained network, whose constants are computed here."""
        frozen = copy.deepcopy(network).eval().requires_grad_(False)
        return cls(frozen, linear_parts(frozen, shape, "l2", needs_split=True), offset, architecture, shape)

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        return f"{self.architecture} critic"

    @property
    def constant(self) -> float:
        """Of the network before it is divided: of the body, times the length of the last layer's weight."""
        assert self.parts.weight is not None
        # the length is rounded, and so is the quotient
        return self.parts.constant * float(np.linalg.norm(self.parts.weight)) * (1 + _SAFETY) + 1e-30

    def values(self, inputs: NDArray[np.float32], generator: np.random.Generator) -> FloatArray:
        """One pass in float32, the last layer in float64."""
        every = torch.from_numpy(np.ascontiguousarray(inputs))
        with torch.no_grad():
            bodies = [self.parts.body(block).flatten(1).numpy() for block in torch.split(every, _ROWS)]
        if not bodies:
            return np.zeros(0)
        outputs = self.parts.logits(np.concatenate(bodies))[:, 0] / self.constant
        if not np.isfinite(outputs).all():
            raise ModelError("the critic returns values that are not numbers (NaN or infinite)")
        return outputs - self.offset

    def allowance(self, inputs: NDArray[np.float32]) -> float:
        """As for margins: four times what float64 shows on some inputs and near them, and what storing costs."""
        few = np.linspace(0, len(inputs) - 1, min(_FEW, len(inputs)), dtype=np.int64)
        moved = body_rounding(self.parts, torch.from_numpy(np.ascontiguousarray(inputs[few])), "l2")
        # the body may move by so much, and the rest has the constant that is left of the whole
        return moved / max(self.parts.constant, 1e-30)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Weights as arrays, the rest as facts."""
        arrays = {name: value.numpy() for name, value in self.network.state_dict().items()}
        return {"offset": self.offset, "architecture": self.architecture, "shape": list(self.shape)}, arrays

    @classmethod
    def from_state(cls, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NetworkCritic:
        """Made again; its constant is computed again, whatever was stored."""
        name, shape = _checked(str(facts["architecture"])), tuple(facts["shape"])
        network = _blueprint(name, shape).build()
        try:
            network.load_state_dict({key: torch.from_numpy(value.copy()) for key, value in arrays.items()})
        except RuntimeError as error:
            raise UsageError(f"the weights are not those of a {name} critic for inputs {shape}") from error
        return cls.of(network, float(facts["offset"]), name, shape)


@dataclass(frozen=True)
class NetworkFit:
    """Critics of one architecture in l2, as they are after some of the training steps.

    Gradient ascent on the difference of means, over the length of the last layer; which moment is best is chosen on
    samples that were not trained on, since a network tells more apart the longer it looks at the same samples.
    """

    architecture: str
    steps: tuple[int, ...] = (20, 60, 150)
    progress: Mode = "off"

    def __post_init__(self) -> None:
        _checked(self.architecture)

    def __call__(self, fold: Folds, seed: int) -> list[Critic]:
        """One critic for each of `steps`."""
        shape = fold.reference.shape
        if len(shape) != 3 and self.architecture == "cnn-cayley":
            raise UsageError(f"a {self.architecture} critic looks at images, not at inputs of shape {shape}")
        network = _blueprint(self.architecture, shape).build(seed).train()
        optimiser = torch.optim.Adam(network.parameters(), lr=_RATE)
        generator = numpy_generator(seed, "batches of critics", self.architecture)
        sides = [torch.from_numpy(np.ascontiguousarray(points.inputs)) for points in fold]
        critics: list[Critic] = []
        with progress_bar(f"{self.architecture} critic", max(self.steps), self.progress) as bar:
            for step in range(1, max(self.steps) + 1):
                batches = [side[torch.from_numpy(generator.integers(len(side), size=_BATCH))] for side in sides]
                gap = _difference(network, batches)
                optimiser.zero_grad()
                (-gap).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                bar.advance(1, f"difference {float(gap.detach()):.3g}")
                if step in self.steps:
                    critics.append(_centred(network, self.architecture, fold))
        return critics


def _difference(network: SplitModel, batches: list[Tensor]) -> Tensor:
    outputs: Tensor = network(torch.cat(batches))[:, 0]
    weight = network.head.weight
    assert isinstance(weight, Tensor)
    reference, target = torch.split(outputs, [len(batch) for batch in batches])
    gap: Tensor = (target.mean() - reference.mean()) / weight.norm().clamp_min(1e-12)
    return gap


def _centred(network: SplitModel, architecture: str, fold: Folds) -> NetworkCritic:
    """A critic that is 0 in the middle between the means of the two samples."""
    critic = NetworkCritic.of(network, 0.0, architecture, fold.reference.shape)
    generator = numpy_generator(0, "no noise")
    means = [critic.values(points.inputs, generator).mean() for points in fold]
    return NetworkCritic(critic.network, critic.parts, float(sum(means) / 2), architecture, critic.shape)


def _blueprint(name: str, shape: tuple[int, ...]) -> NetworkBlueprint:
    return NetworkBlueprint(name, shape, 1, dict(NETWORKS[name]))


def _checked(name: str) -> str:
    if name not in NETWORKS:
        raise UsageError(f"a critic is linear, or one of {', '.join(NETWORKS)}, whose constants are known; not {name}")
    return name
