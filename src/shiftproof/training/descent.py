"""The loop of training steps, in one process or in each of several."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from shiftproof.errors import TrainingError
from shiftproof.execution import Compute
from shiftproof.models.hashes import parameter_hash
from shiftproof.objectives import Recipe
from shiftproof.rng import seeded_globals, torch_generator
from shiftproof.training.batches import Batches
from shiftproof.training.checkpoint import State, write_checkpoint
from shiftproof.training.job import Done, Job
from shiftproof.training.machine import Clock, input_type, math_threads
from shiftproof.training.optimisers import learning_rate, make_optimiser
from shiftproof.training.parts import only, to_train_mode
from shiftproof.training.plateau import DROPS, Stopped, find_plateaus, is_patience_out
from shiftproof.training.selection import Validation, mean_accuracy
from shiftproof.training.team import Team
from shiftproof.types import Batch, Loss

__all__ = ["descend"]


def descend(job: Job, team: Team, advance: Callable[[str], None]) -> Done:
    """Train until the job's plan says that it is enough; `advance` is told of each step.

    The first process measures and writes; all of them take the same steps.
    """
    model, plan, state, validation = job.model, job.plan, job.state, job.validation
    every = plan.evaluate_every or plan.steps
    figure = "r {:.3f}".format if validation.domains[0].is_regression else "{:.1%}".format
    # layers that a model keeps frozen are none of the optimiser's
    optimiser = make_optimiser([one for one in model.parameters() if one.requires_grad], plan)
    if state.step:
        model.load_state_dict(state.model)
        optimiser.load_state_dict(state.optimiser)
    batches = Batches(job.sources, plan.batch, job.seed, job.device, job.layout, input_type(model), team, plan.augment)
    clock = Clock(state.seconds, job.checkpoint_seconds)

    def weights() -> dict[str, str]:
        return {"weights": parameter_hash(model)}

    with (
        only(model, plan.part),
        math_threads(state.threads),
        seeded_globals(job.seed, "training"),
        Compute(str(job.device)).exact_products(),
    ):
        loss_of = team.loss_of(model, job.objective)
        plateaus = _plateaus(state, plan, validation)
        stopped = _stopped(state, plan, validation, plateaus)
        # an interrupt may come in the middle of a step: only what was saved between two steps is whole
        for batch in batches.steps(state.step, plan.steps if stopped is None else state.step):
            to_train_mode(model, plan.part)
            rate = learning_rate(plan, batch.step, len(plateaus))
            loss = _step(loss_of, optimiser, replace(batch, memory=state.memory), rate, job.seed, team.keys)
            state.step, state.losses_of, state.memory = batch.step + 1, state.losses_of + 1, loss.memory
            losses = {"loss": float(loss.total.detach()), **{name: float(part) for name, part in loss.parts.items()}}
            state.losses = {name: state.losses.get(name, 0.0) + value for name, value in losses.items()}
            if state.step % every == 0 or state.step == plan.steps:
                team.check_same(f"after step {state.step}", weights)
                _evaluate(state, model, validation, team)
                plateaus = _plateaus(state, plan, validation)
                stopped = _stopped(state, plan, validation, plateaus)
            advance(_note(state, losses["loss"], figure))
            if job.checkpoint is not None and (stopped is not None or team.decide(clock.due())):
                team.check_same(f"after step {state.step}", weights)
                with clock.saving():
                    state.model, state.optimiser = model.state_dict(), optimiser.state_dict()
                    state.seconds = clock.seconds()
                    if team.rank == 0:
                        write_checkpoint(job.checkpoint, state)
            if stopped is not None:
                break
    assert stopped is not None
    last = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
    return Done(state, stopped, last, clock.seconds())


def _step(
    loss_of: Callable[[Batch, torch.Generator], Loss],
    optimiser: torch.optim.Optimizer,
    batch: Batch,
    lr: float,
    seed: int,
    keys: tuple[int, ...],
) -> Loss:
    for group in optimiser.param_groups:
        group["lr"] = lr
    # dropout and the like read the global state, which here depends on the step alone
    torch.default_generator.set_state(torch_generator(seed, "layers", batch.step, *keys).get_state())
    loss = loss_of(batch, torch_generator(seed, "objective", batch.step))
    value = float(loss.total.detach())
    if not math.isfinite(value):
        raise TrainingError(
            f"the loss is {value} at step {batch.step}; try a smaller learning rate: --set training.lr={lr / 10:g}"
        )
    optimiser.zero_grad(set_to_none=True)
    loss.total.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return loss


def _evaluate(state: State, model: nn.Module, validation: Validation, team: Team) -> None:
    def measure() -> dict[str, dict[str, float]]:
        # the other processes wait, and leave their threads
        with math_threads(state.threads * team.size):
            return validation.measure(model)

    losses = {name: total / state.losses_of for name, total in state.losses.items()}
    row = {"step": state.step, **losses, **team.from_first(measure)}
    state.history.append(row)
    state.losses, state.losses_of = {}, 0
    if validation.score(row) > state.best_score:
        state.best = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
        state.best_step, state.best_score = state.step, validation.score(row)


def _plateaus(state: State, plan: Recipe, validation: Validation) -> tuple[int, ...]:
    """The steps at which a plateau was reached, if that is what training goes by."""
    if plan.until != "plateau":
        return ()
    rows = _after_warm_up(state, validation)
    return tuple(rows[place]["step"] for place in find_plateaus([validation.measured(row) for row in rows]))


def _after_warm_up(state: State, validation: Validation) -> list[dict[str, Any]]:
    return [row for row in state.history if row["step"] > validation.objective.warm_up]


def _stopped(state: State, plan: Recipe, validation: Validation, plateaus: tuple[int, ...]) -> Stopped | None:
    """Why training ends after this step, if it does."""
    if len(plateaus) > DROPS:
        return Stopped(state.step, "plateau", plateaus)
    if plan.until == "patience" and is_patience_out(
        [validation.measured(row) for row in _after_warm_up(state, validation)]
    ):
        return Stopped(state.step, "patience")
    reason = "steps" if plan.until == "steps" else "epochs"
    return Stopped(state.step, reason, plateaus) if state.step == plan.steps else None


def _note(state: State, loss: float, form: Callable[[float], str]) -> str:
    note = f"loss {loss:.3f}"
    if state.history:
        for kind, shown in {"": "validation", "noisy_": "under noise", "robust_": "under attack"}.items():
            if f"{kind}validation" in state.history[-1]:
                note += f", {shown} {form(mean_accuracy(state.history[-1][f'{kind}validation']))}"
        if "loss_validation" in state.history[-1]:
            note += f", validation loss {mean_accuracy(state.history[-1]['loss_validation']):.3f}"
        if "radius_validation" in state.history[-1]:
            note += f", mean radius about {mean_accuracy(state.history[-1]['radius_validation']):.3f}"
    return note
