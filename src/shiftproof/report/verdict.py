"""The verdict in plain words: what is right, what survives, what is guaranteed, here and where you ship to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from shiftproof.evidence import Evidence
from shiftproof.perturbations.threat import eps_text
from shiftproof.report.corrupted import corrupted_of
from shiftproof.report.measures import Measure, measures_of
from shiftproof.rng import numpy_generator
from shiftproof.statistics import Sample
from shiftproof.types import FloatArray

__all__ = ["verdict_of"]

RESAMPLES = 2_000


@dataclass(frozen=True, eq=False)
class _Shown:
    """A measure, its name, and what follows its figure in a sentence."""

    measure: Measure
    name: str
    words: str


def verdict_of(evidence: Evidence, sources: Sequence[str], target: str | None, seed: int = 0) -> list[str]:
    """A few sentences for each model; nothing where only accuracy was measured."""
    found = []
    for model in evidence.distinct("model"):
        measures = measures_of(evidence.where(model=model), model)
        if any(one.kind != "clean" for one in measures):
            prefix = f"{model}: " if len(evidence.distinct("model")) > 1 else ""
            found.append(prefix + " ".join(_sentences(evidence.where(model=model), measures, sources, target, seed)))
    return found


def _sentences(
    evidence: Evidence, measures: Sequence[Measure], sources: Sequence[str], target: str | None, seed: int
) -> Iterator[str]:
    there = [target] if target is not None else list(sources)
    where = target if target is not None else ", ".join(sources)
    for shown in (_of("base", measures), _of("smoothed", measures)):
        if len(shown) > 1 or (shown and shown[0].measure.kind == "clean"):
            figures = [f"{one.measure.mean(there):.0%}{one.words}" for one in shown]
            who = "the model" if shown[0].measure.classifier == "base" else "the smoothed model"
            sentence = f"On {where} {who} is right on {', '.join(figures)}"
            if target is not None:
                sentence += f"; on the training domains {' / '.join(_percent(one, sources) for one in shown)}"
            yield f"{sentence}."
            if target is not None:
                yield from _compared(shown, sources, target, seed)
    yield from _corruption(evidence, there, where)


def _of(classifier: str, measures: Sequence[Measure]) -> list[_Shown]:
    """What was measured of one classifier, from the weakest statement to the strongest."""
    mine = [one for one in measures if one.classifier == classifier]
    right = [one for one in mine if one.kind == "clean" or (one.kind == "certified" and not one.size)]
    attacked = _middle([one for one in mine if one.kind == "attacked" and one.size])
    certified = _middle([one for one in mine if one.kind == "certified" and one.size])
    return [
        *(_Shown(one, "the accuracy", "") for one in right[:1]),
        *(_Shown(one, "what survives", f" survive an attack of {_size(one)}") for one in attacked),
        *(_Shown(one, "the guarantee", f" are guaranteed within {_size(one)}") for one in certified),
    ]


def _middle(measures: Sequence[Measure]) -> list[Measure]:
    """Of several sizes in one norm the middle one: a sentence is no table."""
    by_norm: dict[tuple[str, str, str], list[Measure]] = {}
    for one in measures:
        by_norm.setdefault((one.norm, one.units, one.noise), []).append(one)
    return [sorted(some, key=lambda one: one.size)[len(some) // 2] for some in by_norm.values()]


def _size(one: Measure) -> str:
    return f"{one.norm} {eps_text(one.size)}"


def _percent(one: _Shown, sources: Sequence[str]) -> str:
    return f"{100 * one.measure.mean(sources):.0f}"


def _compared(shown: Sequence[_Shown], sources: Sequence[str], target: str, seed: int) -> Iterator[str]:
    """Whether what is left of the strongest statement is less than what is left of the accuracy."""
    first, last = shown[0], shown[-1]
    if first is last or not first.measure.mean(sources) or not last.measure.mean(sources):
        return
    low, high = _left(last.measure, first.measure, sources, target, seed)
    if high < 0:
        yield f"{last.name[0].upper()}{last.name[1:]} shrinks more than {first.name}."
    elif low > 0:
        yield f"{last.name[0].upper()}{last.name[1:]} shrinks less than {first.name}."
    else:
        yield f"Whether {last.name} shrinks more than {first.name}, these samples do not tell."


def _left(one: Measure, other: Measure, sources: Sequence[str], target: str, seed: int) -> tuple[float, float]:
    """A 99 % interval of the part of `one` that is left on the target, less that of `other`, on the same samples."""
    generator = numpy_generator(seed, "verdict", one.title)
    ratios: list[FloatArray] = []
    draws = {name: _draws(one.samples[name], generator) for name in (*sources, target)}
    for measure in (one, other):
        means = {name: _means(measure.samples[name], draws[name]) for name in (*sources, target)}
        here = np.mean([means[name] for name in sources], axis=0)
        ratios.append(means[target] / np.maximum(here, 1e-9))
    low, high = np.quantile(ratios[0] - ratios[1], (0.005, 0.995))
    return float(low), float(high)


def _draws(sample: Sample, generator: np.random.Generator) -> FloatArray:
    """How often each unit is drawn (resamples x units)."""
    units = len(set(sample.units.tolist()))
    return generator.multinomial(units, np.full(units, 1 / units), RESAMPLES).astype(np.float64)


def _means(sample: Sample, draws: FloatArray) -> FloatArray:
    _, which = np.unique(sample.units.astype(str), return_inverse=True)
    sums, counts = np.bincount(which, sample.values), np.bincount(which)
    means: FloatArray = (draws @ sums) / np.maximum(draws @ counts, 1)
    return means


def _corruption(evidence: Evidence, there: Sequence[str], where: str) -> Iterator[str]:
    found = [one for one in corrupted_of(evidence) if one.domain in there]
    if found:
        mean, (worst, least) = (
            float(np.mean([one.mean for one in found])),
            min((one.worst for one in found), key=lambda w: w[1]),
        )
        yield f"Corrupted, it is right on {mean:.0%} of {where}, least under {worst} ({least:.0%})."
