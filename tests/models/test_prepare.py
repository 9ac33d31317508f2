"""Prepared models: the same function, faster."""

import importlib.util
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.certification.sampling.exact import ExactLayer
from shiftproof.domains import Domain
from shiftproof.errors import ModelError, UnknownName, UsageError
from shiftproof.execution import Compute
from shiftproof.models import MODELS
from shiftproof.models.layers import Gray, Normalize
from shiftproof.models.prepared.prepare import prepare

SHAPE = (3, 16, 16)
SMALL = {"wide-resnet": {"depth": 10, "width": 2}, "efficientnet-lite0": {"weights": "none"}}


def domain() -> Domain:
    return Domain.from_arrays("d", torch.rand(4, *SHAPE), [0, 1, 2, 0], ["a", "b", "c"])


def seasoned(model: nn.Module) -> nn.Module:
    """A model whose BatchNorm layers do something."""
    generator = torch.Generator().manual_seed(0)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d) and layer.running_mean is not None and layer.running_var is not None:
            layer.running_mean.normal_(generator=generator)
            layer.running_var.uniform_(0.5, 2, generator=generator)
            layer.weight.data.normal_(generator=generator)
            layer.bias.data.normal_(generator=generator)
    return model.eval()


class Residual(nn.Module):
    """BatchNorm behind a sum, a ReLU whose input is read twice, one convolution and one ReLU used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.twice = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm1, self.norm2, self.relu, self.head = nn.BatchNorm2d(8), nn.BatchNorm2d(8), nn.ReLU(), nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        first = self.conv(inputs)
        active = self.relu(first)
        shared = self.norm1(self.twice(active))
        again = F.relu(self.twice(shared)) + first
        return self.head(self.norm2(again + active).mean((2, 3)))


class Branching(nn.Module):
    """Control flow that depends on values: it can't be traced."""

    def forward(self, inputs: Tensor) -> Tensor:
        total = inputs.flatten(1).sum(1)
        if float(total.sum()) > 1e9:
            total = -total
        return torch.stack([total, inputs.flatten(1).amax(1), inputs.flatten(1).amin(1)], 1)


class OverColumns(nn.Module):
    """A dense layer along the last axis of an image, not over all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.along, self.head = nn.Linear(16, 4), nn.Linear(3 * 16 * 4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(F.relu(self.along(inputs)).flatten(1))


def hooked() -> nn.Module:
    """A hook on the whole model, which tracing does not see."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 3))
    model.register_forward_hook(lambda _module, _inputs, output: 2 * output)
    return model


class OnlyWhenAlone(nn.Module):
    """A branch on the shape of the batch: tracing takes one side of it."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(768, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        flat = inputs.flatten(1)
        return self.head(flat if len(flat) > 0 else flat * 0)


def hooked_first() -> nn.Module:
    """A hook that makes a dense first layer something else than affine."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 16), nn.ReLU(), nn.Linear(16, 3))
    model[1].register_forward_hook(lambda _module, _inputs, output: output.relu() - 0.1)
    return model


class Optional(nn.Module):
    """Arguments that nobody gives: a traced model takes them for given."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(768, 3)

    def forward(self, inputs: Tensor, targets: Tensor | None = None) -> Tensor:
        logits = self.head(inputs.flatten(1))
        if targets is not None:
            logits = -logits
        return logits if isinstance(inputs, Tensor) else 2 * logits


class Viewing(nn.Module):
    """Views the output of a convolution as rows, which channels last does not allow."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4 * 256, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = F.relu(self.conv(inputs))
        return self.head(hidden.view(hidden.size(0), -1))


class Overwriting(nn.Module):
    """Changes its input in place."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(768, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        inputs -= 0.5
        return self.head(inputs.flatten(1))


class Never(nn.Module):
    """One class is never meant."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(768, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(inputs.flatten(1)) + torch.tensor([0.0, 0.0, -torch.inf])


def old_weight_norm() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        normed = torch.nn.utils.weight_norm(nn.Conv2d(3, 4, 3))
    return nn.Sequential(normed, nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 196, 3))


