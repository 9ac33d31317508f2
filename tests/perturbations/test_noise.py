"""Noises: known answers for radii, deformations that do what they say, and the limits of what they certify."""

import json
import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import ndtri
from torch import Tensor

from shiftproof import objectives
from shiftproof.catalogue import checked_options
from shiftproof.errors import UnknownName, UsageError
from shiftproof.objectives import OBJECTIVES
from shiftproof.perturbations import noise
from shiftproof.perturbations.noise import NOISES, Noise, NoiseOption, as_noise, draw
from shiftproof.perturbations.warp import positions, rotate
from shiftproof.rng import torch_generator
from shiftproof.statistics import lower_bound, upper_bound
from shiftproof.testing import check_objective
from shiftproof.types import Batch

EVERY = [as_noise(f"{entry.name}:0.3") for entry in NOISES] + [noise.Scaling(0.3, log=True), noise.DCT(0.3, k=3)]
ALL = [each for each in EVERY if each.kind == "image"]
DEFORMATIONS = [each for each in ALL if not each.additive]
N = 100_000


# ---------------------------------------------------------------------------------------------------------------- radii


@pytest.mark.parametrize(
    ("first", "second", "alpha", "radius"),
    [
        (60_000, 10_000, 0.0005, 0.751954),
        (45_000, 20_000, 0.0005, 0.343997),  # no majority, yet a radius
        (90_000, 5_000, 0.0005, 1.443326),
        (60_000, None, 0.001, 0.240945),  # all others together count as the runner-up
        (100_000, None, 0.001, 3.811457),  # alpha ** (1 / n)
    ],
)
@pytest.mark.parametrize("sigma", [0.25, 1.0])
def test_gaussian_radius_from_counts(first: int, second: int | None, alpha: float, radius: float, sigma: float) -> None:
    miss = upper_bound(N - first, N, alpha)
    rival = miss if second is None else upper_bound(second, N, alpha)
    for each in (noise.Gaussian(sigma), noise.Translation(sigma), noise.Affine(sigma), noise.DCT(sigma)):
        assert each.radius(miss, rival) == pytest.approx(sigma * radius, abs=1e-6)


def test_a_radius_near_certainty_keeps_its_digits() -> None:
    radius = noise.Gaussian(1.0).radius(np.array([1e-30, 1e-300]), np.array([1.0, 1.0]))
    assert radius == pytest.approx(-ndtri([1e-30, 1e-300]))


@pytest.mark.parametrize("each", EVERY, ids=repr)
def test_radii_grow_with_the_votes_and_are_never_undefined(each: Noise) -> None:
    miss, rival = np.meshgrid([0.0, 1e-12, 0.2, 0.5, 0.7, 1.0], [0.0, 1e-12, 0.2, 0.5, 1.0], indexing="ij")
    radius = each.radius(miss, rival)
    assert radius.shape == miss.shape
    assert not np.isnan(radius).any()
    assert (radius[:-1] >= radius[1:]).all()
    assert (radius[:, :-1] >= radius[:, 1:]).all()
    assert (radius[3:, 3:] <= 0).all(), "no majority, no radius"
    assert (radius[-1] <= 0).all(), "nothing is known of the class"
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(UsageError, match="from 0 to 1"):
            each.radius(np.array(wrong), np.array(0.1))


@pytest.mark.parametrize("tau", [0.001, 0.1, 0.3, 0.999])
@pytest.mark.parametrize("width", [1.0, 2.5])
def test_uniform_radius_of_a_threshold_is_exact(tau: float, width: float) -> None:
    # the class is A while the one input is below tau: under U[-width, width] it holds just as far
    miss = np.array(1 - (tau + width) / (2 * width))
    assert noise.Uniform(width).radius(miss, miss) == pytest.approx(tau, abs=1e-12)
    assert noise.Uniform(width).holds([[tau - 1e-9], [tau + 1e-9]], miss, miss).tolist() == [True, False]


