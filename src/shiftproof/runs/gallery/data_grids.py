"""Samples of domains as one picture: as they are, under growing noise and deformations, and corrupted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from shiftproof.display.grid import Grid, Row, Tile, draw_grids
from shiftproof.domains import Domain, Domains
from shiftproof.domains.splits import Balanced, first_samples
from shiftproof.errors import UsageError
from shiftproof.perturbations.corruptions import GROUPS, corrupt, group_of
from shiftproof.perturbations.noise import Noise, as_noise
from shiftproof.perturbations.noise.noise import check_kind, draw
from shiftproof.probes.corrupt import as_corruptions, as_severities
from shiftproof.rng import checked_seed, numpy_generator

__all__ = ["data_grids", "data_picture"]

COLUMNS = 10
"""Samples of a domain as they are, about: the same number of every class."""
CLEAN = "as it is"


def data_picture(
    domains: Domains | Domain,
    *,
    noises: Sequence[Any] = (),
    corruptions: Sequence[str] | str = (),
    severity: int = 3,
    each: int | None = None,
    seed: int = 0,
) -> Image.Image:
    """Samples of every domain in one picture: as they are, or under `noises` and `corruptions` where some are given.

    Args:
        noises: Noises or what names one ("rotation:0.3"); those of one family stand in one block, side by side.
        corruptions: standard, a group such as blur, or names; all at one `severity`.
        each: Samples of a domain. Unless told, about ten of a domain as they are, and one where it is changed.
        seed: Of what happens to a sample, with its id. Of one family of noise it is one draw, scaled, so that only the
            size differs between pictures. Which samples are shown does not depend on it: they are the first of a
            random order in which classes take turns.

    What leaves [0, 1] is shown clipped.

    >>> from shiftproof.domains import load_domains
    >>> data_picture(load_domains("rotated-digits"), noises=["gaussian:0.1", "gaussian:0.5"]).mode
    'RGB'
    """
    return draw_grids(
        data_grids(domains, noises=noises, corruptions=corruptions, severity=severity, each=each, seed=seed)
    )


def data_grids(
    domains: Domains | Domain | Sequence[Domain],
    *,
    noises: Sequence[Any] = (),
    corruptions: Sequence[str] | str = (),
    severity: int = 3,
    each: int | None = None,
    seed: int = 0,
) -> list[Grid]:
    """What `data_picture` draws, as images with their names."""
    every = [domains] if isinstance(domains, Domain) else list(domains)
    made, (severity,), seed = [as_noise(one) for one in noises], as_severities(severity), checked_seed(seed)
    names = as_corruptions(corruptions) if len(corruptions) else ()
    _check(every[0], made, each)
    samples = [_first(one, each or (1 if made or names else COLUMNS)) for one in every]
    grids = [_noise_grid(samples, list(family), seed) for _, family in groupby(made, key=_family)]
    if names:
        grids.append(_corruption_grid(samples, names, severity, seed))
    return grids or [Grid([Row(one.name, _tiles(one)) for one in samples])]


def _check(first: Domain, noises: Sequence[Noise], each: int | None) -> None:
    if first.kind != "image" or len(first.shape) != 3:
        what = "texts" if first.kind == "text" else f"arrays of shape {first.shape}"
        raise UsageError(f"{first.name!r} holds {what}, and pictures are of images (channels, height, width)")
    if each is not None and (isinstance(each, bool) or not isinstance(each, int) or each < 1):
        raise UsageError(f"the number of samples of a domain is {each!r}; it should be a whole number of at least 1")
    for noise in noises:
        check_kind(noise, first.kind, first.name)


def _first(domain: Domain, count: int) -> Domain:
    """As many samples, classes in turns; where there are no classes, in a random order."""
    return first_samples(domain, count if domain.is_regression else Balanced(count))


def _noise_grid(samples: Sequence[Domain], noises: Sequence[Noise], seed: int) -> Grid:
    """A block for one family of noise: a row for each sample, a column for each size."""
    rows = [row for domain in samples for row in _rows(domain, [_noisy(noise, domain, seed) for noise in noises])]
    return Grid(rows, _family(noises[0]), [CLEAN, *(_size(noise) for noise in noises)])


def _noisy(noise: Noise, domain: Domain, seed: int) -> Tensor:
    """Every sample under one draw; of another size of the same family, it is that draw scaled."""
    inputs, _ = domain.tensors()
    copies = []
    for image, name in zip(inputs, domain.ids, strict=True):
        standard = draw(noise, domain.shape, 1, numpy_generator(seed, "data picture", noise.name, str(name)))
        copies.append(noise.apply(image[None], torch.from_numpy(standard * noise.scale)))
    return torch.cat(copies)


def _corruption_grid(samples: Sequence[Domain], names: Sequence[str], severity: int, seed: int) -> Grid:
    """A block for all corruptions: a row for each sample, a column for each, by their groups."""
    names = sorted(names, key=lambda name: GROUPS.index(group_of(name)) if group_of(name) in GROUPS else len(GROUPS))
    rows = []
    for domain in samples:
        inputs, ids = domain.tensors()[0], [str(name) for name in domain.ids]
        rows += _rows(domain, [corrupt(inputs, name, severity, seed=seed, ids=ids) for name in names])
    groups = [(group, len(list(some))) for group, some in groupby(names, key=group_of)]
    return Grid(rows, f"corruptions, severity {severity}", [CLEAN, *names], [("", 1), *groups])


def _rows(samples: Domain, changed: Sequence[Tensor]) -> list[Row]:
    """A row for each sample, as it is and changed; the domain's name stands beside the first."""
    return [
        Row(samples.name if place == 0 else "", [tile, *(Tile(one[place].numpy()) for one in changed)])
        for place, tile in enumerate(_tiles(samples))
    ]


def _tiles(samples: Domain) -> list[Tile]:
    inputs, labels = samples.tensors()
    names = [f"{label:.2f}" if samples.is_regression else samples.classes[int(label)] for label in labels]
    return [Tile(image.numpy(), name) for image, name in zip(inputs, names, strict=True)]


def _family(noise: Noise) -> str:
    """The noise by its name and all its options but the first, which is its size."""
    _, *others = [f"{key} {value}" for key, value in noise.to_config().items() if key != "name" and value]
    return ", ".join([noise.name, *others])


def _size(noise: Noise) -> str:
    key, value = next((key, value) for key, value in noise.to_config().items() if key != "name")
    return f"{key} {value:g}"
