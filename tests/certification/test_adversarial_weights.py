"""Weights that rounding could destroy, through every rewrite, against the plain model in float64."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.certification.checks import reference_inputs
from shiftproof.certification.sampling.bank import PIXEL_GRID
from shiftproof.certification.sampling.voting import Voter
from shiftproof.models.gradients import gradient_copy
from shiftproof.models.lipschitz import CayleyLinear
from shiftproof.models.prepared.prepare import prepare
from shiftproof.models.reference import Reference

SHAPE = (1, 8, 8)
SIGMA = 0.5
HUGE = torch.finfo(torch.float32).max


def _linear(inputs: int, outputs: int, seed: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    generator = torch.Generator().manual_seed(seed)
    layer.weight.data = torch.randn(outputs, inputs, generator=generator) / inputs**0.5
    layer.bias.data = 0.1 * torch.randn(outputs, generator=generator)
    return layer


def _masked(bias: float) -> nn.Module:
    """A linear classifier one of whose classes is never meant."""
    layer = _linear(64, 5, 0)
    layer.bias.data[4] = bias
    return nn.Sequential(nn.Flatten(), layer)


def _hidden(change: Callable[[nn.Linear, nn.Linear], None]) -> nn.Module:
    """Two layers, of which the first has rows that the second does not need."""
    first, last = _linear(64, 16, 1), _linear(16, 4, 2)
    last.weight.data[:, :4] = 0
    change(first, last)
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), last)


def _row(value: float) -> Callable[[nn.Linear, nn.Linear], None]:
    def change(first: nn.Linear, last: nn.Linear) -> None:
        first.weight.data[0] = value

    return change


def _bias(value: float) -> Callable[[nn.Linear, nn.Linear], None]:
    def change(first: nn.Linear, last: nn.Linear) -> None:
        first.bias.data[1] = value

    return change


def _mixed(first: nn.Linear, last: nn.Linear) -> None:
    """Each row has a scale of its own, which the second layer takes back."""
    scales = torch.logspace(-12, 12, 16)
    first.weight.data *= scales[:, None]
    first.bias.data *= scales
    last.weight.data /= scales


def _one_pixel(first: nn.Linear, last: nn.Linear) -> None:
    """One weight of a used row is so large that the others matter only where its pixel is black."""
    first.weight.data[8, 0] = 1e4


def _convolutional(change: Callable[[nn.Conv2d, nn.BatchNorm2d, nn.Linear], None]) -> nn.Module:
    generator = torch.Generator().manual_seed(3)
    conv, norm_, last = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), _linear(8, 4, 4)
    conv.weight.data = 0.3 * torch.randn(conv.weight.shape, generator=generator)
    assert norm_.running_mean is not None
    assert norm_.running_var is not None
    norm_.running_mean.normal_(generator=generator)
    norm_.running_var.uniform_(0.5, 2, generator=generator)
    last.weight.data[:, 0] = 0
    change(conv, norm_, last)
    return nn.Sequential(conv, norm_, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), last)


def _tiny_variance(conv: nn.Conv2d, norm_: nn.BatchNorm2d, last: nn.Linear) -> None:
    assert norm_.running_var is not None
    norm_.running_var[:4] = 1e-30
    norm_.weight.data[:4] = 1e-8


def _huge_filter(conv: nn.Conv2d, norm_: nn.BatchNorm2d, last: nn.Linear) -> None:
    assert norm_.running_var is not None
    conv.weight.data[1] *= 1e15
    norm_.running_var[1] = 1e30


def _unused_filter(conv: nn.Conv2d, norm_: nn.BatchNorm2d, last: nn.Linear) -> None:
    conv.weight.data[0] = 1e30


def _denormal_filter(conv: nn.Conv2d, norm_: nn.BatchNorm2d, last: nn.Linear) -> None:
    assert norm_.running_mean is not None
    assert norm_.running_var is not None
    conv.weight.data[2] *= 1e-39
    norm_.running_mean[2] = 0
    norm_.eps, norm_.running_var[2] = 0.0, 1e-38
    assert conv.bias is not None
    conv.bias.data[2] = 0


def _cayley(scale: float) -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Flatten(), CayleyLinear(64, 16), nn.ReLU(), _scaled(_linear(16, 4, 6), scale))


def _scaled(layer: nn.Linear, scale: float) -> nn.Linear:
    layer.weight.data *= scale
    layer.bias.data *= scale
    return layer


MODELS: dict[str, Callable[[], nn.Module]] = {
    "masked by the least float": lambda: _masked(-HUGE),
    "masked by -1e10": lambda: _masked(-1e10),
    "masked by -1e4": lambda: _masked(-1e4),
    "masked by minus infinity": lambda: _masked(-float("inf")),
    "an unused row of 1e4": lambda: _hidden(_row(1e4)),
    "an unused row of 1e30": lambda: _hidden(_row(1e30)),
    "an unused row of 1e-40": lambda: _hidden(_row(1e-40)),
    "an unused row of zeros": lambda: _hidden(_row(0.0)),
    "an unused bias of 1e10": lambda: _hidden(_bias(1e10)),
    "an unused bias of -1e30": lambda: _hidden(_bias(-1e30)),
    "mixed scales": lambda: _hidden(_mixed),
    "one huge weight": lambda: _hidden(_one_pixel),
    "tiny logits": lambda: nn.Sequential(nn.Flatten(), _scaled(_linear(64, 4, 7), 1e-30)),
    "denormal logits": lambda: nn.Sequential(nn.Flatten(), _scaled(_linear(64, 4, 7), 1e-38)),
    "huge logits": lambda: nn.Sequential(nn.Flatten(), _scaled(_linear(64, 4, 7), 1e30)),
    "normalised, a tiny deviation": lambda: sp.Normalized(_hidden(_row(1e4)), [0.5], [1e-6]),
    "a tiny variance": lambda: _convolutional(_tiny_variance),
    "a huge filter": lambda: _convolutional(_huge_filter),
    "an unused filter of 1e30": lambda: _convolutional(_unused_filter),
    "a denormal filter": lambda: _convolutional(_denormal_filter),
    "cayley": lambda: _cayley(1.0),
    "cayley, tiny head": lambda: _cayley(1e-20),
}


def _domain(model: nn.Module) -> sp.Domain:
    generator = torch.Generator().manual_seed(9)
    inputs = torch.randint(0, 256, (24, *SHAPE), generator=generator) / 255.0
    inputs[:8, 0, 0, 0] = 0
    with torch.no_grad():
        logits = model(inputs)
    return sp.Domain.from_arrays("d", inputs, np.zeros(24, int), [str(k) for k in range(logits.shape[1])])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("sigma", [0.12, 1.0])
def test_what_votes_is_the_model_in_float64(name: str, sigma: float) -> None:
    """Through the path that votes: placed images, placed noise, every rewrite; the plain model shares none of it."""
    model = MODELS[name]().eval()
    domain = _domain(model)
    prepared = prepare(model, SHAPE, reference=Reference.of(model, reference_inputs(domain)))
    voter = Voter(prepared, sp.noise.Gaussian(sigma), SHAPE, len(domain.classes))
    draws = np.random.default_rng(0).standard_normal((128, 64))
    exact, plain = copy.deepcopy(model).double(), copy.deepcopy(model)
    noise = torch.from_numpy(np.rint(draws * sigma * PIXEL_GRID) / PIXEL_GRID).view(128, *SHAPE)
    placed, flipped = voter.place_noise(draws), 0
    for image in domain.tensors()[0]:
        steps = torch.round(image.double() * PIXEL_GRID) / PIXEL_GRID
        with torch.no_grad():
            truth, own = exact(steps + noise), plain((steps + noise).float()).double()
        given = voter.outputs(voter.place_image(image[None]), placed, 128).double()
        _compare(given, truth, own)
        flipped += int((given.argmax(1) != truth.argmax(1)).sum())
    # a flip is a tie of the float32 model
    assert flipped <= 3


def _compare(given: Tensor, truth: Tensor, own: Tensor) -> None:
    """Off by no more than the model's own float32 is, or a thousandth of what would change an answer."""
    lead = truth.topk(2, 1).values
    room = truth.amax(1, keepdim=True) - truth + (lead[:, :1] - lead[:, 1:]).mean()
    off = torch.where(given == truth, 0.0, (given - truth).abs())
    allowed = 1e-3 * room + 4 * (own - truth).nan_to_num(0, 0, 0).abs().amax(0)
    assert bool((off <= allowed).all())


