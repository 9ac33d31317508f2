"""Corrupt a batch of images or texts, each with draws of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypedDict, Unpack, overload

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.errors import UsageError
from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS, Constants, Corruption
from shiftproof.perturbations.corruptions.draws import draw_words
from shiftproof.perturbations.text import decode, encode, fault_of, parts_of, plain
from shiftproof.rng import checked_seed, derive

__all__ = ["check_kind", "corrupt"]

# what is worked on at once stays small: intermediate results of large images would not fit otherwise
_NUMBERS = 1 << 20
_SMALLEST = 8
_GROWTH, _ROOM = 3, 64
"""Strings get rows of so many times their bytes, and some more: whatever becomes of them fits."""


class _Options(TypedDict, total=False):
    seed: int
    ids: Sequence[str | int] | None
    constants: Constants


@overload
def corrupt(samples: Tensor, corruption: str, severity: int, **options: Unpack[_Options]) -> Tensor: ...
@overload
def corrupt(samples: Sequence[str], corruption: str, severity: int, **options: Unpack[_Options]) -> list[str]: ...
def corrupt(
    samples: Tensor | Sequence[str],
    corruption: str,
    severity: int,
    *,
    seed: int = 0,
    ids: Sequence[str | int] | None = None,
    constants: Constants = "auto",
) -> Tensor | list[str]:
    """Images (N x C x H x W, float in [0, 1]) or texts (strings, or rows of bytes) at a severity from 1 to 5.

    One channel is gray, two are red and green, three are red, green and blue. What happens to a sample depends on it,
    the seed and its id (its number if there are no `ids`), not on the others. `constants` are of images.

    >>> images = torch.rand(2, 3, 32, 32)
    >>> both = corrupt(images, "fog", 3, ids=["a", "b"])
    >>> bool((corrupt(images[1:], "fog", 3, ids=["b"]) == both[1:]).all())
    True
    >>> corrupt(["Well, it was a good film."], "dropped-punctuation", 5)
    ['Well it was a good film']
    """
    if isinstance(samples, str):
        raise UsageError("the texts are one string; give a list of them, such as ['It was good.']")
    if isinstance(samples, Sequence) and (not samples or any(isinstance(one, str | bytes | None) for one in samples)):
        if wrong := next(((row, fault) for row, one in enumerate(samples) if (fault := fault_of(one))), None):
            raise UsageError(f"texts[{wrong[0]}] {wrong[1]}; each of them should be a text (str)")
        texts = [plain(*parts_of(text)) for text in samples]
        rows = encode(texts, _GROWTH * max((len(text.encode()) for text in texts), default=0) + _ROOM)
        return decode(corrupt(rows, corruption, severity, seed=seed, ids=ids, constants=constants))
    kind = "text" if isinstance(samples, Tensor) and samples.ndim == 2 else "image"
    check_kind(corruption, kind)
    if kind == "text" and constants != "auto":
        raise UsageError(f"{corruption!r} has rates of its own; constants ({constants}) are of corruptions of images")
    options = {"severity": severity} if kind == "text" else {"severity": severity, "constants": constants}
    method = CORRUPTIONS.create(corruption, options)
    given = _checked_rows(samples) if kind == "text" else _checked_images(samples)
    names = _checked_ids(given, ids, kind)
    if kind == "image" and given.shape[1] == 2:
        colour = F.pad(given, (0, 0, 0, 0, 0, 1))
        return corrupt(colour, corruption, severity, seed=seed, ids=names, constants=constants)[:, :2].contiguous()
    return _in_pieces(method, corruption, given, names, checked_seed(seed))


def check_kind(corruption: str, kind: str) -> None:
    """Refuse a corruption of images for texts, and one of texts for images; `kind` is that of the samples."""
    own = CORRUPTIONS[corruption].cls.kind
    if own != kind:
        others = ", ".join(entry.name for entry in CORRUPTIONS if entry.cls.kind == kind)
        raise UsageError(
            f"{corruption!r} corrupts {own}s, and these samples are {kind}s, for which there are: {others}"
        )


def _in_pieces(method: Corruption, name: str, samples: Tensor, names: Sequence[str | int], seed: int) -> Tensor:
    shape = tuple(samples.shape[1:])
    count, rows = method.size(shape), max(_NUMBERS // max(1, math.prod(shape)), 1)
    result = torch.empty_like(samples, memory_format=torch.contiguous_format)
    with torch.no_grad():
        for start in range(0, len(samples), rows):
            some = slice(start, start + rows)
            keys = [derive(seed, "corruption", name, method.severity, one) for one in names[some] if count]
            words = draw_words(keys, count) if count else samples.new_empty(len(samples[some]), 0, dtype=torch.int32)
            given = samples[some].detach().float().contiguous()
            changed = method.apply(given, words.to(samples.device))
            result[some] = changed if method.kind == "text" else changed.clamp_(0, 1)
    return result


def _checked_rows(rows: Any) -> Tensor:
    """The rows of bytes; UsageError unless they can be corrupted."""
    low, high = (float(end) for end in rows.aminmax()) if rows.numel() else (0.0, 0.0)
    if not (rows.is_floating_point() and low >= 0 and high <= 255):
        raise UsageError(
            f"texts are {rows.dtype} from {low:.3g} to {high:.3g}; rows of text are floats that hold bytes, 0 to 255"
        )
    return rows  # type: ignore[no-any-return]


def _checked_images(images: Any) -> Tensor:
    """The images; UsageError unless they can be corrupted."""
    if not isinstance(images, Tensor) or not images.is_floating_point():
        seen = images.dtype if isinstance(images, Tensor) else type(images).__name__
        raise UsageError(f"images are {seen}; corruptions take a float tensor in [0, 1] (divide bytes by 255)")
    shape = tuple(images.shape)
    if len(shape) != 4 or shape[1] not in (1, 2, 3) or min(shape[2:]) < _SMALLEST:
        raise UsageError(
            f"images of shape {shape} can't be corrupted; they should be N x C x H x W with 1 to 3 channels "
            f"and at least {_SMALLEST} x {_SMALLEST} pixels"
        )
    if len(images):
        low, high = (float(end) for end in images.aminmax())
        if not (low >= 0 and high <= 1):
            hint = "divide by 255" if low >= 0 and 2 < high <= 255 else "undo their normalisation first"
            raise UsageError(f"images run from {low:.3g} to {high:.3g}; corruptions are defined on [0, 1]: {hint}")
    return images


def _checked_ids(samples: Tensor, ids: Sequence[str | int] | None, kind: str) -> Sequence[str | int]:
    """The ids, or numbers where there are none."""
    names = range(len(samples)) if ids is None else ids
    if len(names) != len(samples):
        raise UsageError(f"there are {len(names)} ids for {len(samples)} {kind}s; every {kind} has one")
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int | np.integer):
            raise UsageError(f"an id is {name!r}; ids are strings or whole numbers")
    return names
