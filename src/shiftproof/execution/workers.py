"""Run shards of work in this process, or in one single-threaded process per core."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from shiftproof.errors import ShiftproofError, UsageError
from shiftproof.execution.memory import keep_freed_memory
from shiftproof.execution.signals import describe_exit

__all__ = [
    "always_in_workers",
    "check_guarded",
    "deaf_to_interrupts",
    "pickled",
    "run_here",
    "sendable",
    "single_threaded",
]

R = TypeVar("R")

WORTH_SECONDS = 15.0
"""A worker process takes a few seconds to start; below this much remaining work the shards stay in process."""

SETTLE_SECONDS = 0.3
"""How long the end of a worker may precede the signal that ended it and is on its way to this process too."""

UNGUARDED = 78
"""The exit code of a process that was started from a script which starts processes whenever it is imported."""
UNGUARDED_SENTENCE = (
    "each of several processes runs the script again that asks for them: put what it does under "
    "if __name__ == '__main__':"
)

_PART, _FINISHED, _FAILED = range(3)
_END = object()


def run_here(
    task: Callable[[int], Iterable[R]],
    shards: Sequence[int],
    workers: int = 1,
    worth: float | None = None,
    seconds: float | None = None,
) -> Iterator[tuple[int, R]]:
    """Yield (shard, part) for every part that `task(shard)` yields, as soon as it is there, on this machine.

    Every shard runs on one thread, in process or not, so that a result can't depend on the number of workers. Work
    goes to worker processes if it is expected to take longer than `worth` seconds (15): `seconds` in all, where the
    caller knows, else what the first shard, which then runs in process, lets expect. `task` must be picklable for
    that; one that is not runs in process.
    """
    if workers > 1:
        check_guarded()
    remaining, worth = list(shards), WORTH_SECONDS if worth is None else worth
    if remaining and seconds is None:
        started = time.perf_counter()
        yield from _in_process(task, remaining[:1])
        remaining.pop(0)
        seconds = (time.perf_counter() - started) * len(remaining)
    package = pickled(task) if workers > 1 and len(remaining) > 1 and (seconds or 0.0) > worth else None
    if package is not None:
        yield from _in_processes(package, remaining, min(workers, len(remaining)))
    else:
        yield from _in_process(task, remaining)


@contextmanager
def always_in_workers() -> Iterator[None]:
    """Send work to worker processes however short it is, inside the block; for checks that they change nothing."""
    global WORTH_SECONDS
    before, WORTH_SECONDS = WORTH_SECONDS, 0.0
    try:
        yield
    finally:
        WORTH_SECONDS = before


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


def check_guarded() -> None:
    """End a process that is only just being started and asks for processes itself: its script is not guarded."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        # whoever has started this one reads the code, and says what to do
        sys.exit(UNGUARDED)


def pickled(task: object) -> bytes | None:
    """The task as it is sent to another process, or None if it can't be.

    What was defined in a notebook or on standard input has no file from which another process could load it.
    """
    try:
        package = pickle.dumps(task)
    except (pickle.PicklingError, TypeError, AttributeError, RuntimeError):
        return None
    in_a_file = hasattr(sys.modules["__main__"], "__file__")
    return package if in_a_file or b"__main__" not in package else None


def _in_process(task: Callable[[int], Iterable[R]], shards: list[int]) -> Iterator[tuple[int, R]]:
    for shard in shards:
        parts = iter(task(shard))
        while True:
            # the caller's own work between two parts keeps its threads
            with single_threaded():
                part = next(parts, _END)
            if part is _END:
                break
            yield shard, part  # type: ignore[misc]


def _in_processes(package: bytes, shards: list[int], workers: int) -> Iterator[tuple[int, Any]]:
    # spawn: a forked child of a process that has used threads can deadlock in the math library
    context = multiprocessing.get_context("spawn")
    connections: dict[Connection, int] = {}
    processes: dict[Connection, BaseProcess] = {}
    waiting = list(reversed(shards))
    try:
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,), daemon=True)
            with deaf_to_interrupts():
                process.start()
            theirs.close()
            processes[ours] = process
            connections[ours] = waiting.pop()
            with _naming_death(process):
                ours.send_bytes(package)
                ours.send(connections[ours])
        while connections:
            for connection in wait(list(connections)):
                assert isinstance(connection, Connection)
                with _naming_death(processes[connection]):
                    kind, value = connection.recv()
                if kind == _FAILED:
                    raise value
                if kind == _PART:
                    yield connections[connection], value
                    continue
                # a worker that has nothing left to do may be gone before it is told so
                with _naming_death(processes[connection]) if waiting else suppress(OSError):
                    connection.send(waiting[-1] if waiting else None)
                if waiting:
                    connections[connection] = waiting.pop()
                else:
                    del connections[connection]
    finally:
        for started in processes.values():
            if connections:
                started.terminate()
            started.join()


@contextmanager
def _naming_death(process: BaseProcess) -> Iterator[None]:
    """Say how a worker ended if it can't be spoken to."""
    try:
        yield
    except (EOFError, OSError) as error:
        # what was sent to all processes of a terminal or a job reaches this one as an interruption, a moment later
        time.sleep(SETTLE_SECONDS)
        process.join(SETTLE_SECONDS)
        if process.exitcode == UNGUARDED:
            raise UsageError(UNGUARDED_SENTENCE) from error
        how = describe_exit(process.exitcode)
        raise ShiftproofError(
            f"a worker process {how}. What is finished is kept; run the same command again{_advice(how)}."
        ) from error


def _advice(how: str) -> str:
    if "SIGKILL" in how:
        return ", with fewer --workers"
    return ", with ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment" if "SIGILL" in how else ""


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Let a process that is started inside the block ignore Ctrl-C, which reaches every process of a terminal.

    The process that was asked ends the others; one that is still importing would print its surprise.
    """
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # only the main thread may
        yield
        return
    try:
        yield
    finally:
        # None: it was set by something that is not Python, and can't be given back
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


def _work(connection: Connection) -> None:
    """The life of a worker: a task and shards in, parts out. When the other end is gone, so is the worker."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_freed_memory()
    torch.set_num_threads(1)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        package, task = connection.recv_bytes(), None
        while (shard := connection.recv()) is not None:
            try:
                task = pickle.loads(package) if task is None else task  # noqa: S301  (from the process that started us)
                for part in task(shard):
                    connection.send((_PART, part))
            except (BrokenPipeError, ConnectionResetError):
                return
            except Exception as error:  # noqa: BLE001  (raised again where the work was asked for)
                connection.send((_FAILED, sendable(error)))
                return
            connection.send((_FINISHED, None))


def sendable(error: Exception) -> Exception:
    """An exception that survives being sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  (our own exception)
    except Exception:  # noqa: BLE001  (an exception with a constructor of its own)
        return ShiftproofError(f"{type(error).__name__}: {error}")
    return error
