"""DomainBed's augmentation: crops, flips, colours and gray against slow versions of each, and where it is used."""

import colorsys
import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torch import Tensor

import shiftproof as sp
from shiftproof.domains import load_domains, train_part
from shiftproof.errors import UsageError
from shiftproof.objectives.erm import ERM
from shiftproof.training.augmentation import _COLOURS, TRIES, _crops, augment_images, augmentation_draws
from shiftproof.training.batches import Batches
from shiftproof.training.head_features import uses_features
from shiftproof.training.team import Team

Run = Callable[..., tuple[int, str, str]]
CPU = torch.device("cpu")
NEUTRAL = 0.5


def draws(count: int, **changes: float) -> np.ndarray:
    """The whole image, no change of colour, not gray; what is named is changed."""
    rows = np.full((count, 2 * TRIES + 12), NEUTRAL)
    # all of the area, square, in the middle
    rows[:, :TRIES] = 1
    rows[:, 2 * TRIES + 2] = 0.9
    places = {"flip": 2, "brightness": 3, "contrast": 4, "saturation": 5, "hue": 6, "gray": 11}
    for name, value in changes.items():
        rows[:, 2 * TRIES + places[name]] = value
    return rows


@pytest.fixture
def images() -> Tensor:
    return torch.rand(6, 3, 9, 12, generator=torch.Generator().manual_seed(0))


def test_neutral_draws_change_nothing(images: Tensor) -> None:
    square = images[..., :9].contiguous()
    assert torch.allclose(augment_images(square, draws(6)), square, atol=2e-5)


def test_a_flip_is_a_mirror(images: Tensor) -> None:
    square = images[..., :9].contiguous()
    assert torch.allclose(augment_images(square, draws(6, flip=0.1)), square.flip(-1), atol=2e-5)


@pytest.mark.parametrize(
    ("name", "enhance"),
    [("brightness", ImageEnhance.Brightness), ("contrast", ImageEnhance.Contrast), ("saturation", ImageEnhance.Color)],
)
def test_colours_are_changed_as_pillow_does(images: Tensor, name: str, enhance: type) -> None:
    square = (images[..., :9] * 255).round() / 255
    for value in (0.0, 0.25, 1.0):
        found = augment_images(square, draws(6, **{name: value}))
        for image, result in zip(square, found, strict=True):
            picture = Image.fromarray((image.permute(1, 2, 0) * 255).round().byte().numpy())
            expected = np.asarray(enhance(picture).enhance(1 + 0.3 * (2 * value - 1))).transpose(2, 0, 1) / 255
            # Pillow rounds to whole steps, of the mean too
            assert np.abs(result.numpy() - expected).max() < 2.5 / 255


def test_hues_are_turned_as_colorsys_does(images: Tensor) -> None:
    for value in (0.0, 0.3, 0.9):
        amount = 0.3 * (2 * value - 1)
        found = _COLOURS[3](images, torch.full((6, 1, 1, 1), amount))
        for pixel, result in zip(*(some.permute(0, 2, 3, 1).reshape(-1, 3) for some in (images, found)), strict=True):
            hue, saturation, brightness = colorsys.rgb_to_hsv(*pixel.tolist())
            expected = colorsys.hsv_to_rgb((hue + amount) % 1, saturation, brightness)
            assert result.tolist() == pytest.approx(expected, abs=2e-6)


def test_gray_pixels_stay_gray_whatever_the_hue() -> None:
    gray = torch.rand(4, 1, 5, 5).expand(-1, 3, -1, -1).contiguous()
    assert torch.allclose(_COLOURS[3](gray, torch.full((4, 1, 1, 1), 0.2)), gray)


def test_one_of_ten_is_gray(images: Tensor) -> None:
    found = augment_images(images, draws(6, gray=0.05))
    assert torch.equal(found[:, 0], found[:, 1])
    assert torch.equal(found[:, 0], found[:, 2])