def test_uniform_radius_is_of_the_l1_norm() -> None:
    uniform, delta, miss = noise.Uniform(1.0), np.full(6, 0.3), np.array(0.1)
    assert uniform.norm == "l1"
    assert np.linalg.norm(delta) < uniform.radius(miss, miss) == pytest.approx(0.8)
    assert uniform.variation(delta) == pytest.approx(1 - 0.85**6) == pytest.approx(0.622850, abs=1e-6)
    assert not uniform.holds(delta, miss, miss)
    # the draws that the shift makes impossible are exactly such a part
    moved = np.abs(draw(uniform, (6,), 200_000, np.random.default_rng(0)) - delta) > 1
    assert moved.any(1).mean() == pytest.approx(0.622850, abs=0.005)


def test_the_exact_test_covers_the_l1_ball_and_more() -> None:
    uniform, generator, miss = noise.Uniform(0.5), np.random.default_rng(0), np.array(0.2)
    delta = generator.dirichlet(np.ones(8), 500) * generator.choice([-1, 1], (500, 8)) * uniform.radius(miss, miss)
    assert uniform.holds(0.999 * delta, miss, miss).all()
    assert uniform.holds(1.05 * delta, miss, miss).any()
    assert not uniform.holds([5.0, 0.0], miss, miss)


@pytest.mark.parametrize(
    ("sigma", "vote", "radius"),
    [
        (0.5, 0.8, 0.3 * math.pi),
        (0.9, 0.611, 0.9 * math.pi * 0.222),
        (0.9, 0.6112, math.pi),  # 2 (1 - .9) / .9 is a margin of .2222: from there every angle
        (1.0, 0.51, math.pi),  # all angles alike: the vote can't change
        (1.0, 0.5, 0.0),
        (2 / 3, 1.0, 2 * math.pi / 3),
        (0.5, 0.4, -0.1 * math.pi),
    ],
)
def test_rotation_radius_on_the_circle(sigma: float, vote: float, radius: float) -> None:
    rotation, miss = noise.Rotation(sigma), np.array(1 - vote)
    assert rotation.radius(miss, miss) == pytest.approx(radius, abs=1e-9)
    angles = np.linspace(-7, 7, 401)
    shortest = np.abs(np.angle(np.exp(1j * angles)))
    expected = shortest < radius if radius < math.pi else np.full(401, True)
    assert rotation.holds(angles, miss, miss).tolist() == expected.tolist()


@pytest.mark.parametrize(("sigma", "angle"), [(0.3, 0.5), (0.9, 0.5), (0.9, 3.0), (0.6, 2.7), (0.2, 2.0)])
def test_rotation_variation_is_what_the_draws_show(sigma: float, angle: float) -> None:
    rotation = noise.Rotation(sigma)
    draws = rotation.scale * draw(rotation, (1, 8, 8), 200_000, np.random.default_rng(0))[:, 0]
    outside = (np.abs(np.angle(np.exp(1j * (draws + angle)))) > rotation.scale).mean()
    for part, holds in ((1.9, False), (2.1, True)):
        if part * outside <= 1:
            miss = (1 - part * outside) / 2
            assert bool(rotation.holds(angle, miss, miss)) == holds
    assert bool(rotation.holds(angle, 0, 0)) == (outside < 0.495)


@pytest.mark.parametrize("log", [False, True])
def test_scaling_radius(log: bool) -> None:
    scaling = noise.Scaling(0.5, log=log)
    assert scaling.radius(np.array(0.1), np.array(0.1)) == pytest.approx(0.4)
    assert (scaling.norm, "log" in scaling.units) == (("log factor", True) if log else ("factor", False))


# --------------------------------------------------------------------------------------------------------- deformations


@pytest.mark.parametrize("each", ALL, ids=repr)
@pytest.mark.parametrize(
    "shape", [(1, 1, 8, 8), (5, 3, 28, 28), (1, 3, 9, 17), (2, 1, 31, 12), (1, 3, 96, 128), (1, 3, 224, 160)]
)
def test_zero_is_the_identity(each: Noise, shape: tuple[int, ...]) -> None:
    images = torch.rand(shape, generator=torch_generator(0, "test"))
    images = (images > 0.5).float()  # the greatest contrast from pixel to pixel
    unchanged = each.apply(images, torch.zeros(len(images), each.size(shape[1:])))
    assert (unchanged.shape, unchanged.dtype) == (images.shape, images.dtype)
    # float32 positions can't be finer at larger sides
    assert float((unchanged - images).abs().max()) < (1e-5 if max(shape) <= 128 else 2e-5)


