"""Certificates: budgets, the engine's promises on classifiers whose truth is known, refusals, files."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import needs_data
from scipy.stats import norm
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.certification import Calibration, Job
from shiftproof.certification.certificates import Votes, certified_rows
from shiftproof.certification.sampling.bank import COUNTING, PIXEL_GRID, Block, blocks, draw_block, off_grid
from shiftproof.certification.sampling.budget import Levels, bounds, budget
from shiftproof.certification.sampling.stopping import Full, Look, as_stop
from shiftproof.certification.smoothing import RandomizedSmoothing
from shiftproof.domains import Domain
from shiftproof.errors import ConformanceError, DataError, ModelError, ShiftproofError, UsageError
from shiftproof.execution import always_in_workers
from shiftproof.perturbations.noise import as_noise
from shiftproof.testing import LinearOracle, check_certifier

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


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.set_num_threads(1)
    return trained()


# budgets and bounds


@pytest.mark.parametrize(
    ("classes", "runner_up", "early", "levels"),
    [
        (10, True, False, (0.5, 0.5, 0.0, 0.0)),
        (10, True, True, (0.45, 0.45, 0.05, 0.05)),
        (10, False, False, (1.0, 0.0, 0.0, 0.0)),
        (10, False, True, (0.9, 0.0, 0.1, 0.0)),
        (2, True, False, (1.0, 0.0, 0.0, 0.0)),
        (2, True, True, (0.9, 0.0, 0.1, 0.0)),
    ],
)
def test_alpha_is_shared_out(
    classes: int, runner_up: bool, early: bool, levels: tuple[float, float, float, float]
) -> None:
    given = budget(0.001, classes, runner_up=runner_up, stops_early=early)
    assert (given.final, given.final_rival, given.early, given.early_rival) == pytest.approx(
        tuple(0.001 * share for share in levels)
    )
    assert given.alpha == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("count", "rival", "runner_up", "sigmas"),
    [
        (100_000, 0, False, 3.811457),
        (99_000, 500, False, 2.290000),
        (90_000, 5_000, False, 1.264845),
        (60_000, 10_000, False, 0.240945),
        (60_000, 10_000, True, 0.751954),
        (60_000, 40_000, True, 0.240142),
        (45_000, 20_000, True, 0.343997),
        (90_000, 5_000, True, 1.443326),
        (99_000, 500, True, 2.406578),
        (45_000, 20_000, False, 0.0),
    ],
)
def test_radius_from_counts(count: int, rival: int, runner_up: bool, sigmas: float) -> None:
    levels = budget(0.001, 10, runner_up=runner_up, stops_early=False)
    rows = certified_rows(sp.noise.Gaussian(1.0), votes(count, rival, 100_000), 100_000, levels)
    assert rows["radius"][0] == pytest.approx(sigmas, abs=1e-6)
    assert (rows["prediction"][0] == -1) == (sigmas == 0)


@pytest.mark.parametrize(("n", "smallest"), [(100, 66), (1_000, 550), (10_000, 5_156), (100_000, 50_490)])
def test_the_smallest_count_that_certifies(n: int, smallest: int) -> None:
    levels = Levels(0.001)
    certified = [certified_rows(GAUSSIAN, votes(k, 0, n), n, levels)["prediction"][0] for k in (smallest - 1, smallest)]
    assert certified == [-1, 0]


def votes(count: int, rival: int, drawn: int) -> Votes:
    def one(value: int) -> np.ndarray:
        return np.array([value])

    return Votes(one(0), np.array([False]), one(count), one(1), one(rival), one(drawn), np.zeros(1))


def test_a_stopped_image_never_gets_the_bound_of_a_full_one() -> None:
    levels = budget(0.001, 2, runner_up=True, stops_early=True)
    count, rival, drawn = np.array([1_000, 1_000]), np.array([0, 0]), np.array([1_000, 1_000])
    stopped = bounds(count, rival, drawn, 2_000, levels)
    full = bounds(count, rival, drawn, 1_000, levels)
    assert set(stopped.kind) == {"sequence"}
    assert set(full.kind) == {"clopper-pearson"}
    assert (stopped.miss > full.miss).all()
    nothing = bounds(count, rival, drawn, 2_000, Levels(0.001))
    assert (nothing.miss == 1).all(), "without a share for stopping, a stopped image has no bound at all"


# stopping


@pytest.mark.parametrize("text", ["full", "radii:0,0.25,0.5", "within:0.95"])
def test_rules_from_text(text: str) -> None:
    assert str(as_stop(text)) == text


@pytest.mark.parametrize("text", ["half", "within:2", "within:", "radii:", "radii:a", "radii:-1", "full:1"])
def test_rules_that_make_no_sense(text: str) -> None:
    with pytest.raises(UsageError):
        as_stop(text)


def look(count: int, drawn: int, n: int = 100_000, noise: str = "gaussian:0.5") -> Look:
    levels = budget(0.001, 2, runner_up=False, stops_early=True)
    return Look(as_noise(noise), np.array([count]), np.array([drawn - count]), np.array([drawn]), n, levels)


def test_radii_are_decided_both_ways() -> None:
    rule = sp.certifiers.Radii([0.25, 0.5])
    assert rule.decided(look(2_000, 2_000))[0]
    assert not rule.decided(look(1_660, 2_000))[0], "pA = .83 is near Phi(1) = .841: not yet"
    assert rule.decided(look(1_000, 2_000))[0], "half of the votes: out of reach"
    assert not sp.certifiers.Radii([5.0]).decided(look(10, 10))[0] or look(10, 10).reachable[0] < 5
    assert sp.certifiers.Radii([5.0]).decided(look(10, 10))[0], "no n of this size certifies ten sigma"


def test_within_stops_near_the_full_radius() -> None:
    rule = sp.certifiers.Within(0.9)
    assert not rule.decided(look(180, 200))[0]
    assert rule.decided(look(9_000, 10_000))[0]
    assert rule.decided(look(400, 1_000))[0], "a minority never certifies"


# the noise


def test_a_noise_index_has_its_noise_whatever_the_rest() -> None:
    shape = (1, 4, 4)
    few = [draw_block(GAUSSIAN, shape, block, 0, COUNTING) for block in blocks(16, 300)]
    many = [draw_block(sp.noise.Gaussian(1.0), shape, block, 0, COUNTING) for block in blocks(16, 5_000)]
    for one, other in zip(few, many, strict=False):
        assert np.array_equal(one, other)
    everything = np.concatenate(many)
    assert len(np.unique(everything)) == everything.size
    assert abs(everything.mean()) < 0.02
    assert everything.std() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("size", [1, 64, 3 * 32 * 32, 3 * 224 * 224, 3 * 1024 * 1024, 9_000_000])
def test_blocks_tile_the_indices_and_fit_into_memory(size: int) -> None:
    cut = list(blocks(size, 3_000))
    assert cut[0].start == 0
    assert all(one.stop == other.start for one, other in itertools.pairwise(cut))
    assert cut[-1].stop >= 3_000
    # the smallest block of very large inputs is 16 draws
    assert all((block.stop - block.start) * size * 4 <= max(32 << 20, 16 * size * 4) for block in cut[1:])


def test_eight_bits_are_on_the_grid_and_other_values_pay_for_not_being() -> None:
    levels = torch.arange(256).float().div(255).double().numpy().reshape(1, -1)
    assert off_grid(levels, "l2")[0] == 0
    off = levels + 0.25 / PIXEL_GRID
    assert off_grid(off, "l2")[0] == pytest.approx(16 * 0.25 / PIXEL_GRID, rel=1e-2)
    assert off_grid(off, "l1")[0] == pytest.approx(256 * 0.25 / PIXEL_GRID, rel=1e-2)


class LowBits(nn.Module):
    """Class 0 if any pixel is finer than 2^-30: true of float noise around 0, not around 0.03."""

    def forward(self, inputs: Tensor) -> Tensor:
        steps = inputs.double() * 2.0**30
        fine = (steps != steps.round()).flatten(1).any(1).float()
        return torch.stack([fine, 1 - fine], 1)


class OnTheGrid(nn.Module):
    """Class 0 if every number is the float32 of a multiple of the grid's step."""

    def forward(self, inputs: Tensor) -> Tensor:
        steps = (inputs.double() * PIXEL_GRID).round()
        clean = ((steps / PIXEL_GRID).float() == inputs).flatten(1).all(1).float()
        return torch.stack([clean, 1 - clean], 1)


