"""Predictions under noise, as they come: what smoothing starts from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Interval
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftproof.certification.calibration import CalibrationOption, calibration_images
from shiftproof.domains import Domain, Domains
from shiftproof.errors import ModelError, UsageError
from shiftproof.execution import Compute
from shiftproof.models.adaptation import adapt_batchnorm, batchnorm_layers
from shiftproof.models.text import EmbeddedTexts, noise_shape
from shiftproof.perturbations.noise import NoiseOption, draw, label
from shiftproof.perturbations.noise.noise import check_kind
from shiftproof.probes.blocks import Columns, ProbeTask, answers_of, measure_blocks
from shiftproof.probes.costs import block_cost
from shiftproof.probes.probe import PROBES, Probe, Result
from shiftproof.rng import numpy_generator
from shiftproof.types import Cost

__all__ = ["Noisy"]


@PROBES.register("noisy", cost="1 forward pass a sample")
@dataclass(frozen=True)
class Noisy(Probe):
    """Predictions with one draw of noise on each sample: `{name: noisy, noise: gaussian:0.5, adapted: true}`.

    With `adapted`, of the model whose BatchNorm is adapted to that noise on `calibration` training images.
    """

    noise: NoiseOption
    adapted: bool = False
    calibration: CalibrationOption = 512
    momentum: Annotated[float, Interval(ge=0, le=1)] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adapted and (self.noise.embedded or self.noise.kind != "image"):
            raise UsageError(f"BatchNorm is adapted to noise on images, not to {label(self.noise)}")

    @property
    def classifier(self) -> str:
        """Of which classifier the rows speak."""
        return "adapted" if self.adapted else "base"

    @property
    def calibrates(self) -> bool:
        """Whether the model is adapted to training samples."""
        return self.adapted

    @property
    def title(self) -> str:
        """What tells it from other probes of a study."""
        return f"under noise, {label(self.noise)}{', adapted' if self.adapted else ''}"

    def collect(self, task: ProbeTask) -> list[Result]:
        """Predictions of all samples; each has its own noise, whatever the others are."""
        model = task.model
        if self.adapted:
            images = calibration_images(self.calibration, task.calibration)
            images.check_apart(task.domain)
            model = adapt_batchnorm(model, images.inputs, self.noise, momentum=self.momentum)
        columns = measure_blocks(partial(self.measure, seed=task.seed), replace(task, model=model), with_ids=True)
        return [Result(columns, {"noise": label(self.noise)})]

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
        """One pass a sample."""
        ids = domain.ids[domain.blocks[0]]
        return block_cost(partial(self._measured, ids=ids), model, domain)

    def measure(
        self, model: nn.Module, inputs: Tensor, labels: Tensor, ids: NDArray[np.object_], seed: int = 0
    ) -> Columns:
        """Of a block of samples."""
        shape = noise_shape(self.noise, model, tuple(inputs.shape[1:]))
        draws = [draw(self.noise, shape, 1, numpy_generator(seed, "noisy", str(one))) for one in ids]
        parameters = torch.from_numpy(np.concatenate(draws) * self.noise.scale).float()
        with torch.no_grad():
            if self.noise.embedded:
                logits = EmbeddedTexts.of(model, inputs).moved(parameters)
            else:
                logits = model(self.noise.apply(inputs.cpu(), parameters).to(inputs.device))
        return {"prediction": answers_of(logits)}

    def _measured(self, model: nn.Module, inputs: Tensor, labels: Tensor, ids: Any) -> Columns:
        return self.measure(model, inputs, labels, ids)