@pytest.mark.parametrize("bias", [-HUGE, -1e10, -1e6])
def test_radii_behind_a_masked_class_are_no_larger_than_the_truth(bias: float) -> None:
    model = _masked(bias).eval()
    domain = _domain(model)
    certificates = sp.certify(
        model, domain, sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(SIGMA), n=2_000), seed=0
    )
    layer = model[1]
    weight, offset = layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()
    inputs = domain.tensors()[0].flatten(1).double().numpy()
    draws = np.random.default_rng(1).standard_normal((20_000, 64)) * SIGMA
    for row, one in enumerate(inputs):
        shares = np.bincount(((one + draws) @ weight.T + offset).argmax(1), minlength=5) / len(draws)
        if certificates.prediction[row] >= 0:
            best, second = np.sort(shares)[::-1][:2]
            most = SIGMA / 2 * (norm.ppf(min(best, 1 - 1e-5)) - norm.ppf(max(second, 1e-5)))
            assert certificates.prediction[row] == shares.argmax()
            assert certificates.radius[row] <= most + 0.03


def test_an_unused_hidden_unit_of_large_weights_changes_no_vote() -> None:
    """On 3x64x64, where one unit for all rows left nothing of the others."""
    generator = torch.Generator().manual_seed(0)
    first, last = _linear(12_288, 33, 3), _linear(33, 3, 4)
    last.weight.data[:, 0] = 0
    inputs = torch.rand(8, 3, 64, 64, generator=generator)
    certificates = []
    for value in (1e4, 0.0):
        first.weight.data[0] = value
        model = nn.Sequential(nn.Flatten(), first, nn.ReLU(), last).eval()
        data = (inputs, torch.zeros(8, dtype=torch.long))
        certificates.append(
            sp.certify(model, data, sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=200), seed=0)
        )
    assert np.array_equal(certificates[0].chosen, certificates[1].chosen)
    assert np.abs(certificates[0].count - certificates[1].count).max() <= 1