@pytest.mark.parametrize("each", ALL, ids=repr)
@pytest.mark.parametrize("count", [1, 4])
def test_one_image_meets_many_parameters(each: Noise, count: int) -> None:
    image = torch.rand(1, 3, 12, 10, generator=torch_generator(0, "test"))
    parameters = torch.from_numpy(each.scale * draw(each, (3, 12, 10), count, np.random.default_rng(0)))
    together = each.apply(image, parameters)
    assert together.shape == (count, 3, 12, 10)
    assert together.dtype == torch.float32
    assert torch.equal(together, each.apply(image.repeat(count, 1, 1, 1), parameters))
    for row, expected in zip(parameters, together, strict=True):
        assert torch.allclose(each.apply(image, row[None])[0], expected, atol=1e-6)


def wave(i: int, x: Tensor, pixels: int) -> Tensor:
    return torch.cos(math.pi * i * (x + 0.5 / pixels))


FIELDS: list[tuple[Any, list[float], Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]]] = [
    (noise.Translation(0.1), [0.2, -0.1], lambda x, y: (x + 0.2, y - 0.1)),
    (noise.Scaling(0.5), [-0.25], lambda x, y: (0.75 * x, 0.75 * y)),
    (noise.Scaling(0.5, log=True), [-0.25], lambda x, y: (math.exp(-0.25) * x, math.exp(-0.25) * y)),
    (
        noise.Affine(0.1),
        [0.1, -0.2, 0.05, 0.15, -0.1, -0.02],
        lambda x, y: (1.1 * x - 0.2 * y + 0.05, 0.9 * y + 0.15 * x - 0.02),
    ),
    (
        noise.DCT(0.1),
        [0.01, 0.02, 0.03, 0.04, -0.05, 0.06, 0.07, 0.08],
        lambda x, y: (
            x + 0.01 + 0.02 * wave(1, y, 9) + 0.03 * wave(1, x, 15) + 0.04 * wave(1, x, 15) * wave(1, y, 9),
            y - 0.05 + 0.06 * wave(1, y, 9) + 0.07 * wave(1, x, 15) + 0.08 * wave(1, x, 15) * wave(1, y, 9),
        ),
    ),
    # in a 9 x 15 image, half a height is 4 pixels and half a width 7
    (
        noise.Rotation(0.5),
        [0.3],
        lambda x, y: (
            (7 * x * math.cos(0.3) - 4 * y * math.sin(0.3)) / 7,
            (7 * x * math.sin(0.3) + 4 * y * math.cos(0.3)) / 4,
        ),
    ),
]


@pytest.mark.parametrize(("each", "parameters", "field"), FIELDS)
def test_pixels_are_read_where_the_formula_says(
    each: Noise, parameters: list[float], field: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
) -> None:
    # interpolation reproduces a ramp, so that an image of its own positions shows where it was read
    x, y = positions(torch.zeros(1, 1, 9, 15, dtype=torch.float64))
    ramps = torch.stack([x.expand(9, 15), y.expand(9, 15)])[None]
    read = each.apply(ramps, torch.tensor([parameters], dtype=torch.float64))[0]
    expected = torch.stack([part.expand(9, 15) for part in field(x, y)])
    inside = (expected.abs() <= 1).all(0)
    assert inside.sum() > 50
    assert torch.allclose(read[:, inside], expected[:, inside], atol=1e-12)
    assert not torch.allclose(read, ramps, atol=0.01)


