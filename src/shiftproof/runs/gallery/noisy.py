"""Samples under one draw of a certificate's noise, and at the edge of what it certifies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.certification.plain_votes import noisy_copies
from shiftproof.certification.sampling.bank import COUNTING, blocks, draw_block
from shiftproof.domains import Domain
from shiftproof.evidence import Evidence, Measurement
from shiftproof.models.outputs import logits_of
from shiftproof.perturbations.noise import NOISES, Noise, as_noise
from shiftproof.perturbations.norms import ORDERS
from shiftproof.perturbations.threat import random_surface
from shiftproof.probes.blocks import answers_of
from shiftproof.report.gallery.words import radius_text
from shiftproof.rng import torch_generator

__all__ = ["certificate_shown", "move_to_edge", "noise_of", "noisy_samples"]

PIXELS = "pixel values in [0, 1]"
_INSIDE = 1 - 1e-6
"""A guarantee holds below its radius."""


def certificate_shown(evidence: Evidence) -> Measurement | None:
    """The first certificate of a model on a domain whose rule is sound."""
    sound = (one for one in evidence.where(probe="certify") if not one.fact("unsound"))
    return next(sound, None)


def noise_of(one: Measurement) -> Noise | None:
    """The noise under which a certificate counted votes on the sample itself; None where it counted none there."""
    options = one.fact("noise_options")
    if one.classifier != "smoothed" or options is None or options["name"] not in NOISES:
        return None
    return as_noise(options)


def noisy_samples(noise: Noise, seed: int, model: nn.Module, samples: Domain) -> Iterator[tuple[str, Tensor, int]]:
    """Every sample under the first draw that its certificate counted, and what the model answers to it: one vote."""
    inputs, _ = samples.tensors()
    if noise.embedded:
        return
    first = next(blocks(noise.size(samples.shape), 1))
    draws = draw_block(noise, samples.shape, first, seed, COUNTING)[:1]
    copies = torch.cat([noisy_copies(noise, one, draws) for one in inputs])
    answers = answers_of(logits_of(model, copies))
    yield from zip(samples.ids.tolist(), copies, answers.tolist(), strict=True)


def move_to_edge(one: Measurement, samples: Domain, seed: int) -> Iterator[tuple[str, Tensor, str]]:
    """Certified samples moved in a random direction by their radius, each with the size of the move in words.

    Of certificates of deformations, the parameters are moved; of others the pixels. Texts are not moved.
    """
    noise, norm = noise_of(one), str(one.fact("norm"))
    deforming = noise if noise is not None and not noise.additive else None
    pixels = norm in ORDERS and one.fact("units") == PIXELS
    able = pixels if deforming is None else _has_directions(deforming, samples.shape)
    if samples.kind != "image" or not able:
        return
    known, radii = one.places_of(samples.ids.tolist()), one["radius"]
    certified = (radii > 0) & ~one["skipped"] & (one["prediction"] >= 0)
    for place, sample in enumerate(samples.ids.tolist()):
        if sample not in known or not certified[known[sample]] or not np.isfinite(radii[known[sample]]):
            continue
        radius = float(radii[known[sample]])
        image = samples.inputs.take(np.array([place]))
        generator = torch_generator(seed, "gallery direction", sample)
        size = tuple(image.shape) if deforming is None else (1, deforming.size(samples.shape))
        # a single parameter has two directions, whatever its norm is called
        step = random_surface(size, "linf" if size == (1, 1) else norm, radius * _INSIDE, generator)  # type: ignore[arg-type]
        moved = image + step if deforming is None else deforming.apply(image, step)
        yield sample, moved[0], radius_text(radius, norm)


def _has_directions(noise: Noise, shape: tuple[int, ...]) -> bool:
    """Whether there is a direction to draw: the norm of its parameters is one of a vector, or there is a single one."""
    return noise.norm in ORDERS or noise.size(shape) == 1
