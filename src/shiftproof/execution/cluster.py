"""Shards on a Ray cluster: tasks that are retried where a worker or a node is lost, to the identical result."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from shiftproof.errors import ShiftproofError, StorageError, UsageError
from shiftproof.execution.compute import Compute
from shiftproof.execution.packing import Packer
from shiftproof.execution.ray_session import open_session
from shiftproof.execution.ray_worker import Mailbox, run_shard

__all__ = ["cluster_slots", "describe_cluster", "given_up_together", "go_on", "join_cluster", "run_on_cluster"]

R = TypeVar("R")
RETRIES = 8
"""How often a shard is tried again whose worker or node is lost."""
COLLECT_SECONDS = 0.5


class _Cluster:
    """The cluster that this process is connected to: what is stored there, and where parts wait."""

    def __init__(self, name: str) -> None:
        import ray
        from ray import cloudpickle

        self.ray, self.name = ray, name
        self.packer = Packer(cloudpickle.CloudPickler, ray.put)
        self.mailbox = self._open_mailbox()

    def replace_mailbox(self, lost: Any) -> None:
        """Open another mailbox in place of one that is lost, unless another thread has done so already."""
        with _connecting:
            if self.mailbox is lost:
                self.mailbox = self._open_mailbox()

    def _open_mailbox(self) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

        # beside the process that asks, and nowhere else: a node that is lost does not take it along
        here = On(self.ray.get_runtime_context().get_node_id(), soft=False)
        actor = self.ray.remote(num_cpus=0, max_concurrency=1_000)(Mailbox)
        mailbox = actor.options(scheduling_strategy=here).remote()
        self.ray.get(mailbox.alive.remote())
        return mailbox

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """The nodes that answer."""
        return [node for node in self.ray.nodes() if node["Alive"]]

    def cores(self) -> list[int]:
        """Of each node."""
        return [int(node["Resources"].get("CPU", 0)) for node in self.nodes]


_connected: list[_Cluster] = []
_connecting, _given_up = threading.Lock(), threading.Event()


def join_cluster(compute: Compute) -> _Cluster:
    """The cluster that `compute` names; it is started or joined once, and left when this process ends."""
    with _connecting:
        if _connected and not _connected[0].ray.is_initialized():
            _connected.clear()
        if not _connected:
            open_session(compute)
            _connected.append(_Cluster(str(compute.cluster)))
        if _connected[0].name != compute.cluster:
            raise UsageError(
                f"this process has joined the cluster {_connected[0].name!r} already, and can't join "
                f"{compute.cluster!r} too; start another process for that"
            )
        return _connected[0]


def describe_cluster(compute: Compute) -> str:
    """How large the cluster is, in words."""
    cores = join_cluster(compute).cores()
    nodes = f"{len(cores)} node{'s' if len(cores) > 1 else ''}"
    return f"{nodes} of {sum(cores)} core{'s' if sum(cores) > 1 else ''} in all"


def cluster_slots(compute: Compute) -> int:
    """How many shards of one thread run at the same time."""
    return max(1, sum(join_cluster(compute).cores()))


def run_on_cluster(
    task: Callable[[int], Iterable[R]], shards: list[int], compute: Compute, threads: int = 1
) -> Iterator[tuple[int, R]]:
    """Yield (shard, part) for every part that `task(shard)` yields, as `run_shards` does.

    The task is sent once, and its large tensors are stored once for all tasks. A shard of which a part of the parts has
    come before its worker was lost runs again from its start; what has come already is not yielded a second time.
    """
    if not shards:
        return
    cluster = join_cluster(compute)
    ray = cluster.ray
    package, references = _packed(cluster, task)
    # a task that asks for more than any node has would wait for ever
    resources = {"num_cpus": min(threads, max(cluster.cores(), default=1)), "max_retries": RETRIES}
    if compute.kind != "cpu":
        resources["num_gpus"] = 1
    run, arguments = ray.remote(**resources)(run_shard), (ray.put(package), references, secrets.token_hex(8))
    received, left = dict.fromkeys(shards, 0), set(shards)
    try:
        for attempt in range(RETRIES + 1):
            mailbox = cluster.mailbox
            try:
                waiting = {run.remote(*arguments, shard, mailbox, threads): shard for shard in shards if shard in left}
                yield from _collect(ray, mailbox, arguments[-1], waiting, received, left)
                return
            except ray.exceptions.RayActorError:
                # what it held is lost with it: shards that are not finished are run again
                if attempt == RETRIES:
                    raise
                cluster.replace_mailbox(mailbox)
    except ray.exceptions.RayError as error:
        raise _in_a_sentence(error) from error


def _collect(
    ray: Any, mailbox: Any, job: str, waiting: dict[Any, int], received: dict[int, int], left: set[int]
) -> Iterator[tuple[int, Any]]:
    """What running shards send, once each; `received` counts parts, and a shard that is finished leaves `left`."""
    try:
        while waiting:
            if _given_up.is_set():
                raise ShiftproofError("the work was given up because other work failed")
            done, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=0.0)
            # what a finished shard has sent is here by now
            for shard, first, parts in ray.get(mailbox.collect.remote(job, 0.0 if done else COLLECT_SECONDS)):
                fresh = parts[max(0, received[shard] - first) :]
                received[shard] = max(received[shard], first + len(parts))
                yield from ((shard, part) for part in fresh)
            for ref in done:
                outcome, shard = ray.get(ref), waiting.pop(ref)
                if isinstance(outcome, Exception):
                    raise outcome
                assert received[shard] == outcome
                left.remove(shard)
    finally:
        for ref in waiting:
            ray.cancel(ref, force=True)


@contextmanager
def given_up_together() -> Iterator[None]:
    """Inside the block, let shards that other threads wait for end at once if anything fails."""
    try:
        yield
    except BaseException:
        _given_up.set()
        raise


def go_on() -> None:
    """After work that was given up has ended."""
    _given_up.clear()


def _packed(cluster: _Cluster, task: object) -> tuple[bytes, list[Any]]:
    try:
        return cluster.packer.pack(task)
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")
        raise UsageError(
            f"the work can't be sent to the cluster ({type(error).__name__}: {reason}); leave --cluster out, or keep "
            "locks, open files and generators out of the model"
        ) from error


def _in_a_sentence(error: Exception) -> ShiftproofError:
    kind = type(error).__name__
    if kind == "OutOfDiskError":
        return StorageError("a disk of the cluster is full; make room there, and run the same command again")
    cause = getattr(error, "cause", None)
    if cause is not None:
        return ShiftproofError(f"a worker of the cluster failed: {type(cause).__name__}: {cause}")
    return ShiftproofError(
        f"the cluster lost a worker {RETRIES + 1} times over ({kind}). What is finished is kept; run the same command "
        "again, on nodes with more memory"
    )
