"""Representations of a domain's samples by a frozen network, and how far an input may move them."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftproof.certification.certifier import Job
from shiftproof.errors import ModelError, UsageError
from shiftproof.models.altered import altered
from shiftproof.models.lipschitz import frozen
from shiftproof.models.lipschitz.constants import Constant, constants
from shiftproof.models.split import SplitModel
from shiftproof.perturbations.norms import DUALS, ORDERS, Norm, norm_of_ones
from shiftproof.rng import torch_generator
from shiftproof.types import Cost, FloatArray

__all__ = [
    "Encoded",
    "Parts",
    "body_rounding",
    "check_precision",
    "diameter",
    "encode",
    "head_rounding",
    "linear_parts",
    "one_pass",
]

ROUNDING_EXAMPLES, ROUNDING_SAFETY = 32, 4
_UNIT = 2.0**-24
_ROWS = 1_024
Values = NDArray[np.float32] | FloatArray


@dataclass(frozen=True, eq=False)
class Parts:
    """A frozen classifier as a body of known constant, and the linear layer behind it, where there is one.

    No input can move the body's output further than `constant` times its own move, both in the same norm. `deployed` is
    the body as the model has it.
    """

    body: nn.Module
    deployed: nn.Module
    layers: list[Constant]
    weight: FloatArray | None = None
    bias: FloatArray | None = None

    @cached_property
    def constant(self) -> float:
        """The product of the constants of the body's layers."""
        return math.prod(layer.value for layer in self.layers)

    def logits(self, values: Values) -> FloatArray:
        """Of outputs of the body (N x D), in float64."""
        weight, bias = self.weight, self.bias
        if weight is None or bias is None:
            return values.astype(np.float64)
        return _by_rows(values, lambda some: some @ weight.T + bias)


@dataclass(frozen=True, eq=False)
class Encoded:
    """What the body says of every sample (N x D, float32), and what that may have changed of it, in its norm."""

    values: NDArray[np.float32]
    rounding: float
    seconds: float


def check_precision(job: Job) -> None:
    """Refuse to compute margins in less than float32."""
    if job.compute.precision != "f32":
        raise UsageError(
            f"margins are computed in f32, not in {job.compute.precision}: bf16 would round more than they are"
        )


def linear_parts(model: nn.Module, shape: tuple[int, ...], norm: Norm, *, needs_split: bool = False) -> Parts:
    """Body and linear head with the body's constant; without a linear head the whole network is the body.

    `needs_split` refuses what is not an encoder and a linear head.
    """
    if any(one.is_floating_point() and one.dtype != torch.float32 for one in model.state_dict().values()):
        raise ModelError("margins are certified for models of float32 weights; call model.float() and deploy that")
    network = frozen(model, shape).eval()
    # a subclass or a hook may compute something else
    plain = isinstance(network, SplitModel) and type(network) is SplitModel and not altered(network)
    if plain and isinstance(network, SplitModel) and isinstance(model, SplitModel):
        head = network.head
        if isinstance(head, nn.Linear) and type(head) is nn.Linear and not altered(head):
            weight = head.weight.detach().double().numpy()
            bias = np.zeros(len(weight)) if head.bias is None else head.bias.detach().double().numpy()
            return Parts(network.encoder, model.encoder, constants(network.encoder, shape, norm), weight, bias)
    if needs_split:
        what = "its head is not a plain linear layer" if plain else "it is not a plain SplitModel(encoder, head)"
        raise ModelError(
            f"latent certificates need a linear head over an encoder of known constant, but {what}; "
            "put the model together as SplitModel(encoder, nn.Linear(...))"
        )
    return Parts(network, model, constants(network, shape, norm))


def encode(job: Job, parts: Parts, norm: Norm) -> Encoded:
    """One forward pass over the job's domain, in float32, with an allowance for its rounding."""
    check_precision(job)
    began = time.perf_counter()
    domain = job.domain
    with torch.no_grad():
        every = torch.cat([_values(parts.body, domain.take(block)[0]) for block in domain.blocks])
    if not bool(torch.isfinite(every).all()):
        raise ModelError("the model returns values that are not numbers (NaN or infinite)")
    seconds = time.perf_counter() - began
    few = np.linspace(0, len(domain) - 1, min(ROUNDING_EXAMPLES, len(domain)), dtype=np.int64)
    return Encoded(every.numpy(), body_rounding(parts, domain.take(few)[0], norm), seconds)


def head_rounding(parts: Parts, values: Values, moves: FloatArray, norm: Norm) -> FloatArray:
    """What float32 can change at most of each logit (N x K) of the head, if a representation moves by `moves` (N).

    The bound of any order of summation: gamma_n of the sum of absolute values, with n terms.
    """
    assert parts.weight is not None
    assert parts.bias is not None
    terms = parts.weight.shape[1] + 1
    gamma = terms * _UNIT / (1 - terms * _UNIT)
    weight, bias = np.abs(parts.weight), np.abs(parts.bias)
    sizes = _by_rows(values, lambda some: np.abs(some) @ weight.T + bias)
    slopes = np.linalg.norm(parts.weight, DUALS[norm], axis=1)
    return np.asarray(gamma * (sizes + moves[:, None] * slopes))


def body_rounding(parts: Parts, samples: Tensor, norm: Norm) -> float:
    """Of the body as it is deployed: four times what float64 shows on samples and near them, and what storing costs.

    Samples alone can round to nothing, as black and white ones do, where other points in their balls do not. Storing
    each layer's output rounds by 2^-24 of it, and later layers pass that on times their constants.
    """
    generator = torch_generator(0, "rounding")
    near = (samples + 0.3 * torch.randn(samples.shape, generator=generator)).clamp(0, 1)
    inputs = torch.cat([samples, near, torch.rand(samples.shape, generator=generator)])
    exact = copy.deepcopy(parts.body).double()
    with torch.no_grad():
        off = (_values(exact, inputs.double()) - _values(parts.deployed, inputs).double()).numpy()
        stored = _storing(exact, parts.layers, inputs.double(), norm)
    return ROUNDING_SAFETY * float(np.linalg.norm(off, ORDERS[norm], axis=1).max()) + stored


def one_pass(job: Job) -> Cost:
    """The cost of one forward pass over the job's domain."""
    domain = job.domain
    inputs = domain.take(domain.blocks[0])[0]
    with torch.no_grad():
        job.model(inputs)
        began = time.perf_counter()
        job.model(inputs)
    seconds = (time.perf_counter() - began) * len(domain) / len(inputs)
    return Cost(len(domain), seconds, len(domain), seconds)


def diameter(shape: tuple[int, ...], norm: str) -> float:
    """How far two inputs in [0, 1] can be apart: no radius says more."""
    return norm_of_ones(math.prod(shape), norm)


def _storing(body: nn.Module, layers: list[Constant], inputs: Tensor, norm: Norm) -> float:
    total, values = 0.0, inputs
    for layer in layers:
        values = body.get_submodule(layer.layer)(values)
        largest = float(np.linalg.norm(values.flatten(1).numpy(), ORDERS[norm], axis=1).max())
        total = layer.value * total + _UNIT * largest
    return total


def _by_rows(values: Values, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """A function of rows, in float64, some at a time: a copy of all of them would cost more than the function."""
    parts = [function(values[start : start + _ROWS].astype(np.float64)) for start in range(0, len(values), _ROWS)]
    return np.concatenate(parts)


def _values(body: nn.Module, inputs: Tensor) -> Tensor:
    values: Tensor = body(inputs)
    return values.flatten(1)
