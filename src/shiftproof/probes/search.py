"""Searches of document 004 as evidence: the nearest adversarial representation, and inputs that come near it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftproof.attacks.attack import check_eps
from shiftproof.attacks.input_search import InputSearch, search_samples
from shiftproof.attacks.representation import adversarial_representation, linear_head
from shiftproof.domains import Domain
from shiftproof.evidence import Column
from shiftproof.execution import Compute
from shiftproof.perturbations.threat import ThreatOption
from shiftproof.probes.attack import Sizes
from shiftproof.probes.blocks import Columns, ProbeTask, measure_blocks
from shiftproof.probes.costs import trial_cost
from shiftproof.probes.probe import PROBES, Probe, Result, under_each
from shiftproof.types import Cost, Positive

__all__ = ["Search"]

REPRESENTATION = "adversarial representation"
_TOGETHER = 64


@PROBES.register(
    "search", paper="Provably Robust Transfer, 2022", cost="steps + 4 forward, steps backward a sample and size"
)
@dataclass(frozen=True)
class Search(Probe):
    """Inputs whose representation comes near an adversarial one: `{name: search, threat: linf:0.1, eps: [0.02, 0.05]}`.

    `prediction` is what the model says to what was found within each size, 0 among them; a changed one is a success,
    right or wrong. `latent_distance` is how far the representation moved (l2) over the length of the one before. Rows
    called "adversarial representation" are of the nearest one, in closed form, whether or not an input leads there.
    """

    threat: ThreatOption
    eps: Sizes = ()
    steps: Positive = 200
    lr: float = 0.05

    columns: ClassVar = (
        Column("distance", "float", "How far the input moved, in the threat's norm."),
        Column("latent_distance", "float", "How far the representation moved (l2), over the length of the one before."),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for eps in self.budgets:
            check_eps(self.threat.at(eps))

    @property
    def budgets(self) -> tuple[float, ...]:
        """All sizes, from 0 to the largest."""
        return tuple(sorted({0.0, *self.eps, self.threat.eps}))

    @property
    def title(self) -> str:
        """What tells it from other probes."""
        return f"search, {self.threat}"

    def collect(self, task: ProbeTask) -> list[Result]:
        """Predictions and distances within each size, and of the nearest adversarial representation."""
        columns = measure_blocks(partial(self.measure, seed=task.seed), task, with_ids=True, most=_TOGETHER)
        facts = {"norm": self.threat.norm, "units": self.threat.units, "search": repr(self), "asked": self.to_config()}
        settings = [
            {"setting": f"{self!r} at {eps:g}", "title": f"search, {self.threat.at(eps)}", "eps": eps, **facts}
            for eps in self.budgets
        ]
        nearest = {"setting": f"{self!r}, {REPRESENTATION}", "title": REPRESENTATION, "eps": None, **facts}
        return under_each([*settings, nearest], columns)

    def check(self, model: nn.Module, domain: Domain, calibration: object) -> None:
        """Refuse a model without a head of one linear layer."""
        linear_head(model)

    def passes(self, model: nn.Module) -> int:
        """Forward passes of one sample, at most."""
        return (len(self.budgets) - 1) * (self.steps + 2) + 2

    def cost(self, model: nn.Module, domain: Domain, compute: Compute) -> Cost:
        """By a trial on a few samples."""
        return trial_cost(self.measure, model, domain, compute, self.passes(model), _TOGETHER)

    def measure(
        self, model: nn.Module, inputs: Tensor, labels: Tensor, ids: NDArray[np.object_], seed: int = 0
    ) -> Columns:
        """Of a block of samples, one column a size and one for the nearest representation."""
        attack = InputSearch(self.threat, steps=self.steps, lr=self.lr)
        found = search_samples(model, attack, inputs, ids, self.budgets, seed)
        _, weight, bias = linear_head(model)
        nearest = adversarial_representation(weight, bias, found[0].z)
        length = np.maximum(np.linalg.norm(found[0].z, axis=1), np.finfo(np.float64).tiny)
        none = np.full(len(ids), np.nan)
        distances = [one.x_l2 if self.threat.norm == "l2" else one.x_linf for one in found]
        return {
            "prediction": np.stack([*(one.after for one in found), nearest.target], 1),
            "distance": np.stack([*distances, none], 1),
            "latent_distance": np.stack([*(one.z_l2 / length for one in found), nearest.distance / length], 1),
        }
