"""What each objective computes, by hand and by closed form."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from toys import batch_of, generator, linear

import shiftproof as sp
from shiftproof.errors import DataError, ModelError
from shiftproof.objectives.annealing import add_penalty
from shiftproof.objectives.irm import irm_penalty, scale_slopes
from shiftproof.types import Batch

LOGITS = torch.tensor([[2.0, 0.0, -1.0], [1.0, 0.5, 0.0]], dtype=torch.float64)[:, None]
"""Two noisy copies of one input, three classes."""


@pytest.mark.parametrize(
    ("label", "beta", "shortfall"), [(0, 1.0, 0.842731), (0, 16.0, 0.103426), (1, 1.0, 0.0), (1, 16.0, 0.0)]
)
def test_macer(label: int, beta: float, shortfall: float) -> None:
    macer = sp.objectives.MACER(sigma=0.25, weight=12.0, gamma=8.0, beta=beta)
    error, found = macer.parts(LOGITS, torch.tensor([label]))
    assert float(found) == pytest.approx(shortfall, abs=5e-7)
    if label == 0:
        assert float(error) == pytest.approx(0.392839, abs=5e-7)


def test_macer_has_a_gradient_where_the_network_is_sure() -> None:
    logits = torch.tensor([[[40.0, 0.0], [9.0, 0.0], [0.3, 0.0]]], requires_grad=True)
    error, shortfall = sp.objectives.MACER(sigma=0.5).parts(logits, torch.tensor([0, 0, 0]))
    (error.sum() + shortfall.sum()).backward()
    assert bool(logits.grad.isfinite().all())
    assert shortfall.tolist()[:2] == [0.0, 0.0]
    assert float(shortfall[2].detach()) > 0


def test_consistency() -> None:
    error, disagreement, entropy = sp.objectives.Consistency().parts(LOGITS, torch.tensor([0]))
    assert float(error) == pytest.approx(0.425058, abs=5e-7)
    assert float(disagreement) == pytest.approx(0.075663, abs=5e-7)
    assert float(entropy) == pytest.approx(0.841098, abs=5e-7)
    assert float(sp.objectives.Consistency().parts(LOGITS[:1], torch.tensor([0]))[1]) == pytest.approx(0, abs=1e-12)


SCORES = torch.tensor([1.5, -0.5, 2.0, -3.0], dtype=torch.float64)
SIDES = torch.tensor([1, 1, 0, 0])


def test_irm_slope() -> None:
    logits = torch.stack([torch.zeros_like(SCORES), SCORES], 1)
    assert float(scale_slopes(logits, SIDES).mean()) == pytest.approx(0.414227, abs=5e-7)
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(F.cross_entropy(scale * logits, SIDES), scale)
    assert float(slope) == pytest.approx(float(scale_slopes(logits, SIDES).mean()))


def test_the_irm_penalty_is_unbiased_and_the_squared_mean_is_not() -> None:
    draws, size, repeats = generator(), 8, 4_000
    logits = torch.stack([torch.zeros_like(SCORES), SCORES], 1)
    slopes = scale_slopes(logits, SIDES)
    truth, variance = float(slopes.mean() ** 2), float(slopes.var(correction=0))
    chosen = torch.randint(0, 4, (repeats, size), generator=draws)
    batches = [batch_of((logits[rows], SIDES[rows])) for rows in chosen]
    found = np.array([float(irm_penalty(batch.inputs, batch)) for batch in batches])
    squared = np.array([float(scale_slopes(batch.inputs, batch.labels).mean() ** 2) for batch in batches])
    assert abs(found.mean() - truth) < 4 * found.std() / math.sqrt(repeats)
    assert squared.mean() - truth == pytest.approx(variance / size, rel=0.2)
    with pytest.raises(DataError, match="two samples of every domain"):
        irm_penalty(logits[:1], batch_of((logits[:1], SIDES[:1])))


def test_a_penalty_is_annealed() -> None:
    one = torch.tensor(1.0)
    assert float(add_penalty(one, one, weight=1e4, anneal=5, step=4)) == 2
    assert float(add_penalty(one, one, weight=1e4, anneal=5, step=5)) == pytest.approx(1 + 1e-4)
    assert float(add_penalty(one, one, weight=0.5, anneal=5, step=0)) == 1.5


def test_glean_adds_its_noise_to_the_representation() -> None:
    batch = batch_of((torch.rand(64, 1, 1, 2, generator=generator()), torch.ones(64, dtype=torch.int64)))
    seen: list[Tensor] = []

    class Head(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            seen.append(inputs.detach())
            return super().forward(inputs)

    model = sp.SplitModel(nn.Flatten(), Head(2, 2))
    sp.objectives.GLEAN(sigma=0.5).loss(model, batch, generator())
    assert float((seen[0] - batch.inputs.flatten(1)).std()) == pytest.approx(0.5, rel=0.2)
    for name in ("GLEAN", "CORAL", "TransferAdvD"):
        with pytest.raises(ModelError, match="needs a model with an encoder and a head"):
            getattr(sp.objectives, name)().loss(nn.Sequential(model), batch, generator())


def test_v_rex_and_group_dro_weigh_risks() -> None:
    model = linear([2.0, 0.0])
    easy, hard = torch.tensor([[[[0.9, 0.5]]]]), torch.tensor([[[[0.2, 0.5]]]])
    label = torch.tensor([1])
    risks = [math.log1p(math.exp(-2 * x)) for x in (0.9, 0.2)]
    mean, half = sum(risks) / 2, abs(risks[0] - risks[1]) / 2
    loss = sp.objectives.VREx(weight=0.5).loss(model, batch_of((easy, label), (hard, label)), generator())
    assert loss.total.item() == pytest.approx(mean + 0.5 * half**2, rel=1e-5)

    dro, memory = sp.objectives.GroupDRO(eta=0.5), {}
    for steps in (1, 2):
        loss = dro.loss(model, batch_of((easy, label), (hard, label), memory=memory), generator())
        grown = [math.exp(0.5 * steps * risk) for risk in risks]
        assert loss.total.item() == pytest.approx(sum(g * r for g, r in zip(grown, risks, strict=True)) / sum(grown))
        memory = loss.memory
    # by name: another order of domains means the same weights
    turned = Batch(torch.cat([hard, easy]), label.repeat(2), ("d1", "d0"), (1, 1), 2, memory)
    straight = batch_of((easy, label), (hard, label), memory=memory)
    assert dro.loss(model, turned, generator()).total.item() == pytest.approx(
        dro.loss(model, straight, generator()).total.item()
    )


def test_coral_measures_means_and_covariances() -> None:
    codes = torch.rand(50, 3, generator=generator())
    labels = torch.zeros(50, dtype=torch.int64)
    model = sp.SplitModel(nn.Identity(), nn.Linear(3, 2))

    def difference(other: Tensor) -> float:
        return float(
            sp.objectives.CORAL()
            .loss(model, batch_of((codes, labels), (other, labels)), generator())
            .parts["difference"]
        )

    assert difference(codes) == pytest.approx(0, abs=1e-9)
    assert difference(codes + 0.5) == pytest.approx(0.25, rel=1e-4)
    wider = codes.mean(0) + 2 * (codes - codes.mean(0))
    assert difference(wider) == pytest.approx(float(((4 - 1) * torch.cov(codes.T)).square().mean()), rel=1e-4)


def test_both_readings_of_transfer_noise() -> None:
    batch = batch_of((torch.full((200, 1, 28, 28), 0.5), torch.zeros(200, dtype=torch.int64)))
    seen: list[Tensor] = []
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 2))
    model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0] - 0.5))
    for reading in ("gauss", "sphere"):
        sp.objectives.TransferNoise(reading=reading, sigma=0.1, eps=0.1).loss(model, batch, generator())
    gauss, sphere = (noise.flatten(1).norm(dim=1) for noise in seen)
    assert float(gauss.mean()) == pytest.approx(2.8, rel=0.01)
    assert torch.allclose(sphere, torch.tensor(0.1), rtol=1e-4)
