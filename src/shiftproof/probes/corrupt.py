"""Predictions on corrupted samples: noise, blur, weather, what cameras and codecs do; typos, what scanners do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import PlainValidator
from torch import Tensor, nn

from shiftproof.domains import Domain, Domains
from shiftproof.errors import UsageError
from shiftproof.execution import Compute
from shiftproof.perturbations.corruptions import (
    CORRUPTIONS,
    EXTRA,
    STANDARD,
    TEXT,
    Constants,
    check_kind,
    constants_for,
    corrupt,
    group_of,
)
from shiftproof.probes.blocks import Columns, ProbeTask, answers_of, measure_blocks
from shiftproof.probes.costs import trial_cost
from shiftproof.probes.probe import PROBES, Probe, Result, under_each
from shiftproof.types import Cost

__all__ = ["Corrupt", "as_corruptions", "as_severities"]

SEVERITIES = (1, 2, 3, 4, 5)
_ALL = (*STANDARD, *EXTRA)
_TOGETHER = 64


def as_corruptions(value: Any) -> tuple[str, ...]:
    """Names of corruptions: "standard" (15), "all" (19), a group such as "blur", one, or several with commas.

    What "standard" and "all" name are corruptions of images; `Corrupt.on` puts those of text in their place.
    """
    groups = {"standard": STANDARD, "all": _ALL, "text": TEXT}
    found: list[str] = []
    if not isinstance(value, str | list | tuple):
        raise UsageError(f"corruptions are {value!r}; they should be names, such as [fog, snow] or standard")
    for name in value.split(",") if isinstance(value, str) else value:
        name = str(name).strip()
        group = tuple(entry.name for entry in CORRUPTIONS if entry.metadata.get("group") == name)
        found += groups.get(name) or group or [CORRUPTIONS[name].name]
    if not found:
        raise UsageError("there is no corruption in the list; see: shiftproof ls corruptions")
    return tuple(dict.fromkeys(found))


def as_severities(value: Any) -> tuple[int, ...]:
    """Severities in order: one, several in a list, or a text with commas."""
    parts = value.split(",") if isinstance(value, str) else [value] if isinstance(value, int) else value
    try:
        # not int(1.5), and not int(True)
        chosen = tuple(sorted({int(str(part)) for part in parts}))
    except (TypeError, ValueError) as error:
        raise UsageError(f"severities are {value!r}; they should be whole numbers from 1 to 5") from error
    if not chosen or not set(chosen) <= set(SEVERITIES):
        raise UsageError(f"severities are {value!r}; they should be whole numbers from 1 to 5")
    return chosen


@PROBES.register("corrupt", cost="1 forward pass a sample, corruption and severity")
@dataclass(frozen=True)
class Corrupt(Probe):
    """Predictions on corrupted samples: `{name: corrupt, corruptions: standard, severities: [1, 3, 5]}`.

    `corruptions`: standard (15; of text all 6), all (19), a group (noise, blur, weather, digital, extra; text), or
    names. `constants`: "cifar" or "imagenet", how strong a severity is; "auto" takes the first for images of up to 48
    pixels.
    """

    corruptions: Annotated[tuple[str, ...], PlainValidator(as_corruptions)] = STANDARD
    severities: Annotated[tuple[int, ...], PlainValidator(as_severities)] = SEVERITIES
    constants: Constants = "auto"

    title: ClassVar[str] = "corrupted"

    @property
    def settings(self) -> list[tuple[str, int]]:
        """Every corruption at every severity."""
        return [(name, severity) for name in self.corruptions for severity in self.severities]

    def on(self, data: Domain | Domains) -> Corrupt:
        """On text, "standard" and "all" are the corruptions of text."""
        usual = self.corruptions in (STANDARD, _ALL)
        return replace(self, corruptions=TEXT) if data.kind == "text" and usual else self

    def collect(self, task: ProbeTask) -> list[Result]:
        """Predictions under each; a sample's corruption depends on the seed and its id alone."""
        columns = measure_blocks(partial(self.measure, seed=task.seed), task, with_ids=True, most=_TOGETHER)
        constants = constants_for(task.domain.shape, self.constants) if task.domain.kind == "image" else ""
        facts = [
            {
                "corruption": name,
                "corruption_group": group_of(name),
                "severity": severity,
                "constants": constants,
                "setting": f"{name} {severity}, {constants} constants" if constants else f"{name} {severity}",
                "title": f"{name} {severity}",
            }
            for name, severity in self.settings
        ]
        return under_each(facts, columns)

    def check(self, model: nn.Module, domain: Domain, calibration: object) -> None:
        """Refuse images that can't be corrupted, and corruptions of another kind than the samples."""
        asked = self.on(domain)
        for name in asked.corruptions:
            check_kind(name, domain.kind)
        inputs, _ = domain.take([0])
        corrupt(inputs, *asked.settings[0], constants=self.constants)

    def cost(self, model: nn.Module, domain: Domain, compute: Compute) -> Cost:
        """By a trial on a few samples."""
        asked = self.on(domain)
        return trial_cost(asked.measure, model, domain, compute, asked.passes(model), _TOGETHER)

    def passes(self, model: nn.Module) -> int:
        """Forward passes of one sample."""
        return len(self.settings)

    def measure(
        self, model: nn.Module, inputs: Tensor, labels: Tensor, ids: NDArray[np.object_], seed: int = 0
    ) -> Columns:
        """Of a block of samples, one column a corruption and severity."""
        names, samples = [str(one) for one in ids], inputs.cpu()
        predictions = []
        with torch.no_grad():
            for name, severity in self.settings:
                changed = corrupt(samples, name, severity, seed=seed, ids=names, constants=self.constants)
                predictions.append(answers_of(model(changed.to(inputs.device))))
        return {"prediction": np.stack(predictions, 1)}
