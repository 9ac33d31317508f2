"""Lipschitz layers: what they promise, measured on dense Jacobians; bounds that are above the truth, and not far."""

import copy
import itertools
import math
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.domains import Domain
from shiftproof.errors import ModelError, UnknownConstant, UnknownName, UsageError
from shiftproof.execution import Compute
from shiftproof.models.files import fingerprint, save_model
from shiftproof.models.layers import Gray, Normalize
from shiftproof.models.lipschitz import (
    CayleyConv2d,
    CayleyLinear,
    GroupSort,
    MaxMin,
    RowL1Linear,
    RowL2Linear,
    ScaledAvgPool2d,
    SpectralLinear,
    cayley,
    frozen,
    project_l1_rows,
)
from shiftproof.models.lipschitz.constants import constants, lipschitz_bound
from shiftproof.models.lipschitz.fourier import circulate, spectrum
from shiftproof.models.lipschitz.frozen_conv import FrozenConv2d
from shiftproof.models.lipschitz.measure import measure_lipschitz
from shiftproof.models.networks.resnet import PreActBlock
from shiftproof.models.prepared.prepare import prepare
from shiftproof.models.prepared.rewrite import rewrite
from shiftproof.perturbations.threat import Norm, size
from shiftproof.types import Batch, Loss

NORMS: list[Norm] = ["l2", "linf", "l1"]
DIGITS = sp.load_domains("digits")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def jacobian(layer: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> Tensor:
    """Outputs x inputs, at a random point."""
    point = torch.rand(1, *shape, dtype=torch.float64)
    rows = torch.autograd.functional.jacobian(layer, point, vectorize=True)
    return rows.reshape(-1, point.numel())


def truth(matrix: Tensor, norm: Norm) -> float:
    return float(torch.linalg.matrix_norm(matrix, {"l2": 2, "linf": math.inf, "l1": 1}[norm]))


# ---- the Cayley transform


def test_the_transform_of_two_by_two_is_a_rotation() -> None:
    a = 0.7
    angle = -2 * math.atan(a)
    rotation = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    # U - U^T = [[0, -a], [a, 0]]
    given = cayley(torch.tensor([[0.3, -a / 2], [a / 2, -0.1]], dtype=torch.float64))
    assert torch.allclose(given, torch.tensor(rotation, dtype=torch.float64), atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (7, 3), (3, 7), (1, 4), (4, 1)])
def test_transforms_have_orthonormal_rows_or_columns(rows: int, columns: int, dtype: torch.dtype) -> None:
    matrices = 3 * torch.randn(2, 6, rows, columns, dtype=dtype)
    values = torch.linalg.svdvals(cayley(matrices))
    assert values.shape == (2, 6, min(rows, columns))
    assert torch.allclose(values, torch.ones_like(values), atol=1e-10)
    if rows >= columns:
        # the formula as published, by inverses
        upper, lower, one = matrices[..., :columns, :], matrices[..., columns:, :], torch.eye(columns, dtype=dtype)
        inverse = torch.linalg.inv(one + (skew := upper - upper.mH + lower.mH @ lower))
        published = torch.cat([inverse @ (one - skew), -2 * lower @ inverse], -2)
        assert torch.allclose(cayley(matrices), published, atol=1e-10)


@pytest.mark.parametrize(("inputs", "outputs"), [(6, 4), (5, 5), (4, 7)])
def test_dense_layers_have_singular_values_of_one(inputs: int, outputs: int) -> None:
    values = torch.linalg.svdvals(jacobian(CayleyLinear(inputs, outputs).double(), (inputs,)))
    assert torch.allclose(values, torch.ones_like(values), atol=1e-4)


@pytest.mark.parametrize("image", [(7, 7), (8, 8), (14, 14), (15, 15), (6, 9), (5, 1)])
@pytest.mark.parametrize(("inputs", "outputs"), [(2, 3), (2, 2), (3, 2)])
def test_convolutions_have_singular_values_of_one(inputs: int, outputs: int, image: tuple[int, int]) -> None:
    layer = CayleyConv2d(inputs, outputs).double()
    values = torch.linalg.svdvals(jacobian(layer, (inputs, *image)))
    ones = min(inputs, outputs) * math.prod(image)
    assert torch.allclose(values[:ones], torch.ones(ones, dtype=torch.float64), atol=1e-4)
    assert bool((values[ones:].abs() < 1e-4).all())


