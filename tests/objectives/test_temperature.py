"""The temperature of ERM: logits over it in the loss, and nowhere else."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import shiftproof as sp
from shiftproof.errors import UsageError
from shiftproof.types import Batch


def batch(labels: torch.Tensor) -> Batch:
    inputs = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))
    return Batch(inputs, labels, ("only",), (6,), 0)


def loss(objective: Any, model: Any, labels: torch.Tensor) -> torch.Tensor:
    total: torch.Tensor = objective.loss(model, batch(labels), torch.Generator()).total
    return total


def test_logits_are_divided_in_the_loss() -> None:
    model, labels = torch.nn.Linear(4, 3), torch.tensor([0, 1, 2, 0, 1, 2])
    logits = model(batch(labels).inputs)
    for temperature in (0.1, 1.0, 3.0):
        expected = F.cross_entropy(logits / temperature, labels)
        assert torch.allclose(loss(sp.objectives.ERM(temperature), model, labels), expected)


def test_numbers_have_no_temperature() -> None:
    numbers = torch.rand(6)
    assert loss(sp.objectives.ERM(), torch.nn.Linear(4, 1), numbers) > 0
    with pytest.raises(UsageError, match="no logits"):
        loss(sp.objectives.ERM(0.5), torch.nn.Linear(4, 1), numbers)


@pytest.mark.parametrize("temperature", [0, -1, float("inf"), float("nan")])
def test_it_is_a_number_above_0(temperature: float) -> None:
    with pytest.raises(UsageError, match="temperature"):
        sp.objectives.ERM(temperature)


def test_a_lower_temperature_buys_accuracy_with_radius() -> None:
    """A bounded head on a Lipschitz network; the same steps, the same start."""
    domains = sp.load_domains("digits")
    found = []
    for temperature in (1.0, 0.05):
        model = sp.build_model("mlp-cayley", domains, seed=0, width=32, head="row-l2")
        recipe = {"steps": 150, "batch": 64}
        fit = sp.train(model, domains, sp.objectives.ERM(temperature), seed=0, recipe=recipe, progress="off")
        certificates = sp.certify(fit.model, domains["digits"], sp.certifiers.LatentMargin(), seed=0, progress="off")
        labels = domains["digits"].labels
        found.append(
            SimpleNamespace(
                accuracy=float((certificates.chosen == labels).mean()),
                radius=float(certificates.radius.mean()),
            )
        )
    warm, cold = found
    assert cold.accuracy > warm.accuracy
    assert cold.radius < warm.radius
