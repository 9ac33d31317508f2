"""Every composed loss against one written again, plainly: values and gradients, with domains of unequal size."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.rng import seeded_globals, torch_generator
from shiftproof.types import Batch

SIZES, CLASSES = (3, 9), 3
SHAPE = (sum(SIZES), 1, 8, 8)

Plain = Callable[[nn.Module, Tensor, Tensor, torch.Generator], Tensor]


def generator() -> torch.Generator:
    return torch_generator(0, "test of losses")


@pytest.fixture
def model() -> nn.Module:
    with seeded_globals(0, "test of losses"):
        model = sp.SplitModel(nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh()), nn.Linear(16, CLASSES))
        # larger weights: predictions of a fresh network hardly move
        for parameter in model.parameters():
            parameter.data *= 3
    return model


@pytest.fixture
def batch() -> Batch:
    draws = torch_generator(0, "inputs")
    labels = torch.randint(0, CLASSES, SHAPE[:1], generator=draws)
    return Batch(torch.rand(SHAPE, generator=draws), labels, ("small", "large"), SIZES)


def mean(values: Tensor) -> Tensor:
    """Over samples, then over domains."""
    return (values[: SIZES[0]].mean() + values[SIZES[0] :].mean()) / 2


def error(logits: Tensor, labels: Tensor) -> Tensor:
    return -logits.log_softmax(-1)[torch.arange(len(labels)), labels]


def kl(one: Tensor, other: Tensor) -> Tensor:
    """Of the softmax of logits."""
    p = one.softmax(-1)
    return (p * (one.log_softmax(-1) - other.log_softmax(-1))).sum(-1)


def normal(shape: tuple[int, ...], sigma: float, draws: torch.Generator) -> Tensor:
    return sigma * torch.randn(shape, generator=draws)


def climb(losses: Callable[[Tensor], Tensor], x: Tensor, start: Tensor, eps: float, steps: int, norm: str) -> Tensor:
    z, length = start.clamp(0, 1), (2.5 if norm == "linf" else 2.0) * eps / steps
    for _ in range(steps):
        z = z.detach().requires_grad_()
        (slope,) = torch.autograd.grad(losses(z).sum(), z)
        if norm == "linf":
            z = torch.max(torch.min(z.detach() + length * slope.sign(), x + eps), x - eps).clamp(0, 1)
        else:
            change = z.detach() - x + length * slope / slope.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
            z = (x + change * (eps / change.flatten(1).norm(dim=1)).clamp(max=1).view(-1, 1, 1, 1)).clamp(0, 1)
    return z.detach()


def in_ball(x: Tensor, eps: float, draws: torch.Generator) -> Tensor:
    return x + eps * (2 * torch.rand(x.shape, generator=draws) - 1)


def trades(model: nn.Module, x: Tensor, y: Tensor, draws: torch.Generator) -> Tensor:
    said = model(x).detach()
    z = climb(lambda z: kl(said, model(z)), x, in_ball(x, 0.1, draws), 0.1, 10, "linf")
    return mean(error(model(x), y)) + 6 * mean(kl(model(x), model(z)))


def adversarial(model: nn.Module, x: Tensor, y: Tensor, draws: torch.Generator) -> Tensor:
    return climb(lambda z: error(model(z), y), x, in_ball(x, 0.1, draws), 0.1, 10, "linf")


def adversarial_training(model: nn.Module, x: Tensor, y: Tensor, draws: torch.Generator) -> Tensor:
    return mean(error(model(adversarial(model, x, y, draws)), y))


def from_the_input(model: nn.Module, x: Tensor, y: Tensor, draws: torch.Generator) -> Tensor:
    return mean(error(model(climb(lambda z: error(model(z), y), x, x, 0.1, 10, "linf")), y))


def augmentation(model: nn.Module, x: Tensor, y: Tensor, draws: torch.Generator) -> Tensor:
    z = adversarial(model, x, y, draws)
    return 0.3 * mean(error(model(x), y)) + 0.7 * mean(error(model(z), y))


def transfer_adv_d(model: nn.Module, x: Tensor, y: Tensor, draws: torch.Generator) -> Tensor:
    z = adversarial(model, x, y, draws)
    moved = (model.encoder(x) - model.encoder(z)).square().mean(1)
    return mean(error(model(z), y)) + 5 * mean(moved)


def smoothadv(model: nn.Module, x: Tensor, y: Tensor, draws: torch.Generator) -> Tensor:
    noise = normal((2, *x.shape), 0.25, draws)

    def losses(z: Tensor) -> Tensor:
        p = sum(model(z + one).softmax(-1)[torch.arange(len(y)), y] for one in noise) / 2
        return -p.log()

    z = climb(losses, x, x, 0.5, 10, "l2")
    return mean(sum(error(model(z + one), y) for one in noise) / 2)


def stability(model: nn.Module, x: Tensor, y: Tensor, draws: torch.Generator) -> Tensor:
    return mean(error(model(x), y)) + 3 * mean(kl(model(x), model(x + normal(tuple(x.shape), 0.25, draws))))


def noisy_logits(model: nn.Module, x: Tensor, copies: int, draws: torch.Generator) -> Tensor:
    noise = normal((copies * len(x), *x.shape[1:]), 0.25, draws).reshape(copies, *x.shape)
    return torch.stack([model(x + one) for one in noise])


def macer(model: nn.Module, x: Tensor, y: Tensor, draws: torch.Generator) -> Tensor:
    logits, rows = noisy_logits(model, x, 4, draws), torch.arange(len(y))
    sharp = (2.0 * logits.double()).softmax(-1).mean(0)
    best = sharp.topk(2, -1).values
    gap = torch.special.ndtri(best[:, 0]) - torch.special.ndtri(best[:, 1])
    right = (sharp.argmax(1) == y) & (gap <= 8)
    assert 0 < int(right.sum()) < len(y)
    short = torch.where(right, 0.125 * (8 - gap), torch.zeros_like(gap))
    return mean(-logits.softmax(-1).mean(0)[rows, y].log()) + 7 * mean(short.float())


def consistency(model: nn.Module, x: Tensor, y: Tensor, draws: torch.Generator) -> Tensor:
    logits = noisy_logits(model, x, 2, draws)
    p = logits.softmax(-1).mean(0)
    disagreement = sum((p * (p.log() - one.log_softmax(-1))).sum(-1) for one in logits) / 2
    errors = sum(error(one, y) for one in logits) / 2
    return mean(errors) + 4 * mean(disagreement) + 0.3 * mean(-(p * p.log()).sum(-1))


def invariance(logits: Tensor, y: Tensor, weight: float) -> Tensor:
    risk, total = mean(error(logits, y)), torch.zeros(())
    for rows in (slice(0, 3), slice(3, 12)):
        part, labels = logits[rows], y[rows]
        halves = []
        for half in (slice(0, len(part) // 2), slice(len(part) // 2, None)):
            scale = torch.ones((), requires_grad=True)
            loss = F.cross_entropy(scale * part[half], labels[half])
            halves.append(torch.autograd.grad(loss, scale, create_graph=True)[0])
        total = total + halves[0] * halves[1] / 2
    return (risk + weight * total) / max(1.0, weight)


def irm(model: nn.Module, x: Tensor, y: Tensor, draws: torch.Generator) -> Tensor:
    return invariance(model(x), y, 100.0)


def glean(model: nn.Module, x: Tensor, y: Tensor, draws: torch.Generator) -> Tensor:
    codes = model.encoder(x)
    return invariance(model.head(codes + normal(tuple(codes.shape), 0.5, draws)), y, 100.0)


CASES: dict[str, tuple[Any, Plain]] = {
    "adversarial-training": (sp.objectives.AdversarialTraining("linf:0.1"), adversarial_training),
    "without random start": (sp.objectives.AdversarialTraining("linf:0.1", random_start=False), from_the_input),
    "augmentation": (sp.objectives.AdversarialAugmentation("linf:0.1", steps=10, clean_weight=0.3), augmentation),
    "trades": (sp.objectives.TRADES("linf:0.1"), trades),
    "transfer-adv-d": (sp.objectives.TransferAdvD("linf:0.1", weight=5.0), transfer_adv_d),
    "smoothadv": (sp.objectives.SmoothAdv(), smoothadv),
    "stability": (sp.objectives.Stability(weight=3.0), stability),
    "macer": (sp.objectives.MACER(samples=4, weight=7.0, beta=2.0), macer),
    "consistency": (sp.objectives.Consistency(weight=4.0, entropy=0.3), consistency),
    "irm": (sp.objectives.IRM(weight=100.0, anneal=0), irm),
    "glean": (sp.objectives.GLEAN(sigma=0.5, irm_weight=100.0, anneal=0), glean),
}


@pytest.mark.parametrize("name", CASES)
def test_a_loss_is_what_its_formula_says(name: str, model: nn.Module, batch: Batch) -> None:
    objective, plain = CASES[name]
    parameters = list(model.parameters())
    expected = plain(model, batch.inputs, batch.labels, generator())
    found = objective.loss(model, batch, generator()).total
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)
    pairs = zip(torch.autograd.grad(found, parameters), torch.autograd.grad(expected, parameters), strict=True)
    for one, other in pairs:
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-5 * float(other.abs().max()))
