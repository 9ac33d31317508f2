"""What a target is compared with: every domain of a run, and where guarantees around it end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shiftproof.catalogue import options_of
from shiftproof.errors import UnknownName, UsageError
from shiftproof.perturbations.noise import Noise
from shiftproof.probes.certify import Certify
from shiftproof.report.shift import ShiftSeries
from shiftproof.runs.run import Run

__all__ = ["PIXELS", "Question", "fitting", "questions_of"]

PIXELS = "pixel values in [0, 1]"


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
    space: str = "auto"

    @property
    def in_pixels(self) -> bool:
        """Whether radii are of pixels, in a norm that critics are for."""
        return self.norm in ("l2", "l1", "linf") and self.units == PIXELS


def questions_of(run: Run, series: Sequence[ShiftSeries], names: Sequence[str] | None, target: str) -> list[Question]:
    """One for every domain and unit of radii; guarantees in the same units count together, the farthest ends last."""
    measured = [*run.record["sources"], *run.study.targets]
    for name in names or ():
        if name not in measured:
            raise UnknownName("domain of the run:", name, measured)
        if name == target:
            raise UsageError(f"{name} is the target, and was named as the domain to compare it with: the same twice")
    noises = {
        setting: getattr(certifier, "noise", None)
        for probe in run.study.all_probes
        if isinstance(probe, Certify)
        for setting, certifier in probe.settings.items()
    }
    chosen = [name for name in measured if name != target and (names is None or name in names)]
    if not chosen:
        raise UsageError(f"the run measures no domain besides {target}: there is nothing to compare it with")
    found: dict[tuple[str, ...], Question] = {}
    for one in series:
        if one.domain not in chosen or one.norm == "edits":
            continue
        noise, ends = noises.get(one.series.setting), None if one.refusal else _ends(one)
        nothing = "its samples are too few, or too few of them are certified" if ends == 0 else ""
        ends = ends or None
        space = one.domain, one.norm, one.units
        before = found.get(key := (*space, _parameters(noise)))
        if before is None or (ends is not None and (before.ends is None or ends > before.ends)):
            found[key] = Question(*space, ends, one.refusal or nothing, one.model, noise)
    guaranteed = list(found.values())
    if guaranteed and names is None:
        return guaranteed
    known = {one.domain for one in guaranteed}
    return guaranteed + [Question(name) for name in chosen if name not in known]


def _parameters(noise: Noise | None) -> str:
    """Which parameters a noise moves, whatever its scale; nothing where it moves the input itself."""
    if noise is None or noise.additive:
        return ""
    first = next(iter(options_of(type(noise))))
    return repr({key: value for key, value in noise.to_config().items() if key != first})


def _ends(series: ShiftSeries) -> float:
    """Where the last guarantee ends, of all training seeds: beyond it none says anything."""
    return max(one.ends for one in series.certificates())


def fitting(questions: list[Question], space: str) -> list[Question]:
    """Those that a space can answer; all of them, to be refused with a reason, where it can answer none."""
    pixels, noisy = [one for one in questions if one.in_pixels], [one for one in questions if one.noise is not None]
    deforming = [one for one in noisy if one.noise is not None and not one.noise.additive]
    answered = {"pixels": pixels, "representation": pixels, "parameters": deforming or noisy}
    return answered.get(space) or questions
