"""Whether a corruption keeps its promises."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.perturbations.corruptions import Corruption
from shiftproof.perturbations.corruptions.draws import draw_words
from shiftproof.perturbations.edits import edit_distance
from shiftproof.perturbations.text import decode, encode, parts_of, plain
from shiftproof.rng import derive, torch_generator
from shiftproof.testing.require import require, require_method

__all__ = ["check_corruption"]

_SHAPES = ((1, 16, 16), (3, 20, 24), (3, 50, 52))
_COUNT = 3
_TEXTS = (
    "We visited the hotel last week; it was clean, bright and warm. Would I recommend it? Certainly, to all friends!",
    "Ôöé naïve café: 10 O'clock, l1ke 5 or 0 - well-known modern corn, rn, cl and vv. ",
    plain(
        "A pair: its first part is a claim, well known to everybody.", "Its second, however, is an answer (or none)."
    ),
)
_ROUNDING = 1e-5


def check_corruption(corruption: Corruption, *, rising: bool = True) -> None:
    """Whether a corruption keeps its promises, at all severities.

    A frozen dataclass that can be written down and made again; images of the same shape and type, without values that
    are not numbers; the same for the same words; an image that depends on its own words only, and not on its company;
    inputs and the global random state left alone. Unless `rising` is off, severity 5 changes images more than severity
    1 does. Of text: the same for rows of bytes, and texts as they are kept, that fit into their rows and are not empty.
    """
    name = type(corruption).__name__
    require(
        isinstance(corruption, Corruption), f"{name} should derive from shiftproof.perturbations.corruptions.Corruption"
    )
    require_method(corruption)
    if corruption.kind == "text":
        _check_texts(name, corruption, rising)
        return
    for shape in _SHAPES:
        images = _pictures(shape)
        changes = []
        for severity in range(1, 6):
            one = replace(corruption, severity=severity)
            corrupted = _check_apply(name, one, images)
            changes.append(float((corrupted.clamp(0, 1) - images).abs().mean()))
        if rising:
            words = f"{changes[0]:.3g} at severity 1 and {changes[-1]:.3g} at severity 5"
            require(changes[0] < changes[-1], f"{name} changes images of shape {shape} by {words}, on average")


def _check_texts(name: str, corruption: Corruption, rising: bool) -> None:
    longest = max(len(text.encode()) for text in _TEXTS)
    for room in (0, 64):
        rows, changes = encode(_TEXTS, longest + room), []
        for severity in range(1, 6):
            texts = decode(_check_apply(name, replace(corruption, severity=severity), rows))
            for before, text in zip(_TEXTS, texts, strict=True):
                kept = text == plain(*parts_of(text)) and len(parts_of(text)) == len(parts_of(before))
                require(
                    kept, f"{name} makes {text!r}, which is no text as texts are kept: words, one space between two"
                )
                require(all(parts_of(text)), f"{name} leaves nothing of {before!r}")
            if rising and severity in (1, 5):
                changes.append(sum(edit_distance(list(a), list(b)) for a, b in zip(_TEXTS, texts, strict=True)))
        if rising:
            words = f"{changes[0]} letters at severity 1 and {changes[-1]} at severity 5"
            require(changes[0] < changes[-1], f"{name} changes {words}, of a few texts")


def _check_apply(name: str, one: Corruption, images: Tensor) -> Tensor:
    shape = tuple(images.shape[1:])
    count = one.size(shape)
    require(isinstance(count, int) and count >= 0, f"{name} draws {count!r} words for a sample of shape {shape}")
    words, others = _words(count, "own"), _words(count, "other")
    before, state = images.clone(), torch.get_rng_state()
    corrupted = one.apply(images.clone(), words.clone())
    shown = f"{tuple(corrupted.shape)} of {corrupted.dtype}"
    same_form = corrupted.shape == images.shape and corrupted.dtype == images.dtype
    require(same_form, f"{name} makes {shown} out of images of shape {tuple(images.shape)} of {images.dtype}")
    require(bool(corrupted.isfinite().all()), f"{name} makes values that are not numbers")
    given = images.clone()
    require(torch.equal(one.apply(given, words), corrupted), f"{name}: the same words give another image")
    require(torch.equal(given, before), f"{name} overwrites the images that it is given")
    require(torch.equal(state, torch.get_rng_state()), f"{name} draws from the global random state")
    alone = one.apply(images[-1:].clone(), words[-1:])
    require(_near(alone[0], corrupted[-1]), f"{name}: an image depends on its company")
    # the first image keeps its words, all others get new ones
    mixed = one.apply(images.clone(), torch.cat([words[:1], others[1:]]))
    require(_near(mixed[0], corrupted[0]), f"{name}: an image depends on the words of others")
    return corrupted


def _words(count: int, purpose: str) -> Tensor:
    keys = [derive(0, "testing", "corruption", purpose, row) for row in range(_COUNT)]
    return draw_words(keys, count) if count else torch.empty(_COUNT, 0, dtype=torch.int32)


def _pictures(shape: tuple[int, int, int]) -> Tensor:
    """Coarse patches with finer texture, between 0 and 1: what blurs, noises and compression all change."""
    generator = torch_generator(0, "testing", "corruption", *shape)
    coarse = torch.rand(_COUNT, shape[0], 4, 4, generator=generator)
    fine = torch.rand(_COUNT, *shape, generator=generator)
    return 0.1 + 0.6 * F.interpolate(coarse, shape[1:], mode="bilinear", align_corners=False) + 0.2 * fine


def _near(one: Tensor, other: Tensor) -> bool:
    return bool(((one - other).abs() <= _ROUNDING).all())
