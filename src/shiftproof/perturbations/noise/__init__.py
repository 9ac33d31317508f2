"""What smoothing draws, one file a noise: `noise.Gaussian(0.25)`, or by name: `as_noise("rotation:0.5")`."""

from shiftproof.perturbations.noise.affine import Affine
from shiftproof.perturbations.noise.dct import DCT
from shiftproof.perturbations.noise.embedding_gaussian import EmbeddingGaussian
from shiftproof.perturbations.noise.gaussian import Gaussian
from shiftproof.perturbations.noise.noise import NOISES, Noise, NoiseOption, as_noise, draw, label
from shiftproof.perturbations.noise.rotation import Rotation
from shiftproof.perturbations.noise.scaling import Scaling
from shiftproof.perturbations.noise.translation import Translation
from shiftproof.perturbations.noise.uniform import Uniform
from shiftproof.perturbations.noise.word_deletion import WordDeletion

__all__ = [
    "DCT",
    "NOISES",
    "Affine",
    "EmbeddingGaussian",
    "Gaussian",
    "Noise",
    "NoiseOption",
    "Rotation",
    "Scaling",
    "Translation",
    "Uniform",
    "WordDeletion",
    "as_noise",
    "draw",
    "label",
]
