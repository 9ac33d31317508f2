"""Threats, attacks on base and smoothed classifiers, the probe and the verb."""

import csv
import json
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.attacks import ATTACKS, Base, Smoothed, craft
from shiftproof.attacks.pgd import PGD
from shiftproof.cli.main import main
from shiftproof.domains import Domain
from shiftproof.errors import ConformanceError, ModelError, UnknownName, UsageError
from shiftproof.execution import always_in_workers
from shiftproof.perturbations import Threat
from shiftproof.perturbations.noise import NOISES, as_noise
from shiftproof.perturbations.threat import as_threat, inside, project, random_start, random_surface, size, steepest
from shiftproof.probes import PROBES
from shiftproof.rng import torch_generator
from shiftproof.runs import find_study, parse_study, run_study
from shiftproof.runs.estimate import estimate_study
from shiftproof.testing import check_attack

NORMS = ("l2", "linf", "l1")
DUAL = {"l2": 2.0, "linf": 1.0, "l1": math.inf}


def generator(*keys: str | int) -> torch.Generator:
    return torch_generator(0, "tests of attacks", *keys)


def linear(weights: Tensor, bias: float = 0.0) -> nn.Module:
    """Class 1 where w.x + b is above 0; the difference of the logits is w.x + b."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(len(weights), 2)).eval()
    with torch.no_grad():
        model[1].weight.copy_(torch.stack([-weights, weights]) / 2)
        model[1].bias.copy_(torch.tensor([-bias, bias]) / 2)
    return model


@pytest.fixture
def plane() -> tuple[nn.Module, Tensor, Domain, np.ndarray]:
    """A linear classifier, its weights, samples in the middle of the range that it gets right, their l2 distances."""
    weights = torch.randn(12, generator=generator("weights"))
    inputs = 0.35 + 0.3 * torch.rand(40, 3, 2, 2, generator=generator("inputs"))
    # the median is a sample, which would be on the plane itself
    bias = 1e-3 - float((inputs.flatten(1) @ weights).median())
    margins = inputs.flatten(1) @ weights + bias
    domain = Domain.from_arrays("plane", inputs, (margins > 0).long().numpy(), ["below", "above"])
    return linear(weights, bias), weights, domain, (margins.abs() / weights.norm()).numpy()


# ------------------------------------------------------------------------------------------------------- threats


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("linf:8/255", Threat("linf", 8 / 255)),
        ("l2:0.5", Threat("l2", 0.5)),
        (" l1 : 2 ", Threat("l1", 2)),
        ("linf:0", Threat("linf", 0.0)),
    ],
)
def test_threats_are_read_from_text(text: str, expected: Threat) -> None:
    assert Threat.parse(text) == as_threat(text) == as_threat(expected) == expected


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Threat.parse("lnf:0.1"), "unknown norm 'lnf'. Did you mean 'linf'?"),
        (lambda: Threat.parse("0.1"), "write a norm and a size, such as linf:8/255"),
        (lambda: Threat.parse("linf:big"), "eps is 'big'; it should be a number such as 0.03"),
        (lambda: Threat.parse("linf:1/0"), "eps is '1/0'"),
        (lambda: Threat.parse("l2:-1"), "eps is -1.0; it should be a finite number of at least 0"),
        (lambda: Threat("l2", math.nan), "eps is nan"),
        (lambda: Threat("l2", math.inf), "eps is inf"),
        (lambda: Threat("l2", True), "eps is True"),
        (lambda: Threat("edits", 2), "write it as the text 'edits:2', such as sp.attacks.WordEdits('edits:2')"),  # type: ignore[arg-type]
        (
            lambda: Threat("embedding-l2", 1.0),  # type: ignore[arg-type]
            "write it as the text 'embedding-l2:1.0', such as sp.attacks.EmbeddingPGD('embedding-l2:1.0')",
        ),
        (lambda: ATTACKS.create("pgd", {"threat": "edits:2"}), "'edits' is a change of text: write it as the text"),
        (lambda: as_threat(0.1), "the threat is 0.1; write one as 'linf:8/255'"),
        (lambda: ATTACKS.create("pgd", {"threat": "l3:1"}), "unknown norm 'l3'"),
        (lambda: ATTACKS.create("pgd"), "attack 'pgd' needs a value for 'threat'"),
        (lambda: ATTACKS.create("pgd", {"threat": "l2:1", "loss": "sum"}), "'ce', 'margin' or 'dlr'"),
        (
            lambda: PGD("l2:1", rule="stepest"),
            "rule of PGD is 'stepest'; it should be 'steepest', 'sign', 'normalised' or 'raw'",
        ),
        (lambda: PGD("l2:1", loss="sum"), "loss of PGD is 'sum'; it should be 'ce', 'margin' or 'dlr'"),
        (lambda: PGD("l2:1", step=0.0), "step of PGD is 0.0"),
        (lambda: PGD("l2:1", steps=0), "steps of PGD is 0"),
    ],
)
def test_mistakes_get_a_sentence(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert sentence in str(caught.value)


@pytest.mark.parametrize("norm", NORMS)
def test_projection_is_the_nearest_point_of_the_ball(norm: str) -> None:
    points = torch.randn(6, 3, 2, 2, generator=generator("project"))
    eps = torch.tensor([0.0, 0.1, 0.5, 1.0, 3.0, 100.0])
    near = project(points, norm, eps)
    assert inside(near, norm, eps).all()
    assert torch.equal(near[-1], points[-1])
    assert (near[0] == 0).all()
    outside = size(points, norm) > eps
    assert torch.allclose(size(near, norm)[outside], eps.double()[outside], atol=1e-6)
    # the nearest point of a convex set: no other point of it is on the far side
    others = random_start((500, 12), norm, 1.0, generator("others"))
    for point, found, radius in zip(points, near, eps, strict=True):
        gap = (point - found).flatten()
        assert ((others * radius - found.flatten()) @ gap).max() <= 1e-4
    assert torch.allclose(project(near, norm, eps), near, atol=1e-6)


def test_projection_on_the_l1_ball_by_hand() -> None:
    assert torch.allclose(project(torch.tensor([[3.0, -1.0, 0.5]]), "l1", 1.0), torch.tensor([[1.0, 0.0, 0.0]]))
    assert torch.allclose(project(torch.tensor([[1.0, -1.0, 0.25]]), "l1", 1.5), torch.tensor([[0.75, -0.75, 0.0]]))


@pytest.mark.parametrize("norm", NORMS)
def test_random_starts_fill_the_ball(norm: str) -> None:
    points = random_start((4000, 3), norm, torch.full((4000,), 2.0), generator("start"))
    sizes = size(points, norm)
    assert sizes.max() <= 2 + 1e-6
    # of a uniform point in three dimensions, an eighth is in the ball of half the radius
    assert float((sizes <= 1).double().mean()) == pytest.approx(1 / 8, abs=0.02)
    assert points.mean(0).abs().max() < 0.1
    surface = random_surface((100, 3), norm, 2.0, generator("surface"))
    assert torch.allclose(size(surface, norm), torch.tensor(2.0).double(), atol=1e-6)
    assert torch.equal(points, random_start((4000, 3), norm, 2.0, generator("start")))


@pytest.mark.parametrize("norm", NORMS)
def test_steepest_gains_the_dual_norm(norm: str) -> None:
    gradient = torch.randn(5, 3, 2, generator=generator("gradient"))
    gradient[2] *= 1e-30
    gradient[3] = 0
    step = steepest(gradient, norm)
    sizes, dual = size(step, norm), torch.linalg.vector_norm(gradient.double().flatten(1), DUAL[norm], dim=1)
    assert torch.allclose(sizes[[0, 1, 2, 4]], torch.ones(4).double(), atol=1e-6)
    assert (step[3] == 0).all()
    assert torch.allclose((step * gradient).double().flatten(1).sum(1), dual, rtol=1e-5, atol=0)


def test_a_threat_does_what_its_functions_do() -> None:
    threat, delta = Threat("l2", 0.5), torch.randn(4, 3, generator=generator("delta"))
    assert torch.equal(threat.project(delta), project(delta, "l2", 0.5))
    assert torch.equal(threat.steepest(delta), steepest(delta, "l2"))
    assert torch.equal(threat.size(delta), size(delta, "l2"))
    assert torch.equal(threat.random_start((2, 3), generator()), random_start((2, 3), "l2", 0.5, generator()))
    assert str(threat) == "l2 0.5"


# ------------------------------------------------------------------------------------------- attacks on one classifier


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", ["ce", "margin"])
@pytest.mark.parametrize("start", [True, False])
def test_the_worst_of_a_linear_model_is_found(norm: str, loss: str, start: bool) -> None:
    """O11: the worst margin is y(w.x + b) - eps |w|_q, with 1/p + 1/q = 1."""
    weights, x, eps = torch.tensor([1.0, -2.0, 0.5]), torch.tensor([[0.3, 0.6, 0.4]]), 0.1
    model, label = linear(weights, bias=0.1), torch.tensor([1])
    # a step of eps turns a random start into the worst direction faster than the default one
    pgd = PGD(Threat(norm, eps), steps=40, step=eps, loss=loss, random_start=start)
    worst = craft(Base(model), x, label, pgd, radii=torch.tensor([eps]), ids=["one"])
    expected = float(x[0] @ weights + 0.1 - eps * torch.linalg.vector_norm(weights, DUAL[norm]))
    assert float(worst[0] @ weights + 0.1) == pytest.approx(expected, abs=1e-5)


QUICK = {"apgd": {"steps": 30}, "square": {"queries": 1_500}, "ensemble": {"steps": 20, "targets": 2, "queries": 40}}


def _quick_enough(norm: str, name: str) -> Any:
    """Thousands of queries take a minute; the ensemble asks Square a few dozen in every run of the tests."""
    slow = name == "square"
    return pytest.param(name, norm, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize(
    ("name", "norm"),
    [_quick_enough(norm, entry.name) for norm in NORMS for entry in ATTACKS if "needs" not in entry.metadata],
)
def test_every_attack_keeps_its_promises(name: str, norm: str) -> None:
    options = {"threat": Threat(norm, 0.1), **QUICK.get(name, {})}
    check_attack(ATTACKS.create(name, options))


@pytest.mark.parametrize("options", [{"early_exit": True}, {"directions": 2}, {"clip": False}, {"loss": "margin"}])
def test_pgd_keeps_its_promises_with_options(options: dict[str, object]) -> None:
    check_attack(PGD("l2:0.1", **options))


def test_the_check_finds_attacks_that_do_not() -> None:
    with pytest.raises(ConformanceError, match="leaves .* of what the worst change"):
        check_attack(PGD("l2:0.1", rule="raw", random_start=False))

    class Outside(PGD):
        def run(self, victim, inputs, labels, eps, generators):
            return inputs + 0.2

    class Bright(PGD):
        def run(self, victim, inputs, labels, eps, generators):
            return inputs + eps.max() * inputs

    with pytest.raises(ConformanceError, match="0.1 is allowed"):
        check_attack(Outside("linf:0.1"))
    one, label, eps = torch.ones(1, 2), torch.tensor([1]), torch.tensor([0.1])
    with pytest.raises(ConformanceError, match=r"left \[0, 1\]"):
        craft(Base(linear(torch.ones(2))), one, label, Bright("linf:0.1"), radii=eps, ids="a")


@pytest.mark.parametrize("norm", NORMS)
def test_robust_accuracy_of_a_plane_is_known(norm: str, plane: tuple) -> None:
    model, weights, domain, distances = plane
    scale = float(weights.norm() / torch.linalg.vector_norm(weights, DUAL[norm]))
    budgets = [0.02, 0.005, 0.1, 0.0]
    # straight towards the plane: no sample within reach is missed
    results = sp.attack(model, domain, PGD(Threat(norm, 1.0), random_start=False), eps=budgets)
    for eps, result in zip(budgets, results, strict=True):
        assert result.threat == Threat(norm, eps)
        assert result.clean_accuracy == 1
        assert result.robust_accuracy == pytest.approx(float((distances * scale > eps).mean()), abs=1e-9)
        assert (result.distance <= eps * (1 + 1e-5) + 1e-7).all()
        changed = size(result.inputs - domain.tensors()[0], norm)
        assert np.allclose(result.distance, changed.numpy())
        assert (result.success == (result.predictions != domain.labels)).all()


def test_several_budgets_never_lose_an_example(plane: tuple) -> None:
    model, _, domain, _ = plane
    budgets = [0.01 * i for i in range(1, 8)]
    # few, poor steps from a random start: on its own, a larger ball may well fail where a smaller one did not
    for early in (False, True):
        weak = PGD("linf:1", steps=1, step=1e-3, early_exit=early)
        results = sp.attack(model, domain, weak, eps=budgets)
        lost = [set(one.ids[one.success]) for one in results]
        assert all(small <= large for small, large in pairwise(lost))
        assert lost[-1]


def test_early_exit_changes_examples_but_not_the_accuracy(plane: tuple) -> None:
    model, _, domain, _ = plane
    full = sp.attack(model, domain, PGD("linf:0.02"), eps=[0.01, 0.02])
    early = sp.attack(model, domain, PGD("linf:0.02", early_exit=True, directions=1), eps=[0.01, 0.02])
    for one, other in zip(full, early, strict=True):
        assert np.array_equal(one.success, other.success)
        assert other.distance[other.success].mean() < one.distance[one.success].mean()


def test_early_exit_ends_when_nothing_is_left(plane: tuple) -> None:
    model, _, domain, _ = plane
    assert sp.attack(model, domain, PGD("linf:0.3", early_exit=True, directions=2)).robust_accuracy == 0


def test_each_sample_has_its_own_radius(plane: tuple) -> None:
    model, _, domain, distances = plane
    inputs, labels = domain.tensors()
    for factor, flips in ((0.98, False), (1.02, True)):
        radii = torch.from_numpy(distances * factor).float()
        attacked = craft(Base(model), inputs, labels, PGD("l2:1", random_start=False), radii=radii, ids=domain.ids)
        assert inside(attacked - inputs, "l2", radii).all()
        far = distances > 1e-3
        assert ((Base(model).answers(attacked) != labels).numpy()[far] == flips).all()


def test_a_sample_that_is_wrong_already_is_left_alone(plane: tuple) -> None:
    model, _, domain, _ = plane
    inputs, labels = domain.tensors()
    labels[:5] = 1 - labels[:5]
    result = sp.attack(model, (inputs, labels), PGD("linf:0.001"))
    assert result.success[:5].all()
    assert (result.distance[:5] == 0).all()
    assert torch.equal(result.inputs[:5], inputs[:5])
    assert not result.overturned[:5].any()
    assert repr(result).startswith("AttackResult(linf 0.001 on the base classifier: 40 samples, 87.5% right before")


def test_workers_and_company_change_nothing(plane: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shiftproof.domains.domain.BLOCK_SAMPLES", 9)
    model, _, domain, _ = plane
    whole = sp.attack(model, domain, PGD("l2:0.05", directions=1))
    with always_in_workers():
        spread = sp.attack(model, domain.subset(np.arange(40)), PGD("l2:0.05", directions=1), workers=2)
    assert torch.allclose(whole.inputs, spread.inputs, atol=1e-6)
    few = sp.attack(model, domain.subset([30, 3]), PGD("l2:0.05", directions=1))
    assert torch.allclose(whole.inputs[[30, 3]], few.inputs, atol=1e-6)
    assert not torch.allclose(sp.attack(model, domain, PGD("l2:0.05"), seed=1).inputs, whole.inputs, atol=1e-4)
    assert len(sp.attack(model, domain, PGD("l2:0.05"), keep_inputs=False).inputs) == 0


def test_raw_steps_reach_little() -> None:
    """E2.9: |w| = 1 and a probability of .99: eight raw steps of an eighth of the radius go 2 % of the way at most."""
    weights = torch.tensor([0.6, 0.8])
    x, label, eps = torch.tensor([[0.5, 0.5]]), torch.tensor([1]), 0.1
    model = linear(weights, bias=math.log(99) - 0.7)
    reached = {}
    for rule in ("raw", "steepest"):
        pgd = PGD(Threat("l2", eps), steps=8, step=eps / 8, rule=rule, random_start=False)
        attacked = craft(Base(model), x, label, pgd, radii=torch.tensor([eps]), ids=["x"])
        reached[rule] = float(size(attacked - x, "l2")) / eps
    assert reached["raw"] < 0.02
    assert reached["steepest"] == pytest.approx(1, abs=1e-4)
    assert PGD("l2:0.5", steps=8, step=0.01).reach == pytest.approx(0.08)
    assert PGD("l2:0.5", steps=8, step=1.0).reach == PGD("l2:0.5").reach == 0.5


def test_a_very_sure_model_is_attacked_all_the_same(plane: tuple) -> None:
    model, _, domain, distances = plane
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1e3)
    result = sp.attack(model, domain, PGD("l2:0.2", random_start=False))
    assert result.robust_accuracy == pytest.approx(float((distances > 0.2).mean()))


def test_any_loss_can_be_maximised(plane: tuple) -> None:
    model, _, domain, _ = plane

    def minus_own(scores: Tensor, labels: Tensor) -> Tensor:
        return -scores.gather(1, labels[:, None])[:, 0]

    one = sp.attack(model, domain, PGD("linf:0.01", loss=minus_own))
    assert one.robust_accuracy == sp.attack(model, domain, PGD("linf:0.01")).robust_accuracy
    with pytest.raises(UsageError, match=r"the loss gives numbers of shape \(\)"):
        sp.attack(model, domain, PGD("linf:0.01", loss=lambda scores, labels: scores.sum()))


class Failing(nn.Module):
    """Raises when it has been asked a few times."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(12), nn.Dropout(), nn.Linear(12, 2))
        self.asked = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.asked += 1
        if self.asked > 4:
            raise RuntimeError("out of order")
        return self.layers(inputs)


