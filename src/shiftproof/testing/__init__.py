"""Conformance checks that anybody can run on their own data and methods.

>>> from shiftproof import load_domains, objectives
>>> check_domains(load_domains("digits"))
>>> check_objective(objectives.ERM())
"""

from shiftproof.testing.attacks import check_attack
from shiftproof.testing.certifiers import LinearOracle, check_certifier
from shiftproof.testing.corruptions import check_corruption
from shiftproof.testing.domains import check_domains
from shiftproof.testing.model import check_model
from shiftproof.testing.noise import check_noise
from shiftproof.testing.objectives import check_objective

__all__ = [
    "LinearOracle",
    "check_attack",
    "check_certifier",
    "check_corruption",
    "check_domains",
    "check_model",
    "check_noise",
    "check_objective",
]
