"""Every probe of the catalogue keeps its promises; probes with one fault each do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.errors import ConformanceError
from shiftproof.probes import PROBES, Probe
from shiftproof.probes.blocks import Columns, ProbeTask, measure_blocks
from shiftproof.probes.clean import Clean
from shiftproof.probes.probe import Result
from shiftproof.testing import check_probe
from shiftproof.types import Cost

OPTIONS: dict[str, dict[str, Any]] = {
    "adapted": {"noise": "gaussian:0.25", "calibration": 12},
    "attack": {"attack": {"threat": "l2:0.3", "steps": 3}, "eps": [0.1]},
    "certify": {"certifier": {"noise": "gaussian:0.25", "n": 100}},
    "corrupt": {"corruptions": "fog,contrast", "severities": [3]},
    "input-robustness": {"threat": "linf:2/255", "steps": 2},
    "noisy": {"noise": "gaussian:0.25"},
    "refute": {"certifier": {"name": "randomized-smoothing", "noise": "gaussian:0.25", "n": 100}, "steps": 1},
    "search": {"threat": "linf:0.1", "steps": 3},
}


@pytest.mark.parametrize("name", [entry.name for entry in PROBES])
def test_every_probe_keeps_its_promises(name: str) -> None:
    model = domain = calibration = None
    if name == "counterfactual":
        domain = sp.load_domains("colored-digits")["e=0.9"].subset(np.arange(10))
        model = sp.build_model("mlp-cayley", domain, width=8)
    if name == "adapted":
        calibration = sp.Domains("others", [sp.load_domains("rotated-digits")["angle=15"]])
        domain = sp.load_domains("rotated-digits")["angle=75"].subset(np.arange(10))
        model = sp.build_model("cnn", domain, width=4)
    if name == "hidden-state":
        domain = sp.load_domains("signed-reviews")["e=0.9"].subset(np.arange(10))
        model = sp.build_model("text-transformer", domain, width=8, heads=2, depth=1, vocabulary=64)
    check_probe(PROBES.create(name, OPTIONS.get(name, {})), model, domain, calibration)


class _Faulty(Probe):
    def cost(self, model: nn.Module, domain: Any, compute: Any) -> Cost:
        return Clean().cost(model, domain, compute)

    def collect(self, task: ProbeTask) -> list[Result]:
        return [Result(measure_blocks(self.measure, task))]

    def measure(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> Columns:
        return {"prediction": Clean().measure(model, inputs, labels)["prediction"]}


@dataclass(frozen=True)
class Undeclared(_Faulty):
    """Measures what it does not declare."""

    def measure(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> Columns:
        return {**super().measure(model, inputs, labels), "mood": np.zeros(len(labels))}


@dataclass(frozen=True)
class Random(_Faulty):
    """Draws from the global random state."""

    def measure(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> Columns:
        return {"prediction": torch.randint(0, 10, (len(labels),)).numpy()}


@dataclass(frozen=True)
class Comparing(_Faulty):
    """Answers by the mean of all samples."""

    def measure(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> Columns:
        return {"prediction": np.full(len(labels), int(1000 * inputs.mean()) % 7)}


@dataclass(frozen=True)
class Counting(_Faulty):
    """Answers by a sample's place."""

    def measure(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> Columns:
        return {"prediction": np.arange(len(labels)) % 10}


@dataclass(frozen=True)
class Meddling(_Faulty):
    """Changes the model."""

    def measure(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> Columns:
        with torch.no_grad():
            next(iter(model.parameters())).mul_(1.5)
        return super().measure(model, inputs, labels)


@dataclass(frozen=True)
class Short(_Faulty):
    """Leaves samples out."""

    def measure(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> Columns:
        return super().measure(model, inputs[1:], labels[1:])


@pytest.mark.parametrize(
    ("probe", "sentence"),
    [
        (Undeclared(), "without declaring it"),
        (Random(), "draws from the global random state"),
        (Comparing(), "depend on the other samples"),
        (Counting(), "depend on the order of samples"),
        (Meddling(), "changes weights"),
        (Short(), "11 predictions for 12 samples"),
    ],
)
def test_faults_are_found(probe: Probe, sentence: str) -> None:
    with pytest.raises(ConformanceError, match=sentence):
        check_probe(probe)
