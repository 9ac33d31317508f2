"""The whole state of a training run in one file, written atomically, read without executing anything."""

from __future__ import annotations

import io
import math
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shiftproof.errors import TrainingError
from shiftproof.execution import write_atomically

__all__ = ["State", "read_checkpoint", "write_checkpoint"]


@dataclass
class State:
    """What a training run is after `step` steps; `identity` says which run.

    `threads` are those of each of the `processes`. `losses` sums the loss and its named parts over the `losses_of`
    steps since the last evaluation; `memory` is what the loss of the last step remembered.
    """

    identity: dict[str, Any]
    threads: int
    processes: int = 1
    step: int = 0
    seconds: float = 0.0
    losses: dict[str, float] = field(default_factory=dict)
    losses_of: int = 0
    memory: dict[str, Tensor] = field(default_factory=dict)
    model: dict[str, Tensor] = field(default_factory=dict)
    optimiser: dict[str, Any] = field(default_factory=dict)
    best: dict[str, Tensor] = field(default_factory=dict)
    best_step: int = 0
    best_score: float = -math.inf
    history: list[dict[str, Any]] = field(default_factory=list)


def write_checkpoint(path: Path, state: State) -> None:
    """Replace the checkpoint at `path`; a crash leaves the old one."""
    buffer = io.BytesIO()
    torch.save(vars(state), buffer)
    write_atomically(path, buffer.getvalue())


def read_checkpoint(path: Path, identity: dict[str, Any], processes: int = 1) -> State | None:
    """The state at `path`, None if there is none; one of another run, or of other processes, is an error, no start."""
    if not path.is_file():
        return None
    try:
        state = State(**torch.load(path, map_location="cpu", weights_only=True))
    except (pickle.UnpicklingError, RuntimeError, EOFError, TypeError, OSError) as error:
        raise TrainingError(f"the checkpoint {path} can't be read; remove it to start over") from error
    if state.identity != identity:
        changed = sorted(key for key in identity if state.identity.get(key) != identity[key])
        raise TrainingError(
            f"the checkpoint {path} belongs to another training run (another {', '.join(changed)}); "
            "choose another place, or remove it to start over"
        )
    if state.processes != processes:
        raise TrainingError(
            f"the checkpoint {path} is one of training in {state.processes} processes, not {processes}: go on with "
            f"--processes {state.processes} (in Python processes={state.processes}), or remove it to start over"
        )
    return state
