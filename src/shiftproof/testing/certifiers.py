"""Whether a certifier keeps its promises, on classifiers whose true radii are known."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor, nn

from shiftproof.certification import Certificates, Certifier, Job, certify
from shiftproof.certification.certifier import Memory
from shiftproof.domains import Domain
from shiftproof.errors import ShiftproofError
from shiftproof.execution import always_in_workers
from shiftproof.models import SplitModel
from shiftproof.perturbations.norms import DUALS
from shiftproof.rng import numpy_generator
from shiftproof.runs.verification import Case, verify
from shiftproof.testing.require import require
from shiftproof.testing.text_oracle import TextOracle
from shiftproof.types import FloatArray

__all__ = ["LinearOracle", "check_certifier"]

_SHAPE = (1, 2, 4)
_POINTS = 24
_SEEDS = 24


class LinearOracle:
    """A classifier of two classes that a plane divides, points on both sides of it, and their true radii.

    Noise that is symmetric does not move the plane, so that the smoothed classifier has the same radii: the distance
    to the plane in the norm asked for. Points have eight bits a pixel; the last one is on the plane itself. With
    `batchnorm` there is such a layer in front, which changes nothing as it is.
    """

    def __init__(self, norm: str = "l2", *, batchnorm: bool = False) -> None:
        generator = numpy_generator(0, "testing", "linear oracle")
        size = int(np.prod(_SHAPE))
        # for l1 the plane is across one axis, where uniform noise is exact
        weights = np.eye(size)[0] if norm == "l1" else generator.standard_normal(size).astype(np.float32).astype(float)
        pixels = generator.integers(0, 256, (_POINTS, *_SHAPE)).astype(np.uint8)
        # the truth is that of the model as it is: of float32 weights and inputs
        values = (pixels.reshape(_POINTS, -1).astype(np.float32) / np.float32(255)).astype(float)
        front = [nn.BatchNorm1d(size, eps=1e-12, affine=False)] if batchnorm else []
        layer = nn.Linear(size, 2)
        self.model = SplitModel(nn.Sequential(nn.Flatten(), *front), layer).eval()
        bias = float(np.float32(-values[-1] @ weights))
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(np.stack([-weights, weights])))
            layer.bias.copy_(torch.tensor([-bias, bias]))
        margins = values @ weights + bias
        steepness = np.linalg.norm(weights, DUALS[norm])
        self.radii: FloatArray = np.abs(margins) / steepness
        self.inputs: Tensor = torch.from_numpy(pixels).float() / 255
        self.labels: Tensor = torch.from_numpy((margins > 0).astype(np.int64))
        self.domain = Domain.from_arrays("linear", pixels, self.labels.numpy(), ["below", "above"])


Oracle = LinearOracle | TextOracle
"""A classifier, samples of it, and their true radii."""


def check_certifier(certifier: Certifier, *, workers: bool = False) -> None:
    """Whether a certifier of an l2, linf or l1 radius, of images or of embeddings, keeps its promises.

    With `workers` also in other processes.

    Radii never above the truth but by its alpha; abstention where there is no majority; the same votes in any order,
    for any part of the samples, after a restart; refusal of models that are no fixed function; a record from which the
    radii follow, and a classifier to attack that keeps what they promise. One that adapts the model should be given
    with momentum 0, which leaves it as it is.
    """
    name = type(certifier).__name__
    require(isinstance(certifier, Certifier), f"{name} should derive from shiftproof.certification.Certifier")
    require("classifier" in dir(certifier), f"{name} does not say of which classifier its certificates speak")
    require(
        dataclasses.is_dataclass(certifier) and bool(certifier.__dataclass_params__.frozen),
        f"{name} should be a frozen dataclass",
    )
    adapts = certifier.classifier == "adapted"
    oracle: Oracle = TextOracle(_POINTS) if certifier.kind == "text" else LinearOracle(batchnorm=adapts)
    certificates = certify(oracle.model, oracle.domain, certifier, seed=0)
    known = certificates.norm in ("l2", "linf", "l1", "embedding-l2")
    require(known, f"{name} certifies in {certificates.norm}, of which no truth is known")
    if certificates.norm in ("linf", "l1"):
        oracle = LinearOracle(certificates.norm, batchnorm=adapts)
        certificates = certify(oracle.model, oracle.domain, certifier, seed=0)
    require(len(certificates) == _POINTS, f"{name} gives {len(certificates)} certificates for {_POINTS} samples")
    require(bool(certificates.guarantee), f"{name} does not say what it guarantees")
    _check_columns(name, certificates)
    _check_truth(name, certifier, oracle)
    _check_invariance(name, certifier, oracle, certificates, workers)
    _check_refusal(name, certifier, oracle)
    _check_record(name, certifier, oracle, certificates)


def _check_record(name: str, certifier: Certifier, oracle: Oracle, certificates: Certificates) -> None:
    """What a verifier needs: radii that follow from the record, and a classifier that can be attacked."""
    derived = np.where(certificates.skipped, 0.0, certifier.rederive(certificates))
    require(bool(np.allclose(derived, certificates.radius)), f"{name}: radii do not follow from what is recorded")
    job = Job(oracle.model, oracle.domain, 2, 0, Memory(), progress="off")
    require(bool(certifier.applies(job)), f"{name} does not say why it applies")
    found = [one for one in verify(Case(name, certificates, certifier, job, seed=1)) if one.level == "fail"]
    require(not found, f"{name}: {found[0].message if found else ''}")


def _check_columns(name: str, certificates: Certificates) -> None:
    radius, prediction = certificates.radius, certificates.prediction
    require(bool(np.isfinite(radius).all() and (radius >= 0).all()), f"{name}: a radius is negative or not a number")
    require(bool((radius[prediction < 0] == 0).all()), f"{name}: a sample abstains and has a radius")
    where = (prediction >= 0) & ~certificates.skipped
    require(bool((radius[where] > 0).all()), f"{name}: a sample is certified with a radius of 0")
    tied = prediction[-1] < 0 or certificates.skipped[-1] or radius[-1] < 1e-6
    require(bool(tied), f"{name} certifies a sample that is a tie")


def _check_truth(name: str, certifier: Certifier, oracle: Oracle) -> None:
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
    name: str, certifier: Certifier, oracle: Oracle, certificates: Certificates, workers: bool
) -> None:
    backwards = np.arange(_POINTS)[::-1]
    reversed_ = certify(oracle.model, oracle.domain.subset(backwards), certifier, seed=0)
    require(_same(reversed_.subset(backwards), certificates), f"{name}: certificates depend on the order of samples")
    some = np.array([2, 11, 5])
    part = certify(oracle.model, oracle.domain.subset(some), certifier, seed=0)
    require(_same(part, certificates.subset(some)), f"{name}: certificates depend on the other samples")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certify.journal"
        certify(oracle.model, oracle.domain, certifier, seed=0, journal=path)
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: len(lines) // 2]))
        resumed = certify(oracle.model, oracle.domain, certifier, seed=0, journal=path)
    require(_same(resumed, certificates), f"{name}: a restart changes certificates")
    if workers:
        with always_in_workers():
            spread = certify(oracle.model, oracle.domain, certifier, seed=0, workers=2)
        require(_same(spread, certificates), f"{name}: the number of workers changes certificates")


def _check_refusal(name: str, certifier: Certifier, oracle: Oracle) -> None:
    class Random(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return torch.rand(len(inputs), 2)

    training = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(_SHAPE)), 2)).train()
    for what, model in {"a model in train mode": training, "a random model": Random().eval()}.items():
        try:
            certify(model, oracle.domain, certifier, seed=0)
        except ShiftproofError:
            continue
        require(False, f"{name} certifies {what}")


def _same(one: Certificates, other: Certificates) -> bool:
    columns = ("prediction", "count", "n")
    same = all(np.array_equal(getattr(one, column), getattr(other, column)) for column in columns)
    # the product of two matrices may round otherwise in another batch
    return same and bool(np.allclose(one.radius, other.radius, rtol=1e-5, atol=1e-6))
