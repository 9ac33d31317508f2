"""The processes that train one model: what each has of a minibatch, and what they must agree on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from shiftproof.errors import TrainingError
from shiftproof.objectives import Objective
from shiftproof.types import Batch, Loss, Share

__all__ = ["Ranks", "Team"]

T = TypeVar("T")
LossOf = Callable[[Batch, torch.Generator], Loss]


class Team:
    """One process that trains alone."""

    rank, size = 0, 1
    keys: tuple[int, ...] = ()
    """What keys the draws of layers such as dropout, besides seed and step."""

    def held(self, count: int) -> slice:
        """Which of the `count` samples of a domain's minibatch this process has: parts that differ by one at most."""
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)

    def share(self, sizes: tuple[int, ...]) -> Share | None:
        """What this process has of minibatches of such sizes; None if that is all."""
        return None

    def loss_of(self, model: nn.Module, objective: Objective) -> LossOf:
        """The objective's loss, whose gradient is that of the whole minibatch."""
        return partial(objective.loss, model)

    def from_first(self, make: Callable[[], T]) -> T:
        """What the first process makes, in all of them."""
        return make()

    def decide(self, wanted: bool) -> bool:
        """What the first process wants."""
        return wanted

    def check_same(self, when: str, facts: Callable[[], Mapping[str, str]]) -> None:
        """Refuse to go on unless all processes have the same facts."""


class Ranks(Team):
    """One of `size` processes, in torch's default process group."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size, self.keys = rank, size, (rank,)

    def share(self, sizes: tuple[int, ...]) -> Share:
        """Starts of this process's parts, and sums over all processes."""
        return Share(tuple(self.held(size).start for size in sizes), sizes, self._total)

    def _total(self, sums: Tensor) -> Tensor:
        total: Tensor = _Total.apply(sums)  # type: ignore[no-untyped-call]
        return total

    def loss_of(self, model: nn.Module, objective: Objective) -> LossOf:
        """Torch averages gradients, and gives all processes the buffers of the first before each loss."""
        # unused parameters are looked for: a model may have some, and buckets then are the same after a resume
        inner = _LossModule(model, objective)
        wrapped = DistributedDataParallel(inner, find_unused_parameters=True)

        def loss_of(batch: Batch, generator: torch.Generator) -> Loss:
            total = wrapped(batch, generator)
            assert inner.loss is not None
            inner.loss.total = total
            return inner.loss

        return loss_of

    def from_first(self, make: Callable[[], T]) -> T:
        """What the first process makes; it is sent to the others."""
        box: list[Any] = [make() if self.rank == 0 else None]
        dist.broadcast_object_list(box)
        made: T = box[0]
        return made

    def decide(self, wanted: bool) -> bool:
        """What the first process wants; it is sent to the others."""
        flag = torch.tensor([wanted], dtype=torch.uint8)  # on the CPU: gloo sends it
        dist.broadcast(flag, 0)
        return bool(flag)

    def check_same(self, when: str, facts: Callable[[], Mapping[str, str]]) -> None:
        """Compare the facts of all processes with those of the first; in each of them, the same error."""
        all_facts: list[Any] = [None] * self.size
        dist.all_gather_object(all_facts, facts())
        for rank, other in enumerate(all_facts):
            if changed := [name for name, value in all_facts[0].items() if other.get(name) != value]:
                raise TrainingError(
                    f"the processes that train do not agree {when}: process {rank} has other {', '.join(changed)} than "
                    "process 0. Nothing was written of this; run the same command again, or with --processes 1."
                )


class _LossModule(nn.Module):
    """A loss as the forward pass of a module, so that torch's wrapper sees one pass a step.

    A loss may ask a model several times, in other modes, in part, or in a copy; the wrapper is for a module that is
    called once between two backward passes.
    """

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective
        self.loss: Loss | None = None
        """That of the last pass, with all its parts."""
        # torch looks for unused parameters, and warns where it finds none
        self.unused = nn.Parameter(torch.zeros(1))  # on the CPU: moved with the module

    def forward(self, batch: Batch, generator: torch.Generator) -> Tensor:
        self.loss = self.objective.loss(self.model, batch, generator)
        return self.loss.total


class _Total(torch.autograd.Function):
    """The sum over all processes.

    Every process has the whole loss, made of such sums. Slopes are summed as values are: what another process makes of
    a sum depends on this one's samples, too. So each has the gradient of all their losses, of which torch's wrapper
    takes the mean: that of one loss.
    """

    @staticmethod
    def forward(_: Any, values: Tensor) -> Tensor:
        return _summed(values)

    @staticmethod
    def backward(_: Any, slopes: Tensor) -> Tensor:
        return _summed(slopes)


def _summed(values: Tensor) -> Tensor:
    summed = values.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(summed)
    return summed
