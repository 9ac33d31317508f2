"""A plan counts how long it takes to examine a model: as many steps as the examination makes, at most."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import shiftproof as sp
from shiftproof.attacks.validity_attacks import validity_passes
from shiftproof.execution import HERE
from shiftproof.probes.attack import Attack
from shiftproof.probes.clean import Clean
from shiftproof.runs import budget
from shiftproof.runs.budget import ENDING, plan_probes
from shiftproof.runs.data import StudyData
from shiftproof.runs.examine import BESIDES, TRIED_STEPS, examine_models, examining_seconds


class Counting(nn.Module):
    """Tells bright images from dark ones; counts the passes of all of its kind, copies included."""

    calls = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        Counting.calls += 1
        mean = inputs.flatten(1).mean(1)
        return torch.stack([0.5 - mean, mean - 0.5], 1)


@pytest.fixture
def domain() -> sp.Domain:
    labels = torch.arange(40) % 2
    images = 0.2 * torch.rand(40, 1, 4, 4) + 0.1 + 0.6 * labels[:, None, None, None]
    return sp.Domain.from_arrays("d", images, labels.numpy(), ["dark", "bright"])


def attacks(*threats: str) -> list[Attack]:
    return [Attack(sp.attacks.Ensemble(threat, steps=2, queries=5)) for threat in threats]


@pytest.mark.parametrize("threats", [("linf:0.05",), ("l2:0.2", "linf:0.05")])
def test_no_step_is_left_out(domain: sp.Domain, threats: tuple[str, ...]) -> None:
    """The model withstands these threats, so that no attack ends early."""
    Counting.calls = 0
    data = StudyData(sp.Domains("d", [domain]), parts={"d": "all"})
    examine_models({"m": Counting().eval()}, data, attacks(*threats), HERE, "off")
    counted = sum(validity_passes(sp.Threat(*_parts(one))) for one in threats)
    assert 0.5 * counted < Counting.calls < 1.1 * counted + 100


def _parts(text: str) -> tuple[str, float]:
    norm, eps = text.split(":")
    return norm, float(eps)


def test_nothing_is_examined_that_is_not_attacked(domain: sp.Domain) -> None:
    assert examining_seconds(Counting().eval(), domain, [Clean()], HERE) == 0


def test_it_is_tried_within_every_threat(domain: sp.Domain) -> None:
    Counting.calls = 0
    assert examining_seconds(Counting().eval(), domain, attacks("l2:0.2", "linf:0.05"), HERE) > BESIDES
    assert Counting.calls >= 2 * TRIED_STEPS


def test_a_plan_counts_it_for_models_that_are_examined(domain: sp.Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "examining_seconds", lambda *_: 1_000.0)
    model, probes = Counting().eval(), [Clean()]
    plans = [
        plan_probes([probes], [model], [domain], None, HERE, examined=one) for one in ([], [model], [model, model])
    ]
    for count, plan in enumerate(plans):
        assert plan.seconds - sum(plan.costs.values()) == pytest.approx(ENDING + 1_000.0 * count)
    with pytest.raises(sp.errors.UsageError, match="can't be kept.* for 'training, examining models and the report'"):
        plan_probes([probes], [model], [domain], 600.0, HERE, examined=[model])