@pytest.mark.parametrize("side", [7, 8])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 4), (1, 6), (2, 3)])
def test_strides_are_isometries_where_there_is_room(inputs: int, outputs: int, side: int) -> None:
    layer = CayleyConv2d(inputs, outputs, stride=2).double()
    matrix = jacobian(layer, (inputs, side, side))
    assert len(matrix) == outputs * math.ceil(side / 2) ** 2
    values = torch.linalg.svdvals(matrix)
    assert float(values.max()) <= 1 + 1e-10
    # with fewer outputs than inputs, zeros that fill up an odd side cost some of the values of one
    ones = inputs * side**2 if outputs >= 4 * inputs else outputs * (side // 2) ** 2 * (side % 2 == 0)
    assert torch.allclose(values[:ones], torch.ones(ones, dtype=torch.float64), atol=1e-4)


@pytest.mark.parametrize(("kernel", "image"), [(3, (6, 5)), (1, (4, 4)), (2, (5, 4)), (5, (3, 2)), (3, (1, 1))])
def test_the_kernel_is_centred_and_wraps(kernel: int, image: tuple[int, int]) -> None:
    layer = CayleyConv2d(2, 2, kernel, bias=False).double()
    layer.raw.data.zero_()
    layer.raw.data[:, :, kernel // 2, kernel // 2] = torch.eye(2)
    inputs = torch.rand(3, 2, *image, dtype=torch.float64)
    assert torch.allclose(layer(inputs), inputs)
    layer.raw.data.normal_()
    shifted = layer(inputs.roll((1, 1), (2, 3)))
    assert torch.allclose(shifted, layer(inputs).roll((1, 1), (2, 3)))


def test_the_spectrum_is_that_of_torch_convolution() -> None:
    kernel, inputs = torch.randn(3, 2, 3, 3, dtype=torch.float64), torch.randn(4, 2, 7, 6, dtype=torch.float64)
    padded = nn.functional.pad(inputs, (1, 1, 1, 1), mode="circular")
    assert torch.allclose(circulate(spectrum(kernel, (7, 6)), inputs), nn.functional.conv2d(padded, kernel))


def test_scale_is_learned_from_the_start() -> None:
    for layer in (CayleyLinear(6, 4), CayleyConv2d(2, 3)):
        assert torch.allclose(layer.gain, layer.raw.norm())
        before = layer(torch.ones(1, 2, 4, 4) if isinstance(layer, CayleyConv2d) else torch.ones(1, 6))
        before.square().sum().backward()  # constant in an isometry, but for the bias
        assert layer.raw.grad is not None
        assert layer.gain.grad is not None
        assert float(layer.raw.grad.abs().max()) > 0
        assert set(layer.state_dict()) == {"raw", "gain", "bias"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, pytest.param(torch.bfloat16, marks=pytest.mark.bf16)])
def test_layers_work_in_any_precision(dtype: torch.dtype) -> None:
    network = nn.Sequential(CayleyConv2d(1, 4, stride=2), MaxMin(), nn.Flatten(), CayleyLinear(36, 6)).to(dtype)
    inputs = torch.rand(2, 1, 5, 5, dtype=dtype)
    outputs = network(inputs)
    assert outputs.dtype == dtype
    stored = frozen(network, (1, 5, 5))
    assert stored(inputs).dtype == dtype
    assert torch.allclose(stored(inputs), outputs, atol=0.1 if dtype == torch.bfloat16 else 1e-5)


def test_weights_are_never_stale() -> None:
    layer, other = CayleyLinear(4, 4).eval(), CayleyLinear(4, 4).eval()
    inputs = torch.rand(2, 4)
    before = layer(inputs)
    layer.load_state_dict(other.state_dict())
    assert not torch.allclose(layer(inputs), before)
    assert torch.equal(layer(inputs), other(inputs))
    layer.raw.data.mul_(-1)
    assert not torch.allclose(layer(inputs), other(inputs))


# ---- activations and pools


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("layer", [MaxMin(), GroupSort(2), GroupSort(3), GroupSort(6)], ids=repr)
def test_sorting_moves_no_pair_apart(layer: nn.Module, norm: Norm) -> None:
    first = torch.randn(20_000, 12, dtype=torch.float64)
    second = first + torch.randn(20_000, 1, dtype=torch.float64).exp() * torch.randn(20_000, 12, dtype=torch.float64)
    ratio = size(layer(first) - layer(second), norm) / size(first - second, norm)
    assert float(ratio.max()) <= 1 + 1e-12
    assert lipschitz_bound(layer, (12,), norm) == 1


def test_pairs_are_neighbours_and_the_larger_comes_first() -> None:
    images = torch.rand(2, 6, 3, 3)
    expected = images.view(2, 3, 2, 3, 3).sort(2, descending=True).values.view(2, 6, 3, 3)
    assert torch.equal(MaxMin()(images), expected)
    assert torch.equal(GroupSort(2)(images), expected)


@pytest.mark.parametrize(("layer", "count"), [(MaxMin(), 1), (MaxMin(), 3), (GroupSort(3), 4)])
def test_what_does_not_split_gets_a_sentence(layer: nn.Module, count: int) -> None:
    with pytest.raises(ModelError, match=f"{count} features do not split into groups"):
        layer(torch.rand(2, count, 2, 2))


@pytest.mark.parametrize(
    ("kernel", "stride", "expected"),
    [(2, 2, 1.0), (3, 3, 1.0), (3, 2, 2.0), (3, 1, 3.0), (2, 1, 2.0), (2, 3, 1.0)],  # CERTIFICATES, section 5
)
def test_max_pools(kernel: int, stride: int, expected: float) -> None:
    layer, shape = nn.MaxPool2d(kernel, stride), (2, 9, 9)
    assert lipschitz_bound(layer, shape) == pytest.approx(expected)
    assert lipschitz_bound(layer, shape, "linf") == 1
    assert lipschitz_bound(layer, shape, "l1") == pytest.approx(expected**2)
    # attained: one pixel that is the maximum of every window which sees it
    image = torch.zeros(1, 1, 9, 9, dtype=torch.float64)
    best = max(
        float(layer(image.index_put((*torch.tensor([[0], [0], [y], [x]]),), torch.tensor(1.0).double())).norm())
        for y, x in itertools.product(range(9), repeat=2)
    )
    assert best == pytest.approx(expected)


POOLS = {
    "mean": (nn.AvgPool2d(2), 0.5),
    "mean of 3": (nn.AvgPool2d(3), 1 / 3),
    "overlapping": (nn.AvgPool2d(3, 1, padding=1), 1.0),
    "overlapping 3/2": (nn.AvgPool2d(3, 2), None),
    "another divisor": (nn.AvgPool2d(2, divisor_override=2), 1.0),
    "over all": (nn.AdaptiveAvgPool2d(1), 1 / 6),
    "scaled": (ScaledAvgPool2d(2), 1.0),
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", POOLS)
def test_mean_pools(name: str, norm: Norm) -> None:
    layer, expected = POOLS[name]
    bound, exact = lipschitz_bound(layer, (2, 6, 6), norm), truth(jacobian(layer, (2, 6, 6)), norm)
    assert exact - 1e-9 <= bound <= 1.3 * exact
    if norm == "l2" and expected is not None:
        assert bound == pytest.approx(expected)


# ---- constants


def seasoned(layer: nn.BatchNorm2d) -> nn.BatchNorm2d:
    assert layer.running_mean is not None
    assert layer.running_var is not None
    layer.running_mean.normal_()
    layer.running_var.uniform_(0.2, 2)
    if layer.affine:
        layer.weight.data.normal_()
        layer.bias.data.normal_()
    return layer.eval()


AFFINE: dict[str, Callable[[], tuple[nn.Module, tuple[int, ...], float]]] = {
    # layer, shape, how far above the truth the bound may be in l2
    "linear": lambda: (nn.Linear(6, 9), (6,), 1 + 1e-9),
    "linear along an axis": lambda: (nn.Linear(6, 3), (2, 4, 6), 1 + 1e-9),
    "batchnorm": lambda: (seasoned(nn.BatchNorm2d(3)), (3, 4, 4), 1 + 1e-9),
    "plain batchnorm": lambda: (seasoned(nn.BatchNorm2d(3, affine=False)), (3, 4, 4), 1 + 1e-9),
    "normalisation": lambda: (Normalize([0.1, 0.2], [0.5, 0.25]), (2, 3, 3), 1 + 1e-6),
    "cayley": lambda: (CayleyConv2d(2, 3), (2, 6, 7), 1 + 1e-4),
    "cayley, stride": lambda: (CayleyConv2d(1, 4, stride=2), (1, 6, 6), 1 + 1e-4),
    "frozen cayley": lambda: (frozen(CayleyConv2d(2, 3), (2, 6, 7)), (2, 6, 7), 1 + 1e-4),
    "rows l1": lambda: (RowL1Linear(6, 4), (6,), 1 + 1e-4),
    "rows l2": lambda: (RowL2Linear(6, 4), (6,), 1 + 1e-4),
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", AFFINE)
def test_constants_are_those_of_dense_jacobians(name: str, norm: Norm) -> None:
    layer, shape, factor = AFFINE[name]()
    exact = truth(jacobian(copy.deepcopy(layer).double(), shape), norm)
    assert exact * (1 - 1e-6) <= lipschitz_bound(layer, shape, norm) <= factor * exact * (1 + 1e-6)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("side", [5, 8])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3},
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": 3, "padding": 1, "stride": 2},
        {"kernel_size": 3, "padding": "same"},
        {"kernel_size": (3, 2), "padding": (2, 0), "stride": (1, 2)},
        {"kernel_size": 3, "padding": 2, "stride": 3},
        {"kernel_size": 1, "stride": 2},
        {"kernel_size": 4, "padding": 5, "stride": 2},
        {"kernel_size": 3, "padding": 2, "dilation": 2},
        {"kernel_size": 3, "padding": 1, "groups": 2},
        {"kernel_size": 3, "padding": 1, "groups": 4, "stride": 2},
    ],
    ids=str,
)
def test_bounds_of_convolutions_are_sound_and_near(options: dict[str, object], side: int, norm: Norm) -> None:
    for _ in range(4):
        layer = nn.Conv2d(4, 4, **options).double()  # type: ignore[arg-type]
        bound, exact = (
            lipschitz_bound(layer, (4, side, side), norm),
            truth(jacobian(layer, (4, side, side)), norm),
        )
        assert exact <= bound * (1 + 1e-9)
        assert bound <= 1.5 * exact or norm != "l2"


