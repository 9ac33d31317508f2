"""Noisy representations of a few images at a time, and the order statistic between which the class wins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.certification.bounds.ranks import order_radius, smallest_rank
from shiftproof.certification.certifier import Job, Memory
from shiftproof.certification.certifiers.median_head import Head
from shiftproof.certification.checks import reference_inputs
from shiftproof.certification.plain_votes import noisy_copies
from shiftproof.certification.sampling.bank import CHOOSING, COUNTING, blocks, draw_block, off_grid
from shiftproof.certification.sampling.voting import Voter
from shiftproof.errors import ModelError, NotAFunction
from shiftproof.execution import slots
from shiftproof.models.outputs import logits_of
from shiftproof.models.prepared.prepare import Prepared, prepare
from shiftproof.models.reference import Reference
from shiftproof.perturbations.noise.gaussian import Gaussian
from shiftproof.types import FloatArray, IntArray

if TYPE_CHECKING:
    from shiftproof.certification.certifiers.median_smoothing import MedianSmoothing

__all__ = ["Sampled", "off_grid_of"]

SHARD_BYTES, SHARD_IMAGES = 64 << 20, 256
SINGLES, NEAR, FAR = 16, 0.05, 1.0
"""Noisy inputs of an image that the model itself is asked about, and how far their values may be off, in deviations."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """The loop over a few images, in a form that can be sent to another process; yields (image, [class, k])."""

    setting: MedianSmoothing
    job: Job

    def __call__(self, shard: int) -> Iterator[tuple[int, list[int]]]:
        setting, job = self.setting, self.job
        images = [image for image in self.shards[shard] if str(image) not in job.record.done]
        if not images:
            return
        inputs = job.domain.take(np.array(images))[0]
        placed = [self.voter.place_image(one[None]) for one in inputs]
        few = self._drawn(placed, CHOOSING, setting.n0)
        classes = self.head.answers(_middle(few.sort(1).values))
        drawn = self._drawn(placed, COUNTING, setting.samples)
        self._check_plain(inputs, drawn)
        ordered = drawn.sort(1).values
        distances = off_grid_of(job, np.array(images))
        found = self._order_statistic(ordered, classes, distances)
        self.check_again()
        for image, winner, k in zip(images, classes.tolist(), found.tolist(), strict=True):
            yield int(image), [winner, k]

    def _check_plain(self, inputs: Tensor, drawn: Tensor) -> None:
        """Refuse samples that the model itself, asked with the same noise on one input at a time, does not give."""
        noise, body = Gaussian(self.setting.sigma), self._parts[0]
        first = next(iter(blocks(noise.size(self.job.domain.shape), 1)))
        draws = draw_block(noise, self.job.domain.shape, first, self.job.seed, COUNTING)[: drawn.shape[1]]
        few = np.linspace(0, len(draws) - 1, min(SINGLES, len(draws)), dtype=np.int64)
        near = NEAR if self.job.compute.precision == "f32" else FAR
        wrong = 0
        for image, values in zip(inputs, drawn, strict=True):
            copies = noisy_copies(noise, image, draws[few])
            own = torch.cat([logits_of(body, one[None]).float().cpu() for one in copies])
            apart = (own - values[few]).abs()
            wrong += int((apart > near * values.std(0) + 1e-5 * own.abs()).any(1).sum())
        # bits that are rounded otherwise can meet a step of the model
        if wrong > 1 + 0.002 * SINGLES * len(inputs):
            raise NotAFunction(
                f"the model itself gives other values to {wrong} of {len(few) * len(inputs)} noisy inputs, alone, than "
                "its copy did among others: it depends on its batch, or on what a copy of it does not keep"
            )

    def check_again(self) -> None:
        """Refuse samples of a model that says other things now, here, than it did before the first one."""
        if not self.prepared.holds() or not self.reference.holds_for(self._parts[0]):
            raise NotAFunction(
                "the model gave other outputs after sampling than before it for the same inputs: it is not a function"
            )

    @cached_property
    def _parts(self) -> tuple[nn.Module, Head]:
        return self.setting.parts(self.job)

    @cached_property
    def head(self) -> Head:
        """Behind the medians."""
        return self._parts[1]

    @property
    def dimensions(self) -> int:
        """How many medians there are."""
        return self.head.shape[0]

    @cached_property
    def reference(self) -> Reference:
        """What the model itself says of a few inputs, asked before anything is sampled."""
        return Reference.of(self._parts[0], reference_inputs(self.job.domain, self.setting.sigma))

    @cached_property
    def prepared(self) -> Prepared:
        """What is sampled, frozen and made fast."""
        job, body = self.job, self._parts[0]
        shape, reference = job.domain.shape, self.reference
        return prepare(body, shape, compute=job.compute, reference=reference)

    @cached_property
    def voter(self) -> Voter:
        """Noise on the grid, as for votes."""
        return Voter(self.prepared, Gaussian(self.setting.sigma), self.job.domain.shape, self.dimensions)

    @cached_property
    def shards(self) -> list[IntArray]:
        """Images whose samples are held together; how they are cut changes nothing."""
        size = 4 * self.setting.samples * self.dimensions
        most = max(1, min(SHARD_IMAGES, SHARD_BYTES // size))
        images = len(self.job.domain)
        count = max(-(-images // most), min(4 * slots(self.job.compute), images))
        return np.array_split(np.arange(images), count)

    def __getstate__(self) -> dict[str, Any]:
        job = replace(self.job, record=_Done(self.job.record.done))
        return {"setting": self.setting, "job": job, "reference": self.reference, "shards": self.shards}

    def _drawn(self, placed: list[Tensor], purpose: str, count: int) -> Tensor:
        """Images x count x dimensions."""
        noise_law, shape = Gaussian(self.setting.sigma), self.job.domain.shape
        values = torch.empty(len(placed), count, self.dimensions)
        for block in blocks(noise_law.size(shape), count):
            noise = self.voter.place_noise(draw_block(noise_law, shape, block, self.job.seed, purpose))
            here = min(block.stop, count) - block.start
            for row, image in enumerate(placed):
                values[row, block.start : block.start + here] = self.voter.outputs(image, noise, here).cpu()
        if not bool(torch.isfinite(values).all()):
            raise ModelError("the model returns values that are not numbers (NaN or infinite) on noisy inputs")
        return values

    def _order_statistic(self, ordered: Tensor, classes: Tensor, distances: FloatArray) -> IntArray:
        """The smallest k, with the largest radius, between whose k-th smallest and largest the class wins; 0: none."""
        setting = self.setting
        ranks = np.arange(1, setting.samples // 2 + 1)
        radii = order_radius(ranks, setting.samples, setting.sigma, setting.share(self.dimensions))
        last = int((radii > 0).sum())
        if setting.radius is not None:
            # the largest rank that still reaches the radius, sample by sample; the distance to the grid is on top
            wanted = setting.radius * (1 - 1e-12) + distances
            k = np.searchsorted(-radii, -wanted, side="right")
            held = self._holds(ordered, classes, np.maximum(k, 1)) & (k > 0)
            return np.where(held, k, 0)
        return smallest_rank(lambda k: self._holds(ordered, classes, k), last, len(classes))

    def _holds(self, ordered: Tensor, classes: Tensor, k: IntArray) -> Any:
        rows, places = torch.arange(len(classes)), torch.from_numpy(k)
        low, high = ordered[rows, places - 1], ordered[rows, ordered.shape[1] - places]
        if self.setting.unsound:
            return self.head.holds_as_published(_middle(ordered), low, high, classes)
        return self.head.holds(low, high, classes, self.setting.bound)


class _Done(Memory):
    """What is done already, without the open file."""

    def __init__(self, done: dict[str, Any]) -> None:
        super().__init__()
        self.done = dict(done)


def off_grid_of(job: Job, images: IntArray) -> FloatArray:
    """How far images are from the grid."""
    return off_grid(job.domain.take(images)[0].double().numpy(), "l2")


def _middle(ordered: Tensor) -> Tensor:
    """The median of samples in order (images x samples x dimensions)."""
    count = ordered.shape[1]
    return (ordered[:, (count - 1) // 2] + ordered[:, count // 2]) / 2
