"""What a model answers to fixed inputs: told apart from another model, whatever the weights say.

Two models with equal weights may differ in code, attributes or hooks. Outputs are stored and compared, never hashed:
rounding differs between machines, and a hash of it would call the same model another one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.domains import Domain
from shiftproof.models.outputs import logits_of
from shiftproof.rng import torch_generator
from shiftproof.types import FloatArray

__all__ = ["behaviour_of", "difference"]

SAMPLES = 8
TOLERANCE = 1e-3
"""Of logits, relative to the spread of their row: rounding is a hundred times smaller, a change far larger."""
ROUNDING = 1e-6
"""Of float32, relative to the largest logit of the row."""

Stored = list[list[float | str]]


def behaviour_of(model: nn.Module, domain: Domain) -> Stored:
    """Logits for a few samples of the domain and as many noisy ones, in a form that fits into JSON."""
    logits = logits_of(model, fixed_inputs(domain)).double().cpu().numpy()
    return [[float(f"{value:.7g}") if math.isfinite(value) else str(value) for value in row] for row in logits]


def fixed_inputs(domain: Domain) -> Tensor:
    """Samples at equal steps through the domain, and the same with noise, from the seed of no run."""
    chosen = np.unique(np.linspace(0, len(domain) - 1, min(SAMPLES, len(domain)), dtype=np.int64))
    inputs = domain.take(chosen)[0]
    noise = torch.randn(inputs.shape, generator=torch_generator(0, "behaviour"))
    return torch.cat([inputs, inputs + 0.5 * noise])


def difference(before: Any, now: Stored) -> str:
    """What differs between two stored behaviours, in words; nothing if it is no more than rounding.

    Of every row the answer must be the same (unless its two largest logits are within the tolerance), and every logit
    within a thousandth of the row's spread.

    >>> difference([[0.0, 1.0]], [[0.0, 1.0001]])
    ''
    >>> difference([[0.0, 1.0]], [[1.0, 0.0]])
    'to input 1 of 1 it answered 1 and now 0'
    """
    old, new = _array(before), _array(now)
    if old.shape != new.shape:
        return f"it had outputs of shape {old.shape} and now {new.shape}"
    for row, (one, other) in enumerate(zip(old, new, strict=True)):
        which = f"to input {row + 1} of {len(old)}"
        finite = np.isfinite(one) & np.isfinite(other)
        if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
            return f"{which} other logits are infinite or not numbers"
        if not finite.any():
            continue
        # a single output has no spread in its row: it is told from that of the other inputs
        spread = float(np.ptp(one[finite] if len(one) > 1 else old[np.isfinite(old)]))
        largest = float(np.abs(one[finite]).max())
        allowed = TOLERANCE * spread + ROUNDING * largest
        if int(np.argmax(one)) != int(np.argmax(other)) and _lead(one) > allowed:
            return f"{which} it answered {int(np.argmax(one))} and now {int(np.argmax(other))}"
        moved = float(np.abs(one[finite] - other[finite]).max())
        if moved > allowed:
            return f"{which} a logit moved by {moved:.3g}, where logits spread over {spread:.3g}"
    return ""


def _lead(row: FloatArray) -> float:
    """Of the largest logit over the next."""
    ordered = np.sort(row)
    return float(ordered[-1] - ordered[-2]) if len(ordered) > 1 else math.inf


def _array(stored: Any) -> FloatArray:
    return np.array([[float(value) for value in row] for row in stored], np.float64)
