"""Models that look robust because of what they hide: a warning or a failure says so; honest ones get none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.attacks.validity import validity_findings

THREAT = sp.Threat("linf", 0.15)


@pytest.fixture(scope="module")
def digits() -> tuple[nn.Module, Tensor, Tensor]:
    domains = sp.load_domains("digits")
    inputs, labels = next(iter(domains)).tensors()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for step in range(150):
        rows = torch.arange(step * 128, step * 128 + 128) % len(inputs)
        loss = F.cross_entropy(model(inputs[rows]), labels[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval(), inputs[:24], labels[:24]


class Wrapped(nn.Module):
    def __init__(self, base: nn.Module, outputs: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.base, self.outputs, self.calls = base, outputs, 0
        self.register_buffer("decoy", torch.randn(10, 64, generator=torch.Generator().manual_seed(0)))
        self.register_buffer("known", torch.zeros(0))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.outputs(self, inputs)


def _decoyed(model: Any, inputs: Tensor) -> Tensor:
    return 0.01 * inputs.flatten(1) @ model.decoy.T


def _hard(logits: Tensor) -> Tensor:
    return 10.0 * F.one_hot(logits.argmax(1), 10)


def hard_beside_a_decoy(model: Any, inputs: Tensor) -> Tensor:
    return _hard(model.base(inputs.detach())) + _decoyed(model, inputs)


def hard_in_place(model: Any, inputs: Tensor) -> Tensor:
    logits = model.base(inputs)
    hard = _hard(logits)
    return logits.mul_(0).add_(hard).add_(_decoyed(model, inputs))


def saturated_beside_a_decoy(model: Any, inputs: Tensor) -> Tensor:
    logits = model.base(inputs.detach())
    middle = logits.topk(2, 1).values.mean(1, keepdim=True)
    return 5 * torch.tanh(1e3 * (logits - middle)) + _decoyed(model, inputs)


def near_classes_hidden(model: Any, inputs: Tensor) -> Tensor:
    logits = model.base(inputs)
    places = logits.topk(5, 1).indices[:, 1:]
    return logits.scatter(1, places, -20.0)


def other_at_the_edge(model: Any, inputs: Tensor) -> Tensor:
    apart = (inputs[:, None] - model.known[None]).flatten(2).abs().amax(2).amin(1)
    return torch.where((apart > 0.9 * THREAT.eps)[:, None], _remembered(model, inputs), model.base(inputs))


def other_off_the_grid(model: Any, inputs: Tensor) -> Tensor:
    off = (inputs * 255 - torch.round(inputs * 255)).flatten(1).abs().amax(1) > 1e-3
    return torch.where(off[:, None], _remembered(model, inputs), model.base(inputs))


def _remembered(model: Any, inputs: Tensor) -> Tensor:
    """The class of the nearest known sample, softly."""
    weight = torch.softmax(-200 * torch.cdist(inputs.flatten(1), model.known.flatten(1)), 1)
    return 30 * weight @ F.one_hot(model.base(model.known).argmax(1), 10).float()


def counting_calls(model: Any, inputs: Tensor) -> Tensor:
    model.calls += 1
    logits: Tensor = model.base(inputs)
    return logits


def _cleaned(model: Any, inputs: Tensor) -> Tensor:
    with torch.enable_grad():
        points = inputs.detach().clone().requires_grad_()
        loss = model.base(points).logsumexp(1).sum()
        (slope,) = torch.autograd.grad(loss, points)
    return (inputs + 0.01 * slope.sign()).detach()


def cleaning_what_is_unsure(model: Any, inputs: Tensor) -> Tensor:
    unsure = model.base(inputs).softmax(1).amax(1) < 0.9
    if bool(unsure.any()):
        inputs = torch.where(unsure[:, None, None, None], _cleaned(model, inputs), inputs)
    logits: Tensor = model.base(inputs)
    return logits


def cleaning_in_a_thread(model: Any, inputs: Tensor) -> Tensor:
    found: list[Tensor] = []
    thread = threading.Thread(target=lambda: found.append(_cleaned(model, inputs)))
    thread.start()
    thread.join()
    logits: Tensor = model.base(found[0])
    return logits


def random_behind_an_offset(model: Any, inputs: Tensor) -> Tensor:
    logits: Tensor = model.base(inputs).double()
    return logits + 1e9 + 2 * torch.randn(logits.shape, dtype=torch.float64)


HIDING = [
    hard_beside_a_decoy,
    hard_in_place,
    saturated_beside_a_decoy,
    near_classes_hidden,
    other_at_the_edge,
    other_off_the_grid,
    counting_calls,
    cleaning_what_is_unsure,
    cleaning_in_a_thread,
    random_behind_an_offset,
]


def _doubts(model: nn.Module, inputs: Tensor, labels: Tensor) -> set[str]:
    findings = validity_findings(model.eval(), inputs, labels, [str(k) for k in range(len(inputs))], THREAT, seed=0)
    return {one.code for one in findings if one.level != "pass"}


@pytest.mark.parametrize("outputs", HIDING, ids=lambda one: one.__name__)
def test_what_hides_is_doubted(outputs: Any, digits: tuple[nn.Module, Tensor, Tensor]) -> None:
    base, inputs, labels = digits
    model = Wrapped(base, outputs)
    model.known = inputs.clone()
    assert _doubts(model, inputs, labels)


@pytest.mark.parametrize(
    "outputs",
    [
        lambda model, inputs: model.base(inputs),
        lambda model, inputs: 1e-13 * model.base(inputs),
        lambda model, inputs: model.base(inputs).log_softmax(1),
        lambda model, inputs: F.pad(model.base(inputs), (0, 1), value=-float("inf")),
        lambda model, inputs: F.pad(model.base(inputs), (0, 1), value=-1e9),
    ],
    ids=["plain", "tiny", "log-softmax", "masked by minus infinity", "masked by -1e9"],
)
def test_what_hides_nothing_is_not_doubted(outputs: Any, digits: tuple[nn.Module, Tensor, Tensor]) -> None:
    base, inputs, labels = digits
    assert _doubts(Wrapped(base, outputs), inputs, labels) == set()


@pytest.mark.parametrize("scale", [50.0, 100.0, 1e3])
def test_sure_models_are_attacked_without_a_failure(scale: float, digits: tuple[nn.Module, Tensor, Tensor]) -> None:
    """Slopes of a cross-entropy this sure are the smallest numbers of float64, whose inverse is infinite."""
    base, inputs, labels = digits
    sure = Wrapped(base, lambda model, points: scale * model.base(points)).eval()
    left = sp.attack(sure, (inputs, labels), sp.attacks.PGD(THREAT, loss="margin"), seed=0).robust_accuracy
    plain = sp.attack(base, (inputs, labels), sp.attacks.PGD(THREAT, loss="margin"), seed=0).robust_accuracy
    assert sp.attack(sure, (inputs, labels), sp.attacks.PGD(THREAT), seed=0).robust_accuracy <= 1
    assert abs(left - plain) <= 0.1