def test_a_chain_is_a_product_and_a_layer_counts_as_often_as_it_comes() -> None:
    twice = nn.Linear(3, 3, bias=False)
    model = nn.Sequential(nn.Flatten(), twice, nn.ReLU(), twice)
    rows = constants(model, (3,), "linf")
    assert [row.layer for row in rows] == ["0", "1", "2", "3"]
    assert [row.kind for row in rows] == ["Flatten", "Linear", "ReLU", "Linear"]
    assert lipschitz_bound(model, (3,), "linf") == pytest.approx(float(twice.weight.detach().abs().sum(1).max()) ** 2)
    diagonal = nn.Linear(2, 2, bias=False)
    diagonal.weight.data = torch.diag(torch.tensor([3.0, 0.5]))
    assert lipschitz_bound(nn.Sequential(diagonal, diagonal), (2,)) == pytest.approx(9)


@pytest.mark.parametrize(
    ("std", "expected"),
    [((0.3081,), 3.246), ((0.2470, 0.2435, 0.2430), 4.115), ((0.229, 0.224, 0.225), 4.464)],  # E1.6
)
def test_normalisation_multiplies_by_one_over_the_smallest_std(std: tuple[float, ...], expected: float) -> None:
    shape = (len(std), 4, 4)
    encoder = nn.Sequential(nn.Flatten(), CayleyLinear(16 * len(std), 64), MaxMin())
    model = sp.Normalized(encoder, [0.5] * len(std), std)
    assert lipschitz_bound(model, shape) == pytest.approx(expected, abs=1e-3)
    assert measure_lipschitz(model, shape, points=2).lower >= 0.99 * expected


