"""The "adv" training of a source extractor."""

from dataclasses import dataclass

from shiftproof.objectives.adversarial_training import AdversarialTraining
from shiftproof.objectives.objective import OBJECTIVES, Recipe
from shiftproof.perturbations.balls import AdditiveOption

__all__ = ["TransferAdv"]


@OBJECTIVES.register(
    "transfer-adv",
    paper="Provably Robust Transfer, 2022",
    buys="representations that attacks move less",
    cost="steps + 1 forward and backward",
)
@dataclass(frozen=True)
class TransferAdv(AdversarialTraining):
    """Adversarial training with the settings of the transfer study: ten steps within an l2 ball of 0.1."""

    threat: AdditiveOption = "l2:0.1"  # type: ignore[assignment]

    recipe = Recipe(optimiser="adam", lr=1e-4, batch=128, steps=1_000, evaluate_every=100)
