"""Attacks in l1: the ball cut with [0, 1], pixels that can't move, and what peers' attacks leave."""

import numpy as np
import pytest
import torch
from scipy.optimize import LinearConstraint, linprog, minimize
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.attacks import Base, craft
from shiftproof.attacks.apgd import APGD
from shiftproof.attacks.ascent import ascend
from shiftproof.attacks.attack import Attack
from shiftproof.attacks.ensemble import Ensemble
from shiftproof.attacks.pgd import PGD
from shiftproof.attacks.sparse_apgd import stages
from shiftproof.attacks.square import Square
from shiftproof.domains import Domain, Domains
from shiftproof.perturbations import Threat
from shiftproof.perturbations.l1 import project_in_box, sparse_direction, worst_linear_change
from shiftproof.perturbations.threat import inside
from shiftproof.rng import torch_generator
from shiftproof.runs.efforts import EFFORTS, _attack


def generator(*keys: str | int) -> torch.Generator:
    return torch_generator(0, "tests of attacks in l1", *keys)


def saturated(count: int, numbers: int) -> Tensor:
    """Points of which about half of the numbers are 0 or 1."""
    points = torch.rand(count, numbers, generator=generator("points"), dtype=torch.float64)
    ends = torch.rand(count, numbers, generator=generator("ends"))
    return torch.where(ends < 0.3, 0.0, torch.where(ends < 0.5, 1.0, points))


# ------------------------------------------------------------------------------------------------------ projection


@pytest.mark.parametrize("scale", [0.05, 0.5, 5.0])
def test_projection_on_ball_and_box_is_what_an_optimiser_finds(scale: float) -> None:
    inputs, eps = saturated(12, 5), torch.linspace(0.05, 3, 12, dtype=torch.float64)
    delta = scale * torch.randn(12, 5, generator=generator("delta", str(scale)), dtype=torch.float64)
    found = project_in_box(delta, inputs, eps)
    for row in range(12):
        x, y = inputs[row].numpy(), delta[row].numpy()
        # up and down apart, so that the norm is linear: |d| = up + down
        bounds = [(0, 1 - v) for v in x] + [(0, v) for v in x]
        limit = LinearConstraint(np.ones(10), ub=float(eps[row]))
        best = minimize(
            lambda z, y=y: float(((z[:5] - z[5:] - y) ** 2).sum()),
            np.zeros(10),
            jac=lambda z, y=y: np.concatenate([2 * (z[:5] - z[5:] - y), -2 * (z[:5] - z[5:] - y)]),
            bounds=bounds,
            constraints=[limit],
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert np.allclose(found[row].numpy(), best.x[:5] - best.x[5:], atol=1e-5)


def test_projection_on_ball_and_box_keeps_both_for_images_of_any_precision() -> None:
    inputs = saturated(40, 300).float().reshape(40, 3, 10, 10)
    delta = 2 * torch.randn(40, 3, 10, 10, generator=generator("images"))
    for eps in (0.0, 0.1, 3.0, 1e4):
        found = project_in_box(delta, inputs, eps)
        assert inside(found, "l1", eps).all()
        assert (inputs + found >= -1e-6).all()
        assert (inputs + found <= 1 + 1e-6).all()
        assert torch.allclose(project_in_box(found, inputs, eps), found, atol=1e-6)
    # a ball that holds everything leaves the range alone to decide
    assert torch.allclose(found, (inputs + delta).clamp(0, 1) - inputs, atol=1e-6)
    assert project_in_box(delta[:0], inputs[:0], 1.0).shape == (0, 3, 10, 10)


def test_the_worst_linear_change_is_what_a_linear_program_finds() -> None:
    inputs, eps = saturated(10, 6), torch.linspace(0.1, 4, 10, dtype=torch.float64)
    weights = torch.randn(10, 6, generator=generator("weights"), dtype=torch.float64)
    gains = (weights * worst_linear_change(weights, inputs, eps)).sum(1)
    for row in range(10):
        x, w = inputs[row].numpy(), weights[row].numpy()
        bounds = [(0, 1 - v) for v in x] + [(0, v) for v in x]
        best = linprog(np.concatenate([-w, w]), A_ub=np.ones((1, 12)), b_ub=[float(eps[row])], bounds=bounds)
        assert float(gains[row]) == pytest.approx(-best.fun, abs=1e-8)


def test_numbers_that_can_not_move_are_left_out() -> None:
    gradient = torch.tensor([[5.0, -4.0, 3.0, -2.0], [0.0, 0.0, 0.0, 0.0]])
    points = torch.tensor([[1.0, 0.0, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]])
    expected = torch.tensor([[0.0, 0.0, 0.5, -0.5], [0.0, 0.0, 0.0, 0.0]])
    assert torch.equal(sparse_direction(gradient, torch.tensor([2, 2]), points), expected)
    assert torch.equal(sparse_direction(gradient, torch.tensor([1, 4]))[0], torch.tensor([1.0, 0.0, 0.0, 0.0]))


def test_balls_shrink_to_the_one_that_is_asked_for() -> None:
    for steps in (1, 2, 5, 20, 100):
        plan = stages(steps)
        assert plan[-1][0] == 1
        assert plan[-1][2] == steps + 1
        assert [low for _, low, _ in plan] == [0, *(high for _, _, high in plan[:-1])]


# --------------------------------------------------------------------------------------------------------- attacks


def linear(weights: Tensor) -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(weights.numel(), 2))
    with torch.no_grad():
        model[1].weight.copy_(torch.stack([-weights, weights]) / 2)
        # far from the boundary, so that no attack stops early
        model[1].bias.copy_(torch.tensor([-10.0, 10.0]))
    return model


