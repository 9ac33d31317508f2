"""What certifies, one file a certifier, with the parts that serve only that one. `sp.certifiers.LatentMargin`."""

from shiftproof.certification.calibration import Calibration
from shiftproof.certification.certifier import CERTIFIERS, Certifier, Job
from shiftproof.certification.certifiers.adapted_smoothing import AdaptedSmoothing
from shiftproof.certification.certifiers.latent_margin import LatentMargin
from shiftproof.certification.certifiers.latent_smoothing import LatentSmoothing
from shiftproof.certification.certifiers.lipschitz_margin import LipschitzMargin
from shiftproof.certification.certifiers.median_smoothing import MedianSmoothing
from shiftproof.certification.certifiers.randomized_smoothing import RandomizedSmoothing
from shiftproof.certification.sampling.stopping import Radii, Within
from shiftproof.certification.transfer import transferred_radius

__all__ = [
    "CERTIFIERS",
    "AdaptedSmoothing",
    "Calibration",
    "Certifier",
    "Job",
    "LatentMargin",
    "LatentSmoothing",
    "LipschitzMargin",
    "MedianSmoothing",
    "Radii",
    "RandomizedSmoothing",
    "Within",
    "transferred_radius",
]
