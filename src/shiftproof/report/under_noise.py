"""Accuracy under noise: what was asked of the model as it was trained, and of its copy adapted to the noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from shiftproof.evidence import Evidence, Measurement
from shiftproof.perturbations.noise import NOISES, as_noise
from shiftproof.report.draws import draws_of, right_by_draw, share_right
from shiftproof.report.estimates import Repeats, estimate, repeats_in
from shiftproof.types import Estimate

__all__ = ["Asked", "NoiseAccuracy", "noise_accuracies", "split_sweeps"]

CLEAN = "no noise"


@dataclass(frozen=True)
class Asked:
    """What was asked: a noise with its size, and whether BatchNorm was adapted, with which momentum and how many
    images.
    """

    noise: str
    family: str
    sigma: float
    adapted: bool = False
    momentum: float | None = None
    images: int | None = None

    @property
    def size(self) -> tuple[str, float]:
        """The noise alone, in the order of tables."""
        return self.family, self.sigma


@dataclass(frozen=True, eq=False)
class NoiseAccuracy:
    """Accuracy of one model on one domain under one setting, for each training seed."""

    asked: Asked
    repeats: Repeats

    @property
    def draws(self) -> int:
        """Draws of noise of each sample; 0 without noise."""
        return 0 if self.asked.noise == CLEAN else len(draws_of(self.repeats.first))

    @cached_property
    def estimate(self) -> Estimate:
        """The mean over draws, samples and seeds, with an interval over samples (and seeds)."""
        exact = self.draws < 2 and not self.repeats.grouped
        return estimate(self.repeats.values(share_right), exact=exact)

    @cached_property
    def spread(self) -> float | None:
        """Standard deviation over draws of the accuracy of one trained model; None of a single draw."""
        if self.draws < 2:
            return None
        by_draw = [right_by_draw(one).mean(1) for one in self.repeats.measurements]
        return float(np.sqrt(np.mean([values.var(ddof=1) for values in by_draw])))


def noise_accuracies(evidence: Evidence) -> list[NoiseAccuracy]:
    """What `noisy` probes measured, in the order of the evidence; and without noise, on the same samples, where there
    is clean accuracy.
    """
    noisy = [one for one in evidence.where(probe="noisy") if one.fact("asked") is not None]
    found = [NoiseAccuracy(_asked(one.first), one) for one in repeats_in(noisy)]
    clean = []
    for (model, domain), one in {(one.repeats.model, one.repeats.domain): one.repeats for one in found}.items():
        rows = evidence.where(probe="clean", model=model, domain=domain)
        pairs = [pair for both in repeats_in(rows)[:1] for pair in both.pairs(one)]
        same = [_rows_of(alone, other) for alone, other in pairs]
        if same and all(len(part) == len(one.first) for part in same):
            clean.append(NoiseAccuracy(Asked(CLEAN, "", 0.0), Repeats(tuple(same))))
    return [*clean, *found]


def split_sweeps(asked: Iterable[Asked]) -> tuple[list[Asked], list[list[Asked]], list[list[Asked]]]:
    """The settings of the main table, and those that differ in momentum alone and in the number of images alone.

    Of settings that differ in one of these, the main table has the one that most noises were asked with: of equals,
    with the largest momentum and then the most images.
    """
    every = sorted(dict.fromkeys(asked), key=lambda one: (*one.size, one.adapted))
    adapted = [one for one in every if one.adapted]
    sweeps = [_alike(adapted, {name: None}) for name in ("momentum", "images")]
    swept = {one for groups in sweeps for group in groups for one in group}
    common = Counter((one.momentum, one.images) for one in adapted)

    def usual(one: Asked) -> tuple[int, float, int]:
        return common[one.momentum, one.images], one.momentum or 0.0, one.images or 0

    best = {one.size: max((o for o in adapted if o in swept and o.size == one.size), key=usual) for one in swept}
    main = [one for one in every if one not in swept or best[one.size] == one]
    return main, _ordered(sweeps[0], "momentum"), _ordered(sweeps[1], "images")


def _alike(settings: Sequence[Asked], without: Mapping[str, Any]) -> list[list[Asked]]:
    """Settings that are the same without some of their options, where there are several of them."""
    groups: dict[Asked, list[Asked]] = {}
    for one in settings:
        groups.setdefault(replace(one, **without), []).append(one)
    return [group for group in groups.values() if len(group) > 1]


def _ordered(groups: Sequence[Sequence[Asked]], option: str) -> list[list[Asked]]:
    return [sorted(group, key=lambda one: float(getattr(one, option))) for group in groups]


def _asked(one: Measurement) -> Asked:
    options = one.fact("asked")
    noise = options["noise"]
    # a noise of a plug-in that is not installed has no scale here
    scale = as_noise(noise).scale if noise["name"] in NOISES else 0.0
    start = Asked(str(one.fact("noise")), str(noise["name"]), float(scale))
    if not options["adapted"]:
        return start
    images = one.fact("calibration_images")
    return replace(start, adapted=True, momentum=float(options["momentum"]), images=int(images or 0))


def _rows_of(one: Measurement, other: Measurement) -> Measurement:
    """The rows of the samples that another measurement is of, in its order."""
    known = one.places_of(other["id"].tolist())
    return one.take(np.array(list(known.values()), np.int64))
