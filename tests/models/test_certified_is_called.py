"""What is certified is what a call of the model does: hooks, patched methods and branches that tracing does not see."""

from __future__ import annotations

import types
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.errors import ModelError, NotAFunction
from shiftproof.models.layers import Normalize

FAR = 3.25
INPUTS = torch.randint(0, 256, (12, 1, 6, 6), generator=torch.Generator().manual_seed(1)) / 255.0


def _net(bias: float = 6.0, scale: float = 3.0) -> nn.Sequential:
    generator = torch.Generator().manual_seed(1)
    layer = nn.Linear(36, 2)
    layer.weight.data = scale * (2 * torch.rand(2, 36, generator=generator) - 1) / 6
    layer.bias.data = torch.tensor([bias, 0.0])
    return nn.Sequential(nn.Flatten(), layer)


def _guarded(inputs: Tensor, logits: Tensor) -> Tensor:
    """Other answers where a pixel is far out, which noise makes one in a few."""
    return torch.where((inputs.flatten(1).amax(1) > FAR)[:, None], logits.flip(1), logits)


def hook_on_the_whole() -> nn.Module:
    model = _net()
    model.register_forward_hook(lambda _module, inputs, output: _guarded(inputs[0], output))
    return model


def hook_on_a_layer() -> nn.Module:
    model = _net()
    model[1].register_forward_hook(lambda _module, inputs, output: _guarded(inputs[0], output))
    return model


def patched_forward() -> nn.Module:
    model = _net()
    plain = model.forward
    model.forward = types.MethodType(lambda _self, inputs: _guarded(inputs, plain(inputs)), model)  # type: ignore[method-assign]
    return model


class Calling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = _net()

    def __call__(self, inputs: Tensor) -> Tensor:
        return _guarded(inputs, super().__call__(inputs))

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.net(inputs)
        return logits


class Asking(Calling):
    __call__ = nn.Module.__call__

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.net(inputs)
        return _guarded(inputs, logits) if isinstance(inputs, Tensor) and type(inputs) is Tensor else logits


class Trying(Calling):
    __call__ = nn.Module.__call__

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.net(inputs)
        try:
            far = bool((inputs.flatten(1).amax(1) > FAR).any())
        except Exception:  # noqa: BLE001
            return logits
        return _guarded(inputs, logits) if far else logits


class Proxied(Calling):
    """Asks in a helper, where no list of names finds it."""

    __call__ = nn.Module.__call__

    def forward(self, inputs: Tensor) -> Tensor:
        return _told_apart(inputs, self.net(inputs))


def _told_apart(inputs: Tensor, logits: Tensor) -> Tensor:
    return _guarded(inputs, logits) if isinstance(inputs, Tensor) else logits


def _plain_votes(model: nn.Module, sigma: float, count: int = 1_000) -> np.ndarray:
    """Majority votes by the model itself, each input alone in its batch of others' noise."""
    noise = torch.from_numpy(np.random.default_rng(0).standard_normal((count, 1, 6, 6))).float() * sigma
    with torch.no_grad():
        return np.stack([torch.bincount(model(one + noise).argmax(1), minlength=2).numpy() for one in INPUTS])


@pytest.mark.parametrize(
    "build",
    [hook_on_the_whole, hook_on_a_layer, patched_forward, Calling, Asking, Trying],
    ids=lambda one: one.__name__,
)
def test_what_tracing_does_not_see_is_certified_all_the_same(build: Callable[[], nn.Module]) -> None:
    model = build().eval()
    smoothing = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(1.0), n=1_000)
    given = sp.certify(model, (INPUTS, torch.zeros(12, dtype=torch.long)), smoothing, seed=3)
    shares = _plain_votes(model, 1.0)[np.arange(12), given.chosen] / 1_000
    # five deviations of two counts of a thousand
    assert np.abs(given.count / 1_000 - shares).max() < 5 * (0.5 / 1_000) ** 0.5


def test_what_no_list_of_names_finds_is_found_by_single_votes() -> None:
    smoothing = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(1.0), n=1_000)
    with pytest.raises(NotAFunction, match="votes that were compared"):
        sp.certify(Proxied().eval(), (INPUTS, torch.zeros(12, dtype=torch.long)), smoothing, seed=3)


class OneImage(nn.Module):
    """Takes the mean of a batch that is of one image, as batches of votes are."""

    def __init__(self) -> None:
        super().__init__()
        self.net = _net(0.0, 6.0)

    def forward(self, inputs: Tensor) -> Tensor:
        alike = bool(len(inputs) > 2 and inputs.std(0).mean() < 0.2)
        logits: Tensor = self.net(inputs.mean(0, keepdim=True).expand_as(inputs) if alike else inputs)
        return logits


