"""How long probes take on a model, from a moment's trial of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from shiftproof.domains import Domain
from shiftproof.domains.texts import TextInputs, texts_of
from shiftproof.execution import Compute, single_threaded, slots
from shiftproof.models.placement import on_device
from shiftproof.probes.costs import step_seconds
from shiftproof.probes.probe import Probe

__all__ = ["TRIED", "Stopwatch", "trial_domain", "wall_seconds"]

TRIED = 64
"""Samples of all domains from which trials take theirs: as many as a probe takes together."""
WORTH, SPAWN = 15.0, 6.0
"""Seconds of work from which worker processes are used, and what they take to start."""


class Stopwatch:
    """Seconds a sample of each probe on one thread, tried once each: `few` are the samples, `news` hears of trials."""

    def __init__(self, model: nn.Module, few: Domain, compute: Compute, news: Callable[[str], None]) -> None:
        self._model, self._few, self._news = on_device(model, compute.place), few, news
        self._compute = compute.alone()
        self._known: dict[str, float] = {}
        inputs = few.tensors()[0]
        with single_threaded():
            step = [step_seconds(self._model, inputs, count) for count in (1, TRIED)]
        self.fixed = min(1.0, step[0] / step[1])
        """The part of a block's time that does not depend on how many samples it has."""

    def each(self, probe: Probe) -> float:
        """Seconds a sample, tried now unless it was before."""
        key = repr(probe)
        if key not in self._known:
            self._news(probe.title)
            self._known[key] = probe.cost(self._model, self._few, self._compute).seconds / len(self._few)
        return self._known[key]

    def at_most(self, probe: Probe, like: Probe, seconds: float) -> float:
        """Seconds a sample at most, where another setting of the same probe takes `seconds`; nothing is tried."""
        ratio = probe.passes(self._model) / like.passes(self._model)
        return self._known.get(repr(probe), seconds * max(1.0, ratio))


def trial_domain(measured: Sequence[Domain]) -> Domain:
    """A few samples of every domain as one: models that are right here and wrong there cost as much as their mix."""
    each = max(1, TRIED // len(measured))
    few = [domain.subset(np.unique(np.linspace(0, len(domain) - 1, each, dtype=np.int64))) for domain in measured]
    inputs, labels = (torch.cat(parts).numpy() for parts in zip(*(one.tensors() for one in few), strict=True))
    classes = list(measured[0].classes)
    if measured[0].kind == "text":
        texts = TextInputs([text for one in few for text in texts_of(one)], measured[0].shape[0])
        return Domain.from_inputs("trial", texts, labels, classes)
    return Domain.from_arrays("trial", inputs, labels, classes)


def wall_seconds(probe: Probe, each: float, counts: Sequence[int], compute: Compute, fixed: float = 0.0) -> float:
    """Seconds for so many samples of each domain: whether there is enough work for worker processes decides.

    `fixed` is the part of a block's time that it takes however few samples it has.
    """
    # more processes than cores share them; a cluster says how many it has
    workers = slots(compute) if compute.cluster is not None else min(compute.processes, os.cpu_count() or 1)
    if not probe.in_blocks:
        return sum(_shared(each * count, min(workers, count)) for count in counts)
    # the first block runs in process, and says whether the others are worth processes
    first = [min(count, TRIED) for count in counts]
    rest = [count - begun for count, begun in zip(counts, first, strict=True)]
    return sum(
        each * (fixed * TRIED + (1 - fixed) * begun) + _shared(each * left, min(workers, -(-left // TRIED)))
        for begun, left in zip(first, rest, strict=True)
    )


def _shared(seconds: float, workers: int) -> float:
    return seconds / workers + SPAWN if workers > 1 and seconds > WORTH else seconds
