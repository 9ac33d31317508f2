"""Inputs whose representation comes near an adversarial one (document 004), within a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Interval
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftproof.attacks.ascent import climb, direction
from shiftproof.attacks.attack import Data, attack_samples, check_eps, check_victim
from shiftproof.attacks.contract import ATTACKS, Attack
from shiftproof.attacks.pgd import Best, in_range
from shiftproof.attacks.representation import adversarial_representation, class_distance, linear_head, mean_of, share_of
from shiftproof.attacks.victim import Base, Victim, frozen, max_batch_size
from shiftproof.domains import one_domain
from shiftproof.errors import ModelError, UsageError
from shiftproof.execution import Mode, progress_bar
from shiftproof.models.gradients import gradient_copy
from shiftproof.perturbations.threat import Ball, ThreatOption, project
from shiftproof.rng import checked_seed
from shiftproof.types import Estimate, FloatArray, IntArray, NonNegative, Positive

__all__ = ["InputSearch", "Searched", "search_inputs", "search_samples"]


@ATTACKS.register(
    "input-search",
    paper="Provably Robust Transfer, 2022",
    cost="steps + 2 forward, steps backward a sample",
    needs="a SplitModel with a head of one linear layer",
)
@dataclass(frozen=True)
class InputSearch(Attack):
    """Gradient descent from an input towards one whose representation is the nearest that another class wins.

    Minimises the l1 distance to that representation, which is `margin` of the way beyond the boundary, plus
    `regulariser` times the squared l2 norm of the change. Steps are the steepest in the threat's norm, `lr` long at
    first but no longer than the radius, and shrink to 0. The document has no budget: with enough steps any input
    becomes any other, so that what can be reached is a question of eps.
    """

    threat: ThreatOption
    steps: Positive = 1_000
    lr: Annotated[float, Interval(gt=0, lt=math.inf)] = 0.05
    regulariser: NonNegative = 0.1
    margin: NonNegative = 0.1
    clip: bool = True
    early_exit: bool = True

    @property
    def passes(self) -> int:
        """Passes of the encoder for one sample, at most."""
        return self.steps + 2

    def run(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Tensor:
        """The first inputs on the way that are misclassified, else those nearest to the aim."""
        if not isinstance(victim, Base):
            raise ModelError(f"input-search needs the classifier itself, not its {victim.classifier} form; use pgd")
        encoder, weight, bias = linear_head(victim.model)
        encoder = gradient_copy(encoder, inputs)
        head = [torch.from_numpy(part).to(inputs.device) for part in (weight, bias)]
        with torch.no_grad():
            start = _encode(encoder, inputs).double()
        found = adversarial_representation(weight, bias, start.cpu().numpy())
        aims = start + (1 + self.margin) * torch.from_numpy(found.change).to(start)
        best, rows = Best(inputs), torch.from_numpy(np.flatnonzero(found.found)).to(inputs.device)

        def note(some: Tensor, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            own, points = rows[some], points.detach().requires_grad_()
            with torch.enable_grad():
                z = _encode(encoder, points).double()
                change = (points - inputs[own]).double()
                losses = (aims[own] - z).abs().sum(1) + self.regulariser * change.flatten(1).square().sum(1)
            wrong = (z.detach() @ head[0].T + head[1]).argmax(1) != labels[own]
            best.update(own, points, -losses.detach(), wrong)
            return points, losses, wrong

        def evaluate(some: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
            points, losses, wrong = note(some, points)
            (gradient,) = torch.autograd.grad(losses.sum(), points)
            if not bool(gradient.isfinite().all()):
                raise ModelError("the gradient of a representation with respect to the input is not finite")
            return gradient, wrong

        def move(some: Tensor, points: Tensor, gradient: Tensor, number: int) -> Tensor:
            own = rows[some]
            length = eps[own].clamp(max=self.lr) * (1 - number / self.steps)
            step = length.reshape(-1, *[1] * (inputs.ndim - 1)) * direction(gradient, self.threat.norm, "steepest")
            moved = project(points - inputs[own] - step, self.threat.norm, eps[own])
            return in_range(inputs[own] + moved, self.clip)

        some, points = climb(inputs[rows], self.steps, evaluate, move, leaves=self.early_exit)
        if len(some):
            note(some, points)
        return best.points


@dataclass(frozen=True, eq=False)
class Searched:
    """Samples after a search for inputs that change the prediction, right or wrong, within one budget.

    Distances (N) are between the input and what was found (`x_...`), and between their representations (`z_...`).
    """

    threat: Ball
    ids: NDArray[np.object_]
    units: NDArray[np.object_]
    before: IntArray
    after: IntArray
    x_l2: FloatArray
    x_linf: FloatArray
    z_l2: FloatArray
    z_linf: FloatArray
    z: FloatArray

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Where the prediction is another one."""
        mask: NDArray[np.bool_] = self.before != self.after
        return mask

    @cached_property
    def reachable(self) -> Estimate:
        """p_x at this budget: the part of samples whose prediction was changed."""
        return share_of(self.changed, self.units)

    @cached_property
    def metrics(self) -> dict[str, Estimate]:
        """Mean distances over samples whose prediction was changed.

        Those of representations also over the length of the one before, and over the mean distance of class means: an
        encoder that shrinks everything is not less robust.
        """
        columns = {name: getattr(self, name) for name in ("x_l2", "x_linf", "z_l2", "z_linf")}
        with np.errstate(divide="ignore", invalid="ignore"):
            columns["z_l2 over length"] = self.z_l2 / np.linalg.norm(self.z, axis=1)
            columns["z_l2 over class distance"] = self.z_l2 / class_distance(self.z, self.before)
        some = self.changed
        return {
            name: mean_of(values[some], self.units[some])
            for name, values in columns.items()
            if some.any() and np.isfinite(values[some]).all()
        }

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Searched({self.threat}: {self.reachable.format()} of {len(self)} predictions changed)"

    @classmethod
    def joined(cls, parts: Sequence[Searched]) -> Searched:
        """Of several blocks of samples, one after the other."""
        names = ("ids", "units", "before", "after", "x_l2", "x_linf", "z_l2", "z_linf", "z")
        columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return replace(parts[0], **columns)


