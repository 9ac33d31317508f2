"""BatchNorm adapted to noise, and what several sigmas may promise together."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.certification.certifier import Memory
from shiftproof.certification.certifiers.adapted_radii import Signed, score_of, selection_radius
from shiftproof.cli.certifiers import make_certifiers
from shiftproof.domains import Domain
from shiftproof.errors import DataError, ModelError, ShiftproofError, UsageError
from shiftproof.execution import always_in_workers
from shiftproof.models.adaptation import adapt_batchnorm, statistics_hash

Adapted, Calibration = sp.certifiers.AdaptedSmoothing, sp.certifiers.Calibration


class Interval(nn.Module):
    """Class 0 where |x| < 1, behind a BatchNorm that does nothing: the counter-example to the largest radius of all."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(1, eps=1e-12, affine=False)

    def forward(self, inputs: Tensor) -> Tensor:
        inside = 1 - self.norm(inputs.flatten(1)).abs()
        return torch.cat([inside, -inside], 1)


def interval(x: float, sigma: float) -> float:
    return float(norm.cdf((1 - x) / sigma) - norm.cdf((-1 - x) / sigma))


def at(value: float) -> tuple[Tensor, Tensor]:
    return torch.full((1, 1, 1, 1), value), torch.zeros(1, dtype=torch.long)


def unchanged(sigmas: tuple[float, ...], **options: object) -> sp.certifiers.AdaptedSmoothing:
    """Momentum 0 keeps the statistics, so that nothing but the rule is tested."""
    images = Calibration.of(torch.rand(8, 1, 1, 1, generator=torch.Generator().manual_seed(0)) / 2 + 0.25)
    return Adapted(sigmas, images, 0.0, **{"n": 20_000, **options})


# O6


def test_statistics_follow_equation_5() -> None:
    """The batch of O6, without noise: mean 3, variance 3.5, mixed with 1 and 4 at momentum 1/4."""
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(1, affine=False)).eval()
    model[1].running_mean.fill_(1.0)
    model[1].running_var.fill_(4.0)
    batch = torch.tensor([1.0, 2.0, 3.0, 6.0]).view(4, 1, 1, 1)
    adapted = adapt_batchnorm(model, batch, 0.0, momentum=0.25)
    assert adapted[1].running_mean.item() == pytest.approx(1.5)
    assert adapted[1].running_var.item() == pytest.approx(3.875)
    # neither the pooled variance (4.625) nor torch's unbiased one (4.1667), and the model itself is not touched
    assert model[1].running_mean.item() == 1.0
    assert adapt_batchnorm(model, batch, 0.0)[1].running_mean.item() == pytest.approx(3.0)
    kept = adapt_batchnorm(model, batch, 0.5, momentum=0.0)
    assert statistics_hash(kept) == statistics_hash(model) != statistics_hash(adapted)


def test_noise_adds_its_variance() -> None:
    model = nn.Sequential(nn.BatchNorm2d(1, affine=False), nn.Flatten()).eval()
    images = torch.rand(64, 1, 32, 32, generator=torch.Generator().manual_seed(1))
    adapted = adapt_batchnorm(model, images, 0.5)
    assert adapted[0].running_mean.item() == pytest.approx(float(images.mean()), abs=0.01)
    assert adapted[0].running_var.item() == pytest.approx(float(images.var(correction=0)) + 0.25, abs=0.01)


@pytest.mark.parametrize("batch", [64, 7, 33])
def test_batches_are_cumulative(batch: int) -> None:
    """The first layer's statistics are those of all samples, whatever the batches; torch would keep the last one's."""
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(4, affine=False)).eval()
    images = torch.rand(64, 1, 2, 2, generator=torch.Generator().manual_seed(2))
    whole = adapt_batchnorm(model, images, 0.0)
    parts = adapt_batchnorm(model, images, 0.0, batch=batch)
    assert torch.allclose(parts[1].running_mean, images.flatten(1).mean(0))
    assert torch.allclose(parts[1].running_var, whole[1].running_var)


