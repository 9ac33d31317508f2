"""Median smoothing: order statistics, boxes through a head, and what was published instead."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn

import shiftproof as sp
from shiftproof.attacks import craft
from shiftproof.certification.bounds.boxes import box_margin, propagate
from shiftproof.certification.bounds.ranks import order_radius
from shiftproof.certification.certifier import Memory
from shiftproof.errors import ModelError, UsageError
from shiftproof.models.lipschitz import MaxMin, RowL2Linear

Median = sp.certifiers.MedianSmoothing


def linear_model(matrix: np.ndarray, offset: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> sp.SplitModel:
    body, head = nn.Linear(*matrix.shape[::-1]), nn.Linear(*weight.shape[::-1])
    with torch.no_grad():
        for layer, (w, b) in ((body, (matrix, offset)), (head, (weight, bias))):
            layer.weight.copy_(torch.from_numpy(w))
            layer.bias.copy_(torch.from_numpy(b))
    return sp.SplitModel(nn.Sequential(nn.Flatten(), body), head).eval()


def at(*values: float) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(values).view(1, 1, 1, -1), torch.zeros(1, dtype=torch.long)


# O5


@pytest.mark.parametrize(
    ("dimensions", "radius", "rank"), [(640, 0.1, 40), (10, 0.1, 46), (1, 0.1, 49), (640, 0.0, 192)]
)
def test_order_statistics_of_500_samples(dimensions: int, radius: float, rank: int) -> None:
    ranks = np.arange(1, 251)
    radii = order_radius(ranks, 500, 0.1, Median().share(dimensions))
    # ranks count from 1; the other side has 501 - rank
    assert ranks[radii >= radius].max() == rank


@pytest.mark.parametrize(
    ("dimensions", "samples", "reach"),
    [(640, 500, 0.184940), (10, 500, 0.197531), (640, 1_000, 0.214), (640, 10_000, 0.294), (640, 100_000, 0.359)],
)
def test_the_farthest_that_samples_can_reach(dimensions: int, samples: int, reach: float) -> None:
    assert Median(samples=samples).reach(dimensions) == pytest.approx(reach, abs=6e-4)


def test_smoothing_of_labels_as_document_004_does_it() -> None:
    labels = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.1), n=500, alpha=1e-4, runner_up=False)
    assert labels.largest_radius(10) == pytest.approx(0.2091, abs=1e-4)


# E4.4: coverage of what is certified, and of what is not


def _missed(rank: int, repetitions: int, dimensions: int = 640) -> int:
    """How often samples of a rank fail to enclose the medians at distance r = sigma = 0.1, in some dimension."""
    missed = 0
    for repetition in range(repetitions):
        generator = torch.Generator().manual_seed(repetition)
        ordered = (0.1 * torch.randn(500, dimensions, generator=generator)).sort(0).values
        missed += int(bool((ordered[rank - 1] > -0.1).any() | (ordered[500 - rank] < 0.1).any()))
    return missed


@pytest.mark.slow
def test_shifted_percentiles_cover_and_those_of_the_median_do_not() -> None:
    assert _missed(40, 200) == 0
    assert _missed(192, 20) == 20
    alpha = 0.05
    ranks = np.arange(1, 251)
    loose = ranks[order_radius(ranks, 500, 0.1, alpha / 1280) >= 0.1].max()
    assert _missed(int(loose), 200) <= binom.ppf(1 - 1e-4, 200, alpha)
    # a rank that is one larger than alpha allows is not caught by 200 repetitions; one that is 8 larger is
    assert _missed(int(loose) + 8, 200) > binom.ppf(1 - 1e-4, 200, alpha)


# O4


def test_a_linear_representation_is_enclosed_as_tightly_as_it_can_be() -> None:
    """z = Ax: the medians within r are those at x -+ r |a_i|, and class regions end where the head says."""
    model = linear_model(np.array([[3.0, 4.0]]), np.zeros(1), np.array([[1.0], [0.0]]), np.array([0.0, 1.1 - 5 * 0.12]))
    # at x the representation is 1.1 and the boundary 0.5, which is 0.12 away in the input
    certificates = sp.certify(model, at(0.1, 0.2), Median(sigma=0.1, samples=20_000), seed=0)
    assert certificates.prediction[0] == 0
    assert 0.11 < certificates.radius[0] < 0.12
    assert np.array_equal(Median(sigma=0.1, samples=20_000).rederive(certificates), certificates.radius)
    logits = sp.certify(model, at(0.1, 0.2), Median("logits", sigma=0.1, samples=20_000), seed=0)
    assert 0.11 < logits.radius[0] < 0.12


@pytest.mark.parametrize("level", ["representation", "logits"])
@pytest.mark.parametrize("bound", ["box", pytest.param("lipschitz", marks=pytest.mark.slow)])
def test_radii_exceed_the_truth_no_more_often_than_alpha(level: str, bound: str) -> None:
    model = linear_model(np.array([[3.0, 4.0]]), np.zeros(1), np.array([[1.0], [0.0]]), np.array([0.0, 0.5]))
    certifier = Median(level, sigma=0.1, samples=200, alpha=0.2, bound=bound)  # type: ignore[arg-type]
    radii = [sp.certify(model, at(0.1, 0.2), certifier, seed=seed).radius[0] for seed in range(150)]
    assert np.mean(radii) > 0.03
    assert (np.array(radii) > 0.12).sum() <= binom.ppf(1 - 1e-6, 150, 0.2)


def test_a_fixed_radius_is_certified_or_not() -> None:
    model = linear_model(np.array([[3.0, 4.0]]), np.zeros(1), np.array([[1.0], [0.0]]), np.array([0.0, 0.5]))
    near, far = (
        sp.certify(model, at(0.1, 0.2), Median(sigma=0.1, radius=r, samples=2_000), seed=0) for r in (0.05, 0.115)
    )
    assert near.radius[0] == 0.05
    assert far.radius[0] == 0
    assert far.prediction[0] == -1


def test_beyond_reach_is_a_sentence_and_no_infinity() -> None:
    model = linear_model(np.zeros((640, 2)), np.zeros(640), np.zeros((2, 640)), np.zeros(2))
    with pytest.raises(UsageError, match=r"r = 0\.2 is beyond the reachable 0\.185 with 500 samples"):
        sp.certify(model, at(0.5, 0.5), Median(radius=0.2), seed=0)
    with pytest.raises(UsageError, match="bound no median"):
        sp.certify(model, at(0.5, 0.5), Median(samples=10), seed=0)


# E4.1, E4.6: rows of L2 norm 1 are not 1-Lipschitz in L-infinity


@pytest.fixture
def spread() -> sp.SplitModel:
    """f(x) = (x1 - 1/2) 1 in 640 dimensions, under rows of L2 norm 1 whose true constant is 25.3."""
    row = np.full(640, 1 / np.sqrt(640))
    return linear_model(np.ones((640, 1)), np.full(640, -0.5), np.stack([row, -row]), np.zeros(2))


def test_the_published_rule_certifies_what_is_false_and_ours_does_not(spread: sp.SplitModel) -> None:
    claimed = sp.certify(spread, at(0.55), Median(radius=0.1, unsound="as-published"), seed=0)
    assert claimed.prediction[0] == 0
    assert claimed.radius[0] == 0.1
    for bound in ("box", "lipschitz"):
        ours = sp.certify(spread, at(0.55), Median(radius=0.1, bound=bound), seed=0)  # type: ignore[arg-type]
        assert ours.prediction[0] == -1
    # the truth: the median at distance 0.1 is on the other side
    there = Median().certified_classifier(_job(spread, 0.45)).answers(at(0.45)[0])
    assert there.tolist() == [1]
    # and at distance 0.05 begins the other class, which ours knows
    largest = sp.certify(spread, at(0.55), Median(), seed=0)
    assert 0 < largest.radius[0] <= 0.05


def test_what_is_claimed_is_never_called_certified(spread: sp.SplitModel) -> None:
    claimed = sp.certify(spread, at(0.55), Median(radius=0.1, unsound="as-published"), seed=0)
    assert claimed.unsound == "as-published"
    assert claimed.guarantee.startswith("NOT A GUARANTEE")
    assert "unsound" in repr(claimed)
    with pytest.raises(UsageError, match="no certificates"):
        sp.metrics.certified_accuracy(claimed, [0], [0.1])
    assert sp.metrics.claimed_accuracy(claimed, [0], [0.1]).tolist() == [1.0]
    with pytest.raises(UsageError, match="fixed radius"):
        Median(unsound="as-published")


def _job(model: nn.Module, value: float) -> sp.certifiers.Job:
    domain = sp.Domain.from_arrays("one", at(value)[0], [0], ["a", "b"])
    return sp.certifiers.Job(model, domain, 2, 0, Memory())


# boxes


def test_boxes_hold_what_the_head_makes_of_them() -> None:
    torch.manual_seed(0)
    head = nn.Sequential(nn.Linear(6, 8), MaxMin(), nn.BatchNorm1d(8), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3))
    head = head.double().eval()
    middle = torch.randn(20, 6, dtype=torch.float64)
    low, high = middle - 0.2, middle + 0.3
    with torch.no_grad():
        bottom, top = propagate(head, low, high)
        inside = low + (high - low) * torch.rand(2_000, 20, 6, dtype=torch.float64)
        outputs = head(inside.flatten(0, 1)).view(2_000, 20, 3)
        classes = head(middle).argmax(1)
        margin = box_margin(head, low, high, classes)
    assert bool(((outputs >= bottom - 1e-9) & (outputs <= top + 1e-9)).all())
    own = outputs.gather(2, classes.expand(2_000, 20)[:, :, None])
    rivals = outputs.scatter(2, classes.expand(2_000, 20)[:, :, None], -torch.inf).amax(2)
    assert bool((own[:, :, 0] - rivals >= margin - 1e-9).all())


def test_one_linear_layer_is_exact() -> None:
    torch.manual_seed(1)
    head = nn.Linear(5, 4).double()
    low = torch.randn(30, 5, dtype=torch.float64)
    high = low + torch.rand(30, 5, dtype=torch.float64)
    with torch.no_grad():
        classes = head((low + high) / 2).argmax(1)
        margin = box_margin(head, low, high, classes)
        corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 5)
        logits = head(low[:, None] + (high - low)[:, None] * corners)
    own = logits.gather(2, classes[:, None, None].expand(30, 32, 1))[:, :, 0]
    rivals = logits.scatter(2, classes[:, None, None].expand(30, 32, 1), -torch.inf).amax(2)
    assert torch.allclose((own - rivals).amin(1), margin)


def test_a_head_that_boxes_can_not_pass_is_refused() -> None:
    head = nn.Sequential(nn.Linear(2, 4), nn.Softmax(1), nn.Linear(4, 2))
    with pytest.raises(ModelError, match="Softmax"):
        sp.certify(sp.SplitModel(nn.Flatten(), head).eval(), at(0.1, 0.2), Median(), seed=0)
    plain = nn.Sequential(nn.Flatten(), nn.Linear(2, 2)).eval()
    with pytest.raises(ModelError, match="level='logits'"):
        sp.certify(plain, at(0.1, 0.2), Median(), seed=0)


def test_samples_are_held_for_few_images_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from shiftproof.certification.certifiers import median_sampling as median

    model = linear_model(np.eye(4), np.zeros(4), np.eye(4)[:3], np.zeros(3))
    inputs = torch.rand(30, 1, 1, 4)
    labels = torch.zeros(30, dtype=torch.long)
    whole = sp.certify(model, (inputs, labels), Median(), seed=0)
    held = []
    drawn = median.Sampled._drawn
    monkeypatch.setattr(median, "SHARD_BYTES", 4 * 500 * 4 * 3)
    monkeypatch.setattr(
        median.Sampled, "_drawn", lambda self, placed, *rest: held.append(len(placed)) or drawn(self, placed, *rest)
    )
    pieces = sp.certify(model, (inputs, labels), Median(), seed=0)
    assert max(held) <= 3
    assert np.array_equal(whole.radius, pieces.radius)


# the counter-example, trained


@pytest.mark.slow
def test_a_trained_network_breaks_the_published_rule_and_not_the_box() -> None:
    """Four classes in 20 dimensions, 640 features, rows of L2 norm 1: the published rule certifies everything."""
    torch.manual_seed(0)
    centres = 0.5 + 0.11 * torch.randn(4, 20)

    def drawn(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(0, 4, (count,))
        return (centres[labels] + 0.1 * torch.randn(count, 20)).clamp(0, 1), labels

    layers = [nn.Linear(20, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 640), nn.ReLU()]
    model = sp.SplitModel(nn.Sequential(nn.Flatten(), *layers), RowL2Linear(640, 4))
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(1_500):
        inputs, labels = drawn(256)
        loss = nn.functional.cross_entropy(model(inputs + 0.1 * torch.randn_like(inputs)), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval().requires_grad_(False)
    inputs, labels = drawn(120)
    data = (inputs.view(-1, 1, 1, 20), labels)
    claimed = sp.certify(model, data, Median(radius=0.1, unsound="as-published"), seed=0)
    box = sp.certify(model, data, Median(radius=0.1), seed=0)
    product = sp.certify(model, data, Median(radius=0.1, bound="lipschitz"), seed=0)
    held = [int((one.radius > 0).sum()) for one in (claimed, box, product)]
    domain = sp.Domain.from_arrays("drawn", *data, [str(c) for c in range(4)])
    classifier = Median().certified_classifier(sp.certifiers.Job(model, domain, 4, 5, Memory()))
    attack = sp.attacks.PGD(sp.Threat("l2", 0.1), steps=15, loss="margin", clip=False)
    moved = craft(
        classifier, data[0], torch.from_numpy(claimed.chosen), attack, radii=torch.full((120,), 0.0999), ids=domain.ids
    )
    broken = classifier.disproved_at(moved, claimed.chosen, 1e-6)
    assert held[0] >= 115
    assert held[1] > 60
    assert held[2] < held[1]
    assert (broken & (claimed.radius > 0)).sum() >= 1
    assert not (broken & (box.radius > 0)).any()
