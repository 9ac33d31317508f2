"""`check_model`: every architecture passes, and faulty modules are found out."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.errors import ConformanceError
from shiftproof.models import MODELS
from shiftproof.testing import check_model

DIGITS = sp.load_domains("digits")
SMALL: dict[str, dict[str, Any]] = {
    "cnn": {"width": 4},
    "cnn-cayley": {"width": 4},
    "mlp": {"width": 16},
    "mlp-cayley": {"width": 16},
    "preact-resnet18": {"width": 4},
    "wide-resnet": {"depth": 10, "width": 1},
    "efficientnet-lite0": {"weights": "none"},
}


@pytest.mark.parametrize("name", [entry.name for entry in MODELS])
def test_every_architecture_is_a_model_to_rely_on(name: str) -> None:
    known = {option: value for option, value in SMALL.get(name, {}).items() if option in MODELS[name].options}
    model = sp.build_model(name, DIGITS, **known)
    check_model(model, DIGITS)
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


def test_a_sound_module_passes_in_either_mode() -> None:
    for mode in (True, False):
        check_model(Faulty().train(mode), next(iter(DIGITS)))


@pytest.mark.parametrize("kind", [NoGradient, ZeroGradient])
def test_a_model_without_gradients_passes_where_that_is_meant(kind: type[nn.Module]) -> None:
    check_model(kind(), DIGITS, gradients=False)


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(ConformanceError, match="should be a torch.nn.Module"):
        check_model(lambda inputs: inputs, DIGITS)  # type: ignore[arg-type]
