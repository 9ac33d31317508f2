"""What is guaranteed: certificates, and the certifiers that give them. `sp.certifiers.RandomizedSmoothing`."""

from typing import Any

from shiftproof.certification.calibration import Calibration
from shiftproof.certification.certificates import ABSTAIN, Certificates
from shiftproof.certification.certifier import CERTIFIERS, Certifier, Job
from shiftproof.certification.certify import certify
from shiftproof.certification.explain import Explanation, explain
from shiftproof.certification.guarantees import TOGETHER
from shiftproof.certification.input_robustness import InputRobustness, input_robustness
from shiftproof.certification.sampling.stopping import Radii, Within
from shiftproof.certification.transfer import transferred_radius

__all__ = [
    "ABSTAIN",
    "CERTIFIERS",
    "TOGETHER",
    "Calibration",
    "Certificates",
    "Certifier",
    "Explanation",
    "InputRobustness",
    "Job",
    "Radii",
    "Within",
    "certify",
    "explain",
    "input_robustness",
    "transferred_radius",
]


def __getattr__(name: str) -> Any:
    return CERTIFIERS.class_named(name)


def __dir__() -> list[str]:
    return [*__all__, *(entry.cls.__name__ for entry in CERTIFIERS)]
