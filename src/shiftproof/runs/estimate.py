"""What a study will cost, from a probe of a few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from shiftproof.domains import Domain, Domains, train_part, validation_part
from shiftproof.execution import HERE, Compute, Mode, parse_duration, progress_bar
from shiftproof.models.placement import on_device
from shiftproof.objectives import Recipe
from shiftproof.probes import Probe
from shiftproof.probes.certify import Certify
from shiftproof.probes.clean import Clean
from shiftproof.probes.corrupt import Corrupt
from shiftproof.probes.noisy import Noisy
from shiftproof.runs.budget import ENDING
from shiftproof.runs.cells import cell_threads, cells_at_once
from shiftproof.runs.dry_run import DryRun, unfetched, without_fetching
from shiftproof.runs.model_spec import ModelSpec
from shiftproof.runs.precisions import describe_precisions
from shiftproof.runs.prepare import Prepared, prepare_study
from shiftproof.runs.pretraining import first_alike, first_phase, phase_data, untrained
from shiftproof.runs.spec import Study
from shiftproof.runs.trial import SPAWN, TRIED, trial_domain, wall_seconds
from shiftproof.training import train
from shiftproof.training.machine import math_threads
from shiftproof.training.plateau import expected_steps, planned_recipe
from shiftproof.training.selection import RADIUS_VOTES, Validation

__all__ = ["StageCost", "StudyCost", "estimate_study", "training_costs"]

PROBE_SECONDS = 2.0
LONG_SECONDS = 6.0
"""A first step that takes longer is tried once more, and no further."""
WARM_UP_STEPS = 3
SLOW_SECONDS = 0.01
"""A model that takes longer for a sample is not tried on probes and steps: its passes are counted, and one is timed."""
GPU_OPERATIONS = 10e12
"""Operations of floating point a second that a GPU gets done, for hours on one: 10 TFLOP/s."""
_BACKWARD = 3.0
"""Forward and backward take about three times as long as forward."""
_FORWARD_ONLY = (Certify, Clean, Corrupt, Noisy)


@dataclass(frozen=True)
class StageCost:
    """What one stage of one model takes, as expected and at most.

    `operations` are those of floating point that its model takes for each of the passes, backward ones included; a
    product and its sum are two.
    """

    model: str
    stage: str
    forward_passes: int
    most_forward_passes: int
    seconds: float
    most_seconds: float
    operations: float = 0.0

    def shared_by(self, cells: int) -> StageCost:
        """What it takes where so many models are trained and measured at once."""
        return replace(self, seconds=self.seconds / cells, most_seconds=self.most_seconds / cells)

    def times(self, count: int) -> StageCost:
        """What it takes so many times."""
        return replace(
            self,
            forward_passes=self.forward_passes * count,
            most_forward_passes=self.most_forward_passes * count,
            seconds=self.seconds * count,
            most_seconds=self.most_seconds * count,
        )


@dataclass(frozen=True)
class StudyCost:
    """What a study takes: its stages, the memory that the trials needed, and the cap in seconds that it has, if any.

    `missing` says which data was not here, so that blank images were tried; `besides_seconds` are for starting workers
    and for the report, and are a part of all seconds. `precisions` says whether votes in bf16 would come faster.
    `unfetched` are models of the hub that were tried with random weights.
    """

    costs: list[StageCost]
    forward_passes: int
    most_forward_passes: int
    seconds: float
    most_seconds: float
    memory_mb: float
    cap_seconds: float | None = None
    missing: str = ""
    besides_seconds: float = 0.0
    precisions: str = ""
    unfetched: tuple[str, ...] = ()

    @property
    def gpu_hours(self) -> tuple[float, float] | None:
        """Hours on a GPU that does `GPU_OPERATIONS` a second, as expected and at most: counted, not measured.

        None where the operations of a model can't be counted.
        """
        if not all(one.operations for one in self.costs):
            return None
        expected = sum(one.forward_passes * one.operations for one in self.costs)
        most = sum(one.most_forward_passes * one.operations for one in self.costs)
        return expected / GPU_OPERATIONS / 3600, most / GPU_OPERATIONS / 3600


def estimate_study(
    study: Study | Prepared | DryRun,
    compute: Compute = HERE,
    progress: Mode = "off",
    models: Collection[str] | None = None,
) -> StudyCost:
    """Run a few steps of every model and a moment of every probe, and scale up; of some `models` alone where told.

    Published weights are not fetched for it. Of a study whose data is not here, on blank images of its shape.
    """
    dry = study if isinstance(study, DryRun) else None
    prepared = dry.prepared if dry is not None else study
    prepared = prepare_study(without_fetching(prepared)) if isinstance(prepared, Study) else prepared
    assert isinstance(prepared, Prepared)
    costs: list[StageCost] = []
    known: dict[str, list[StageCost]] = {}
    cap = "" if prepared.study.cap is None else f" (the study's cap is {prepared.study.cap})"
    tried = [name for name in prepared.study.models if models is None or name in models]
    with progress_bar(f"trying models{cap}", len(tried), progress) as bar:
        for name in tried:
            bar.advance(0, f"a few steps of {name}")
            alike = _same_cost(prepared, name)
            if alike not in known:
                known[alike] = _costs(prepared, name, compute, dry)
            costs += [replace(one, model=name) for one in known[alike]]
            bar.advance(note=name)
    # workers are started to train and to measure
    besides = ENDING + (2 * SPAWN if cells_at_once(prepared.study, compute) > 1 else 0.0)
    return StudyCost(
        costs,
        sum(cost.forward_passes for cost in costs),
        sum(cost.most_forward_passes for cost in costs),
        besides + sum(cost.seconds for cost in costs),
        besides + sum(cost.most_seconds for cost in costs),
        _peak_memory_mb(),
        None if prepared.study.cap is None else parse_duration(prepared.study.cap),
        "" if dry is None else str(dry.missing),
        besides,
        describe_precisions(prepared, prepared.study.all_probes),
        unfetched(prepared.study),
    )


def _same_cost(prepared: Prepared, name: str) -> str:
    """What models have in common that take the same time: a sweep over a weight is tried once, and heads of one kind
    on extractors that were trained before.
    """
    spec = prepared.study.models[name]
    if not spec.train or (spec.pretrain is not None and first_alike(prepared.study, name) == name):
        return name
    objective = f"{spec.objective.name} {spec.objective.passes} {spec.recipe} {spec.rule}"
    probes = [repr(probe) for probe in prepared.study.probes_of(name)]
    return f"{spec.model.to_config()} {objective} {probes} {prepared.data.sources_of(name).names}"


def _costs(prepared: Prepared, name: str, compute: Compute, dry: DryRun | None) -> list[StageCost]:
    study, data, spec = prepared.study, prepared.data, prepared.study.models[name]
    model = prepared.models[name] if name in prepared.models else untrained(spec, data.sources)
    few, shared = trial_domain(data.measured), cells_at_once(study, compute)
    with math_threads(cell_threads(study) if spec.train else torch.get_num_threads()):
        costs = training_costs(prepared, name, model, dry, compute.device)
    operations = count_operations(model, few)
    costs = [replace(one, operations=_BACKWARD * operations) for one in costs]
    slow = _slow_pass(model, few)
    for probe in study.probes_of(name):
        places = data.measured_by(probe, name)
        counts = [len(one) if dry is None else dry.measured(data, one.name, probe) for one in places]
        where = compute.alone() if shared > 1 else compute
        if slow is None:
            cost = _probe_cost(probe, name, model, few, counts, where)
        else:
            cost = _counted_cost(probe, name, model, slow, counts, where)
        costs.append(replace(cost, operations=_passes_of(probe) * operations))
    # every seed trains and measures a model of its own
    costs = [one.times(len(study.seeds)) for one in costs] if spec.train and study.seeds else costs
    return [one.shared_by(shared) for one in costs]


def training_costs(
    prepared: Prepared, name: str, model: nn.Module, dry: DryRun | None = None, device: str = "auto"
) -> list[StageCost]:
    """What it takes to train a model once, by a few steps of its training; nothing for one that is not trained."""
    study, sources, spec = prepared.study, prepared.data.sources_of(name), prepared.study.models[name]
    costs = [_training_cost(name, "training", spec, model, sources, study.seed, dry, device)] if spec.train else []
    if spec.pretrain is not None and first_alike(study, name) == name:
        phase, before = first_phase(spec, spec.pretrain), phase_data(spec.pretrain).sources
        costs.insert(
            0, _training_cost(name, "pre-training", phase, untrained(phase, before), before, study.seed, device=device)
        )
    return costs


def _training_cost(
    name: str,
    stage: str,
    spec: ModelSpec,
    model: nn.Module,
    sources: Domains,
    seed: int,
    dry: DryRun | None = None,
    device: str = "auto",
) -> StageCost:
    objective = spec.objective
    # what a dry run is tried on is smaller than the data
    sizes = [len(train_part(domain)) if dry is None else dry.trained(domain.name) for domain in sources]
    held_out = [len(validation_part(domain)) if dry is None else dry.held_out(domain.name) for domain in sources]
    recipe = planned_recipe(spec.recipe, sizes)
    validation = Validation.of(sources, recipe, spec.rule, objective, seed, model)
    evaluations = -(-recipe.steps // (recipe.evaluate_every or 1))
    trained = recipe.steps * recipe.batch * len(sources) * objective.passes
    each = validation.samples_each(recipe, model)
    evaluated = evaluations * sum(min(each, count) for count in held_out)
    votes = RADIUS_VOTES if validation.selects_by == "radius_validation" else 1
    slow = _slow_pass(model, trial_domain(list(sources)))
    if slow is not None:
        seconds = _BACKWARD * slow * (trained + evaluated * objective.passes)
    else:
        seconds = recipe.steps * _step_seconds(
            spec, recipe, model, sources, seed, device
        ) + evaluated * _validation_seconds(validation, model)
    passes, part = trained + evaluated * votes, expected_steps(recipe, objective.warm_up) / recipe.steps
    return StageCost(name, stage, round(part * passes), passes, part * seconds, seconds)


def _validation_seconds(validation: Validation, model: nn.Module) -> float:
    """Seconds for one sample of an evaluation, by a few of every domain."""
    few = replace(validation, domains=[domain.subset(range(min(len(domain), TRIED))) for domain in validation.domains])
    few.measure(model)
    began = time.perf_counter()
    few.measure(model)
    return (time.perf_counter() - began) / sum(few.samples.values())


def _step_seconds(spec: ModelSpec, recipe: Recipe, model: nn.Module, sources: Domains, seed: int, device: str) -> float:
    """Seconds for one training step: the difference of two short runs, so that what both pay once cancels."""

    def seconds_of(steps: int) -> float:
        began = time.perf_counter()
        few = replace(spec.recipe, steps=steps, evaluate_every=steps, until="steps", epochs=Recipe.epochs)
        # by the last step: a rule that attacks, or takes votes, would take longer than the steps
        train(model, sources, spec.objective, seed=seed, recipe=few, selection="last", device=device, progress="off")
        return time.perf_counter() - began

    first = seconds_of(1)
    if first > LONG_SECONDS:
        # all but the step is little beside it; the first one also paid what is slow once
        return min(first, seconds_of(1))
    # a step of a large model takes seconds, and is told by a few of them
    few = WARM_UP_STEPS if first < PROBE_SECONDS else 1
    short, steps = seconds_of(few), few + WARM_UP_STEPS
    long = seconds_of(steps)
    while long < PROBE_SECONDS and steps < recipe.steps:
        steps = min(recipe.steps, 2 * steps)
        long = seconds_of(steps)
    return max(long - short, 0.0) / max(1, steps - few)


def _slow_pass(model: nn.Module, few: Domain) -> float | None:
    """Seconds of a forward pass of a sample on one thread, if that is slow; None of a model that can be tried."""
    inputs = few.take(range(min(2, len(few))))[0]
    seconds = []
    with torch.no_grad(), math_threads(1):
        model.eval()
        for _ in range(2):
            began = time.perf_counter()
            model(inputs)
            seconds.append((time.perf_counter() - began) / len(inputs))
    return min(seconds) if min(seconds) > SLOW_SECONDS else None


def _counted_cost(
    probe: Probe, name: str, model: nn.Module, seconds: float, counts: list[int], compute: Compute
) -> StageCost:
    """The cost of a probe on a slow model: what it may take at most, by its passes and how long one takes."""
    each = probe.passes(model)
    passes, wall = each * sum(counts), wall_seconds(probe, each * _passes_of(probe) * seconds, counts, compute)
    return StageCost(name, probe.title, passes, passes, wall, wall)


def _passes_of(probe: Probe) -> float:
    """How many forward passes a pass of a probe is worth, which may go back as well."""
    return 1.0 if isinstance(probe, _FORWARD_ONLY) else _BACKWARD


def count_operations(model: nn.Module, domain: Domain) -> int:
    """Operations of floating point in one forward pass of a sample, of layers that multiply; a product and its sum are
    two. 0 of a model that can't be counted.
    """
    inputs = domain.take(range(1))[0]
    try:
        # attention by its formula: what is done in one piece on this processor is not counted
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            model.eval()(inputs)
    except Exception:  # noqa: BLE001  (code of others that a counter gets into the way of)
        return 0
    return int(counter.get_total_flops())


def _probe_cost(
    probe: Probe, name: str, model: nn.Module, few: Domain, counts: list[int], compute: Compute
) -> StageCost:
    """The cost of a probe on so many samples of each domain, by one trial on a few of each."""
    tried = probe.cost(on_device(model.eval(), compute.place), few, compute.alone())
    seconds = wall_seconds(probe, tried.seconds / len(few), counts, compute)
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
