"""How training computes: threads, layout, clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError, UsageError
from shiftproof.execution import find_device
from shiftproof.models.outputs import logits_of

__all__ = ["Clock", "choose_layout", "input_type", "math_threads", "rank_devices", "to_layout"]


def rank_devices(name: str, processes: int) -> list[torch.device]:
    """Where each of several processes computes: all on the CPU, or each on an accelerator of its own."""
    device = find_device(name)
    if processes == 1:
        return [device]
    if not torch.distributed.is_available():
        raise UsageError("this torch can't train in several processes: leave --processes out")
    if device.type == "cpu":
        return [device] * processes
    if name != "auto" and torch.device(name).index is not None:
        raise UsageError(
            f"the device is {str(name)!r}, and {processes} processes need one each: write --device {device.type}"
        )
    there = torch.accelerator.device_count()
    if there < processes:
        raise UsageError(
            f"{processes} processes need a device each, and there are {there} of {device.type}: write --processes "
            f"{there}, or --device cpu"
        )
    return [torch.device(device.type, rank) for rank in range(processes)]


def input_type(model: nn.Module) -> torch.dtype | None:
    """The type that inputs are brought to: double for a model whose weights are, else they stay as they are."""
    weights = next((one for one in model.parameters() if one.is_floating_point()), None)
    return torch.float64 if weights is not None and weights.dtype == torch.float64 else None


@contextmanager
def math_threads(count: int) -> Iterator[None]:
    """Compute with so many threads inside the block: sums in another order end in other bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def choose_layout(model: nn.Module, example: Tensor) -> torch.memory_format:
    """Store the model's weights as convolutions on a CPU like them best, channels last, if it bears that.

    A network that views images as rows of numbers does not; the layout that goes is what its inputs should have.
    """
    if example.ndim != 4:
        return torch.contiguous_format
    training = model.training
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        logits_of(model.eval(), to_layout(example, torch.channels_last))
    except ModelError:
        model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        return torch.contiguous_format
    finally:
        model.train(training)
    return torch.channels_last


def to_layout(inputs: Tensor, layout: torch.memory_format) -> Tensor:
    """Images (N x C x H x W) stored in that layout; other inputs as they are."""
    return inputs.contiguous(memory_format=layout) if inputs.ndim == 4 else inputs


class Clock:
    """Seconds of work, over restarts, and when the next checkpoint is due."""

    def __init__(self, before: float, every: float) -> None:
        self._before, self._every = before, every
        self._started = self._last = time.monotonic()

    def seconds(self) -> float:
        """Seconds so far."""
        return self._before + time.monotonic() - self._started

    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() - self._last >= self._every

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Around a checkpoint: the next is due an interval after its end, and saving takes a twentieth of the time.

        An interval of 0 means what it says: a checkpoint after every step.
        """
        began = time.monotonic()
        yield
        self._last = time.monotonic()
        if self._every > 0:
            self._every = max(self._every, 20 * (self._last - began))
