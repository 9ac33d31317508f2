"""Whether attacks on a model can be trusted, looked at before it is attacked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from shiftproof.attacks import Attack
from shiftproof.attacks.attack import craft
from shiftproof.attacks.pgd import PGD
from shiftproof.attacks.validity import validity_findings
from shiftproof.attacks.validity_attacks import validity_passes
from shiftproof.attacks.victim import Base, frozen
from shiftproof.domains import Domain
from shiftproof.errors import ModelError
from shiftproof.execution import Compute, Mode, progress_bar
from shiftproof.models.placement import device_of, on_device
from shiftproof.perturbations.threat import Threat, as_threat
from shiftproof.probes import Probe
from shiftproof.probes.attack import Attack as AttackProbe
from shiftproof.runs.data import StudyData
from shiftproof.types import Finding

__all__ = ["examine_models", "examining_seconds"]

EXAMINED = 32
"""Samples on which a model is examined."""
USUAL = "l2:0.5"
"""Within which gradients are looked at where all attacks deform."""
TRIED_STEPS = 10
"""Steps of an attack by which it is foreseen how long the examination takes."""
BESIDES = 3.0
"""Seconds for what is looked at without an attack."""


def examine_models(
    models: Mapping[str, nn.Module], data: StudyData, probes: Sequence[Probe], compute: Compute, progress: Mode
) -> list[Finding]:
    """Whether gradients of the models tell how they can be attacked, if a study attacks any of them."""
    attacks = _attacks(probes)
    # of a text there are no pixels: the model itself is looked at
    threats: Sequence[Threat | None] = _threats(attacks) if data.sources.kind == "image" else [None]
    found: list[Finding] = []
    for name, model in models.items() if attacks else ():
        with progress_bar(f"examining {name}", 1, progress) as bar:
            each = list(_examine(on_device(model, compute.place), data, threats, attacks))
            found += [replace(one, message=f"{name}: {one.message}") if len(models) > 1 else one for one in each]
            bar.advance()
    return found


def examining_seconds(model: nn.Module, few: Domain, probes: Sequence[Probe], compute: Compute) -> float:
    """How long it takes at most to examine a model, by a few steps of an attack within each threat; 0 if a study does
    not attack it.
    """
    attacks = _attacks(probes)
    model = on_device(model, compute.place)
    inputs, labels = (each.to(device_of(model)) for each in few.take(np.arange(min(EXAMINED, len(few)))))
    seconds = BESIDES if attacks else 0.0
    for threat in _threats(attacks) if attacks and few.kind == "image" else ():
        tried = PGD(threat, TRIED_STEPS)
        given = [one.passes for one in attacks if one.threat == threat and isinstance(one, PGD)]
        radii, ids = torch.full((len(inputs),), threat.eps), few.ids[: len(inputs)]
        began = time.perf_counter()
        try:
            with frozen(model):
                craft(Base(model), inputs, labels, tried, radii=radii, ids=ids)
        except ModelError:
            # what has no gradients is not attacked when it is examined
            continue
        each = (time.perf_counter() - began) / tried.passes
        seconds += each * (validity_passes(threat) + sum(given[:1]))
    return seconds


def _attacks(probes: Sequence[Probe]) -> list[Attack]:
    """Attacks on the models themselves."""
    return [probe.attack for probe in probes if isinstance(probe, AttackProbe) and probe.smoothed is None]


def _threats(attacks: Sequence[Attack]) -> list[Threat]:
    """Threats to pixels within which gradients are looked at."""
    threats = dict.fromkeys(one.threat for one in attacks if isinstance(one.threat, Threat))
    return list(threats) or [as_threat(USUAL)]


def _examine(
    model: nn.Module, data: StudyData, threats: Sequence[Threat | None], attacks: Sequence[Attack]
) -> Iterator[Finding]:
    """On a few samples of all domains, for each threat to pixels; each finding once."""
    each = max(1, EXAMINED // len(data.measured))
    few = [domain.subset(np.unique(np.linspace(0, len(domain) - 1, each, dtype=np.int64))) for domain in data.measured]
    place = device_of(model)
    inputs, labels = (torch.cat(parts).to(place) for parts in zip(*(one.tensors() for one in few), strict=True))
    ids = [f"{one.name}/{sample}" for one in few for sample in one.ids]
    told = set()
    for threat in threats:
        attack = next((one for one in attacks if threat in (None, one.threat)), None)
        findings = validity_findings(
            model, inputs, labels, ids, threat, seed=0, classes=len(data.sources.classes), attack=attack
        )
        for finding in findings:
            if (finding.code, finding.message) not in told:
                yield finding
            told.add((finding.code, finding.message))