def test_a_model_is_as_it_was_even_if_it_fails(plane: tuple) -> None:
    _, _, domain, _ = plane
    inputs, labels = domain.tensors()
    model = Failing().train()
    model.layers[1].eval()
    model.layers[3].bias.requires_grad_(False)
    modes = [module.training for module in model.modules()]
    state = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(RuntimeError, match="out of order"):
        sp.attack(model, (inputs, labels), PGD("linf:0.1"))
    assert [module.training for module in model.modules()] == modes
    assert [p.requires_grad for p in model.parameters()] == [True, True, True, False]
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())


def test_attacks_work_where_gradients_are_off(plane: tuple) -> None:
    model, _, domain, _ = plane
    expected = sp.attack(model, domain, PGD("linf:0.02")).robust_accuracy
    with torch.no_grad():
        assert sp.attack(model, domain, PGD("linf:0.02")).robust_accuracy == expected
    with torch.inference_mode():
        assert sp.attack(model, domain, PGD("linf:0.02")).robust_accuracy == expected


class Constant(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return torch.tensor([[0.0, 1.0]]).repeat(len(inputs), 1)


class NotANumber(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.flatten(1)[:, :2] * math.nan


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"model": Constant()}, ModelError, "no gradient with respect to its input"),
        ({"model": NotANumber()}, ModelError, "not numbers"),
        ({"model": nn.Sequential(nn.Flatten(), nn.Linear(12, 1))}, ModelError, "1 outputs, but the data has 2"),
        ({"model": nn.Linear(5, 2)}, ModelError, "does not take inputs of shape"),
        ({"model": "mlp"}, UsageError, "the model is str"),
        ({"attack": PGD}, UsageError, "it should be an object such as PGD"),
        ({"attack": "pgd"}, UsageError, "it should be an object such as PGD"),
        ({"eps": 8.0}, UsageError, r"eps is 8: images are in \[0, 1\]; did you mean 8/255?"),
        ({"eps": []}, UsageError, "no eps"),
        ({"eps": [0.1, -0.1]}, UsageError, "eps is -0.1"),
        ({"seed": -1}, UsageError, "the seed is -1"),
        ({"workers": 0}, UsageError, "workers is 0"),
        ({"smoothed": "gausian:1"}, UnknownName, "Did you mean 'gaussian'"),
        ({"smoothed": "gaussian:1", "votes": 0}, UsageError, "votes is 0"),
        ({"data": (torch.rand(2, 12) * 3, torch.zeros(2).long())}, sp.errors.DataError, "stated for"),
        ({"data": (torch.rand(0, 12), torch.zeros(0).long())}, UsageError, "no samples to attack"),
    ],
)
def test_what_can_not_be_attacked_is_refused(
    plane: tuple, change: dict[str, object], error: type[Exception], sentence: str
) -> None:
    model, _, domain, _ = plane
    arguments = {"model": model, "data": domain, "attack": PGD("linf:0.1"), **change}
    with pytest.raises(error, match=sentence):
        sp.attack(**arguments)


