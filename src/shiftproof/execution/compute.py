"""Where and how to compute: one value, from the command line and Python down to the engine."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from shiftproof.errors import UnknownName, UsageError
from shiftproof.execution.arguments import check_count
from shiftproof.execution.bf16 import require_bf16

if TYPE_CHECKING:
    import torch

__all__ = ["HERE", "Backend", "Compute", "Precision", "TrainingPrecision", "find_device"]

Precision = Literal["f32", "bf16", "tf32"]
"""Numbers in which a network computes; tf32 (ten bits of a product's factors) is there on accelerators alone."""
TrainingPrecision = Literal["f32", "bf16"]
"""Numbers in which an attack inside a training step computes."""
Backend = Literal["torch", "openvino"]
"""What runs the network."""


@dataclass(frozen=True)
class Compute:
    """Where and how to compute.

    Of these, precision, backend and the kind of device are part of what is certified; the others change no result.

    Args:
        device: auto (an accelerator if there is one, else the CPU), cpu, cuda, cuda:1 ...
        precision: f32, bf16, or on an accelerator tf32.
        backend: torch, or openvino on the CPU.
        workers: Single-threaded processes for long work on a CPU; an accelerator is used by one process.
        cluster: None; "ray", a cluster that is started here or that this machine belongs to; "ray://HOST", one that is
            joined over the network.

    >>> Compute(workers=2).alone()
    Compute(device='auto', precision='f32', backend='torch', workers=1, cluster=None)
    """

    device: str = "auto"
    precision: Precision = "f32"
    backend: Backend = "torch"
    workers: int = 1
    cluster: str | None = None

    def __post_init__(self) -> None:
        check_count("workers", self.workers)
        if self.precision not in get_args(Precision):
            raise UnknownName("precision", str(self.precision), get_args(Precision))
        if self.backend not in get_args(Backend):
            raise UnknownName("backend", str(self.backend), get_args(Backend))
        if self.cluster is not None and not _names_cluster(self.cluster):
            raise UsageError(
                f"the cluster is {self.cluster!r}; it should be 'ray', or 'ray://HOST[:PORT]' for one elsewhere"
            )

    def check(self) -> Compute:
        """The same, if there is such a device, precision, backend and cluster here; bf16 is tried in a child first."""
        place = self.place
        if self.backend == "openvino" and importlib.util.find_spec("openvino") is None:
            raise UsageError("backend 'openvino' needs the package openvino: pip install 'shiftproof[fast]'")
        if self.backend == "openvino" and place.type != "cpu":
            raise UsageError(f"backend 'openvino' computes on the CPU, not on {place}: give --device cpu")
        if self.precision == "bf16" and self.backend == "torch" and place.type == "cpu":
            require_bf16()
        if self.precision == "tf32" and place.type == "cpu":
            raise UsageError("precision 'tf32' is one of accelerators, and this computes on the CPU: give f32 or bf16")
        if self.cluster is not None and importlib.util.find_spec("ray") is None:
            raise UsageError("a cluster needs the package ray: pip install 'shiftproof[distributed]'")
        return self

    @property
    def place(self) -> torch.device:
        """The device."""
        return find_device(self.device)

    @property
    def kind(self) -> str:
        """The kind of the device: cpu, cuda ..."""
        return self.place.type

    @property
    def processes(self) -> int:
        """How many processes of this machine share the work: on an accelerator one."""
        return self.workers if self.workers > 1 and self.place.type == "cpu" else 1

    @property
    def spread(self) -> bool:
        """Whether work may leave this process."""
        return self.cluster is not None or self.processes > 1

    def alone(self) -> Compute:
        """The same, in this process."""
        return replace(self, workers=1, cluster=None)

    @contextmanager
    def exact_products(self) -> Iterator[None]:
        """Inside the block an accelerator multiplies numbers of 32 bits as such, unless tf32 is what was asked for.

        Convolutions of cuDNN round their factors to ten bits unless told.
        """
        if self.place.type == "cpu":
            yield
            return
        import torch

        wanted = "tf32" if self.precision == "tf32" else "ieee"
        switches: list[Any] = [torch.backends.cuda.matmul, torch.backends.cudnn]
        name: str = "allow_tf32"
        if hasattr(torch.backends.cudnn, "conv"):  # newer torch has a switch for each, and forbids to mix the two kinds
            switches = [torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn]
            name = "fp32_precision"
        before = [getattr(switch, name) for switch in switches]
        try:
            for switch in switches:
                setattr(switch, name, wanted if name == "fp32_precision" else wanted == "tf32")
            yield
        finally:
            for switch, value in zip(switches, before, strict=True):
                setattr(switch, name, value)


HERE = Compute(device="cpu")
"""In this process, on the CPU."""


def find_device(name: str) -> torch.device:
    """The device called `name`; `auto` is an accelerator if there is one, else the CPU."""
    import torch

    if not isinstance(name, str | torch.device):
        raise UsageError(f"the device is {name!r}; it should be a name such as 'cpu', 'cuda' or 'auto'")
    if name != "auto":
        try:
            # there and back: some devices hold no numbers
            found = torch.zeros(1, device=name)
            found.cpu()
        except Exception as error:  # torch raises whatever a backend that is not there raises
            there = ", ".join(dict.fromkeys(["cpu", *_accelerators()]))
            raise UsageError(f"can't compute on the device {name!r}; this machine has: {there}") from error
        if found.device.type == "cpu" and torch.device(name).index:
            raise UsageError(f"can't compute on the device {name!r}: there is one CPU; write --device cpu")
        return found.device
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return accelerator or torch.device("cpu")


def _accelerators() -> list[str]:
    import torch

    if not torch.accelerator.is_available():
        return []
    kind = str(torch.accelerator.current_accelerator(check_available=True))
    return [kind, *(f"{kind}:{number}" for number in range(torch.accelerator.device_count()))]


def _names_cluster(text: object) -> bool:
    return isinstance(text, str) and (text == "ray" or (text.startswith("ray://") and len(text) > len("ray://")))
