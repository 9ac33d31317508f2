"""The contract of a probe, and the template that does the boring and dangerous parts once for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftproof.catalogue import Catalogue, options_of
from shiftproof.domains import Domain, Domains
from shiftproof.domains.domain import BLOCK_SAMPLES
from shiftproof.errors import ModelError
from shiftproof.evidence import SCHEMA, Evidence, EvidenceStore
from shiftproof.execution import Journal, Mode, progress_bar, run_shards, single_threaded
from shiftproof.models.identity import identity_of
from shiftproof.types import Cost, IntArray

__all__ = [
    "PROBES",
    "Columns",
    "Probe",
    "ProbeTask",
    "answers_of",
    "block_cost",
    "check_probe",
    "measure_blocks",
    "run_probe",
    "seconds_a_sample",
    "step_seconds",
    "trial_cost",
    "under_each",
]

_TRIED, _BLOCK, _TRIAL_SECONDS, _LONG_SECONDS = 4, 64, 1.0, 3.0
"""A trial starts with few samples, and takes more as long as it took less than a second."""
_LARGE = 256
"""From here on a batch takes as long as it is large."""

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
    workers: int
    progress: Mode
    label: str
    calibration: Domains | None = None


class Probe(Protocol):
    """A frozen dataclass that measures a domain."""

    @property
    def classifier(self) -> str:
        """base | smoothed | adapted | latent | median: of which classifier the rows speak."""

    def collect(self, task: ProbeTask) -> Columns:
        """Columns of evidence for all samples of the task's domain, in order; at least `prediction`.

        A probe with several settings gives all samples under the first, then all under the next, and so on; `setting`
        and `title` are then columns too.
        """

    def cost(self, model: nn.Module, domain: Domain, workers: int) -> Cost:
        """What that takes, from a moment's trial."""


PROBES: Catalogue[Probe] = Catalogue("probe", "shiftproof.probes")


def run_probe(
    probe: Probe,
    model: nn.Module,
    domain: Domain,
    store: EvidenceStore,
    *,
    model_name: str = "model",
    seed: int = 0,
    workers: int = 1,
    progress: Mode = "auto",
    calibration: Domains | None = None,
    facts: Mapping[str, str] | None = None,
) -> Evidence:
    """Measure every sample of `domain`; what an earlier, killed run has done is not done again.

    `facts` are what is known of the samples: how they were `sampled`, whether they were `seen_in_training`.
    """
    name = PROBES.name_of(probe)
    options = {option: getattr(probe, option) for option in options_of(type(probe))}
    path = store.path(model_name, domain.name, f"{name} {options}" if options else name)
    known = dict(facts or {})
    asked = {"probe": repr(probe), **known}
    identity = identity_of(asked, model, domain, seed=seed, calibration=calibration)
    finished = store.finished(path, identity)
    if finished is not None:
        return finished
    model.eval()
    with store.journal(path, identity) as journal:
        label = f"{getattr(probe, 'title', name)}: {model_name} on {domain.name}"
        columns = probe.collect(ProbeTask(model, domain, journal, seed, workers, progress, label, calibration))
        constants = {
            "model": model_name,
            "domain": domain.name,
            "probe": name,
            "setting": repr(probe),
            "title": getattr(probe, "title", name),
            "classifier": probe.classifier,
            "seed": seed,
            "precision": "f32",
            **known,
        }
        rows = _rows(columns, domain, constants)
        store.finish(path, rows, identity)
        journal.discard()
    return rows


def check_probe(probe: Probe, model: nn.Module, domain: Domain, calibration: Domains | None) -> None:
    """Refuse, before anything is trained, what the probe could not measure; for probes that have a `check`."""
    check = getattr(probe, "check", None)
    if check is not None:
        check(model, domain, calibration)


def measure_blocks(measure: Measure, task: ProbeTask, with_ids: bool = False, most: int = BLOCK_SAMPLES) -> Columns:
    """Columns from a function of a block of samples: `measure(model, inputs, labels)`, or with their ids as well.

    A shard is a fixed block of at most `most` samples, so that results can't depend on the number of workers. What
    takes long for a sample has small blocks: one that is under way is lost in a crash.
    """
    domain, journal = task.domain, task.journal
    blocks = domain.in_blocks(most)
    todo = [shard for shard in range(len(blocks)) if str(shard) not in journal.done]
    done = len(domain) - sum(len(blocks[shard]) for shard in todo)
    with progress_bar(task.label, len(domain), task.progress, done) as bar:
        work = _Measurement(measure, task.model, domain, blocks, with_ids)
        for shard, result in run_shards(work, todo, task.workers):
            journal.append(str(shard), result)
            bar.advance(len(result["prediction"]))
    ordered = [journal.done[str(shard)] for shard in range(len(blocks))]
    return {key: np.concatenate([np.asarray(part[key]) for part in ordered]) for key in ordered[0]}


def answers_of(logits: Tensor) -> IntArray:
    """The class with the largest logit (N)."""
    if not bool(torch.isfinite(logits).all()):
        raise ModelError("the model returns values that are not numbers (NaN or infinite)")
    answers: IntArray = logits.argmax(1).cpu().numpy()
    return answers


