"""Whether a target lies provably outside what a run guarantees: `sp.shift`, `shiftproof shift`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shiftproof.domains import Domain, Domains
from shiftproof.domains.unlabelled import Unlabelled
from shiftproof.errors import UnknownName, UsageError
from shiftproof.execution import Mode
from shiftproof.report.shift import KnownDistance, ShiftSeries, shift_series
from shiftproof.rng import checked_seed
from shiftproof.runs.absent import AbsentData
from shiftproof.runs.data import StudyData, load_study_data
from shiftproof.runs.run import Run, open_run
from shiftproof.runs.shift_inputs import reference_samples, resizes, target_samples, to_gray
from shiftproof.runs.shift_questions import fitting, questions_of
from shiftproof.runs.shift_spaces import CRITICS, SPACES, Settings, distance_between
from shiftproof.runs.sources import as_data
from shiftproof.runs.trust import Trust
from shiftproof.theory.confidence import check_level
from shiftproof.theory.distances.lower_bound import Distance, Interval
from shiftproof.theory.profile import Profile, profile_of
from shiftproof.theory.words import rounded_down

__all__ = ["Comparison", "Shift", "profile_for", "shift"]

NOTHING = Trust()


@dataclass(frozen=True, eq=False)
class Comparison:
    """A target and one domain of a run: how far apart they are at least, and where the guarantee ends.

    `level` is the probability that all comparisons of one call hold together. `ends` is None, and `reason` says why,
    where nothing is guaranteed that the distance compares with.
    """

    target: str
    domain: str
    distance: Distance
    level: float
    ends: float | None
    reason: str = ""
    space: str = "pixels"
    groups: tuple[bool, bool] = (False, False)

    @property
    def outside(self) -> bool:
        """Whether the target lies provably outside what is guaranteed around the domain."""
        return self.ends is not None and self.distance.lower > self.ends

    @property
    def sentence(self) -> str:
        """What may be said; that a target lies inside never may."""
        level, far = f"{100 * self.level:g} %", rounded_down(self.distance.lower)
        farther = f"{self.target} is provably farther than {far} from {self.domain} ({level})"
        if self.ends is None:
            known = (
                farther if self.distance.lower > 0 else f"{self.target} and {self.domain}: no evidence of a distance"
            )
            return f"{known}. Nothing is guaranteed there to compare it with: {self.reason}"
        if self.outside:
            return f"{farther}. The W1 guarantee of this run ends at {self.ends:.3g}: it says nothing there"
        away = f"; it is provably farther than {far} away ({level})" if self.distance.lower > 0 else ""
        return (
            f"{self.target}: no evidence that it lies outside what is guaranteed around {self.domain}, which ends at "
            f"W1 {self.ends:.3g}{away}. That it lies inside can't be proven"
        )

    @property
    def detail(self) -> str:
        """How the distance was bounded, and in what."""
        one = self.distance
        shape = "" if self.space == "representation" else f", {' x '.join(map(str, one.judge.critic.shape))}"
        alone = (
            f"; {self.domain} comes in groups, and samples of {self.target} are taken as independent of each other"
            if self.groups == (True, False)
            else ""
        )
        return (
            f"W1 in {one.norm} ({one.units}{shape}) by a {one.critic}, a {one.interval} interval and "
            f"{one.n[0]} and {one.n[1]} {'groups or ' if any(self.groups) else ''}samples that it was not fitted to"
            f"{alone}"
        )

    @property
    def known(self) -> KnownDistance:
        """What a report says of it."""
        one = self.distance
        return KnownDistance(
            self.target, self.domain, one.norm, one.units, one.lower, self.level, self.outside, self.sentence
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        one = self.distance
        return {
            "target": self.target,
            "domain": self.domain,
            "lower": one.lower,
            "level": self.level,
            "norm": one.norm,
            "units": one.units,
            "critic": one.critic,
            "interval": one.interval,
            "n": list(one.n),
            "difference": one.difference,
            "ends": None if self.ends is None or math.isinf(self.ends) else self.ends,
            "outside": self.outside,
            "sentence": self.sentence,
        }


@dataclass(frozen=True, eq=False)
class Shift:
    """What a run guarantees near its domains, and how far a target lies from them at least."""

    certificates: tuple[ShiftSeries, ...]
    comparisons: tuple[Comparison, ...] = ()

    @property
    def outside(self) -> bool:
        """Whether the target lies provably outside what is guaranteed around every domain that has a guarantee."""
        return bool(self.guaranteed) and all(one.outside for one in self.guaranteed)

    @property
    def guaranteed(self) -> list[Comparison]:
        """Comparisons with domains around which anything is guaranteed."""
        return [one for one in self.comparisons if one.ends is not None]

    @property
    def conclusion(self) -> str:
        """All comparisons in one sentence."""
        inside = list(dict.fromkeys(one.domain for one in self.guaranteed if not one.outside))
        names = ", ".join(dict.fromkeys(one.domain for one in self.guaranteed))
        if not self.guaranteed:
            return "Nothing is guaranteed that the target could lie outside of"
        if inside:
            return f"Not shown to be outside: what is guaranteed around {', '.join(inside)} may reach it"
        return f"Outside: beyond what is guaranteed around {names}"

    @property
    def distance(self) -> Distance | None:
        """The least distance to a domain; None without a target."""
        return min((one.distance for one in self.comparisons), key=lambda one: one.lower, default=None)

    @property
    def sentence(self) -> str:
        """What may be said of the target."""
        return " ".join(f"{one.sentence}." for one in self.comparisons)

    def __repr__(self) -> str:
        return f"Shift({self.sentence or 'no target'})"


def shift(
    run: Run | Path | str,
    target: str | Path | Domain | Unlabelled | Any = None,
    *,
    domain: str | Sequence[str] | None = None,
    space: str = "auto",
    critics: Sequence[str] = ("linear",),
    level: float = 0.99,
    limit: int | None = 1_000,
    interval: Interval = "betting",
    seed: int = 0,
    data: Domains | None = None,
    trust: Trust = NOTHING,
    progress: Mode = "auto",
) -> Shift:
    """What a run guarantees near its domains, and whether a target without labels lies provably outside of it.

    Every domain with certificates is compared, or those that `domain` names; all comparisons hold together with
    probability `level`. A seed deals samples to folds: whoever tries several and reports the best has no bound.

    Args:
        run: A run or its folder.
        target: A domain of the run's data, folder:PATH with images (labels and class folders are not looked at), a
            `Domain`, or an array N x C x H x W in [0, 1]; None for the certificates alone.
        space: pixels, representation (of the run's model), parameters (that the run's noise moves), or auto.
        critics: linear, mlp-cayley, cnn-cayley; with several, the first fold decides.
        limit: Samples of either domain, at most, at random.
        data: The run's data, where it was handed over in Python.
        trust: What of the things that the folder names may be run or fetched.
    """
    opened = run if isinstance(run, Run) else open_run(run)
    series = tuple(shift_series(opened.evidence))
    if target is None:
        return Shift(series)
    check_level(level, "level")
    _check_names(space, critics)
    names = [domain] if isinstance(domain, str) else domain
    loaded = _load(opened, data, trust, with_models=space == "representation")
    study = opened.study if data is None else replace(opened.study, data=as_data(data))
    against = target_samples(target, study, loaded)
    own = [one.name for one in loaded.domains]
    if not isinstance(target, str) or target not in own:
        # a folder may be called as a domain is, and be another one
        against = replace(against, name=f"the target {against.name}") if against.name in own else against
    questions = fitting(questions_of(opened, series, names, against.name), space)
    share = 1 - (1 - level) / len(questions)
    settings = Settings(space, tuple(critics), share, interval, checked_seed(seed), progress)
    found = []
    for one in questions:
        samples = reference_samples(loaded, one.domain).first(limit, seed)
        distance, known = distance_between(opened, loaded, one, samples, against.first(limit, seed), settings)
        grouped = samples.groups is not None, against.groups is not None
        found.append(
            Comparison(against.name, one.domain, distance, level, known.ends, known.reason, known.space, grouped)
        )
    return Shift(series, tuple(found))


def profile_for(run: Run, comparison: Comparison) -> Profile:
    """The profile of a comparison's domain, for an alarm elsewhere: its critic was fitted to see this target.

    It shares 1 - level evenly with the stream that it will judge.
    """
    if comparison.space == "representation":
        raise UsageError("a profile holds its critic and no model: it can't be of --space representation; take pixels")
    if comparison.ends is None or not math.isfinite(comparison.ends):
        raise UsageError(
            f"no distance from {comparison.domain} is known at which an alarm would be due: "
            f"{comparison.reason or 'its guarantee has no end'}"
        )
    if not comparison.outside:
        raise UsageError(
            f"the critic does not tell {comparison.target} from what is guaranteed around {comparison.domain}, so that "
            "its alarm might never sound: give an example that lies farther away, or more samples of it"
        )
    return profile_of(
        comparison.distance,
        comparison.ends,
        (1 - comparison.level) / 2,
        domain=comparison.domain,
        example=comparison.target,
        run=str(run.record["hash"]),
        resize=resizes(run.study),
        to_gray=to_gray(run.study),
    )


def _check_names(space: str, critics: Sequence[str]) -> None:
    if space not in SPACES:
        raise UnknownName("space", space, SPACES)
    for name in critics:
        if name not in CRITICS:
            raise UnknownName("critic", name, CRITICS)
    if not critics:
        raise UsageError(f"name at least one critic: {', '.join(CRITICS)}")


def _load(run: Run, data: Domains | None, trust: Trust, *, with_models: bool) -> StudyData:
    """The run's data, and nothing that only its folder says should be fetched or executed."""
    study = run.study if data is None else replace(run.study, data=as_data(data))
    models = [(one.model.name, {**one.model.options, "pretrained": False}) for one in study.models.values()]
    trust.check(run.folder, study.data.source if data is None else "", models if with_models else [])
    if isinstance(study.data, AbsentData):
        raise UsageError(run.absent)
    return load_study_data(study, run.record.get("left_out"), run.record.get("parts"))