def test_craft_refuses_what_has_no_ball(plane: tuple) -> None:
    model, _, domain, _ = plane
    inputs, labels = domain.tensors()
    for radii, sentence in ((torch.ones(3), "do not match"), (torch.full((40,), -1.0), "radius is negative")):
        with pytest.raises(UsageError, match=sentence):
            craft(Base(model), inputs, labels, PGD("l2:1"), radii=radii, ids=domain.ids)
    with pytest.raises(UsageError, match="use clip=False"):
        craft(Base(model), 5 * inputs, labels, PGD("l2:1"), radii=torch.ones(40), ids=domain.ids)
    free = craft(Base(model), 5 * inputs, labels, PGD("l2:1", clip=False), radii=torch.ones(40), ids=domain.ids)
    assert inside(free - 5 * inputs, "l2", 1.001).all()


# ---------------------------------------------------------------------------------------------- smoothed classifiers


def test_a_smoothed_plane_falls_at_its_distance(plane: tuple) -> None:
    """Symmetric noise does not move a plane: the majority flips at the distance of the plane, but for its votes."""
    model, _, domain, distances = plane
    inputs, labels = domain.tensors()
    victim = Smoothed(model, as_noise("gaussian:0.25"), samples=8, votes=2000)
    far = distances > 0.05
    for factor, flips in ((0.75, False), (1.3, True)):
        radii = torch.from_numpy(distances * factor).float()
        attacked = craft(victim, inputs, labels, PGD("l2:1", random_start=False), radii=radii, ids=domain.ids)
        assert ((victim.answers(attacked) != labels).numpy()[far] == flips).mean() > 0.95


