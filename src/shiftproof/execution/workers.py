"""Run shards of work in this process, or in one single-threaded process per core."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from shiftproof.errors import ShiftproofError
from shiftproof.execution.memory import keep_freed_memory

__all__ = ["run_shards", "single_threaded"]

R = TypeVar("R")

WORTH_SECONDS = 15.0
"""A worker process takes a few seconds to start; below this much remaining work the shards stay in process."""

_task: Callable[[int], Any] | None = None


def run_shards(
    task: Callable[[int], R], shards: Sequence[int], workers: int = 1, worth: float = WORTH_SECONDS
) -> Iterator[tuple[int, R]]:
    """Yield (shard, task(shard)) for every shard, in the order in which they finish.

    Every shard runs on one thread, in process or not, so that a result can't depend on the number of workers. The
    first shard always runs in process; the others go to workers if they are expected to take longer than `worth`
    seconds. `task` must then be picklable; one that is not runs in process.
    """
    remaining = list(shards)
    if not remaining:
        return
    started = time.perf_counter()
    with single_threaded():
        first = task(remaining[0])
    seconds_a_shard = time.perf_counter() - started
    yield remaining.pop(0), first
    if workers > 1 and seconds_a_shard * len(remaining) > worth and _picklable(task):
        yield from _in_processes(task, remaining, min(workers, len(remaining)))
    else:
        for shard in remaining:
            with single_threaded():
                result = task(shard)
            yield shard, result


@contextmanager
def single_threaded() -> Iterator[None]:
    """Let torch use one thread inside the block."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _in_processes(task: Callable[[int], R], shards: list[int], workers: int) -> Iterator[tuple[int, R]]:
    # spawn: a forked child of a process that has used threads can deadlock in the math library
    pool = ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker, initargs=(task,)
    )
    try:
        pending = {pool.submit(_run_in_worker, shard) for shard in shards}
        while pending:
            finished, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in finished:
                yield future.result()
    except BrokenProcessPool as error:
        raise ShiftproofError(
            "a worker process died (out of memory?). What is finished is kept; run the same command again, "
            "with fewer --workers."
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _start_worker(task: Callable[[int], Any]) -> None:
    global _task
    import torch

    keep_freed_memory()
    torch.set_num_threads(1)
    _task = task


def _run_in_worker(shard: int) -> tuple[int, Any]:
    assert _task is not None
    return shard, _task(shard)


def _picklable(task: object) -> bool:
    try:
        pickle.dumps(task)
    except (pickle.PicklingError, TypeError, AttributeError):
        return False
    return True
