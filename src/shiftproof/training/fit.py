"""What training returns."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor, nn

from shiftproof.domains import Domains
from shiftproof.objectives import Objective, Recipe
from shiftproof.training.plateau import Stopped
from shiftproof.types import Finding

__all__ = ["Fit", "Selected"]


@dataclass(frozen=True)
class Selected:
    """Which step's weights were kept, by which rule, and the mean source-validation accuracy there; of a model that
    predicts numbers, Pearson's correlation with the true ones in its place.

    `noisy_accuracy` is that under the objective's noise and `robust_accuracy` that under its attack, if it selected;
    `mean_radius` is the mean radius of the vote under that noise: an estimate from few votes, no certificate.
    `samples` are how many of each domain's validation samples were measured: a random part, drawn once.
    """

    rule: str
    step: int
    validation_accuracy: float
    noisy_accuracy: float | None = None
    robust_accuracy: float | None = None
    samples: dict[str, int] = field(default_factory=dict)
    mean_radius: float | None = None


@dataclass(frozen=True, eq=False)
class Fit:
    """A trained model with the record of how it came about.

    `model` holds the selected weights, in eval mode, and carries what it was trained on, which `sp.audit` looks at and
    `sp.save_model` writes; `last` is the state of the last step. `history` has a row for each evaluation: step, mean
    training loss (and its named parts) since the row before, validation accuracy of every source domain under what
    selects: the objective's attack, its noise, or nothing; or the mean radius of the vote under that noise. `stopped`
    says after which step training ended, and why; each of the `processes` had so many `threads`. `findings` are what a
    reader should know of how it was trained.
    """

    model: nn.Module
    history: list[dict[str, Any]]
    selected: Selected
    recipe: Recipe
    seed: int
    threads: int
    seconds: float
    stopped: Stopped
    last: dict[str, Tensor] = field(repr=False)
    processes: int = 1
    findings: tuple[Finding, ...] = ()

    def describe(self, sources: Domains, objective: Objective, initial: dict[str, Any] | None) -> dict[str, Any]:
        """The record of the model, as it lies beside its file; `initial` is what it was before."""
        return {
            "data": {"name": sources.name},
            "sources": sorted(sources.names),
            "objective": objective.to_config(),
            "recipe": asdict(self.recipe),
            "selection": asdict(self.selected),
            "stopped": asdict(self.stopped),
            "seed": self.seed,
            "threads": self.threads,
            "processes": self.processes,
            "fingerprints": {domain.name: domain.fingerprint for domain in sources},
            "initial": initial,
        }