@pytest.mark.parametrize("shape", [(32, 32), (20, 60), (60, 20)])
def test_crops_are_inside_and_as_large_as_they_should_be(shape: tuple[int, int]) -> None:
    rows = augmentation_draws(0, "a", 0, 4_000)
    matrices = _crops(rows[:, : 2 * TRIES], rows[:, 2 * TRIES : 2 * TRIES + 3], torch.Size(shape)).numpy()
    wide, high = np.abs(matrices[:, 0, 0]), matrices[:, 1, 1]
    assert (np.abs(matrices[:, 0, 2]) + wide <= 1 + 1e-6).all()
    assert (np.abs(matrices[:, 1, 2]) + high <= 1 + 1e-6).all()
    area, ratio = wide * high, wide * shape[1] / (high * shape[0])
    fitted = area < 1
    assert area.min() >= 0.7 - 1e-6
    assert (ratio[fitted] >= 3 / 4 - 1e-5).all()
    assert (ratio[fitted] <= 4 / 3 + 1e-5).all()
    assert np.mean(matrices[:, 0, 0] < 0) == pytest.approx(0.5, abs=0.03)
    # the slow way, candidate by candidate
    for row, found in zip(rows[:200], zip(wide, high, strict=True), strict=False):
        expected = (1.0, 1.0)
        for k in range(TRIES):
            size = (0.7 + 0.3 * row[k]) * shape[0] * shape[1]
            narrow = np.exp(np.log(3 / 4) + row[TRIES + k] * (np.log(4 / 3) - np.log(3 / 4)))
            sides = (np.sqrt(size * narrow) / shape[1], np.sqrt(size / narrow) / shape[0])
            if max(sides) <= 1:
                expected = sides
                break
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_images_stay_in_range_and_differ(channels: int) -> None:
    images = torch.rand(8, channels, 10, 10, generator=torch.Generator().manual_seed(1))
    before = images.clone()
    found = augment_images(images, augmentation_draws(0, "a", 0, 8))
    assert found.shape == images.shape
    assert float(found.min()) >= 0
    assert float(found.max()) <= 1
    assert all(not torch.allclose(one, other) for one, other in zip(found, images, strict=True))
    assert torch.equal(images, before)


def test_minibatches_are_the_same_beside_other_domains_and_in_parts() -> None:
    class Half(Team):
        def held(self, count: int) -> slice:
            return slice(count // 2, count)

    a, b = (train_part(domain) for domain in list(load_domains("rotated-digits"))[:2])
    whole = Batches([a, b], 6, 3, CPU, augment="domainbed")[5]
    alone = Batches([b], 6, 3, CPU, augment="domainbed")[5]
    half = Batches([b], 6, 3, CPU, team=Half(), augment="domainbed")[5]
    plain = Batches([b], 6, 3, CPU)[5]
    assert torch.equal(whole.inputs[6:], alone.inputs)
    assert torch.equal(alone.inputs[3:], half.inputs)
    assert torch.equal(alone.labels, plain.labels)
    assert not torch.equal(alone.inputs, plain.inputs)


def test_training_augments_when_asked() -> None:
    data = load_domains("rotated-digits").select(["angle=0", "angle=15"])
    recipe = {"steps": 6, "batch": 8, "evaluate_every": 3}

    def weights(**changes: object) -> list[Tensor]:
        model = sp.build_model("cnn", load_domains("rotated-digits"), width=4, seed=0)
        sp.train(model, data, recipe={**recipe, **changes}, progress="off")
        return [tensor.clone() for tensor in model.state_dict().values()]

    first, again, plain = weights(augment="domainbed"), weights(augment="domainbed"), weights()
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    assert not all(torch.equal(one, other) for one, other in zip(first, plain, strict=True))


def test_texts_are_refused_and_other_names_get_a_hint(run: Run) -> None:
    code, _, error = run("train", "--data", "signed-reviews", "--set", "training.augment=domainbed", "--out", "x")
    assert code == 1
    assert "augment domainbed changes images, and 'signed-reviews' holds text data" in error
    with pytest.raises(UsageError, match="domainbed"):
        ERM().recipe.override({"augment": "domainbad"})


def test_a_head_is_not_trained_on_features_of_other_images() -> None:
    data = [train_part(domain) for domain in load_domains("rotated-digits").select(["angle=0"])]
    model = sp.build_model("cnn", load_domains("rotated-digits"), width=4, seed=0)
    recipe = replace(ERM().recipe, part="head", steps=1_000)
    assert uses_features(model, ERM(), recipe, "last", data)
    assert not uses_features(model, ERM(), replace(recipe, augment="domainbed"), "last", data)


def test_it_is_listed_and_can_be_set(run: Run) -> None:
    code, out, _ = run("ls", "training", "training.augment", "--json")
    assert code == 0
    assert json.loads(out)["training"][0]["options"] == {"default": "none"}
