"""What another probe measures, asked of the model whose BatchNorm is adapted to noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

from annotated_types import Interval
from pydantic import PlainValidator
from torch import nn

from shiftproof.certification.calibration import CalibrationOption, calibration_images
from shiftproof.domains import Domain, Domains
from shiftproof.errors import ModelError, UsageError
from shiftproof.evidence import Column
from shiftproof.execution import Compute
from shiftproof.models.adaptation import adapt_batchnorm, batchnorm_layers
from shiftproof.perturbations.noise import NoiseOption, label
from shiftproof.perturbations.noise.noise import check_kind
from shiftproof.probes.attack import Attack
from shiftproof.probes.blocks import ProbeTask
from shiftproof.probes.clean import Clean
from shiftproof.probes.corrupt import Corrupt
from shiftproof.probes.probe import PROBES, Probe, Result
from shiftproof.types import Cost, Finding

__all__ = ["Adapted"]

_ASKED = (Clean, Corrupt, Attack)
_CLEAN = Clean()


def _as_asked(value: Any) -> Probe:
    probe = PROBES.make(value)
    if not isinstance(probe, _ASKED):
        names = ", ".join(kind.registered_as for kind in _ASKED)
        raise UsageError(
            f"the probe {probe.name} is not asked of an adapted model; {names} are. Accuracy under noise is by "
            "{name: noisy, adapted: true}, certificates are by adapted-smoothing"
        )
    return probe


@PROBES.register("adapted", cost="that of the probe it asks")
@dataclass(frozen=True)
class Adapted(Probe):
    """A probe asked of the model whose BatchNorm is adapted to a noise: `{name: adapted, noise: gaussian:0.5, probe:
    clean}`.

    `probe` is clean, corrupt or attack; an attack with `smoothed` is on the adapted model's vote. The copy is adapted
    on `calibration` training images, as for `adapted-smoothing`, and otherwise is the same network.
    """

    noise: NoiseOption
    probe: Annotated[Any, PlainValidator(_as_asked)] = _CLEAN
    calibration: CalibrationOption = 512
    momentum: Annotated[float, Interval(ge=0, le=1)] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise.embedded or self.noise.kind != "image":
            raise UsageError(f"BatchNorm is adapted to noise on images, not to {label(self.noise)}")

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those of what it asks."""
        return tuple(self.probe.columns)

    @property
    def classifier(self) -> str:
        """Of which classifier the rows speak."""
        return "adapted"

    @property
    def calibrates(self) -> bool:
        """The model is adapted to training samples."""
        return True

    @property
    def cheap(self) -> bool:
        """If what it asks is."""
        return bool(self.probe.cheap)

    @property
    def title(self) -> str:
        """What tells it from other probes of a study."""
        return self._adapted(self.probe.title)

    def on(self, data: Domain | Domains) -> Probe:
        """With what it asks of such data."""
        return replace(self, probe=self.probe.on(data)) if data.kind == "image" else self

    def collect(self, task: ProbeTask) -> list[Result]:
        """What the probe finds of the adapted copy."""
        images = calibration_images(self.calibration, task.calibration)
        images.check_apart(task.domain)
        model = adapt_batchnorm(task.model, images.inputs, self.noise, momentum=self.momentum)
        return [
            replace(result, facts={**result.facts, **self._names(result)})
            for result in self.probe.collect(replace(task, model=model))
        ]

    def cost(self, model: nn.Module, domain: Domain, compute: Compute) -> Cost:
        """That of what it asks: adapting takes a forward pass an image."""
        cost: Cost = self.probe.cost(model, domain, compute)
        return cost

    def passes(self, model: nn.Module) -> int:
        """Forward passes of one sample, at most."""
        return int(self.probe.passes(model))

    def findings(self) -> Iterator[Finding]:
        """Of what it asks."""
        yield from self.probe.findings()

    def check(self, model: nn.Module, domain: Domain, calibration: Domains | None) -> None:
        """Refuse a model that has nothing to adapt, and to adapt it to samples that are measured."""
        check_kind(self.noise, domain.kind, domain.name)
        if not batchnorm_layers(model):
            raise ModelError("the model has no BatchNorm with running statistics, so that there is nothing to adapt")
        calibration_images(self.calibration, calibration).check_apart(domain)
        self.probe.check(model, domain, calibration)

    def _names(self, result: Result) -> dict[str, Any]:
        """What tells its results from those of the model itself, and from each other; and what was asked."""
        title = str(result.facts.get("title", self.probe.title))
        return {
            "title": self._adapted(title),
            "setting": f"{result.facts.get('setting', '')} {self!r}".strip(),
            "adapted_to": label(self.noise),
            "asked": self.to_config(),
        }

    def _adapted(self, title: str) -> str:
        return f"{title}, adapted to {label(self.noise)}"
