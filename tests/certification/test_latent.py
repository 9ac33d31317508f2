"""Certificates in the representation: margins, noise on z, and what carries over to another input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.certification.bounds.margins import margins
from shiftproof.certification.certificates import Votes, certified_rows
from shiftproof.certification.certifier import Memory
from shiftproof.certification.certifiers.latent_smoothing import latent_votes, logit_noise
from shiftproof.certification.sampling.budget import budget
from shiftproof.domains import Domain
from shiftproof.errors import ModelError, UsageError
from shiftproof.evidence import Evidence, EvidenceStore
from shiftproof.evidence.checks import counterfactual_findings
from shiftproof.probes import run_probe
from shiftproof.probes.counterfactual import Counterfactual

Margin, Smoothing, Lipschitz = (
    sp.certifiers.LatentMargin,
    sp.certifiers.LatentSmoothing,
    sp.certifiers.LipschitzMargin,
)


class Absolute(nn.Module):
    """|x|, which is 1-Lipschitz."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.flatten(1).abs()

    def lipschitz(self, norm: str, shape: tuple[int, ...]) -> float:
        return 1.0


def linear_head(weight: np.ndarray, bias: np.ndarray | None = None) -> nn.Linear:
    head = nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(weight))
        head.bias.copy_(torch.zeros(len(weight)) if bias is None else torch.from_numpy(bias))
    return head


def flat(weight: np.ndarray, bias: np.ndarray | None = None) -> sp.SplitModel:
    return sp.SplitModel(nn.Flatten(), linear_head(weight, bias)).eval()


