"""How fast a model is in f32 and in bf16 on this processor. Whoever asks is told; nothing is chosen by it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shiftproof.execution import Compute, single_threaded
from shiftproof.models.prepared.prepare import Prepared, prepare
from shiftproof.models.reference import Reference, random_inputs

__all__ = ["Speeds", "compare_precisions"]

TURNS, TURN_SECONDS = 3, 0.15
LONGEST_PASS = 0.25
"""Seconds that a pass in f32 takes at most: where bf16 is emulated, it takes ten times as long."""
PAYS, COSTS = 1.1, 0.9
"""Ratios from which bf16 is called faster, and up to which it is called slower."""


@dataclass(frozen=True)
class Speeds:
    """Inputs a second of one model on one thread, in f32 and in bf16."""

    f32: float
    bf16: float

    @property
    def ratio(self) -> float:
        """How many times as fast bf16 is."""
        return self.bf16 / self.f32

    @property
    def verdict(self) -> str:
        """As a part of a sentence.

        >>> Speeds(f32=1_000, bf16=430).verdict
        '0.43 times as fast as f32 here: it does not pay'
        """
        pays = "it pays" if self.ratio >= PAYS else "it does not pay" if self.ratio <= COSTS else "it hardly matters"
        return f"{self.ratio:.2f} times as fast as f32 here: {pays}"


def compare_precisions(model: nn.Module, shape: tuple[int, ...], reference: Reference | None = None) -> Speeds:
    """Run the model for a moment in both, as prepared for votes, on one thread; bf16 has to work on this machine.

    `reference` is what the model says of a few inputs, where gray noise is no input for it.
    """
    if reference is None:
        reference = Reference.of(model, random_inputs(shape))
    plain = prepare(model, shape, reference=reference)
    short = prepare(model, shape, compute=Compute("cpu", "bf16"), reference=reference, check_batches=False)
    times = -(-plain.slice_size // len(reference.inputs))
    inputs = reference.inputs.repeat(times, *[1] * len(shape))[: plain.slice_size]
    with torch.no_grad(), single_threaded():
        took = _seconds(_pass(plain, inputs))
        inputs = inputs[: max(1, int(len(inputs) * min(1.0, LONGEST_PASS / took)))]
        passes = {"f32": _pass(plain, inputs), "bf16": _pass(short, inputs)}
        # in turns, so that whatever else the machine does meets both
        best = dict.fromkeys(passes, 0.0)
        for _ in range(TURNS):
            for name, run in passes.items():
                best[name] = max(best[name], _rate(run, len(inputs)))
    return Speeds(best["f32"], best["bf16"])


def _pass(prepared: Prepared, inputs: Tensor) -> Callable[[], Tensor]:
    """What a vote takes behind the first layer, if that is split off."""
    hidden = inputs if prepared.affine is None else prepared.affine(inputs)
    if prepared.channels_last:
        hidden = hidden.contiguous(memory_format=torch.channels_last)
    return lambda: prepared.rest(hidden.clone())


def _seconds(run: Callable[[], Tensor]) -> float:
    run()
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _rate(run: Callable[[], Tensor], inputs: int) -> float:
    began, done = time.perf_counter(), 0
    while done == 0 or time.perf_counter() - began < TURN_SECONDS:
        run()
        done += inputs
    return done / (time.perf_counter() - began)
