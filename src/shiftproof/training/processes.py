"""Training in several processes, by torch's DistributedDataParallel."""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from shiftproof.errors import TrainingError, UsageError
from shiftproof.execution import pickled
from shiftproof.execution.ranks import ProcessLost, Tell, run_ranks
from shiftproof.models.hashes import fingerprint
from shiftproof.models.placement import CPU
from shiftproof.training.batches import Batches
from shiftproof.training.descent import descend
from shiftproof.training.job import Done, Job
from shiftproof.training.machine import input_type
from shiftproof.training.team import Ranks

__all__ = ["connected", "descend_together"]

PATIENCE = timedelta(days=1)
"""How long a process waits for the others, while the first measures, say: that one has died is noticed otherwise."""


def descend_together(job: Job, devices: list[torch.device], advance: Callable[[str], None]) -> Done:
    """Train in as many processes as there are devices; the job's model stays as it is."""
    size = len(devices)
    with tempfile.TemporaryDirectory(prefix="shiftproof-") as folder:
        package = pickled(_Part(job, devices, str(Path(folder) / "store")))
        if package is None:
            raise UsageError(
                f"the model, the objective or the data can't be sent to {size} processes: define their classes and "
                "functions in a file that can be imported, not in a notebook or inside a function; or leave processes "
                "out"
            )
        try:
            done: Done = run_ranks(package, size, advance)
        except ProcessLost as lost:
            kept = "What the last checkpoint holds is kept; run" if job.checkpoint is not None else "Run"
            raise TrainingError(
                f"process {lost.rank} of the {size} that train {lost.how}. {kept} the same command again."
            ) from lost
    return done


@dataclass(frozen=True, eq=False)
class _Part:
    """What each of the processes does; they find each other through a file at `store`."""

    job: Job
    devices: list[torch.device]
    store: str

    def __call__(self, rank: int, tell: Tell) -> Done | None:
        size, device, job = len(self.devices), self.devices[rank], self.job
        torch.set_num_threads(job.state.threads)
        with connected(self.store, rank, size, device):
            job = replace(job, model=_placed(job.model, device), device=device)
            team = Ranks(rank, size)
            team.check_same("before the first step", lambda: _facts(job))
            done = descend(job, team, tell if rank == 0 else lambda _: None)
        # what only a resume needs
        done.state.model, done.state.optimiser = {}, {}
        return done if rank == 0 else None


@contextmanager
def connected(store: str, rank: int, size: int, device: torch.device) -> Iterator[None]:
    """In the group of processes that train: gloo for what is on the CPU, torch's choice for accelerators."""
    # processes of one machine meet at its loopback, whatever networks it has or lacks
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _loopback())
    backend = "gloo"
    if device.type != "cpu":
        torch.accelerator.set_device_index(rank)
        backend = f"cpu:gloo,{device.type}:{dist.get_default_backend_for_device(device)}"
    meeting = dist.FileStore(store, size)  # type: ignore[attr-defined]  # not in the list of what torch exports
    dist.init_process_group(backend, store=meeting, rank=rank, world_size=size, timeout=PATIENCE)
    yield
    # after an error the others may be gone, and to wait for them would take for ever
    dist.barrier()
    dist.destroy_process_group()


def _loopback() -> str:
    """The name of the interface that reaches this machine alone: lo, or lo0."""
    return next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), "lo")


def _placed(model: nn.Module, device: torch.device) -> nn.Module:
    """The model on its device; on accelerators, BatchNorm takes the statistics of all processes."""
    if device.type == "cpu":
        return model
    placed: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model).to(device)  # type: ignore[no-untyped-call]
    return placed


def _facts(job: Job) -> Mapping[str, str]:
    """What must be the same in all processes for their work to be one training."""
    batches = Batches(
        job.sources, job.plan.batch, job.seed, CPU, job.layout, input_type(job.model), augment=job.plan.augment
    )
    batch = batches[job.state.step]
    read = hashlib.sha256(batch.inputs.contiguous().numpy().tobytes() + batch.labels.numpy().tobytes())
    return {
        "initial weights": fingerprint(job.model),
        "data": " ".join(domain.fingerprint for domain in job.sources),
        "samples of a minibatch": read.hexdigest(),
        "objective": repr(job.objective),
        "recipe": f"{job.plan!r}, seed {job.seed}, step {job.state.step}",
        "torch": torch.__version__,
        "threads": str(torch.get_num_threads()),
    }
