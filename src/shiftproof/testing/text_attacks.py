"""Whether an attack on text keeps its promises, on classifiers whose worst inputs are known."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.attacks import Attack, AttackResult, attack
from shiftproof.domains import Domain
from shiftproof.domains.texts import text_domain
from shiftproof.errors import ShiftproofError
from shiftproof.models import SplitModel
from shiftproof.models.text import HashTokeniser, TextEncoder, Tokens
from shiftproof.perturbations.edits import edit_distance
from shiftproof.perturbations.embedding import PARTS, EmbeddingThreat
from shiftproof.perturbations.norms import DUALS, Norm
from shiftproof.perturbations.text import decode
from shiftproof.rng import numpy_generator, torch_generator
from shiftproof.testing.require import require

__all__ = ["check_text_attack", "mean_of_words"]

_WORDS = ("good", "bad", "fine", "poor", "film", "plot", "the", "a", "we", "saw", "long", "short", "dull", "bright")
_TEXTS, _LENGTH, _WIDTH = 20, 10, 6
_MISSED, _ROUNDING = 0.05, 1e-3
"""Of the worst loss of margin, what an attack may leave, and what float32 may add."""


def check_text_attack(one: Attack) -> None:
    """Whether an attack on words or on embeddings keeps its promises.

    No farther than allowed, and predictions are what the model says there; the same for any order, any part of the
    samples, any second time; leaves the model, the global random state and wrong samples alone; takes gradients of 0.
    In embeddings, in every norm that it takes, it overturns exactly what the worst change overturns in a model that is
    linear in the mean of embeddings.
    """
    name, domain = type(one).__name__, _texts()
    model = mean_of_words(torch.linspace(-1, 1, _WIDTH))
    _check_invariance(name, one, model, domain)
    _check_untouched(name, one, domain)
    result = attack(mean_of_words(torch.zeros(_WIDTH)), domain, one)
    require(bool(np.isfinite(result.distance).all()), f"{name}: a gradient of 0 gives a distance that is no number")
    if isinstance(one.threat, EmbeddingThreat):
        _check_worst(name, one, one.threat, model, domain)
    else:
        _check_edits(name, one, model, domain)


class _Mean(TextEncoder):
    """The mean of the embeddings of all tokens, special ones included."""

    def __init__(self) -> None:
        super().__init__()
        self.tokeniser = HashTokeniser(64, 2 * _LENGTH)
        self.embedding = nn.Embedding(66, _WIDTH)
        with torch.no_grad():
            self.embedding.weight.copy_(torch.randn(66, _WIDTH, generator=torch_generator(0, "testing", "words")))

    def embed(self, tokens: Tokens) -> Tensor:
        return self.embedding(tokens.ids)  # type: ignore[no-any-return]

    def encode(self, embedded: Tensor, tokens: Tokens) -> Tensor:
        real = tokens.real[..., None].to(embedded)
        return (embedded * real).sum(1) / real.sum(1)


def mean_of_words(weights: Tensor) -> SplitModel:
    """Two classes by the sign of w.m, of the mean m of a text's embeddings: logits (-w.m / 2, w.m / 2)."""
    head = nn.Linear(_WIDTH, 2)
    with torch.no_grad():
        head.weight.copy_(torch.stack([-weights, weights]) / 2)
        head.bias.zero_()
    return SplitModel(_Mean(), head).eval()


def _texts() -> Domain:
    """Texts of some words each, with random labels."""
    generator = numpy_generator(0, "testing", "texts")
    texts = [" ".join(generator.choice(_WORDS, generator.integers(2, _LENGTH))) for _ in range(_TEXTS)]
    labels = generator.integers(0, 2, _TEXTS)
    return text_domain("texts", texts, labels, ["below", "above"])


