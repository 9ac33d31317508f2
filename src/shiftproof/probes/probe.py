"""The contract of a probe, and the template that does the boring and dangerous parts once for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from torch import nn

from shiftproof.catalogue import Catalogue, Method
from shiftproof.domains import Domain, Domains
from shiftproof.errors import ConformanceError, UsageError
from shiftproof.evidence import Column, Evidence, EvidenceStore, Measurement
from shiftproof.execution import HERE, Compute, Mode
from shiftproof.models.identity import identity_of
from shiftproof.models.placement import CPU, on_device
from shiftproof.probes.blocks import Columns, ProbeTask
from shiftproof.types import Cost, Finding

__all__ = ["PROBES", "Probe", "Result", "check_labels", "run_probe", "under_each"]


@dataclass(frozen=True, eq=False)
class Result:
    """What a probe found under one setting: columns, one value a sample, and facts that hold for all of them.

    Facts that tell it from the probe's other settings: `setting` and `title`; others: norm, units, eps, noise ...
    """

    columns: Columns
    facts: Mapping[str, Any] = field(default_factory=dict)


class Probe(Method, ABC):
    """What measures a domain: a frozen dataclass of its options. Write `collect` and `cost`; the rest has defaults."""

    regression: ClassVar[bool] = False
    """Whether it measures models that predict numbers; what counts right answers does not."""
    in_blocks: ClassVar[bool] = True
    """Whether it measures blocks of samples, the first of them in process; what certifies shares its work otherwise."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """What it measures of every sample besides the answer; anything else in its results is an error."""
        return ()

    @property
    def classifier(self) -> str:
        """base | smoothed | adapted | latent | median: of which classifier its measurements speak."""
        return "base"

    @property
    def cheap(self) -> bool:
        """Whether it takes a few forward passes a sample and no more: a budget leaves such probes all samples."""
        return False

    @property
    def calibrates(self) -> bool:
        """Whether training samples shape the classifier before it is measured; those are not measured then."""
        return False

    @property
    def title(self) -> str:
        """What tells it from other probes of a study."""
        return self.name

    @abstractmethod
    def collect(self, task: ProbeTask) -> Sequence[Result]:
        """One result a setting, each with all samples of the task's domain, in order; at least `prediction`, or of data
        whose labels are numbers `predicted`.
        """

    @abstractmethod
    def cost(self, model: nn.Module, domain: Domain, compute: Compute) -> Cost:
        """What that takes, from a moment's trial."""

    def passes(self, model: nn.Module) -> int:
        """Forward passes of one sample, at most."""
        return 1

    def findings(self) -> Iterator[Finding]:
        """What weakens what it measures, as far as its options tell."""
        yield from ()

    def on(self, data: Domain | Domains) -> Probe:
        """The probe for such data, where what it measures depends on whether samples are images or texts, labels
        classes or numbers.
        """
        return self

    def check(self, model: nn.Module, domain: Domain, calibration: Domains | None) -> None:
        """Refuse, before anything is trained, a model or data that can't be measured."""


PROBES: Catalogue[Probe] = Catalogue(
    "probe", "shiftproof.probes", base=Probe, example="{name: attack, attack: {name: pgd, threat: linf:8/255}}"
)


def run_probe(
    probe: Probe,
    model: nn.Module,
    domain: Domain,
    store: EvidenceStore,
    *,
    model_name: str = "model",
    train_seed: int | None = None,
    seed: int = 0,
    compute: Compute = HERE,
    progress: Mode = "auto",
    calibration: Domains | None = None,
    facts: Mapping[str, str] | None = None,
) -> Evidence:
    """Measure every sample of `domain`; what an earlier, killed run has done is not done again.

    `facts` are what is known of the samples: how they were `sampled`, whether they were `seen_in_training`;
    `train_seed` is told where a study trains a model with several seeds.
    """
    probe = probe.on(domain)
    setting, known = repr(probe), dict(facts or {})
    path = store.path(model_name, domain.name, probe.name, setting, train_seed)
    identity = identity_of({"probe": setting, **known}, model, domain, seed=seed, calibration=calibration)
    finished = store.finished(path, identity)
    if finished is not None:
        return finished
    model.eval()
    common = {
        "model": model_name,
        "domain": domain.name,
        "probe": probe.name,
        "setting": setting,
        "title": probe.title,
        "classifier": probe.classifier,
        "seed": seed,
        "precision": "f32",
        **({} if train_seed is None else {"train_seed": train_seed}),
        **known,
    }
    with store.journal(path, identity) as journal:
        trained = "" if train_seed is None else f", seed {train_seed}"
        label = f"{probe.title}: {model_name}{trained} on {domain.name}"
        with compute.exact_products():
            placed = on_device(model, compute.place if probe.in_blocks else CPU)
            results = probe.collect(ProbeTask(placed, domain, journal, seed, compute, progress, label, calibration))
        evidence = Evidence([_measurement(probe, result, domain, common) for result in results])
        stored = store.finish(path, evidence, identity)
        journal.discard()
    return stored


def under_each(settings: Sequence[Mapping[str, Any]], measured: Columns) -> list[Result]:
    """The results of a probe with several settings, from what was measured: samples x settings, or once a sample."""
    return [
        Result(
            {
                # what there is of a sample once is its time, which the settings share
                name: values[:, place] if values.ndim == 2 else values / len(settings)
                for name, values in measured.items()
            },
            facts,
        )
        for place, facts in enumerate(settings)
    ]


def check_labels(probe: Probe, domain: Domain) -> None:
    """Refuse a probe that counts right answers where labels are numbers."""
    if domain.is_regression and not probe.regression:
        able = ", ".join(entry.name for entry in PROBES if entry.cls.regression)
        raise UsageError(
            f"the probe {probe.name} does not apply: labels of {domain.name!r} are numbers to predict, so that no "
            f"answer is right or wrong; for these there is {able}"
        )


def _measurement(probe: Probe, result: Result, domain: Domain, common: Mapping[str, Any]) -> Measurement:
    answers = np.asarray(result.columns["predicted" if domain.is_regression else "prediction"])
    if len(answers) != len(domain) or not len(domain):
        raise ConformanceError(
            f"the probe {common['probe']!r} gave {len(answers)} predictions for {len(domain)} samples of "
            f"{domain.name!r}"
        )
    known: Columns = {"id": domain.ids}
    if not domain.is_regression:
        known |= {"label": domain.labels, "correct": answers == domain.labels}
    known |= {} if domain.groups is None else {"group": domain.groups}
    return Measurement.of({**common, **result.facts}, {**known, **result.columns}, probe.columns)
