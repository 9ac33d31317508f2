"""Models, objectives and tasks for several processes, in a file that each of them can load."""

import os
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.domains import Domains, train_part
from shiftproof.errors import TrainingError
from shiftproof.objectives import OBJECTIVES, Objective
from shiftproof.rng import torch_generator
from shiftproof.training.batches import Batches
from shiftproof.training.processes import connected
from shiftproof.training.team import Ranks, Team
from shiftproof.types import Batch, Loss

SIZE, BATCH, STEPS = 2, 7, 3
"""A minibatch of seven: of the shares one is larger, and neither is a half."""
OPTIONS: dict[str, dict[str, Any]] = {
    **{name: {"threat": "l2:0.5", "steps": 2} for name in ("adversarial-training", "adversarial-augmentation")},
    **{name: {"threat": "l2:0.5", "steps": 2} for name in ("trades", "transfer-adv", "transfer-adv-d")},
    **{name: {"steps": 2} for name in ("smoothadv", "transfer-adv-s")},
    **{name: {"anneal": 1, "weight": 10.0} for name in ("irm", "v-rex")},
    "glean": {"anneal": 1, "irm_weight": 10.0},
    "macer": {"beta": 4.0},
}
"""Attacks in l2, because the sign of a number that should be 0 is one of rounding; penalties that count."""


def objective(name: str) -> Objective:
    """An objective by name; "NAME of texts" attacks embeddings."""
    if name.endswith(" of texts"):
        name = name.removesuffix(" of texts")
        return OBJECTIVES.create(name, {"threat": "embedding-l2:1.0", "steps": 2, "random_start": name == "trades"})
    return OBJECTIVES.create(name, OPTIONS.get(name, {}))


def descend_by(name: str, team: Team) -> dict[str, Any]:
    """Weights, losses and memory after a few steps of SGD in double precision."""
    method = objective(name)
    text = method.kind == "text" or name.endswith(" of texts")
    sources = _sources("signed-reviews" if text else "colored-digits")
    model = sp.build_model("text-cnn" if text else "mlp", sources).double()
    parts = [train_part(domain) for domain in sources]
    batches = Batches(parts, BATCH, 0, torch.device("cpu"), dtype=torch.float64, team=team)
    optimiser, loss_of = torch.optim.SGD(model.parameters(), lr=0.05), team.loss_of(model, method)
    losses, memory = [], dict[str, Tensor]()
    for step in range(STEPS):
        loss = loss_of(replace(batches[step], memory=memory), torch_generator(0, "objective", step))
        optimiser.zero_grad()
        loss.total.backward()
        optimiser.step()
        memory = loss.memory
        losses += [float(loss.total.detach()), *map(float, loss.parts.values())]
    return {"weights": {key: one.detach() for key, one in model.named_parameters()}, "losses": losses, "memory": memory}


def _sources(name: str) -> Domains:
    return sp.load_domains(name).leave_out("e=0.9")[0]


@dataclass(frozen=True)
class Descents:
    """Steps of many objectives in one group of processes; and what is said of processes that differ."""

    names: list[str]
    store: str

    def __call__(self, rank: int, tell: Any) -> dict[str, Any]:
        torch.set_num_threads(1)
        with connected(self.store, rank, SIZE, torch.device("cpu")):
            team = Ranks(rank, SIZE)
            found = {name: descend_by(name, team) for name in self.names}
            for name, one in found.items():
                for key, value in one["memory"].items():
                    team.check_same(name, lambda key=key, value=value: {key: repr(value.tolist())})
            team.check_same("now", lambda: {"weights": "a"})
            try:
                team.check_same("after step 3", lambda: {"data": "b", "weights": str(rank)})
            except TrainingError as error:
                found["disagreement"] = str(error)
        return found


class Forgetful(nn.Module):
    """A network that is another one in every process."""

    def __init__(self, sources: Domains) -> None:
        super().__init__()
        self.inner = sp.build_model("mlp", sources, width=8)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.inner(inputs)
        return outputs

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        with torch.no_grad():
            next(self.parameters()).add_(os.getpid())


@dataclass(frozen=True)
class Drifting(sp.objectives.ERM):
    """ERM whose second process changes a weight at a step, as a fault of a machine would."""

    at: int = 7

    splits: ClassVar[bool] = True

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        if batch.step == self.at and batch.share is not None and batch.share.starts[0] > 0:
            with torch.no_grad():
                next(model.parameters()).flatten()[0] += 1e-3
        return super().loss(model, batch, generator)
