"""What tests of smoothing share: settings, samples, a network that knows a little."""

from __future__ import annotations

import numpy as np
from torch import nn

import shiftproof as sp
from shiftproof.certification.certifier import Job, Memory
from shiftproof.certification.certifiers.randomized_smoothing import RandomizedSmoothing
from shiftproof.domains import Domain

GAUSSIAN = sp.noise.Gaussian(0.25)


def smoothing(**options: object) -> RandomizedSmoothing:
    return RandomizedSmoothing(**{"noise": GAUSSIAN, "n": 1_000, **options})  # type: ignore[arg-type]


def digits(count: int = 40) -> Domain:
    return sp.load_domains("digits")["digits"].subset(np.arange(count))


def trained() -> nn.Module:
    """A network that knows the digits a little: enough for votes that are neither unanimous nor split."""
    domain = sp.load_domains("digits")
    fit = sp.train(sp.build_model("cnn", domain, width=8), domain, sp.objectives.Gaussian(0.25), recipe={"steps": 60})
    return fit.model


def dense(outputs: int = 2) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, outputs)).eval()


def job_of(model: nn.Module, domain: Domain) -> Job:
    return Job(model, domain, 10, 0, Memory())