@pytest.mark.parametrize("first", ["dense", "convolution", "nothing"])
def test_no_layer_in_front_lets_rounding_tell_inputs_apart(first: str) -> None:
    """Of two inputs that are near, certificates contradict each other if noise and input are rounded one by one."""
    dense = nn.Linear(64, 64, bias=False)
    dense.weight.data.copy_(torch.eye(64))
    conv = nn.Conv2d(1, 1, 1, bias=False)
    conv.weight.data.fill_(1.0)
    front = {"dense": [nn.Flatten(), dense], "convolution": [conv], "nothing": []}[first]
    model = nn.Sequential(*front, OnTheGrid()).eval()
    steps = torch.randint(0, 300, (1, 1, 8, 8), generator=torch.Generator().manual_seed(0))
    inputs = torch.cat([torch.zeros(1, 1, 8, 8), (steps / PIXEL_GRID).float()])
    certificates = sp.certify(model, (inputs, torch.zeros(2, dtype=torch.long)), smoothing(n=1_000))
    assert float((inputs[0] - inputs[1]).norm()) < 0.05
    first_count, second_count = (
        int(c) if p == 0 else 1_000 - int(c) for c, p in zip(certificates.count, certificates.chosen, strict=True)
    )
    assert abs(first_count - second_count) <= 60