class Middle(nn.Module):
    """Gives one class to the middle of large batches."""

    def __init__(self) -> None:
        super().__init__()
        self.net = _net(0.0, 6.0)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.net(inputs).clone()
        if len(inputs) >= 100:
            logits[30:-30] = torch.tensor([1.0, 0.0])
        return logits


class Mixed(nn.Module):
    """Mixes a batch behind an offset so large that rounding hides it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = _net(0.0, 6.0)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.net(0.3 * inputs + 0.7 * inputs.mean(0, keepdim=True)) + 1e6
        return logits


COUNTS = np.zeros(3, np.int64)


class CountingInAnArray(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net, self.seen = _net(0.0, 6.0), np.zeros(2)

    def forward(self, inputs: Tensor) -> Tensor:
        self.seen[0] += 1
        logits: Tensor = self.net(inputs)
        return logits


class CountingOutside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = _net(0.0, 6.0)

    def forward(self, inputs: Tensor) -> Tensor:
        COUNTS[1] += 1
        logits: Tensor = self.net(inputs)
        return logits


class CountingForAll(nn.Module):
    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.net = _net(0.0, 6.0)

    def forward(self, inputs: Tensor) -> Tensor:
        type(self).calls += 1
        logits: Tensor = self.net(inputs)
        return logits


class Rolling(nn.Module):
    """Remembers in a buffer whose sum stays the same."""

    def __init__(self) -> None:
        super().__init__()
        self.net = _net(0.0, 6.0)
        self.register_buffer("hot", torch.eye(8)[0])

    def forward(self, inputs: Tensor) -> Tensor:
        self.hot.copy_(self.hot.roll(1))
        logits: Tensor = self.net(inputs)
        return logits


class InGradients(nn.Module):
    """Answers otherwise while gradients are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.net = _net(0.0, 6.0)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.net(inputs)
        return -logits if torch.is_grad_enabled() else logits


@pytest.mark.parametrize(
    ("build", "sigma"),
    [
        (OneImage, 0.1),
        (Middle, 0.25),
        (Mixed, 0.25),
        (CountingInAnArray, 0.25),
        (CountingOutside, 0.25),
        (CountingForAll, 0.25),
        (Rolling, 0.25),
        (InGradients, 0.25),
    ],
)
def test_what_is_no_function_of_one_input_is_refused(build: type[nn.Module], sigma: float) -> None:
    smoothing = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(sigma), n=1_000)
    with pytest.raises(ModelError):
        sp.certify(build().eval(), (INPUTS, torch.zeros(12, dtype=torch.long)), smoothing, seed=3)


def test_medians_are_of_what_a_call_does() -> None:
    median = sp.certifiers.MedianSmoothing("logits", sigma=1.0, samples=400)
    labels = torch.zeros(12, dtype=torch.long)
    given = sp.certify(hook_on_the_whole().eval(), (INPUTS, labels), median, seed=3)
    plain = sp.certify(Asking().eval(), (INPUTS, labels), median, seed=3)
    assert np.array_equal(given.count, plain.count)
    with pytest.raises(NotAFunction, match="gives other values"):
        sp.certify(Proxied().eval(), (INPUTS, labels), median, seed=3)


def test_a_negative_deviation_makes_no_small_constant() -> None:
    """Two normalisations by -10 and 0.1 stretch one channel a hundredfold."""
    layers = [Normalize([0.0, 0.0], [1.0, 1.0]) for _ in range(2)]
    for layer in layers:
        layer.std.copy_(torch.tensor([-10.0, 0.1]).reshape(layer.std.shape))
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(32, 2)).eval()
    inputs = torch.rand(6, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    given = sp.certify(model, (inputs, torch.zeros(6, dtype=torch.long)), sp.certifiers.LipschitzMargin())
    slope = torch.autograd.functional.jacobian(lambda one: model(one[None])[0].diff(), inputs[0]).flatten()
    with torch.no_grad():
        truth = (model(inputs).diff(dim=1).abs()[:, 0] / slope.norm()).numpy()
    assert (given.radius <= truth * (1 + 1e-5)).all()


def test_models_of_several_precisions_are_certified() -> None:
    class Doubled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Sequential(nn.Flatten(), nn.Linear(36, 4)), nn.Linear(4, 2).double()

        def forward(self, inputs: Tensor) -> Tensor:
            logits: Tensor = self.last(self.first(inputs).double())
            return logits

    smoothing = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=200)
    assert len(sp.certify(Doubled().eval(), (INPUTS, torch.zeros(12, dtype=torch.long)), smoothing, seed=0)) == 12
