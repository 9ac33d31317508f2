"""What happens to images and texts without an attacker, at five severities: `corrupt(images, "fog", 3)`."""

from shiftproof.perturbations.corruptions.blur import DefocusBlur, GaussianBlur, ZoomBlur
from shiftproof.perturbations.corruptions.case import Case
from shiftproof.perturbations.corruptions.colour import Brightness, Contrast, Saturate
from shiftproof.perturbations.corruptions.corrupt import check_kind, corrupt
from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS, Constants, Corruption, constants_for, group_of
from shiftproof.perturbations.corruptions.dropped_words import DroppedWords
from shiftproof.perturbations.corruptions.elastic import ElasticTransform
from shiftproof.perturbations.corruptions.fog import Fog
from shiftproof.perturbations.corruptions.frost import Frost
from shiftproof.perturbations.corruptions.glass import GlassBlur
from shiftproof.perturbations.corruptions.jpeg import JPEGCompression
from shiftproof.perturbations.corruptions.motion import MotionBlur
from shiftproof.perturbations.corruptions.noise import GaussianNoise, ImpulseNoise, ShotNoise, SpeckleNoise
from shiftproof.perturbations.corruptions.ocr import OCR
from shiftproof.perturbations.corruptions.pixelate import Pixelate
from shiftproof.perturbations.corruptions.punctuation import DroppedPunctuation
from shiftproof.perturbations.corruptions.snow import Snow
from shiftproof.perturbations.corruptions.spacing import Spacing
from shiftproof.perturbations.corruptions.spatter import Spatter
from shiftproof.perturbations.corruptions.text_corruption import TextCorruption
from shiftproof.perturbations.corruptions.typos import Typos

__all__ = [
    "CORRUPTIONS",
    "EXTRA",
    "GROUPS",
    "OCR",
    "STANDARD",
    "TEXT",
    "Brightness",
    "Case",
    "Constants",
    "Contrast",
    "Corruption",
    "DefocusBlur",
    "DroppedPunctuation",
    "DroppedWords",
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
    "Spacing",
    "Spatter",
    "SpeckleNoise",
    "TextCorruption",
    "Typos",
    "ZoomBlur",
    "check_kind",
    "constants_for",
    "corrupt",
    "group_of",
]

_BUILT_IN = sorted(CORRUPTIONS.loaded(), key=lambda entry: int(entry.metadata["order"]))
_IMAGES = [entry for entry in _BUILT_IN if entry.cls.kind == "image"]

GROUPS = tuple(dict.fromkeys(entry.metadata["group"] for entry in _BUILT_IN))
"""noise, blur, weather, digital, extra; text."""
STANDARD = tuple(entry.name for entry in _IMAGES if entry.metadata["group"] != "extra")
"""The fifteen of images that are reported, by their groups noise, blur, weather and digital."""
EXTRA = tuple(entry.name for entry in _IMAGES if entry.metadata["group"] == "extra")
"""The four that are kept apart, to choose by."""
TEXT = tuple(entry.name for entry in _BUILT_IN if entry.cls.kind == "text")
"""Those of texts."""
