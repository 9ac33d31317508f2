"""Attacks inside training: as strong as they can be, on any network, and without a trace."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from toys import batch_of, generator, linear

import shiftproof as sp
from shiftproof.attacks.ascent import ascend, attackable
from shiftproof.models.gradients import gradient_copy
from shiftproof.objectives import OBJECTIVES
from shiftproof.perturbations import Threat

SOURCES, _ = sp.load_domains("colored-digits").leave_out("e=0.9")
NAMES = [entry.name for entry in OBJECTIVES]
ADVERSARIAL = [name for name in NAMES if hasattr(OBJECTIVES[name].cls, "attack")]


@pytest.mark.parametrize(("norm", "dual"), [("linf", 3.5), ("l2", math.sqrt(5.25))])
@pytest.mark.parametrize(
    "make",
    [
        lambda threat: sp.objectives.AdversarialTraining(threat, steps=3, random_start=False),
        lambda threat: sp.objectives.AdversarialAugmentation(threat, steps=3, random_start=False, clean_weight=0.0),
        lambda threat: sp.objectives.TransferAdv(threat, steps=3, random_start=False),
        lambda threat: sp.objectives.TransferAdvD(threat, steps=3, random_start=False, weight=0.0),
        lambda threat: sp.objectives.SmoothAdv(sigma=0.0, eps=threat.eps, steps=3),
    ],
    ids=["training", "augmentation", "transfer-adv", "transfer-adv-d", "smoothadv"],
)
def test_the_worst_loss_of_a_linear_model_is_reached(make: Callable[[Threat], Any], norm: str, dual: float) -> None:
    objective = make(Threat(norm, 0.1))
    if norm == "linf" and isinstance(objective, sp.objectives.SmoothAdv):
        pytest.skip("SmoothAdv attacks in l2")
    model, point = linear([1.0, -2.0, 0.5], 0.1), torch.tensor([[[[0.3, 0.5, 0.4]]]])
    for label, side in ((1, 1), (0, -1)):
        margin = side * (0.3 - 1.0 + 0.2 + 0.1) - 0.1 * dual
        found = objective.loss(model, batch_of((point, torch.tensor([label]))), generator()).total
        assert found.item() == pytest.approx(math.log1p(math.exp(-margin)), rel=1e-5)


def test_raw_steps_hardly_move_where_the_model_is_sure() -> None:
    """At probability .99 a gradient is .01 long: eight steps of r/4 go 2 % of the way."""
    model = linear([1.0, 0.0])
    with torch.no_grad():
        model.head.bias.copy_(torch.tensor([-1.0, 1.0]) * math.log(99) / 2)
    radius, inputs, labels = 0.01, torch.full((1, 1, 1, 2), 0.5), torch.tensor([1])

    def moved(rule: str) -> float:
        with attackable(model, inputs) as scores:
            points = ascend(
                scores,
                lambda said: F.cross_entropy(said, labels, reduction="none"),
                inputs, Threat("l2", radius), 8, generator(), step=radius / 4, rule=rule, random_start=False,
            )  # fmt: skip
        return float((points - inputs).norm()) / radius

    assert 0.01 < moved("raw") < 0.03
    assert moved("steepest") == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("name", ["cnn", "preact-resnet18", "mlp-cayley", "cnn-cayley", "mlp"])
def test_the_copy_that_is_attacked_has_the_gradient_of_the_model(name: str) -> None:
    options = {} if name.startswith("mlp") else {"width": 4}
    model = sp.build_model(name, SOURCES, **options).train()
    inputs = torch.rand(16, *SOURCES.shape, generator=generator())
    model(inputs)
    model.eval()
    copied = gradient_copy(model, inputs)
    assert (copied is model) == (name == "mlp")

    def gradient(of: nn.Module) -> Tensor:
        points = inputs.clone().requires_grad_()
        (found,) = torch.autograd.grad(of(points)[:, 0].sum(), points)
        return found

    assert torch.allclose(gradient(copied), gradient(model), rtol=1e-3, atol=1e-5)


def test_a_model_that_tracing_would_change_is_attacked_as_it_is() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)

        def forward(self, inputs: Tensor) -> Tensor:
            hidden = self.norm(self.conv(inputs)).mean((2, 3))
            # for a tracer a size is not a number
            return hidden if inputs.shape[0] > 3 else -hidden

    model, inputs = Branching().eval(), torch.rand(5, 2, 4, 4, generator=generator())
    copied = gradient_copy(model, inputs)
    for count in (5, 2):
        assert torch.allclose(copied(inputs[:count]), model(inputs[:count]), atol=1e-6)


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_attacks_inside_training_leave_statistics_and_dropout_alone(name: str) -> None:
    """BatchNorm counts the passes that train, one for each kind of inputs; dropout is drawn in no other."""
    drawn: list[bool] = []

    class Watched(nn.Dropout):
        def forward(self, inputs: Tensor) -> Tensor:
            drawn.append(self.training)
            return super().forward(inputs)

    norm = nn.BatchNorm2d(2)
    encoder = nn.Sequential(nn.Conv2d(2, 2, 1), norm, Watched(0.5), nn.Flatten())
    model = sp.SplitModel(encoder, nn.Linear(128, 2)).train()
    inputs, labels = SOURCES["e=0.1"].take(np.arange(16))
    OBJECTIVES.create(name).loss(model, batch_of((inputs, labels)), generator())
    passes = 2 if name in ("trades", "adversarial-augmentation", "transfer-adv-d") else 1
    assert int(norm.num_batches_tracked) == sum(drawn) == passes
    assert norm.training


@pytest.mark.bf16
def test_bf16_is_for_the_attack_alone() -> None:
    inputs, labels = SOURCES["e=0.1"].take(np.arange(8))
    model, seen = sp.build_model("mlp", SOURCES), set()
    model.head.register_forward_hook(lambda _module, _inputs, output: seen.add((torch.is_grad_enabled(), output.dtype)))
    loss = sp.objectives.AdversarialTraining(precision="bf16", steps=2).loss(
        model, batch_of((inputs, labels)), generator()
    )
    assert {dtype for _, dtype in seen} == {torch.bfloat16, torch.float32}
    assert loss.total.dtype == torch.float32


class _Stashes(nn.Module):
    """Keeps an activation, so that it can't be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2), nn.Linear(128, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        self.kept = self.norm(self.conv(inputs))
        return self.head(self.kept.flatten(1))


