"""Fused convolutions: the same function as the network that they replace, and left out wherever they might not be."""

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

import shiftproof as sp
from shiftproof.domains import Domain
from shiftproof.execution import Compute
from shiftproof.models.prepared.fuse import FusedConv, fuse
from shiftproof.models.prepared.prepare import prepare
from shiftproof.models.prepared.rewrite import rewrite

SHAPE = (3, 12, 12)
OPERATORS = ("_convolution_pointwise", "_convolution_pointwise_", "_reorder_convolution_weight")
pytestmark = pytest.mark.skipif(
    not all(hasattr(torch.ops.mkldnn, name) for name in OPERATORS), reason="this torch has no fused convolutions"
)


def named(name: str, **options: Any) -> nn.Module:
    domain = Domain.from_arrays("d", torch.rand(4, *SHAPE), [0, 1, 2, 0], ["a", "b", "c"])
    return sp.build_model(name, domain, **options)


def behind(*layers: nn.Module, channels: int = 8) -> nn.Module:
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 3))


class Block(nn.Module):
    """A network whose middle is any function of two convolutions, a BatchNorm and their input."""

    def __init__(self, middle: Callable[["Block", Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.norm, self.relu_inplace, self.head = nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Linear(8, 3)
        self.middle = middle

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.middle(self, self.first(inputs)).mean((2, 3)))


def used_twice(net: Block, x: Tensor) -> Tensor:
    return F.relu(net.a(F.relu(net.a(x))))


def read_twice(net: Block, x: Tensor) -> Tensor:
    hidden = net.a(x)
    return F.relu(hidden) * hidden


def overwritten_between(net: Block, x: Tensor) -> Tensor:
    x = net.norm(x)
    hidden = net.a(x)
    x = torch.relu_(x)
    return hidden + x


def overwritten_by_a_layer(net: Block, x: Tensor) -> Tensor:
    x = net.norm(x)
    hidden = net.a(x)
    x = net.relu_inplace(x)
    return net.b(hidden) + x


def read_later(net: Block, x: Tensor) -> Tensor:
    x = net.norm(x)
    return (net.a(F.relu(x)) + x) * x


def viewed_before(net: Block, x: Tensor) -> Tensor:
    x = net.norm(x)
    rows = x.flatten(2)
    total = net.a(F.relu(x)) + x
    return total * rows.amax(2)[:, :, None, None] + rows.mean()


def relu_of_what_is_read_later(net: Block, x: Tensor) -> Tensor:
    x = net.norm(x)
    active = torch.relu_(x)
    return (net.a(x) + active) * x


def doubled(net: Block, x: Tensor) -> Tensor:
    hidden = net.a(x)
    return hidden + hidden


def in_another_layout(net: Block, x: Tensor) -> Tensor:
    x = net.norm(x.contiguous())
    return net.a(F.relu(net.b(x))) + x


def downsampled(net: Block, x: Tensor) -> Tensor:
    """As torchvision orders it: the layer of the shortcut comes last."""
    hidden = net.a(F.relu(net.norm(x)))
    return F.relu(hidden + net.b(x))


# what is computed, how many convolutions are fused, and how many of these write a sum over the shortcut
def in_groups() -> nn.Module:
    block = Block(downsampled)
    block.a, block.b = nn.Conv2d(8, 8, 3, padding=1, groups=4), nn.Conv2d(8, 8, 1, groups=2)
    return block


CASES: dict[str, tuple[Callable[[], nn.Module], int, int]] = {
    "cnn": (lambda: named("cnn", width=8), 4, 0),
    "gray cnn": (lambda: named("cnn", width=8, gray=True), 4, 0),
    "preact-resnet18": (lambda: named("preact-resnet18", width=8), 20, 8),
    "wide-resnet": (lambda: named("wide-resnet", depth=10, width=2), 10, 3),
    "efficientnet-lite0": (lambda: named("efficientnet-lite0", weights="none"), 49, 9),
    "strided": (lambda: behind(nn.Conv2d(3, 8, 3, 2), nn.ReLU()), 1, 0),
    "uneven": (lambda: behind(nn.Conv2d(3, 8, (3, 5), (1, 2), (0, 2)), nn.ReLU()), 1, 0),
    "grouped": (lambda: behind(nn.Conv2d(3, 9, 3, groups=3), nn.ReLU(), nn.Conv2d(9, 8, 1), nn.ReLU()), 2, 0),
    "depthwise": (lambda: behind(nn.Conv2d(3, 6, 3, groups=3), nn.BatchNorm2d(6), nn.ReLU(), channels=6), 1, 0),
    "dilated": (lambda: behind(nn.Conv2d(3, 8, 3, dilation=2, padding=2), nn.ReLU()), 1, 0),
    "no bias": (lambda: behind(nn.Conv2d(3, 8, 3, bias=False), nn.ReLU()), 1, 0),
    "same": (lambda: behind(nn.Conv2d(3, 8, 3, padding="same", dilation=2), nn.ReLU()), 0, 0),
    "valid": (lambda: behind(nn.Conv2d(3, 8, 3, padding="valid"), nn.ReLU()), 0, 0),
    "reflect": (lambda: behind(nn.Conv2d(3, 8, 3, padding=1, padding_mode="reflect"), nn.ReLU()), 0, 0),
    "circular": (lambda: behind(nn.Conv2d(3, 8, 3, padding=1, padding_mode="circular"), nn.ReLU()), 0, 0),
    "transposed": (lambda: behind(nn.ConvTranspose2d(3, 8, 3), nn.ReLU()), 0, 0),
    "relu6": (lambda: behind(nn.Conv2d(3, 8, 3), nn.ReLU6()), 1, 0),
    "leaky": (lambda: behind(nn.Conv2d(3, 8, 3), nn.LeakyReLU(0.3)), 1, 0),
    "gelu": (lambda: behind(nn.Conv2d(3, 8, 3), nn.GELU()), 1, 0),
    "in place": (lambda: behind(nn.Conv2d(3, 8, 3), nn.ReLU(inplace=True)), 1, 0),
    "used twice": (lambda: Block(used_twice), 3, 0),
    "read twice": (lambda: Block(read_twice), 2, 0),
    "overwritten between": (lambda: Block(overwritten_between), 2, 0),
    "overwritten by a layer": (lambda: Block(overwritten_by_a_layer), 3, 0),
    "read later": (lambda: Block(read_later), 2, 0),
    "viewed before": (lambda: Block(viewed_before), 2, 0),
    "relu read later": (lambda: Block(relu_of_what_is_read_later), 2, 0),
    "downsampled": (lambda: Block(downsampled), 3, 1),
    "downsampled in groups": (in_groups, 3, 0),
    "other layout": (lambda: Block(lambda net, x: net.a(x.contiguous()) + net.norm(x)), 2, 0),
    "sum in another layout": (lambda: Block(in_another_layout), 3, 1),
    "own input": (lambda: Block(lambda net, x: net.a(x) + x), 2, 0),
    "itself": (lambda: Block(doubled), 2, 0),
    "weighted": (lambda: Block(lambda net, x: torch.add(net.a(F.relu(net.norm(x))), x, alpha=2)), 2, 0),
    "number": (lambda: Block(lambda net, x: net.a(x) + 1), 2, 0),
    "broadcast": (lambda: Block(lambda net, x: net.a(x) + net.norm(x)[:, :, :1]), 2, 0),
    "not next to the sum": (
        lambda: Block(lambda net, x: F.relu(net.b(F.relu(net.norm(x))) + (net.a(x) + net.norm(x)))),
        3,
        0,
    ),
}


BITWISE = ["cnn", "preact-resnet18", "wide-resnet", "strided", "dilated", "downsampled", "downsampled in groups"]


def seasoned(model: nn.Module) -> nn.Module:
    """In eval mode, with BatchNorm layers that do something."""
    generator = torch.Generator().manual_seed(0)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d) and layer.running_mean is not None and layer.running_var is not None:
            layer.running_mean.normal_(generator=generator)
            layer.running_var.uniform_(0.5, 2, generator=generator)
            layer.weight.data.normal_(generator=generator)
            layer.bias.data.normal_(generator=generator)
    return model.eval()


def traced(model: nn.Module) -> fx.GraphModule:
    parts = rewrite(model, SHAPE, in_place=True)
    assert parts is not None
    assert isinstance(parts.rest, fx.GraphModule)
    return parts.rest.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def images(count: int) -> Tensor:
    return (torch.rand(count, *SHAPE) + 0.5 * torch.randn(count, *SHAPE)).contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("name", CASES)
def test_what_is_fused_is_the_same_function(name: str) -> None:
    build, convolutions, sums = CASES[name]
    torch.manual_seed(0)
    model = seasoned(build())
    exact = copy.deepcopy(model).double()
    with torch.no_grad():
        plain, inputs = traced(model), images(8)
        kept, found = inputs.clone(), fuse(plain, images(8))
        fused, count = (plain, 0) if found is None else found
        assert count == convolutions
        assert sum(len(node.args) == 2 and "fused" in str(node.target) for node in fused.graph.nodes) == sums
        expected = exact(inputs.double())
        given = fused(inputs)
        assert torch.equal(inputs, kept), "inputs are not overwritten"
        assert torch.equal(given, fused(inputs)), "nor is anything else that a second call reads"
    scale = max(1.0, float(expected.abs().max()))
    assert float((given - expected).abs().max()) < 1e-5 * scale


@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"), reason="asked where it was found"
)
@pytest.mark.parametrize("name", BITWISE)
def test_no_bit_is_another(name: str) -> None:
    with torch.no_grad():
        plain = traced(seasoned(CASES[name][0]()))
        found = fuse(plain, images(16))
        assert found is not None
        for count in (16, 32):
            inputs = images(count)
            assert torch.equal(found[0](inputs), plain(inputs))


