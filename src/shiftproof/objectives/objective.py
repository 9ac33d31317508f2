"""The contract of an objective, and the recipe that it is trained with unless told otherwise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Interval
from torch import nn

from shiftproof.attacks import Attack, Base, Victim
from shiftproof.catalogue import Catalogue, Method, checked_options, optional
from shiftproof.errors import UsageError
from shiftproof.perturbations.noise import Noise
from shiftproof.types import Batch, Finding, Loss, NonNegative, Positive

__all__ = ["OBJECTIVES", "Augment", "Objective", "Outcome", "Part", "Recipe", "Selection", "Until"]

Selection = Literal[
    "last", "source-validation", "loss-source-validation", "robust-source-validation", "radius-source-validation"
]
Part = Literal["all", "head"]
Until = Literal["steps", "plateau", "patience"]
Augment = Literal["none", "domainbed"]


@dataclass(frozen=True)
class Recipe:
    """How an objective is trained: optimiser, learning rate, samples of each domain in a step, steps.

    `schedule` scales the learning rate over the steps; every `evaluate_every` steps the validation parts are measured.
    With `part` "head" the encoder stays as it is, BatchNorm statistics included. Of each domain at most `samples` are
    trained on, at random but the same for every seed; without it, all are.

    `until` "plateau" is early stopping in place of a number of `steps`: the learning rate is divided by ten when what
    is measured no longer grows, twice, and when it stops growing again, or after `epochs`, training stops. Where the
    objective has a noise, what is measured is the mean radius of the vote under it, an estimate and no certificate.
    `until` "patience" stops when the loss on source validation (or what `selection` names) has not improved for ten
    evaluations, or after `epochs`, and keeps the best weights; the learning rate stays as its schedule says.

    `augment` "domainbed" changes every training image at random before the objective sees it, as DomainBed does: cut
    out at 70 to 100 % of its area, mirrored, other brightness, contrast, saturation and hue, one of ten gray.

    Without `evaluate_every`, training that stops by itself is evaluated after each epoch.
    """

    optimiser: str = "adam"
    lr: Annotated[float, Interval(gt=0, le=1e30)] = 1e-3
    batch: Annotated[int, Interval(ge=1, le=1_000_000)] = 128
    steps: Positive = 1_000
    schedule: str = "constant"
    weight_decay: NonNegative = 0.0
    momentum: Annotated[float, Interval(ge=0, lt=1)] = 0.9
    evaluate_every: Positive | None = 100
    part: Part = "all"
    samples: Positive | None = None
    until: Until = "steps"
    epochs: Positive = 25
    augment: Augment = "none"

    def override(self, changes: Mapping[str, Any]) -> Recipe:
        """The same recipe with some values changed; an unknown name gets a suggestion."""
        if "selection" in changes:
            raise UsageError("selection stands beside training, not in it: --set selection=last")
        named = {str(key): value for key, value in changes.items()}
        if named.get("until") in ("plateau", "patience"):
            # the objective's own are for a number of steps that is known before
            named = {"schedule": "constant", "evaluate_every": None, **named}
        return replace(self, **checked_options(Recipe, named, "training"))


@dataclass(frozen=True, eq=False)
class Outcome:
    """A trained model and what it was trained with, for an objective that has something to say of it."""

    model: nn.Module
    shape: tuple[int, ...]
    recipe: Recipe
    domains: tuple[str, ...]


class Objective(Method, ABC):
    """What training minimises: a frozen dataclass of options with a loss, a default recipe and a default selection."""

    recipe: ClassVar[Recipe]
    """How it is trained unless told otherwise."""
    selection: ClassVar[Selection]
    """How the kept weights are chosen unless told otherwise."""
    kind: ClassVar[str | None] = None
    """What it is trained on: image | text; None for both."""
    regression: ClassVar[bool] = False
    """Whether it also trains a model to predict numbers."""
    neutral: ClassVar[tuple[dict[str, Any], ...]] = ()
    """Options with which the loss is that of ERM, for `check_objective`."""
    splits: ClassVar[bool] = False
    """Whether processes may share out a minibatch: what the loss takes over samples are sums and means by the batch's
    own methods, and what it draws for samples is drawn by `batch.draw`."""

    plain_inputs: ClassVar[bool] = False
    """Whether the loss looks at inputs through the model alone, and as they are: a head over a frozen encoder is then
    trained on features that are computed once."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of one step; all randomness comes from `generator`, and the order of domains must not matter."""

    @optional
    def passes(self) -> int:
        """Forward passes of a sample in a step."""
        return 1

    @optional
    def warm_up(self) -> int:
        """Steps before the loss is all that it will be; a plateau is looked for after them."""
        return 0

    @optional
    def noise(self) -> Noise | None:
        """Noise under which source validation is measured as well, and selects."""
        return None

    @optional
    def attack(self) -> Attack | None:
        """Attack used to select the model by robust accuracy."""
        return None

    def victim(self, model: nn.Module) -> Victim:
        """The classifier that `attack` attacks: the model as it is."""
        return Base(model)

    def why_whole(self) -> str:
        """Why processes can't share out a minibatch; nothing if they can.

        A class that has a loss of its own says itself that it splits: its base has said so of another loss.
        """
        return "" if self._says("splits") else "its class does not say that its loss splits"

    @property
    def takes_features(self) -> bool:
        """Whether a head may be trained on features: its class says so of its own loss."""
        return self._says("plain_inputs")

    def _says(self, what: str) -> bool:
        """Whether that is said of this very loss: a base has said so of another one."""
        lineage = type(self).__mro__
        says, computes = (next(one for one in lineage if name in vars(one)) for name in (what, "loss"))
        return bool(getattr(self, what)) and issubclass(says, computes)

    def findings(self, outcome: Outcome) -> Iterator[Finding]:
        """What a reader should know of a model that was trained so."""
        return iter(())


OBJECTIVES: Catalogue[Objective] = Catalogue("objective", "shiftproof.objectives", base=Objective)
