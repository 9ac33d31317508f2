"""Corruptions against the package imagecorruptions-imaug on real images, with ImageNet-C's constants."""

import contextlib
import io
from typing import Any

import numpy as np
import pytest
import torch
from conftest import needs_data
from torch import Tensor

from shiftproof.domains import load_domains
from shiftproof.perturbations.corruptions import EXTRA, STANDARD, corrupt

reference: Any = pytest.importorskip("imagecorruptions", reason="imagecorruptions-imaug is not installed")

pytestmark = needs_data
EXACT = [
    *("defocus-blur", "zoom-blur", "brightness", "contrast", "pixelate", "jpeg-compression"),
    *("gaussian-blur", "saturate"),
]
RANDOM = [name for name in STANDARD + EXTRA if name not in EXACT]


@pytest.fixture(scope="module", params=["cifar10", "pacs"])
def images(request: pytest.FixtureRequest) -> Tensor:
    """128 images, 32 x 32 or 64 x 64."""
    domains = load_domains(request.param)
    chosen = [
        domain.take(np.linspace(0, len(domain) - 1, 128 // len(domains)).astype(np.int64))[0] for domain in domains
    ]
    return torch.cat(chosen)


def theirs(images: Tensor, name: str, severity: int) -> Tensor:
    pixels = (images * 255).round().byte().permute(0, 2, 3, 1).numpy()
    np.random.seed(0)  # noqa: NPY002 - the reference draws from the global state
    with contextlib.redirect_stdout(io.StringIO()), np.errstate(invalid="ignore"):
        results = [reference.corrupt(one, corruption_name=name.replace("-", "_"), severity=severity) for one in pixels]
    return torch.from_numpy(np.stack(results)).permute(0, 3, 1, 2).float() / 255


@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("name", EXACT)
def test_without_draws_pixels_agree(images: Tensor, name: str, severity: int) -> None:
    ours = corrupt(images, name, severity, constants="imagenet")
    # it cuts results to whole levels, which explains 1/510 on average; its largest disks have a sum of 1.01
    limit = 0.01 if name == "defocus-blur" and severity >= 4 else 0.004
    assert float((ours - theirs(images, name, severity)).abs().mean()) < limit


@pytest.mark.parametrize("severity", [1, 3, 5])
@pytest.mark.parametrize("name", RANDOM)
def test_with_draws_the_law_of_the_change_agrees(images: Tensor, name: str, severity: int) -> None:
    expected = theirs(images, name, severity)
    # spatter without a drop divides 0 by 0 there, and the image comes back black
    usable = expected.amax((1, 2, 3)) > 0
    assert float(usable.float().mean()) > 0.95
    changes = [(each - images)[usable] for each in (corrupt(images, name, severity, constants="imagenet"), expected)]
    mean, other_mean = (float(change.mean()) for change in changes)
    deviation, other_deviation = (float(change.std()) for change in changes)
    distance, other_distance = (float(change.abs().mean()) for change in changes)
    assert mean == pytest.approx(other_mean, abs=0.02)
    assert deviation == pytest.approx(other_deviation, rel=0.1, abs=0.01)
    assert distance == pytest.approx(other_distance, rel=0.1, abs=0.01)
