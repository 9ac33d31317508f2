"""Distances between a domain and a target in each of the spaces that radii are measured in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shiftproof.domains.unlabelled import Unlabelled
from shiftproof.errors import UsageError
from shiftproof.execution import Mode
from shiftproof.runs.data import StudyData
from shiftproof.runs.models import load_trained
from shiftproof.runs.run import Run
from shiftproof.runs.shift_inputs import check_unseen, encoder_of
from shiftproof.runs.shift_questions import PIXELS, Question
from shiftproof.theory.critics_network import NETWORKS, NetworkFit
from shiftproof.theory.critics_smoothed import SmoothedFit
from shiftproof.theory.distances.lower_bound import Distance, Fit, Interval, LinearFit, lower_distance
from shiftproof.theory.points import Points

__all__ = ["CRITICS", "SPACES", "Settings", "distance_between"]

SPACES = ("auto", "pixels", "representation", "parameters")
"""Where distances are measured; auto is where the radii are: pixels, or parameters of a deformation."""
CRITICS = ("linear", *NETWORKS)


@dataclass(frozen=True)
class Settings:
    """How a distance is bounded: each with probability `level`."""

    space: str
    critics: tuple[str, ...]
    level: float
    interval: Interval
    seed: int
    progress: Mode = "off"

    @property
    def networks(self) -> list[str]:
        """Critics that are trained."""
        return [name for name in self.critics if name in NETWORKS]

    def bound(self, sides: Sequence[Points], norm: str, units: str, fits: dict[str, Fit]) -> Distance:
        """The distance between two samples, by critics of some kinds."""
        reference, target = sides
        known = {"level": self.level, "interval": self.interval, "seed": self.seed}
        return lower_distance(reference, target, norm, units=units, fits=fits, **known)  # type: ignore[arg-type]


def distance_between(
    run: Run, data: StudyData, question: Question, reference: Unlabelled, target: Unlabelled, settings: Settings
) -> tuple[Distance, Question]:
    """The distance, and the question as it can be answered: without an end where nothing compares with the distance."""
    space = _space(settings.space, question, reference)
    question = replace(question, space=space)
    if space == "representation":
        return _in_representation(run, data, question, reference, target, settings)
    within = _in_pixels if space == "pixels" else _in_parameters
    return within(question, [_points(reference), _points(target)], settings), question


def _space(space: str, question: Question, samples: Unlabelled) -> str:
    if samples.kind != "image" and space != "representation":
        raise UsageError(
            f"the run is about {samples.kind}s, whose distances are measured in a model's representation: give "
            "--space representation"
        )
    if space == "auto":
        return "pixels" if question.in_pixels else "parameters"
    return space


def _points(samples: Unlabelled) -> Points:
    return Points.of(samples.name, samples.arrays(), None if samples.groups is None else samples.groups.tolist())


def _in_pixels(question: Question, sides: Sequence[Points], settings: Settings) -> Distance:
    norm, networks = question.norm, settings.networks
    if not question.in_pixels:
        raise UsageError(
            f"radii around {question.domain} are in {norm} ({question.units}), with which no distance in pixels "
            "compares: give --space parameters"
        )
    if networks and norm != "l2":
        raise UsageError(f"{networks[0]} is a critic in l2, and radii around {question.domain} are in {norm}: linear")
    fits: dict[str, Fit] = {"linear": LinearFit(norm)} if "linear" in settings.critics else {}
    fits |= {name: NetworkFit(name, progress=settings.progress) for name in networks}
    return settings.bound(sides, norm, question.units, fits)


def _in_parameters(question: Question, sides: Sequence[Points], settings: Settings) -> Distance:
    noise = question.noise
    if noise is None:
        raise UsageError(f"no noise moves parameters around {question.domain}: give --space pixels")
    if settings.networks:
        raise UsageError(f"{settings.networks[0]}: critics in parameters ask linear questions under the run's noise")
    units = question.units if noise.additive else f"{question.units}, inside one interpolation"
    return settings.bound(sides, noise.norm, units, {"smoothed": SmoothedFit(noise)})


def _in_representation(
    run: Run, data: StudyData, question: Question, reference: Unlabelled, target: Unlabelled, settings: Settings
) -> tuple[Distance, Question]:
    """A distance between representations; over the encoder's constant, where that is known, one between inputs."""
    if settings.networks:
        raise UsageError(f"{settings.networks[0]}: critics of representations are linear")
    if question.ends is not None and not question.in_pixels:
        reason = f"radii around {question.domain} are in {question.norm} ({question.units}), and not of inputs"
        question = replace(question, norm="l2", units=PIXELS, ends=None, reason=reason)
    member = next(one for one in run.study.members if question.model in (None, one.name))
    for name in (reference.name, target.name):
        check_unseen(run, member.key, name)
    model = load_trained(run.study, data.sources, run.folder, member)
    encoder = encoder_of(model, member.title, question.norm, reference)
    # copies are found among the inputs: what rounding does to representations of equal ones may differ
    pixels = [_points(one) if one.kind == "image" or one.groups is not None else None for one in (reference, target)]
    sides = []
    for samples, known in zip((reference, target), pixels, strict=True):
        values = encoder(samples)
        sides.append(Points.of(samples.name, values) if known is None else Points(samples.name, values, known.units))
    if not encoder.constant:
        reason = f"the constant of {member.title}'s encoder is not known, so that no radius speaks of such distances"
        found = settings.bound(sides, "l2", f"representation of {member.title}", {"linear": LinearFit("l2")})
        return found, replace(question, ends=None, reason=reason)
    units = f"{question.units}, by the representation of {member.title}"
    found = settings.bound(sides, question.norm, units, {"linear": LinearFit(question.norm)})
    lower = max(0.0, (found.lower - 2 * encoder.rounding) / encoder.constant)
    return replace(found, lower=lower), question