def _check_worst(name: str, one: Attack, threat: EmbeddingThreat, model: SplitModel, domain: Domain) -> None:
    options: Any = one
    for order in get_args(Norm):
        for per in PARTS:
            gain, margin = _known(model, domain, EmbeddingThreat(order, 1.0, per))
            # of those that are right, about half can be overturned
            middle = float(np.median((margin / gain)[margin > 0]))
            try:
                within: Attack = dataclasses.replace(options, threat=EmbeddingThreat(order, middle, per))
            except ShiftproofError:
                require(order != threat.order, f"{name} does not take its own norm, {order}")
                continue
            for result in attack(model, domain, within, eps=[middle / 2, middle, 2 * middle]):
                eps, lost = result.threat.eps, result.success & (margin > 0)
                far = result.distance > eps * (1 + _ROUNDING)
                require(not far.any(), f"{name} leaves the ball of {result.threat}")
                wrong = lost & (margin > (1 + _ROUNDING) * eps * gain)
                require(not wrong.any(), f"{name} says that {result.threat} overturns what no such change does")
                missed = ~lost & (margin > 0) & (margin < (1 - _MISSED) * eps * gain)
                require(not missed.any(), f"{name} misses what the worst change within {result.threat} overturns")


def _known(model: SplitModel, domain: Domain, threat: EmbeddingThreat) -> tuple[Any, Any]:
    """What a change within a threat takes off the margin of each text at most, in closed form, and the margin."""
    inputs, labels = domain.tensors()
    assert isinstance(model.encoder, TextEncoder)
    tokens = model.encoder.tokens(inputs)
    weights = model.head.weight[1] - model.head.weight[0]  # type: ignore[index]
    own, every = tokens.words.sum(1), tokens.real.sum(1)
    dual = DUALS[threat.order]
    # over a text the change is shared by its tokens, over each token they all have a whole one
    shared = own ** (0.0 if dual == float("inf") else 1 / dual) if threat.per == "text" else own
    gain = torch.linalg.vector_norm(weights.double(), dual) * shared / every
    with torch.no_grad():
        logits = model(inputs).double()
    margin = (logits[:, 1] - logits[:, 0]) * (2 * labels - 1)
    return gain.detach().numpy(), margin.numpy()


def _check_edits(name: str, one: Attack, model: SplitModel, domain: Domain) -> None:
    result, before = attack(model, domain, one), decode(domain.tensors()[0])
    edits = [edit_distance(a.split(), b.split()) for a, b in zip(before, decode(result.inputs), strict=True)]
    require(bool((result.distance <= one.threat.eps).all()), f"{name} makes more edits than {one.threat}")
    require(bool((np.array(edits) <= result.distance).all()), f"{name} makes more edits than it says")
    with torch.no_grad():
        answers = model(result.inputs).argmax(1).numpy()
    require(np.array_equal(answers, result.predictions), f"{name}: predictions are not those of its texts")


def _check_invariance(name: str, one: Attack, model: SplitModel, domain: Domain) -> None:
    state = torch.get_rng_state()
    whole = attack(model, domain, one)
    require(torch.equal(state, torch.get_rng_state()), f"{name} draws from the global random state")
    require(_same(whole, attack(model, domain, one)), f"{name}: the same seed gives another result")
    wrong = whole.clean != whole.labels
    require(not whole.distance[wrong].any(), f"{name} changes samples that are wrong as they are")
    for what, chosen in {"order": np.arange(_TEXTS)[::-1].copy(), "company": np.array([2, 11, 5])}.items():
        part = attack(model, domain.subset(chosen), one)
        columns = {key: getattr(whole, key)[chosen] for key in ("inputs", "predictions", "distance")}
        require(_same(part, dataclasses.replace(whole, **columns)), f"{name}: the result depends on the {what}")


def _check_untouched(name: str, one: Attack, domain: Domain) -> None:
    model = mean_of_words(torch.linspace(-1, 1, _WIDTH)).train()
    model.head.eval()
    model.encoder.requires_grad_(False)

    def condition() -> tuple[list[bool], list[tuple[bool, bool]]]:
        return [m.training for m in model.modules()], [(p.requires_grad, p.grad is None) for p in model.parameters()]

    before, weights = condition(), {key: value.clone() for key, value in model.state_dict().items()}
    attack(model, domain, one)
    same = all(torch.equal(weights[key], value) for key, value in model.state_dict().items())
    require(same, f"{name} changes weights of the model")
    require(condition() == before, f"{name} changes modes of layers, or gradients of parameters")


def _same(one: AttackResult, other: AttackResult) -> bool:
    near = np.allclose(one.distance, other.distance, atol=1e-5) and torch.equal(one.inputs, other.inputs)
    return bool(near and np.array_equal(one.predictions, other.predictions))
