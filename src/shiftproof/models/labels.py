"""Which output of a model is which class of the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shiftproof.errors import ModelError

__all__ = ["match_classes"]


def match_classes(model: str, labels: Mapping[int, str], classes: Sequence[str]) -> tuple[int, ...]:
    """For each class of the data, the number of the model's output: by name if the names are the same, else by order.

    Names are compared without regard to case. If only some of them are the same, and stand elsewhere, no order is
    certain.

    >>> match_classes("m", {0: "POSITIVE", 1: "NEGATIVE"}, ["negative", "positive"])
    (1, 0)
    >>> match_classes("m", {0: "LABEL_0", 1: "LABEL_1"}, ["negative", "positive"])
    (0, 1)
    """
    own = [labels[number].strip().casefold() for number in sorted(labels)]
    wanted = [name.strip().casefold() for name in classes]
    if len(own) != len(wanted):
        raise ModelError(
            f"{model} tells apart {len(own)} classes ({_short(labels[number] for number in sorted(labels))}); the data "
            f"has {len(wanted)} ({_short(classes)}). 'shiftproof train --set model.head=free' trains a new head on it"
        )
    if sorted(own) == sorted(wanted) and len(set(own)) == len(own):
        return tuple(own.index(name) for name in wanted)
    if any(name in own and own.index(name) != place for place, name in enumerate(wanted)):
        raise ModelError(
            f"{model} has the classes {_short(labels[number] for number in sorted(labels))} and the data "
            f"{_short(classes)}: some names are the same but not in the same places. Rename those of the data, or "
            "id2label in the model's config.json"
        )
    return tuple(range(len(wanted)))


def _short(names: Iterable[str]) -> str:
    return ", ".join(names)