def search_inputs(
    model: nn.Module,
    data: Data,
    attack: Attack,
    *,
    eps: Sequence[float] | None = None,
    seed: int = 0,
    progress: Mode = "auto",
) -> list[Searched]:
    """Search from every sample of `data`, a domain or a pair (inputs, labels), for an input with another prediction.

    One answer for each of `eps`, in their order, or for the attack's own; labels are not used. `attack` may be an
    `InputSearch`, or any other on pixels to compare it with.
    """
    asked = [attack.threat.eps] if eps is None else [float(one) for one in eps]
    if not asked:
        raise UsageError("there is no eps in the list")
    for one in asked:
        check_eps(attack.threat.at(one))
    linear_head(model)
    domain, budgets = one_domain(data, "search"), sorted(set(asked))
    domain.inputs.prepare()
    check_victim(Base(model), domain)
    parts: list[list[Searched]] = []
    with progress_bar("searching", len(domain), progress) as bar:
        for block in domain.blocks:
            inputs = domain.take(block)[0]
            found = search_samples(
                model, attack, inputs, domain.ids[block], budgets, checked_seed(seed), units=domain.units[block]
            )
            parts.append(found)
            bar.advance(len(block))
    joined = [Searched.joined([part[index] for part in parts]) for index in range(len(budgets))]
    return [joined[budgets.index(one)] for one in asked]


def search_samples(
    model: nn.Module,
    attack: Attack,
    inputs: Tensor,
    ids: NDArray[np.object_],
    budgets: Sequence[float],
    seed: int,
    *,
    units: NDArray[np.object_] | None = None,
) -> list[Searched]:
    """One answer a budget, from the smallest to the largest, for a block of samples (N x ...) in [0, 1]."""
    encoder, _, _ = linear_head(model)
    device = next((parameter.device for parameter in model.parameters()), inputs.device)
    inputs, victim = inputs.to(device), Base(model)
    results = attack_samples(victim, attack, inputs, victim.answers(inputs), ids, budgets, seed)
    with torch.no_grad(), frozen(model):
        z = _all(encoder, inputs)
        searched = []
        for one in results:
            x_change = (one.inputs.to(device) - inputs).flatten(1).double()
            z_change = _all(encoder, one.inputs.to(device)) - z
            x_l2, x_linf, z_l2, z_linf = (
                torch.linalg.vector_norm(change, order, dim=1).cpu().numpy()
                for change in (x_change, z_change)
                for order in (2.0, math.inf)
            )
            own, values = ids if units is None else units, z.cpu().numpy()
            searched.append(
                Searched(one.threat, ids, own, one.clean, one.predictions, x_l2, x_linf, z_l2, z_linf, values)
            )
    return searched


def _encode(encoder: nn.Module, points: Tensor) -> Tensor:
    parameter = next(encoder.parameters(), points)
    # a copy, because a network may overwrite what it is given
    z: Tensor = encoder(points.to(parameter.device, parameter.dtype, copy=True))
    return z


def _all(encoder: nn.Module, inputs: Tensor) -> Tensor:
    parts = [_encode(encoder, part) for part in torch.split(inputs, max_batch_size(tuple(inputs.shape[1:])))]
    return torch.cat(parts).double()
