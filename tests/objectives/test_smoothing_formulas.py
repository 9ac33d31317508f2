"""Losses for smoothing against their papers' formulas, written again in numpy and float64."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, logsumexp, softmax
from scipy.stats import norm
from torch import nn
from toys import batch_of, generator

import shiftproof as sp

SAMPLES, COUNT, CLASSES = 6, 40, 5
DRAWS = np.random.default_rng(3)
LABELS = DRAWS.integers(CLASSES, size=COUNT)
# of every kind: sure, unsure, right and wrong ones
LOGITS = DRAWS.normal(size=(SAMPLES, COUNT, CLASSES)) * DRAWS.uniform(0.02, 0.6, size=(1, COUNT, 1))
LOGITS[:, np.arange(COUNT), LABELS] += DRAWS.uniform(-0.2, 0.8, size=COUNT)


@pytest.mark.parametrize(("gamma", "beta"), [(8.0, 16.0), (2.0, 4.0), (8.0, 1.0)])
def test_macer_of_zhai_et_al(gamma: float, beta: float) -> None:
    sigma, expected_errors, expected_shortfalls, counted = 0.5, [], [], 0
    for sample, label in enumerate(LABELS):
        expected_errors.append(-np.log(np.mean([softmax(copy)[label] for copy in LOGITS[:, sample]])))
        sharp = np.mean([softmax(beta * copy) for copy in LOGITS[:, sample]], 0)
        second, first = np.sort(sharp)[-2:]
        radius = sigma / 2 * (norm.ppf(first) - norm.ppf(second))
        counts = np.argmax(sharp) == label and radius <= sigma / 2 * gamma
        expected_shortfalls.append(sigma / 2 * gamma - radius if counts else 0.0)
        counted += counts
    assert 0 < counted < COUNT
    macer = sp.objectives.MACER(sigma=sigma, gamma=gamma, beta=beta)
    errors, shortfalls = macer.parts(torch.from_numpy(LOGITS), torch.from_numpy(LABELS))
    assert errors.numpy() == pytest.approx(np.array(expected_errors), abs=1e-12)
    assert shortfalls.numpy() == pytest.approx(np.array(expected_shortfalls), abs=1e-9)


def test_the_gradient_of_macer_is_that_of_its_formula() -> None:
    sigma, gamma, beta, weight = 0.5, 8.0, 16.0, 16.0
    macer = sp.objectives.MACER(sigma=sigma, gamma=gamma, beta=beta, weight=weight)
    logits = torch.from_numpy(LOGITS).requires_grad_()
    errors, shortfalls = macer.parts(logits, torch.from_numpy(LABELS))
    (found,) = torch.autograd.grad((errors + weight * shortfalls).sum(), logits)
    for sample in np.flatnonzero(shortfalls.detach().numpy() > 0)[:6]:
        copies, label = LOGITS[:, sample], LABELS[sample]
        soft, sharp = softmax(copies, -1), softmax(beta * copies, -1)
        mean, mean_sharp = soft.mean(0), sharp.mean(0)
        second, first = np.argsort(mean_sharp)[-2:]
        # d mean[c] / d copy = soft[c] (1[c] - soft) / samples, and d quantile(p) / dp = 1 / density(quantile(p))
        one = np.eye(CLASSES)
        error = -soft[:, [label]] * (one[label] - soft) / SAMPLES / mean[label]
        slopes = {c: 1 / norm.pdf(norm.ppf(mean_sharp[c])) for c in (first, second)}
        moved = {c: beta * sharp[:, [c]] * (one[c] - sharp) / SAMPLES for c in (first, second)}
        gap = slopes[first] * moved[first] - slopes[second] * moved[second]
        assert found[:, sample].numpy() == pytest.approx(error - weight * sigma / 2 * gap, rel=1e-6, abs=1e-9)


def test_consistency_of_jeong_and_shin() -> None:
    p = softmax(LOGITS, -1)
    mean = p.mean(0)
    disagreement = (mean * (np.log(mean) - log_softmax(LOGITS, -1))).sum(-1).mean(0)
    entropy = -(mean * np.log(mean)).sum(-1)
    errors = -log_softmax(LOGITS, -1)[:, np.arange(COUNT), LABELS].mean(0)
    found = sp.objectives.Consistency().parts(torch.from_numpy(LOGITS), torch.from_numpy(LABELS))
    for ours, theirs in zip(found, (errors, disagreement, entropy), strict=True):
        assert ours.numpy() == pytest.approx(theirs, abs=1e-12)
    # with equal weights this is the cross-entropy between the mean and each copy
    crossed = -(mean * log_softmax(LOGITS, -1)).sum(-1).mean(0)
    assert (found[1] + found[2]).numpy() == pytest.approx(crossed, abs=1e-12)


@pytest.mark.parametrize(("eps", "warmup", "step", "reached"), [(1.0, 0, 0, 1.0), (2.0, 4, 1, 1.0), (1.0, 10, 30, 1.0)])
def test_smoothadv_of_salman_et_al(eps: float, warmup: int, step: int, reached: float) -> None:
    sigma, samples, steps, count, size = 0.5, 3, 4, 8, 6
    weights = DRAWS.normal(size=(CLASSES, size)).astype(np.float32)
    inputs = torch.rand(count, 1, 1, size, generator=generator())
    labels = torch.arange(count) % CLASSES
    model = nn.Sequential(nn.Flatten(), nn.Linear(size, CLASSES, bias=False))
    with torch.no_grad():
        model[1].weight.copy_(torch.from_numpy(weights))
    noise = sigma * torch.randn((samples, count, 1, 1, size), generator=generator()).double().numpy()
    noise = noise.reshape(samples, count, size)
    clean = inputs.double().numpy().reshape(count, size)
    points = clean.copy()
    for _ in range(steps):
        logits = (points + noise) @ weights.T.astype(float)
        # -log of the mean probability of the label: copies weigh by how likely it is under each
        likely = log_softmax(logits, -1)[:, np.arange(count), labels]
        share = np.exp(likely - logsumexp(likely, 0))
        slopes = (share[..., None] * (softmax(logits, -1) - np.eye(CLASSES)[labels])).sum(0) @ weights
        change = points + 2 * reached / steps * slopes / np.linalg.norm(slopes, axis=1, keepdims=True) - clean
        change *= np.minimum(1, reached / np.linalg.norm(change, axis=1, keepdims=True))
        points = np.clip(clean + change, 0, 1)
    assert np.linalg.norm(points - clean, axis=1).min() > 0.1
    logits = (points + noise) @ weights.T.astype(float)
    expected = -log_softmax(logits, -1)[:, np.arange(count), labels].mean()
    objective = sp.objectives.SmoothAdv(sigma=sigma, eps=eps, steps=steps, samples=samples, warmup=warmup)
    found = objective.loss(model, batch_of((inputs, labels), step=step), generator())
    assert float(found.total.detach()) == pytest.approx(expected, rel=1e-4)
