"""How far hidden states move: known where the encoder is linear; special tokens and padding take no part."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.domains.texts import text_domain
from shiftproof.errors import ModelError, UsageError
from shiftproof.models.text import EmbeddedTexts
from shiftproof.perturbations.text import encode
from shiftproof.probes.hidden_state import HiddenState
from shiftproof.testing.text_attacks import mean_of_words

TEXTS = ["a good film", "we saw a long and dull film about the sea", "bad"]
IDS = np.array(["a", "b", "c"], object)
LABELS = torch.tensor([0, 1, 1])


def measured(model: nn.Module, probe: HiddenState, rows: slice = slice(None)) -> dict[str, np.ndarray]:
    return probe.measure(model, encode(TEXTS)[rows], LABELS[rows], IDS[rows])


@pytest.mark.parametrize(
    ("spec", "largest"),
    # the mean over n tokens of which n - 1 move, in 6 dimensions: by hand
    [
        ("embedding-linf:0.01", lambda n: 0.01 * 6**0.5 * (n - 1) / n),
        ("embedding-l2:0.01", lambda n: 0.01 * (n - 1) ** 0.5 / n),
    ],
)
def test_the_largest_change_of_a_linear_encoder_is_found(spec: str, largest: object) -> None:
    model = mean_of_words(torch.ones(6))
    found = measured(model, HiddenState(spec, steps=20))
    tokens = EmbeddedTexts.of(model, encode(TEXTS)).tokens.real.sum(1).tolist()
    assert found["hidden_change"] == pytest.approx([largest(n) for n in tokens], rel=1e-3)  # type: ignore[operator]
    assert (found["hidden_cosine"] < 1).all()


def test_hidden_states_are_those_of_real_tokens() -> None:
    domain = text_domain("texts", TEXTS, [0, 1, 1], ["no", "yes"])
    model = sp.build_model("text-transformer", domain, width=8, heads=2, depth=1, vocabulary=64).eval()
    texts = EmbeddedTexts.of(model, encode(TEXTS))
    with torch.no_grad():
        states = texts.hidden(texts.embed())
    assert states.shape == (3, 11, 8)
    assert not states[~texts.tokens.real].any()
    assert states[texts.tokens.real].abs().amax(1).min() > 0
    assert isinstance(texts.encoder.hidden(texts.embed(), texts.tokens), Tensor)
    whole, alone = measured(model, HiddenState()), measured(model, HiddenState(), slice(2, 3))
    assert alone["hidden_change"] == pytest.approx(whole["hidden_change"][2:], rel=1e-3)
    assert (whole["hidden_change"] > 0).all()


def test_an_encoder_without_hidden_states_is_asked_for_its_representation() -> None:
    texts = EmbeddedTexts.of(mean_of_words(torch.ones(6)), encode(TEXTS))
    assert texts.encoder.hidden(texts.embed(), texts.tokens) is None
    assert torch.equal(texts.hidden(texts.embed()), texts.encoder(encode(TEXTS)))


def test_mistakes_get_a_sentence() -> None:
    digits = next(iter(sp.load_domains("digits")))
    texts = text_domain("texts", TEXTS, [0, 1, 1], ["no", "yes"])
    with pytest.raises(UsageError, match="moves embeddings of text, but 'digits' holds images"):
        HiddenState().check(nn.Flatten(), digits, None)
    with pytest.raises(ModelError, match="has no encoder of text"):
        HiddenState().check(nn.Flatten(), texts, None)
    with pytest.raises(UsageError, match="eps is 0"):
        HiddenState("embedding-l2:0")
    (finding,) = HiddenState(step=0.0001).findings()
    assert "reach 0.0003" in finding.message