CASES = {
    "hooked": hooked,
    "hooked first": hooked_first,
    "optional": Optional,
    "viewing": Viewing,
    "overwriting": Overwriting,
    "never": Never,
    "new weight norm": lambda: nn.Sequential(
        nn.Flatten(), torch.nn.utils.parametrizations.weight_norm(nn.Linear(768, 3))
    ),
    "length": OnlyWhenAlone,
    "flattened late": lambda: nn.Sequential(nn.Flatten(2), nn.Linear(256, 2), nn.Flatten(), nn.Linear(6, 3)),
    **{
        entry.name: (lambda name=entry.name: sp.build_model(name, domain(), **SMALL.get(name, {})))
        for entry in MODELS
        if entry.cls.kind == "image"
    },
    "normalised mlp": lambda: sp.build_model("mlp", domain(), mean=[0.4, 0.5, 0.6], std=[0.2, 0.3, 0.4]),
    "normalised cnn": lambda: sp.Normalized(sp.build_model("cnn", domain()), [0.4, 0.5, 0.6], [0.2, 0.3, 0.4]),
    "gray mlp": lambda: sp.build_model("mlp", domain(), gray=True),
    "residual": Residual,
    "branching": Branching,
    "columns": OverColumns,
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(768, 3)),
    "old weight norm": old_weight_norm,
    "no bias": lambda: nn.Sequential(nn.Flatten(), nn.Linear(768, 9, bias=False), nn.ReLU(), nn.Linear(9, 3)),
    "double": lambda: nn.Sequential(nn.Flatten(), nn.Linear(768, 3)).double(),
    "front": lambda: nn.Sequential(Normalize([0.5] * 3, [0.5] * 3), Gray(), nn.Flatten(), nn.Linear(256, 3)),
    "identity first": lambda: nn.Sequential(nn.Identity(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(768, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_prepared_model_is_the_same_function(name: str) -> None:
    model = seasoned(CASES[name]())
    before = {key: value.clone() for key, value in model.state_dict().items()}
    inputs = torch.rand(8, *SHAPE) + 0.5 * torch.randn(8, *SHAPE)
    kept = inputs.clone()
    with torch.inference_mode():
        expected = model(inputs.double() if name == "double" else inputs.clone()).float()
        prepared = prepare(model, SHAPE)
        given = [prepared(inputs.clone())]
        given += [prepared(inputs.contiguous(memory_format=torch.channels_last))] if prepared.channels_last else []
        given += [] if prepared.affine is None else [prepared.rest(prepared.affine(inputs))]
    scale = max(1.0, float(expected[expected.isfinite()].abs().max()))
    assert all(bool(((one - expected).abs() < 1e-5 * scale).logical_or(one == expected).all()) for one in given)
    assert torch.equal(inputs, kept), "the inputs are not overwritten"
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items()), "nor is the model"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cnn", "4 BatchNorm folded"),
        ("normalised cnn", "4 BatchNorm folded"),
        ("preact-resnet18", "8 BatchNorm folded"),
        ("wide-resnet", "4 BatchNorm folded"),
        ("efficientnet-lite0", "49 BatchNorm folded"),
        ("mlp", "first layer split off"),
        ("normalised mlp", "first layer split off"),
    ],
)
def test_what_was_done_is_said(name: str, words: str) -> None:
    assert words in prepare(CASES[name]().eval(), SHAPE).description


@pytest.mark.parametrize(
    "name", ["gray mlp", "front", "columns", "residual", "branching", "cnn", "hooked first", "flattened late"]
)
def test_nothing_but_a_dense_beginning_is_split_off(name: str) -> None:
    assert prepare(CASES[name]().eval(), SHAPE).affine is None


