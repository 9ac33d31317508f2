"""Random search with squares: an attack that asks for scores alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Literal

import torch
from annotated_types import Interval
from torch import Tensor

from shiftproof.attacks.ascent import fast_copy, in_range, project_inside
from shiftproof.attacks.contract import ATTACKS, Attack
from shiftproof.attacks.losses import evaluate, margin
from shiftproof.attacks.victim import Victim
from shiftproof.errors import UsageError
from shiftproof.perturbations.threat import Norm, ThreatOption, project
from shiftproof.types import Positive

__all__ = ["Square", "window_size"]

_HALVINGS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
"""After these parts of the queries, windows are half as large."""
_TILES = 5
"""The search in l2 starts from so many tiles on a side."""
_BLOCK = 256
"""For so many queries a sample's numbers are drawn at once."""
_SMALLEST, _NOTHING = 1e-12, 1e-3
_PLACES = 6
"""Numbers of a query that are no signs: rows and columns of two windows, which way a window is divided, a share."""


@ATTACKS.register("square", paper="Andriushchenko et al. 2020", cost="queries forward a sample")
@dataclass(frozen=True)
class Square(Attack):
    """Random windows of an image are changed to the edge of the ball, and kept if the margin shrinks; no gradients.

    Windows cover a part `p` of the image at first, and less and less. In linf all pixels of a window move by eps, up or
    down in each channel; in l2 and l1 a window gets some of the change of another one. Flat inputs are one row of
    pixels. A misclassified sample is left alone, unless `early_exit` is off or the victim is judged by other scores.

    Andriushchenko et al., "Square attack: a query-efficient black-box adversarial attack via random search" (2020,
    arXiv:1912.00049).
    """

    threat: ThreatOption
    queries: Positive = 5_000
    p: Annotated[float, Interval(gt=0, le=1)] = 0.8
    clip: bool = True
    early_exit: bool = True

    @property
    def passes(self) -> int:
        """Scores for one sample, at most."""
        return self.queries

    def run(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Tensor:
        """The point of the largest margin that was found, for every sample."""
        images = inputs.reshape(len(inputs), *_image_shape(tuple(inputs.shape[1:])))
        victim, found, rows = fast_copy(victim, inputs), images.clone(), torch.arange(len(inputs), device=inputs.device)
        start, move = _MOVES[self.threat.norm]
        radii, leaves, draws = eps.reshape(-1, 1, 1, 1), self.early_exit and victim.exact, images.new_empty(0)
        kept = torch.full((len(inputs),), -math.inf, dtype=torch.float64, device=inputs.device)
        for query in range(self.queries):
            if query == 0:
                tried = start(images, radii, generators)
            else:
                place = (query - 1) % _BLOCK
                if place == 0:
                    draws = _uniform([generators[row] for row in rows.tolist()], (_BLOCK, _PLACES + images.shape[1]))
                    draws = draws.to(images)
                size = window_size((images.shape[2], images.shape[3]), self.p, query / self.queries)
                tried = move(found[rows], images[rows], radii[rows], draws[:, place], size)
            if self.threat.norm == "l1":
                tried = project_inside(tried - images[rows], images[rows], "l1", eps[rows], self.clip)
            tried = in_range(tried, self.clip)
            seen = evaluate(victim, tried.reshape(-1, *inputs.shape[1:]), labels[rows], margin, None)
            taken = (seen.losses > kept[rows]) | (seen.wrong & leaves)
            found[rows[taken]], kept[rows[taken]] = tried[taken], seen.losses[taken]
            if leaves and bool(seen.wrong.any()):
                rows, draws = rows[~seen.wrong], draws[~seen.wrong] if query else draws
                if not len(rows):
                    break
        return found.reshape(inputs.shape)


def window_size(image: tuple[int, int], p: float, done: float) -> tuple[int, int]:
    """Height and width of a window when a part `done` of the queries is behind: as square as the image allows.

    >>> window_size((28, 28), 0.8, 0.0), window_size((28, 28), 0.8, 0.5), window_size((1, 100), 0.8, 0.0)
    ((25, 25), (2, 2), (1, 80))
    """
    area = p * image[0] * image[1] / 2 ** sum(done > part for part in _HALVINGS)
    height = min(image[0], max(1, round(math.sqrt(area))))
    width = min(image[1], max(1, round(area / height)))
    if width == image[1]:
        height = min(image[0], max(1, round(area / width)))
    return height, width


def _image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    if len(shape) not in (1, 3):
        raise UsageError(
            f"inputs are of shape {shape}; this attack takes images (channels x height x width) or vectors"
        )
    return (1, 1, shape[0]) if len(shape) == 1 else (shape[0], shape[1], shape[2])


def _uniform(generators: Sequence[torch.Generator], shape: tuple[int, ...]) -> Tensor:
    """Numbers in [0, 1) of a shape for every sample, from its own generator."""
    return torch.stack([torch.rand(shape, generator=generator) for generator in generators])


def _signs(uniform: Tensor) -> Tensor:
    return torch.where(uniform < 0.5, -1.0, 1.0).to(uniform)


def _stripes(images: Tensor, radii: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
    """All columns up or down by the radius, by chance, in each channel."""
    return images + radii * _signs(_uniform(generators, (images.shape[1], 1, images.shape[3])).to(images))


def _flipped(now: Tensor, images: Tensor, radii: Tensor, draws: Tensor, size: tuple[int, int]) -> Tensor:
    """A window up or down by the radius, by chance, in each channel."""
    window = _Window(draws[:, :2], size, images).mask
    return torch.where(window, images + radii * _signs(draws[:, _PLACES:])[:, :, None, None], now)


def _tiles(images: Tensor, radii: Tensor, generators: Sequence[torch.Generator], order: int = 2) -> Tensor:
    """Tiles with more change in their middle, up or down by chance, on the surface of the ball."""
    channels, height, width = images.shape[1:]
    tall, wide = max(1, height // _TILES), max(1, width // _TILES)
    grid = (-(-height // tall), -(-width // wide))
    signs = _signs(_uniform(generators, (channels, *grid)).to(images))
    signs = signs.repeat_interleave(tall, 2).repeat_interleave(wide, 3)[:, :, :height, :width]
    change = signs * _bump(tall, wide).to(images).repeat(grid)[:height, :width]
    length: Tensor = torch.linalg.vector_norm(change.flatten(1), order, dim=1).reshape(-1, 1, 1, 1)
    return images + change * (radii / length)


def _carried(
    now: Tensor, images: Tensor, radii: Tensor, draws: Tensor, size: tuple[int, int], order: Literal[1, 2] = 2
) -> Tensor:
    """A window's change grows by a pattern, at the cost of another window and of what the ball has left.

    What is carried are squares in l2 (order 2), sizes in l1 (order 1).
    """
    change = now - images
    to, of = _Window(draws[:, :2], size, images), _Window(draws[:, 2:4], size, images)
    other = of.mask & ~to.mask
    masses = change.abs().pow(order)
    left = (radii.pow(order) - masses.sum((1, 2, 3), keepdim=True)).clamp(min=0)
    # half of the time everything, else a part: all of a window alone is too coarse near the end
    share = (2 * draws[:, 5]).clamp(max=1).reshape(-1, 1, 1, 1)
    gained = share * (masses * other).sum((2, 3), keepdim=True) + left / images.shape[1]
    if order == 1:
        # half of the time more than there is: the projection takes it off all other numbers, and what is small vanishes
        gained = gained + radii * ((4 * draws[:, 4]) % 2 - 1).clamp(min=0).reshape(-1, 1, 1, 1) / images.shape[1]
    own = change * to.mask
    length = torch.linalg.vector_norm(own, order, dim=(2, 3), keepdim=True)
    size_now = (length.pow(order) + gained).pow(1 / order)
    pattern = (
        to.placed(_halves(*size, order).to(images)[(draws[:, 4] < 0.5).long()])
        * _signs(draws[:, _PLACES:])[:, :, None, None]
    )
    mixed = pattern + own / length.clamp(min=_SMALLEST)
    mixed_length = torch.linalg.vector_norm(mixed, order, dim=(2, 3), keepdim=True)
    # a pattern that takes away all there is takes its place
    mixed = torch.where(mixed_length > _NOTHING, mixed / mixed_length.clamp(min=_SMALLEST), pattern)
    rest = torch.where(to.mask, 0, torch.where(other, change * (1 - share).pow(1 / order), change))
    moved = rest + mixed * size_now
    # in l1 the range decides as well where the ball ends
    return images + (project(moved, "l2", radii.flatten()) if order == 2 else moved)


class _Window:
    """A window for every image, where two numbers in [0, 1) put it; `mask` (N x 1 x height x width) says where."""

    def __init__(self, places: Tensor, size: tuple[int, int], images: Tensor) -> None:
        self.size = size
        high, wide = images.shape[2], images.shape[3]
        top = (places[:, :1] * (high - size[0] + 1)).long().clamp(max=high - size[0])
        left = (places[:, 1:] * (wide - size[1] + 1)).long().clamp(max=wide - size[1])
        self.rows = torch.arange(high, device=places.device) - top
        self.columns = torch.arange(wide, device=places.device) - left
        rows, columns = (self.rows >= 0) & (self.rows < size[0]), (self.columns >= 0) & (self.columns < size[1])
        self.mask = (rows[:, :, None] & columns[:, None, :])[:, None]

    def placed(self, patterns: Tensor) -> Tensor:
        """Patterns of the window's size (N x ...) inside it, and 0 around it (N x 1 x height x width)."""
        rows, columns = self.rows.clamp(0, self.size[0] - 1), self.columns.clamp(0, self.size[1] - 1)
        samples = torch.arange(len(patterns), device=patterns.device)
        return patterns[samples[:, None, None], rows[:, :, None], columns[:, None, :]][:, None] * self.mask


def _bump(height: int, width: int) -> Tensor:
    """Positive numbers (height x width) that grow towards the middle, ring by ring."""
    rings = max(height, width) // 2
    rows = (torch.arange(height) - (height - 1) / 2).abs()  # on the CPU: kept for all attacks
    columns = (torch.arange(width) - (width - 1) / 2).abs()  # on the CPU: likewise
    depth = (rings - torch.maximum(rows[:, None], columns[None, :])).floor().clamp(min=0).long()
    steps = torch.tensor([1 / (rings + 1 - ring) ** 2 for ring in range(rings + 1)])  # on the CPU: likewise
    return steps.cumsum(0)[depth]


@lru_cache(maxsize=64)
def _halves(height: int, width: int, order: int) -> Tensor:
    """Patterns of l1 or l2 norm 1, up in one half, down in the other: 2 x height x width, by rows and by columns."""
    bump = _bump(height, width)
    below = torch.arange(height) >= (height + 1) // 2  # on the CPU: kept for all attacks
    right = torch.arange(width) >= (width + 1) // 2  # on the CPU: likewise
    by_rows, by_columns = torch.where(below[:, None], -bump, bump), torch.where(right[None, :], -bump, bump)
    both = torch.stack([by_rows if height > 1 else by_columns, by_columns if width > 1 else by_rows])
    length: Tensor = torch.linalg.vector_norm(both, order, dim=(1, 2), keepdim=True)
    return both / length


_MOVES: dict[Norm, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "linf": (_stripes, _flipped),
    "l2": (_tiles, _carried),
    "l1": (partial(_tiles, order=1), partial(_carried, order=1)),
}
"""How a search starts, and how it goes on."""