def test_reading_low_bits_breaks_float_noise_and_not_ours() -> None:
    here = torch.zeros(1, 28, 28)
    there = here + 0.84 / 28
    generator = torch.Generator().manual_seed(0)
    model = LowBits().eval()

    def plain(image: Tensor) -> float:
        noise = 0.25 * torch.randn(2_000, 1, 28, 28, generator=generator)
        return float((model(image + noise).argmax(1) == 0).float().mean())

    assert plain(here) == 1.0
    assert plain(there) == 0.0, "within the .953 that 100,000 equal votes would claim"
    inputs = (torch.stack([here, there]) * PIXEL_GRID).round() / PIXEL_GRID
    ours = sp.certify(model, (inputs, torch.zeros(2, dtype=torch.long)), smoothing(n=2_000))
    assert ours.prediction[0] == ours.prediction[1]
    assert abs(int(ours.count[0]) - int(ours.count[1])) <= 20


def test_an_image_off_the_grid_pays_with_its_radius_and_stops_no_earlier() -> None:
    generator = torch.Generator().manual_seed(0)
    oracle = LinearOracle("l1")
    off = (oracle.inputs + (torch.rand(oracle.inputs.shape, generator=generator) - 0.5) / PIXEL_GRID).clamp(0, 1)
    setting = smoothing(noise="uniform:0.5", n=2_000)
    certificates = sp.certify(oracle.model, (off, oracle.labels), setting)
    assert (certificates.off_grid[:-1] > 0).all()
    rows = certified_rows(
        setting.noise, replace(certificates.votes, off_grid=np.zeros(len(off))), 2_000, setting.levels(2)
    )
    certified = certificates.prediction >= 0
    paid = rows["radius"][certified] - certificates.radius[certified]
    assert np.allclose(paid, certificates.off_grid[certified])
    asked = float(np.quantile(certificates.radius[certified], 0.5))
    stopping = sp.certify(oracle.model, (off, oracle.labels), replace(setting, stop=sp.certifiers.Radii([asked])))
    stopped = stopping.bound == "sequence"
    assert stopped.any()
    assert ((stopping.radius[stopped] >= asked) | (certificates.radius[stopped] < asked + 0.05)).all()


def test_votes_are_those_of_the_model_itself(model: nn.Module) -> None:
    """Brute force: the same noise, added in float64, through the model as it is."""
    domain, shape = digits(3), (1, 8, 8)
    certificates = sp.certify(model, domain, smoothing(n=500), seed=3)
    draws = np.concatenate([draw_block(GAUSSIAN, shape, block, 3, COUNTING) for block in blocks(64, 500)])[:500]
    for image in range(3):
        noisy = domain[image][0].double() + torch.from_numpy(0.25 * draws).view(-1, *shape)
        with torch.no_grad():
            counts = np.bincount(model(noisy.float()).argmax(1), minlength=10)
        # rounding to the grid moves a vote or two that are nearly ties
        assert abs(counts[certificates.chosen[image]] - certificates.count[image]) <= 2


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


@pytest.mark.parametrize("certifier", CERTIFIERS, ids=[one.title for one in CERTIFIERS])
def test_every_certifier_keeps_its_promises(certifier: sp.certifiers.Certifier) -> None:
    check_certifier(certifier, workers=certifier.classifier in ("median", "adapted"))