def test_nothing_but_statistics_changes() -> None:
    model = sp.build_model("cnn", sp.load_domains("digits"), width=4)
    model = sp.SplitModel(nn.Sequential(model.encoder, nn.Dropout(0.9)), model.head).eval()
    images = sp.load_domains("digits")["digits"].take(np.arange(50))[0]
    first, again = adapt_batchnorm(model, images, 0.5), adapt_batchnorm(model, images, 0.5)
    # dropout is off while measuring: two passes agree
    assert statistics_hash(first) == statistics_hash(again)
    assert not any(layer.training for layer in first.modules())
    state, before = first.state_dict(), model.state_dict()
    changed = {name for name in state if not torch.equal(state[name], before[name])}
    assert changed
    assert all("running" in name for name in changed)


@pytest.mark.parametrize(
    ("model", "images", "options", "sentence"),
    [
        (nn.Flatten(), 8, {}, "no BatchNorm"),
        (nn.BatchNorm2d(1), 1, {}, "a variance needs more"),
        (nn.BatchNorm2d(1), 8, {"momentum": 1.5}, "momentum is 1.5"),
    ],
    ids=["none", "one image", "momentum"],
)
def test_what_can_not_be_adapted_is_refused(
    model: nn.Module, images: int, options: dict[str, float], sentence: str
) -> None:
    with pytest.raises(ShiftproofError, match=sentence):
        adapt_batchnorm(model.eval(), torch.rand(images, 1, 2, 2), 0.25, **options)


# O15, E3.1


def test_the_sound_radius_of_a_selection() -> None:
    for sigmas, x, expected in (((0.25, 2.0), 0.0, 0.181294), ((0.25, 0.5), 0.1, 0.860528)):
        share = [interval(x, sigma) for sigma in sigmas]
        known = [
            Signed(np.array([s * norm.ppf(p)]), np.array([s * norm.ppf(1 - p)]), np.zeros(1))
            for s, p in zip(sigmas, share, strict=True)
        ]
        assert selection_radius(known)[0] == pytest.approx(expected, abs=1e-6)
        radii = [one.radius[0] for one in known]
        assert selection_radius(known)[0] == pytest.approx((max(radii) + min(radii)) / 2)


def test_the_largest_radius_of_all_is_no_certificate_and_ours_is() -> None:
    sigmas, model = (0.25, 2.0), Interval().eval()
    published = unchanged(sigmas, unsound="as-published", n=400_000)
    here, there = sp.certify(model, at(0.0), published, seed=0), sp.certify(model, at(0.6), published, seed=0)
    # two claims that contradict each other: A within .9 of 0, B within .6 of .6
    assert here.prediction[0] == 0
    assert here.radius[0] == pytest.approx(0.958, abs=0.05)
    assert there.prediction[0] == 1
    assert there.radius[0] > 0.6
    ours = sp.certify(model, at(0.0), unchanged(sigmas, rule="selection", n=400_000, n0=5_000), seed=0)
    assert ours.prediction[0] == 0
    assert 0.14 < ours.radius[0] <= 0.19
    # the truth: the class of the largest sigma Phi^-1(p) flips at .3726
    rule = unchanged(sigmas, rule="selection").certified_classifier(_job(model))
    assert rule.answers(torch.cat([at(0.34)[0], at(0.41)[0]])).tolist() == [0, 1]
    assert rule.disproved_at(at(0.6)[0], np.array([0]), 1e-6).tolist() == [True]
    assert rule.disproved_at(at(0.15)[0], np.array([0]), 1e-6).tolist() == [False]
    agreeing = sp.certify(model, at(0.0), unchanged(sigmas, rule="agreement"), seed=0)
    assert agreeing.prediction[0] == -1


