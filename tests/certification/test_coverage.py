"""Radii against the truth: linear classifiers, coverage over many repetitions, the control that must fail."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy.stats import norm
from smoothed import digits, smoothing
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.certification import Calibration, Job
from shiftproof.certification.certifiers.randomized_smoothing import RandomizedSmoothing
from shiftproof.certification.sampling.bank import blocks
from shiftproof.certification.sampling.budget import bounds
from shiftproof.certification.sampling.stopping import Look
from shiftproof.errors import ConformanceError
from shiftproof.testing import LinearOracle, check_certifier

# truth


@pytest.mark.parametrize("name", ["full", "radii:0,0.1,0.3", "within:0.9"])
@pytest.mark.parametrize("runner_up", [True, False])
@pytest.mark.parametrize("skip_wrong", [True, False])
def test_the_certifier_keeps_its_promises(name: str, runner_up: bool, skip_wrong: bool) -> None:
    check_certifier(smoothing(n=2_000, stop=name, runner_up=runner_up, skip_wrong=skip_wrong))


CERTIFIERS = [
    sp.certifiers.LatentMargin(),
    sp.certifiers.LatentSmoothing(0.25, n=2_000),
    sp.certifiers.LipschitzMargin("l2"),
    sp.certifiers.LipschitzMargin("linf"),
    sp.certifiers.LipschitzMargin("l1"),
    sp.certifiers.MedianSmoothing(sigma=0.25),
    sp.certifiers.MedianSmoothing("logits", sigma=0.25, bound="lipschitz"),
    *(
        sp.certifiers.AdaptedSmoothing(sigmas, Calibration.of(torch.rand(20, 1, 2, 4)), 0.0, rule, n=1_000)
        for sigmas, rule in ((0.25, "fixed"), ((0.25, 0.5), "selection"), ((0.25, 0.5), "agreement"))
    ),
]


@pytest.mark.parametrize(
    "certifier",
    # of rules over several sigmas, one is quick enough for every run of the tests
    [pytest.param(one, marks=pytest.mark.slow) if "selection" in one.title else one for one in CERTIFIERS],
    ids=[one.title for one in CERTIFIERS],
)
def test_every_certifier_keeps_its_promises(certifier: sp.certifiers.Certifier) -> None:
    check_certifier(certifier, workers=certifier.classifier in ("median", "adapted"))


def test_no_certifier_is_left_out() -> None:
    tested = {type(one) for one in CERTIFIERS} | {RandomizedSmoothing}
    assert {entry.cls for entry in sp.certifiers.CERTIFIERS} == tested


def test_the_certifier_keeps_them_in_other_processes() -> None:
    check_certifier(smoothing(noise="uniform:0.5", n=2_000), workers=True)


def test_a_bad_certifier_is_found_out() -> None:
    @dataclass(frozen=True)
    class Boasting(RandomizedSmoothing):
        """Doubles every radius."""

        def certify(self, job: Job) -> sp.Certificates:
            certificates = super().certify(job)
            return replace(certificates, radius=2 * certificates.radius)

    with pytest.raises(ConformanceError, match="exceed the truth"):
        check_certifier(Boasting(**vars(smoothing())))


@pytest.mark.parametrize("noise", ["uniform:0.5", "gaussian:0.5"])
def test_radii_approach_the_truth_on_linear_classifiers(noise: str) -> None:
    oracle = LinearOracle("l1" if noise.startswith("uniform") else "l2")
    certificates = sp.certify(oracle.model, (oracle.inputs, oracle.labels), smoothing(noise=noise, n=20_000), seed=0)
    truth = oracle.radii
    certified = certificates.prediction >= 0
    assert certified.sum() >= len(truth) // 2
    assert (certificates.radius <= truth + 1e-9).all()
    # uniform noise certifies no more than its width, Gaussian no more than so many votes can
    reachable = np.minimum(truth, 0.5 if noise.startswith("uniform") else 0.5 * 3.3)
    assert (certificates.radius[certified] >= reachable[certified] - 0.05).all()


def test_a_smoothed_rotation_is_certified_by_counting_angles() -> None:
    class Upright(nn.Module):
        """Class 0 while the bright pixel is within a quarter turn of where it started."""

        def forward(self, inputs: Tensor) -> Tensor:
            upper, lower = inputs[:, :, :4].flatten(1).sum(1), inputs[:, :, 5:].flatten(1).sum(1)
            return torch.stack([upper, lower], 1)

    image = torch.zeros(1, 1, 9, 9)
    image[0, 0, 1, 4] = 1.0
    certificates = sp.certify(
        Upright().eval(),
        (image, torch.tensor([0])),
        smoothing(noise="rotation:0.75", n=5_000, n0=50),
        seed=0,
    )
    # within 90 of 135 degrees: pA = 2/3, so that a third of 135 degrees are certified
    assert certificates.prediction[0] == 0
    assert 0.5 < certificates.radius[0] < np.pi / 4
    assert certificates.norm == "angle"
    assert "interpolation" in certificates.guarantee


@pytest.mark.parametrize("alpha", [0.0001, 0.01, 0.05])
@pytest.mark.parametrize("stop", ["full", "radii:0,0.1"])
def test_another_alpha_needs_no_model(model: nn.Module, alpha: float, stop: str) -> None:
    setting = smoothing(n=400, stop=stop)
    certificates = sp.certify(model, digits(12), setting, seed=0)
    again = certificates.at_alpha(alpha)
    assert np.array_equal(certificates.at_alpha(0.001).radius, certificates.radius)
    assert again.levels is not None
    assert again.levels.alpha == pytest.approx(alpha)
    assert f"{alpha:g}" in again.guarantee
    if stop == "full":
        assert np.array_equal(again.radius, sp.certify(model, digits(12), replace(setting, alpha=alpha), seed=0).radius)


def coverage(rule: str, runner_up: bool, classes: int, repetitions: int, alpha: float, n: int) -> int:
    """Certificates, each with its own votes, whose radius exceeds the truth."""
    generator = np.random.default_rng([repetitions, classes, len(rule), runner_up])
    probabilities = {
        2: np.array([[0.6, 0.4], [0.8, 0.2], [0.97, 0.03], [0.5, 0.5]]),
        10: np.array(
            [[0.5, 0.3, *[0.025] * 8], [0.8, *[0.2 / 9] * 9], [0.97, 0.02, *[0.01 / 8] * 8], [0.35, *[0.65 / 9] * 9]]
        ),
    }[classes]
    setting = smoothing(noise="gaussian:1", n=n, alpha=alpha, stop=rule, runner_up=runner_up)
    levels = setting.levels(classes)
    p = np.repeat(probabilities, repetitions // len(probabilities), 0)
    truth = (norm.ppf(p[:, 0]) - norm.ppf(p[:, 1:].max(1))) / 2 if runner_up else norm.ppf(p[:, 0])
    counts, drawn = np.zeros(p.shape, np.int64), np.zeros(len(p), np.int64)
    open_ = np.ones(len(p), bool)
    for block in blocks(64, n):
        size = min(block.stop, n) - block.start
        counts[open_] += generator.multinomial(size, p[open_])
        drawn[open_] += size
        if setting.stop.early:
            where = np.flatnonzero(open_)
            rivals = counts[where, 1:].max(1)
            seen = Look(setting.noise, counts[where, 0], rivals, drawn[where], n, levels)
            open_[where[setting.stop.decided(seen)]] = False
    known = bounds(counts[:, 0], counts[:, 1:].max(1), drawn, n, levels)
    claimed = setting.noise.radius(known.miss, known.rival)
    return int(((claimed > 0) & (claimed > truth)).sum())


def most_allowed(repetitions: int, alpha: float) -> int:
    """The count that a rate of alpha exceeds once in a hundred times."""
    from scipy.stats import binom

    return int(binom.ppf(0.99, repetitions, alpha))


RULES = ("full", "radii:0,0.25,0.5,0.75,1,1.5,2", "within:0.9")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("runner_up", [True, False])
@pytest.mark.parametrize("classes", [2, 10])
def test_radii_exceed_the_truth_no_more_often_than_alpha(rule: str, runner_up: bool, classes: int) -> None:
    wrong = coverage(rule, runner_up, classes, 2_000, alpha=0.02, n=2_000)
    assert wrong <= most_allowed(2_000, 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("runner_up", [True, False])
@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize(("alpha", "n"), [(0.001, 10_000), (0.02, 4_000)])
def test_coverage_in_full(rule: str, runner_up: bool, classes: int, alpha: float, n: int) -> None:
    assert coverage(rule, runner_up, classes, 20_000, alpha, n) <= most_allowed(20_000, alpha)


def test_peeking_with_the_bound_of_a_fixed_n_fails_the_same_test() -> None:
    """The control: certify at the first look at which plain Clopper-Pearson exceeds the truth."""
    generator, repetitions, alpha = np.random.default_rng(0), 20_000, 0.001
    p, n = 0.8, 10_000
    counts, drawn, fooled = np.zeros(repetitions, np.int64), 0, np.zeros(repetitions, bool)
    for block in blocks(64, n):
        size = min(block.stop, n) - block.start
        counts += generator.binomial(size, p, repetitions)
        drawn += size
        fooled |= sp.statistics.lower_bound(counts, drawn, alpha) > p
    assert fooled.sum() > 3 * most_allowed(repetitions, alpha)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_coverage_of_the_whole_engine(rule: str) -> None:
    """Real models, real noise, every certificate with a seed of its own."""
    oracle = LinearOracle()
    alpha, wrong, count = 0.02, 0, 0
    for seed in range(20_000 // len(oracle.labels) + 1):
        for image in range(len(oracle.labels)):
            pair = oracle.inputs[image : image + 1], oracle.labels[image : image + 1]
            setting = smoothing(noise="gaussian:0.5", n=300, n0=20, alpha=alpha, stop=rule)
            certificates = sp.certify(oracle.model, pair, setting, seed=seed * 100 + image, progress="off")
            wrong += int(certificates.radius[0] > oracle.radii[image])
            count += 1
    assert count >= 20_000
    assert wrong <= most_allowed(count, alpha)
