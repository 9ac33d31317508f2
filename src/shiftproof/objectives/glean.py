"""Invariance, and noise in the representation: margins for certificates where shortcuts of the sources fail."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import nn

from shiftproof.errors import UnknownConstant
from shiftproof.models.lipschitz.constants import lipschitz_bound
from shiftproof.objectives.annealing import add_penalty, compares_domains, never_annealed
from shiftproof.objectives.irm import irm_penalty
from shiftproof.objectives.measures import cross_entropy, split, spread
from shiftproof.objectives.objective import OBJECTIVES, Objective, Outcome, Recipe, Selection
from shiftproof.types import Batch, Finding, Loss, Natural, NonNegative, Range

__all__ = ["GLEAN"]

_ONE = 1.01
"""What rounding makes of 1, and more."""


@OBJECTIVES.register(
    "glean",
    paper="GLEAN",
    buys="margins in the representation of mlp-cayley or cnn-cayley, where shortcuts fail too",
    cost="1 forward, 1 backward",
)
@dataclass(frozen=True)
class GLEAN(Objective):
    """IRM with normal noise of `sigma` on the representation; risk and penalty see the same noise.

    On an encoder with a known Lipschitz constant, `latent-margin` turns the margins into radii. On another one they
    mean nothing for inputs.
    """

    sigma: Annotated[NonNegative, Range(0.05, 1.0, log=True)] = 0.12
    irm_weight: Annotated[NonNegative, Range(10, 1e6, log=True)] = 1e4
    anneal: Annotated[Natural, Range(50, 250)] = 150

    recipe = Recipe(optimiser="adam", lr=5e-4, batch=4_000, steps=500, evaluate_every=50)
    selection: ClassVar[Selection] = "last"
    splits: ClassVar[bool] = True
    neutral: ClassVar[tuple[dict[str, Any], ...]] = ({"sigma": 0.0, "irm_weight": 0.0},)

    def findings(self, outcome: Outcome) -> Iterator[Finding]:
        """What margins in the representation are worth in inputs, and what kept the penalty from working."""
        yield from never_annealed(outcome, self.anneal)
        yield from compares_domains(outcome)
        known = "mlp-cayley and cnn-cayley have an encoder of constant 1"
        try:
            constant = lipschitz_bound(split(outcome.model, "glean").encoder, outcome.shape)
        except UnknownConstant as error:
            yield Finding(
                "warn", "no-constant", f"margins of the representation are no radii of inputs: {error}; {known}"
            )
            return
        if constant > _ONE:
            message = f"the encoder's constant may be {constant:.3g}, by which margins are divided to be radii; {known}"
            yield Finding("warn", "constant", message)

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """Mean risk and mean penalty of the domains."""
        parts = split(model, "glean")
        codes = parts.encoder(batch.inputs)
        logits = parts.head(codes + spread(batch, codes.shape[1:], self.sigma, generator).to(codes))
        error = batch.mean_over_domains(cross_entropy(logits, batch.labels))
        penalty = irm_penalty(logits, batch)
        return Loss(add_penalty(error, penalty, self.irm_weight, self.anneal, batch.step), error=error, penalty=penalty)
