"""Budgets of error, stopping rules, and the noise that votes are made of."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from smoothed import GAUSSIAN, digits, smoothing
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.certification.certificates import Votes, certified_rows
from shiftproof.certification.sampling.bank import COUNTING, PIXEL_GRID, blocks, draw_block, off_grid
from shiftproof.certification.sampling.budget import Levels, bounds, budget
from shiftproof.certification.sampling.stopping import Look, as_stop
from shiftproof.errors import UsageError
from shiftproof.perturbations.noise import as_noise
from shiftproof.testing import LinearOracle

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
    certificates = sp.certify(model, (inputs, torch.zeros(2, dtype=torch.long)), smoothing(n=1_000), seed=0)
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
    ours = sp.certify(model, (inputs, torch.zeros(2, dtype=torch.long)), smoothing(n=2_000), seed=0)
    assert ours.prediction[0] == ours.prediction[1]
    assert abs(int(ours.count[0]) - int(ours.count[1])) <= 20


def test_an_image_off_the_grid_pays_with_its_radius_and_stops_no_earlier() -> None:
    generator = torch.Generator().manual_seed(0)
    oracle = LinearOracle("l1")
    off = (oracle.inputs + (torch.rand(oracle.inputs.shape, generator=generator) - 0.5) / PIXEL_GRID).clamp(0, 1)
    setting = smoothing(noise="uniform:0.5", n=2_000)
    certificates = sp.certify(oracle.model, (off, oracle.labels), setting, seed=0)
    assert (certificates.off_grid[:-1] > 0).all()
    rows = certified_rows(
        setting.noise, replace(certificates.votes, off_grid=np.zeros(len(off))), 2_000, setting.levels(2)
    )
    certified = certificates.prediction >= 0
    paid = rows["radius"][certified] - certificates.radius[certified]
    assert np.allclose(paid, certificates.off_grid[certified])
    asked = float(np.quantile(certificates.radius[certified], 0.5))
    stopping = sp.certify(
        oracle.model, (off, oracle.labels), replace(setting, stop=sp.certifiers.Radii([asked])), seed=0
    )
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
