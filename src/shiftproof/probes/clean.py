"""Predictions on the samples as they are."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from shiftproof.domains import Domain
from shiftproof.probes.probe import PROBES, Columns, ProbeTask, answers_of, block_cost, measure_blocks
from shiftproof.types import Cost

__all__ = ["Clean"]


@PROBES.register("clean", cost="1 forward pass a sample")
@dataclass(frozen=True)
class Clean:
    """Predictions on the samples as they are."""

    classifier: ClassVar[str] = "base"

    def collect(self, task: ProbeTask) -> Columns:
        """Predictions of all samples."""
        return measure_blocks(self.measure, task)

    def cost(self, model: nn.Module, domain: Domain, workers: int) -> Cost:
        """One pass a sample."""
        return block_cost(self.measure, model, domain)

    def measure(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> Columns:
        """The class with the largest logit."""
        with torch.no_grad():
            logits = model(inputs)
        return {"prediction": answers_of(logits)}
