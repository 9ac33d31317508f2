"""Models whose outputs hide what an attack needs: the ensemble finds it all the same, the validity checks say so."""

import cProfile
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.attacks import Base, craft
from shiftproof.attacks.ensemble import Ensemble
from shiftproof.attacks.gradient_checks import gradients_inside_forward
from shiftproof.attacks.inner_logits import inner_logits
from shiftproof.attacks.validity import validity_findings
from shiftproof.domains import Domain, Domains
from shiftproof.perturbations import Threat
from shiftproof.types import Finding

LINF = Threat("linf", 0.1)
SMALL = Ensemble(LINF, steps=30, targets=3, queries=20)


elsewhere = pytest.mark.usefixtures("brief_examination")
"""For tests that look at what is found before a model is attacked."""


@pytest.fixture(scope="module")
def digits() -> Domain:
    return sp.load_domains("digits")["digits"]


@pytest.fixture(scope="module")
def honest(digits: Domain) -> nn.Module:
    torch.set_num_threads(1)
    domains = Domains("digits", [digits])
    objective = sp.objectives.AdversarialTraining("linf:0.1", steps=3)
    return sp.train(sp.build_model("cnn", domains, width=8), domains, objective, recipe={"steps": 120}).model.eval()


class Ending(nn.Module):
    """Something done to the logits of a model."""

    def __init__(self, model: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.model, self.change = model, change

    def forward(self, inputs: Tensor) -> Tensor:
        return self.change(self.model(inputs))


def clipped(logits: Tensor) -> Tensor:
    return torch.maximum(logits, logits.amax(1, keepdim=True) - 0.01)


def cut_off(logits: Tensor) -> Tensor:
    top = logits.amax(1, keepdim=True)
    return torch.where(logits == top, logits, top.detach() - 0.01)


def above_the_winner(logits: Tensor) -> Tensor:
    """A ReLU that leaves the winner alone and 0 for all that are a hundredth behind."""
    return F.relu(logits - logits.amax(1, keepdim=True).detach() + 0.01)


def detached(logits: Tensor) -> Tensor:
    return torch.where(logits == logits.amax(1, keepdim=True), logits, logits.detach())


def one_hot(logits: Tensor) -> Tensor:
    return F.one_hot(logits.argmax(1), logits.shape[1]).float() + 0 * logits


def first_two(logits: Tensor) -> Tensor:
    values, classes = logits.topk(2, 1)
    return torch.full_like(logits, -10.0).scatter(1, classes, values)


class Backwards(torch.autograd.Function):
    @staticmethod
    def forward(context: object, logits: Tensor) -> Tensor:
        return logits.clone()

    @staticmethod
    def backward(context: object, gradient: Tensor) -> Tensor:
        return -gradient


ENDINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "clipped": clipped,
    "cut off": cut_off,
    "relu": above_the_winner,
    "detached": detached,
    "one-hot": one_hot,
    "first two": first_two,
    "rounded": lambda logits: (10 * logits).round() / 10,
    "sigmoid": lambda logits: torch.sigmoid(50 * (logits - logits.amax(1, keepdim=True).detach())),
    "log-softmax": lambda logits: logits.log_softmax(1).clamp(min=-0.5),
    "backwards": Backwards.apply,
}


def left(model: nn.Module, few: Domain, of: nn.Module) -> float:
    """What the ensemble leaves of the samples that another model, with the same answers, has right."""
    inputs, labels = few.tensors()
    right = Base(of).answers(inputs) == labels
    ids, radii = few.ids[right.numpy()], torch.full((int(right.sum()),), LINF.eps)
    attacked = craft(Base(model), inputs[right], labels[right], SMALL, radii=radii, ids=ids)
    return float((Base(model).answers(attacked) == labels[right]).double().mean())


def findings(model: nn.Module, few: Domain) -> dict[str, Finding]:
    return {one.code: one for one in validity_findings(model, *few.tensors(), few.ids, LINF)}


@pytest.fixture(scope="module")
def left_as_it_is(honest: nn.Module, digits: Domain) -> float:
    return left(honest, digits.subset(np.arange(40)), honest)


