"""Layers whose Lipschitz constant is known, their constants, and measuring what a constant claims."""

from shiftproof.models.lipschitz.activations import GroupSort, MaxMin, ScaledAvgPool2d
from shiftproof.models.lipschitz.cayley import CayleyConv2d, CayleyLinear, cayley
from shiftproof.models.lipschitz.constants import Constant, constants, lipschitz_bound
from shiftproof.models.lipschitz.freeze import Freezable, freeze, frozen
from shiftproof.models.lipschitz.measure import Measured, measure_lipschitz
from shiftproof.models.lipschitz.rows import RowL1Linear, RowL2Linear, project_l1_rows

__all__ = [
    "CayleyConv2d",
    "CayleyLinear",
    "Constant",
    "Freezable",
    "GroupSort",
    "MaxMin",
    "Measured",
    "RowL1Linear",
    "RowL2Linear",
    "ScaledAvgPool2d",
    "cayley",
    "constants",
    "freeze",
    "frozen",
    "lipschitz_bound",
    "measure_lipschitz",
    "project_l1_rows",
]