def test_gray_and_elementwise_layers() -> None:
    for layer, value in ((Gray(), 1), (nn.ReLU(), 1), (nn.LeakyReLU(2.0), 2), (nn.Tanh(), 1), (nn.Sigmoid(), 0.25)):
        for norm in NORMS:
            assert lipschitz_bound(layer, (2, 3, 3), norm) == value
            assert measure_lipschitz(layer, (2, 3, 3), norm, points=2).lower <= value * (1 + 1e-9)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("channels", "width", "stride"), [(3, 3, 1), (3, 4, 2)])
def test_residual_blocks(channels: int, width: int, stride: int, norm: Norm) -> None:
    block = PreActBlock(channels, width, stride).eval()
    seasoned(block.norm1)
    seasoned(block.norm2)
    measured = measure_lipschitz(block, (channels, 6, 6), norm, points=2)
    assert 0 < measured.lower <= measured.claimed
    if stride == 1:
        # a branch that is nothing leaves the shortcut
        block.conv2.weight.data.zero_()
        assert lipschitz_bound(block, (channels, 6, 6), norm) == 1


@pytest.mark.parametrize("name", ["mlp", "cnn", "preact-resnet18", "mlp-cayley", "cnn-cayley"])
def test_every_network_has_a_bound(name: str) -> None:
    model = sp.build_model(name, DIGITS, **({"width": 4} if "resnet" in name else {})).eval()
    for norm in NORMS:
        measured = measure_lipschitz(model, DIGITS.shape, norm, points=2)
        assert 0 < measured.lower <= measured.claimed
    rows = constants(model, DIGITS.shape)
    assert math.prod(row.value for row in rows) == lipschitz_bound(model, DIGITS.shape)
    assert rows[-1][:2] == ("head", "Linear")


def hooked() -> nn.Module:
    layer = nn.Linear(4, 4)
    layer.register_forward_hook(lambda _layer, _inputs, output: 2 * output)
    return layer


