"""Cells of a study on a cluster: several models are trained there, and measured there, at once.

Only the process that was asked writes into the run's folder, so that nodes need not share a disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from shiftproof.execution import Compute, Mode, progress_bar, run_shards, slots, write_atomically
from shiftproof.execution.cluster import given_up_together, go_on
from shiftproof.runs.model_spec import Member

__all__ = ["measure_at_once", "train_on_cluster"]

MOST_AT_ONCE = 8
"""Models that are measured at once at most: this process keeps their journals."""


def train_on_cluster(
    train: Callable[[Member], dict[str, bytes]],
    cells: Sequence[Member],
    folder: Path,
    compute: Compute,
    threads: int,
    progress: Mode,
) -> None:
    """Train every cell on the cluster; `train` gives the files of one, by path, which are written into the folder."""
    with progress_bar("training models", len(cells), progress) as bar:
        for place, files in run_shards(_Training(train, list(cells)), range(len(cells)), compute, threads=threads):
            # the record of a model says that it is there: it comes last
            for name in sorted(files, key=lambda name: name.endswith(".json")):
                write_atomically(folder / name, files[name])
            bar.advance(note=cells[place].title)


def measure_at_once(
    measure: Callable[[Member], Any], cells: Sequence[Member], compute: Compute, progress: Mode
) -> None:
    """Measure every cell, several at a time; each sends its samples to the cluster, and is journalled here.

    A single cell is left to whoever shows its progress.
    """
    if len(cells) < 2:
        return
    at_once = min(len(cells), MOST_AT_ONCE, max(2, slots(compute)))
    pool = ThreadPoolExecutor(at_once, initializer=torch.set_num_threads, initargs=(1,))
    futures = {pool.submit(measure, cell): cell for cell in cells}
    try:
        with given_up_together(), progress_bar("measuring models", len(cells), progress) as bar:
            for future in as_completed(futures):
                future.result()
                bar.advance(note=futures[future].title)
    finally:
        pool.shutdown(cancel_futures=True)
        go_on()


@dataclass(frozen=True)
class _Training:
    """A task: the files of the cell at a place."""

    train: Callable[[Member], dict[str, bytes]]
    cells: list[Member]

    def __call__(self, place: int) -> Iterator[dict[str, bytes]]:
        yield self.train(self.cells[place])