def points(count: int, size: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(0, 256, (count, 1, 1, size), generator=generator).float() / 255
    return inputs, torch.zeros(count, dtype=torch.long)


# O2, O16


@pytest.mark.parametrize(
    ("weight", "z", "label", "distance"),
    [
        ([[1.0, 0.0], [0.0, 1.0]], [0.9, 0.3], 0, 0.4242640687),  # O2, K = 2
        ([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [2.0, 1.0], 0, 0.7071067812),  # O16: the nearest boundary
    ],
)
def test_the_margin_is_the_distance_to_the_nearest_boundary(
    weight: list[list[float]], z: list[float], label: int, distance: float
) -> None:
    matrix, point = np.array(weight), np.array([z])
    winner, margin = margins(point @ matrix.T, matrix, "l2")
    assert winner[0] == label
    assert margin[0] == pytest.approx(distance, abs=1e-9)
    # brute force: no direction of that length reaches another class, and one slightly longer does
    angles = np.linspace(0, 2 * np.pi, 3_601)
    circle = np.stack([np.cos(angles), np.sin(angles)], 1)
    assert ((point + (margin[0] - 1e-9) * circle) @ matrix.T).argmax(1).tolist() == [label] * len(circle)
    assert ((point + (margin[0] + 1e-4) * circle) @ matrix.T).argmax(1).tolist() != [label] * len(circle)


@pytest.mark.parametrize(("norm_", "order"), [("l2", 2), ("linf", np.inf), ("l1", 1)])
def test_the_margin_holds_in_every_norm(norm_: str, order: float) -> None:
    generator = np.random.default_rng(0)
    weight, z = generator.standard_normal((4, 6)), generator.standard_normal((50, 6))
    winner, margin = margins(z @ weight.T, weight, norm_)
    moves = generator.standard_normal((400, 50, 6))
    moves *= (margin / np.linalg.norm(moves, order, axis=2))[:, :, None]
    assert (((z + moves * (1 - 1e-9)) @ weight.T).argmax(2) == winner).all()
    # and it is exact: the worst direction against the nearest class reaches the boundary
    gaps = (z @ weight.T)[np.arange(50), winner][:, None] - z @ weight.T
    dual = {"l2": 2, "linf": 1, "l1": np.inf}[norm_]
    slopes = np.linalg.norm(weight[winner][:, None] - weight[None], dual, axis=2)
    slopes[np.arange(50), winner] = np.nan
    assert np.allclose(margin, np.nanmin(gaps / slopes, axis=1))


def test_classes_with_the_same_weights_never_change_places() -> None:
    weight = np.array([[1.0, 0.0], [1.0, 0.0]])
    certificates = sp.certify(
        flat(weight, np.array([0.5, 0.0])), (torch.rand(2, 1, 1, 2), torch.zeros(2).long()), Margin()
    )
    # as far as two inputs can be apart
    assert np.allclose(certificates.radius, np.sqrt(2))
    tied = sp.certify(flat(weight), (torch.rand(2, 1, 1, 2), torch.zeros(2).long()), Margin())
    assert (tied.prediction == -1).all()


def test_two_classes_are_in_closed_form_whatever_the_noise() -> None:
    model = flat(np.random.default_rng(1).standard_normal((2, 8)))
    exact = sp.certify(model, points(20), Margin())
    for sigma in (0.12, 0.25, 1.0):
        smoothed = sp.certify(model, points(20), Smoothing(sigma, n=10), seed=0)
        assert np.allclose(smoothed.radius, exact.radius, atol=1e-5)
        assert smoothed.alpha == 0
        assert (smoothed.bound == "exact").all()


def test_noise_in_k_dimensions_has_the_law_of_noise_in_all() -> None:
    generator = np.random.default_rng(2)
    weight, z = generator.standard_normal((5, 16)), generator.standard_normal(16)
    n, sigma = 200_000, 0.3
    few = latent_votes((z @ weight.T)[None], logit_noise(weight, sigma, n, generator))[0] / n
    many = np.bincount(((z + sigma * generator.standard_normal((n, 16))) @ weight.T).argmax(1), minlength=5) / n
    assert np.abs(few - many).max() < 5 * np.sqrt(0.25 / n) * np.sqrt(2)
    covariance = np.cov(logit_noise(weight, sigma, n, generator).T)
    assert np.allclose(covariance, sigma**2 * weight @ weight.T, atol=0.05)


def _exceeding(repetitions: int, alpha: float) -> int:
    """How often a radius by votes is larger than the margin, with fresh noise each time."""
    generator = np.random.default_rng(3)
    sigma, n, exceeded = 0.5, 400, 0
    for _ in range(repetitions):
        weight, z = generator.standard_normal((10, 16)), 1.5 * generator.standard_normal(16)
        logits = (z @ weight.T)[None]
        winner, margin = margins(logits, weight, "l2")
        counts = latent_votes(logits, logit_noise(weight, sigma, n, generator))
        count = counts[0, winner[0]]
        others = counts.copy()
        others[0, winner[0]] = -1
        nothing = np.zeros(1)
        votes = Votes(
            winner, nothing.astype(bool), np.array([count]), others.argmax(1), others.max(1), np.array([n]), nothing
        )
        levels = budget(alpha, 10, runner_up=False, stops_early=False)
        rows = certified_rows(sp.noise.Gaussian(sigma), votes, n, levels)
        exceeded += int(rows["radius"][0] > margin[0])
    return exceeded


def test_without_the_runner_up_noise_exceeds_the_margin_no_more_often_than_alpha() -> None:
    alpha, repetitions = 0.05, 1_500
    assert _exceeding(repetitions, alpha) <= binom.ppf(1 - 1e-6, repetitions, alpha)


def test_with_the_runner_up_it_speaks_of_another_classifier_and_may_exceed_it() -> None:
    """Two classes that share one side of the head: each alone is unlikely, together they are not."""
    model = flat(np.array([[1.0, 0.0], [-1.0, 0.01], [-1.0, -0.01]]))
    here = (torch.tensor([0.3, 0.0]).view(1, 1, 1, 2), torch.zeros(1, dtype=torch.long))
    margin = sp.certify(model, here, Margin()).radius[0]
    smoothed, bounded = (
        sp.certify(model, here, Smoothing(1.0, n=20_000, runner_up=own), seed=0) for own in (False, True)
    )
    assert smoothed.radius[0] < margin < 0.31
    assert bounded.radius[0] > 0.5
    # it holds for the smoothed head all the same, which the head itself does not follow there
    there = torch.tensor([-0.2, 0.0]).view(1, 1, 1, 2)
    classifier = Smoothing(1.0).certified_classifier(sp.certifiers.Job(model, _one(there), 3, 0, Memory()))
    assert classifier.answers(there).tolist() == [0]
    assert model(there).argmax(1).tolist() != [0]


# E1.1: noise on the input is another classifier


def test_the_latent_radius_is_not_one_for_noise_on_the_input() -> None:
    model = sp.SplitModel(Absolute(), linear_head(np.array([[0.0], [1.0]]), np.array([0.0, -0.5]))).eval()
    here = (torch.zeros(1, 1, 1, 1), torch.zeros(1, dtype=torch.long))
    latent = sp.certify(model, here, Smoothing(0.5), seed=0)
    assert latent.prediction[0] == 0
    assert latent.radius[0] == pytest.approx(0.5, abs=1e-5)
    # the latent classifier keeps its promise at 0.49 ...
    assert norm.cdf((0.5 - 0.49) / 0.5) == pytest.approx(0.508, abs=1e-3)
    # ... and the one with noise on the input, which GLEAN defines, does not: it flips there
    there = (torch.full((1, 1, 1, 1), 0.49), torch.zeros(1, dtype=torch.long))
    input_noise = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.5), n=20_000)
    at_zero, moved = sp.certify(model, here, input_noise, seed=0), sp.certify(model, there, input_noise, seed=0)
    assert moved.prediction[0] == 1
    assert at_zero.prediction[0] == 0
    assert at_zero.radius[0] < 0.25
    assert at_zero.count[0] / 20_000 == pytest.approx(0.683, abs=0.02)
    assert moved.count[0] / 20_000 == pytest.approx(1 - 0.484, abs=0.02)


