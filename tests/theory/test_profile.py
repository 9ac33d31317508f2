"""Profiles: that a file brings back the same alarm, and that a file that is not one gets a sentence."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from gaussians import gaussians

from shiftproof.errors import DataError, UsageError
from shiftproof.perturbations.noise import Rotation
from shiftproof.theory import Alarm, Distance, Points, lower_distance
from shiftproof.theory.critics_network import NetworkFit
from shiftproof.theory.critics_smoothed import SmoothedFit
from shiftproof.theory.distances.lower_bound import Fit
from shiftproof.theory.profile import Profile, profile_of, read_profile, write_profile

NAMES = {"domain": "photo", "example": "sketch", "run": "0123"}


def images(seed: int, level: float) -> Points:
    inputs = np.random.default_rng(seed).random((40, 1, 4, 4)) * 0.3 + level
    return Points.of(f"level {level}", inputs.astype(np.float32))


def distance_by(kind: str) -> Distance:
    fits: dict[str, tuple[str, dict[str, Fit] | None]] = {
        "linear": ("l2", None),
        "network": ("l2", {"mlp-cayley": NetworkFit("mlp-cayley", (3,))}),
        "smoothed": ("angle", {"smoothed": SmoothedFit(Rotation(0.2))}),
    }
    norm, chosen = fits[kind]
    return lower_distance(images(0, 0.1), images(1, 0.6), norm, fits=chosen, units="u")


@pytest.mark.parametrize("kind", ["linear", "network", "smoothed"])
def test_a_profile_comes_back_as_it_was(kind: str, tmp_path: Path) -> None:
    profile = profile_of(distance_by(kind), 0.1, 0.005, **NAMES)
    write_profile(tmp_path / "one.profile", profile)
    again = read_profile(tmp_path / "one.profile")
    inputs = images(2, 0.4).inputs
    assert again.values(inputs, 3).tolist() == profile.values(inputs, 3).tolist()
    assert again.fingerprint == profile.fingerprint
    assert (again.limit, again.statistics, again.domain) == (profile.limit, profile.statistics, "photo")
    assert profile_of(distance_by(kind), 0.11, 0.005, **NAMES).fingerprint != profile.fingerprint


def test_a_profile_holds_no_image(tmp_path: Path) -> None:
    write_profile(tmp_path / "one.profile", profile_of(distance_by("linear"), 0.1, 0.005, **NAMES))
    stored = safetensors.numpy.load((tmp_path / "one.profile").read_bytes())
    assert {name: value.shape for name, value in stored.items()} == {"weight": (16,)}


def test_the_bound_on_the_domain_is_above_its_mean() -> None:
    distance = lower_distance(*gaussians(np.random.default_rng(0), 800, 5, 3.0))
    profile = profile_of(distance, 0.5, 0.005, **NAMES)
    assert 0 < profile.upper - profile.statistics["mean"] < 0.4
    assert profile.limit.mean == pytest.approx(profile.upper + 0.5, abs=1e-9)
    with pytest.raises(UsageError, match="no stream could ever raise"):
        profile_of(distance, 50.0, 0.005, **NAMES)


def changed(path: Path, profile: Profile, **facts: object) -> Path:
    """The file of a profile with other facts."""
    from shiftproof.theory import profile as module

    state, arrays = module._state(profile)
    text = module.json.dumps(state | facts)
    path.write_bytes(safetensors.numpy.save(arrays, {"shiftproof-profile": text}))
    return path


def test_files_that_are_no_profile_get_a_sentence(tmp_path: Path) -> None:
    profile = profile_of(distance_by("linear"), 0.1, 0.005, **NAMES)
    path = tmp_path / "some.profile"
    with pytest.raises(DataError, match="there is no file"):
        read_profile(path)
    path.write_text("no profile")
    with pytest.raises(DataError, match="is not a profile"):
        read_profile(path)
    path.write_bytes(safetensors.numpy.save({"a": np.zeros(2)}))
    with pytest.raises(DataError, match="holds tensors, but no profile"):
        read_profile(path)
    with pytest.raises(DataError, match="another version"):
        read_profile(changed(path, profile, format=99))
    with pytest.raises(DataError, match="kind 'quantum'"):
        read_profile(changed(path, profile, kind="quantum"))
    with pytest.raises(DataError, match="for distances in linf"):
        read_profile(changed(path, profile, norm="linf"))
    with pytest.raises(DataError, match="no number"):
        read_profile(changed(path, profile, ends=-1.0))
    with pytest.raises(DataError, match="can't be used|can be used|no number"):
        read_profile(changed(path, profile, upper=None))
    longer = profile.judge.critic.to_state()[0] | {"shape": [5]}
    with pytest.raises(DataError, match="no weight of shape"):
        read_profile(changed(path, profile, critic=longer))


def test_an_edited_profile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.profile"
    write_profile(path, profile_of(distance_by("linear"), 0.1, 0.005, **NAMES))
    with safetensors.safe_open(path, framework="np") as file:
        text = file.metadata()["shiftproof-profile"]
    arrays = safetensors.numpy.load(path.read_bytes())
    for name, value in (
        ("ends", 0.0),
        ("upper", -9.0),
        ("alpha", "x"),
        ("alpha", -0.5),
        ("interval", "none"),
        ("n", 7),
    ):
        facts = json.loads(text) | {name: value}
        path.write_bytes(safetensors.numpy.save(arrays, {"shiftproof-profile": json.dumps(facts)}))
        with pytest.raises((DataError, UsageError)):
            read_profile(path)


def test_an_edited_state_is_refused() -> None:
    profile = profile_of(distance_by("linear"), 0.1, 0.005, **NAMES)
    alarm = Alarm(profile).update(images(3, 0.2).inputs)
    state = alarm.to_state()
    assert Alarm.from_state(profile, json.loads(json.dumps(state))).to_state() == state
    for name, value in (("count", -5), ("peak", 0.5), ("log_capital", [0.0] * 12), ("seen", ["a"]), ("seal", "")):
        with pytest.raises(DataError):
            Alarm.from_state(profile, state | {name: value})


def test_a_domain_that_repeats_itself_raises_no_alarm() -> None:
    """Nine of ten samples are the same empty image: leaving out what came before would leave the bright ones alone."""
    rng = np.random.default_rng(8)

    def draw(n: int) -> np.ndarray:
        bright = rng.random((n, 1, 4, 4)) * 0.3 + 0.5
        return np.where(rng.random((n, 1, 1, 1)) < 0.9, 0.0, bright).astype(np.float32)

    far = (rng.random((200, 1, 4, 4)) * 0.3 + 0.5).astype(np.float32)
    profile = profile_of(lower_distance(Points.of("p", draw(400)), Points.of("q", far)), 0.2, 0.005, **NAMES)
    alarm = Alarm(profile)
    for _ in range(20):
        alarm = alarm.update(draw(100))
    assert not alarm.raised
    assert alarm.evidence.count == 2_000
    # named inputs count once each
    ids = [f"file {i}" for i in range(100)]
    once = Alarm(profile).update(draw(100), ids)
    assert once.update(draw(100), ids).evidence.count == 100