def block_cost(measure: Measure, model: nn.Module, domain: Domain, passes: int = 1) -> Cost:
    """The cost of a probe that measures block by block, with so many forward passes a sample."""
    inputs, labels = domain.take(domain.blocks[0])
    with single_threaded():
        measure(model, inputs, labels)
        began = time.perf_counter()
        measure(model, inputs, labels)
    seconds = len(domain) * (time.perf_counter() - began) / len(labels)
    return Cost(passes * len(domain), seconds, passes * len(domain), seconds)


def trial_cost(measure: Measure, model: nn.Module, domain: Domain, workers: int, passes: int, most: int) -> Cost:
    """The cost of a probe that takes long for a sample: `passes` forward each, in shards of `most`; by a trial."""

    def measured(few: Domain) -> float:
        inputs, labels = few.tensors()
        began = time.perf_counter()
        measure(model, inputs, labels, few.ids)
        return time.perf_counter() - began

    each = seconds_a_sample(domain, measured, model)
    seconds = len(domain) * each / min(workers, len(domain.in_blocks(most)))
    return Cost(passes * len(domain), seconds, passes * len(domain), seconds)


def seconds_a_sample(domain: Domain, seconds_of: Callable[[Domain], float], model: nn.Module, copies: int = 1) -> float:
    """Seconds for each of a block of samples, by trials on more and more of them until one takes a second.

    A trial that ended with few samples counts as much less than a block does with more of them, as a step of the model
    forward and backward does: for small models a batch of 64 takes hardly longer than one of 4. `copies` of a sample
    go through the model at once.
    """
    block, count = min(_BLOCK, len(domain)), min(_TRIED, len(domain))

    def in_a_block(seconds: float, count: int) -> float:
        inputs = domain.take(np.arange(block))[0]
        more = step_seconds(model, inputs, block * copies) / step_seconds(model, inputs, count * copies)
        return seconds * more / block

    with single_threaded():
        # the first sample also pays what is slow once; where it takes long, it is the whole trial
        seconds = seconds_of(domain.subset(np.arange(1)))
        if seconds > _LONG_SECONDS:
            return in_a_block(seconds, 1)
        while True:
            seconds = seconds_of(domain.subset(np.unique(np.linspace(0, len(domain) - 1, count, dtype=np.int64))))
            if seconds > _TRIAL_SECONDS or count >= block:
                return in_a_block(seconds, count) if count < block else seconds / count
            count = min(4 * count, block)


def step_seconds(model: nn.Module, inputs: Tensor, count: int) -> float:
    """Seconds of one step forward and backward with a batch of `count` inputs; of large ones, in proportion."""
    batch = min(count, _LARGE)
    repeated = inputs[torch.arange(batch) % len(inputs)].requires_grad_()
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        total = model(repeated).sum()
        if total.requires_grad:
            torch.autograd.grad(total, repeated, allow_unused=True)
        seconds.append(time.perf_counter() - began)
    return min(seconds) * count / batch


@dataclass(frozen=True)
class _Measurement:
    """One shard's work, in a form that can be sent to another process."""

    measure: Measure
    model: nn.Module
    domain: Domain
    blocks: list[IntArray]
    with_ids: bool

    def __call__(self, shard: int) -> Iterator[dict[str, list[Any]]]:
        block = self.blocks[shard]
        inputs, labels = self.domain.take(block)
        ids = [self.domain.ids[block]] if self.with_ids else []
        device = next((parameter.device for parameter in self.model.parameters()), torch.device("cpu"))
        began = time.perf_counter()
        columns = self.measure(self.model, inputs.to(device), labels.to(device), *ids)
        each = (time.perf_counter() - began) / len(labels)
        yield {key: values.tolist() for key, values in columns.items()} | {"seconds": [each] * len(labels)}


def under_each(settings: Sequence[Mapping[str, Any]], measured: Columns) -> Columns:
    """Columns of a probe with several settings, from what was measured: samples x settings, or once for a sample."""
    count = len(settings)
    columns = {
        # what there is of a sample once is its time, which the settings share
        name: values.T.ravel() if values.ndim == 2 else np.tile(values / count, count)
        for name, values in measured.items()
    }
    samples = len(measured["prediction"])
    return columns | {name: np.repeat([one[name] for one in settings], samples) for name in settings[0]}


def _rows(columns: Columns, domain: Domain, constants: dict[str, Any]) -> Evidence:
    rows, n = len(columns["prediction"]), len(domain)
    if rows % n or not rows:
        raise ModelError(f"probe {constants['probe']!r} gave {rows} predictions for {n} samples of {domain.name!r}")
    times = rows // n
    labels = np.tile(domain.labels, times)
    values: dict[str, Any] = {key: [value] * rows for key, value in constants.items()}
    values |= {"sample": np.tile(domain.ids, times), "label": labels, "correct": columns["prediction"] == labels}
    values |= {} if domain.groups is None else {"group": np.tile(domain.groups, times)}
    values |= columns
    arrays = [
        pa.array(values[item.name], item.type) if item.name in values else pa.nulls(rows, item.type) for item in SCHEMA
    ]
    return Evidence(pa.Table.from_arrays(arrays, schema=SCHEMA))
