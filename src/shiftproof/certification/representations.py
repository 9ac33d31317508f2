"""Representations of a domain's samples by a frozen network, and how far an input may move them."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.certification.certifier import Job
from shiftproof.domains import Domain
from shiftproof.errors import ModelError, UsageError
from shiftproof.models.lipschitz import frozen, lipschitz_bound
from shiftproof.models.split import SplitModel
from shiftproof.perturbations.threat import Norm
from shiftproof.types import Cost, FloatArray

__all__ = ["Encoded", "Parts", "encode", "linear_parts", "one_pass"]

ROUNDING_EXAMPLES, ROUNDING_SAFETY = 32, 4
_ORDERS = {"l2": 2, "linf": np.inf, "l1": 1}


@dataclass(frozen=True, eq=False)
class Parts:
    """A frozen classifier as a body of known constant, and the linear layer behind it, where there is one.

    No input can move the body's output further than `constant` times its own move, both in the same norm.
    """

    body: nn.Module
    constant: float
    weight: FloatArray | None = None
    bias: FloatArray | None = None

    def logits(self, values: FloatArray) -> FloatArray:
        """Of outputs of the body (N x D)."""
        return values if self.weight is None or self.bias is None else values @ self.weight.T + self.bias


@dataclass(frozen=True, eq=False)
class Encoded:
    """What the body says of every sample (N x D), and what float32 may have changed of it, in its norm."""

    values: FloatArray
    rounding: float
    seconds: float


def linear_parts(model: nn.Module, shape: tuple[int, ...], norm: Norm, *, needs_split: bool = False) -> Parts:
    """Body and linear head with the body's constant; without a linear head the whole network is the body.

    `needs_split` refuses what is not an encoder and a linear head.
    """
    network = frozen(model, shape).float().eval()
    if isinstance(network, SplitModel) and isinstance(network.head, nn.Linear):
        bound = lipschitz_bound(network.encoder, shape, norm)
        weight = network.head.weight.detach().double().numpy()
        bias = np.zeros(len(weight)) if network.head.bias is None else network.head.bias.detach().double().numpy()
        return Parts(network.encoder, bound, weight, bias)
    if needs_split:
        what = "its head is not linear" if isinstance(network, SplitModel) else "it is not a SplitModel(encoder, head)"
        raise ModelError(f"latent certificates need a linear head over an encoder of known constant, but {what}")
    return Parts(network, lipschitz_bound(network, shape, norm))


def encode(job: Job, parts: Parts, norm: str) -> Encoded:
    """One forward pass over the job's domain, in float32; its rounding is measured against float64 on a few samples.

    Rounding is allowed for four times over: nobody can try all inputs.
    """
    if job.precision != "f32":
        raise UsageError(f"margins are computed in f32, not in {job.precision}: bf16 would round more than they are")
    began = time.perf_counter()
    domain = job.domain
    with torch.inference_mode():
        values = [_values(parts.body, domain.take(block)[0]) for block in domain.blocks]
    every = torch.cat(values)
    if not bool(torch.isfinite(every).all()):
        raise ModelError("the model returns values that are not numbers (NaN or infinite)")
    seconds = time.perf_counter() - began
    few = np.linspace(0, len(domain) - 1, min(ROUNDING_EXAMPLES, len(domain)), dtype=np.int64)
    with torch.inference_mode():
        exact = _values(copy.deepcopy(parts.body).double(), domain.take(few)[0].double())
    off = (exact - every[torch.from_numpy(few)].double()).numpy()
    rounding = ROUNDING_SAFETY * float(np.linalg.norm(off, _ORDERS[norm], axis=1).max())
    return Encoded(every.double().numpy(), rounding, seconds)


def one_pass(job: Job) -> Cost:
    """The cost of one forward pass over the job's domain."""
    domain: Domain = job.domain
    inputs = domain.take(domain.blocks[0])[0]
    with torch.inference_mode():
        job.model(inputs)
        began = time.perf_counter()
        job.model(inputs)
    seconds = (time.perf_counter() - began) * len(domain) / len(inputs)
    return Cost(len(domain), seconds, len(domain), seconds)


def _values(body: nn.Module, inputs: Tensor) -> Tensor:
    values: Tensor = body(inputs)
    return values.flatten(1)