def test_votes_of_every_sigma_give_the_radius_again() -> None:
    model = Interval().eval()
    for rule in ("selection", "agreement"):
        certifier = unchanged((0.25, 0.5), rule=rule)
        certificates = sp.certify(model, at(0.1), certifier, seed=0)
        assert certificates.radius[0] > 0.7
        assert certifier.rederive(certificates) == pytest.approx(certificates.radius)
        assert certificates.ballots.shape == (2, 1, 4)
        assert json.loads(certificates.parts[0])["sigmas"] == [0.25, 0.5]
    # never another class this far, though perhaps none: no smaller than what is constant
    outer = certifier.outer_radius(certificates)
    assert outer[0] > certificates.radius[0]
    assert outer[0] < 0.25 * norm.ppf(interval(0.1, 0.25)) + 1e-9


def test_alpha_is_shared_where_it_must_be() -> None:
    assert unchanged((0.25, 0.5), rule="selection").share == pytest.approx(0.0005)
    assert unchanged((0.25, 0.5), rule="agreement").share == pytest.approx(0.001)
    one = sp.certify(Interval().eval(), at(0.1), unchanged((0.25,)), seed=0)
    assert one.levels is not None
    assert one.levels.final == pytest.approx(0.001)
    plain = sp.certify(
        Interval().eval(), at(0.1), sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=20_000), seed=0
    )
    assert one.radius[0] == plain.radius[0]


# other noises than Gaussian


def test_statistics_are_those_of_the_noise_that_is_meant() -> None:
    """The variance of a constant under noise: width^2 / 3 of a uniform one, sigma^2 of a Gaussian one."""
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(1, affine=False)).eval()
    constant = torch.full((20_000, 1, 1, 1), 0.5)
    for noise, variance in ((sp.noise.Uniform(0.6), 0.12), (sp.noise.Gaussian(0.6), 0.36), (0.6, 0.36)):
        adapted = adapt_batchnorm(model, constant, noise)
        assert adapted[1].running_mean.item() == pytest.approx(0.5, abs=0.02)
        assert adapted[1].running_var.item() == pytest.approx(variance, rel=0.05)
    # a turned image has dark corners
    bright, layer = torch.ones(64, 1, 9, 9), nn.Sequential(nn.BatchNorm2d(1, affine=False)).eval()
    assert adapt_batchnorm(layer, bright, sp.noise.Rotation(0.5))[0].running_mean.item() < 0.99
    with pytest.raises(UsageError, match="noise on images"):
        adapt_batchnorm(model, constant, sp.noise.WordDeletion(0.5))


def test_a_gaussian_noise_adapts_as_its_sigma_does() -> None:
    model, images = Interval().eval(), torch.rand(50, 1, 1, 1)
    assert statistics_hash(adapt_batchnorm(model, images, sp.noise.Gaussian(0.3))) == statistics_hash(
        adapt_batchnorm(model, images, 0.3)
    )


def test_the_selection_of_uniform_noises_is_certified_in_l1() -> None:
    # at 0, width 1.5 says A with 2/3: scores 2 and 1; width 0.5 with 1: scores 1 and 0. Half of 2 - 1 is left
    model, certifier = Interval().eval(), unchanged((0.5, 1.5), rule="selection", family="uniform", n=100_000)
    certificates = sp.certify(model, at(0.0), certifier, seed=0)
    assert certificates.prediction[0] == 0
    assert certificates.norm == "l1" == certifier.norm
    assert 0.47 < certificates.radius[0] <= 0.5
    assert certifier.rederive(certificates) == pytest.approx(certificates.radius)
    for words in ("2 width p", "l1 norm", "uniform 0.5", "uniform 1.5"):
        assert words in certificates.guarantee
    # the truth: both scores are 2.5 - x and 0.5 + x beyond 0.5, and equal at 1
    rule = certifier.certified_classifier(_job(model))
    assert rule.answers(torch.cat([at(0.9)[0], at(1.1)[0]])).tolist() == [0, 1]
    assert rule.disproved_at(torch.cat([at(0.45)[0], at(1.3)[0]]), np.array([0, 0]), 1e-6).tolist() == [False, True]