class Doubled(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        return 2 * super().forward(inputs)


class DoubledCayley(CayleyLinear):
    def forward(self, inputs: Tensor) -> Tensor:
        return 2 * super().forward(inputs)


@pytest.mark.parametrize(
    ("layer", "sentence"),
    [
        (nn.GELU(), r"^the constant of layer 'encoder.1' \(GELU\) is not known$"),
        (Doubled(4, 4), r"layer 'encoder.1' \(Doubled\) is not known"),
        (DoubledCayley(4, 4), r"layer 'encoder.1' \(DoubledCayley\) is not known"),
        (hooked(), r"layer 'encoder.1' \(Linear\) is not known: it has hooks"),
        (nn.BatchNorm1d(4), r"BatchNorm in train mode has no constant.*'encoder.1'"),
        (nn.BatchNorm1d(4, track_running_stats=False).eval(), "BatchNorm in train mode has no constant"),
        (nn.Dropout(), "Dropout in train mode has no constant"),
    ],
)
def test_what_is_not_known_gets_a_sentence(layer: nn.Module, sentence: str) -> None:
    model = sp.SplitModel(nn.Sequential(nn.Flatten(), layer), nn.Linear(4, 2))
    with pytest.raises(UnknownConstant, match=sentence):
        lipschitz_bound(model, (4,))


def test_more_sentences() -> None:
    with pytest.raises(UnknownConstant, match="zero padding, not 'circular'"):
        lipschitz_bound(nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular"), (1, 4, 4))
    with pytest.raises(UnknownConstant, match="same number of pixels"):
        lipschitz_bound(nn.AvgPool2d(2, ceil_mode=True), (1, 5, 5))
    with pytest.raises(UnknownConstant, match="known for output 1"):
        lipschitz_bound(nn.AdaptiveAvgPool2d(2), (1, 5, 5))
    with pytest.raises(ModelError, match=r"layer '1' \(Linear\) does not take inputs of shape \(5,\)"):
        lipschitz_bound(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), (5,))
    broken = nn.Linear(4, 2)
    broken.weight.data[0, 0] = torch.nan
    for norm in NORMS:
        with pytest.raises(UnknownConstant, match="the layer Linear is not a number"):
            lipschitz_bound(broken, (4,), norm)
    with pytest.raises(UnknownName, match="unknown norm 'l3'"):
        lipschitz_bound(nn.Linear(4, 2), (4,), "l3")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="width of model 'mlp-cayley' is 7; it should be a multiple of 2"):
        sp.build_model("mlp-cayley", DIGITS, width=7)


# ---- rows


def test_product_of_row_sums_is_above_brute_force() -> None:
    first, second = RowL2Linear(2, 2), RowL2Linear(2, 2, bias=False)
    first.raw.data, second.raw.data = torch.tensor([[0.6, 0.8], [0.8, -0.6]]), torch.tensor([[0.6, 0.8], [-0.8, 0.6]])
    first.gain.data, second.gain.data = torch.ones(2), torch.ones(2)
    assert first.bias is not None
    first.bias.data = torch.tensor([0.1, -0.2])
    network = nn.Sequential(first, MaxMin(), second).double()
    grid = torch.cartesian_prod(*[torch.linspace(-4, 4, 41, dtype=torch.float64)] * 2) + 1e-9
    slopes = torch.func.vmap(torch.func.jacrev(lambda x: network(x[None])[0]))(grid).detach()
    # rows of l2 norm 1, which the document takes for 1-Lipschitz; the numbers are those that O7 prints
    assert float(slopes[:, 0].abs().sum(-1).max()) == pytest.approx(1.24, abs=1e-6)
    assert float((slopes[:, 0] - slopes[:, 1]).abs().sum(-1).max()) == pytest.approx(2.0, abs=1e-6)
    assert lipschitz_bound(network, (2,), "linf") == pytest.approx(1.96, abs=1e-6)
    assert measure_lipschitz(network, (2,), "linf").lower > 1


def test_rows_of_l2_norm_one_are_not_one_lipschitz() -> None:
    layer = RowL2Linear(640, 2, bias=False)
    layer.raw.data = torch.ones(2, 640) * torch.tensor([[1.0], [-1.0]])
    layer.gain.data.fill_(1)
    assert lipschitz_bound(layer, (640,), "linf") == pytest.approx(25.298, abs=1e-3)
    ten = RowL2Linear(3, 10, bias=False)
    ten.raw.data, ten.gain.data = torch.ones(10, 3), torch.ones(10)
    assert lipschitz_bound(ten, (3,)) == pytest.approx(math.sqrt(10))
    random = RowL2Linear(640, 500)
    random.raw.data.normal_()
    random.gain.data.fill_(1)
    assert float(random.matrix().detach().abs().sum(1).mean()) == pytest.approx(20.19, abs=0.1)


def test_negative_gains_are_bounded_in_l1_rows_only() -> None:
    sound, published = RowL1Linear(5, 3, bound=2.0), RowL2Linear(5, 3, bound=2.0)
    for layer in (sound, published):
        layer.gain.data = torch.tensor([-50.0, 50.0, 0.5])
    sums = sound.matrix().abs().sum(1)
    assert torch.allclose(sums, torch.tensor([2.0, 2.0, 0.5]))
    assert torch.equal(sound.matrix()[0].sign(), -sound.raw[0].sign())
    assert lipschitz_bound(sound, (5,), "linf") == pytest.approx(2)
    assert lipschitz_bound(published, (5,), "linf") >= 50
    # a gain beyond the bound can come back
    sound.matrix()[0].sum().backward()
    assert sound.gain.grad is not None
    assert float(sound.gain.grad[0]) != 0


