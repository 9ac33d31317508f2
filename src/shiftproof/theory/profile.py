"""A profile of a domain: what is needed to raise the alarm elsewhere, in one file and without any image."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from shiftproof.errors import DataError, ShiftproofError
from shiftproof.execution import parse_json, write_atomically
from shiftproof.rng import numpy_generator
from shiftproof.theory.critics import Critic, Judge
from shiftproof.theory.critics_linear import LinearCritic
from shiftproof.theory.critics_network import NetworkCritic
from shiftproof.theory.critics_smoothed import SmoothedCritic
from shiftproof.theory.distances.lower_bound import Distance, Interval, one_sided
from shiftproof.theory.stream import Limit

__all__ = ["Profile", "profile_of", "read_profile", "write_profile"]

FORMAT = 1
_KEY = "shiftproof-profile"
_KINDS: dict[str, type[Critic]] = {
    LinearCritic.kind: LinearCritic,
    NetworkCritic.kind: NetworkCritic,
    SmoothedCritic.kind: SmoothedCritic,
}


@dataclass(frozen=True, eq=False)
class Profile:
    """A clipped critic and what is known of its mean on a domain.

    With probability 1 - `alpha` the mean of the critic on the domain is at most `upper`, which was bounded on `n` units
    that the critic was not fitted to. `ends` is the distance W1 up to which the run guarantees anything. `domain`,
    `example` (what the critic was fitted to see), `run` (a hash) and `statistics` say where it comes from. Images of
    another size may be resized if `resize`, and made gray if `to_gray`, as those of the run were.
    """

    judge: Judge
    upper: float
    alpha: float
    ends: float
    norm: str
    units: str
    domain: str
    example: str
    run: str
    n: int
    interval: Interval
    allowance: float
    statistics: Mapping[str, float]
    resize: bool = False
    to_gray: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input."""
        return self.judge.critic.shape

    @property
    def limit(self) -> Limit:
        """What the critic's mean is at most on every law within `ends` of the domain."""
        return Limit(self.upper + self.ends + 2 * self.allowance, self.judge.low, self.judge.high)

    @property
    def fingerprint(self) -> str:
        """A hash of all of it: evidence that was gathered by another profile does not count for this one."""
        facts, arrays = _state(self)
        digest = hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16)
        for name in sorted(arrays):
            digest.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
        return digest.hexdigest()

    def values(self, inputs: NDArray[np.float32], seed: int, *keys: str | int) -> NDArray[np.float64]:
        """Clipped values of the critic (N) at inputs (N x shape)."""
        return self.judge.values(inputs, numpy_generator(seed, "noise of critics", *keys))


def profile_of(
    distance: Distance,
    ends: float,
    alpha: float,
    *,
    domain: str,
    example: str,
    run: str = "",
    resize: bool = False,
    to_gray: bool = False,
) -> Profile:
    """The profile of a domain, from a distance between it and an example of what may happen.

    The bound `upper` is at level `alpha`, by the same values that bounded the distance.
    """
    judge, values = distance.judge, distance.reference_values
    width = judge.high - judge.low
    scores = np.clip((values - judge.low) / width, 0.0, 1.0)
    upper = judge.low + width * (1 - float(one_sided(1 - scores, alpha, distance.interval)))
    statistics = {
        "mean": float(values.mean()),
        "standard_deviation": float(values.std()),
        "example_mean": float(distance.target_values.mean()),
        "example_standard_deviation": float(distance.target_values.std()),
        "example_distance": distance.lower,
        "example_level": distance.level,
    }
    profile = Profile(
        *(judge, upper, alpha, ends, distance.norm, distance.units, domain, example, run),
        *(distance.n[0], distance.interval, distance.allowance, statistics, resize, to_gray),
    )
    # one that can never alarm is refused now, not after a year of watching
    _ = profile.limit
    return profile


def write_profile(path: Path, profile: Profile) -> None:
    """One safetensors file: arrays of the critic, and all facts as JSON in its header; written whole or not at all."""
    facts, arrays = _state(profile)
    packed = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    write_atomically(path, safetensors.numpy.save(packed, {_KEY: json.dumps(facts | {"seal": profile.fingerprint})}))


def read_profile(path: Path) -> Profile:
    """The profile in a file; a sentence about what is wrong with one that can't be used. Nothing in it is executed."""
    try:
        with safetensors.safe_open(path, framework="np") as file:
            text = (file.metadata() or {}).get(_KEY)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}") from error
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{path} is not a profile of 'shiftproof shift --save-profile': {error}") from error
    if text is None:
        raise DataError(f"{path} holds tensors, but no profile of 'shiftproof shift --save-profile'")
    try:
        facts = parse_json(text)
        if facts.pop("format") != FORMAT:
            raise DataError(f"{path} was written by another version of shiftproof; save the profile again")
        seal, profile = facts.pop("seal", None), _made(facts, arrays)
        if seal != profile.fingerprint:
            raise DataError(f"{path} was changed after it was written: its hash differs; save the profile again")
        return profile
    except (KeyError, TypeError, ValueError, AttributeError, ShiftproofError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not a profile that can be used: {error}") from error


def _state(profile: Profile) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    critic, arrays = profile.judge.critic.to_state()
    plain = ("upper", "alpha", "ends", "norm", "units", "domain", "example", "run", "n", "interval", "allowance")
    facts = {name: getattr(profile, name) for name in (*plain, "resize", "to_gray")}
    facts |= {"format": FORMAT, "low": profile.judge.low, "high": profile.judge.high}
    return facts | {"kind": profile.judge.critic.kind, "critic": critic, "statistics": dict(profile.statistics)}, arrays


def _made(facts: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Profile:
    kind = facts.pop("kind")
    if kind not in _KINDS:
        raise DataError(f"the profile has a critic of the kind {kind!r}; known are {', '.join(_KINDS)}")
    critic = _KINDS[kind].from_state(facts.pop("critic"), arrays)
    profile = Profile(judge=Judge(critic, float(facts.pop("low")), float(facts.pop("high"))), **facts)
    if critic.norm != profile.norm:
        raise DataError(f"the profile is for distances in {profile.norm}, and its critic for {critic.norm}")
    numbers = [profile.upper, profile.ends, profile.allowance, profile.alpha]
    if not all(isinstance(one, int | float) and np.isfinite(one) for one in numbers) or profile.ends < 0:
        raise DataError("the profile holds a bound or a distance that is no number")
    if not 0 < profile.alpha < 1 or profile.allowance < 0 or profile.interval not in ("betting", "bernstein"):
        raise DataError("the profile holds a level, an allowance or an interval that there is not")
    if len(profile.shape) != 3:
        raise DataError(
            f"the profile is of inputs of shape {profile.shape}, and images have channels, height and width"
        )
    _ = profile.limit
    return profile
