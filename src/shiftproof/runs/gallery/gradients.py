"""Draw loss gradients of a run's models on a few samples, as trained and adapted to noise, unless they are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shiftproof.attacks.victim import frozen
from shiftproof.certification.calibration import calibration_images
from shiftproof.certification.certifiers.adapted_smoothing import AdaptedSmoothing
from shiftproof.display.pictures import Pixels
from shiftproof.domains import Domain
from shiftproof.execution import write_atomically
from shiftproof.models.adaptation import adapt_batchnorm, batchnorm_layers
from shiftproof.models.placement import device_of
from shiftproof.perturbations.noise import Noise, draw
from shiftproof.probes import Probe
from shiftproof.probes.adapted import Adapted
from shiftproof.probes.certify import Certify
from shiftproof.probes.noisy import Noisy
from shiftproof.report.gallery.gradients import gradient_path, gradient_picture, labelled_sheet
from shiftproof.rng import numpy_generator
from shiftproof.runs.data import StudyData
from shiftproof.runs.gallery.choose import samples_shown
from shiftproof.runs.spec import Study

__all__ = ["Adaptation", "gradient_domains", "largest_adaptation", "loss_gradients", "write_gradients"]

SAMPLES, MODELS = 2, 4
"""Samples of a domain, and models of which gradients are drawn."""
COLUMNS = ("image", "clean,\nas trained", "noise,\nas trained", "clean,\nadapted", "noise,\nadapted")


@dataclass(frozen=True)
class Adaptation:
    """To which noise BatchNorm is adapted, on how many training images (or which), and with which momentum."""

    noise: Noise
    calibration: Any
    momentum: float


def write_gradients(
    folder: Path, study: Study, data: StudyData, models: Mapping[str, nn.Module], *, contents: bool = True
) -> None:
    """Draw gradients on every domain that has no such picture yet, where the study adapts models to noise on images;
    without `contents`, none stay. `models` are those of the first training seed, by name.
    """
    for domain in data.measured if not contents else ():
        gradient_path(folder, domain.name).unlink(missing_ok=True)
    missing = [one for one in gradient_domains(study, data.measured) if not gradient_path(folder, one.name).is_file()]
    adaptation = largest_adaptation(study.all_probes)
    if not contents or not missing or adaptation is None:
        return
    shown = {
        name: model
        for name, model in models.items()
        if largest_adaptation(study.probes_of(name)) is not None and batchnorm_layers(model)
    }
    # what adapts one model adapts all
    images = calibration_images(adaptation.calibration, data.training).inputs if shown else None
    pairs = {
        name: (model, adapt_batchnorm(model, images, adaptation.noise, momentum=adaptation.momentum))
        for name, model in list(shown.items())[:MODELS]
        if images is not None
    }
    for domain in missing:
        here = {name: pair for name, pair in pairs.items() if data.is_measured(name, domain.name)}
        if here:
            samples = samples_shown(data, study.all_probes, domain, SAMPLES)
            sheet = gradient_sheet(samples, here, adaptation.noise, study.seed)
            write_atomically(gradient_path(folder, domain.name), sheet)


def gradient_domains(study: Study, measured: Sequence[Domain]) -> list[Domain]:
    """The domains of images on which gradients are drawn: all, where a study adapts models to noise."""
    if largest_adaptation(study.all_probes) is None:
        return []
    return [one for one in measured if one.kind == "image" and len(one.shape) == 3 and not one.is_regression]


def largest_adaptation(probes: Sequence[Probe]) -> Adaptation | None:
    """The largest noise to which probes adapt a model, of the family that is asked for first; of several ways to adapt
    to it the one with the largest momentum, and then the most images.
    """
    found = [one for probe in probes for one in _adaptations(probe)]
    same = [one for one in found if one.noise.name == found[0].noise.name]

    def size(one: Adaptation) -> tuple[float, float, float]:
        # images that are given are taken as they are
        return one.noise.scale, one.momentum, one.calibration if isinstance(one.calibration, int) else float("inf")

    return max(same, key=size, default=None)


def gradient_sheet(
    samples: Domain, models: Mapping[str, tuple[nn.Module, nn.Module]], noise: Noise, seed: int
) -> bytes:
    """A PNG: a row for each model, and for each sample the image and gradients of the model and its adapted copy."""
    inputs, labels = samples.tensors()
    noisy = _one_draw(noise, samples, seed)
    rows = []
    for pair in models.values():
        # images x classifiers x (clean, noisy)
        gradients = [[loss_gradients(one, some, labels) for some in (inputs, noisy)] for one in pair]
        row: list[Pixels] = []
        for place, image in enumerate(inputs):
            row.append(image.numpy())
            row += [gradient_picture(some[place].numpy()) for classifier in gradients for some in classifier]
        rows.append(row)
    return labelled_sheet(rows, list(models), COLUMNS * len(inputs), len(inputs))


def loss_gradients(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """The gradient of each sample's cross-entropy with respect to its input (N x shape)."""
    device = device_of(model)
    with frozen(model), torch.enable_grad():
        moved = inputs.detach().to(device, copy=True).requires_grad_()
        # a network may overwrite what it is given
        loss = nn.functional.cross_entropy(model(moved.clone()), labels.to(device), reduction="sum")
        (gradient,) = torch.autograd.grad(loss, moved)
    return gradient.detach().cpu()


def _one_draw(noise: Noise, samples: Domain, seed: int) -> Tensor:
    """Every sample under one draw of its own, which depends on the seed and its id alone."""
    inputs, _ = samples.tensors()
    generators = [numpy_generator(seed, "gradient picture", str(one)) for one in samples.ids]
    drawn = [torch.from_numpy(draw(noise, samples.shape, 1, one) * noise.scale).float() for one in generators]
    return noise.apply(inputs, torch.cat(drawn))


def _adaptations(probe: Probe) -> Iterator[Adaptation]:
    if (isinstance(probe, Noisy) and probe.adapted) or isinstance(probe, Adapted):
        yield Adaptation(probe.noise, probe.calibration, probe.momentum)
    for one in probe.certifiers if isinstance(probe, Certify) else ():
        if isinstance(one, AdaptedSmoothing):
            yield from (Adaptation(noise, one.calibration, one.momentum) for noise in one.noises)