@pytest.mark.parametrize("sizes", [(6, 3), (3, 6)])
def test_a_spectral_layer_has_the_largest_singular_value_that_numpy_finds(sizes: tuple[int, int]) -> None:
    small, large = SpectralLinear(*sizes, bound=2.0).double(), SpectralLinear(*sizes, bound=2.0).double()
    with torch.no_grad():
        small.raw.mul_(0.1)
        large.raw.mul_(50)
    assert torch.equal(small.matrix(), small.raw), "what does not exceed its bound is not scaled"
    assert np.linalg.svd(large.matrix().detach().numpy(), compute_uv=False)[0] == pytest.approx(2.0)
    assert torch.allclose(large.matrix() / large.raw, large.matrix()[0, 0] / large.raw[0, 0])
    assert lipschitz_bound(large, (sizes[0],)) == pytest.approx(2.0)
    # along its own direction a scaled matrix can't grow, so that the gradient has no part of it
    large.matrix().square().sum().backward()
    assert large.raw.grad is not None
    assert float((large.raw.grad * large.raw.detach()).sum().abs()) < 1e-9


def test_a_spectral_layer_of_zeros_can_learn() -> None:
    layer = SpectralLinear(4, 2)
    torch.nn.init.zeros_(layer.raw)
    layer(torch.ones(1, 4)).sum().backward()
    assert layer.raw.grad is not None
    assert bool(layer.raw.grad.isfinite().all())
    assert float(layer.raw.grad.abs().sum()) > 0


def test_a_spectral_layer_of_huge_weights_is_scaled_and_one_of_none_is_no_number() -> None:
    layer = SpectralLinear(5, 3)
    with torch.no_grad():
        layer.raw.mul_(1e30)
    assert np.linalg.svd(layer.matrix().detach().double().numpy(), compute_uv=False)[0] == pytest.approx(1.0, rel=1e-5)
    with torch.no_grad():
        layer.raw[0, 0] = torch.inf
    assert bool(layer.matrix().isnan().all())


def test_rows_stay_below_their_bound_while_they_learn() -> None:
    network = nn.Sequential(RowL1Linear(4, 6), MaxMin(), RowL1Linear(6, 2))
    optimiser = torch.optim.Adam(network.parameters(), lr=0.1)
    inputs = torch.rand(64, 4)
    labels = (inputs[:, 0] > inputs[:, 1]).long()
    for _ in range(60):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(20 * network(inputs), labels)
        loss.backward()
        optimiser.step()
        assert lipschitz_bound(network, (4,), "linf") <= 1 + 1e-5
    assert float((network(inputs).argmax(1) == labels).float().mean()) > 0.9


@pytest.mark.parametrize(
    ("row", "bound", "expected"),
    [
        ([3.0, 1.0], 2, [2.0, 0.0]),
        ([2.0, 1.0], 2, [1.5, 0.5]),
        ([1.0, -1.0], 1, [0.5, -0.5]),
        ([0.1, 0.2], 1, [0.1, 0.2]),
    ],
)
def test_rows_are_projected(row: list[float], bound: float, expected: list[float]) -> None:
    assert torch.allclose(project_l1_rows(torch.tensor([row]), bound), torch.tensor([expected]))


# ---- measuring from below


def test_measuring_finds_the_constant_of_an_isometry() -> None:
    model = sp.build_model("mlp-cayley", DIGITS)
    measured = measure_lipschitz(model.encoder, DIGITS.shape)
    assert 0.99 <= measured.lower <= measured.claimed <= 1 + 1e-5
    assert measure_lipschitz(model.encoder, DIGITS.shape) == measured
    isometry = nn.Sequential(CayleyConv2d(1, 4, stride=2), MaxMin(), CayleyConv2d(4, 6), MaxMin())
    assert measure_lipschitz(isometry, (1, 7, 7)).lower >= 0.99


@pytest.mark.parametrize("norm", NORMS)
def test_measuring_finds_most_of_the_norm_of_a_matrix(norm: Norm) -> None:
    layer = nn.Linear(30, 20)
    measured = measure_lipschitz(layer, (30,), norm)
    assert 0.99 <= measured.lower / measured.claimed <= 1 + 1e-9


class Liar(nn.Linear):
    def lipschitz(self, norm: Norm, shape: tuple[int, ...]) -> float:
        return 1.0


class Bowl(nn.Module):
    """A slope of at most 0.8 for images in [0, 1], and more beyond."""

    def forward(self, inputs: Tensor) -> Tensor:
        return 0.4 * inputs**2

    def lipschitz(self, norm: Norm, shape: tuple[int, ...]) -> float:
        return 1.0


@pytest.mark.parametrize("norm", NORMS)
def test_a_layer_that_lies_is_found(norm: Norm) -> None:
    liar = Liar(5, 5)
    liar.weight.data = 1.01 * torch.eye(5)
    with pytest.raises(ModelError, match="at least 1.01, but 1 is claimed"):
        measure_lipschitz(nn.Sequential(liar, nn.LeakyReLU()), (5,), norm)
    with pytest.raises(ModelError, match="is claimed"), torch.no_grad():
        measure_lipschitz(nn.Linear(5, 5), (5,), norm, claimed=0.1)


def test_pairs_climb_to_where_random_points_are_not() -> None:
    with pytest.raises(ModelError, match="but 1 is claimed"):
        measure_lipschitz(Bowl(), (3,))


# ---- freezing