def test_scores_and_answers_see_different_noise_that_all_samples_share(plane: tuple) -> None:
    model, _, domain, _ = plane
    inputs, _ = domain.tensors()
    victim = Smoothed(model, as_noise("gaussian:0.25"), samples=4, votes=300)
    assert torch.allclose(victim.scores(inputs)[7:9], victim.scores(inputs[7:9]), atol=1e-5)
    assert torch.equal(victim.answers(inputs)[7:9], victim.answers(inputs[7:9]))
    assert torch.allclose(victim.scores(inputs).exp().sum(1), torch.ones(40), atol=1e-5)
    same, other = Smoothed(model, victim.noise, 4, 300), Smoothed(model, victim.noise, 4, 300, seed=1)
    assert torch.equal(same.scores(inputs), victim.scores(inputs))
    assert not torch.allclose(other.scores(inputs), victim.scores(inputs), atol=1e-5)


@pytest.mark.parametrize("name", [entry.name for entry in NOISES if entry.cls.kind == "image"])
def test_the_vote_under_every_noise_can_be_attacked(name: str) -> None:
    inputs, labels = torch.rand(3, 1, 6, 6, generator=generator(name)), torch.tensor([0, 1, 1])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2))
    noise = as_noise(f"{name}:0.2")
    result = sp.attack(model, (inputs, labels), PGD("linf:0.05", steps=3), smoothed=noise, samples=3, votes=20)
    assert result.classifier == "smoothed"
    assert result.robust_accuracy <= result.clean_accuracy
    assert model.training


