"""Models that are no fixed function of one input, however small their logits are, and models that are."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.errors import ModelError, NotAFunction
from shiftproof.execution.workers import always_in_workers
from shiftproof.models.prepared.prepare import prepare
from shiftproof.models.reference import Reference

SHAPE = (1, 6, 6)
SMOOTHING = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=300)


def _base() -> nn.Sequential:
    generator = torch.Generator().manual_seed(0)
    layer = nn.Linear(36, 4)
    layer.weight.data = torch.randn(4, 36, generator=generator)
    layer.bias.data.zero_()
    return nn.Sequential(nn.Flatten(), layer)


def _domain(count: int = 12) -> sp.Domain:
    inputs = torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(1))
    return sp.Domain.from_arrays("d", inputs, np.zeros(count, int), list("abcd"))


class Scaled(nn.Module):
    """Another model's logits, times a factor: the same answers."""

    def __init__(self, model: nn.Module, factor: float) -> None:
        super().__init__()
        self.model, self.factor = model, factor

    def forward(self, inputs: Tensor) -> Tensor:
        return self.factor * self.model(inputs)


class BatchStatistics(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.base = nn.BatchNorm2d(1, track_running_stats=False), _base()

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.base(self.norm(inputs))
        return logits


class BySize(nn.Module):
    """Answers the other way round above a size of the batch."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.base, self.size = _base(), size

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.base(inputs)
        return -logits if len(inputs) > self.size else logits


class LastDiffers(nn.Module):
    """The last input of a batch of more than eight gets other answers."""

    def __init__(self) -> None:
        super().__init__()
        self.base = _base()

    def forward(self, inputs: Tensor) -> Tensor:
        logits = self.base(inputs).clone()
        if len(logits) > 8:
            logits[-1] = -logits[-1]
        return logits


class Counting(nn.Module):
    """A number of calls in an attribute."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.base, self.calls, self.after = _base(), 0, after

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        logits: Tensor = self.base(inputs)
        return -logits if self.calls > self.after else logits


class Meter:
    def __init__(self) -> None:
        self.total = 0.0


class Metering(nn.Module):
    """A number of inputs in an object that it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.meter = _base(), Meter()

    def forward(self, inputs: Tensor) -> Tensor:
        self.meter.total += len(inputs)
        logits: Tensor = self.base(inputs)
        return logits


class Logging(nn.Module):
    """A list that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.seen = _base(), []

    def forward(self, inputs: Tensor) -> Tensor:
        self.seen.append(len(inputs))
        logits: Tensor = self.base(inputs)
        return logits


class Drifting(nn.Module):
    """A tensor that is no buffer, changed in place by too little to show at once."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.drift = _base(), torch.zeros(1)

    def forward(self, inputs: Tensor) -> Tensor:
        self.drift += 1e-12
        logits: Tensor = self.base(inputs)
        return logits


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "statistics of the batch": (BatchStatistics, "depends on the other samples"),
    "statistics of the batch, small logits": (lambda: Scaled(BatchStatistics(), 1e-3), "depends on the other samples"),
    "statistics of the batch, tiny logits": (lambda: Scaled(BatchStatistics(), 1e-9), "depends on the other samples"),
    "size of the batch": (lambda: BySize(1), "depends on the other samples"),
    "size of the batch, logits of 1e-6": (lambda: Scaled(BySize(20), 1e-6), "depends on"),
    "large batches, logits of 1e-6": (lambda: Scaled(BySize(100), 1e-6), "depends on its batch"),
    "the last of a batch": (LastDiffers, "depends on"),
    "calls in an attribute": (lambda: Counting(10**6), "changes when it is called .'calls' was"),
    "calls in an object": (Metering, "'meter.total' was"),
    "a list that grows": (Logging, "'seen, its length,' was"),
    "a tensor that drifts": (Drifting, "'drift' was"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_fixed_function_is_refused(name: str) -> None:
    build, words = REFUSED[name]
    with pytest.raises(ModelError, match=words):
        sp.certify(build().eval(), _domain(), SMOOTHING, seed=0)


class Keeping(nn.Module):
    """Keeps its last activation for whoever wants to look at it: that changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.last, self.shapes = _base(), None, {}

    def forward(self, inputs: Tensor) -> Tensor:
        self.last = inputs.flatten(1)
        self.shapes["input"] = tuple(inputs.shape)
        logits: Tensor = self.base(inputs)
        return logits


class Tied(nn.Module):
    """Two classes whose logits are always equal."""

    def __init__(self) -> None:
        super().__init__()
        self.base = _base()

    def forward(self, inputs: Tensor) -> Tensor:
        logits = self.base(inputs)
        return torch.cat([logits, logits.amax(1, keepdim=True)], 1)


@pytest.mark.parametrize(
    "build",
    [_base, Keeping, Tied, lambda: Scaled(_base(), 1e-6), lambda: Scaled(_base(), 1e-30), lambda: Scaled(_base(), 1e6)],
    ids=["plain", "keeping", "tied", "1e-6", "1e-30", "1e6"],
)
def test_what_is_a_fixed_function_is_certified(build: Callable[[], nn.Module]) -> None:
    plain = sp.certify(_base().eval(), _domain(), SMOOTHING, seed=0)
    given = sp.certify(build().eval(), _domain(), SMOOTHING, seed=0)
    assert np.array_equal(plain.count, given.count)


CALLS = [0]


def _many_calls(most: int) -> bool:
    CALLS[0] += 1
    return CALLS[0] > most


class Hiding(nn.Module):
    """Counts its calls where no attribute shows it, and turns round after some of them."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.base, self.after = _base(), after

    def forward(self, inputs: Tensor) -> Tensor:
        # a branch on values, so that it can't be traced into something that counts no more
        logits: Tensor = self.base(inputs)
        return -logits if float(inputs.sum()) < 1e9 and _many_calls(self.after) else logits


def test_a_model_that_turns_round_while_it_votes_is_refused_and_its_votes_are_not_kept(tmp_path: Path) -> None:
    journal = tmp_path / "votes.journal"
    CALLS[0] = 0
    with pytest.raises(NotAFunction, match="after sampling than before|votes that were compared"):
        sp.certify(Hiding(100).eval(), _domain(), replace(SMOOTHING, n=5_000), seed=0, journal=journal)
    assert not journal.exists()


class OtherwiseInAWorker(nn.Module):
    """Knows in which process it was made."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.home = _base(), os.getpid()

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.base(inputs)
        return logits if os.getpid() == self.home else -logits


def test_every_worker_is_compared_with_the_model_that_was_checked() -> None:
    with always_in_workers(), pytest.raises(ModelError, match="says other things than the model itself"):
        sp.certify(OtherwiseInAWorker().eval(), _domain(), SMOOTHING, seed=0, workers=2)


class FailsInCrowds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.base = _base()

    def forward(self, inputs: Tensor) -> Tensor:
        if len(inputs) > 60:
            raise ValueError("more than sixty")
        logits: Tensor = self.base(inputs)
        return logits


def test_an_exception_in_a_trial_is_reported_as_itself() -> None:
    with pytest.raises(ModelError, match="fails on 128 inputs at a time .*ValueError: more than sixty"):
        sp.certify(FailsInCrowds().eval(), _domain(), SMOOTHING, seed=0)


def test_a_masked_class_hides_no_error_of_the_others() -> None:
    inputs = torch.rand(6, *SHAPE)
    expected = torch.randn(6, 4)
    expected[:, 3] = -1e10
    reference = Reference(inputs, expected)
    assert reference.agrees(expected * (1 + 1e-7))
    assert not reference.agrees(expected + torch.tensor([0.1, 0, 0, 0]))
    assert not reference.agrees(expected[:, [1, 0, 2, 3]])


def test_a_prepared_model_knows_what_it_was_compared_with() -> None:
    prepared = prepare(_base().eval(), SHAPE)
    assert prepared.holds()
