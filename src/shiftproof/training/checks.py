"""What must be true before training starts, and what makes two runs the same run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
from torch import Tensor, nn

from shiftproof.domains import Domain, Domains, as_domains
from shiftproof.errors import DataError, ModelError, UnknownName, UsageError
from shiftproof.models.files import fingerprint
from shiftproof.models.outputs import logits_of
from shiftproof.models.text.encoder import check_takes
from shiftproof.objectives import OBJECTIVES, Objective, Recipe
from shiftproof.objectives.objective import Selection
from shiftproof.perturbations.deformation import Deformation
from shiftproof.perturbations.edits import Edits
from shiftproof.perturbations.embedding import EmbeddingThreat
from shiftproof.perturbations.threat import Threat
from shiftproof.rng import checked_seed

__all__ = ["check_arguments", "check_kind", "check_processes", "checked_sources", "identity_of"]


def check_arguments(model: object, objective: object, seed: object, recipe: object, selection: object) -> None:
    """Whether the arguments of a call are of the kinds that they should be."""
    if not isinstance(model, nn.Module):
        raise UsageError(f"the model is {type(model).__name__}; it should be a torch.nn.Module that returns logits")
    if not isinstance(objective, Objective):
        raise UsageError(f"the objective is {objective!r}; it should be an object such as sp.objectives.ERM()")
    checked_seed(seed)
    if recipe is not None and not isinstance(recipe, Recipe | Mapping):
        raise UsageError(f"the recipe is {recipe!r}; it should be a Recipe, or changes to one such as {{'steps': 200}}")
    if selection is not None and selection not in get_args(Selection):
        raise UnknownName("selection", str(selection), get_args(Selection))


def check_kind(objective: Objective, recipe: Recipe, domains: Domains) -> None:
    """Refuse an objective that is not for the kind of data, or of labels, there is, or whose threat is not."""
    if recipe.augment != "none" and domains.kind != "image":
        raise UsageError(
            f"augment {recipe.augment} changes images, and {domains.name!r} holds {domains.kind} data: leave it out"
        )
    if domains.is_regression and not objective.regression:
        able = ", ".join(entry.name for entry in OBJECTIVES if entry.cls.regression)
        raise UsageError(
            f"the objective {objective.name} needs classes, and labels of {domains.name!r} are numbers to predict; for "
            f"these there are {able}"
        )
    if objective.kind not in (None, domains.kind):
        seen = f"{domains.name!r} holds {domains.kind} data"
        able = ", ".join(["erm", *(entry.name for entry in OBJECTIVES if entry.cls.kind == domains.kind)])
        raise UsageError(f"the objective {objective.name} is for {objective.kind} data, and {seen}: try one of {able}")
    threat = None if objective.attack is None else objective.attack.threat
    if domains.kind == "text" and isinstance(threat, Threat | Deformation):
        what, seen, other = "a change of pixels", "text", "embedding-l2:1.0"
    elif domains.kind == "image" and isinstance(threat, Edits | EmbeddingThreat):
        what, seen, other = "a change of text", "images", "linf:8/255"
    else:
        return
    raise UsageError(
        f"{threat} is {what}, but {domains.name!r} holds {seen}: give the objective {objective.name} a threat such as "
        f"{other} (--set objective.threat={other})"
    )


def check_processes(objective: Objective, recipe: Recipe, processes: int) -> None:
    """Refuse several processes where a minibatch can't be shared out among them."""
    if processes == 1:
        return
    if why := objective.why_whole():
        raise UsageError(
            f"the objective {objective.name} can't be trained in {processes} processes: {why}; leave --processes out"
        )
    if recipe.batch < processes:
        raise UsageError(
            f"a minibatch of {recipe.batch} can't be shared out among {processes} processes: every one needs a sample "
            f"of each domain, with --set training.batch={processes} or more"
        )


def checked_sources(model: nn.Module, sources: Any) -> Domains:
    """Sources as domains that the model can be trained on: readable, of a shape and with labels that it takes."""
    domains = as_domains(sources)
    for domain in domains:
        if not len(domain):
            raise DataError(f"domain {domain.name!r} has no samples to train on")
        domain.inputs.prepare()
    check_takes(model, domains)
    outputs = _outputs(model, next(iter(domains)).take(np.array([0]))[0])
    if not isinstance(sources, Domains | Domain):
        # a pair names no classes: the model says how many there are
        return as_domains(sources, outputs)
    if domains.is_regression:
        if outputs != 1:
            raise ModelError(f"the model has {outputs} outputs, but labels are numbers to predict, which takes one")
        return domains
    if len(domains.classes) < 2:
        raise DataError(
            f"the data has a single class ({', '.join(domains.classes)}): there is nothing to learn from it"
        )
    if outputs < len(domains.classes):
        raise ModelError(f"the model has {outputs} outputs, but the data has {len(domains.classes)} classes")
    return domains


def _outputs(model: nn.Module, example: Tensor) -> int:
    training = model.training
    try:
        return logits_of(model.eval(), example).shape[1]
    finally:
        model.train(training)


def identity_of(
    model: nn.Module, domains: Domains, objective: Objective, recipe: Recipe, rule: str, seed: int
) -> dict[str, Any]:
    """What makes two training runs the same run."""
    return {
        "objective": f"{OBJECTIVES.name_of(objective)}: {objective!r}",
        "recipe": repr(recipe),
        "selection": rule,
        "seed": seed,
        "data": {domain.name: domain.fingerprint for domain in sorted(domains, key=lambda domain: domain.name)},
        "initial weights": fingerprint(model),
    }
