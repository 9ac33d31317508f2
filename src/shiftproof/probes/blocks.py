"""A domain measured block by block, in worker processes if there is enough work, journalled as it goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftproof.domains import Domain, Domains
from shiftproof.domains.ahead import BlockReader
from shiftproof.domains.domain import BLOCK_SAMPLES
from shiftproof.errors import ModelError
from shiftproof.execution import Compute, Journal, Mode, progress_bar, run_shards
from shiftproof.models.placement import device_of
from shiftproof.types import IntArray

__all__ = ["Columns", "Measure", "ProbeTask", "answers_of", "measure_blocks"]

Columns = dict[str, NDArray[Any]]
Measure = Callable[..., Columns]
"""Of a model, inputs and labels; and, where it asks for them, of the ids of the samples."""


@dataclass(frozen=True, eq=False)
class ProbeTask:
    """What a probe looks at, where it keeps what it has done, and how it may compute.

    `calibration` are samples that may shape a classifier before it is measured; none of them is measured.
    """

    model: nn.Module
    domain: Domain
    journal: Journal
    seed: int
    compute: Compute
    progress: Mode
    label: str
    calibration: Domains | None = None


def measure_blocks(measure: Measure, task: ProbeTask, with_ids: bool = False, most: int = BLOCK_SAMPLES) -> Columns:
    """Columns from a function of a block of samples: `measure(model, inputs, labels)`, or with their ids as well.

    A shard is a fixed block of at most `most` samples, so that results can't depend on the number of workers. What
    takes long for a sample has small blocks: one that is under way is lost in a crash.
    """
    domain, journal = task.domain, task.journal
    blocks = domain.in_blocks(most)
    todo = [shard for shard in range(len(blocks)) if str(shard) not in journal.done]
    done = len(domain) - sum(len(blocks[shard]) for shard in todo)
    with progress_bar(task.label, len(domain), task.progress, done) as bar, BlockReader(domain, blocks, todo) as reader:
        work = _Block(measure, task.model, domain, blocks, with_ids, reader)
        for shard, result in run_shards(work, todo, task.compute):
            journal.append(str(shard), result)
            bar.advance(len(result["seconds"]))
    ordered = [journal.done[str(shard)] for shard in range(len(blocks))]
    return {key: np.concatenate([np.asarray(part[key]) for part in ordered]) for key in ordered[0]}


def answers_of(logits: Tensor) -> IntArray:
    """The class with the largest logit (N)."""
    if not bool(torch.isfinite(logits).all()):
        raise ModelError("the model returns values that are not numbers (NaN or infinite)")
    answers: IntArray = logits.argmax(1).cpu().numpy()
    return answers


@dataclass(frozen=True)
class _Block:
    """One shard's work, in a form that can be sent to another process."""

    measure: Measure
    model: nn.Module
    domain: Domain
    blocks: list[IntArray]
    with_ids: bool
    reader: BlockReader | None = None

    def __getstate__(self) -> dict[str, Any]:
        # another process is not told what comes next
        return self.__dict__ | {"reader": None}

    def __call__(self, shard: int) -> Iterator[dict[str, list[Any]]]:
        block = self.blocks[shard]
        inputs, labels = self.domain.take(block) if self.reader is None else self.reader.take(shard)
        ids = [self.domain.ids[block]] if self.with_ids else []
        device = device_of(self.model)
        began = time.perf_counter()
        columns = self.measure(self.model, inputs.to(device), labels.to(device), *ids)
        each = (time.perf_counter() - began) / len(labels)
        yield {key: values.tolist() for key, values in columns.items()} | {"seconds": [each] * len(labels)}
