"""What is guaranteed: certificates, how they are made, and which apply. Certifiers are in `sp.certifiers`."""

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
