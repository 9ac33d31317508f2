"""Predicted numbers beside the true ones, where labels are numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.domains import Domain
from shiftproof.errors import ModelError, UsageError
from shiftproof.evidence import Column
from shiftproof.execution import Compute
from shiftproof.models.outputs import logits_of
from shiftproof.probes.blocks import Columns, ProbeTask, measure_blocks
from shiftproof.probes.costs import block_cost
from shiftproof.probes.probe import PROBES, Probe, Result
from shiftproof.types import Cost

__all__ = ["Score"]


@PROBES.register("score", cost="1 forward pass a sample", needs="labels that are numbers")
@dataclass(frozen=True)
class Score(Probe):
    """The number that the model predicts for every sample as it is, beside the true one; `clean` of such data is this.

    The report shows Pearson's and Spearman's correlation between the two, with intervals.
    """

    columns: ClassVar = (
        Column("truth", "float", "The true number."),
        Column("predicted", "float", "What the model predicts."),
    )
    cheap = True
    regression: ClassVar[bool] = True

    def collect(self, task: ProbeTask) -> list[Result]:
        """Predictions of all samples."""
        return [Result({**measure_blocks(self.measure, task), "truth": task.domain.labels})]

    def check(self, model: nn.Module, domain: Domain, calibration: object) -> None:
        """Refuse classes, and a model that has not one output."""
        if not domain.is_regression:
            raise UsageError(
                f"the probe score needs labels that are numbers, and {domain.name!r} has classes: use clean"
            )
        outputs = logits_of(model, domain.take(np.array([0]))[0]).shape[1]
        if outputs != 1:
            raise ModelError(f"the model has {outputs} outputs; where labels are numbers it should have one")

    def cost(self, model: nn.Module, domain: Domain, compute: Compute) -> Cost:
        """One pass a sample."""
        return block_cost(self.measure, model, domain)

    def measure(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> Columns:
        """The model's one output."""
        with torch.no_grad():
            predicted = model(inputs)[:, 0].double().cpu()
        if not bool(torch.isfinite(predicted).all()):
            raise ModelError("the model returns values that are not numbers (NaN or infinite)")
        return {"predicted": predicted.numpy()}
