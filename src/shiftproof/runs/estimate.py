"""What a study will cost, from a probe of a few seconds."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace

from torch import nn

from shiftproof.domains import Domain, Domains
from shiftproof.execution import Mode, parse_duration, progress_bar
from shiftproof.probes import Probe
from shiftproof.runs.prepare import Prepared, prepare_study
from shiftproof.runs.pretraining import first_alike, first_phase, phase_data, untrained
from shiftproof.runs.spec import ModelSpec, Study
from shiftproof.runs.trial import TRIED, trial_domain, wall_seconds
from shiftproof.training import train
from shiftproof.training.selection import Validation

__all__ = ["StageCost", "StudyCost", "estimate_study", "training_costs"]

PROBE_SECONDS = 2.0
WARM_UP_STEPS = 3


@dataclass(frozen=True)
class StageCost:
    """What one stage of one model takes, as expected and at most."""

    model: str
    stage: str
    forward_passes: int
    most_forward_passes: int
    seconds: float
    most_seconds: float

    def times(self, count: int) -> StageCost:
        """What it takes so many times."""
        passes, most_passes = self.forward_passes * count, self.most_forward_passes * count
        return StageCost(self.model, self.stage, passes, most_passes, self.seconds * count, self.most_seconds * count)


@dataclass(frozen=True)
class StudyCost:
    """What a study takes: its stages, the memory that the trials needed, and the cap in seconds that it has, if any."""

    costs: list[StageCost]
    forward_passes: int
    most_forward_passes: int
    seconds: float
    most_seconds: float
    memory_mb: float
    cap_seconds: float | None = None


def estimate_study(study: Study | Prepared, workers: int = 1, progress: Mode = "off") -> StudyCost:
    """Run a few steps of every model and a moment of every probe, and scale up."""
    prepared = study if isinstance(study, Prepared) else prepare_study(study)
    costs: list[StageCost] = []
    cap = "" if prepared.study.cap is None else f" (the study's cap is {prepared.study.cap})"
    with progress_bar(f"trying models{cap}", len(prepared.study.models), progress) as bar:
        for name in prepared.study.models:
            bar.advance(0, f"a few steps of {name}")
            costs += _costs(prepared, name, workers)
            bar.advance(note=name)
    return StudyCost(
        costs,
        sum(cost.forward_passes for cost in costs),
        sum(cost.most_forward_passes for cost in costs),
        sum(cost.seconds for cost in costs),
        sum(cost.most_seconds for cost in costs),
        _peak_memory_mb(),
        None if prepared.study.cap is None else parse_duration(prepared.study.cap),
    )


def _costs(prepared: Prepared, name: str, workers: int) -> list[StageCost]:
    study, data, spec = prepared.study, prepared.data, prepared.study.models[name]
    model = prepared.models[name] if name in prepared.models else untrained(spec, data.sources)
    few, places = trial_domain(data.measured), data.measured
    costs = training_costs(prepared, name, model)
    costs += [_probe_cost(probe, name, model, few, places, workers) for probe in study.probes]
    # every seed trains and measures a model of its own
    return [one.times(len(study.seeds)) for one in costs] if spec.train and study.seeds else costs


def training_costs(prepared: Prepared, name: str, model: nn.Module) -> list[StageCost]:
    """What it takes to train a model once, by a few steps of its training; nothing for one that is not trained."""
    study, sources, spec = prepared.study, prepared.data.sources, prepared.study.models[name]
    costs = [_training_cost(name, "training", spec, model, sources, study.seed)] if spec.train else []
    if spec.pretrain is not None and first_alike(study, name) == name:
        phase, before = first_phase(spec, spec.pretrain), phase_data(spec.pretrain).sources
        costs.insert(0, _training_cost(name, "pre-training", phase, untrained(phase, before), before, study.seed))
    return costs


def _training_cost(name: str, stage: str, spec: ModelSpec, model: nn.Module, sources: Domains, seed: int) -> StageCost:
    objective, recipe = spec.objective, spec.recipe
    validation = Validation.of(sources, recipe, spec.rule, objective, seed, model)
    evaluations = -(-recipe.steps // recipe.evaluate_every)
    trained = recipe.steps * recipe.batch * len(sources) * objective.passes
    evaluated = evaluations * sum(validation.samples.values())
    seconds = recipe.steps * _step_seconds(spec, model, sources, seed) + evaluated * _validation_seconds(
        validation, model
    )
    return StageCost(name, stage, trained + evaluated, trained + evaluated, seconds, seconds)


def _validation_seconds(validation: Validation, model: nn.Module) -> float:
    """Seconds for one sample of an evaluation, by a few of every domain."""
    few = replace(validation, domains=[domain.subset(range(min(len(domain), TRIED))) for domain in validation.domains])
    few.measure(model)
    began = time.perf_counter()
    few.measure(model)
    return (time.perf_counter() - began) / sum(few.samples.values())


def _step_seconds(spec: ModelSpec, model: nn.Module, sources: Domains, seed: int) -> float:
    """Seconds for one training step: the difference of two short runs, so that what both pay once cancels."""
    recipe = spec.recipe

    def seconds_of(steps: int) -> float:
        began = time.perf_counter()
        changes = {**spec.training, "steps": steps, "evaluate_every": steps}
        train(model, sources, spec.objective, seed=seed, recipe=changes, progress="off")
        return time.perf_counter() - began

    # a step of a large model takes seconds, and is told by a few of them
    few = WARM_UP_STEPS if seconds_of(1) < PROBE_SECONDS else 1
    short, steps = seconds_of(few), few + WARM_UP_STEPS
    long = seconds_of(steps)
    while long < PROBE_SECONDS and steps < recipe.steps:
        steps = min(recipe.steps, 2 * steps)
        long = seconds_of(steps)
    return max(long - short, 0.0) / max(1, steps - few)


def _probe_cost(
    probe: Probe, name: str, model: nn.Module, few: Domain, places: list[Domain], workers: int
) -> StageCost:
    """The cost of a probe on all domains, by one trial on a few samples of each."""
    tried = probe.cost(model.eval(), few, 1)
    counts = list(map(len, places))
    seconds = wall_seconds(probe, tried.seconds / len(few), counts, workers)
    return StageCost(
        name,
        probe.title,
        round(tried.passes * sum(counts) / len(few)),
        round(tried.most_passes * sum(counts) / len(few)),
        seconds,
        seconds * tried.most_seconds / max(tried.seconds, 1e-9),
    )


def _peak_memory_mb() -> float:
    try:
        import resource
    except ImportError:  # not on Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