MODELS = {
    "mlp-cayley": lambda: sp.build_model("mlp-cayley", DIGITS),
    "cnn-cayley": lambda: sp.build_model("cnn-cayley", DIGITS),
    "rows": lambda: nn.Sequential(nn.Flatten(), RowL1Linear(64, 8), MaxMin(), RowL2Linear(8, 4, bound=0.5)),
    "spectral": lambda: nn.Sequential(nn.Flatten(), SpectralLinear(64, 8), MaxMin(), SpectralLinear(8, 12, bound=0.5)),
    "large images": lambda: nn.Sequential(CayleyConv2d(1, 4), MaxMin(), CayleyConv2d(4, 2, stride=3)),
    "one layer": lambda: CayleyConv2d(1, 3, bias=False),
}
SHAPES = {"large images": (1, 17, 20), "one layer": (1, 15, 14)}


@pytest.mark.parametrize("name", MODELS)
def test_a_frozen_model_is_the_same_function(name: str) -> None:
    model, shape = MODELS[name]().eval(), SHAPES.get(name, (1, 8, 8))
    before = copy.deepcopy(model.state_dict())
    stored = frozen(model, shape)
    assert not any(isinstance(layer, CayleyLinear | CayleyConv2d | RowL1Linear) for layer in stored.modules())
    assert pickle.dumps(model), "it can be sent to a worker"
    again = pickle.loads(pickle.dumps(stored))  # noqa: S301
    inputs = torch.rand(5, *shape)
    with torch.no_grad():
        expected = model(inputs)
        assert torch.allclose(stored(inputs), expected, atol=1e-5)
        assert torch.equal(again(inputs), stored(inputs))
        laid_out = inputs.contiguous(memory_format=torch.channels_last)
        assert torch.allclose(stored(laid_out), expected, atol=1e-5)
        assert torch.equal(frozen(model, shape)(inputs), stored(inputs))
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert rewrite(stored, shape, in_place=True) is not None, "it can be traced"
    if name not in ("rows", "spectral"):
        for row in constants(stored, shape):
            if row.kind in ("Linear", "FrozenConv2d") and row.layer != "head":
                assert row.value == pytest.approx(1, abs=1e-6)


def test_large_gains_stay_orthogonal() -> None:
    # computed in float32, ||W|| = 1e4 costs up to 2.6e-4, which the unfrozen layer does not hide
    for layer, shape in ((CayleyLinear(64, 64), (64,)), (CayleyConv2d(4, 4), (4, 8, 8))):
        layer.gain.data.fill_(1e4)
        assert lipschitz_bound(frozen(layer, shape), shape) == pytest.approx(1, abs=1e-6)
        assert 1 + 1e-6 < lipschitz_bound(layer, shape) < 1 + 1e-2


def test_a_frozen_model_keeps_its_weights_and_a_new_one_has_the_new() -> None:
    model, other = (sp.build_model("cnn-cayley", DIGITS, seed=seed).eval() for seed in (0, 1))
    inputs = torch.rand(3, 1, 8, 8)
    with torch.no_grad():
        stored = frozen(model, (1, 8, 8))
        before = stored(inputs)
        model.load_state_dict(other.state_dict())
        assert torch.equal(stored(inputs), before)
        assert torch.allclose(model(inputs), other(inputs))
        assert torch.allclose(frozen(model, (1, 8, 8))(inputs), other(inputs), atol=1e-5)
        assert torch.allclose(prepare(model, (1, 8, 8))(inputs), other(inputs), atol=1e-5)


def test_layers_used_twice_are_frozen_where_they_can_be() -> None:
    dense = CayleyLinear(4, 4)
    stored = frozen(nn.Sequential(dense, MaxMin(), dense), (4,))
    assert stored[0] is stored[2]
    assert type(stored[0]) is nn.Linear
    convolution = CayleyConv2d(1, 4, stride=2)
    shrinking = nn.Sequential(convolution, ScaledChannels(), convolution).eval()
    stored, inputs = frozen(shrinking, (1, 9, 9)), torch.rand(2, 1, 9, 9)
    assert isinstance(stored[0], CayleyConv2d), "two sizes: left as it is"
    assert torch.equal(stored(inputs), shrinking(inputs))
    hooked, own = nn.Sequential(CayleyLinear(4, 4)), nn.Sequential(DoubledCayley(4, 4))
    hooked[0].register_forward_hook(lambda _layer, _inputs, output: 2 * output)
    for changed in (hooked, own):
        assert torch.equal(frozen(changed, (4,))(torch.ones(1, 4)), changed(torch.ones(1, 4)))