@pytest.mark.parametrize(
    ("each", "parameters", "before", "after"),
    [
        (noise.Translation(0.1), [0.4, 0], (10, 10), (10, 6)),  # positive: content moves left
        (noise.Translation(0.1), [0, 0.4], (10, 10), (6, 10)),  # ... and up
        (noise.Rotation(1.0), [math.pi / 2], (10, 16), (4, 10)),  # counter-clockwise: from the right to the top
        (noise.Rotation(1.0), [-math.pi / 2], (10, 16), (16, 10)),
        (noise.Scaling(0.9), [0.5], (10, 16), (10, 14)),  # positive: content shrinks
        (noise.Scaling(0.9, log=True), [-math.log(2)], (10, 13), (10, 16)),
        (noise.DCT(0.1), [0.4, 0, 0, 0, 0, 0, 0, 0], (10, 10), (10, 6)),
    ],
)
def test_content_moves_as_documented(
    each: Noise, parameters: list[float], before: tuple[int, int], after: tuple[int, int]
) -> None:
    image = torch.zeros(1, 1, 21, 21)
    image[0, 0, before[0], before[1]] = 1
    moved = each.apply(image, torch.tensor([parameters]))[0, 0]
    assert divmod(int(moved.argmax()), 21) == after


def test_an_oblong_image_is_turned_not_sheared() -> None:
    image = torch.zeros(1, 1, 41, 81)
    image[0, 0, 20, 30:51] = 1
    turned = noise.Rotation(0.5).apply(image, torch.tensor([[math.pi / 2]]))
    assert torch.allclose(turned, rotate(image, 90), atol=1e-5)
    rows, columns = (turned[0, 0] > 0.5).nonzero().T.tolist()
    assert (rows, set(columns)) == (list(range(10, 31)), {40})


@pytest.mark.parametrize(
    ("each", "composes"),
    [
        (noise.Rotation(0.5), True),
        (noise.Translation(0.5), True),
        (noise.Scaling(0.5, log=True), True),
        (noise.Scaling(0.5), False),
        (noise.Affine(0.5), False),
        (noise.DCT(0.5), False),
    ],
)
def test_which_deformations_add_up(each: Noise, composes: bool) -> None:
    x, y = positions(torch.zeros(1, 1, 65, 65))
    ramps = torch.stack([x.expand(65, 65), y.expand(65, 65)])[None]  # interpolation leaves no error on them
    one = torch.full((1, each.size((2, 65, 65))), 0.1)
    twice, at_once = each.apply(each.apply(ramps, one), one), each.apply(ramps, 2 * one)
    difference = float((twice - at_once)[..., 20:45, 20:45].abs().max())
    assert (difference < 1e-5) == composes, difference
    assert ("not one with the sum" not in each.claim) == composes


def test_a_shifted_checkerboard_is_outside_the_claim() -> None:
    """Half a pixel is well inside the radius, but an image that was moved by it before has lost what the class is."""
    pixel = 2 / 64
    translation = noise.Translation(2 * pixel)
    board = (torch.arange(65) % 2).float().expand(1, 1, 65, 65)
    draws = torch.from_numpy(translation.scale * draw(translation, (1, 65, 65), 2_000, np.random.default_rng(0)))

    def vote(image: Tensor, parameters: Tensor) -> float:
        middle = translation.apply(image, parameters)[:, 0, 32, 20:45]
        return float(((middle.amax(1) - middle.amin(1)) > 0.1).double().mean())

    half = torch.tensor([[pixel / 2, 0.0]])
    votes = round(2_000 * vote(board, draws))
    assert votes / 2_000 == pytest.approx(0.9, abs=0.03)
    miss = 1 - lower_bound(votes, 2_000, 0.001)
    assert translation.radius(miss, miss) > 2 * pixel
    # inside one interpolation of the clean image: the vote holds, as claimed
    assert vote(board, draws + half) == pytest.approx(0.9, abs=0.03)
    # handed in already moved: nothing is left
    assert vote(translation.apply(board, half), draws) == 0
    assert "already deformed is not covered" in translation.claim


# ----------------------------------------------------------------------------------------------------- options, drawing


