"""The worst inside a ball: attacks on classifiers, smoothed ones included. `sp.attacks.PGD`."""

from shiftproof.attacks.apgd import APGD
from shiftproof.attacks.attack import attack, craft, overturn
from shiftproof.attacks.contract import ATTACKS, Attack
from shiftproof.attacks.embedding_pgd import EmbeddingPGD
from shiftproof.attacks.ensemble import Ensemble
from shiftproof.attacks.input_search import InputSearch, search_inputs
from shiftproof.attacks.pgd import PGD
from shiftproof.attacks.random_points import RandomPoints
from shiftproof.attacks.representation import adversarial_representation
from shiftproof.attacks.result import AttackResult, Found
from shiftproof.attacks.spatial import Spatial
from shiftproof.attacks.square import Square
from shiftproof.attacks.usual import usual_attack
from shiftproof.attacks.victim import Base, Smoothed, Victim
from shiftproof.attacks.word_edits import WordEdits
from shiftproof.perturbations.threat import ThreatOption

__all__ = [
    "APGD",
    "ATTACKS",
    "PGD",
    "Attack",
    "AttackResult",
    "Base",
    "EmbeddingPGD",
    "Ensemble",
    "Found",
    "InputSearch",
    "RandomPoints",
    "Smoothed",
    "Spatial",
    "Square",
    "ThreatOption",
    "Victim",
    "WordEdits",
    "adversarial_representation",
    "attack",
    "craft",
    "overturn",
    "search_inputs",
    "usual_attack",
]
