"""Adversarial representations in closed form, and inputs that reach them within a budget."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from smoothed import digits
from torch import nn

import shiftproof as sp
from shiftproof.attacks import ATTACKS, Base, craft
from shiftproof.attacks.input_search import InputSearch, Searched, search_inputs, search_samples
from shiftproof.attacks.pgd import PGD
from shiftproof.attacks.representation import Representations, adversarial_representation, class_distance, linear_head
from shiftproof.domains import Domain
from shiftproof.errors import ModelError, UsageError
from shiftproof.models.lipschitz import MaxMin
from shiftproof.perturbations.threat import inside
from shiftproof.rng import numpy_generator

GENERATOR = numpy_generator(0, "tests of searches")


def by_hand(weight: np.ndarray, bias: np.ndarray, z: np.ndarray, margin: float) -> tuple[float, int, np.ndarray]:
    """O16, class by class."""
    logits = weight @ z + bias
    own, best = int(logits.argmax()), None
    for other in range(len(logits)):
        apart = weight[own] - weight[other]
        if other == own or not apart.any():
            continue
        step = (logits[own] - logits[other] + margin) / (apart @ apart)
        if best is None or step * np.linalg.norm(apart) < best[0]:
            best = (step * np.linalg.norm(apart), other, -step * apart)
    assert best is not None
    return best


def linear_model(encoder: nn.Module, width: int, classes: int = 3) -> sp.SplitModel:
    head = nn.Linear(width, classes)
    with torch.no_grad():
        head.weight.copy_(torch.from_numpy(GENERATOR.standard_normal((classes, width))))
        head.bias.copy_(-head.weight @ torch.full((width,), 0.5))
    return sp.SplitModel(encoder, head).eval()


# -------------------------------------------------------------------------------------------------- representations


def test_the_oracle() -> None:
    weight = np.array([[1.0, 0], [0, 1.0], [-1.0, -1.0]])
    found = adversarial_representation(weight, np.zeros(3), [[2.0, 1.0]])
    assert found.distance[0] == pytest.approx(0.5**0.5, abs=1e-15)
    assert (found.prediction[0], found.target[0]) == (0, 1)
    assert found.change[0].tolist() == [-0.5, 0.5]
    logits = weight @ (found.z[0] + found.change[0])
    assert logits[0] == pytest.approx(logits[1], abs=1e-12)


@pytest.mark.parametrize("margin", [0.0, 0.5])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_every_sample_and_class_at_once(classes: int, margin: float) -> None:
    weight, bias = GENERATOR.standard_normal((classes, 7)), GENERATOR.standard_normal(classes)
    z = GENERATOR.standard_normal((50, 7))
    found = adversarial_representation(weight, bias, z, margin)
    for row in range(50):
        distance, target, change = by_hand(weight, bias, z[row], margin)
        assert found.distance[row] == pytest.approx(distance, rel=1e-12)
        assert found.target[row] == target
        assert np.allclose(found.change[row], change, rtol=1e-12, atol=1e-14)
    after = (z + found.change) @ weight.T + bias
    rows = np.arange(50)
    assert np.allclose(after[rows, found.target] - after[rows, found.prediction], margin, atol=1e-10)
    assert found.reachable.value == 1
    assert "measures nothing" in found.remark


def test_equal_rows_have_no_boundary() -> None:
    weight = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = adversarial_representation(weight, [0.5, 0.0, 0.0], [[2.0, 0.0]])
    assert found.target[0] == 2
    nowhere = adversarial_representation(weight[:2], [0.5, 0.0], [[2.0, 0.0], [1.0, 3.0]])
    assert np.isinf(nowhere.distance).all()
    assert (nowhere.target == -1).all()
    assert not nowhere.change.any()
    assert nowhere.reachable.value == 0
    assert nowhere.metrics == {}


def test_what_is_normalised_does_not_see_the_scale() -> None:
    """E4.12: an encoder that shrinks everything is not less robust."""
    weight, z = GENERATOR.standard_normal((4, 6)), GENERATOR.standard_normal((80, 6))
    large, small = (
        adversarial_representation(weight, None, z),
        adversarial_representation(weight / 0.03, None, 0.03 * z),
    )
    assert small.metrics["l2"].value == pytest.approx(0.03 * large.metrics["l2"].value)
    assert small.metrics["linf"].value == pytest.approx(0.03 * large.metrics["linf"].value)
    for name in ("l2 over length", "l2 over class distance"):
        assert small.metrics[name].value == pytest.approx(large.metrics[name].value)
        assert large.metrics[name].low <= large.metrics[name].value <= large.metrics[name].high


def test_blocks_are_joined() -> None:
    weight, z = GENERATOR.standard_normal((4, 6)), GENERATOR.standard_normal((20, 6))
    labels = np.arange(20) % 4
    whole = adversarial_representation(weight, None, z, labels=labels)
    parts = [adversarial_representation(weight, None, part) for part in (z[:7], z[7:])]
    joined = Representations.joined(parts, labels)
    assert np.array_equal(joined.distance, whole.distance)
    assert joined.between_classes == pytest.approx(whole.between_classes)
    means = np.stack([z[labels == one].mean(0) for one in range(4)])
    apart = [np.linalg.norm(means[i] - means[j]) for i in range(4) for j in range(i)]
    assert whole.between_classes == pytest.approx(np.mean(apart))
    assert np.isnan(class_distance(z, np.zeros(20, np.int64)))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((np.eye(3), None, np.ones((2, 4))), "does not take representations"),
        ((np.eye(3), None, np.ones((2, 3)), -1.0), "margin is -1.0"),
        ((np.eye(3), None, np.full((2, 3), np.nan)), "not numbers"),
    ],
)
def test_what_has_no_answer_is_refused(arguments: tuple, sentence: str) -> None:
    with pytest.raises((UsageError, ModelError), match=sentence):
        adversarial_representation(*arguments)


@pytest.mark.parametrize("head", ["free", "row-l1", "row-l2", "spectral"])
def test_one_layer_heads_are_taken(head: str) -> None:
    domains = sp.load_domains("digits")
    model = sp.build_model("mlp", domains, width=16, head=head).eval()
    inputs = digits(5).tensors()[0]
    encoder, weight, bias = linear_head(model)
    with torch.no_grad():
        assert np.allclose(encoder(inputs).numpy() @ weight.T + bias, model(inputs).numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (nn.Linear(4, 2), "needs a SplitModel"),
        (sp.SplitModel(nn.Flatten(), nn.Sequential(nn.Linear(4, 4), MaxMin(), nn.Linear(4, 2))), "head_layers=1"),
    ],
)
def test_other_models_are_refused(model: nn.Module, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        linear_head(model)
    inputs = torch.rand(2, 4)
    with pytest.raises(ModelError, match=sentence):
        sp.attack(model, (inputs, model(inputs).argmax(1)), InputSearch("l2:0.1"))


# ------------------------------------------------------------------------------------------------------ input search


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("rotated", [False, True])
def test_searches_reach_the_closed_form(rotated: bool, classes: int) -> None:
    """Where the encoder moves nothing apart or together, the nearest input is the nearest representation.

    PGD heads for the class with the next logit, which of several is not always the nearest.
    """
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(12, 12, bias=False)) if rotated else nn.Flatten()
    if rotated:
        turn = np.linalg.qr(GENERATOR.standard_normal((12, 12)))[0]
        encoder[1].weight.data.copy_(torch.from_numpy(turn))
    model = linear_model(encoder, 12, classes)
    inputs = 0.4 + 0.2 * torch.from_numpy(GENERATOR.random((40, 3, 2, 2))).float()
    with torch.no_grad():
        z, labels = model.encoder(inputs), model(inputs).argmax(1)
    distance = adversarial_representation(*linear_head(model)[1:], z.numpy()).distance
    far = distance > 1e-3
    ids = [str(row) for row in range(40)]
    searches = [InputSearch("l2:1", steps=200), PGD("l2:1", steps=40, random_start=False, loss="margin")]
    for search in searches if classes == 2 else searches[:1]:
        for factor, flips in ((0.98, False), (1.03, True)):
            radii = torch.from_numpy(distance * factor).float()
            crafted = craft(Base(model), inputs, labels, search, radii=radii, ids=ids)
            assert inside(crafted - inputs, "l2", radii).all()
            changed = (Base(model).answers(crafted) != labels).numpy()
            assert (changed[far] == flips).all(), (search, factor)


def test_the_search_is_an_attack(model: nn.Module) -> None:
    domain, attack = digits(30), InputSearch("linf:0.1", steps=60)
    assert ATTACKS.create("input-search", {"threat": "linf:0.1", "steps": 60}) == attack
    results = sp.attack(model, domain, attack, eps=[0.02, 0.05, 0.1])
    accuracies = [one.robust_accuracy for one in results]
    assert all(larger <= smaller for smaller, larger in pairwise(accuracies))
    assert accuracies[-1] < results[0].clean_accuracy
    for one in results:
        assert (one.distance <= one.threat.eps * (1 + 1e-5) + 1e-7).all()
        assert float(one.inputs.min()) >= 0
        assert float(one.inputs.max()) <= 1
    few = sp.attack(model, domain.subset([20, 3]), attack, eps=[0.02, 0.05, 0.1])[-1]
    assert np.array_equal(few.predictions, results[-1].predictions[[20, 3]])
    pgd = sp.attack(model, domain, PGD("linf:0.1"), eps=0.02)
    assert abs(results[0].robust_accuracy - pgd.robust_accuracy) <= 0.2


def test_predictions_are_changed_right_or_wrong(model: nn.Module) -> None:
    domain, budgets = digits(30), [0.1, 0.02, 0.05]
    found = search_inputs(model, domain, InputSearch("linf:1", steps=60), eps=budgets, progress="off")
    wrong = (np.arange(30) % 2).astype(np.int64)
    relabelled = (domain.tensors()[0], torch.from_numpy(wrong))
    other = search_inputs(model, relabelled, InputSearch("linf:1", steps=60), eps=budgets, progress="off")
    for one, same, eps in zip(found, other, budgets, strict=True):
        assert one.threat.eps == eps
        assert np.array_equal(one.after, same.after)
        assert one.reachable.value == pytest.approx(one.changed.mean())
        assert one.reachable.low <= one.reachable.value <= one.reachable.high
        assert one.metrics["x_linf"].value == pytest.approx(one.x_linf[one.changed].mean())
        assert (one.x_linf <= eps * (1 + 1e-5) + 1e-7).all()
        assert {"z_l2", "z_linf", "z_l2 over length", "z_l2 over class distance"} <= one.metrics.keys()
        assert (one.z_linf <= one.z_l2 + 1e-9).all()
    order = np.argsort(budgets)
    assert all(set(found[a].ids[found[a].changed]) <= set(found[b].ids[found[b].changed]) for a, b in pairwise(order))
    assert "predictions changed" in repr(found[0])
    # an ordinary attack with the same budget goes farther in the space of representations
    pgd = search_inputs(model, domain, PGD("linf:1"), eps=[0.1], progress="off")[0]
    assert pgd.metrics["z_l2"].value > found[0].metrics["z_l2"].value


def test_blocks_and_groups(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    domain, attack = digits(24), InputSearch("l2:0.5", steps=30)
    (whole,) = search_inputs(model, domain, attack, progress="off")
    monkeypatch.setattr("shiftproof.domains.domain.BLOCK_SAMPLES", 7)
    (parts,) = search_inputs(model, digits(24), attack, progress="off")
    assert np.array_equal(whole.after, parts.after)
    (block,) = search_samples(model, attack, domain.tensors()[0], domain.ids, [0.5], 0)
    assert np.array_equal(block.after, whole.after)
    assert np.allclose(Searched.joined([block]).z_l2, whole.z_l2, atol=1e-5)
    patients = [str(i // 6) for i in range(24)]
    inputs, labels = domain.tensors()
    grouped = Domain.from_arrays("clinic", inputs, labels.numpy(), domain.classes, groups=patients)
    (one,) = search_inputs(model, grouped, attack, progress="off")
    assert "bootstrap" in one.reachable.method
    assert "bootstrap" not in whole.reachable.method


def test_a_head_without_a_boundary_is_left_alone() -> None:
    model = linear_model(nn.Flatten(), 4, classes=2)
    with torch.no_grad():
        model.head.weight[1] = model.head.weight[0]
        model.head.bias.copy_(torch.tensor([1.0, 0.0]))
    result = sp.attack(model, (torch.rand(3, 1, 2, 2), torch.zeros(3).long()), InputSearch("l2:1", steps=5))
    assert result.robust_accuracy == 1
    assert (result.distance == 0).all()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: InputSearch("l2:1", steps=0), "steps of InputSearch is 0"),
        (lambda: InputSearch("l2:1", lr=0.0), "lr of InputSearch is 0.0"),
        (lambda: InputSearch("l2:1", regulariser=-1.0), "regulariser of InputSearch is -1.0"),
        (lambda: InputSearch("rotation:1"), "unknown norm 'rotation'"),
        (lambda: search_inputs(linear_model(nn.Flatten(), 4), (), InputSearch("l2:1"), eps=[]), "no eps"),
        (lambda: search_inputs(linear_model(nn.Flatten(), 4), (), InputSearch("linf:1"), eps=[8]), "8/255"),
    ],
)
def test_mistakes_get_a_sentence(make: object, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert sentence in str(caught.value)


def test_a_vote_has_no_representation(model: nn.Module) -> None:
    with pytest.raises(ModelError, match="not its smoothed form"):
        sp.attack(model, digits(3), InputSearch("l2:0.1"), smoothed=sp.noise.Gaussian(0.1), samples=2, votes=5)
