"""An alarm over a stream of inputs, by the profile of a domain; what it has seen can be stored and taken up again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.errors import DataError, UsageError
from shiftproof.rng import checked_seed, numpy_generator
from shiftproof.theory.confidence import check_level
from shiftproof.theory.points import content_units
from shiftproof.theory.profile import Profile
from shiftproof.theory.stream import FRACTIONS, Evidence

__all__ = ["Alarm"]

_BYTES = 12


@dataclass(frozen=True, eq=False)
class Alarm:
    """Evidence that what arrives lies beyond what is guaranteed around a domain, after all batches so far.

    False alarms, ever: 1 - `level` at most, if every input, given those counted before it, comes from a law within
    profile's distance of its domain. Inputs of a batch are shuffled. Where inputs come with ids, each id is counted
    once, so that a file that is read again changes nothing; equal inputs of other ids count each, since leaving them
    out would make another law of the stream. Batches that are each sorted into other batches (all of one class today,
    another tomorrow) break the condition, and no shuffling mends that.
    """

    profile: Profile
    level: float = 0.99
    seed: int = 0
    evidence: Evidence = field(default_factory=Evidence)
    seen: frozenset[str] = field(default=frozenset(), repr=False)

    def __post_init__(self) -> None:
        check_level(self.level, "level")
        checked_seed(self.seed)
        if self.alpha <= 0:
            least = 1 - self.profile.alpha
            raise UsageError(
                f"the level is {self.level:g}, and the profile's own bound holds with {least:g}: choose a lower one, "
                "or save the profile at a higher level"
            )

    @property
    def alpha(self) -> float:
        """What is left of 1 - level for the stream itself, besides the profile's bound."""
        return 1 - self.level - self.profile.alpha

    @property
    def raised(self) -> bool:
        """Whether the alarm was raised, now or before: it stays."""
        return self.evidence.alarmed(self.alpha)

    def update(self, inputs: NDArray[np.float32], ids: Sequence[str] | None = None) -> Alarm:
        """After a batch of inputs (N x shape), shuffled; those whose ids were counted before are passed over."""
        batch = np.asarray(inputs, np.float32)
        if batch.shape[1:] != self.profile.shape:
            sizes = [" x ".join(map(str, shape)) for shape in (batch.shape[1:], self.profile.shape)]
            raise DataError(f"inputs are {sizes[0]}, and those of the profile {sizes[1]}")
        if not np.isfinite(batch).all():
            raise DataError("inputs hold values that are not numbers (NaN or infinite)")
        if ids is not None and len(ids) != len(batch):
            raise DataError(f"there are {len(batch)} inputs but {len(ids)} ids")
        digests = [] if ids is None else [_digest(one) for one in ids]
        rows = [row for row in range(len(batch)) if not digests or digests[row] not in self.seen]
        # by what they hold first, so that the order does not depend on that in which a folder lists its files
        contents = content_units(batch)
        ordered = sorted(
            {digests[row] if digests else str(row): row for row in rows}.values(), key=contents.__getitem__
        )
        if not ordered:
            return self
        order = numpy_generator(self.seed, "shuffled stream", self.evidence.count).permutation(len(ordered))
        chosen = np.array([ordered[place] for place in order], np.int64)
        values = self.profile.values(batch[chosen], self.seed, self.evidence.count)
        evidence = self.evidence.update(values, self.profile.limit)
        return replace(self, evidence=evidence, seen=self.seen | {digests[row] for row in ordered if digests})

    def follow(self, batches: Iterable[NDArray[np.float32]]) -> Iterator[Alarm]:
        """After each batch of a stream; ends with the alarm, or with the stream."""
        alarm = self
        for batch in batches:
            alarm = alarm.update(batch)
            yield alarm
            if alarm.raised:
                return

    @property
    def sentence(self) -> str:
        """What may be said now."""
        ends, domain = f"{self.profile.ends:.3g}", self.profile.domain
        after = f"after {self.evidence.count:,} sample{'s' * (self.evidence.count != 1)}"
        if self.raised:
            return (
                f"alarm {after}: some of what arrives comes from provably farther than {ends} from {domain} "
                f"({100 * self.level:g} %). The W1 guarantee of this run ends at {ends}: it says nothing there"
            )
        return f"{after}: no evidence that it lies outside what is guaranteed around {domain}, which ends at W1 {ends}"

    def to_state(self) -> dict[str, Any]:
        """For JSON: the evidence, what was counted, and of which profile it is."""
        state = {
            "profile": self.profile.fingerprint,
            "seed": self.seed,
            "count": self.evidence.count,
            "log_capital": list(self.evidence.log_capital),
            "peak": self.evidence.peak,
            "seen": sorted(self.seen),
        }
        return state | {"seal": _digest(json.dumps(state, sort_keys=True))}

    @classmethod
    def from_state(cls, profile: Profile, state: Mapping[str, Any], level: float = 0.99) -> Alarm:
        """Taken up again; evidence that was gathered by another profile is refused."""
        if state.get("profile") != profile.fingerprint:
            raise DataError(
                "the state is of another profile, and evidence by another critic does not count: start with a new state"
            )
        try:
            capital = tuple(float(value) for value in state["log_capital"])
            evidence = Evidence(int(state["count"]), capital, float(state["peak"]))
            seen = frozenset(map(str, state["seen"]))
            alarm = cls(profile, level, int(state["seed"]), evidence, seen)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the state is damaged: {error!r}") from error
        if len(capital) != len(FRACTIONS) or not np.isfinite([*capital, evidence.peak]).all() or evidence.count < 0:
            raise DataError("the state is damaged: its capital is not that of the stakes")
        if state.get("seal") != alarm.to_state()["seal"]:
            raise DataError("the state was changed after it was written: its hash differs; start with a new state")
        return alarm


def _digest(one: str) -> str:
    """Names of files are not kept, only that one was counted."""
    return hashlib.blake2b(one.encode(), digest_size=_BYTES).hexdigest()
