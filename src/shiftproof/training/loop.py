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
    rule = selection or usual_rule(objective, domains)
    figure = "r {:.3f}".format if domains.is_regression else "{:.1%}".format
    before = earlier_phase(model)
    run_on = find_device(device)
    layout = choose_layout(model.to(run_on), next(iter(domains)).take(np.array([0]))[0])
    validation = Validation.of(domains, recipe, rule, objective, seed, model, layout)
    identity = identity_of(model, domains, objective, recipe, rule, seed) | {"validation": validation.samples}
    state = (checkpoint and read_checkpoint(checkpoint, identity)) or State(identity, torch.get_num_threads())
    # layers that a model keeps frozen are none of the optimiser's
    optimiser = make_optimiser([one for one in model.parameters() if one.requires_grad], recipe)
    if state.step:
        model.load_state_dict(state.model)
        optimiser.load_state_dict(state.optimiser)
    trained_on = [first_samples(train_part(domain), recipe.samples) for domain in domains]
    batches = Batches(trained_on, recipe.batch, seed, run_on, layout)
    clock = Clock(state.seconds, checkpoint_seconds)

    with (
        only(model, recipe.part),
        math_threads(state.threads),
        seeded_globals(seed, "training"),
        progress_bar(label, recipe.steps, progress, state.step) as bar,
    ):
        # an interrupt may come in the middle of a step: only what was saved between two steps is whole
        for batch in batches.steps(state.step, recipe.steps):
            to_train_mode(model, recipe.part)
            rate = learning_rate(recipe, batch.step)
            loss = _step(model, objective, optimiser, replace(batch, memory=state.memory), rate, seed)
            state.step, state.losses_of, state.memory = batch.step + 1, state.losses_of + 1, loss.memory
            losses = {"loss": float(loss.total.detach()), **{name: float(part) for name, part in loss.parts.items()}}
            state.losses = {name: state.losses.get(name, 0.0) + value for name, value in losses.items()}
            if state.step % recipe.evaluate_every == 0 or state.step == recipe.steps:
                _evaluate(state, model, validation)
            bar.advance(note=_note(state, losses["loss"], figure))
            if checkpoint is not None and (state.step == recipe.steps or clock.due()):
                with clock.saving():
                    state.model, state.optimiser = model.state_dict(), optimiser.state_dict()
                    state.seconds = clock.seconds()
                    write_checkpoint(checkpoint, state)
    last = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(state.best)
    model.eval()
    with math_threads(state.threads):
        selected = _selected(state, model, validation)
    fit = Fit(model, state.history, selected, recipe, seed, state.threads, clock.seconds(), last)
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


def _selected(state: State, model: nn.Module, validation: Validation) -> Selected:
    row = next(row for row in state.history if row["step"] == state.best_step)
    kinds = ("noisy_validation", "robust_validation")
    noisy, robust = (mean_accuracy(row[kind]) if kind in row else None for kind in kinds)
    # where another accuracy selects, the clean one is measured once, of what is kept
    clean = mean_accuracy(row["validation"] if "validation" in row else validation.clean(model))
    return Selected(validation.rule, state.best_step, clean, noisy, robust, validation.samples)


def _note(state: State, loss: float, form: Callable[[float], str]) -> str:
    note = f"loss {loss:.3f}"
    if state.history:
        for kind, shown in {"": "validation", "noisy_": "under noise", "robust_": "under attack"}.items():
            if f"{kind}validation" in state.history[-1]:
                note += f", {shown} {form(mean_accuracy(state.history[-1][f'{kind}validation']))}"
    return note
