"""What a training run is made of, and what comes out of it, as they are sent from one process to another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from shiftproof.domains import Domain
from shiftproof.objectives import Objective, Recipe
from shiftproof.training.checkpoint import State
from shiftproof.training.plateau import Stopped
from shiftproof.training.selection import Validation

__all__ = ["Done", "Job"]


@dataclass(frozen=True, eq=False)
class Job:
    """A model and all that its training depends on; `state` is where it begins, and `plan` has its steps counted."""

    model: nn.Module
    objective: Objective
    sources: list[Domain]
    validation: Validation
    plan: Recipe
    seed: int
    state: State
    device: torch.device
    layout: torch.memory_format
    checkpoint: Path | None
    checkpoint_seconds: float


@dataclass(frozen=True, eq=False)
class Done:
    """How training ended: its last `state`, with the best weights, and the weights of the `last` step."""

    state: State
    stopped: Stopped
    last: dict[str, Tensor]
    seconds: float