def _shares(edges: np.ndarray, classes: np.ndarray, x: np.ndarray, width: float) -> np.ndarray:
    """Exact probabilities (2 x points) of two classes on a line, under uniform noise: overlaps of intervals."""
    low, high = np.maximum(edges[:-1], x[:, None] - width), np.minimum(edges[1:], x[:, None] + width)
    inside = np.maximum(high - low, 0) / (2 * width)
    return np.stack([inside[:, classes == one].sum(1) for one in (0, 1)])


def test_the_largest_radius_of_uniform_noises_is_disproved_and_the_selection_is_not() -> None:
    """Random classifiers on a line with exact probabilities; the nearest point of another answer is the truth."""
    generator, x = np.random.default_rng(0), np.linspace(-3, 3, 1201)
    noises = [sp.noise.Uniform(0.3), sp.noise.Uniform(1.5)]
    broken = {"selection": 0, "as-published": 0}
    for _ in range(100):
        edges = np.concatenate([[-9], np.sort(generator.uniform(-2.5, 2.5, 5)), [9]])
        shares = np.stack([_shares(edges, np.arange(6) % 2, x, noise.width) for noise in noises])
        scores = np.stack([score_of(noise, share) for noise, share in zip(noises, shares, strict=True)])
        best = scores.max(0)
        answers = {"selection": best.argmax(0)}
        radii = {"selection": np.abs(best[0] - best[1]) / 2}
        each = (scores[:, 0] - scores[:, 1]) / 2
        largest = np.abs(each).argmax(0), np.arange(len(x))
        answers["as-published"], radii["as-published"] = (each[largest] < 0).astype(int), np.abs(each[largest])
        for rule, count in broken.items():
            other = answers[rule][:, None] != answers[rule][None]
            nearest = np.where(other, np.abs(x[:, None] - x[None]), np.inf).min(1)
            broken[rule] = count + bool((nearest < radii[rule] - 1e-9).any())
    assert broken["selection"] == 0
    assert broken["as-published"] > 10


def test_families_that_can_be_used() -> None:
    assert unchanged((0.25,), family="uniform").title == "adapted uniform 0.25"
    assert unchanged((0.25,), family="rotation").norm == "angle"
    with pytest.raises(UsageError, match="noise on texts"):
        unchanged((0.5,), family="word-deletion")
    with pytest.raises(UsageError, match="rotation has none"):
        unchanged((0.25, 0.5), family="rotation", rule="selection")
    with pytest.raises(UsageError, match="gaussian"):
        unchanged((0.5,), family="gausian")


def test_the_noise_of_the_command_line_is_the_family() -> None:
    nothing: dict[str, dict[str, object]] = {"certifier": {}, "noise": {}}
    for told, sigmas, family in (
        ({"noise": "uniform:0.5"}, (0.5,), "uniform"),
        ({"noise": "rotation", "sigma": "0.1,0.2"}, (0.1, 0.2), "rotation"),
        ({"sigma": "0.3"}, (0.3,), "gaussian"),
    ):
        (made,) = make_certifiers("adapted-smoothing", told, nothing)
        assert isinstance(made, Adapted)
        assert (made.sigmas, made.family) == (sigmas, family)


def test_adapted_rotation_is_certified_as_the_plain_vote() -> None:
    domain = sp.load_domains("digits")["digits"]
    model = sp.build_model("cnn", domain, width=4).eval()
    images = Calibration.of(domain.subset(np.arange(100, 140)))
    some = domain.subset(np.arange(4))
    adapted = sp.certify(model, some, Adapted((0.2,), images, 0.0, family="rotation", n=200), seed=0)
    plain = sp.certify(model, some, sp.certifiers.RandomizedSmoothing("rotation:0.2", n=200), seed=0)
    assert np.array_equal(adapted.radius, plain.radius)
    assert adapted.norm == "angle"


# calibration images


