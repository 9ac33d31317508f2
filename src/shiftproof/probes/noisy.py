"""Predictions under noise, as they come: what smoothing starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Interval
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftproof.catalogue import options_of
from shiftproof.certification.calibration import CalibrationOption, calibration_images
from shiftproof.domains import Domain, Domains
from shiftproof.errors import ModelError, UsageError
from shiftproof.evidence import Column
from shiftproof.execution import Compute
from shiftproof.models.adaptation import adapt_batchnorm, batchnorm_layers
from shiftproof.models.text import EmbeddedTexts, noise_shape
from shiftproof.perturbations.noise import NoiseOption, draw, label
from shiftproof.perturbations.noise.noise import check_kind
from shiftproof.probes.blocks import Columns, ProbeTask, answers_of, measure_blocks
from shiftproof.probes.costs import block_cost
from shiftproof.probes.probe import PROBES, Probe, Result
from shiftproof.rng import numpy_generator
from shiftproof.types import Cost, IntArray, Positive

__all__ = ["Noisy"]


@PROBES.register("noisy", cost="1 forward pass a sample and draw")
@dataclass(frozen=True)
class Noisy(Probe):
    """Predictions with a draw of noise on each sample: `{name: noisy, noise: gaussian:0.5, adapted: true, draws: 5}`.

    With `adapted`, of the model whose BatchNorm is adapted to that noise on `calibration` training images. Of several
    `draws`, the first is `prediction`, and the others stand in columns of their own.
    """

    noise: NoiseOption
    adapted: bool = False
    calibration: CalibrationOption = 512
    momentum: Annotated[float, Interval(ge=0, le=1)] = 1.0
    draws: Positive = 1

    def __repr__(self) -> str:
        # of one draw as ever, so that what was measured before there were several is found
        names = [name for name in options_of(Noisy) if name != "draws" or self.draws > 1]
        return f"Noisy({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.adapted and (self.momentum, self.calibration) != (1.0, 512):
            raise UsageError("momentum and calibration of noisy are for adapted: true; leave them out without it")
        if self.adapted and (self.noise.embedded or self.noise.kind != "image"):
            raise UsageError(f"BatchNorm is adapted to noise on images, not to {label(self.noise)}")

    @property
    def columns(self) -> tuple[Column, ...]:
        """The answers to the second draw and to those after it."""
        return tuple(Column(name, "int", f"Answer to draw {k}.") for k, name in enumerate(self._names[1:], 2))

    @property
    def classifier(self) -> str:
        """Of which classifier the rows speak."""
        return "adapted" if self.adapted else "base"

    @property
    def calibrates(self) -> bool:
        """Whether the model is adapted to training samples."""
        return self.adapted

    @property
    def cheap(self) -> bool:
        """A pass a draw is little beside votes and attacks."""
        return True

    @property
    def title(self) -> str:
        """What tells it from other probes of a study."""
        return f"under noise, {label(self.noise)}{self._how if self.adapted else ''}"

    @property
    def _how(self) -> str:
        """How it is adapted, where that is not the usual way."""
        momentum = f", momentum {self.momentum:g}" if self.momentum != Noisy.momentum else ""
        few = isinstance(self.calibration, int) and self.calibration != Noisy.calibration
        return f", adapted{momentum}{f', {self.calibration} images' if few else ''}"

    @property
    def _names(self) -> list[str]:
        """The columns with answers, one for each draw."""
        return ["prediction", *(f"prediction_{k}" for k in range(2, self.draws + 1))]

    def collect(self, task: ProbeTask) -> list[Result]:
        """Predictions of all samples; each has its own noise, whatever the others are."""
        model, known = task.model, dict[str, Any](noise=label(self.noise), asked=self.to_config())
        if self.adapted:
            images = calibration_images(self.calibration, task.calibration)
            images.check_apart(task.domain)
            model = adapt_batchnorm(model, images.inputs, self.noise, momentum=self.momentum)
            known["calibration_images"] = len(images.inputs)
        columns = measure_blocks(partial(self.measure, seed=task.seed), replace(task, model=model), with_ids=True)
        return [Result(columns, known)]

    def check(self, model: nn.Module, domain: Domain, calibration: Domains | None) -> None:
        """Refuse noise that is not for the samples or the model, and to adapt a model that has nothing to adapt, or to
        samples that are measured.
        """
        check_kind(self.noise, domain.kind, domain.name)
        noise_shape(self.noise, model, domain.shape)
        if not self.adapted:
            return
        if not batchnorm_layers(model):
            raise ModelError("the model has no BatchNorm with running statistics, so that there is nothing to adapt")
        calibration_images(self.calibration, calibration).check_apart(domain)

    def cost(self, model: nn.Module, domain: Domain, compute: Compute) -> Cost:
        """One pass a sample and draw."""
        ids = domain.ids[domain.blocks[0]]
        return block_cost(partial(self._measured, ids=ids), model, domain, self.draws)

    def passes(self, model: nn.Module) -> int:
        """One for each draw."""
        return self.draws

    def measure(
        self, model: nn.Module, inputs: Tensor, labels: Tensor, ids: NDArray[np.object_], seed: int = 0
    ) -> Columns:
        """Of a block of samples."""
        return {
            name: self._answers(model, inputs, [numpy_generator(seed, "noisy", str(one), *key) for one in ids])
            for name, key in zip(self._names, self._keys, strict=True)
        }

    @property
    def _keys(self) -> list[tuple[int, ...]]:
        """What a draw is keyed by besides the seed and the sample: nothing for the first, its number for the others."""
        return [(), *((k,) for k in range(2, self.draws + 1))]

    def _answers(self, model: nn.Module, inputs: Tensor, generators: Sequence[np.random.Generator]) -> IntArray:
        """To inputs of which each has a generator of its own."""
        shape = noise_shape(self.noise, model, tuple(inputs.shape[1:]))
        drawn = [draw(self.noise, shape, 1, generator) for generator in generators]
        parameters = torch.from_numpy(np.concatenate(drawn) * self.noise.scale).float()
        with torch.no_grad():
            if self.noise.embedded:
                logits = EmbeddedTexts.of(model, inputs).moved(parameters)
            else:
                logits = model(self.noise.apply(inputs.cpu(), parameters).to(inputs.device))
        return answers_of(logits)

    def _measured(self, model: nn.Module, inputs: Tensor, labels: Tensor, ids: Any) -> Columns:
        return self.measure(model, inputs, labels, ids)
