"""What a probe costs, by a moment's trial."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.domains import Domain
from shiftproof.execution import Compute, single_threaded, slots
from shiftproof.models.placement import device_of
from shiftproof.probes.blocks import Measure
from shiftproof.types import Cost

__all__ = ["block_cost", "seconds_a_sample", "step_seconds", "trial_cost"]

_TRIED, _BLOCK, _TRIAL_SECONDS, _LONG_SECONDS, _VERY_LONG_SECONDS = 4, 64, 1.0, 3.0, 20.0
"""A trial starts with few samples, and takes more as long as it took less than a second; a sample that takes very long
is tried once."""
_LARGE = 256
"""From here on a batch takes as long as it is large."""


def block_cost(measure: Measure, model: nn.Module, domain: Domain, passes: int = 1) -> Cost:
    """The cost of a probe that measures block by block, with so many forward passes a sample."""
    inputs, labels = (each.to(device_of(model)) for each in domain.take(domain.blocks[0]))
    with single_threaded():
        measure(model, inputs, labels)
        began = time.perf_counter()
        measure(model, inputs, labels)
    seconds = len(domain) * (time.perf_counter() - began) / len(labels)
    return Cost(passes * len(domain), seconds, passes * len(domain), seconds)


def trial_cost(measure: Measure, model: nn.Module, domain: Domain, compute: Compute, passes: int, most: int) -> Cost:
    """The cost of a probe that takes long for a sample: `passes` forward each, in shards of `most`; by a trial."""

    def measured(few: Domain) -> float:
        inputs, labels = (each.to(device_of(model)) for each in few.tensors())
        began = time.perf_counter()
        measure(model, inputs, labels, few.ids)
        return time.perf_counter() - began

    each = seconds_a_sample(domain, measured, model)
    seconds = len(domain) * each / min(slots(compute), len(domain.in_blocks(most)))
    return Cost(passes * len(domain), seconds, passes * len(domain), seconds)


def seconds_a_sample(domain: Domain, seconds_of: Callable[[Domain], float], model: nn.Module, copies: int = 1) -> float:
    """Seconds for each of a block of samples, by trials on more and more of them until one takes a second.

    A trial that ended with few samples counts as much less than a block does with more of them, as a step of the model
    forward and backward does: for small models a batch of 64 takes hardly longer than one of 4. `copies` of a sample
    go through the model at once.
    """
    block, count = min(_BLOCK, len(domain)), min(_TRIED, len(domain))

    def in_a_block(seconds: float, count: int) -> float:
        inputs = domain.take(np.arange(block))[0]
        more = step_seconds(model, inputs, block * copies) / step_seconds(model, inputs, count * copies)
        return seconds * more / block

    with single_threaded():
        # the first sample also pays what is slow once; where it takes long without that, it is the whole trial
        seconds = seconds_of(domain.subset(np.arange(1)))
        if _LONG_SECONDS < seconds < _VERY_LONG_SECONDS:
            seconds = min(seconds, seconds_of(domain.subset(np.arange(1))))
        if seconds > _LONG_SECONDS:
            return in_a_block(seconds, 1)
        while True:
            seconds = seconds_of(domain.subset(np.unique(np.linspace(0, len(domain) - 1, count, dtype=np.int64))))
            if seconds > _TRIAL_SECONDS or count >= block:
                return in_a_block(seconds, count) if count < block else seconds / count
            count = min(4 * count, block)


def step_seconds(model: nn.Module, inputs: Tensor, count: int) -> float:
    """Seconds of one step forward and backward with a batch of `count` inputs; of large ones, in proportion."""
    batch = min(count, _LARGE)
    repeated = inputs[torch.arange(batch) % len(inputs)].to(device_of(model)).requires_grad_()
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        total = model(repeated).sum()
        if total.requires_grad:
            torch.autograd.grad(total, repeated, allow_unused=True)
        seconds.append(time.perf_counter() - began)
    return min(seconds) * count / batch
