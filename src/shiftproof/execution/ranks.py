"""Processes that do one piece of work together: when one of them is gone, so are the others."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from shiftproof.errors import UsageError
from shiftproof.execution.memory import keep_freed_memory
from shiftproof.execution.signals import describe_exit, terminate_as_interrupt
from shiftproof.execution.workers import (
    SETTLE_SECONDS,
    UNGUARDED,
    UNGUARDED_SENTENCE,
    check_guarded,
    deaf_to_interrupts,
    sendable,
)

__all__ = ["ProcessLost", "Tell", "run_ranks"]

GRACE_SECONDS = 5.0
"""How long a process that is asked to end may take to put away what it has open."""

_TOLD, _DONE, _FAILED = range(3)

Tell = Callable[[Any], None]


class ProcessLost(Exception):  # noqa: N818 - not an error of its own: whoever asked for the work says what is lost
    """A process of several ended before its work was done."""

    def __init__(self, rank: int, how: str) -> None:
        super().__init__(f"process {rank} {how}")
        self.rank, self.how = rank, how


def run_ranks(package: bytes, size: int, hear: Callable[[Any], None]) -> Any:
    """What a task gives in the first of `size` processes, all of which run it: `task(rank, tell)`.

    `package` is the task, pickled; what a process tells is heard here. What a process raises is raised here, and one
    that dies raises `ProcessLost`; whatever happens, no process outlives the call.
    """
    _check_may_start()
    # spawn: a forked child of a process that has used threads can deadlock in the math library
    context = multiprocessing.get_context("spawn")
    processes: dict[Connection, BaseProcess] = {}
    try:
        for rank in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_take_part, args=(rank, theirs), daemon=True)
            with deaf_to_interrupts():
                process.start()
            theirs.close()
            processes[ours] = process
        for connection in processes:
            # one that is gone already is found below
            with suppress(OSError):
                connection.send_bytes(package)
        result = _listen(processes, hear)
    except BaseException:
        for one in processes.values():
            one.terminate()
        raise
    finally:
        deadline = time.monotonic() + GRACE_SECONDS
        for one in processes.values():
            one.join(max(0.0, deadline - time.monotonic()))
            one.kill()
            one.join()
    return result


def _check_may_start() -> None:
    """Refuse to start processes from one that is only just being started, or that may have none."""
    process = multiprocessing.current_process()
    check_guarded()
    if process.daemon:
        raise UsageError("a worker process can't start processes of its own; use one of --workers and --processes")


def _listen(processes: dict[Connection, BaseProcess], hear: Callable[[Any], None]) -> Any:
    """What the first process gives; others may still be on their way to their end."""
    first, finished = next(iter(processes)), set[Connection]()
    while True:
        for ready in wait([one for one in processes if one not in finished]):
            assert isinstance(ready, Connection)
            try:
                kind, value = _receive(ready)
            except (EOFError, OSError):
                raise _cause(processes, finished, []) from None
            if kind == _FAILED:
                raise _cause(processes, finished | {ready}, [value])
            if kind == _TOLD:
                hear(value)
            elif ready is first:
                return value
            else:
                finished.add(ready)


def _cause(
    processes: dict[Connection, BaseProcess], finished: set[Connection], failures: list[tuple[float, Exception]]
) -> Exception:
    """What went wrong first: a process that died without a word, or else what was raised before anything else.

    That others are gone is how a process notices that one was killed, so that what it raises comes after.
    """
    # what was sent to all processes of a terminal or a job reaches this one as an interruption, a moment later
    time.sleep(SETTLE_SECONDS)
    silent = []
    for rank, (connection, process) in enumerate(processes.items()):
        last = None if connection not in finished else _DONE
        with suppress(EOFError, OSError):
            while last is None and connection.poll():
                kind, value = _receive(connection)
                failures += [value] if kind == _FAILED else []
                last = None if kind == _TOLD else kind
        if last is None:
            silent.append((rank, process.exitcode))
    dead = [(rank, code) for rank, code in silent if code is not None]
    if not dead and failures:
        return min(failures, key=lambda failure: failure[0])[1]
    rank, code = (dead or silent)[0]
    if code == UNGUARDED:
        return UsageError(UNGUARDED_SENTENCE)
    return ProcessLost(rank, describe_exit(code))


def _receive(connection: Connection) -> tuple[int, Any]:
    kind, value = pickle.loads(connection.recv_bytes())  # noqa: S301  (from a process that we have started)
    return kind, value


def _take_part(rank: int, connection: Connection) -> None:
    """The life of a process: a task in, what it tells and gives out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    keep_freed_memory()

    def send(kind: int, value: Any) -> None:
        connection.send_bytes(pickle.dumps((kind, value)))

    try:
        with terminate_as_interrupt():
            result = _load(connection.recv_bytes())(rank, lambda message: send(_TOLD, message))
            send(_DONE, result if rank == 0 else None)
    except KeyboardInterrupt:
        # what was open is closed; the end itself is that which was asked for
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        _leave()
    except Exception as error:  # noqa: BLE001  (raised again where the work was asked for)
        with suppress(OSError):
            send(_FAILED, (time.monotonic(), sendable(error)))
        _leave()


def _load(package: bytes) -> Callable[[int, Tell], Any]:
    try:
        task: Callable[[int, Tell], Any] = pickle.loads(package)  # noqa: S301  (from the process that started us)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"what is sent to several processes can't be loaded there ({error}): define its classes in a file that can "
            "be imported"
        ) from error
    return task


def _leave() -> None:
    """End now: what is torn down in the usual way may wait for processes that are gone."""
    sys.stderr.flush()
    os._exit(1)


def _end_with_parent() -> None:
    """Let this process end with the one that has started it, however that ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