@pytest.mark.parametrize(
    "name", [name for name in MODELS if "filter" in name or "variance" in name or "cayley" in name]
)
def test_copies_for_gradients_have_the_gradients_of_the_model_in_float64(name: str) -> None:
    """An attack on a copy that differs would find nothing, and call that robust."""
    model = MODELS[name]().eval().requires_grad_(False)
    inputs = _domain(model).tensors()[0]
    slopes = []
    for one, points in ((gradient_copy(model, inputs), inputs), (copy.deepcopy(model).double(), inputs.double())):
        moving = points.clone().requires_grad_()
        logits = one(moving)
        (slope,) = torch.autograd.grad((logits[:, 0] - logits[:, 1]).sum(), moving)
        slopes.append(slope.double().flatten(1))
    apart, largest = (slopes[0] - slopes[1]).abs().amax(1), slopes[1].abs().amax(1)
    assert bool((apart <= 1e-3 * largest).all())


def test_a_masked_class_does_not_excuse_a_copy_for_gradients() -> None:
    """A hook that tracing loses halves what matters, beside a class of -1e10."""
    model = _convolutional(lambda conv, norm_, last: last.bias.data.__setitem__(3, -1e10)).eval()
    model[1].register_forward_hook(lambda _module, _inputs, output: 0.5 * output)
    inputs = _domain(model).tensors()[0]
    with torch.no_grad():
        assert torch.allclose(gradient_copy(model, inputs)(inputs)[:, :3], model(inputs)[:, :3], rtol=1e-4)
