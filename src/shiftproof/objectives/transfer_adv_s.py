"""The "adv-s" training of a source extractor: attacks that know of the smoothing."""

from dataclasses import dataclass
from typing import Annotated

from shiftproof.objectives.objective import OBJECTIVES, Recipe
from shiftproof.objectives.smoothadv import SmoothAdv
from shiftproof.types import NonNegative, Range

__all__ = ["TransferAdvS"]


@OBJECTIVES.register(
    "transfer-adv-s",
    paper="Provably Robust Transfer, 2022; Salman et al. 2019",
    buys="representations that neither noise nor attacks move much",
    cost="samples (steps + 1) forward and backward",
)
@dataclass(frozen=True)
class TransferAdvS(SmoothAdv):
    """SmoothAdv with the settings of the transfer study: sigma 0.1 and attacks within an l2 ball of 0.1."""

    sigma: Annotated[NonNegative, Range(0.05, 0.5, log=True)] = 0.1
    eps: Annotated[NonNegative, Range(0.05, 0.5, log=True)] = 0.1

    recipe = Recipe(optimiser="adam", lr=1e-4, batch=128, steps=1_000, evaluate_every=100)
