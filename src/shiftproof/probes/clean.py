"""Predictions on the samples as they are."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shiftproof.attacks import Base
from shiftproof.attacks.attack import check_victim
from shiftproof.domains import Domain, Domains
from shiftproof.evidence import Column
from shiftproof.execution import Compute
from shiftproof.probes.blocks import Columns, ProbeTask, answers_of, measure_blocks
from shiftproof.probes.costs import block_cost
from shiftproof.probes.probe import PROBES, Probe, Result
from shiftproof.probes.score import Score
from shiftproof.types import Cost

__all__ = ["Clean"]


@PROBES.register("clean", cost="1 forward pass a sample")
@dataclass(frozen=True)
class Clean(Probe):
    """Predictions on the samples as they are; where labels are numbers, `score` takes its place."""

    columns = (Column("confidence", "float", "The probability that the softmax of the logits gives to the answer."),)
    cheap = True

    def on(self, data: Domain | Domains) -> Probe:
        """Of data whose labels are numbers, the numbers that are predicted."""
        return Score() if data.is_regression else self

    def collect(self, task: ProbeTask) -> list[Result]:
        """Predictions of all samples."""
        return [Result(measure_blocks(self.measure, task))]

    def check(self, model: nn.Module, domain: Domain, calibration: object) -> None:
        """Refuse a model that does not take the samples, or has no logit for each of their classes."""
        check_victim(Base(model), domain)

    def cost(self, model: nn.Module, domain: Domain, compute: Compute) -> Cost:
        """One pass a sample."""
        return block_cost(self.measure, model, domain)

    def measure(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> Columns:
        """The class with the largest logit, and how sure the model says it is."""
        with torch.no_grad():
            logits = model(inputs)
        confidence = logits.double().softmax(1).amax(1)
        return {"prediction": answers_of(logits), "confidence": confidence.cpu().numpy()}
