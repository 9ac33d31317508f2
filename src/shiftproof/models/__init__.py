"""Classifiers that return logits: small nets by name, the encoder/head split, normalisation, saving and loading."""

from shiftproof.models.files import save_model
from shiftproof.models.layers import Gray, Normalized
from shiftproof.models.load import load_model, read_card
from shiftproof.models.networks.architecture import MODELS, Architecture, NetworkBlueprint, build_model
from shiftproof.models.split import SplitModel, blueprint_of
from shiftproof.models.text_model import TextModel

__all__ = [
    "MODELS",
    "Architecture",
    "Gray",
    "NetworkBlueprint",
    "Normalized",
    "SplitModel",
    "TextModel",
    "blueprint_of",
    "build_model",
    "load_model",
    "read_card",
    "save_model",
]
