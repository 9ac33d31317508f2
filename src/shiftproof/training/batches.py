"""Minibatches as a function of the step: nothing to save, nothing to restore."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from shiftproof.domains import Domain
from shiftproof.domains.threads import read_ahead
from shiftproof.objectives.objective import Augment
from shiftproof.rng import numpy_generator
from shiftproof.training.augmentation import augment_images, augmentation_draws
from shiftproof.training.machine import to_layout
from shiftproof.training.team import Team
from shiftproof.types import Batch, IntArray

__all__ = ["Batches"]


class Batches:
    """One minibatch of every domain a step.

    Each domain goes through its samples in an endless row of shuffles, keyed by its name: neither other domains nor
    their order changes what it gives, and step t needs no step before it. A process of a `team` reads its part alone.
    How images are augmented is drawn by domain, step and place in the minibatch, and is the same in every process.
    """

    def __init__(
        self,
        domains: list[Domain],
        size: int,
        seed: int,
        device: torch.device,
        layout: torch.memory_format = torch.contiguous_format,
        dtype: torch.dtype | None = None,
        team: Team | None = None,
        augment: Augment = "none",
    ) -> None:
        self._domains = sorted(domains, key=lambda domain: domain.name)
        self._size, self._seed, self._device, self._layout, self._dtype = size, seed, device, layout, dtype
        self._augment = augment
        team = team or Team()
        self._held, self._share = team.held(size), team.share((size,) * len(domains))
        self._shuffles: dict[tuple[str, int], IntArray] = {}

    def __getitem__(self, step: int) -> Batch:
        parts = [self._part(domain, step) for domain in self._domains]
        return Batch(
            to_layout(torch.cat([inputs for inputs, _ in parts]).to(self._device, self._dtype), self._layout),
            torch.cat([labels for _, labels in parts]).to(self._device),
            tuple(domain.name for domain in self._domains),
            tuple(len(labels) for _, labels in parts),
            step,
            share=self._share,
        )

    def steps(self, start: int, end: int) -> Iterator[Batch]:
        """The batches of steps start to end - 1.

        Where files must be decoded, the next batches are read while the caller works on the present one; for data in
        memory a second thread costs more than it saves (its math threads compete with the caller's).
        """
        if all(domain.inputs.in_memory for domain in self._domains):
            yield from map(self.__getitem__, range(start, end))
        else:
            yield from read_ahead(self.__getitem__, range(start, end))

    def _part(self, domain: Domain, step: int) -> tuple[Tensor, Tensor]:
        inputs, labels = domain.take(self._indices(domain, step)[self._held])
        if self._augment == "domainbed":
            draws = augmentation_draws(self._seed, domain.name, step, self._size)
            inputs = augment_images(inputs, draws[self._held])
        return inputs, labels

    def _indices(self, domain: Domain, step: int) -> IntArray:
        positions = np.arange(step * self._size, (step + 1) * self._size)
        rounds, places = np.divmod(positions, len(domain))
        wanted = sorted(set(rounds.tolist()))
        chosen = [self._shuffle(domain, r)[places[rounds == r]] for r in wanted]
        return np.concatenate(chosen)

    def _shuffle(self, domain: Domain, round_: int) -> IntArray:
        key = (domain.name, round_)
        if key not in self._shuffles:
            # only the present round and the one before can be asked for again
            self._shuffles.pop((domain.name, round_ - 2), None)
            generator = numpy_generator(self._seed, "minibatches", domain.name, round_)
            self._shuffles[key] = generator.permutation(len(domain))
        return self._shuffles[key]