def test_no_certifier_is_left_out() -> None:
    tested = {type(one) for one in CERTIFIERS} | {RandomizedSmoothing}
    assert {entry.cls for entry in sp.certifiers.CERTIFIERS} == tested


def test_the_certifier_keeps_them_in_other_processes() -> None:
    check_certifier(smoothing(noise="uniform:0.5", n=2_000), workers=True)


def test_a_bad_certifier_is_found_out() -> None:
    @dataclass(frozen=True)
    class Boasting:
        """Doubles every radius."""

        inner: RandomizedSmoothing

        def certify(self, job: Job) -> sp.Certificates:
            certificates = self.inner.certify(job)
            return replace(certificates, radius=2 * certificates.radius)

    with pytest.raises(ConformanceError, match="exceed the truth"):
        check_certifier(Boasting(smoothing()))


@pytest.mark.parametrize("noise", ["uniform:0.5", "gaussian:0.5"])
def test_radii_approach_the_truth_on_linear_classifiers(noise: str) -> None:
    oracle = LinearOracle("l1" if noise.startswith("uniform") else "l2")
    certificates = sp.certify(oracle.model, (oracle.inputs, oracle.labels), smoothing(noise=noise, n=20_000))
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
        Upright().eval(), (image, torch.tensor([0])), smoothing(noise="rotation:0.75", n=5_000, n0=50)
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
    certificates = sp.certify(model, digits(12), setting)
    again = certificates.at_alpha(alpha)
    assert np.array_equal(certificates.at_alpha(0.001).radius, certificates.radius)
    assert again.levels is not None
    assert again.levels.alpha == pytest.approx(alpha)
    assert f"{alpha:g}" in again.guarantee
    if stop == "full":
        assert np.array_equal(again.radius, sp.certify(model, digits(12), replace(setting, alpha=alpha)).radius)


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


# nothing but image and noise index matters


def counts_of(certificates: sp.Certificates) -> list[tuple[str, int, int, int, int]]:
    columns = zip(
        certificates.ids,
        certificates.chosen,
        certificates.count,
        certificates.runner_up_count,
        certificates.n,
        strict=True,
    )
    return sorted((str(i), int(a), int(k), int(b), int(n)) for i, a, k, b, n in columns)


@pytest.mark.parametrize("stop", ["full", "radii:0,0.1,0.2,0.4"])
def test_order_subset_and_workers_change_no_vote(model: nn.Module, stop: str) -> None:
    setting = smoothing(n=600, stop=stop)
    domain = digits(30)
    alone = counts_of(sp.certify(model, domain, setting))
    shuffled = domain.subset(np.random.default_rng(0).permutation(len(domain)))
    assert counts_of(sp.certify(model, shuffled, setting)) == alone
    some = domain.subset([3, 17, 5])
    assert set(counts_of(sp.certify(model, some, setting))) <= set(alone)
    with always_in_workers():
        assert counts_of(sp.certify(model, domain, setting, workers=2)) == alone
    together = sp.certify(model, domain, [setting, replace(setting, noise=sp.noise.Gaussian(0.5))])
    assert counts_of(together[0]) == alone


def _job(model: nn.Module, domain: Domain):  # type: ignore[no-untyped-def]
    from shiftproof.certification.certifier import Job, Memory

    return Job(model, domain, 10, 0, Memory())


def test_a_job_that_stops_anywhere_continues_to_the_same_votes(model: nn.Module, tmp_path: Path) -> None:
    setting = smoothing(n=700, stop="radii:0,0.1,0.2")
    domain = digits(10)
    whole = counts_of(sp.certify(model, domain, setting))
    path = tmp_path / "certify.journal"
    sp.certify(model, domain, setting, journal=path)
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    for kept in (1, 2, 11, 15, len(lines) - 1):
        path.write_bytes(b"".join(lines[:kept]) + b"torn")
        assert counts_of(sp.certify(model, domain, setting, journal=path)) == whole
    assert path.read_bytes().splitlines()[0] == lines[0].rstrip(b"\n")
    other = sp.certify(model, domain, setting, journal=path, seed=1)
    assert counts_of(other) != whole, "a journal of another seed is not taken over"