@pytest.mark.parametrize(
    "attack",
    [
        PGD("l1:3", 40),
        PGD("l1:3", 40, loss="margin", random_start=False),
        APGD("l1:3", 60),
        Ensemble("l1:3", queries=5),
    ],
    ids=lambda attack: type(attack).__name__,
)
def test_saturated_images_of_a_linear_model_get_close_to_their_worst(attack: Attack) -> None:
    inputs = saturated(8, 100).float().reshape(8, 1, 10, 10)
    weights, labels = torch.randn(100, generator=generator("plane")), torch.ones(8).long()
    radii = torch.full((8,), 3.0)
    attacked = craft(Base(linear(weights)), inputs, labels, attack, radii=radii, ids=[str(i) for i in range(8)])
    lost = ((inputs - attacked).flatten(1) @ weights).double()
    worst = -(weights * worst_linear_change(-weights.repeat(8, 1), inputs.flatten(1), radii)).sum(1)
    assert (lost <= worst + 1e-4).all()
    assert (lost >= 0.95 * worst).all()


def test_training_climbs_in_l1_too() -> None:
    inputs = saturated(8, 100).float().reshape(8, 1, 10, 10)
    weights = torch.randn(100, generator=generator("plane"))
    model, threat = linear(weights), Threat("l1", 3.0)
    points = ascend(
        lambda x: model(x).double(), lambda scores: scores[:, 0] - scores[:, 1], inputs, threat, 10, generator("train")
    )
    assert inside(points - inputs, "l1", 3.0).all()
    lost = (inputs - points).flatten(1) @ weights
    worst = -(weights * worst_linear_change(-weights.repeat(8, 1), inputs.flatten(1), 3.0)).sum(1)
    assert (lost >= 0.8 * worst).all()


@pytest.fixture(scope="module")
def trained() -> tuple[nn.Module, Domain]:
    """A network that knows the digits, of which half of the pixels are black, and samples it has not seen."""
    torch.set_num_threads(1)
    digits = sp.load_domains("digits")["digits"]
    rest = Domains("digits", [digits.subset(np.arange(200, len(digits)))])
    fit = sp.train(sp.build_model("cnn", rest, width=8), rest, sp.objectives.Gaussian(0.25), recipe={"steps": 150})
    return fit.model, digits.subset(np.arange(100))


def left(model: nn.Module, domain: Domain, attack: Attack) -> float:
    return sp.attack(model, domain, attack).robust_accuracy


def test_what_is_known_to_be_there_is_found(trained: tuple[nn.Module, Domain]) -> None:
    """foolbox 3.3.4's SparseL1DescentAttack (20 steps) leaves 0.18 here, AutoAttack's APGD-L1 (100 steps) 0.09."""
    model, domain = trained
    pgd = left(model, domain, PGD("l1:2"))
    ensemble = left(model, domain, Ensemble("l1:2", targets=3, queries=50))
    assert pgd <= 0.18 + 0.03
    assert ensemble <= 0.09 + 0.03
    # it is 0.8 without an attack, 0.17 after so many queries
    assert left(model, domain, Square("l1:2", 200)) <= 0.3


@pytest.mark.slow
def test_no_weaker_than_peers(trained: tuple[nn.Module, Domain]) -> None:
    foolbox, reference = pytest.importorskip("foolbox"), pytest.importorskip("pyautoattack.autopgd_base")
    model, domain = trained
    inputs, labels = domain.tensors()
    sparse = foolbox.attacks.SparseL1DescentAttack(steps=20)
    theirs = [sparse(foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu"), inputs, labels, epsilons=2.0)[1]]
    theirs.append(
        reference.APGDAttack(model, norm="L1", eps=2.0, n_iter=100, device="cpu", seed=0).perturb(inputs, labels)
    )
    for points in theirs:
        accuracy = float((Base(model).answers(points) == labels).double().mean())
        for attack in (PGD("l1:2"), Ensemble("l1:2", targets=3, queries=50)):
            assert left(model, domain, attack) <= accuracy + 0.03


def test_audits_attack_l1_with_the_ensemble() -> None:
    assert _attack(Threat("l1", 8.0), EFFORTS[0]).name == "ensemble"
