"""Adversarial training of text: the loss at the moved embeddings, what it trains, and that it pays."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from toys import batch_of, generator

import shiftproof as sp
from shiftproof.attacks import EmbeddingPGD
from shiftproof.models.text import EmbeddedTexts
from shiftproof.objectives import OBJECTIVES
from shiftproof.perturbations.text import encode
from shiftproof.testing.text_attacks import mean_of_words
from shiftproof.types import Batch

TEXTS = ["a good film", "we saw a long and dull film about the sea", "bad", "the plot is thin , the end is fine"]
WEIGHTS = torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0, -0.25])
NAMES = ["adversarial-training", "adversarial-augmentation", "trades", "transfer-adv", "transfer-adv-d"]


def batch() -> Batch:
    rows, labels = encode(TEXTS), torch.tensor([0, 1, 1, 0])
    return batch_of((rows[:2], labels[:2]), (rows[2:], labels[2:]))


def of(name: str, **options: Any) -> sp.objectives.Objective:
    return OBJECTIVES.create(name, {"threat": "embedding-l2:0.3", "steps": 3, **options})


@pytest.mark.parametrize(
    ("spec", "share"),
    [
        ("embedding-l2:0.3", lambda n: (n - 1) ** 0.5 / n * WEIGHTS.norm()),
        ("embedding-linf:0.3", lambda n: (n - 1) / n * WEIGHTS.abs().sum()),
    ],
)
def test_the_loss_is_that_of_the_worst_embeddings(spec: str, share: Any) -> None:
    model, data = mean_of_words(WEIGHTS).train(), batch()
    found = of("adversarial-training", threat=spec, random_start=False).loss(model, data, generator()).total
    logits, texts = model(data.inputs), EmbeddedTexts.of(model, data.inputs)
    lost = torch.stack([0.3 * share(int(n)) for n in texts.tokens.real.sum(1)])
    margin = (logits[:, 1] - logits[:, 0]) * (2 * data.labels - 1) - lost
    assert found.item() == pytest.approx(data.mean_over_domains(F.softplus(-margin)).item(), rel=1e-4)
    found.backward()
    assert model.encoder.embedding.weight.grad.any(), "the embedding is trained, too"  # type: ignore[union-attr]


def test_training_under_noise_has_the_loss_of_a_normal_margin() -> None:
    """Under noise the margin of a linear model is normal, and the mean loss an integral in one variable."""
    model, data, sigma = mean_of_words(WEIGHTS).train(), batch(), 0.8
    objective = sp.objectives.EmbeddingGaussian(sigma)
    found = [objective.loss(model, data, generator(number)).total for number in range(400)]
    logits, texts = model(data.inputs).detach(), EmbeddedTexts.of(model, data.inputs)
    margin = (logits[:, 1] - logits[:, 0]) * (2 * data.labels - 1)
    # of a text's n tokens the first is special, and never moves
    tokens = texts.tokens.real.sum(1)
    spread = sigma * WEIGHTS.norm() * (tokens - 1).sqrt() / tokens
    points, weights = (torch.from_numpy(one) for one in np.polynomial.hermite_e.hermegauss(60))
    each = F.softplus(-(margin[:, None] + spread[:, None] * points)) @ weights / (2 * np.pi) ** 0.5
    losses = torch.stack(found).detach().double()
    assert losses.std() > 0.05
    expected = data.mean_over_domains(each).item()
    assert losses.mean().item() == pytest.approx(expected, abs=4 * losses.std().item() / 400**0.5)
    found[0].backward()
    assert model.encoder.embedding.weight.grad.any(), "the embedding is trained, too"  # type: ignore[union-attr]


def test_a_model_that_is_trained_under_noise_is_selected_under_it() -> None:
    sources, _ = sp.load_domains("signed-reviews").leave_out("e=0.9")
    model = sp.build_model("text-cnn", sources, width=4, filters=4, vocabulary=64, length=32)
    recipe = {"steps": 4, "batch": 4, "evaluate_every": 2}
    fit = sp.train(model, sources, sp.objectives.EmbeddingGaussian(0.5), recipe=recipe, progress="off")
    assert all("noisy_validation" in row for row in fit.history)


@pytest.mark.parametrize("name", NAMES)
def test_objectives_with_an_inner_attack_take_it(name: str) -> None:
    model, data = mean_of_words(WEIGHTS).train(), batch()
    objective, calls = of(name), []
    hook = model.encoder.register_forward_hook(lambda *_: calls.append(1))
    loss = objective.loss(model, data, generator())
    hook.remove()
    assert len(calls) == objective.passes
    assert loss.total.isfinite()
    assert torch.equal(loss.total, objective.loss(model, data, generator()).total)
    assert all(module.training for module in model.modules())
    assert isinstance(objective.attack, EmbeddingPGD)
    assert objective.attack.threat == objective.threat  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["adversarial-training", "adversarial-augmentation", "trades", "transfer-adv"])
def test_without_a_budget_it_is_erm(name: str) -> None:
    model, data = mean_of_words(WEIGHTS), batch()
    erm = sp.objectives.ERM().loss(model, data, generator()).total
    assert torch.equal(of(name, threat="embedding-l2:0").loss(model, data, generator()).total, erm)


def test_the_published_step_is_told_to_be_short() -> None:
    objective = of("adversarial-training", threat="embedding-l2:1.0", step=0.1, random_start=False)
    (finding,) = objective.findings(None)  # type: ignore[arg-type]
    assert finding.message.startswith("3 steps of 0.1 reach 0.3 from where they start")


@pytest.mark.parametrize(
    ("model", "threat", "sentence"),
    [
        (mean_of_words(WEIGHTS), "linf:8/255", "a change of pixels, but the model reads text: give the objective"),
        (nn.Linear(4, 2), "embedding-l2:1", "has no encoder of text"),
    ],
)
def test_a_threat_that_is_not_for_the_model_gets_a_sentence(model: nn.Module, threat: str, sentence: str) -> None:
    with pytest.raises(sp.errors.ShiftproofError, match=sentence):
        of("adversarial-training", threat=threat).loss(model, batch(), generator())


def test_it_raises_accuracy_under_the_attack() -> None:
    domains = sp.load_domains("signed-reviews")
    sources, _ = domains.leave_out("e=0.9")
    test = domains["e=0.1"].subset(np.arange(150))
    recipe = {"optimiser": "adamw", "lr": 3e-3, "schedule": "linear", "batch": 32, "steps": 60, "evaluate_every": 30}

    def accuracy(objective: sp.objectives.Objective) -> tuple[float, float]:
        model = sp.build_model("text-cnn", domains, seed=0, width=16, filters=16, vocabulary=512)
        fit = sp.train(model, sources, objective, seed=0, recipe=recipe, progress="off")
        result = sp.attack(fit.model, test, EmbeddingPGD("embedding-l2:2.0", steps=5), progress="off")
        return result.clean_accuracy, result.robust_accuracy

    plain = accuracy(sp.objectives.ERM())
    robust = accuracy(sp.objectives.AdversarialTraining("embedding-l2:2.0", steps=3, random_start=False))
    assert robust[0] > plain[0] - 0.05
    assert robust[1] > plain[1] + 0.05