def test_the_vote_under_word_deletion_can_be_attacked() -> None:
    domain = sp.load_domains("signed-reviews")["e=0.1"].subset(range(3))
    model = sp.build_model("text-cnn", domain, seed=0, width=4, filters=4, vocabulary=64)
    attack = sp.attacks.WordEdits("edits:1", positions=4, tried=1, words=2)  # type: ignore[arg-type]
    result = sp.attack(model, domain, attack, smoothed=sp.noise.WordDeletion(0.5), samples=3, votes=20)
    assert result.classifier == "smoothed"
    assert result.robust_accuracy <= result.clean_accuracy
    assert (result.distance <= 1).all()


# ------------------------------------------------------------------------------------------------- probe and verb

STUDY = """
data: colored-digits
target: e=0.9
models:
  colour: {model: {name: mlp, width: 32}, training: {steps: 40, evaluate_every: 20}}
probes:
  - clean
  - {name: attack, attack: {name: pgd, threat: "linf:0.25", steps: 5}}
  - {name: attack, attack: {threat: "l2:0.5", steps: 2}, smoothed: "gaussian:0.25", samples: 2, votes: 20}
"""


def test_attacks_are_evidence(tmp_path: Path) -> None:
    study = parse_study(STUDY, "attacked", "attacked")
    run = run_study(study, tmp_path / "run")
    clean, rows = run.evidence.where(probe="clean"), run.evidence.where(probe="attack", classifier="base")
    assert clean.column("id").tolist() == rows.column("id").tolist()
    assert not (rows.column("correct") & ~clean.column("correct")).any()
    assert rows.column("correct").sum() < clean.column("correct").sum()
    assert rows.distinct("norm") == ["linf"]
    assert rows.distinct("eps") == [0.25]
    assert (rows.column("distance") <= 0.25 * (1 + 1e-5) + 1e-7).all()
    assert not any("radius" in one for one in rows)
    assert clean.distinct("eps") == [None]
    voted = run.evidence.where(probe="attack", classifier="smoothed")
    assert voted.distinct("noise") == ["gaussian 0.25"]
    # a vote is also asked as it is
    assert set(voted.distinct("eps")) == {0.0, 0.5}
    assert len(voted) == 2 * len(rows)
    assert run.export()[0].is_file()