@pytest.mark.parametrize("each", ALL, ids=repr)
def test_noises_keep_their_contract(each: Noise) -> None:
    assert isinstance(each, Noise)
    assert each.law in ("normal", "uniform")
    assert each.scale > 0
    assert each.units
    assert each.norm
    assert each == as_noise(json.loads(json.dumps(each.to_config())))
    assert hash(each) == hash(as_noise(each))
    assert "radius" in each.claim
    assert ("clean image" in each.claim) == (not each.additive)
    with pytest.raises(FrozenInstanceError):
        each.law = "other"  # type: ignore[misc]
    entry = NOISES[NOISES.name_of(each)]
    assert entry.metadata.keys() == {"paper", "radius", "parameters"}
    assert getattr(noise, entry.cls.__name__) is entry.cls
    assert entry.cls.__name__ in dir(noise)


@pytest.mark.parametrize("each", ALL, ids=repr)
def test_the_law_of_draws(each: Noise) -> None:
    shape, count = (1, 4, 5), 20_000
    draws = draw(each, shape, count, np.random.default_rng(0))
    assert draws.shape == (count, each.size(shape))
    assert draws.dtype == np.float64
    variance = 1.0 if each.law == "normal" else 1 / 3
    assert np.abs(draws.mean(0)).max() < 5 * math.sqrt(variance / count)
    assert draws.var(0) == pytest.approx(variance, rel=0.06)
    if each.law == "uniform":
        assert -1 <= draws.min() < -0.999
        assert 0.999 < draws.max() < 1
    again = np.random.default_rng(0)
    pieces = [draw(each, shape, piece, again) for piece in (1, 7_000, count - 7_001)]
    assert np.array_equal(np.concatenate(pieces), draws)


@pytest.mark.parametrize(
    ("each", "size"),
    [
        ("gaussian:1", 80),
        ("uniform:1", 80),
        ("rotation:1", 1),
        ("translation:1", 2),
        ("scaling:.5", 1),
        ("affine:1", 6),
        ("dct:1", 8),
        ({"name": "dct", "sigma": 1, "k": 3}, 18),
    ],
)
def test_sizes(each: Any, size: int) -> None:
    assert as_noise(each).size((4, 4, 5)) == size


@pytest.mark.parametrize("each", DEFORMATIONS, ids=repr)
def test_only_images_can_be_deformed(each: Noise) -> None:
    with pytest.raises(UsageError, match=r"inputs of shape \(384,\) can't be deformed"):
        each.size((384,))


def test_added_noise_takes_inputs_of_any_shape_and_clips_nothing() -> None:
    inputs = torch.zeros(1, 7)
    assert torch.equal(noise.Gaussian(0.5).apply(inputs, torch.full((3, 7), -2.0)), torch.full((3, 7), -2.0))


