"""Certification and evaluation on a pretended accelerator: tensors without numbers that know which device they are on.

There is no accelerator here. Under torch's FakeTensorMode an operation on tensors of two devices fails, as it would on
one; what is computed is not looked at, only where. Numbers are compared on the CPU, by other tests. Gradients can't be
asked for: torch ends the process where it is not built for the device.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.func import functional_call
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

import shiftproof as sp
from shiftproof.attacks.victim import Base, Smoothed
from shiftproof.certification.sampling.bank import Block, draw_block
from shiftproof.certification.sampling.voting import Voter
from shiftproof.models.prepared.prepare import Prepared, prepare
from shiftproof.models.prepared.slices import Slices
from shiftproof.perturbations.noise import as_noise
from shiftproof.perturbations.threat import project, steepest

CUDA = torch.device("cuda")
BY_HAND = {"__getitem__", "contiguous", "float", "double"}
IMAGES = {"mlp": (1, 8, 8), "cnn": (3, 16, 16), "preact-resnet18": (3, 16, 16)}


class Moves(TorchFunctionMode):
    """Moves a tensor to the pretended device, which torch refuses where it is not built for it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.numpy and not isinstance(args[0], FakeTensor):
            # inside the mode it would be a copy without numbers, in whatever memory that has
            with _disable_current_modes():
                return args[0].numpy()
        if func is torch.Tensor.to:
            given = [*args[1:], *kwargs.values()]
            target = next((one.device if isinstance(one, Tensor) else one for one in given if _says_where(one)), None)
            if target is not None and torch.device(target).type == "cuda":
                dtype = next(
                    (one if isinstance(one, torch.dtype) else one.dtype for one in given if _says_kind(one)), None
                )
                return torch.empty(args[0].shape, dtype=dtype or args[0].dtype, device=CUDA)
        if getattr(func, "__name__", "") in BY_HAND and args[0].device.type == "cuda":
            # these ask torch for the device itself: where they lead is found out by a twin without a device
            shadow = func(*(_twin(one) for one in args), **kwargs)
            return torch.empty(shadow.shape, dtype=shadow.dtype, device=CUDA)
        return func(*args, **kwargs)


def _twin(one: Any) -> Any:
    if isinstance(one, tuple):
        return tuple(map(_twin, one))
    return torch.empty(one.shape, dtype=one.dtype, device="meta") if isinstance(one, Tensor) else one


def _says_where(one: object) -> bool:
    return isinstance(one, torch.device | str | Tensor)


def _says_kind(one: object) -> bool:
    return isinstance(one, torch.dtype | Tensor)


@contextmanager
def pretended() -> Iterator[None]:
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad(), Moves():
        yield


def there(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The model with its weights on the pretended device."""
    weights = {name: value.to(CUDA) for name, value in model.state_dict().items()}
    return lambda inputs: functional_call(model, weights, (inputs,))


def unfused(model: nn.Module, domain: sp.Domain) -> Prepared:
    """As it is prepared for an accelerator: nothing is fused by the CPU's library."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends.mkldnn, "enabled", False)
        return prepare(model, domain.shape)


def on_cuda(prepared: Prepared) -> Prepared:
    assert isinstance(prepared.rest, nn.Module)
    first = None if prepared.first is None else there(prepared.first)
    affine = None if prepared.affine is None else prepared.affine.to(CUDA)
    return replace(
        prepared, rest=there(prepared.rest), first=first, affine=affine, place=CUDA, slices=Slices(64), slice_size=64
    )


def network(name: str) -> tuple[nn.Module, sp.Domain]:
    shape = IMAGES[name]
    pixels = np.random.default_rng(0).integers(0, 256, (2, *shape), np.uint8)
    domain = sp.Domain.from_arrays("random", pixels, [0, 1], ["a", "b"])
    options: dict[str, Any] = {"width": 8} if name != "mlp" else {"width": 16}
    return sp.build_model(name, domain, seed=0, **options).eval(), domain


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("noise", ["gaussian:0.25", "uniform:0.5"])
def test_votes_are_computed_on_the_device(name: str, noise: str) -> None:
    model, domain = network(name)
    made, prepared = as_noise(noise), unfused(model, domain)
    draws, taken = draw_block(made, domain.shape, Block(0, 0, 128), 0, "certification"), domain.take([0])[0]
    with pretended():
        voter = Voter(on_cuda(prepared), made, domain.shape, 2)
        # whether a layer in whole numbers is equal can't be asked of tensors without numbers
        vars(voter)["_layer"] = _exact_layer(voter)
        block, image = voter.place_noise(draws), voter.place_image(taken)
        outputs = voter.outputs(image, block, 100)
        assert block.device.type == "cuda"
        assert outputs.device.type == "cuda"
        assert outputs.shape == (100, 2)


def test_a_real_image_keeps_its_numbers_inside_the_mode() -> None:
    image = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    expected = image.clone().numpy()
    with pretended():
        found = [image.numpy() for _ in range(20)]
    assert all(np.array_equal(one, expected) for one in found)


def _exact_layer(voter: Voter) -> Any:
    from shiftproof.certification.sampling.bank import LARGEST_DRAW, grid_of
    from shiftproof.certification.sampling.exact import ExactLayer

    if voter.prepared.affine is None or not voter.noise.additive:
        return None
    grid = grid_of(voter.noise)
    return ExactLayer(voter.prepared.affine, grid, most=grid * (1 + LARGEST_DRAW * voter.noise.scale))


def test_an_image_that_was_left_behind_is_noticed() -> None:
    model, domain = network("cnn")
    made, prepared = as_noise("gaussian:0.25"), unfused(model, domain)
    draws, taken = draw_block(made, domain.shape, Block(0, 0, 128), 0, "certification"), domain.take([0])[0]
    with pretended():
        voter = Voter(on_cuda(prepared), made, domain.shape, 2)
        block = voter.place_noise(draws)
        with pytest.raises(RuntimeError, match="device"):
            voter.outputs(taken, block, 16)


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("victim", ["base", "smoothed"])
def test_scores_follow_the_model(name: str, victim: str) -> None:
    model, domain = network(name)
    with pretended():
        placed = _Placed(model)
        made = Base(placed) if victim == "base" else Smoothed(placed, as_noise("gaussian:0.25"), samples=4)
        assert made.scores(torch.rand(2, *domain.shape, device=CUDA)).device.type == "cuda"


class _Placed(nn.Module):
    """A model whose weights are on the pretended device."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model = [model]
        self.weights = {name: value.detach().to(CUDA) for name, value in model.state_dict().items()}

    def forward(self, inputs: Tensor) -> Tensor:
        result: Tensor = functional_call(self._model[0], self.weights, (inputs,))
        return result


@pytest.mark.parametrize("norm", ["l2", "linf", "l1"])
def test_threats_follow_the_change(norm: Any) -> None:
    with pretended():
        change, eps = torch.randn(3, 1, 8, 8).to(CUDA), torch.full((3,), 0.5, device=CUDA)
        assert project(change, norm, eps).device.type == "cuda"
        assert steepest(change, norm).device.type == "cuda"