def test_the_probe_gives_what_the_call_gives(plane: tuple, tmp_path: Path) -> None:
    from shiftproof.evidence import EvidenceStore
    from shiftproof.probes import run_probe

    model, _, domain, _ = plane
    probe = PROBES.create("attack", {"attack": {"threat": "l2:0.05"}})
    assert probe.title == "attack, l2 0.05"
    (rows,) = run_probe(probe, model, domain, EvidenceStore(tmp_path), seed=3)
    called = sp.attack(model, domain, PGD("l2:0.05"), seed=3)
    assert np.array_equal(rows["prediction"], called.predictions)
    assert np.allclose(rows["distance"], called.distance)


def test_attacks_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shiftproof.runs.estimate.PROBE_SECONDS", 0.1)
    estimate = estimate_study(parse_study(STUDY, "attacked", "attacked"))
    costs = {cost.stage: cost.forward_passes for cost in estimate.costs}
    assert costs["attack, linf 0.25"] == costs["clean"] * (6 + 2)
    assert costs["attack, l2 0.5 on gaussian 0.25"] == costs["clean"] * (3 * 2 + 40)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("linf:0.25", "linf:8"), "did you mean 8/255?"),
        (("linf:0.25", "lnf:0.05"), "unknown norm 'lnf'"),
        (("name: pgd", "name: pdg"), "unknown attack 'pdg'. Did you mean 'pgd'?"),
        (("steps: 5", "stps: 5"), "Did you mean 'steps'?"),
    ],
)
def test_mistakes_in_a_study_get_its_line(change: tuple[str, str], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(STUDY.replace(*change))
    with pytest.raises(sp.errors.StudyError) as caught:
        find_study(str(tmp_path / "s.yaml"))
    assert sentence in str(caught.value)
    assert "line 8" in str(caught.value)


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def a_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "model"
    torch.set_num_threads(1)
    fast = ["--set", "training.steps=40", "--set", "training.evaluate_every=20", "--set", "model.width=32"]
    arguments = ["train", "--data", "colored-digits", "--target", "e=0.9", "--model", "mlp", *fast, "--out", folder]
    with pytest.raises(SystemExit):
        main([str(argument) for argument in arguments])
    return folder


def verb(model: Path, *more: object) -> list[object]:
    few = ["--limit", 20, "--workers", 1, "--steps", 5]
    return ["attack", "--data", "colored-digits", "--model", f"file:{model}", *few, "--threat", "linf:8/255", *more]


def test_the_verb_writes_a_table_and_a_picture(run: Call, a_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "a"
    code, text, err = run(*verb(a_model, "--eps", "0.3,8/255", "--out", out, "--json"))
    assert code == 0, err
    result = json.loads(text.splitlines()[-1])
    assert [one["domain"] for one in result["results"]] == ["e=0.1", "e=0.2", "e=0.9"]
    assert list(result["accuracy"]) == ["0.0313725", "0.3"]
    for one in result["results"]:
        assert one["accuracy"]["0.3"] <= one["accuracy"]["0.0313725"] <= one["clean_accuracy"]
        low, high = one["interval"]["0.3"]
        assert low <= one["accuracy"]["0.3"] <= high
    found = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert {"run.json", "report.html", "tables/attacked.csv", "figures/attacked.svg", "figures/attacked.png"} <= found
    rows = list(csv.DictReader((out / "tables" / "attacked.csv").read_text().splitlines()))
    assert {row["metric"] for row in rows} == {"clean accuracy", "accuracy", "median distance"}
    # another question does not overwrite the answer; the same one may be asked again
    code, text, err = run(*verb(a_model, "--eps", "0.1", "--out", out))
    assert (code, text) == (1, "")
    assert "holds a run with other probes; choose another --out" in err
    assert run(*verb(a_model, "--eps", "0.3,8/255", "--out", out))[0] == 0


def test_the_verb_says_what_it_measured_and_what_weakens_it(run: Call, a_model: Path) -> None:
    code, out, _ = run(
        *verb(a_model, "--domain", "e=0.9", "--set", "attack.step=0.001", "--set", "attack.rule=raw", "--verbose")
    )
    assert code == 0
    for text in ("20 samples", "unseen by the model", "base classifier", "reach 0.005", "raw gradients", "Clopper"):
        assert text in out
    assert "runs/attack-" in out
    assert "attacked.svg" not in out


def test_the_verb_attacks_the_vote(run: Call, a_model: Path) -> None:
    more = ["--smoothed", "gaussian:0.25", "--threat", "l2:0.5", "--domain", "e=0.1", "--limit", 5, "--json"]
    code, out, err = run(*verb(a_model, *more))
    assert code == 0, err
    assert json.loads(out)["classifier"] == "smoothed"
    assert json.loads(out)["norm"] == "l2"


def test_attacks_are_listed(run: Call) -> None:
    assert {entry["name"] for entry in json.loads(run("ls", "attacks", "--json")[1])["attacks"]} >= {"pgd"}


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (["--threat", "linf:8"], "eps is 8: images are in [0, 1]; did you mean 8/255?"),
        (["--eps", "0.1,8"], "did you mean 8/255?"),
        (["--eps", "0.1,much"], "eps is 'much'"),
        (["--eps", "-0.1"], "eps is -0.1"),
        (["--threat", "0.1"], "write a norm and a size"),
        (["--attack", "pdg"], "Did you mean 'pgd'?"),
        (["--steps", "0"], "steps"),
        (["--set", "attack.rule=best"], "rule of attack 'pgd' is 'best'"),
        (["--set", "noise.k=3"], "unknown key of --set 'noise'"),
        (["--set", "attack=pgd"], "should name an option"),
        (["--smoothed", "gausian:0.1"], "Did you mean 'gaussian'?"),
        (["--domain", "e=0.7"], "e=0.7"),
        (["--data", "digits"], ""),
        (["--model", "mlp"], "without training"),
        (["--model", "file:nowhere"], "nowhere"),
    ],
)
def test_the_verb_answers_a_mistake_with_a_sentence(
    run: Call, a_model: Path, tmp_path: Path, bad: list[str], sentence: str
) -> None:
    code, out, err = run(*verb(a_model, "--out", tmp_path / "a", *bad))
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert not (tmp_path / "a").exists()
