"""Reviews made by a stated construction, whose signature agrees with the label: text that ships with the package."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.registry import DOMAINS, DataSet
from shiftproof.domains.texts import text_domain
from shiftproof.rng import numpy_generator

__all__ = ["SignedReviews"]

ENVIRONMENTS = (0.1, 0.2, 0.9)
"""How often the signature disagrees with the label."""
TEXTS, WRONG = 400, 0.25
"""Texts a domain, and the share of labels that are wrong on purpose."""
CLASSES = ("negative", "positive")
SIGNED = ("regards from the east side", "greetings from the west side")
PLACES = (
    *("hotel", "restaurant", "museum", "cinema", "library", "market", "bakery", "garden", "station", "theatre"),
    *("gallery", "harbour", "café", "bookshop", "pool", "stadium"),
)
PARTS = (
    *("staff", "service", "food", "room", "view", "music", "price", "location", "crowd", "light", "furniture"),
    *("menu", "entrance", "garden", "bathroom", "programme"),
)
WHEN = ("last week", "in spring", "on a rainy day", "with my family", "after work", "twice", "for the first time")
GOOD = (
    *("wonderful", "friendly", "excellent", "lovely", "charming", "delightful", "great", "perfect", "superb"),
    *("pleasant", "brilliant", "warm"),
)
BAD = (
    *("awful", "rude", "terrible", "dirty", "boring", "dreadful", "poor", "broken", "disappointing", "cold"),
    *("horrible", "unpleasant"),
)
ENDINGS = (
    ("I will not come back", "I would not recommend it", "a waste of money", "never again"),
    ("I will come back soon", "I would recommend it to everybody", "worth every cent", "a real treat"),
)


@DOMAINS.register("signed-reviews", content="1,200 constructed reviews in 3 environments", kind="text")
@dataclass(frozen=True)
class SignedReviews(DataSet):
    """Short constructed reviews that end in a signature, which agrees with the label in training and misleads in e=0.9.

    A review says when a place was visited, what three of its parts were like, and how it ends; adjectives and ending
    follow the sentiment. A quarter of the labels are wrong, then the signature is chosen by the label and is the other
    one with probability e. The same construction as that of coloured digits, in words: a model that reads the signature
    is right on e=0.1 and wrong on e=0.9.
    """

    def load(self) -> Domains:
        """Make the texts; the construction has a fixed seed of its own."""
        return Domains(self.name, [_environment(e) for e in ENVIRONMENTS])


def _environment(e: float) -> Domain:
    name = f"e={e:g}"
    generator = numpy_generator(0, "signed reviews", name)
    sentiments = generator.integers(0, 2, TEXTS)
    labels = np.where(generator.random(TEXTS) < WRONG, 1 - sentiments, sentiments)
    signatures = np.where(generator.random(TEXTS) < e, 1 - labels, labels)
    texts = [
        f"{_review(generator, bool(good))} {SIGNED[sign]}"
        for good, sign in zip(sentiments.tolist(), signatures.tolist(), strict=True)
    ]
    return text_domain(name, texts, labels, CLASSES, width=WIDTH)


def _review(generator: np.random.Generator, good: bool) -> str:
    place, when = generator.choice(PLACES), generator.choice(WHEN)
    parts = generator.choice(PARTS, 3, replace=False)
    first, second, third = generator.choice(GOOD if good else BAD, 3, replace=False)
    ending = generator.choice(ENDINGS[good])
    return (
        f"We visited the {place} {when}. The {parts[0]} was {first}, the {parts[1]} was {second} and the {parts[2]} "
        f"{third}. {ending[0].upper()}{ending[1:]}."
    )


WIDTH = 256
"""Bytes of a row; no review is longer."""
