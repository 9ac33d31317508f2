"""Training on texts with words removed, so that votes under such deletions agree."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from annotated_types import Interval
from torch import nn

from shiftproof.objectives.measures import draw_uniform
from shiftproof.objectives.objective import OBJECTIVES, Objective, Recipe, Selection
from shiftproof.perturbations import noise
from shiftproof.types import Batch, Loss, Range

__all__ = ["WordDeletion"]


@OBJECTIVES.register(
    "word-deletion",
    paper="Huang et al. 2023",
    buys="numbers of word edits that are certified",
    cost="1 forward, 1 backward",
)
@dataclass(frozen=True)
class WordDeletion(Objective):
    """Cross-entropy of texts from which every word was removed with probability `q`, by fresh coins at every step."""

    q: Annotated[float, Interval(ge=0, lt=1), Range(0.5, 0.95)] = 0.8

    recipe = Recipe(optimiser="adamw", lr=1e-3, batch=64, steps=1_000, schedule="linear", evaluate_every=100)
    selection: ClassVar[Selection] = "source-validation"
    splits: ClassVar[bool] = True
    kind: ClassVar[str] = "text"
    neutral: ClassVar[tuple[dict[str, Any], ...]] = ({"q": 0.0},)

    @property
    def noise(self) -> noise.WordDeletion | None:
        """Under which the model is selected."""
        return noise.WordDeletion(self.q) if self.q else None

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """Mean over domains of the mean cross-entropy of the thinned texts."""
        inputs, deletion = batch.inputs, self.noise
        if deletion is not None:
            coins = draw_uniform(batch, deletion.size(tuple(inputs.shape[1:])), generator)
            inputs = deletion.apply(inputs, coins)
        return Loss(batch.mean_over_domains(F.cross_entropy(model(inputs), batch.labels, reduction="none")))
