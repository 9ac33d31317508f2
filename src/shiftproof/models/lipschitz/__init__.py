"""Layers whose Lipschitz constant is known, and frozen copies of them.

Bounds of whole networks are in `constants`, what measures them in `measure`: those know the networks of the catalogue,
which are made of these layers.
"""

from shiftproof.models.lipschitz.activations import GroupSort, MaxMin, ScaledAvgPool2d
from shiftproof.models.lipschitz.cayley import CayleyConv2d, CayleyLinear, cayley
from shiftproof.models.lipschitz.freeze import Freezable, freeze, frozen
from shiftproof.models.lipschitz.rows import RowL1Linear, RowL2Linear, project_l1_rows
from shiftproof.models.lipschitz.spectral import SpectralLinear

__all__ = [
    "CayleyConv2d",
    "CayleyLinear",
    "Freezable",
    "GroupSort",
    "MaxMin",
    "RowL1Linear",
    "RowL2Linear",
    "ScaledAvgPool2d",
    "SpectralLinear",
    "cayley",
    "freeze",
    "frozen",
    "project_l1_rows",
]
