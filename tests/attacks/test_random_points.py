"""Random points of a ball: what they find is known for a plane."""

import numpy as np
import pytest
import torch
from torch import nn

import shiftproof as sp
from shiftproof.attacks import ATTACKS, Base, RandomPoints, craft
from shiftproof.perturbations.threat import size


def plane(weights: torch.Tensor) -> nn.Module:
    """Class 1 where weights . x is above 0.5."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(len(weights), 2))
    with torch.no_grad():
        model[1].weight.copy_(torch.stack([-weights, weights]) / 2)
        model[1].bias.copy_(torch.tensor([0.25, -0.25]))
    return model.eval()


def test_the_share_that_one_point_overturns_is_that_of_a_cap() -> None:
    """Of a disc of radius 1, the part beyond a line at distance h is (acos h - h sqrt(1 - h^2)) / pi."""
    h, eps, n = 0.4, 0.1, 4_000
    # 0.5 is the line; labels are what the model says
    inputs = torch.tensor([[0.5 + h * eps, 0.5]]).repeat(n, 1).reshape(n, 1, 1, 2)
    labels = torch.ones(n, dtype=torch.long)
    result = sp.attack(
        plane(torch.tensor([1.0, 0.0])), (inputs, labels), RandomPoints(sp.Threat("l2", eps), points=1), seed=0
    )
    expected = (np.arccos(h) - h * np.sqrt(1 - h**2)) / np.pi
    assert abs((1 - result.robust_accuracy) - expected) < 4 * np.sqrt(expected * (1 - expected) / n)


def test_more_points_find_more_and_never_what_the_worst_point_would_not() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = 0.3 + 0.4 * torch.rand(200, 1, 2, 4, generator=generator)
    model = plane(torch.full((8,), 0.125))
    labels = model(inputs).argmax(1)
    threat = sp.Threat("l2", 0.1)
    found = [sp.attack(model, (inputs, labels), RandomPoints(threat, points=k), seed=0) for k in (1, 10, 100)]
    left = [one.robust_accuracy for one in found]
    worst = sp.attack(model, (inputs, labels), sp.attacks.PGD(threat, steps=20), seed=0).robust_accuracy
    assert left[0] > left[1] > left[2] > worst


@pytest.mark.parametrize("norm", ["l2", "linf", "l1"])
def test_points_on_the_surface_lie_there(norm: str) -> None:
    inputs = torch.full((10, 1, 2, 4), 0.5)
    attack = RandomPoints(sp.Threat(norm, 0.1), points=3, where="surface", early_exit=False)
    model = plane(torch.ones(8))
    tried = craft(Base(model), inputs, torch.ones(10).long(), attack, radii=torch.full((10,), 0.1), ids=[*"abcdefghij"])
    assert size(tried - inputs, norm).numpy() == pytest.approx(0.1, rel=1e-4)


def test_it_says_that_nothing_follows_from_it() -> None:
    attack = ATTACKS.make({"name": "noise", "threat": "l2:0.1"})
    assert [finding.code for finding in attack.findings()] == ["random-points"]
    assert not attack.seeks_worst
