"""The versions of the samples of one domain: as they are, corrupted, and for each model noisy, moved and attacked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from shiftproof.domains import Domain
from shiftproof.evidence import Evidence
from shiftproof.perturbations.corruptions import corrupt
from shiftproof.perturbations.noise import label
from shiftproof.perturbations.text import decode
from shiftproof.probes import Probe
from shiftproof.probes.attack import Attack
from shiftproof.probes.corrupt import Corrupt
from shiftproof.report.gallery.files import Version, VersionKind
from shiftproof.report.gallery.pictures import amplify, encode_picture
from shiftproof.runs.gallery.attacked import TimeLeft, attack_again
from shiftproof.runs.gallery.choose import attacks_shown, corruptions_shown
from shiftproof.runs.gallery.noisy import certificate_shown, move_to_edge, noise_of, noisy_samples

__all__ = ["ShownModel", "versions_of_model", "versions_of_samples"]


@dataclass(frozen=True, eq=False)
class ShownModel:
    """A model that a gallery shows, with its probes and what they measured of it on one domain."""

    name: str
    module: nn.Module
    probes: list[Probe]
    evidence: Evidence


def versions_of_samples(samples: Domain, first: ShownModel) -> Iterator[tuple[str, Version]]:
    """What is the same for all models: the samples as they are, and some corrupted as when they were measured.

    `first` is any of the models: all were measured with the same corruptions, by the same seed.
    """
    inputs, _ = samples.tensors()
    ids = [str(one) for one in samples.ids]
    for sample, one in zip(ids, inputs, strict=True):
        yield sample, _version("original", one)
    for probe in [one.on(samples) for one in first.probes if isinstance(one, Corrupt)][:1]:
        known = {(one.fact("corruption"), one.fact("severity")): one for one in first.evidence.where(probe="corrupt")}
        for place, sample in enumerate(ids):
            for name, severity in corruptions_shown(probe, place):
                if (row := known.get((name, severity))) is not None:
                    one, seed = inputs[place : place + 1], int(row.fact("seed"))
                    changed = corrupt(one, name, severity, seed=seed, ids=[sample], constants=probe.constants)
                    yield sample, _version("corrupted", changed[0], note=row.title, setting=row.setting)


def versions_of_model(samples: Domain, shown: ShownModel, time: TimeLeft) -> Iterator[tuple[str, Version]]:
    """What is a model's own: its answer to one noisy copy, the edge of its certificates, what attacks made of it."""
    yield from _noisy(samples, shown)
    for probe in attacks_shown(shown.probes):
        yield from _attacked(samples, shown, probe, time)


def _noisy(samples: Domain, shown: ShownModel) -> Iterator[tuple[str, Version]]:
    certificate = certificate_shown(shown.evidence)
    if certificate is None or samples.is_regression:
        return
    held = certificate.places_of(samples.ids.tolist())
    seed, setting = int(certificate.fact("seed")), certificate.setting
    noise = noise_of(certificate)
    if noise is not None:
        for sample, changed, answer in noisy_samples(noise, seed, shown.module, samples):
            if sample in held:
                yield sample, _version("noisy", changed, label(noise), shown.name, setting, answer)
    for sample, changed, size in move_to_edge(certificate, samples, seed):
        yield sample, _version("moved", changed, size, shown.name, setting)


def _attacked(samples: Domain, shown: ShownModel, probe: Attack, time: TimeLeft) -> Iterator[tuple[str, Version]]:
    places = {str(sample): place for place, sample in enumerate(samples.ids)}
    for one in attack_again(probe, shown.module, samples, shown.evidence, time):
        if one.input is None:
            yield one.sample, Version("attacked", one.note, shown.name, one.setting)
            continue
        yield one.sample, _version("attacked", one.input, one.note, shown.name, one.setting)
        if samples.kind == "image":
            before = samples.inputs.take(np.array([places[one.sample]]))[0].numpy()
            change, factor = amplify(one.input.numpy().astype(np.float64) - before)
            picture = encode_picture(change, third=0.5)
            yield one.sample, Version("difference", f"{factor:g} times", shown.name, one.setting, picture)


def _version(
    kind: VersionKind, changed: Tensor, note: str = "", model: str = "", setting: str = "", answer: int | None = None
) -> Version:
    if changed.ndim == 1:
        return Version(kind, note, model, setting, text=decode(changed[None])[0], answer=answer)
    return Version(kind, note, model, setting, picture=encode_picture(changed.cpu().numpy()), answer=answer)
