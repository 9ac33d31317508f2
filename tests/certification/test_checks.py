"""A model is checked before every certificate; several questions about the same model share one check."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.certification.checks import check_classifier, checked_once
from shiftproof.errors import ModelError
from shiftproof.models.outputs import logits_of


class Linear(nn.Module):
    """A linear network, which answers at random if told."""

    def __init__(self, random: bool = False) -> None:
        super().__init__()
        self.layer, self.random = nn.Linear(4, 3), random

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.layer(inputs.flatten(1))
        return logits + torch.randn_like(logits) if self.random else logits


def domain() -> sp.Domain:
    inputs = torch.rand(9, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    return sp.Domain.from_arrays("d", inputs, np.zeros(9, int), list("abc"))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many inputs every call of a model had; counted outside of it, where the check does not look."""
    made: list[int] = []

    def counted(model: nn.Module, inputs: Tensor) -> Tensor:
        made.append(len(inputs))
        return logits_of(model, inputs)

    monkeypatch.setattr("shiftproof.certification.checks.logits_of", counted)
    return made


def test_within_it_a_model_is_checked_once_on_a_domain(calls: list[int]) -> None:
    def calls_for(model: nn.Module, samples: sp.Domain) -> int:
        calls.clear()
        assert check_classifier(model, samples) == 3
        return len(calls)

    model, samples = Linear().eval(), domain()
    every = calls_for(model, samples)
    assert every > 0
    with checked_once():
        assert [calls_for(model, samples) for _ in range(3)] == [every, 0, 0]
        assert calls_for(model, domain()) == every
        assert calls_for(Linear().eval(), samples) == every
    assert calls_for(model, samples) == every


def test_a_model_that_is_refused_is_refused_again() -> None:
    with checked_once():
        for _ in range(2):
            with pytest.raises(ModelError, match="the model is random"):
                check_classifier(Linear(random=True).eval(), domain())