class _Views(_Stashes):
    """Views images as rows of numbers, which they are not with their channels last."""

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.norm(self.conv(inputs)).view(len(inputs), 128))


class _Overwriting(_Stashes):
    """Shifts the images that it is given."""

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.norm(self.conv(inputs.sub_(0.5))).flatten(1))


class _Detaching(_Stashes):
    """Has no gradient through its first layers, which fx would not notice."""

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            hidden = self.norm(self.conv(inputs)).flatten(1)
        return self.head(hidden + inputs.flatten(1))


@pytest.mark.parametrize("network", [_Stashes, _Views, _Overwriting, _Detaching])
@pytest.mark.parametrize("name", ["adversarial-training", "trades", "smoothadv"])
def test_networks_of_users_train_under_attack(network: type[nn.Module], name: str) -> None:
    recipe = {"steps": 3, "evaluate_every": 3, "batch": 8}
    fit = sp.train(network(), SOURCES, OBJECTIVES.create(name), recipe=recipe)
    assert math.isfinite(fit.history[-1]["loss"])


@pytest.mark.parametrize("small", [1.0, 1e-3])
@pytest.mark.parametrize("hook", ["forward", "backward"])
def test_a_copy_is_not_folded_past_a_hook(hook: str, small: float) -> None:
    norm = nn.BatchNorm2d(2)
    model = nn.Sequential(nn.Conv2d(2, 2, 1), norm, nn.ReLU(), nn.Flatten(), nn.Linear(128, 2)).eval()
    with torch.no_grad():
        model[-1].weight *= small
        model[-1].bias *= small
    if hook == "forward":
        norm.register_forward_hook(lambda _module, _inputs, output: -output)
    else:
        norm.register_full_backward_hook(lambda _module, gradients, _outputs: (-gradients[0],))
    inputs = torch.rand(16, *SOURCES.shape, generator=generator())
    copied = gradient_copy(model, inputs)

    def gradient(of: nn.Module) -> Tensor:
        points = inputs.clone().requires_grad_()
        return torch.autograd.grad(of(points)[:, 0].sum(), points)[0]

    assert torch.allclose(copied(inputs), model(inputs), atol=1e-4 * small)
    assert torch.allclose(gradient(copied), gradient(model), atol=1e-4 * small)


def test_the_attack_moves_where_the_network_is_sure() -> None:
    model, inputs, labels = linear([400.0, -300.0]), torch.full((1, 1, 1, 2), 0.5), torch.tensor([1])
    with torch.no_grad():
        model.head.bias.copy_(torch.tensor([-100.0, 100.0]))
    objective = sp.objectives.AdversarialTraining("linf:0.1", steps=2, random_start=False)
    attacked = objective.attack_batch(model, batch_of((inputs, labels)), generator())
    moved = attacked(nn.Identity()) - inputs
    assert torch.allclose(moved, torch.tensor([[[[-0.1, 0.1]]]]))