KILLED = """
import sys, numpy as np, torch, shiftproof as sp
from pathlib import Path
from shiftproof.execution import always_in_workers
torch.set_num_threads(1)
if __name__ == "__main__":
    domain = sp.load_domains("digits")["digits"].subset(np.arange(24))
    model = sp.load_model("file:" + sys.argv[1])
    setting = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=6_000)
    with always_in_workers():
        c = sp.certify(model, domain, setting, journal=sys.argv[2], workers=int(sys.argv[3]), progress="off")
    c.save(sys.argv[4])
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_kill_nine_loses_at_most_what_is_in_flight(model: nn.Module, tmp_path: Path, workers: int) -> None:
    sp.save_model(model, tmp_path / "m.safetensors")
    (tmp_path / "run.py").write_text(KILLED)
    journal, result = tmp_path / "j", tmp_path / "c.parquet"
    command = [sys.executable, "run.py", "m.safetensors", str(journal), str(workers), str(result)]
    kept = []
    for _ in range(2):
        process = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"})
        before = len(journal.read_bytes().splitlines()) if journal.exists() else 0
        while process.poll() is None and (not journal.exists() or len(journal.read_bytes().splitlines()) < before + 40):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        kept.append(len(journal.read_bytes().splitlines()))
    assert kept[1] > kept[0] > 1
    subprocess.run(command, cwd=tmp_path, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    resumed = sp.Certificates.load(result)
    whole = sp.certify(model, digits(24), smoothing(n=6_000))
    assert counts_of(resumed) == counts_of(whole)
    assert np.array_equal(resumed.radius, whole.radius)


def test_padding_does_not_count(model: nn.Module) -> None:
    certificates = sp.certify(model, digits(3), smoothing(n=333, n0=7, runner_up=True))
    assert (certificates.n == 333).all()
    assert (certificates.count + certificates.runner_up_count <= 333).all()


# what voids a guarantee


class Random(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return torch.stack([inputs.flatten(1).sum(1), torch.rand(len(inputs))], 1)


class HardlyRandom(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return torch.stack([inputs.flatten(1).sum(1), 1e-5 * torch.rand(len(inputs))], 1)


class OfTheBatch(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        flat = inputs.flatten(1)
        return torch.stack([flat.sum(1) - flat.sum(1).mean(), flat.mean(1)], 1)


class NotANumber(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return torch.full((len(inputs), 2), float("nan"))


class NotANumberFarAway(nn.Module):
    """A number on clean images, none on very noisy ones."""

    def forward(self, inputs: Tensor) -> Tensor:
        logits = torch.stack([inputs.flatten(1).sum(1), -inputs.flatten(1).sum(1)], 1)
        return torch.where((inputs.flatten(1).abs().amax(1) > 8)[:, None], torch.full_like(logits, torch.nan), logits)


def dense(outputs: int = 2) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, outputs)).eval()


def dropping() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10)).eval()
    model[1].train()
    return model


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), "train mode"),
        (dropping(), "Dropout.*train mode"),
        (Random().eval(), "random"),
        (HardlyRandom().eval(), "random"),
        (OfTheBatch().eval(), "other samples in its batch"),
        (
            nn.Sequential(nn.BatchNorm2d(1, track_running_stats=False), nn.Flatten(), nn.Linear(64, 10)).eval(),
            "other samples in its batch",
        ),
        (NotANumber().eval(), "not numbers"),
        (dense(1), "one class"),
        (nn.Sequential(nn.Flatten(), nn.Linear(63, 10)).eval(), "does not take inputs of shape"),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 3)).eval(), "3 outputs, but the data has 10"),
        (nn.Flatten().eval(), None),
    ],
)
def test_models_that_are_no_fixed_function_are_refused(model: nn.Module, sentence: str | None) -> None:
    if sentence is None:
        assert len(sp.certify(model, digits(2), smoothing(n=16))) == 2
        return
    two = isinstance(model, Random | HardlyRandom | OfTheBatch | NotANumber)
    data = (torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 0, 1])) if two else digits(4)
    with pytest.raises(ModelError, match=sentence):
        sp.certify(model, data, smoothing(n=16))


def test_a_model_that_fails_on_noise_alone_is_refused() -> None:
    pair = torch.rand(2, 1, 8, 8), torch.tensor([0, 1])
    with pytest.raises(ModelError, match="not numbers.*on noisy inputs"):
        sp.certify(NotANumberFarAway().eval(), pair, smoothing(noise="gaussian:5", n=300))


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: smoothing(noise="gaussian:0"),
        lambda: smoothing(noise="gaussian:-1"),
        lambda: smoothing(noise="gaussian:nan"),
        lambda: sp.certify(dense(10), digits(2), smoothing(noise="gaussian:1000", n=16)),
        lambda: smoothing(n0=0),
        lambda: smoothing(n=0),
        lambda: smoothing(n=1.5),
        lambda: smoothing(alpha=0.0),
        lambda: smoothing(alpha=1.0),
        lambda: smoothing(alpha="0.1"),
        lambda: smoothing(alpha=float("nan")),
        lambda: smoothing(noise=0.25),
        lambda: smoothing(stop="soon"),
        lambda: sp.certify(dense(10), digits(2), "randomized-smoothing"),
        lambda: sp.certify(dense(10), digits(2), []),
        lambda: sp.certify(dense(10), digits(2), smoothing(), seed=-1),
        lambda: sp.certify(dense(10), digits(2), smoothing(), workers=0),
        lambda: sp.certify(dense(10), digits(2), smoothing(), precision="f16"),
        lambda: sp.certify(dense(10), digits(2), smoothing(), backend="abacus"),
        lambda: sp.certify(dense(), (torch.zeros(0, 1, 8, 8), torch.zeros(0, dtype=torch.long)), smoothing()),
        lambda: sp.certify(dense(), (torch.full((2, 1, 8, 8), torch.nan), torch.tensor([0, 1])), smoothing()),
        lambda: sp.certify(dense(), (torch.zeros(2, 1, 7, 8), torch.tensor([0, 1])), smoothing()),
        lambda: sp.certify(dense(), (255 * torch.ones(2, 1, 8, 8), torch.tensor([0, 1])), smoothing()),
        lambda: sp.certify(dense(), sp.load_domains("colored-digits"), smoothing()),
        lambda: sp.certify(dense(10), digits(2), [smoothing(), smoothing(noise="uniform:0.5")]),
    ],
)
def test_bad_input_gets_a_sentence(attempt: object) -> None:
    with pytest.raises(ShiftproofError) as caught:
        attempt()  # type: ignore[operator]
    assert len(str(caught.value)) > 20
    assert "\n" not in str(caught.value)


class Turned(nn.Module):
    """Equal weights, another function."""

    def __init__(self, sign: float) -> None:
        super().__init__()
        self.sign = sign
        self.head = nn.Linear(64, 10)
        self.head.weight.data.copy_(torch.linspace(-1, 1, 640).view(10, 64))
        self.head.bias.data.zero_()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.sign * self.head(inputs.flatten(1))


def test_votes_of_another_function_are_not_taken_over(tmp_path: Path) -> None:
    plus, minus = Turned(1.0).eval(), Turned(-1.0).eval()
    sp.certify(plus, digits(4), smoothing(n=100), journal=tmp_path / "j")
    taken = sp.certify(minus, digits(4), smoothing(n=100), journal=tmp_path / "j")
    assert np.array_equal(taken.chosen, sp.certify(minus, digits(4), smoothing(n=100)).chosen)


def test_models_of_other_kinds_are_certified() -> None:
    for kind in (torch.float64, torch.bfloat16):
        certificates = sp.certify(dense(10).to(kind), digits(2), smoothing(n=50))
        assert len(certificates) == 2
    assert len(sp.certify(dense(10), digits(2), smoothing(n=np.int64(50)))) == 2
    flat = torch.rand(3, 64), torch.tensor([0, 1, 0])
    assert len(sp.certify(nn.Linear(64, 2).eval(), flat, smoothing(n=50))) == 3


# files


def test_certificates_survive_a_file(model: nn.Module, tmp_path: Path) -> None:
    certificates = sp.certify(model, digits(6), smoothing(n=300, stop="within:0.8", skip_wrong=True))
    certificates.save(tmp_path / "c.parquet")
    again = sp.Certificates.load(tmp_path / "c.parquet")
    for name in ("ids", "prediction", "radius", "skipped", "count", "n", "p_lower", "p_upper", "bound", "off_grid"):
        assert np.array_equal(getattr(again, name), getattr(certificates, name)), name
    assert (again.noise, again.levels, again.guarantee) == (
        certificates.noise,
        certificates.levels,
        certificates.guarantee,
    )
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(DataError, match="does not hold certificates"):
        sp.Certificates.load(tmp_path / "bad.parquet")


def test_a_log_never_rounds_up(model: nn.Module, tmp_path: Path) -> None:
    domain = digits(12)
    certificates = sp.certify(model, domain, smoothing(n=300))
    certificates.to_log(tmp_path / "log.tsv", domain.labels)
    again = sp.Certificates.from_log(tmp_path / "log.tsv")
    assert np.array_equal(again.prediction, certificates.prediction)
    assert (again.radius <= certificates.radius).all()
    assert (certificates.radius - again.radius < 1.1e-6).all()
    with pytest.raises(UsageError, match="only the votes"):
        again.at_alpha(0.1)
    with pytest.raises(UsageError, match="12 certificates but 3 labels"):
        certificates.to_log(tmp_path / "log.tsv", [0, 1, 2])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("idx\tlabel\tpredict\n0\t1\t1\n", "no column radius"),
        ("idx\tlabel\tpredict\tradius\tcorrect\ttime\n", "no rows"),
        ("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\tfar\t1\t0\n", "line 2: not a row of numbers"),
        ("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t2\t0.5\t1\t0\n", "correct is 1, but"),
        ("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\tnan\t1\t0\n", "the radius is nan"),
        ("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t-1\t1\t0\n", "the radius is -1"),
    ],
)
def test_logs_that_are_none(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "log.tsv").write_text(text)
    with pytest.raises(DataError, match=sentence):
        sp.Certificates.from_log(tmp_path / "log.tsv")
    with pytest.raises(DataError, match="can't read"):
        sp.Certificates.from_log(tmp_path / "none.tsv")


LOGS = Path(os.environ.get("SHIFTPROOF_DATA", "")).parent / "reference-logs"


@pytest.mark.skipif(not LOGS.is_dir(), reason="the published logs are not beside SHIFTPROOF_DATA")
@pytest.mark.parametrize(
    ("name", "acr"),
    [
        ("cohen_cifar10_sigma_0.50", 0.5375),
        ("smoothadv_cifar10_sigma_0.25", 0.5781),
        ("gaussian_mnist_sigma_0.50", 1.5569),
    ],
)
def test_published_logs_have_their_average_radius(name: str, acr: float) -> None:
    log = sp.Certificates.from_log(LOGS / f"{name}.tsv")
    labels = log.details["labels"]
    assert sp.metrics.average_certified_radius(log, labels) == pytest.approx(acr, abs=5e-5)
    at = sp.metrics.certified_accuracy(log, labels, [0, 0.25, 0.5, 1.0])
    assert at.shape == (4,)
    assert (np.diff(at) <= 0).all()


# metrics


def made_up(radius: np.ndarray, right: np.ndarray) -> tuple[sp.Certificates, np.ndarray]:
    """Certificates with given radii, on labels of which some are met."""
    n = len(radius)
    certificates = replace(
        sp.certify(dense(), (torch.rand(n, 1, 8, 8), torch.zeros(n, dtype=torch.long)), smoothing(n=1, n0=1)),
        radius=radius,
        prediction=np.where(right, 0, 1),
    )
    return certificates, np.zeros(n, np.int64)


def test_the_average_radius_is_the_area_under_the_curve() -> None:
    generator = np.random.default_rng(0)
    certificates, labels = made_up(generator.uniform(0, 1, 400), generator.random(400) < 0.7)
    grid = np.linspace(0, 1, 2_001)
    area = np.trapezoid(sp.metrics.certified_accuracy(certificates, labels, grid), grid)
    acr = sp.metrics.average_certified_radius(certificates, labels)
    assert acr == pytest.approx(area, abs=1e-3)
    correct = sp.metrics.average_certified_radius(certificates, labels, over="correct")
    accuracy = float(sp.metrics.certified_accuracy(certificates, labels, 0))
    assert correct == pytest.approx(acr / accuracy)
    estimate = sp.metrics.radius_interval(certificates, labels)
    assert estimate.low < acr < estimate.high
    assert estimate.value == pytest.approx(acr)
    at = sp.metrics.certified_interval(certificates, labels, 0.5)
    assert at.low < at.value < at.high
    assert sp.metrics.radius_difference(certificates, certificates, labels).high == pytest.approx(0)


def test_what_is_skipped_changes_certified_accuracy_by_nothing(model: nn.Module) -> None:
    domain = digits(30)
    all_of_them = sp.certify(model, domain, smoothing(n=400))
    skipping = sp.certify(model, domain, smoothing(n=400, skip_wrong=True))
    radii = [0, 0.1, 0.2, 0.3]
    for one in (sp.metrics.certified_accuracy, sp.metrics.average_certified_radius):
        arguments = (radii,) if one is sp.metrics.certified_accuracy else ()
        assert np.array_equal(one(all_of_them, domain.labels, *arguments), one(skipping, domain.labels, *arguments))
    assert skipping.skipped.any()
    assert skipping.passes < all_of_them.passes
    assert (skipping.prediction[skipping.skipped] >= 0).all()
    assert sp.metrics.abstention_rate(skipping) is None
    assert sp.metrics.abstention_rate(all_of_them) is not None


def test_curves_and_their_band() -> None:
    assert sp.metrics.curve_band(1_000) == pytest.approx(0.04295, abs=1e-4)
    best = sp.metrics.envelope([[0.9, 0.2], [0.5, 0.4]])
    assert best.tolist() == [0.9, 0.4]
    with pytest.raises(UsageError):
        sp.metrics.envelope([])
    certificates, labels = made_up(np.array([0.5, 0.5]), np.array([True, False]))
    assert sp.metrics.certified_accuracy(certificates, labels, [0, 0.5, 0.50001]).tolist() == [0.5, 0.5, 0.0]
    with pytest.raises(UsageError):
        sp.metrics.certified_accuracy(certificates, labels, [-1])


# cost


def test_fewer_passes_for_the_same_answer(model: nn.Module) -> None:
    domain = digits(30)
    radii = [0, 0.1, 0.2]
    full = sp.certify(model, domain, smoothing(n=5_000))
    fewer = sp.certify(model, domain, smoothing(n=5_000, stop=sp.certifiers.Radii(radii), skip_wrong=True))
    assert fewer.passes < full.passes / 1.3
    at = [sp.metrics.certified_accuracy(one, domain.labels, radii) for one in (full, fewer)]
    assert np.abs(at[0] - at[1]).max() <= 0.04
    assert fewer.stops_early


@pytest.mark.parametrize("stop", ["full", "radii:0,0.1,0.2", "within:0.9"])
def test_an_estimate_of_passes_is_near(model: nn.Module, stop: str) -> None:
    from shiftproof.certification.sampling.estimate import estimate_sampling

    domain = digits(40)
    setting = smoothing(n=5_000, stop=stop)
    cost = estimate_sampling(_job(model, domain), setting)
    spent = sp.certify(model, domain, setting).passes
    assert cost.passes == pytest.approx(spent, rel=0.5 if stop != "full" else 0)
    assert cost.most_passes == 40 * 5_100
    assert cost.seconds > 0


def test_the_stop_rule_is_part_of_the_record(model: nn.Module) -> None:
    certificates = sp.certify(model, digits(2), smoothing(n=200, stop="within:0.9"))
    assert json.dumps(dict(certificates.details))
    assert certificates.details["stop"] == "within:0.9"
    assert certificates.details["prepared"].startswith("f32, 4 BatchNorm folded")
    assert smoothing().stop == Full()
    assert Block(0, 0, 128) == next(iter(blocks(10, 1)))


@pytest.mark.slow
@needs_data
def test_the_same_table_for_fewer_passes_on_mnist() -> None:
    """An mlp trained on noise, sigma 0.5, n = 100,000, 1,000 test images; minutes."""
    torch.set_num_threads(2)
    mnist = sp.load_domains("mnist")
    fit = sp.train(sp.build_model("mlp", mnist), mnist, sp.objectives.Gaussian(0.5))
    domain = sp.held_out(mnist["mnist"]).subset(np.arange(0, 10_000, 10))
    radii = [0, 0.25, 0.5, 0.75, 1.0]
    full = smoothing(noise="gaussian:0.5", n=100_000)
    stopping = replace(full, stop=sp.certifiers.Radii(radii), skip_wrong=True)
    one, other = (sp.certify(fit.model, domain, setting, workers=2) for setting in (full, stopping))
    at = [sp.metrics.certified_accuracy(certificates, domain.labels, radii) for certificates in (one, other)]
    print(f"passes {one.passes:,} and {other.passes:,}: {one.passes / other.passes:.1f} times; {at[0]} and {at[1]}")  # noqa: T201
    assert one.passes >= 1.3 * other.passes
    assert np.abs(at[0] - at[1]).max() <= 0.002