class ScaledChannels(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.mean(1, keepdim=True)


def test_a_frozen_convolution_refuses_another_size() -> None:
    stored = frozen(CayleyConv2d(2, 2), (2, 6, 6))
    assert isinstance(stored, FrozenConv2d)
    with pytest.raises(RuntimeError):
        stored(torch.rand(1, 2, 7, 7))
    with pytest.raises(ModelError, match="does not take inputs of shape"):
        frozen(nn.Sequential(nn.Flatten(), CayleyLinear(4, 4)), (5,))


def test_a_model_without_such_layers_is_not_run() -> None:
    class Never(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            raise AssertionError

    assert isinstance(frozen(Never(), (1, 8, 8)), Never)


def test_frozen_does_not_touch_statistics_or_the_mode() -> None:
    model = nn.Sequential(CayleyLinear(4, 4), nn.BatchNorm1d(4)).train()
    stored = frozen(model, (4,))
    assert model.training
    assert not stored.training
    assert torch.equal(stored[1].running_mean, torch.zeros(4))
    assert int(stored[1].num_batches_tracked) == 0


@pytest.mark.parametrize("name", ["mlp-cayley", "cnn-cayley"])
@pytest.mark.parametrize("precision", ["f32", pytest.param("bf16", marks=pytest.mark.bf16)])
def test_prepared_models_agree(name: str, precision: str) -> None:
    model = sp.build_model(name, DIGITS).eval()
    inputs = torch.rand(8, *DIGITS.shape)
    prepared = prepare(model, DIGITS.shape, compute=Compute("cpu", precision))  # type: ignore[arg-type]
    with torch.inference_mode():
        assert torch.allclose(prepared(inputs), model(inputs), atol=1e-5 if precision == "f32" else 0.05)
    assert ("first layer split off" in prepared.description) == (name == "mlp-cayley")
    assert not any(isinstance(layer, CayleyLinear) for layer in getattr(prepared.rest, "modules", list)())


# ---- the networks


@pytest.mark.parametrize("name", ["mlp-cayley", "cnn-cayley"])
def test_networks_learn_save_load_and_stay_one_lipschitz(name: str, tmp_path: Path) -> None:
    model = sp.build_model(name, DIGITS, **({"width": 8} if name == "cnn-cayley" else {}))
    start = {key: value.clone() for key, value in model.named_parameters()}
    fit = sp.train(model, DIGITS, sp.objectives.ERM(), recipe={"steps": 100, "evaluate_every": 50})
    assert fit.selected.validation_accuracy > 0.85
    assert all(not torch.equal(value, start[key]) for key, value in fit.model.named_parameters())
    encoder = fit.model.encoder
    assert isinstance(encoder, nn.Module)
    assert lipschitz_bound(encoder, DIGITS.shape) == pytest.approx(1, abs=1e-4)
    assert lipschitz_bound(frozen(encoder, DIGITS.shape), DIGITS.shape) == pytest.approx(1, abs=3e-6)
    save_model(fit.model, tmp_path / "m.safetensors")
    loaded = sp.load_model(f"file:{tmp_path / 'm.safetensors'}")
    assert fingerprint(loaded) == fingerprint(fit.model)
    inputs = torch.rand(3, *DIGITS.shape)
    assert torch.equal(loaded.eval()(inputs), fit.model.eval()(inputs))


def test_training_resumes_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = {"steps": 24, "evaluate_every": 8, "batch": 16}

    def fresh() -> nn.Module:
        return sp.build_model("cnn-cayley", DIGITS, width=4)

    whole = sp.train(fresh(), DIGITS, recipe=recipe)
    original, calls = sp.objectives.ERM.loss, itertools.count(1)

    def interrupted(self: object, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        if next(calls) == 14:
            raise KeyboardInterrupt
        return original(self, model, batch, generator)

    with monkeypatch.context() as patch:
        patch.setattr(sp.objectives.ERM, "loss", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sp.train(fresh(), DIGITS, recipe=recipe, checkpoint=tmp_path / "c", checkpoint_seconds=0)
    resumed = sp.train(fresh(), DIGITS, recipe=recipe, checkpoint=tmp_path / "c")
    assert fingerprint(resumed.model) == fingerprint(whole.model)


@pytest.mark.parametrize("shape", [(1, 8, 8), (2, 14, 14), (3, 9, 13)])
def test_encoders_are_one_lipschitz_at_any_size(shape: tuple[int, ...]) -> None:
    domain = Domain.from_arrays("d", torch.rand(2, *shape), [0, 1], "ab")
    encoder = sp.build_model("cnn-cayley", domain, width=6).encoder
    measured = measure_lipschitz(encoder, shape, points=2)
    assert measured.claimed == pytest.approx(1, abs=1e-5)
    assert measured.lower > 0.3


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_pairs_are_sorted_in_training_as_in_evaluation_with_the_same_gradient() -> None:
    inputs = torch.randn(7, 6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    weights = torch.randn(7, 6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    layer, values, gradients = MaxMin(), [], []
    for training in (True, False):
        values.append(layer.train(training)(inputs))
        gradients.append(torch.autograd.grad((values[-1] * weights).sum(), inputs)[0])
    assert torch.equal(*values)
    assert torch.equal(*gradients)
    assert torch.autograd.gradgradcheck(layer.train(), (inputs,))
    assert torch.autograd.gradcheck(layer.train(), (inputs,), check_forward_ad=True)
