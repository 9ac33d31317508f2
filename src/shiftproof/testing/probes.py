"""Whether a probe keeps its promises."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

from shiftproof.domains import Domain, Domains, load_domains
from shiftproof.evidence import Evidence, EvidenceStore
from shiftproof.execution import HERE
from shiftproof.models import build_model
from shiftproof.probes import PROBES, Probe, run_probe
from shiftproof.rng import numpy_generator
from shiftproof.testing.require import require
from shiftproof.types import Cost, Finding

__all__ = ["check_probe"]

_SAMPLES = 12
_CLASSIFIERS = ("base", "smoothed", "adapted", "latent", "median")


def check_probe(
    probe: Probe, model: nn.Module | None = None, domain: Domain | None = None, calibration: Domains | None = None
) -> None:
    """Whether a probe keeps its promises, on a model and a domain that it can measure; digits unless told.

    A row for every sample, with the columns that it declares and no others; the same rows a second time, after a
    restart, in another order and for a part of the samples; the model, and the global random state, as they were;
    a title, a cost, and options from which it is made again.
    """
    name = type(probe).__name__
    require(isinstance(probe, Probe), f"{name} should derive from shiftproof.probes.Probe")
    frozen = dataclasses.is_dataclass(probe) and probe.__dataclass_params__.frozen
    require(bool(frozen), f"{name} should be a frozen dataclass")
    model, domain = _samples(probe, model, domain)
    _check_words(name, probe)
    cost = probe.cost(model, domain, HERE)
    require(isinstance(cost, Cost) and cost.passes >= 0 and cost.seconds >= 0, f"{name}: cost should be a Cost")
    require(probe.passes(model) >= 1, f"{name}: passes should be at least 1")
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    modes, state = [module.training for module in model.modules()], torch.get_rng_state()
    whole = _measure(probe, model, domain, calibration)
    same = all(torch.equal(weights[key], value) for key, value in model.state_dict().items())
    require(same, f"{name} changes weights or statistics of the model")
    require(modes == [module.training for module in model.modules()], f"{name} changes modes of layers")
    require(torch.equal(state, torch.get_rng_state()), f"{name} draws from the global random state")
    titles = [one.title for one in whole]
    require(len(set(titles)) == len(titles), f"{name}: two of its measurements are called {titles[0]!r}")
    require(_equal(_measure(probe, model, domain, calibration), whole), f"{name} measures something else a second time")
    backwards = np.arange(len(domain))[::-1]
    turned = _measure(probe, model, domain.subset(backwards), calibration)
    require(_equal(turned, whole, backwards), f"{name}: rows depend on the order of samples")
    some = np.array([7, 2, 5])
    part = _measure(probe, model, domain.subset(some), calibration)
    require(_equal(part, whole, some), f"{name}: rows of a sample depend on the other samples")


def _samples(probe: Probe, model: nn.Module | None, domain: Domain | None) -> tuple[nn.Module, Domain]:
    if domain is None:
        digits = next(iter(load_domains("digits")))
        domain = digits.subset(np.sort(numpy_generator(0, "testing", "probe").permutation(len(digits))[:_SAMPLES]))
        if probe.regression:
            # the digit as a number to predict
            domain = dataclasses.replace(domain, classes=(), labels=domain.labels.astype(np.float64))
    return (build_model("mlp", domain, width=16) if model is None else model).eval(), domain


def _check_words(name: str, probe: Probe) -> None:
    require(bool(probe.title), f"{name} has no title")
    require(probe.classifier in _CLASSIFIERS, f"{name}: classifier is {probe.classifier!r}, not {_CLASSIFIERS}")
    require(all(isinstance(one, Finding) for one in probe.findings()), f"{name}: findings should be Finding objects")
    if probe.registered_as:
        again = PROBES.make(probe.to_config())
        require(repr(again) == repr(probe), f"{name}: to_config gives {again!r} when it is made again")


def _measure(probe: Probe, model: nn.Module, domain: Domain, calibration: Domains | None) -> Evidence:
    """What it measures, read back from its file."""
    with tempfile.TemporaryDirectory() as folder:
        store = EvidenceStore(Path(folder))
        run_probe(probe, model, domain, store, progress="off", calibration=calibration)
        return store.read().in_memory()


def _equal(found: Evidence, whole: Evidence, rows: np.ndarray | None = None) -> bool:
    """Whether two say the same, but for time; `rows` are those of the whole, in the order of what was found."""
    if len(found) != len(whole):
        return False
    for one, other in zip(found, whole, strict=True):
        due = other if rows is None else other.take(rows)
        for column in set(due.rows.column_names) - {"seconds"}:
            left, right = one[column], due[column]
            numbers = left.dtype.kind == "f"
            # the product of two matrices may round otherwise in another batch
            close = np.allclose(left, right, rtol=1e-4, atol=1e-5, equal_nan=True) if numbers else None
            if not (close if numbers else np.array_equal(left, right)):
                return False
    return True
