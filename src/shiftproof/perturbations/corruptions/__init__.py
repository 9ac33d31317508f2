"""What nature does to images, at five severities: `corrupt(images, "fog", 3)`."""

from shiftproof.perturbations.corruptions.blur import DefocusBlur, GaussianBlur, ZoomBlur
from shiftproof.perturbations.corruptions.colour import Brightness, Contrast, Saturate
from shiftproof.perturbations.corruptions.corrupt import corrupt
from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS, Constants, Corruption, constants_for, group_of
from shiftproof.perturbations.corruptions.elastic import ElasticTransform
from shiftproof.perturbations.corruptions.fog import Fog
from shiftproof.perturbations.corruptions.frost import Frost
from shiftproof.perturbations.corruptions.glass import GlassBlur
from shiftproof.perturbations.corruptions.jpeg import JPEGCompression
from shiftproof.perturbations.corruptions.motion import MotionBlur
from shiftproof.perturbations.corruptions.noise import GaussianNoise, ImpulseNoise, ShotNoise, SpeckleNoise
from shiftproof.perturbations.corruptions.pixelate import Pixelate
from shiftproof.perturbations.corruptions.snow import Snow
from shiftproof.perturbations.corruptions.spatter import Spatter

__all__ = [
    "CORRUPTIONS",
    "EXTRA",
    "GROUPS",
    "STANDARD",
    "Brightness",
    "Constants",
    "Contrast",
    "Corruption",
    "DefocusBlur",
    "ElasticTransform",
    "Fog",
    "Frost",
    "GaussianBlur",
    "GaussianNoise",
    "GlassBlur",
    "ImpulseNoise",
    "JPEGCompression",
    "MotionBlur",
    "Pixelate",
    "Saturate",
    "ShotNoise",
    "Snow",
    "Spatter",
    "SpeckleNoise",
    "ZoomBlur",
    "constants_for",
    "corrupt",
    "group_of",
]

_BUILT_IN = sorted(CORRUPTIONS.loaded(), key=lambda entry: int(entry.metadata["order"]))

GROUPS = tuple(dict.fromkeys(entry.metadata["group"] for entry in _BUILT_IN))
"""noise, blur, weather, digital, extra."""
STANDARD = tuple(entry.name for entry in _BUILT_IN if entry.metadata["group"] != "extra")
"""The fifteen that are reported, by their groups noise, blur, weather and digital."""
EXTRA = tuple(entry.name for entry in _BUILT_IN if entry.metadata["group"] == "extra")
"""The four that are kept apart, to choose by."""