def test_an_image_that_is_certified_may_not_calibrate() -> None:
    domain = sp.load_domains("digits")["digits"]
    model = sp.build_model("cnn", domain, width=4).eval()
    some = domain.subset(np.arange(20))
    with pytest.raises(UsageError, match="is certified and among the calibration images"):
        sp.certify(model, some, Adapted(0.25, Calibration.of(domain.subset(np.arange(10, 40))), n=100), seed=0)
    with pytest.raises(DataError, match="no calibration images"):
        sp.certify(model, some, Adapted(0.25, n=100), seed=0)
    with pytest.raises(ModelError, match="no BatchNorm"):
        sp.certify(
            sp.build_model("mlp", domain).eval(),
            some,
            Adapted(0.25, Calibration.of(torch.rand(9, 1, 8, 8)), n=100),
            seed=0,
        )


def test_the_statistics_are_named_in_the_certificate() -> None:
    domain = sp.load_domains("digits")["digits"]
    model = sp.build_model("cnn", domain, width=4).eval()
    images = Calibration.of(domain.subset(np.arange(100, 200)))
    certificates = sp.certify(model, domain.subset(np.arange(5)), Adapted(0.25, images, n=100), seed=0)
    expected = statistics_hash(adapt_batchnorm(model, images.inputs, 0.25))
    assert certificates.details["statistics"] == {"0.25": expected}
    assert expected in certificates.guarantee
    assert images.hash in certificates.guarantee
    assert certificates.classifier == "adapted"


@pytest.mark.slow
def test_one_sigma_of_several_is_chosen_on_calibration_images() -> None:
    domain = sp.load_domains("digits")["digits"]
    fit = sp.train(sp.build_model("cnn", domain, width=8), domain, sp.objectives.Gaussian(0.25), recipe={"steps": 60})
    images = Calibration.of(domain.subset(np.arange(100, 300)))
    some = domain.subset(np.arange(6))
    chosen = sp.certify(fit.model, some, Adapted((0.25, 4.0), images, n=200), seed=0)
    assert "(0.25,)" in chosen.details["certifier"]
    again = sp.certify(fit.model, some, Adapted((0.25, 4.0), images, n=200), seed=7)
    assert "(0.25,)" in again.details["certifier"]
    with pytest.raises(UsageError, match="needs their labels"):
        sp.certify(fit.model, some, Adapted((0.25, 4.0), Calibration.of(images.inputs), n=200), seed=0)


# the engine's promises hold for several models too


@pytest.mark.parametrize("rule", [pytest.param("selection", marks=pytest.mark.slow), "agreement"])
def test_order_parts_restarts_and_workers_change_nothing(rule: str, tmp_path: Path) -> None:
    domain = sp.load_domains("digits")["digits"]
    fit = sp.train(sp.build_model("cnn", domain, width=4), domain, sp.objectives.Gaussian(0.25), recipe={"steps": 30})
    images = Calibration.of(domain.subset(np.arange(200, 300)))
    certifier = Adapted((0.25, 0.5), images, n=300, rule=rule)
    some = domain.subset(np.arange(12))
    whole = sp.certify(fit.model, some, certifier, seed=0)
    backwards = sp.certify(fit.model, some.subset(np.arange(12)[::-1]), certifier, seed=0)
    assert np.array_equal(backwards.radius[::-1], whole.radius)
    part = sp.certify(fit.model, some.subset([3, 7]), certifier, seed=0)
    assert part.parts.tolist() == whole.parts[[3, 7]].tolist()
    journal = tmp_path / "a.journal"
    sp.certify(fit.model, some, certifier, journal=journal, seed=0)
    lines = journal.read_bytes().splitlines(keepends=True)
    for kept in (3, len(lines) // 4, len(lines) // 3, len(lines) // 2, len(lines) - 1):
        journal.write_bytes(b"".join(lines[:kept]))
        resumed = sp.certify(fit.model, some, certifier, journal=journal, seed=0)
        assert resumed.parts.tolist() == whole.parts.tolist()
    with always_in_workers():
        spread = sp.certify(fit.model, some, certifier, workers=2, seed=0)
    assert spread.parts.tolist() == whole.parts.tolist()


def _job(model: nn.Module) -> sp.certifiers.Job:
    domain = Domain.from_arrays("one", at(0.0)[0], [0], ["a", "b"])
    return sp.certifiers.Job(model, domain, 2, 0, Memory())
