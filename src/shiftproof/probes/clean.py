"""Predictions on the samples as they are."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.probes.probe import PROBES, Columns

__all__ = ["Clean"]


@PROBES.register("clean", cost="1 forward pass a sample")
@dataclass(frozen=True)
class Clean:
    """Predictions on the samples as they are."""

    classifier: ClassVar[str] = "base"

    def measure(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> Columns:
        """The class with the largest logit."""
        with torch.no_grad():
            logits = model(inputs)
        if not bool(torch.isfinite(logits).all()):
            raise ModelError("the model returns values that are not numbers (NaN or infinite)")
        return {"prediction": logits.argmax(1).cpu().numpy()}