@pytest.mark.parametrize("name", ENDINGS)
def test_what_is_done_to_logits_hides_nothing_from_the_ensemble(
    name: str, honest: nn.Module, digits: Domain, left_as_it_is: float
) -> None:
    few = digits.subset(np.arange(40))
    assert left(Ending(honest, ENDINGS[name]).eval(), few, honest) <= left_as_it_is + 0.05


def test_a_model_that_ends_in_one_function_is_seen_through_too(honest: nn.Module, digits: Domain) -> None:
    """The clipping is inside the module that makes the logits, not around it."""

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(10, 64, generator=torch.Generator().manual_seed(0)))

        def forward(self, inputs: Tensor) -> Tensor:
            return cut_off(inputs.flatten(1) @ self.weight.T)

    inputs, _ = digits.subset(np.arange(8)).tensors()
    model = Whole().eval()
    inner = inner_logits(Base(model), inputs)
    assert inner is not None
    assert torch.allclose(inner.scores(inputs), inputs.flatten(1) @ model.weight.T)
    assert torch.equal(inner.answers(inputs), Base(model).answers(inputs))


@pytest.mark.parametrize(
    "change",
    [lambda z: z, lambda z: 3 * z + 5, lambda z: z.log_softmax(1), lambda z: z + torch.arange(10) / 10],
    ids=["as it is", "scaled", "log-softmax", "bias"],
)
def test_honest_endings_hide_nothing(change: Callable[[Tensor], Tensor], honest: nn.Module, digits: Domain) -> None:
    inputs, _ = digits.subset(np.arange(8)).tensors()
    assert inner_logits(Base(Ending(honest, change).eval()), inputs) is None


@elsewhere
@pytest.mark.parametrize(
    "name",
    [
        "clipped",
        "one-hot",
        "first two",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("cut off", "relu", "detached")),
    ],
)
def test_losing_logits_without_gradients_are_found(name: str, honest: nn.Module, digits: Domain) -> None:
    found = findings(Ending(honest, ENDINGS[name]).eval(), digits.subset(np.arange(16)))
    assert found["zero-gradients"].level == "fail"
    assert "losing logits without a gradient of their own" in found["zero-gradients"].message


class Purified(nn.Module):
    """Moves its input to where it is surer, by a gradient inside its forward pass."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.enable_grad():
            points = inputs.detach().clone().requires_grad_()
            (gradient,) = torch.autograd.grad(self.model(points).logsumexp(1).sum(), points)
        return self.model((inputs + 0.05 * gradient.sign()).clamp(0, 1))


@elsewhere
def test_gradients_inside_the_forward_pass_are_found(honest: nn.Module, digits: Domain) -> None:
    few = digits.subset(np.arange(8))
    found = findings(Purified(honest).eval(), few)
    assert found["gradients-in-forward"].level == "warn"
    assert "inside its forward pass" in found["gradients-in-forward"].message
    assert "gradients-in-forward" not in findings(honest, few)


def test_a_model_that_takes_gradients_is_attacked_and_certified(honest: nn.Module, digits: Domain) -> None:
    few, model = digits.subset(np.arange(6)), Purified(honest).eval()
    assert sp.attack(model, few, SMALL).robust_accuracy <= 1
    smoothing = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.1), n=100, n0=10)
    assert len(sp.certify(model, few, smoothing).radius) == 6


class AskedForGradients(nn.Module):
    """Another function while somebody wants its gradient."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> Tensor:
        return -self.model(inputs) if inputs.requires_grad else self.model(inputs)


@elsewhere
def test_a_model_that_is_another_with_gradients_on_is_found(honest: nn.Module, digits: Domain) -> None:
    found = findings(AskedForGradients(honest).eval(), digits.subset(np.arange(8)))
    assert found["stateful-model"].level == "fail"
    assert "with gradients on differ" in found["stateful-model"].message


def test_a_profiler_does_not_stop_the_check() -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        assert not list(gradients_inside_forward(nn.Linear(4, 2), torch.rand(3, 4)))
        assert sys.getprofile() is profiler
    finally:
        profiler.disable()
