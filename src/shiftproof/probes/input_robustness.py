"""How much the loss can change around each sample, as evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftproof.attacks.attack import check_eps
from shiftproof.certification.input_robustness import Measured
from shiftproof.domains import Domain
from shiftproof.evidence import Column
from shiftproof.execution import Compute
from shiftproof.perturbations.threat import ThreatOption
from shiftproof.probes.blocks import Columns, ProbeTask, answers_of, measure_blocks
from shiftproof.probes.costs import trial_cost
from shiftproof.probes.probe import PROBES, Probe, Result
from shiftproof.types import Cost, Positive

__all__ = ["InputRobustness"]

_TOGETHER = 64


@PROBES.register("input-robustness", cost="2 steps forward and backward a sample, and a proof where layers are known")
@dataclass(frozen=True)
class InputRobustness(Probe):
    """How much the loss changes within a threat, at least and at most: `{name: input-robustness, threat: linf:2/255}`.

    `loss_change` is the largest change that gradients found, `loss_bound` one that no change of the input exceeds,
    where every layer of the network is known. Changes may leave [0, 1].
    """

    threat: ThreatOption
    steps: Positive = 20

    columns: ClassVar = (
        Column("loss_change", "float", "The largest change of the loss that gradients found."),
        Column("loss_bound", "float", "One that no change of the input exceeds; not a number where none is known."),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_eps(self.threat)

    @property
    def title(self) -> str:
        """What tells it from other probes."""
        return f"change of the loss, {self.threat}"

    def collect(self, task: ProbeTask) -> list[Result]:
        """Of all samples."""
        columns = measure_blocks(partial(self.measure, seed=task.seed), task, with_ids=True, most=_TOGETHER)
        facts = {"eps": self.threat.eps, "norm": self.threat.norm, "units": self.threat.units}
        facts["dimensions"] = math.prod(task.domain.shape)
        return [Result(columns, facts)]

    def passes(self, model: nn.Module) -> int:
        """Forward passes of one sample."""
        return 2 * self.steps + 2

    def cost(self, model: nn.Module, domain: Domain, compute: Compute) -> Cost:
        """By a trial on a few samples."""
        return trial_cost(self.measure, model, domain, compute, self.passes(model), _TOGETHER)

    def measure(
        self, model: nn.Module, inputs: Tensor, labels: Tensor, ids: NDArray[np.object_], seed: int = 0
    ) -> Columns:
        """Of a block of samples."""
        found = Measured(model, tuple(inputs.shape[1:]), self.threat, self.steps, seed).of(inputs, labels, ids, ids)
        with torch.no_grad():
            prediction = answers_of(model(inputs))
        bound = np.full(len(ids), np.nan) if found.upper is None else found.upper
        return {"prediction": prediction, "loss_change": found.lower, "loss_bound": bound}