def test_batch_statistics_stay_those_of_the_batch() -> None:
    model = behind(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, track_running_stats=False), nn.ReLU()).eval()
    with torch.no_grad():
        found = fuse(traced(model), images(8))
        assert found is not None
        for count in (8, 3):
            inputs = images(count)
            assert torch.allclose(found[0](inputs), model(inputs), atol=1e-5)


@pytest.mark.parametrize("name", ["cnn", "preact-resnet18", "gray cnn"])
def test_any_number_of_inputs_gets_the_same_answers(name: str) -> None:
    model = seasoned(CASES[name][0]())
    with torch.no_grad():
        prepared = prepare(model, SHAPE)
        assert f"{CASES[name][1]} convolutions fused" in prepared.description
        inputs = images(prepared.slice_size)
        expected = copy.deepcopy(model).double()(inputs.double())
        scale = max(1.0, float(expected.abs().max()))
        for count in sorted({1, 2, 3, 7, 16, prepared.slice_size - 1, prepared.slice_size}):
            given = prepared(inputs[:count])
            assert float((given - expected[:count]).abs().max()) < 1e-5 * scale
            among_others = images(count)
            among_others[0] = inputs[0]
            assert torch.equal(prepared(among_others)[0], given[0])


def test_layers_that_are_not_what_they_seem_are_left_alone() -> None:
    class Doubled(nn.Conv2d):
        def forward(self, input: Tensor) -> Tensor:  # noqa: A002
            return 2 * super().forward(input)

    model = behind(Doubled(3, 8, 3), nn.ReLU()).eval()
    prepared = prepare(model, SHAPE)
    inputs = images(4)
    with torch.no_grad():
        assert torch.allclose(prepared(inputs), model(inputs), atol=1e-5)
    assert "fused" not in prepared.description


