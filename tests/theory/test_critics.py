"""Critics: that none changes by more than its inputs move, whatever it was fitted to."""

import numpy as np
import pytest
import torch
from gaussians import gaussians
from scipy.stats import norm as normal

from shiftproof.errors import UsageError
from shiftproof.perturbations.noise import DCT, Gaussian, Rotation, Scaling, Translation, Uniform, WordDeletion
from shiftproof.theory import Points, lower_distance
from shiftproof.theory.critics_network import NetworkCritic, NetworkFit
from shiftproof.theory.critics_smoothed import SmoothedCritic, SmoothedFit, deform, reach_of
from shiftproof.theory.points import Folds

NO_NOISE = np.random.default_rng(0)
SHAPE = (1, 8, 8)


def bars(count: int, brightness: float, seed: int, name: str) -> Points:
    """Noisy images with a bright bar in the middle, which is what turning and moving them changes."""
    generator = np.random.default_rng(seed)
    images = 0.1 * generator.random((count, *SHAPE))
    images[:, :, :, 3:5] += brightness
    return Points.of(name, images.astype(np.float32))


@pytest.mark.parametrize("architecture", ["mlp-cayley", "cnn-cayley"])
def test_networks_change_by_at_most_what_inputs_move(architecture: str) -> None:
    fold = Folds(bars(20, 0.2, 0, "p"), bars(20, 0.8, 1, "q"))
    critics = NetworkFit(architecture, steps=(2, 8))(fold, 0)
    assert len(critics) == 2
    inputs = np.random.default_rng(2).random((30, *SHAPE)).astype(np.float32)
    for critic in critics:
        assert isinstance(critic, NetworkCritic)
        # the steepest direction, where a constant that is too small would show
        there = torch.from_numpy(inputs).requires_grad_()
        critic.network(there).sum().backward()
        assert there.grad is not None
        slopes = there.grad.flatten(1).norm(dim=1).numpy() / critic.constant
        assert 0.3 < slopes.max() <= 1
        moved = np.clip(inputs + 0.05 * np.sign(there.grad.numpy()), 0, 1).astype(np.float32)
        apart = np.linalg.norm((moved - inputs).reshape(30, -1), axis=1)
        change = np.abs(critic.values(moved, NO_NOISE) - critic.values(inputs, NO_NOISE))
        assert (change <= apart + 2 * critic.allowance(inputs)).all()
        assert 0 < critic.allowance(inputs) < 0.01


def test_a_network_sees_a_shift_that_no_linear_critic_can_see() -> None:
    """Bars that are dark or bright against gray ones: the means are the same."""
    generator = np.random.default_rng(3)
    levels = np.where(generator.random(200) < 0.5, 0.0, 0.9)[:, None, None, None]
    mixed = Points.of("mixed", (levels + 0.1 * generator.random((200, *SHAPE))).astype(np.float32))
    gray = Points.of("gray", (0.45 + 0.1 * generator.random((200, *SHAPE))).astype(np.float32))
    assert lower_distance(gray, mixed, level=0.9).lower < 0.5
    deep = lower_distance(gray, mixed, level=0.9, fits={"mlp-cayley": NetworkFit("mlp-cayley", (60,))})
    # the truth is 8 * 0.45
    assert 1 < deep.lower < 3.6
    assert deep.critic == "mlp-cayley critic"


def test_other_networks_and_shapes_are_refused() -> None:
    with pytest.raises(UsageError, match="one of mlp-cayley, cnn-cayley"):
        NetworkFit("cnn")
    p, q = gaussians(np.random.default_rng(4), 8, 4, 1.0)
    with pytest.raises(UsageError, match="looks at images"):
        NetworkFit("cnn-cayley")(Folds(p, q), 0)
    with pytest.raises(UsageError, match="not in l1"):
        lower_distance(p, q, "l1", fits={"mlp-cayley": NetworkFit("mlp-cayley", (1,))})


def test_reach_is_distance_per_total_variation() -> None:
    for moved in (0.01, 0.1, 0.5):
        exact = 2 * normal.cdf(moved / (2 * 0.25)) - 1
        assert exact <= moved / reach_of(Gaussian(0.25), SHAPE)
        change = np.full(64, moved / 64)
        assert Uniform(0.5).variation(change) <= moved / reach_of(Uniform(0.5), SHAPE)
    assert reach_of(Gaussian(0.25), SHAPE) == pytest.approx(1e-6 / (2 * normal.cdf(1e-6 / 0.5) - 1), rel=1e-4)
    assert reach_of(Scaling(0.3), SHAPE) == pytest.approx(0.6)
    assert reach_of(DCT(0.1), SHAPE) == reach_of(Translation(0.1), SHAPE)
    with pytest.raises(UsageError, match="not proven"):
        reach_of(WordDeletion(0.8), SHAPE)


def test_a_smoothed_critic_moves_by_at_most_the_angle() -> None:
    """Its mean over noise, of the clean image and of the image turned inside the same interpolation."""
    noise = Rotation(0.2)
    fold = Folds(bars(40, 0.8, 5, "p"), Points.of("q", deform(bars(40, 0.8, 6, "q").inputs, noise, NO_NOISE)))
    critic = SmoothedFit(noise)(fold, 0)[1]
    assert isinstance(critic, SmoothedCritic)
    images = torch.from_numpy(bars(4, 0.8, 7, "x").inputs)
    angles = np.linspace(-noise.scale, noise.scale, 4_001)
    for angle in (0.05, 0.2, 0.5):
        for image in images:
            means = [
                critic.question.values(
                    noise.apply(image[None], torch.from_numpy(angles[:, None] + move)).numpy(), NO_NOISE
                )
                for move in (0.0, angle)
            ]
            change = critic.range[1] * abs((means[0] > 0).mean() - (means[1] > 0).mean())
            assert change <= angle + 1e-3
    values = critic.values(fold.reference.inputs, np.random.default_rng(0))
    assert set(values.tolist()) <= {0.0, critic.range[1]}


def test_distance_in_parameters() -> None:
    p, q = bars(300, 0.8, 8, "p"), bars(300, 0.8, 9, "q")
    turned = Points.of("turned", np.rot90(q.inputs, axes=(2, 3)).copy())
    noise = Rotation(0.2)
    far = lower_distance(p, turned, "angle", fits={"smoothed": SmoothedFit(noise)})
    # the truth is a quarter of a turn, and no more than twice the largest angle can be seen
    assert 0.8 < far.lower < reach_of(noise, SHAPE) < np.pi / 2
    assert lower_distance(p, q, "angle", fits={"smoothed": SmoothedFit(noise)}).lower < 0.05
