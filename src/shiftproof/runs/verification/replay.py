"""Votes counted again with the very noise that certified, by the model itself.

How that noise follows from the seed is written here a second time, on purpose: a mistake of the sampling engine, or of
the models that it prepares, would repeat itself in a replay that used them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.attacks.victim import frozen
from shiftproof.certification.certifiers.median_classifier import CertifiedMedian
from shiftproof.certification.plain_votes import count_votes, standard_noise
from shiftproof.models.text import noise_shape
from shiftproof.perturbations.noise import Noise
from shiftproof.perturbations.noise.gaussian import Gaussian
from shiftproof.rng import numpy_generator
from shiftproof.types import FloatArray, IntArray

__all__ = ["certifying_noise", "replayed_medians", "replayed_votes"]


def certifying_noise(noise: Noise, size: int, seed: int, count: int) -> Iterator[FloatArray]:
    """The first `count` standard draws (x size) that certify under a seed, some at a time.

    They come in blocks: 128 draws, then as many as there were before, but at most 1,024 or what fits into 32 MiB of
    float32, each from a generator of its own.
    """
    fitting = max(1, (32 << 20) // (4 * size))
    largest = max(16, min(1_024, 1 << fitting.bit_length() - 1))
    start = number = 0
    while start < count:
        length = min(max(start, 128), largest)
        generator = numpy_generator(seed, "certification", noise.law, size, number)
        yield standard_noise(noise.law, size, length, generator)[: count - start]
        start, number = start + length, number + 1


def replayed_votes(voters: Sequence[tuple[nn.Module, Noise]], inputs: Tensor, seed: int, drawn: IntArray) -> IntArray:
    """Votes for every class (voters x N x K) of inputs (N x shape) with their own noise, `drawn` (voters x N) each."""
    counts = []
    for (model, noise), numbers in zip(voters, drawn, strict=True):
        size = noise.size(noise_shape(noise, model, tuple(inputs.shape[1:])))
        with frozen(model):
            rows = [
                np.sum(
                    [count_votes(model, noise, one, draws) for draws in certifying_noise(noise, size, seed, int(n))],
                    axis=0,
                )
                for one, n in zip(inputs, numbers, strict=True)
            ]
        counts.append(np.stack(rows))
    return np.stack(counts)


def replayed_medians(
    classifier: CertifiedMedian, certifier: Any, inputs: Tensor, seed: int, ranks: IntArray, classes: IntArray
) -> Any:
    """Whether the classes win between the `ranks`-th smallest and largest of the samples that certified them."""
    noise = Gaussian(classifier.sigma)
    size = noise.size(tuple(inputs.shape[1:]))
    held = []
    with torch.no_grad(), frozen(classifier.model):
        for one, k, label in zip(inputs, ranks.tolist(), classes.tolist(), strict=True):
            draws = certifying_noise(noise, size, seed, certifier.samples)
            values = torch.cat([classifier.representations(one, part) for part in draws]).sort(0).values
            low, high = values[k - 1][None], values[len(values) - k][None]
            held.append(bool(classifier.head.holds(low, high, torch.tensor([label]), certifier.bound)[0]))
    return np.array(held)