@pytest.mark.parametrize("name", ["mlp", "normalised mlp", "linear", "no bias"])
def test_the_first_layer_takes_noise_and_input_apart(name: str) -> None:
    model = CASES[name]().eval()
    prepared = prepare(model, SHAPE)
    assert prepared.affine is not None
    layer = ExactLayer(prepared.affine, 65_280, most=65_280 * 4)
    steps = torch.randint(-65_280, 65_280, (2, *SHAPE)).double()
    other = torch.randint(0, 65_280, (2, *SHAPE)).double()
    apart = layer.of_noise(steps) + layer.of_input(other)
    # not near but equal: a sum of whole numbers, however it is made
    assert torch.equal(apart, layer.of_noise(steps + 7) + layer.of_input(other - 7))
    with torch.inference_mode():
        logits = prepared.rest(layer.value(apart))
        assert torch.allclose(logits, model(((steps + other) / 65_280).float()), atol=1e-4)


@pytest.mark.bf16
@pytest.mark.parametrize("name", ["mlp", "cnn", "preact-resnet18", "branching"])
def test_bf16_is_near_and_its_logits_do_not_tie(name: str) -> None:
    model = seasoned(CASES[name]())
    inputs = torch.rand(8, *SHAPE)
    with torch.inference_mode():
        expected, given = model(inputs), prepare(model, SHAPE, compute=Compute("cpu", "bf16"))(inputs)
    assert given.dtype == torch.float32
    assert float((expected - given).abs().max()) < 0.05 * max(1.0, float(expected.abs().max()))
    if name != "branching":
        assert not torch.equal(given, given.bfloat16().float())


@pytest.mark.bf16
def test_bf16_leaves_a_single_layer_alone() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 3)).eval()
    model[1].bias.data += 40
    inputs = torch.rand(64, *SHAPE)
    with torch.inference_mode():
        given = prepare(model, SHAPE, compute=Compute("cpu", "bf16"))(inputs)
        assert torch.equal(given.argmax(1), model(inputs).argmax(1))


def test_a_model_that_depends_on_the_size_of_its_batch_is_refused() -> None:
    class Crowded(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            flat = inputs.flatten(1)
            logits = torch.stack([flat.sum(1), flat.amax(1)], 1)
            return logits if inputs.shape[0] < 10 else -logits

    with pytest.raises(ModelError, match="depends on its batch"):
        prepare(Crowded().eval(), SHAPE)


def test_slices_depend_on_the_model_alone() -> None:
    assert prepare(CASES["mlp"]().eval(), SHAPE).slice_size == 512
    small, large = (
        prepare(sp.build_model("cnn", Domain.from_arrays("d", torch.rand(2, 3, s, s), [0, 1], "ab")).eval(), (3, s, s))
        for s in (32, 128)
    )
    assert small.slice_size == 32
    assert large.slice_size == 16


def test_what_can_not_be_prepared_gets_a_sentence() -> None:
    with pytest.raises(ModelError, match="does not take inputs of shape"):
        prepare(CASES["linear"]().eval(), (1, 4, 4))
    with pytest.raises(UnknownName):
        prepare(CASES["linear"]().eval(), SHAPE, compute=Compute("cpu", "f16"))  # type: ignore[arg-type]


@pytest.mark.skipif(importlib.util.find_spec("openvino") is not None, reason="OpenVINO is installed")
def test_a_missing_backend_says_how_to_get_it() -> None:
    with pytest.raises(UsageError, match=r"pip install 'shiftproof\[fast\]'"):
        prepare(CASES["cnn"]().eval(), SHAPE, compute=Compute("cpu", backend="openvino"))


@pytest.mark.skipif(importlib.util.find_spec("openvino") is None, reason="needs the extra 'fast'")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["mlp", "cnn", "residual"])
def test_openvino_computes_the_same(name: str) -> None:
    model = seasoned(CASES[name]())
    prepared = prepare(model, SHAPE, compute=Compute("cpu", backend="openvino"))
    inputs = torch.rand(prepared.slice_size, *SHAPE)
    with torch.inference_mode():
        for some in (inputs, inputs[:3]):
            assert torch.allclose(prepared(some), model(some), atol=1e-4)
    assert "OpenVINO" in prepared.description
