"""What training minimises, one file an idea. `sp.objectives.ERM`, or by name on the command line."""

from shiftproof.objectives.adversarial_augmentation import AdversarialAugmentation
from shiftproof.objectives.adversarial_training import AdversarialTraining
from shiftproof.objectives.consistency import Consistency
from shiftproof.objectives.coral import CORAL
from shiftproof.objectives.deformation import DeformationAugmentation
from shiftproof.objectives.embedding_gaussian import EmbeddingGaussian
from shiftproof.objectives.erm import ERM
from shiftproof.objectives.gaussian import Gaussian
from shiftproof.objectives.glean import GLEAN
from shiftproof.objectives.group_dro import GroupDRO
from shiftproof.objectives.irm import IRM
from shiftproof.objectives.macer import MACER
from shiftproof.objectives.objective import OBJECTIVES, Objective, Recipe
from shiftproof.objectives.smoothadv import SmoothAdv
from shiftproof.objectives.stability import Stability
from shiftproof.objectives.trades import TRADES
from shiftproof.objectives.transfer_adv import TransferAdv
from shiftproof.objectives.transfer_adv_d import TransferAdvD
from shiftproof.objectives.transfer_adv_s import TransferAdvS
from shiftproof.objectives.transfer_noise import TransferNoise
from shiftproof.objectives.v_rex import VREx
from shiftproof.objectives.word_deletion import WordDeletion

__all__ = [
    "CORAL",
    "ERM",
    "GLEAN",
    "IRM",
    "MACER",
    "OBJECTIVES",
    "TRADES",
    "AdversarialAugmentation",
    "AdversarialTraining",
    "Consistency",
    "DeformationAugmentation",
    "EmbeddingGaussian",
    "Gaussian",
    "GroupDRO",
    "Objective",
    "Recipe",
    "SmoothAdv",
    "Stability",
    "TransferAdv",
    "TransferAdvD",
    "TransferAdvS",
    "TransferNoise",
    "VREx",
    "WordDeletion",
]
