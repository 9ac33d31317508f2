"""Whether a target lies provably outside what a run guarantees: `sp.shift`, `shiftproof shift`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shiftproof.catalogue import Method
from shiftproof.domains import Domain, Domains
from shiftproof.domains.unlabelled import Unlabelled
from shiftproof.errors import UnknownName, UsageError
from shiftproof.execution import Mode
from shiftproof.perturbations.noise import Noise
from shiftproof.probes.certify import Certify
from shiftproof.report.shift import ShiftSeries, shift_series
from shiftproof.runs.data import StudyData, load_study_data
from shiftproof.runs.models import load_trained
from shiftproof.runs.run import Run, open_run
from shiftproof.runs.shift_inputs import check_unseen, encoder_of, reference_samples, target_samples
from shiftproof.runs.sources import as_data
from shiftproof.runs.trust import Trust
from shiftproof.theory.critics_network import NETWORKS, NetworkFit
from shiftproof.theory.critics_smoothed import SmoothedFit
from shiftproof.theory.distance import Distance, Fit, Interval, LinearFit, check_level, lower_distance
from shiftproof.theory.points import Points

__all__ = ["CRITICS", "SPACES", "Comparison", "Shift", "shift"]

SPACES = ("auto", "pixels", "representation", "parameters")
"""Where distances are measured; auto is where the radii are: pixels, or parameters of a deformation."""
CRITICS = ("linear", *NETWORKS)
PIXELS = "pixel values in [0, 1]"
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
            return f"{farther}. The guarantee of this run ends at {self.ends:.3g}: it says nothing there"
        return (
            f"{self.target}: no evidence that it lies outside what is guaranteed around {self.domain}, which ends at "
            f"{self.ends:.3g}; it is at least {far} away ({level}). That it lies inside can't be proven"
        )

    @property
    def detail(self) -> str:
        """How the distance was bounded, and in what."""
        one = self.distance
        shape = " x ".join(map(str, one.judge.critic.shape))
        return (
            f"W1 in {one.norm} ({one.units}; inputs of {shape}) by a {one.critic}, a {one.interval} interval and "
            f"{one.n[0]} and {one.n[1]} samples that it was not fitted to"
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
        """Whether the target lies provably outside what is guaranteed around every domain that it was compared with."""
        return bool(self.comparisons) and all(one.outside for one in self.comparisons)

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


@dataclass(frozen=True, eq=False)
class Question:
    """A domain of a run, and in which norm and units guarantees around it end where."""

    domain: str
    norm: str = "l2"
    units: str = PIXELS
    ends: float | None = None
    reason: str = "the run certifies nothing there"
    model: str | None = None
    noise: Noise | None = None


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
    check_level(level)
    _check_names(space, critics)
    names = [domain] if isinstance(domain, str) else domain
    loaded = _load(opened, data, trust, with_models=space == "representation")
    against = target_samples(target, opened.study, loaded)
    questions = _questions(opened, series, names, against.name)
    share = 1 - (1 - level) / len(questions)
    kinds: dict[str, Fit] = {name: NetworkFit(name, progress=progress) for name in critics if name in NETWORKS}
    options: dict[str, Any] = {"level": share, "interval": interval, "seed": seed}
    found = []
    for one in questions:
        samples = reference_samples(loaded, one.domain).first(limit, seed)
        pair = samples, against.first(limit, seed)
        compare = {"parameters": _in_parameters, "pixels": _in_pixels}.get(_space(space, one, samples))
        if compare is None:
            distance, known = _in_representation(opened, loaded, one, *pair, options)
        else:
            distance, known = compare(one, *pair, critics, kinds, options), one
        found.append(Comparison(against.name, one.domain, distance, level, known.ends, known.reason))
    return Shift(series, tuple(found))


def rounded_down(value: float) -> str:
    """A bound with three digits, never more than it is.

    >>> rounded_down(36.58), rounded_down(0.90999), rounded_down(0.0)
    ('36.5', '0.909', '0')
    """
    if value <= 0:
        return "0"
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.floor(value / step * (1 + 1e-12)) * step:.3g}"


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
    if not isinstance(study.data, Method):
        raise UsageError(run.absent or "the data of this run can't be loaded here")
    return load_study_data(study, run.record.get("left_out"), run.record.get("parts"))


def _questions(run: Run, series: Sequence[ShiftSeries], names: Sequence[str] | None, target: str) -> list[Question]:
    """One for every domain and unit of radii; guarantees in the same units count together, the farthest ends last."""
    measured = [*run.record["sources"], *run.study.targets]
    for name in names or ():
        if name not in measured:
            raise UnknownName("domain of the run:", name, measured)
        if name == target:
            raise UsageError(f"{name} is the target, and was named as the domain to compare it with: the same twice")
    noises = {
        setting: getattr(certifier, "noise", None)
        for probe in run.study.probes
        if isinstance(probe, Certify)
        for setting, certifier in probe.settings.items()
    }
    chosen = [name for name in measured if name != target and (names is None or name in names)]
    if not chosen:
        raise UsageError(f"the run measures no domain besides {target}: there is nothing to compare it with")
    found: dict[tuple[str, str, str], Question] = {}
    for one in series:
        if one.domain not in chosen or one.norm == "edits":
            continue
        key, ends = (one.domain, one.norm, one.units), None if one.refusal else _ends(one)
        before = found.get(key)
        if before is None or (ends is not None and (before.ends is None or ends > before.ends)):
            noise = noises.get(one.series.setting)
            found[key] = Question(*key, ends, one.refusal, one.model, noise)
    guaranteed = list(found.values())
    if guaranteed and names is None:
        return guaranteed
    known = {one.domain for one in guaranteed}
    return guaranteed + [Question(name) for name in chosen if name not in known]


def _ends(series: ShiftSeries) -> float:
    """Where the last guarantee ends, of all training seeds: beyond it none says anything."""
    return max(one.ends for one in series.certificates())


def _space(space: str, question: Question, samples: Unlabelled) -> str:
    if samples.kind != "image" and space != "representation":
        raise UsageError(
            f"the run is about {samples.kind}s: distances between {samples.kind}s are measured in a model's "
            "representation; give --space representation"
        )
    if space == "auto":
        return "pixels" if question.norm in ("l2", "l1", "linf") and question.units == PIXELS else "parameters"
    return space


def _points(samples: Unlabelled) -> Points:
    return Points.of(samples.name, samples.arrays(), None if samples.groups is None else samples.groups.tolist())


def _in_pixels(
    question: Question,
    reference: Unlabelled,
    target: Unlabelled,
    critics: Sequence[str],
    networks: dict[str, Fit],
    options: dict[str, Any],
) -> Distance:
    norm = question.norm
    if norm not in ("l2", "l1", "linf") or question.units != PIXELS:
        raise UsageError(
            f"radii around {question.domain} are in {norm} ({question.units}), and a distance in pixels does not compare "
            "with them: give --space parameters"
        )
    if networks and norm != "l2":
        raise UsageError(f"{', '.join(networks)}: networks are critics in l2, and the radii here are in {norm}; linear")
    linear: dict[str, Fit] = {"linear": LinearFit(norm)} if "linear" in critics else {}
    points = _points(reference), _points(target)
    return lower_distance(*points, norm, units=question.units, fits={**linear, **networks}, **options)


def _in_parameters(
    question: Question,
    reference: Unlabelled,
    target: Unlabelled,
    critics: Sequence[str],
    networks: dict[str, Fit],
    options: dict[str, Any],
) -> Distance:
    if question.noise is None:
        raise UsageError(f"no noise moves parameters around {question.domain}: give --space pixels")
    if networks:
        raise UsageError(f"{', '.join(networks)}: critics in parameters are linear questions under the run's noise")
    fits: dict[str, Fit] = {"smoothed": SmoothedFit(question.noise)}
    units = question.units if question.noise.additive else f"{question.units}, inside one interpolation"
    return lower_distance(_points(reference), _points(target), question.noise.norm, units=units, fits=fits, **options)


def _in_representation(
    run: Run, data: StudyData, question: Question, reference: Unlabelled, target: Unlabelled, options: dict[str, Any]
) -> tuple[Distance, Question]:
    """A distance between representations; over the encoder's constant, where that is known, one between inputs."""
    members = [one for one in run.study.members if question.model in (None, one.name)]
    member = members[0]
    for name in (reference.name, target.name):
        check_unseen(run, [member.key], name)
    model = load_trained(run.study, data.sources, run.folder, member)
    encoder = encoder_of(model, member.title, question.norm, reference)
    sides = [
        Points.of(one.name, encoder(one), None if one.groups is None else one.groups.tolist())
        for one in (reference, target)
    ]
    if encoder.constant is None or encoder.constant <= 0:
        found = lower_distance(*sides, "l2", units=f"representation of {member.title}", **options)
        reason = f"the constant of {member.title}'s encoder is not known, so that no radius speaks of such distances"
        return found, replace(question, ends=None, reason=reason)
    found = lower_distance(*sides, question.norm, units=question.units, **options)
    lower = max(0.0, (found.lower - 2 * encoder.rounding) / encoder.constant)
    return replace(found, lower=lower, units=f"{question.units}, by the representation of {member.title}"), question
