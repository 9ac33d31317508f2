"""The noise: standard draws in blocks by index, and the grid on which noise and inputs meet.

Floating-point noise is finer near 0 than elsewhere, and a model that reads low bits can tell x from x + delta by them,
which no certificate allows. Here an input and its noise are whole multiples of one step, added without rounding, so
that what the model sees is a fixed function of their sum: the guarantee holds in floating point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shiftproof.errors import UsageError
from shiftproof.perturbations.noise import Noise, draw
from shiftproof.rng import numpy_generator
from shiftproof.types import FloatArray

__all__ = [
    "CHOOSING",
    "COUNTING",
    "FIRST",
    "Block",
    "blocks",
    "check_exact",
    "draw_block",
    "grid_of",
    "off_grid",
    "on_grid",
]

CHOOSING, COUNTING = "class choice", "certification"
"""What noise is for; the two never share a draw."""

PIXEL_GRID = 65_280
"""Steps in a unit of pixel values: 256 between two levels of eight bits."""
PARAMETER_GRID = 65_536
"""Steps in a unit of a deformation's parameters."""
EMBEDDING_GRID = 262_144
"""Steps in a unit of a model's embedding: numbers up to 64 are exact, and long texts are hardly off the grid."""

SMALLEST, FIRST, LARGEST, BLOCK_BYTES = 16, 128, 1_024, 32 << 20
_FLOAT32_ROUNDING = 2.0**-24
LARGEST_DRAW = 12
"""No standard normal draw is ever larger: one in 10^32 would be."""
# whole numbers above this are no longer exact in float32
_LARGEST_EXACT = 2**24


@dataclass(frozen=True)
class Block:
    """The noise indices from `start` to `stop`. Where they lie depends on the size of a draw alone."""

    number: int
    start: int
    stop: int


def blocks(size: int, n: int) -> Iterator[Block]:
    """Blocks that cover the indices below `n`: small ones first, because most easy images are decided there."""
    fitting = max(1, BLOCK_BYTES // (4 * size))
    largest = max(SMALLEST, min(LARGEST, 1 << fitting.bit_length() - 1))
    start = number = 0
    while start < n:
        stop = start + min(max(start, FIRST), largest)
        yield Block(number, start, stop)
        start, number = stop, number + 1


def draw_block(noise: Noise, shape: tuple[int, ...], block: Block, seed: int, purpose: str) -> FloatArray:
    """The standard draws of a block; every index has its own, whatever the sigma, the images and the n."""
    generator = numpy_generator(seed, purpose, noise.law, noise.size(shape), block.number)
    return draw(noise, shape, block.stop - block.start, generator)


def grid_of(noise: Noise) -> int:
    """Steps of the grid in one unit of what the noise moves."""
    grid = EMBEDDING_GRID if noise.embedded else PIXEL_GRID if noise.additive else PARAMETER_GRID
    if noise.embedded:
        check_exact(noise, 0.0)
    elif LARGEST_DRAW * noise.scale * grid > _LARGEST_EXACT - grid:
        raise UsageError(
            f"{noise.name} {noise.scale:g} is too wide: inputs are in [0, 1], and noise above 20 leaves nothing of them"
        )
    return grid


def check_exact(noise: Noise, largest: float) -> None:
    """Refuse noise on embeddings whose numbers are up to `largest` where float32 could not add the two exactly."""
    most = _LARGEST_EXACT / EMBEDDING_GRID
    if largest + LARGEST_DRAW * noise.scale > most:
        reach = f"numbers of its embeddings up to {largest:.4g}" if largest else "embeddings"
        raise UsageError(
            f"{noise.name} {noise.scale:g} is too wide for this model: {reach} and noise up to {LARGEST_DRAW} sigma "
            f"should stay below {most:g}, where sums are exact; give a smaller sigma, or scale the embedding down"
        )


def on_grid(values: FloatArray, grid: int) -> FloatArray:
    """The nearest whole numbers of steps."""
    steps: FloatArray = values * grid
    # a block is large: one copy less
    return np.rint(steps, out=steps)


def off_grid(inputs: FloatArray, norm: str) -> FloatArray:
    """How far each input is from the grid, in the norm of the radius; 0 for images of eight bits.

    What the smoothed classifier guarantees around the nearest point of the grid holds around the input for this much
    less. The rounding of float32 itself is not counted: it is how the same image is written down.
    """
    steps = np.rint(inputs * PIXEL_GRID)
    distance = np.abs(inputs - steps / PIXEL_GRID).reshape(len(inputs), -1)
    distance[distance <= _FLOAT32_ROUNDING] = 0.0
    order = 1 if norm == "l1" else 2
    far: FloatArray = np.linalg.norm(distance, order, axis=1)
    return far
