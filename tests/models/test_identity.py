"""When two models are the same one: answers are compared within rounding; what can change a number is hashed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import shiftproof as sp
from shiftproof.domains import Domain, Domains
from shiftproof.models.behaviour import behaviour_of, difference
from shiftproof.models.identity import identity_of


def domain(seed: int = 0) -> Domain:
    pixels = np.random.default_rng(seed).integers(0, 256, (12, 1, 4, 4)).astype(np.uint8)
    return Domain.from_arrays("d", pixels, np.arange(12) % 2, ["a", "b"])


def linear(seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 5)).eval()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_rounding_is_no_difference_at_any_scale_and_a_change_is(scale: float) -> None:
    model = linear()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    plain = behaviour_of(model, domain())
    # another precision rounds more than any other machine does
    double = behaviour_of(linear().double(), domain())
    assert difference([[scale * float(value) for value in row] for row in double], plain) == ""
    with torch.no_grad():
        model[1].bias[3] += 0.02 * scale  # type: ignore[union-attr, index, operator]
    assert "a logit moved" in difference(plain, behaviour_of(model, domain()))


def test_another_answer_is_a_difference_and_a_tie_is_none() -> None:
    assert difference([[0.0, 1.0, 0.9]], [[1.0, 0.0, 0.9]]).startswith("to input 1 of 1 it answered 1")
    assert difference([[0.0, 1.0, 1.0 - 1e-7]], [[0.0, 1.0 - 1e-7, 1.0]]) == ""
    assert "shape" in difference([[0.0, 1.0]], [[0.0, 1.0, 2.0]])
    assert difference([["-inf", 1.0, 0.0]], [["-inf", 1.0, 0.0]]) == ""
    assert "infinite" in difference([["-inf", 1.0, 0.0]], [[0.0, 1.0, 0.0]])


def test_all_that_can_change_a_number_is_in_the_identity() -> None:
    data, other = domain(), domain(1)
    base = identity_of("probe", linear(), data, seed=0, calibration=Domains("c", [data]))
    assert base == identity_of("probe", linear(), data, seed=0, calibration=Domains("c", [data]))
    for changed in (
        identity_of("another", linear(), data, seed=0, calibration=Domains("c", [data])),
        identity_of("probe", linear(1), data, seed=0, calibration=Domains("c", [data])),
        identity_of("probe", linear(), other, seed=0, calibration=Domains("c", [data])),
        identity_of("probe", linear(), data, seed=1, calibration=Domains("c", [data])),
        identity_of("probe", linear(), data, seed=0, calibration=Domains("c", [other])),
        identity_of("probe", linear(), data, seed=0, precision="bf16", calibration=Domains("c", [data])),
    ):
        assert changed != base


def test_a_journal_of_another_function_is_not_continued(tmp_path: object) -> None:
    class Turned(nn.Module):
        def __init__(self, sign: float) -> None:
            super().__init__()
            self.model, self.sign = linear(), sign

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.sign * self.model(inputs)

    setting = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=100)
    first = sp.certify(Turned(1).eval(), domain(), setting, journal=f"{tmp_path}/j")
    second = sp.certify(Turned(-1).eval(), domain(), setting, journal=f"{tmp_path}/j")
    assert second.seed != first.seed
    assert (second.chosen != first.chosen).any()
