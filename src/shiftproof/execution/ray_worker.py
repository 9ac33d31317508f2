"""What runs on a cluster: shards of a task, and the place where what they find waits for whoever asked."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import socket
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

from shiftproof.errors import StorageError
from shiftproof.execution.packing import unpack
from shiftproof.execution.workers import sendable

__all__ = ["Mailbox", "describe_node", "run_shard"]

POST_SECONDS = 0.2
"""What is found is sent at most so often."""
_KEPT = 4
_tasks: OrderedDict[str, Any] = OrderedDict()
"""Tasks that this process has unpacked: the next shard finds its model prepared."""

Post = tuple[int, int, list[Any]]
"""A shard, the number of the first of these parts, and parts."""


class Mailbox:
    """Holds parts until they are collected. A shard that is run again sends the same parts with the same numbers."""

    def __init__(self) -> None:
        self._posts: dict[str, list[Post]] = {}

    async def post(self, job: str, shard: int, first: int, parts: list[Any]) -> None:
        """Take parts of a shard."""
        self._posts.setdefault(job, []).append((shard, first, parts))

    async def collect(self, job: str, seconds: float) -> list[Post]:
        """All that has come for a job; waits a moment if there is nothing."""
        end = time.monotonic() + seconds
        while not self._posts.get(job) and time.monotonic() < end:
            await asyncio.sleep(0.02)
        return self._posts.pop(job, [])

    async def alive(self) -> bool:
        """Whether it answers."""
        return True


def run_shard(package: bytes, references: list[Any], job: str, shard: int, mailbox: Any, threads: int) -> Any:
    """Run a shard and send its parts; the number of parts, or what went wrong."""
    import ray
    import torch

    from shiftproof.execution.memory import keep_freed_memory

    sent, waiting, last = 0, list[Any](), time.monotonic()

    def send() -> int:
        # answered before more is computed: what is counted as sent has arrived
        ray.get(mailbox.post.remote(job, shard, sent, waiting))
        return len(waiting)

    try:
        torch.set_num_threads(threads)
        if job not in _tasks:
            keep_freed_memory()
            _tasks[job] = unpack(package, ray.get(references))
            while len(_tasks) > _KEPT:
                _tasks.popitem(last=False)
        for part in _tasks[job](shard):
            waiting.append(part)
            if time.monotonic() - last >= POST_SECONDS:
                sent += send()
                waiting, last = [], time.monotonic()
        return sent + (send() if waiting else 0)
    except ray.exceptions.RayError:
        # the cluster itself fails: another attempt is its own affair
        raise
    except Exception as error:  # noqa: BLE001  (raised again where the work was asked for)
        return _with_place(error)


def describe_node() -> dict[str, str]:
    """What has to be the same on all nodes for one result, and what they are called."""
    import numpy as np
    import torch

    return {
        "host": socket.gethostname(),
        "processor": torch.backends.cpu.get_cpu_capability(),
        "shiftproof": _hash_of_code(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def _hash_of_code() -> str:
    """Of all modules of this package: two checkouts may have one version number."""
    root, digest = Path(__file__).parents[1], hashlib.blake2b(digest_size=6)
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def _with_place(error: Exception) -> Exception:
    """What went wrong with a disk of a node is told with the node's name."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            return StorageError(
                f"the node {socket.gethostname()} of the cluster can't write: {cause.strerror}; make room there, and "
                "run the same command again: what is finished is kept"
            )
        cause = cause.__cause__ or cause.__context__
    return sendable(error)
