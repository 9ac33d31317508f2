"""The one training loop, its optimisers and schedules, selection, checkpoints and resume."""

from shiftproof.training.fit import Fit
from shiftproof.training.loop import train

__all__ = ["Fit", "train"]
