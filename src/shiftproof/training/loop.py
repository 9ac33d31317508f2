"""The training loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.domains import Domain, Domains, train_part
from shiftproof.domains.splits import first_samples
from shiftproof.errors import TrainingError
from shiftproof.execution import Mode, as_path, check_progress, progress_bar
from shiftproof.models.records import earlier_phase, set_record
from shiftproof.objectives import Objective, Recipe
from shiftproof.objectives.erm import ERM
from shiftproof.objectives.objective import Selection
from shiftproof.rng import seeded_globals, torch_generator
from shiftproof.training.batches import Batches
from shiftproof.training.checkpoint import State, read_checkpoint, write_checkpoint
from shiftproof.training.checks import check_arguments, check_kind, checked_sources, identity_of
from shiftproof.training.fit import Fit, Selected
from shiftproof.training.machine import Clock, choose_layout, find_device, math_threads
from shiftproof.training.optimisers import learning_rate, make_optimiser
from shiftproof.training.parts import check_part, only, to_train_mode
from shiftproof.training.plateau import DROPS, Stopped, find_plateaus, planned_recipe
from shiftproof.training.selection import Validation, check_rule, mean_accuracy, usual_rule
from shiftproof.types import Batch, Loss

__all__ = ["train"]

CHECKPOINT_SECONDS = 5.0


def train(
    model: nn.Module,
    sources: Domains | Domain | tuple[Tensor, Tensor] | Mapping[str, tuple[Tensor, Tensor]],
    objective: Objective | None = None,
    *,
    seed: int = 0,
    recipe: Recipe | Mapping[str, Any] | None = None,
    selection: Selection | None = None,
    checkpoint: Path | str | None = None,
    device: str = "auto",
    progress: Mode = "auto",
    label: str = "training",
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Fit:
    """Train `model` in place on the training parts of `sources`; their validation parts select the weights.

    `sources` may also be a pair (inputs, labels), or such a pair for each domain's name. `objective` is ERM unless
    told; `recipe` replaces or overrides its own. With `checkpoint` (a file), a run that was killed at any moment
    continues to the bit-identical result for the thread count that it started with.
    """
    objective = ERM() if objective is None else objective
    check_arguments(model, objective, seed, recipe, selection)
    check_progress(progress)
    changes = vars(recipe) if isinstance(recipe, Recipe) else recipe or {}
    recipe, seed = objective.recipe.override(changes), int(seed)
    if selection is not None:
        check_rule(selection, objective)
    check_part(model, recipe.part)
    checkpoint = None if checkpoint is None else as_path("checkpoint", checkpoint)
    domains = checked_sources(model, sources)
    check_kind(objective, domains)
    rule = selection or usual_rule(objective, recipe, domains)
    figure = "r {:.3f}".format if domains.is_regression else "{:.1%}".format
    trained_on = [first_samples(train_part(domain), recipe.samples) for domain in domains]
    plan = planned_recipe(recipe, map(len, trained_on))
    every = plan.evaluate_every or plan.steps
    before = earlier_phase(model)
    run_on = find_device(device)
    layout = choose_layout(model.to(run_on), next(iter(domains)).take(np.array([0]))[0])
    validation = Validation.of(domains, plan, rule, objective, seed, model, layout)
    identity = identity_of(model, domains, objective, recipe, rule, seed) | {"validation": validation.samples}
    state = (checkpoint and read_checkpoint(checkpoint, identity)) or State(identity, torch.get_num_threads())
    # layers that a model keeps frozen are none of the optimiser's
    optimiser = make_optimiser([one for one in model.parameters() if one.requires_grad], recipe)
    if state.step:
        model.load_state_dict(state.model)
        optimiser.load_state_dict(state.optimiser)
    batches = Batches(trained_on, recipe.batch, seed, run_on, layout)
    clock = Clock(state.seconds, checkpoint_seconds)

    with (
        only(model, recipe.part),
        math_threads(state.threads),
        seeded_globals(seed, "training"),
        progress_bar(label, plan.steps, progress, state.step) as bar,
    ):
        plateaus = _plateaus(state, plan, validation)
        stopped = _stopped(state, plan, plateaus)
        # an interrupt may come in the middle of a step: only what was saved between two steps is whole
        for batch in batches.steps(state.step, plan.steps if stopped is None else state.step):
            to_train_mode(model, recipe.part)
            rate = learning_rate(plan, batch.step, len(plateaus))
            loss = _step(model, objective, optimiser, replace(batch, memory=state.memory), rate, seed)
            state.step, state.losses_of, state.memory = batch.step + 1, state.losses_of + 1, loss.memory
            losses = {"loss": float(loss.total.detach()), **{name: float(part) for name, part in loss.parts.items()}}
            state.losses = {name: state.losses.get(name, 0.0) + value for name, value in losses.items()}
            if state.step % every == 0 or state.step == plan.steps:
                _evaluate(state, model, validation)
                plateaus = _plateaus(state, plan, validation)
                stopped = _stopped(state, plan, plateaus)
            bar.advance(note=_note(state, losses["loss"], figure))
            if checkpoint is not None and (stopped is not None or clock.due()):
                with clock.saving():
                    state.model, state.optimiser = model.state_dict(), optimiser.state_dict()
                    state.seconds = clock.seconds()
                    write_checkpoint(checkpoint, state)
            if stopped is not None:
                break
    assert stopped is not None
    last = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(state.best)
    model.eval()
    with math_threads(state.threads):
        selected = _selected(state, model, validation)
    fit = Fit(model, state.history, selected, recipe, seed, state.threads, clock.seconds(), stopped, last)
    set_record(model, fit.describe(domains, objective, before))
    return fit


def _step(
    model: nn.Module, objective: Objective, optimiser: torch.optim.Optimizer, batch: Batch, lr: float, seed: int
) -> Loss:
    for group in optimiser.param_groups:
        group["lr"] = lr
    # dropout and the like read the global state, which here depends on the step alone
    torch.default_generator.set_state(torch_generator(seed, "layers", batch.step).get_state())
    loss = objective.loss(model, batch, torch_generator(seed, "objective", batch.step))
    value = float(loss.total.detach())
    if not math.isfinite(value):
        raise TrainingError(
            f"the loss is {value} at step {batch.step}; try a smaller learning rate: --set training.lr={lr / 10:g}"
        )
    optimiser.zero_grad(set_to_none=True)
    loss.total.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return loss


def _evaluate(state: State, model: nn.Module, validation: Validation) -> None:
    losses = {name: total / state.losses_of for name, total in state.losses.items()}
    row = {"step": state.step, **losses, **validation.measure(model)}
    state.history.append(row)
    state.losses, state.losses_of = {}, 0
    if validation.score(row) > state.best_score:
        state.best = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
        state.best_step, state.best_score = state.step, validation.score(row)


def _plateaus(state: State, plan: Recipe, validation: Validation) -> tuple[int, ...]:
    """The steps at which a plateau was reached, if that is what training goes by."""
    if plan.until != "plateau":
        return ()
    rows = [row for row in state.history if row["step"] > validation.objective.warm_up]
    return tuple(rows[place]["step"] for place in find_plateaus([validation.measured(row) for row in rows]))


def _stopped(state: State, plan: Recipe, plateaus: tuple[int, ...]) -> Stopped | None:
    """Why training ends after this step, if it does."""
    if len(plateaus) > DROPS:
        return Stopped(state.step, "plateau", plateaus)
    reason = "steps" if plan.until == "steps" else "epochs"
    return Stopped(state.step, reason, plateaus) if state.step == plan.steps else None


def _selected(state: State, model: nn.Module, validation: Validation) -> Selected:
    row = next(row for row in state.history if row["step"] == state.best_step)
    kinds = ("noisy_validation", "robust_validation", "radius_validation")
    noisy, robust, radius = (mean_accuracy(row[kind]) if kind in row else None for kind in kinds)
    # where another accuracy selects, the clean one is measured once, of what is kept
    clean = mean_accuracy(row["validation"] if "validation" in row else validation.clean(model))
    return Selected(validation.rule, state.best_step, clean, noisy, robust, validation.samples, radius)


def _note(state: State, loss: float, form: Callable[[float], str]) -> str:
    note = f"loss {loss:.3f}"
    if state.history:
        for kind, shown in {"": "validation", "noisy_": "under noise", "robust_": "under attack"}.items():
            if f"{kind}validation" in state.history[-1]:
                note += f", {shown} {form(mean_accuracy(state.history[-1][f'{kind}validation']))}"
        if "radius_validation" in state.history[-1]:
            note += f", mean radius about {mean_accuracy(state.history[-1]['radius_validation']):.3f}"
    return note
