"""Cells of a study in worker processes: every model with every seed is trained, and measured, on its own.

A cell writes what it makes into the run's folder, and whoever asked for it finds it there. So nothing depends on how
many workers there are, or on which of them was killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from shiftproof.execution import Compute, Mode, progress_bar, run_shards, slots
from shiftproof.execution import workers as processes
from shiftproof.runs.model_spec import Member
from shiftproof.runs.spec import Study

__all__ = ["cell_threads", "cells_at_once", "run_cells"]


def cell_threads(study: Study) -> int:
    """Math threads that train one model: cores are shared by all models and seeds, however many are trained at once.

    Sums in another order end in other bits, so that the number of workers must not decide.
    """
    trained = sum(study.models[member.name].train for member in study.members)
    return max(1, torch.get_num_threads() // max(1, trained))


def cells_at_once(study: Study, compute: Compute) -> int:
    """How many models are trained and measured at once, if that takes long enough to be worth it."""
    cells, workers = len(study.members), slots(compute)
    return min(workers, cells) if cells >= 2 * workers else 1


def run_cells(
    here: Callable[[Member], Any],
    elsewhere: Callable[[Member], Any],
    cells: Sequence[Member],
    compute: Compute,
    label: str,
    progress: Mode,
    fewest: int = 2,
) -> None:
    """Do the work of every cell: `here`, one after the other, until what is left is worth worker processes, and then
    `elsewhere`, if at least `fewest` are left.
    """
    began, workers = time.perf_counter(), compute.processes
    for done, cell in enumerate(cells, 1):
        here(cell)
        rest = list(cells[done:])
        seconds = (time.perf_counter() - began) / done * len(rest)
        if workers > 1 and len(rest) >= fewest and seconds > processes.WORTH_SECONDS:
            with progress_bar(label, len(cells), progress, done) as bar:
                for place, _ in run_shards(_Cells(elsewhere, rest), range(len(rest)), compute, 0.0, seconds):
                    bar.advance(note=rest[place].title)
            return


@dataclass(frozen=True)
class _Cells:
    """A task for workers: the work of the cell at a place."""

    work: Callable[[Member], Any]
    cells: list[Member]

    def __call__(self, place: int) -> Iterator[None]:
        self.work(self.cells[place])
        yield None
