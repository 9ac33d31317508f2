"""Whether a certifier keeps its promises, on classifiers whose true radii are known."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor, nn

from shiftproof.certification import Certificates, Certifier, certify
from shiftproof.domains import Domain
from shiftproof.errors import ShiftproofError
from shiftproof.execution import always_in_workers
from shiftproof.rng import numpy_generator
from shiftproof.testing.require import require
from shiftproof.types import FloatArray

__all__ = ["LinearOracle", "check_certifier"]

_SHAPE = (1, 2, 4)
_POINTS = 24
_SEEDS = 24


class LinearOracle:
    """A classifier of two classes that a plane divides, points on both sides of it, and their true radii.

    Noise that is symmetric does not move the plane, so that the smoothed classifier has the same radii: the distance
    to the plane in the norm asked for. Points have eight bits a pixel; the last one is on the plane itself.
    """

    def __init__(self, norm: str = "l2") -> None:
        generator = numpy_generator(0, "testing", "linear oracle")
        size = int(np.prod(_SHAPE))
        # for l1 the plane is across one axis, where uniform noise is exact
        weights = np.eye(size)[0] if norm == "l1" else generator.standard_normal(size)
        pixels = generator.integers(0, 256, (_POINTS, *_SHAPE)).astype(np.uint8)
        values = pixels.reshape(_POINTS, -1) / 255
        self.model = nn.Sequential(nn.Flatten(), nn.Linear(size, 2)).eval()
        bias = -float(values[-1] @ weights)
        layer = self.model[1]
        assert isinstance(layer, nn.Linear)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(np.stack([-weights, weights])))
            layer.bias.copy_(torch.tensor([-bias, bias]))
        margins = values @ weights + bias
        steepness = np.abs(weights).max() if norm == "l1" else np.linalg.norm(weights)
        self.radii: FloatArray = np.abs(margins) / steepness
        self.inputs: Tensor = torch.from_numpy(pixels).float() / 255
        self.labels: Tensor = torch.from_numpy((margins > 0).astype(np.int64))
        self.domain = Domain.from_arrays("linear", pixels, self.labels.numpy(), ["below", "above"])


def check_certifier(certifier: Certifier, *, workers: bool = False) -> None:
    """Whether a certifier of an l2 or l1 radius keeps its promises; with `workers` also in other processes.

    Radii never above the truth but by its alpha; abstention where there is no majority; the same votes in any order,
    for any part of the samples, after a restart; refusal of models that are no fixed function.
    """
    name = type(certifier).__name__
    require(
        dataclasses.is_dataclass(certifier) and bool(certifier.__dataclass_params__.frozen),
        f"{name} should be a frozen dataclass",
    )
    oracle = LinearOracle()
    certificates = certify(oracle.model, oracle.domain, certifier)
    if certificates.norm == "l1":
        oracle = LinearOracle("l1")
        certificates = certify(oracle.model, oracle.domain, certifier)
    require(certificates.norm in ("l2", "l1"), f"{name} certifies in {certificates.norm}, of which no truth is known")
    require(len(certificates) == _POINTS, f"{name} gives {len(certificates)} certificates for {_POINTS} samples")
    require(bool(certificates.guarantee), f"{name} does not say what it guarantees")
    _check_columns(name, certificates)
    _check_truth(name, certifier, oracle)
    _check_invariance(name, certifier, oracle, certificates, workers)
    _check_refusal(name, certifier, oracle)


def _check_columns(name: str, certificates: Certificates) -> None:
    radius, prediction = certificates.radius, certificates.prediction
    require(bool(np.isfinite(radius).all() and (radius >= 0).all()), f"{name}: a radius is negative or not a number")
    require(bool((radius[prediction < 0] == 0).all()), f"{name}: a sample abstains and has a radius")
    where = (prediction >= 0) & ~certificates.skipped
    require(bool((radius[where] > 0).all()), f"{name}: a sample is certified with a radius of 0")
    require(prediction[-1] < 0 or certificates.skipped[-1], f"{name} certifies a sample that is a tie")


def _check_truth(name: str, certifier: Certifier, oracle: LinearOracle) -> None:
    """One sample a seed: certificates that share noise are dependent, and counting them would prove nothing."""
    above, alpha, certified = 0, 0.0, 0
    for seed in range(_SEEDS):
        one = oracle.domain.subset([seed % _POINTS])
        certificates = certify(oracle.model, one, certifier, seed=seed)
        alpha = certificates.alpha
        above += int(certificates.radius[0] > oracle.radii[seed % _POINTS] * (1 + 1e-9))
        certified += int(certificates.radius[0] > 0)
    require(certified >= _SEEDS // 3, f"{name} certifies {certified} of {_SEEDS} samples that are easy")
    allowed = int(binom.ppf(1 - 1e-4, _SEEDS, alpha))
    require(
        above <= allowed, f"{name}: {above} of {_SEEDS} radii exceed the truth, where alpha {alpha:g} allows {allowed}"
    )


def _check_invariance(
    name: str, certifier: Certifier, oracle: LinearOracle, certificates: Certificates, workers: bool
) -> None:
    backwards = np.arange(_POINTS)[::-1]
    reversed_ = certify(oracle.model, oracle.domain.subset(backwards), certifier)
    require(_same(reversed_.subset(backwards), certificates), f"{name}: certificates depend on the order of samples")
    some = np.array([2, 11, 5])
    part = certify(oracle.model, oracle.domain.subset(some), certifier)
    require(_same(part, certificates.subset(some)), f"{name}: certificates depend on the other samples")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certify.journal"
        certify(oracle.model, oracle.domain, certifier, journal=path)
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: len(lines) // 2]))
        resumed = certify(oracle.model, oracle.domain, certifier, journal=path)
    require(_same(resumed, certificates), f"{name}: a restart changes certificates")
    if workers:
        with always_in_workers():
            spread = certify(oracle.model, oracle.domain, certifier, workers=2)
        require(_same(spread, certificates), f"{name}: the number of workers changes certificates")


def _check_refusal(name: str, certifier: Certifier, oracle: LinearOracle) -> None:
    class Random(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return torch.rand(len(inputs), 2)

    training = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(_SHAPE)), 2)).train()
    for what, model in {"a model in train mode": training, "a random model": Random().eval()}.items():
        try:
            certify(model, oracle.domain, certifier)
        except ShiftproofError:
            continue
        require(False, f"{name} certifies {what}")


def _same(one: Certificates, other: Certificates) -> bool:
    columns = ("prediction", "radius", "count", "n")
    return all(np.array_equal(getattr(one, column), getattr(other, column)) for column in columns)