def without_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace())


def that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Tensor:
        raise RuntimeError("could not create a primitive")

    monkeypatch.setattr(FusedConv, "forward", fails)


def that_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    right = FusedConv.forward
    monkeypatch.setattr(FusedConv, "forward", lambda self, *given: right(self, *given) * 1.01)


def that_are_wrong_at_times(monkeypatch: pytest.MonkeyPatch) -> None:
    right = FusedConv.forward
    monkeypatch.setattr(
        FusedConv, "forward", lambda self, *given: right(self, *given) * (1.5 if len(given[0]) == 2 else 1)
    )


def that_pack_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise NotImplementedError("no kernel for this processor")

    monkeypatch.setattr(FusedConv, "__init__", fails)


@pytest.mark.parametrize(
    "spoil", [without_operators, that_fail, that_are_wrong, that_are_wrong_at_times, that_pack_nothing]
)
def test_operators_that_are_missing_or_wrong_are_not_used(
    spoil: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = seasoned(CASES["cnn"][0]())
    assert "fused" in prepare(model, SHAPE).description
    spoil(monkeypatch)
    prepared = prepare(model, SHAPE)
    assert "fused" not in prepared.description
    assert "4 BatchNorm folded" in prepared.description
    inputs = images(5)
    with torch.no_grad():
        assert torch.allclose(prepared(inputs), model(inputs), atol=1e-4)


def test_a_library_that_is_switched_off_stays_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert "fused" not in prepare(seasoned(CASES["cnn"][0]()), SHAPE).description


@pytest.mark.bf16
def test_fewer_bits_are_not_fused() -> None:
    assert "fused" not in prepare(seasoned(CASES["cnn"][0]()), SHAPE, compute=Compute("cpu", "bf16")).description


def test_a_description_is_found_in_a_guarantee() -> None:
    from shiftproof.certification.guarantees import described_classifier, smoothing_guarantee

    here = [prepare(seasoned(CASES[name][0]()), SHAPE).description for name in ("cnn", "strided")]
    on_devices = [
        "f32 on cuda, 4 BatchNorm folded, torch 2.13.0",
        "tf32 on cuda, torch 2.13.0",
        "bf16 on mps, torch 2.9",
    ]
    for description in [*here, *on_devices]:
        assert described_classifier(smoothing_guarantee(sp.noise.Gaussian(0.5), 0.001, description)) == description


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_a_number_stays_one(value: float) -> None:
    """The library's own ReLU makes 0 of it, and nobody would notice that the model gives no answer."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(4 * SHAPE[1] * SHAPE[2], 3)).eval()
    prepared = prepare(model, SHAPE)
    assert "2 convolutions fused" in prepared.description
    inputs = torch.rand(4, *SHAPE)
    inputs[0, 0, 2, 2] = value
    with torch.no_grad():
        given, plain = prepared(inputs.contiguous(memory_format=torch.channels_last)), model(inputs)
    assert torch.equal(given.isnan(), plain.isnan())
    assert bool(given[0].isnan().any())
