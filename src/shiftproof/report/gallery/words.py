"""Outcomes of a sample in words, bars and lengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from shiftproof.perturbations.edits import readable_radii
from shiftproof.perturbations.threat import size_text
from shiftproof.report.gallery.block import Answer, Bar, Chip, Scale
from shiftproof.report.gallery.outcomes import ABSTAINS, Attacked, Certified, SampleOutcome

__all__ = [
    "answer_of",
    "attack_words",
    "bars_of",
    "chips_of",
    "class_name",
    "distance_text",
    "radius_text",
    "scale_of",
    "vote_words",
]


def class_name(place: int, classes: Sequence[str]) -> str:
    """The name of a class; a model may answer with one that the data does not have."""
    if place == ABSTAINS:
        return "abstains"
    return classes[place] if 0 <= place < len(classes) else f"class {place}"


def answer_of(place: int, label: int | None, classes: Sequence[str]) -> Answer:
    """An answer with its class's name."""
    return Answer(class_name(place, classes), None if label is None else place == label)


def radius_text(value: float, norm: str) -> str:
    """A radius with its norm, rounded down to three digits: a guarantee is never rounded up.

    >>> radius_text(0.41999, "l2"), radius_text(2.0001, "edits")
    ('l2 0.419', '2 edits')
    """
    whole = float(readable_radii(np.float64(value), norm))  # type: ignore[arg-type]
    if norm == "edits" or not whole or not np.isfinite(whole):
        return size_text(whole, norm)
    step = 10.0 ** (np.floor(np.log10(whole)) - 2)
    return f"{norm} {np.floor(whole / step + 1e-9) * step:.3g}"


def distance_text(value: float, norm: str) -> str:
    """How far an attack went, with its norm, to three digits.

    >>> distance_text(0.24996, "l2"), distance_text(1.0, "edits")
    ('l2 0.25', '1 edit')
    """
    return size_text(float(f"{value:.3g}"), norm)


def chips_of(outcome: SampleOutcome, classes: Sequence[str]) -> Iterator[Chip]:
    """What a tile says: the answer, then what is certified, then what broke it."""
    if outcome.answer is not None:
        told = answer_of(outcome.answer, outcome.label, classes)
        yield Chip("pass" if told.right else "fail", f"{'right' if told.right else 'says'} {told.text}")
    elif outcome.predicted is not None:
        yield Chip("soft", f"says {outcome.predicted:.3g}")
    one = outcome.first
    if one is not None and one.skipped:
        yield Chip("soft", "not certified")
    elif one is not None and one.abstained:
        yield Chip("warn", "abstains")
    elif one is not None:
        wrong = "" if one.right else f" as {class_name(one.prediction, classes)}"
        yield Chip("pass" if one.right else "fail", f"certified{wrong} {radius_text(one.radius, one.norm)}")
    if broken := outcome.broken_by:
        least = min(broken, key=lambda attack: attack.distance / (attack.eps or 1.0))
        yield Chip("fail", f"broken {distance_text(least.distance, least.norm)}")
    if lost := outcome.lost_to:
        yield Chip("warn", f"{len(lost)} of {len(outcome.corrupted)} corruptions")


def bars_of(one: Certified, label: int | None, classes: Sequence[str]) -> Iterator[Bar]:
    """Votes for the chosen class, the runner-up, the label if it is neither, and all others together."""
    if one.n <= 0 or one.skipped:
        return
    counted = {one.chosen: ("chosen", one.count)}
    if one.runner_up != ABSTAINS and one.runner_up != one.chosen:
        counted[one.runner_up] = ("runner-up", one.runner_up_count)
    if label is not None and label not in counted and one.label_count >= 0:
        counted[label] = ("label", one.label_count)
    for place, (role, count) in counted.items():
        also = f"{role}, label" if place == label and role != "label" else role
        yield Bar(class_name(place, classes), also, count, 100 * count / one.n, place == label)
    others = one.n - sum(count for _, count in counted.values())
    if others > 0 and len(classes) > len(counted):
        yield Bar("others", "", others, 100 * others / one.n, False)


def vote_words(one: Certified, classes: Sequence[str]) -> str:
    """What a certificate says of a sample, in a sentence."""
    where = f"{one.title} ({one.classifier} classifier)"
    if one.skipped:
        return f"{where}: not certified, because the class that was chosen for it is wrong."
    if one.abstained:
        return f"{where}: abstains, so that nothing is guaranteed."
    size, name = radius_text(one.radius, one.norm), class_name(one.prediction, classes)
    wrong = "" if one.right else ", which is wrong"
    return f"{where}: answers {name}{wrong}, guaranteed within {size} ({one.units})."


def attack_words(one: Attacked, classes: Sequence[str]) -> str:
    """What an attack did, in a sentence."""
    who = f"{one.title} ({'the model itself' if one.classifier == 'base' else f'{one.classifier} classifier'})"
    if one.distance <= 0:
        return f"{who}: {'not moved' if one.right else 'not attacked, because it is wrong as it is'}."
    if one.right:
        return f"{who}: held; the attack found nothing."
    return f"{who}: broken at {distance_text(one.distance, one.norm)}, taken for {class_name(one.answer, classes)}."


def scale_of(certified: Certified, attacked: Attacked) -> Scale:
    """A radius beside the distance of an attack, where both are lengths of the same kind."""
    radius = certified.radius if certified.holds and np.isfinite(certified.radius) else 0.0
    reached = attacked.distance if not attacked.right and attacked.distance > 0 else None
    if (certified.norm, certified.units) != (attacked.norm, attacked.units):
        words = (
            f"The radius is in {certified.norm} ({certified.units}), the attack in {attacked.norm} ({attacked.units})"
        )
        return Scale(f"{words}: these lengths are not compared.")
    # of edits, a certificate of k has a radius a little above k
    shown = float(readable_radii(np.float64(radius), certified.norm))  # type: ignore[arg-type]
    most = 1.1 * max(shown, reached or 0.0, attacked.eps) or 1.0
    held = f"certified {radius_text(radius, certified.norm)}" if radius else "nothing certified"
    tried = (
        f"broken at {distance_text(reached, attacked.norm)}"
        if reached
        else f"held up to {size_text(attacked.eps, attacked.norm)}"
    )
    if attacked.distance <= 0:
        tried = "not attacked"
    same = certified.classifier == attacked.classifier and certified.noise == attacked.noise
    order = "of the same classifier" if same else "of different classifiers, so that no order is claimed"
    return Scale(
        f"{held}, {tried}, {order}.",
        100 * shown / most if radius else None,
        100 * reached / most if reached else None,
    )