# constants


def test_the_constant_of_the_encoder_divides_the_radius() -> None:
    weight = np.random.default_rng(4).standard_normal((3, 8))
    inputs, labels = points(10)
    plain = sp.certify(flat(weight), (inputs, labels), Margin())
    body = nn.Sequential(nn.Flatten(), nn.Linear(8, 8, bias=False))
    with torch.no_grad():
        body[1].weight.copy_(10 * torch.eye(8))
    steep = sp.certify(sp.SplitModel(body, linear_head(weight / 10)).eval(), (inputs, labels), Margin())
    assert steep.constant == pytest.approx(10)
    assert np.allclose(steep.radius, plain.radius, rtol=1e-4)
    normalised = sp.SplitModel(nn.Sequential(sp.Normalized(nn.Flatten(), [0.0], [0.25])), linear_head(weight)).eval()
    assert sp.certify(normalised, (inputs, labels), Margin()).constant == pytest.approx(4)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(8, 3)), "it is not a plain SplitModel"),
        (
            sp.SplitModel(nn.Flatten(), nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3))),
            "head is not a plain linear layer",
        ),
        (sp.SplitModel(nn.Sequential(nn.Flatten(), nn.GELU()), nn.Linear(8, 3)), "GELU"),
    ],
    ids=["not split", "deep head", "unknown layer"],
)
def test_what_has_no_constant_is_refused(model: nn.Module, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        sp.certify(model.eval(), points(3), Margin())


@pytest.mark.bf16
def test_margins_are_not_computed_in_bf16() -> None:
    with pytest.raises(UsageError, match="f32, not in bf16"):
        sp.certify(flat(np.eye(8)[:3]), points(3), Margin(), precision="bf16")


@pytest.mark.parametrize("norm_", ["l2", "linf", "l1"])
def test_a_network_without_a_split_has_a_margin_too(norm_: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).eval()
    certificates = sp.certify(model, points(30), Lipschitz(norm_), seed=0)
    assert certificates.norm == norm_
    assert certificates.classifier == "base"
    attacked = sp.attack(
        model,
        (points(30)[0], torch.from_numpy(certificates.chosen)),
        sp.attacks.PGD(sp.Threat(norm_, float(certificates.radius.min()) * 0.999)),
    )
    assert attacked.robust_accuracy == 1
    split = sp.SplitModel(model[:3], model[3]).eval()
    assert (sp.certify(split, points(30), Lipschitz(norm_), seed=0).radius >= certificates.radius - 1e-9).all()


# E1.3: what carries over to another input


def test_what_is_left_of_a_radius_elsewhere_holds_there() -> None:
    generator = np.random.default_rng(5)
    weight = generator.standard_normal((4, 6))
    here = generator.standard_normal((200, 6))
    there = here + 0.2 * generator.standard_normal((200, 6))
    winner, margin = margins(here @ weight.T, weight, "l2")
    promised = sp.certifiers.transferred_radius(margin, np.linalg.norm(here - there, axis=1))
    other, actual = margins(there @ weight.T, weight, "l2")
    held = promised > 0
    assert held.any()
    assert (other == winner)[held].all()
    assert (actual >= promised - 1e-9)[held].all()
    assert sp.certifiers.transferred_radius(0.5, 0.6) == 0
    assert sp.certifiers.transferred_radius(0.5, 0.6, constant=3) == pytest.approx(0.3)


def test_pairs_that_differ_in_colour_alone() -> None:
    domains = sp.load_domains("colored-digits")
    domain = domains["e=0.9"]
    inputs, _ = domain.take([0, 1])
    assert torch.equal(domain.counterfactual(inputs)[:, 0], inputs[:, 1])
    fit = sp.train(sp.build_model("mlp-cayley", domains, width=32), domains, sp.objectives.ERM(), recipe={"steps": 30})
    with pytest.raises(sp.errors.DataError, match="does not know how its samples would look"):
        _rows(Counterfactual(), fit.model, Domain.from_arrays("x", inputs, [0, 1], ["a", "b"]))
    rows = _rows(Counterfactual(), fit.model, domain)
    assert (rows.column("distance") > 0).all()
    (finding,) = counterfactual_findings(rows)
    # it holds, and says that colour is what this model goes by
    assert (finding.code, finding.level) == ("transfer-holds", "warn")


def _one(inputs: Tensor) -> Domain:
    return Domain.from_arrays("one", inputs.clamp(0, 1), [0], ["a", "b", "c"])


def _rows(probe: Counterfactual, model: nn.Module, domain: Domain) -> Evidence:
    return run_probe(probe, model, domain, EvidenceStore(Path("evidence")), progress="off")


# what computes something else than its class says


class Cosine(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        return nn.functional.linear(nn.functional.normalize(inputs, dim=1), nn.functional.normalize(self.weight, dim=1))


class OtherSplit(sp.SplitModel):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs).flip(1)


def hooked() -> sp.SplitModel:
    model = flat(np.eye(8)[:2])
    model.head.register_forward_hook(lambda _m, _i, outputs: outputs * torch.tensor([1.0, 10.0]))
    return model


def patched() -> sp.SplitModel:
    identity = nn.Identity()
    identity.forward = lambda inputs: 10 * inputs  # type: ignore[method-assign]
    return sp.SplitModel(nn.Sequential(nn.Flatten(), identity), nn.Linear(8, 2)).eval()


@pytest.mark.parametrize(
    "model",
    [
        sp.SplitModel(nn.Flatten(), Cosine(8, 2)).eval(),
        OtherSplit(nn.Flatten(), nn.Linear(8, 2)).eval(),
        hooked(),
        patched(),
    ],
    ids=["subclass of a head", "subclass of the split", "hook", "own forward"],
)
@pytest.mark.parametrize("certifier", [Margin(), Smoothing(0.1, n=100), Lipschitz(), sp.certifiers.MedianSmoothing()])
def test_what_is_not_what_it_looks_like_is_refused(model: nn.Module, certifier: sp.certifiers.Certifier) -> None:
    if certifier.classifier == "median" and isinstance(model, OtherSplit):
        pytest.skip("the median of representations asks encoder and head themselves")
    if certifier.classifier == "median" and not isinstance(model.head, Cosine) and not model.head._forward_hooks:
        pytest.skip("a patched encoder is sampled as it is")
    with pytest.raises(ModelError):
        sp.certify(model, points(3), certifier, seed=0)


def test_channels_that_are_repeated_have_another_constant() -> None:
    model = sp.SplitModel(sp.Normalized(nn.Flatten(), [0.5] * 3, [1.0] * 3), nn.Linear(24, 2)).eval()
    with pytest.raises(ModelError, match="would repeat an image"):
        sp.certify(model, points(3), Margin())


def test_a_model_of_float64_is_refused() -> None:
    with pytest.raises(ModelError, match="float32"):
        sp.certify(flat(np.eye(8)[:2]).double(), points(3), Margin())


# rounding


def test_rounding_in_the_head_is_bounded() -> None:
    head = linear_head(np.array([[0.0] * 4, [1.0, 0, 0, 0]]), np.full(2, 2.0**24))
    model = sp.SplitModel(nn.Flatten(), head).eval()
    inputs = torch.tensor([0.9, 0.0, 0.0, 0.0]).view(1, 1, 1, 4)
    assert model(inputs).argmax(1).item() == 0
    assert sp.certify(model, (inputs, torch.ones(1).long()), Margin()).prediction[0] == -1


def test_rounding_that_samples_do_not_show_is_allowed_for() -> None:
    """Black and white images pass a large bias without rounding; what lies between them does not."""
    first, second = (linear_head(np.eye(4), np.full(4, bias)) for bias in (2.0**23, -(2.0**23)))
    head = linear_head(np.array([[0.0] * 4, [1.0, 0, 0, 0]]), np.array([0.2, 0.0]))
    model = sp.SplitModel(nn.Sequential(nn.Flatten(), first, second), head).eval()
    inputs = torch.tensor([1.0, 0.0, 1.0, 0.0]).view(1, 1, 1, 4)
    assert model(inputs).argmax(1).item() == 1
    assert sp.certify(model, (inputs, torch.ones(1).long()), Margin()).prediction[0] == -1


def test_an_encoder_that_moves_nothing_is_never_moved() -> None:
    body = nn.Sequential(nn.Flatten(), linear_head(np.zeros((4, 8)), np.ones(4)))
    certificates = sp.certify(
        sp.SplitModel(body, linear_head(np.eye(4)[:2], np.array([1.0, 0.0]))).eval(), points(3), Margin()
    )
    assert np.allclose(certificates.radius, np.sqrt(8))
    assert np.allclose(Margin().rederive(certificates), certificates.radius)


def test_for_two_classes_smoothing_claims_no_more_than_the_margin() -> None:
    """Large biases make float32 round in the head; both take that off."""
    model = flat(np.random.default_rng(6).standard_normal((2, 8)), np.full(2, 1_000.0))
    margin, smoothed = (sp.certify(model, points(30), one, seed=0) for one in (Margin(), Smoothing(0.25)))
    assert np.array_equal(margin.radius, smoothed.radius)
