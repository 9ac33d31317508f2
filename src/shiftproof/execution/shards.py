"""Run shards of work where a `Compute` says: in this process, in worker processes, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from shiftproof.execution.cluster import cluster_slots, join_cluster, run_on_cluster
from shiftproof.execution.compute import HERE, Compute
from shiftproof.execution.workers import run_here

__all__ = ["ready", "run_shards", "slots"]

R = TypeVar("R")
_END = object()


def run_shards(
    task: Callable[[int], Iterable[R]],
    shards: Sequence[int],
    compute: Compute = HERE,
    worth: float | None = None,
    seconds: float | None = None,
    threads: int = 1,
) -> Iterator[tuple[int, R]]:
    """Yield (shard, part) for every part that `task(shard)` yields, as soon as it is there.

    Every shard runs on one thread wherever it runs, so that a result can't depend on that. On this machine, work goes
    to worker processes if it is expected to take longer than `worth` seconds (15): `seconds` in all, where the caller
    knows, else what the first shard, which then runs in process, lets expect. Where there is a cluster, all work goes
    there; `threads` are those that a shard uses there, if it uses more than one. Products are exact, or tf32, in
    whichever process it is that computes them.
    """
    if compute.kind != "cpu":
        task = _WithExactProducts(task, compute)
    if compute.cluster is not None:
        return run_on_cluster(task, list(shards), compute, threads)
    return run_here(task, shards, compute.processes, worth, seconds)


def slots(compute: Compute) -> int:
    """How many shards can run at the same time."""
    return compute.processes if compute.cluster is None else cluster_slots(compute)


def ready(compute: Compute) -> Compute:
    """The same, checked, and with its cluster joined: what is missing is said before anything is computed."""
    compute.check()
    if compute.cluster is None:
        return compute
    join_cluster(compute)
    # a node must not choose for itself: all votes are of one kind of device
    return replace(compute, device=compute.kind) if compute.device == "auto" else compute


@dataclass(frozen=True)
class _WithExactProducts(Generic[R]):
    """A task whose parts are computed in the precision that was asked for: torch's switches are those of a process."""

    task: Callable[[int], Iterable[R]]
    compute: Compute

    def __call__(self, shard: int) -> Iterator[R]:
        parts = iter(self.task(shard))
        while True:
            # not around the whole: between two parts, somebody else's work is done here
            with self.compute.exact_products():
                part = next(parts, _END)
            if part is _END:
                return
            yield part  # type: ignore[misc]
