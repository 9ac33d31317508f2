"""How much a loss can change around an input: what is found, what is proven, and where both are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from smoothed import digits
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.certification.bounds.boxes import propagate
from shiftproof.certification.bounds.interval import Box, InputBall, layers_of, leads, passes
from shiftproof.certification.input_robustness import Measured, input_robustness
from shiftproof.domains import Domain
from shiftproof.errors import ModelError, UsageError
from shiftproof.models.layers import Gray
from shiftproof.models.lipschitz import GroupSort, MaxMin, ScaledAvgPool2d
from shiftproof.models.networks.resnet import PreActBlock
from shiftproof.perturbations import Threat
from shiftproof.perturbations.threat import random_start, random_surface
from shiftproof.rng import torch_generator

NORMS = ("l2", "linf", "l1")
DUAL = {"l2": 2.0, "linf": 1.0, "l1": math.inf}


def generator(*keys: str | int) -> torch.Generator:
    return torch_generator(0, "tests of input robustness", *keys)


def filled(model: nn.Module, *keys: str | int) -> nn.Module:
    """Random weights and statistics, in eval mode."""
    drawn = generator(*keys)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if value.is_floating_point() and "normalize" not in name:
                value.copy_(torch.randn(value.shape, generator=drawn) / math.sqrt(max(1, value[:1].numel())))
                if "running_var" in name:
                    value.abs_().add_(0.3)
    return model.eval()


NETWORKS = {
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(128, 3)),
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(128, 8), nn.ReLU(), nn.Linear(8, 3)),
    "sorted": lambda: nn.Sequential(nn.Flatten(), nn.Linear(128, 6), GroupSort(3), nn.Linear(6, 4), MaxMin()),
    "smooth": lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(128), nn.Linear(128, 6), nn.Tanh(), nn.Linear(6, 3)),
    "leaky": lambda: nn.Sequential(nn.Flatten(), nn.Linear(128, 6), nn.LeakyReLU(-0.3), nn.Linear(6, 3)),
    "conv": lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 1, groups=2, bias=False),
        nn.ReLU6(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(4, 3),
    ),
    "residual": lambda: nn.Sequential(
        PreActBlock(2, 2, 1), PreActBlock(2, 4, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    ),
    "split": lambda: sp.SplitModel(
        nn.Sequential(ScaledAvgPool2d(2), nn.Conv2d(2, 3, 3), nn.Sigmoid(), nn.Flatten(), nn.Identity()),
        nn.Linear(12, 3),
    ),
    "normalised": lambda: sp.Normalized(
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 3)), [0.4, 0.6], [0.3, 0.2]
    ),
    "gray": lambda: nn.Sequential(Gray(), nn.Flatten(), nn.Linear(64, 3)),
}


def samples(count: int = 6) -> tuple[Tensor, Tensor]:
    inputs = torch.rand(count, 2, 8, 8, generator=generator("samples"))
    return inputs, torch.arange(count) % 3


def two_classes(weights: Tensor, bias: float) -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(len(weights), 2)).eval()
    with torch.no_grad():
        model[1].weight.copy_(torch.stack([-weights, weights]) / 2)
        model[1].bias.copy_(torch.tensor([-bias, bias]) / 2)
    return model


# ------------------------------------------------------------------------------------------------------ closed form


@pytest.mark.parametrize("norm", NORMS)
def test_both_estimates_are_exact_on_a_linear_model(norm: str) -> None:
    """O11: the worst loss is log(1 + exp(-(y(w.x + b) - eps |w|_q))), the best has + eps |w|_q."""
    weights, x, bias, eps = torch.tensor([1.0, -2.0, 0.5]), torch.tensor([[0.3, 0.6, 0.4]]), 0.1, 0.1
    for label in (0, 1):
        margin = (2 * label - 1) * float(x[0].double() @ weights.double() + bias)
        reach = eps * float(torch.linalg.vector_norm(weights.double(), DUAL[norm]))
        loss, worst, best = (math.log1p(math.exp(-(margin + move))) for move in (0.0, -reach, reach))
        found = input_robustness(two_classes(weights, bias), (x, torch.tensor([label])), Threat(norm, eps))
        expected = max(worst - loss, loss - best)
        assert found.loss[0] == pytest.approx(loss, abs=1e-6)
        assert found.lower[0] == pytest.approx(expected, rel=1e-5)
        assert found.upper[0] == pytest.approx(expected, rel=1e-6)
        assert found.lower[0] <= found.upper[0]


@pytest.mark.parametrize("norm", NORMS)
def test_the_ball_of_a_first_layer_is_exact(norm: str) -> None:
    """A dense layer, and a convolution away from l1 borders, of which every output is attained."""
    layer = filled(nn.Linear(12, 5), "first")
    inputs = torch.rand(4, 12, generator=generator("first")).double()
    ball = InputBall(inputs, torch.ones(1, 12).double(), norm, 0.2)
    box = passes(ball, [layer])
    assert isinstance(box, Box)
    lengths = 0.2 * torch.linalg.vector_norm(layer.weight.double(), DUAL[norm], dim=1)
    assert torch.allclose(box.half, lengths.expand(4, -1))
    conv = filled(nn.Conv2d(2, 3, 3, padding=1), "conv")
    image = torch.rand(1, 2, 5, 5, generator=generator("image")).double()
    box = passes(InputBall(image, torch.ones_like(image), norm, 0.2), [conv])
    inner = 0.2 * torch.linalg.vector_norm(conv.weight.double().flatten(1), DUAL[norm], dim=1)
    assert torch.allclose(box.half[0, :, 2, 2], inner)


# --------------------------------------------------------------------------------------------------------- soundness


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", NETWORKS)
def test_no_change_leaves_what_is_proven(name: str, norm: str) -> None:
    model = filled(NETWORKS[name](), name)
    inputs, labels = samples()
    before = None
    for eps in (0.01, 0.1, 0.3):
        found = input_robustness(model, (inputs, labels), Threat(norm, eps), steps=5, progress="off")
        assert found.upper is not None, found.reason
        assert "boxes" in found.reason
        assert (found.lower <= found.upper).all()
        assert (found.lower > 0).any()
        network = Measured(model, (2, 8, 8), Threat(norm, eps))._exact
        for draw in (random_start, random_surface):
            for number in range(10):
                change = draw(tuple(inputs.shape), norm, eps, generator(name, number)).double()
                with torch.no_grad():
                    moved = nn.functional.cross_entropy(network(inputs.double() + change), labels, reduction="none")
                assert (np.abs(moved.numpy() - found.loss) <= found.upper).all()
        if before is not None:
            assert (found.upper >= before).all()
        before = found.upper
    tiny = input_robustness(model, (inputs, labels), Threat(norm, 1e-6), steps=2, progress="off")
    assert tiny.upper is not None
    assert tiny.upper.max() < 1e-3
    assert (input_robustness(model, (inputs, labels), Threat(norm, 0.0), steps=1).lower == 0).all()


@pytest.mark.parametrize("name", NETWORKS)
def test_corners_of_boxes_hold_all_logits(name: str) -> None:
    model = filled(NETWORKS[name](), name).double()
    inputs, labels = samples()
    layers = layers_of(model)
    ball = InputBall(inputs.double(), torch.ones_like(inputs[:1]).double(), "linf", 0.05)
    with torch.no_grad():
        low, high = leads(layers, ball, labels)
        for number in range(30):
            change = random_surface(tuple(inputs.shape), "linf", 0.05, generator("corner", number)).double()
            logits = model(inputs.double() + change)
            ahead = logits - logits.gather(1, labels[:, None])
            assert (ahead <= high + 1e-9).all()
            assert (ahead >= low - 1e-9).all()
    assert (low.gather(1, labels[:, None]).abs() < 1e-12).all()


def test_a_repeated_image_is_no_ball_any_more() -> None:
    """A mean for three channels in front of gray images repeats them: they move sqrt(3) times as far in l2."""
    model = sp.Normalized(nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), [0.5] * 3, [1.0] * 3).eval()
    with torch.no_grad():
        model.model[1].weight.copy_(torch.stack([-torch.ones(12), torch.ones(12)]) / 2)
        model.model[1].bias.zero_()
    inputs = torch.full((1, 1, 2, 2), 0.5)
    found = input_robustness(model, (inputs, torch.tensor([1])), "l2:0.1")
    assert found.upper is not None
    assert found.lower[0] > 0.25
    assert found.lower[0] <= found.upper[0]


def test_a_known_constant_is_used_where_it_is_smaller() -> None:
    domains = sp.load_domains("digits")
    model = sp.build_model("mlp-cayley", domains, width=32).eval()
    found = input_robustness(model, digits(20), "l2:0.1", progress="off")
    assert found.upper is not None
    # no loss moves faster than sqrt(2) times the largest logit, and the encoder moves nothing apart
    assert found.upper.max() < 0.2
    assert "boxes through every layer; the l2 constant" in found.reason
    conv = sp.build_model("cnn-cayley", domains, width=4).eval()
    found = input_robustness(conv, digits(4), "l2:0.1", steps=3, progress="off")
    assert found.upper is not None
    assert "boxes" not in found.reason
    assert (found.lower <= found.upper).all()


# ------------------------------------------------------------------------------------------------------ what is refused


class Squared(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.flatten(1)[:, :3].square()


class Single(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(128, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs.flatten(1).float())


@pytest.mark.parametrize(
    ("model", "why"),
    [(Squared(), "a layer Squared"), (Single(), "does not compute in float64"), (nn.Sequential(Squared()), "Squared")],
)
def test_without_a_proof_there_is_none(model: nn.Module, why: str) -> None:
    found = input_robustness(model.eval(), samples(), "linf:0.05", steps=3)
    assert found.upper is None
    assert found.proven is None
    assert why in found.reason
    assert found.found.value > 0
    assert "at most" not in repr(found)


def test_hooks_are_seen() -> None:
    model = filled(NETWORKS["mlp"](), "mlp")
    model[2].register_forward_hook(lambda module, inputs, outputs: outputs * 100)
    found = input_robustness(model, samples(), "linf:0.05", steps=3)
    assert found.upper is None
    with pytest.raises(ModelError, match="hooks"):
        layers_of(model)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"threat": "rotation:0.1"}, "unknown norm"),
        ({"threat": "linf:8"}, "did you mean 8/255"),
        ({"steps": 0}, "steps is 0"),
        ({"seed": -1}, "the seed is -1"),
    ],
)
def test_mistakes_get_a_sentence(change: dict[str, object], sentence: str) -> None:
    arguments = {"threat": "linf:0.1", **change}
    with pytest.raises(UsageError) as caught:
        input_robustness(filled(NETWORKS["linear"](), "x"), samples(), **arguments)
    assert sentence in str(caught.value)


# ------------------------------------------------------------------------------------------------------- the estimate


def test_blocks_order_and_modes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = filled(NETWORKS["conv"](), "conv")
    inputs, labels = samples(10)
    domain = Domain.from_arrays("ten", inputs, labels.numpy(), ["a", "b", "c"])
    whole = input_robustness(model, domain, "l2:0.2", steps=5, progress="off")
    monkeypatch.setattr("shiftproof.domains.domain.BLOCK_SAMPLES", 3)
    model.train()
    modes = [module.training for module in model.modules()]
    parts = input_robustness(model, domain.subset(np.arange(10)[::-1].copy()), "l2:0.2", steps=5, progress="off")
    assert [module.training for module in model.modules()] == modes
    assert np.allclose(whole.lower[::-1], parts.lower, atol=1e-6)
    assert np.allclose(whole.upper[::-1], parts.upper, rtol=1e-9)
    again = Measured(model.eval(), (2, 8, 8), Threat("l2", 0.2), steps=5).of(inputs, labels, domain.ids)
    assert np.allclose(again.lower, whole.lower, atol=1e-6)
    assert len(whole) == 10
    assert repr(whole).startswith("InputRobustness(l2 0.2: the loss of 10 samples changes by")


def test_means_have_intervals_by_group() -> None:
    model = filled(NETWORKS["mlp"](), "mlp")
    inputs, labels = samples(12)
    groups = [str(i // 4) for i in range(12)]
    domain = Domain.from_arrays("g", inputs, labels.numpy(), ["a", "b", "c"], groups=groups)
    found = input_robustness(model, domain, "linf:0.05", steps=3, progress="off")
    assert found.found.value == pytest.approx(found.lower.mean())
    assert found.proven is not None
    assert found.proven.value == pytest.approx(found.upper.mean())
    assert found.found.low <= found.found.value <= found.found.high
    assert found.found.method == "one-sample bootstrap"
    assert found.found.value <= found.proven.value


def test_a_layer_that_overwrites_and_falls_keeps_its_box() -> None:
    layer = torch.nn.LeakyReLU(-1.0, inplace=True)
    low, high = propagate(layer, torch.tensor([[-1.0]]), torch.tensor([[0.5]]))
    assert (float(low), float(high)) == (0.0, 1.0)


def test_a_dense_layer_over_rows_of_an_image_is_refused_with_a_reason() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Flatten(), torch.nn.Linear(32, 4))
    result = input_robustness(model, (torch.rand(3, 1, 8, 8), torch.tensor([0, 1, 2])), "l2:0.1", progress="off")
    assert "Flatten" in result.reason or result.upper is not None
    assert result.upper is None or bool((result.lower <= result.upper).all())