@pytest.mark.parametrize("value", [-1, 0, math.nan, math.inf, -math.inf, "much", None, True])
@pytest.mark.parametrize("name", [entry.name for entry in NOISES])
def test_bad_scales(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=r"^\w+ of \w+ is .*; it (should be|takes no)"):
        NOISES[name].cls(value)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: noise.Gaussian(-1), "sigma of Gaussian is -1; it should be greater than 0"),
        (lambda: noise.Uniform(0), "width of Uniform is 0; it should be greater than 0"),
        (lambda: noise.Rotation(1.5), "sigma of Rotation is 1.5; it should be less than or equal to 1"),
        (lambda: noise.Scaling(1), "sigma is 1.0; it should be above 0 and below 1, unless log is true"),
        (lambda: noise.Scaling(11, log=True), "sigma of Scaling is 11; it should be less than or equal to 10"),
        (lambda: noise.DCT(1, k=0), "k of DCT is 0; it should be greater than or equal to 1"),
        (lambda: noise.DCT(1, k=1.5), "k of DCT is 1.5; it should be a valid integer"),
        (lambda: as_noise("gaussian"), "noise 'gaussian' needs a value for 'sigma'"),
        (lambda: as_noise("gaussian:wide"), "sigma of noise 'gaussian' is 'wide'; it should be a valid number"),
        (lambda: as_noise("gaussian:nan"), "sigma of noise 'gaussian' is 'nan'; it should be a finite number"),
        (lambda: as_noise("rotatoin:0.5"), "unknown noise 'rotatoin'. Did you mean 'rotation'?"),
        (lambda: as_noise({"name": "gaussian", "sgima": 1}), "Did you mean 'sigma'?"),
        (lambda: as_noise({"sigma": 1}), "is no noise; write one as 'rotation:0.5'"),
        (lambda: as_noise(0.5), "0.5 is no noise"),
        (lambda: as_noise(noise.Gaussian), "the class Gaussian is no noise"),
        (lambda: objectives.Gaussian(-1), "sigma of Gaussian is -1; it should be greater than or equal to 0"),
        (lambda: objectives.Gaussian(math.nan), "sigma of Gaussian is nan; it should be a finite number"),
        (
            lambda: OBJECTIVES.create("deformation", {"noise": "rotation:2"}),
            "sigma of noise 'rotation' is '2'; it should be less than or equal to 1",
        ),
        (lambda: OBJECTIVES.create("deformation", {"noise": "rotate:2"}), "unknown noise 'rotate'"),
    ],
)
def test_mistakes_get_a_sentence(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert sentence in str(caught.value)


def test_unknown_names_of_the_module() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Gausian'"):
        noise.Gausian  # noqa: B018
    with pytest.raises(UnknownName):
        NOISES["gausian"]


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (noise.Rotation(0.5), noise.Rotation(0.5)),
        ("rotation:0.5", noise.Rotation(0.5)),
        ({"name": "rotation", "sigma": 0.5}, noise.Rotation(0.5)),
        ({"name": "scaling", "sigma": "0.5", "log": "true"}, noise.Scaling(0.5, log=True)),
        ("uniform:1", noise.Uniform(1.0)),
        ("dct:.1", noise.DCT(0.1)),
    ],
)
def test_forms_of_a_noise(value: Any, meant: Noise) -> None:
    @dataclass(frozen=True)
    class Method:
        noise: NoiseOption

    assert as_noise(value) == meant
    Method.__annotations__["noise"] = NoiseOption
    assert checked_options(Method, {"noise": value}, "method") == {"noise": meant}
    assert OBJECTIVES.create("deformation", {"noise": value}).noise == meant  # type: ignore[attr-defined]


# ----------------------------------------------------------------------------------------------------------- objectives


@pytest.mark.parametrize(
    "objective",
    [objectives.Gaussian(), objectives.Gaussian(0.0), objectives.DeformationAugmentation()]
    + [objectives.DeformationAugmentation(each) for each in (noise.Rotation(0.25), noise.DCT(0.1), noise.Uniform(0.2))],
    ids=repr,
)
def test_objectives_conform(objective: Any) -> None:
    check_objective(objective)


def test_objectives_draw_as_documented() -> None:
    seen: list[Tensor] = []

    class Spy(torch.nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            seen.append(inputs)
            return inputs.flatten(1)[:, :2]

    batch = Batch(torch.full((400, 1, 8, 8), 0.5), torch.zeros(400, dtype=torch.int64), ("a", "b"), (100, 300))

    def inputs_of(objective: Any) -> Tensor:
        objective.loss(Spy(), batch, torch_generator(0, "test"))
        return seen[-1] - batch.inputs

    assert torch.equal(inputs_of(objectives.Gaussian(0.0)), torch.zeros(400, 1, 8, 8))
    normal = inputs_of(objectives.Gaussian(0.5))
    assert float(normal.std()) == pytest.approx(0.5, rel=0.02)
    assert len(normal.flatten(1).unique(dim=0)) == 400, "every image has its own draw"
    uniform = inputs_of(objectives.DeformationAugmentation("uniform:0.5"))
    assert float(uniform.std()) == pytest.approx(0.5 / math.sqrt(3), rel=0.02)
    assert float(uniform.min()) < -0.49
    assert float(uniform.abs().max()) <= 0.5
    assert OBJECTIVES.create("gaussian", {"sigma": "0.5"}) == objectives.Gaussian(0.5)
    assert OBJECTIVES["deformation"].options == {"noise": "rotation:0.25"}
