"""Training: from a model and its sources to a fit."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.domains import Domain, Domains, train_part
from shiftproof.domains.splits import first_samples
from shiftproof.execution import Mode, as_path, check_count, check_progress, progress_bar
from shiftproof.models.records import earlier_phase, set_record
from shiftproof.objectives import Objective, Recipe
from shiftproof.objectives.erm import ERM
from shiftproof.objectives.objective import Selection
from shiftproof.training.checkpoint import State, read_checkpoint
from shiftproof.training.checks import check_arguments, check_kind, check_processes, checked_sources, identity_of
from shiftproof.training.descent import descend
from shiftproof.training.fit import Fit, Selected
from shiftproof.training.head_features import trained_on_features, uses_features
from shiftproof.training.job import Job
from shiftproof.training.machine import choose_layout, math_threads, rank_devices
from shiftproof.training.parts import check_part, shared_findings
from shiftproof.training.plateau import planned_recipe
from shiftproof.training.processes import descend_together
from shiftproof.training.selection import Validation, check_rule, mean_accuracy, usual_rule
from shiftproof.training.team import Team

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
    processes: int = 1,
) -> Fit:
    """Train `model` in place on the training parts of `sources`; their validation parts select the weights.

    `sources` may also be a pair (inputs, labels), or such a pair for each domain's name. `objective` is ERM unless
    told; `recipe` replaces or overrides its own. With `checkpoint` (a file), a run that was killed at any moment
    continues to the bit-identical result for the thread count that it started with.

    Several `processes` share out every minibatch, each on an accelerator of its own, or on the CPU with its part of the
    threads; model, objective and data are sent to them.
    """
    objective = ERM() if objective is None else objective
    check_arguments(model, objective, seed, recipe, selection)
    check_progress(progress)
    check_count("processes", processes)
    changes = vars(recipe) if isinstance(recipe, Recipe) else recipe or {}
    recipe, seed = objective.recipe.override(changes), int(seed)
    if selection is not None:
        check_rule(selection, objective)
    check_part(model, recipe.part)
    checkpoint = None if checkpoint is None else as_path("checkpoint", checkpoint)
    domains = checked_sources(model, sources)
    check_kind(objective, recipe, domains)
    devices = rank_devices(device, processes)
    check_processes(objective, recipe, processes)
    rule = selection or usual_rule(objective, recipe, domains)
    trained_on = [first_samples(train_part(domain), recipe.samples) for domain in domains]
    plan = planned_recipe(recipe, map(len, trained_on))
    before = earlier_phase(model)
    # several processes move their own copies
    model.to(devices[0] if processes == 1 else "cpu")
    layout = choose_layout(model, next(iter(domains)).take(np.array([0]))[0])
    validation = Validation.of(domains, plan, rule, objective, seed, model, layout)
    identity = identity_of(model, domains, objective, recipe, rule, seed) | {"validation": validation.samples}
    by_features = uses_features(model, objective, plan, rule, trained_on)
    if by_features:
        # its checkpoints hold the head alone
        identity |= {"features": True}
    begin = State(identity, max(1, torch.get_num_threads() // processes), processes)
    state = begin if checkpoint is None else read_checkpoint(checkpoint, identity, processes) or begin
    job = Job(
        model, objective, trained_on, validation, plan, seed, state, devices[0], layout, checkpoint, checkpoint_seconds
    )
    seen = trained_on_features(job, progress) if by_features else nullcontext(job)
    with seen as job, progress_bar(label, plan.steps, progress, state.step) as bar:

        def advance(note: str) -> None:
            bar.advance(note=note)

        done = descend(job, Team(), advance) if processes == 1 else descend_together(job, devices, advance)
    # of a head that was trained alone, the encoder's weights are what they were
    whole = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    model.to(devices[0]).load_state_dict(whole | done.state.best)
    model.eval()
    with math_threads(state.threads):
        selected = _selected(done.state, model, validation)
    fit = Fit(
        model=model,
        history=done.state.history,
        selected=selected,
        recipe=recipe,
        seed=seed,
        threads=state.threads,
        seconds=done.seconds,
        stopped=done.stopped,
        last=whole | done.last,
        processes=processes,
        findings=tuple(shared_findings(model, recipe, devices)),
    )
    set_record(model, fit.describe(domains, objective, before))
    return fit


def _selected(state: State, model: nn.Module, validation: Validation) -> Selected:
    row = next(row for row in state.history if row["step"] == state.best_step)
    kinds = ("noisy_validation", "robust_validation", "radius_validation")
    noisy, robust, radius = (mean_accuracy(row[kind]) if kind in row else None for kind in kinds)
    # where another accuracy selects, the clean one is measured once, of what is kept
    clean = mean_accuracy(row["validation"] if "validation" in row else validation.clean(model))
    return Selected(validation.rule, state.best_step, clean, noisy, robust, validation.samples, radius)
