"""Whether outputs lead up to where answers change, or jump there: hard labels behind a gradient that means nothing."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from shiftproof.attacks.victim import Base
from shiftproof.rng import torch_generator
from shiftproof.types import Finding

__all__ = ["changed_by_rounding", "jumps_at_boundary"]

_SAMPLES, _HALVINGS = 32, 16
_ASIDE = 1 / 256
"""How far beside the change outputs are looked at, in parts of the way between two samples."""
_JUMP = 0.3
"""Of its usual size, a lead that is this large so near to where it ends has not led there."""


def jumps_at_boundary(victim: Base, inputs: Tensor, labels: Tensor) -> Iterator[Finding]:
    """A warning if the lead of the winner is as large just beside a change of the answer as anywhere.

    Looked at on the straight way from each sample (N x ...) to one of another class, without any gradient, which a
    model could forge. Soft logits lead down to 0 where the answer changes, however they are scaled; one-hot and
    saturated ones do not, and attacks that follow their gradient or their margin climb something else.
    """
    here, there = _pairs(inputs, labels)
    if not len(here):
        return
    with torch.no_grad():
        first, other = victim.answers(here), victim.answers(there)
        here, there, first = (part[first != other] for part in (here, there, first))
        if not len(here):
            return
        low, high = torch.zeros(len(here)), torch.ones(len(here))  # on the CPU: a few numbers
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            same = victim.answers(_between(here, there, middle)) == first
            low, high = torch.where(same.cpu(), middle, low), torch.where(same.cpu(), high, middle)
        usual = (_lead(victim, here) + _lead(victim, there)) / 2
        beside = [_lead(victim, _between(here, there, at)) for at in (low - _ASIDE, high + _ASIDE)]
    ratio = float((torch.maximum(*beside) / usual.clamp(min=torch.finfo(torch.float64).tiny)).median())
    if ratio > _JUMP:
        message = (
            f"outputs jump where answers change: just beside it the winner leads by {ratio:.0%} of its usual lead. "
            "Answers are hardened (one-hot, saturated), so that what attacks follow does not lead to a mistake; attack "
            "the logits from before that"
        )
        yield Finding("warn", "jumping-outputs", message, {"ratio": ratio, "samples": len(here)})


def _pairs(inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Samples, and for each the next one of another class."""
    few, marks = inputs[:_SAMPLES], labels[:_SAMPLES]
    differ = marks[:, None] != marks[None]
    rows = torch.arange(len(few), device=few.device)
    ahead = torch.where(differ, (rows[None] - rows[:, None]) % max(1, len(few)), len(few))
    return few[differ.any(1)], few[ahead.argmin(1)][differ.any(1)]


def _between(here: Tensor, there: Tensor, share: Tensor) -> Tensor:
    weight = share.clamp(0, 1).to(here).reshape(-1, *[1] * (here.ndim - 1))
    return here + weight * (there - here)


def _lead(victim: Base, points: Tensor) -> Tensor:
    best = victim.scores(points).double().cpu().topk(2, 1).values
    return (best[:, 0] - best[:, 1]).nan_to_num(0, 0, 0)


def changed_by_rounding(victim: Base, inputs: Tensor, labels: Tensor) -> Iterator[Finding]:
    """A warning if outputs change with the last bits of an input: attacks end off the grid of 8-bit images."""
    here, there = _pairs(inputs, labels)
    if not len(here):
        return
    noise = torch.rand(here.shape, generator=torch_generator(0, "rounded inputs")).to(here)
    points = torch.cat([0.5 * here + 0.5 * there, 0.9 * here + 0.1 * noise])
    with torch.no_grad():
        exact, rounded = (victim.scores(one).double().cpu() for one in (points, torch.round(points * 255) / 255))
        usual = _lead(victim, inputs[:_SAMPLES]).mean()
    change = torch.where(exact == rounded, 0.0, (exact - rounded).abs()).amax(1).nan_to_num(0, 0, 0).median()
    ratio = float(change / usual.clamp(min=torch.finfo(torch.float64).tiny))
    if ratio > _JUMP:
        message = (
            f"rounding an input to 8 bits changes outputs by {ratio:.0%} of a usual lead: the model treats images on "
            "that grid otherwise than points between, where attacks end"
        )
        yield Finding("warn", "changed-by-rounding", message, {"ratio": ratio, "samples": len(points)})
