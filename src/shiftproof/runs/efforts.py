"""What an audit asks, at several efforts: clean, attacked, corrupted and certified, from very hard to a quick look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from shiftproof.attacks import ATTACKS, usual_attack
from shiftproof.attacks import Attack as AttackMethod
from shiftproof.attacks.ensemble import Ensemble
from shiftproof.attacks.pgd import PGD
from shiftproof.catalogue import options_of
from shiftproof.certification import Certifier
from shiftproof.certification.sampling.stopping import Radii
from shiftproof.errors import ModelError, UsageError
from shiftproof.execution import Backend, Precision
from shiftproof.perturbations.corruptions import check_kind
from shiftproof.perturbations.edits import Edits
from shiftproof.perturbations.embedding import EmbeddingThreat
from shiftproof.perturbations.noise import Noise
from shiftproof.perturbations.threat import Ball, Threat
from shiftproof.probes import PROBES, Probe
from shiftproof.probes.attack import Attack
from shiftproof.probes.certify import Certify
from shiftproof.probes.clean import Clean
from shiftproof.probes.corrupt import Corrupt
from shiftproof.runs.data import StudyData
from shiftproof.types import Finding

__all__ = ["DEFAULT", "EFFORTS", "Effort", "Questions", "applicable"]


@dataclass(frozen=True)
class Effort:
    """How hard every question is asked: votes of a certificate, severities, steps and queries of attacks.

    `smoothed_steps` are those of attacks on smoothed classifiers and in embeddings; `copies` are noisy copies on which
    a smoothed classifier is attacked, `votes` those that judge. `edits` are the positions, the tried ones and the words
    of an attack that edits words; on a smoothed classifier half of each.
    """

    n: int
    severities: tuple[int, ...]
    steps: int
    targets: int
    queries: int
    smoothed_steps: int
    copies: int
    votes: int
    edits: tuple[int, int, int]


EFFORTS = (
    Effort(100_000, (1, 2, 3, 4, 5), 100, 9, 5_000, 40, 32, 2_000, (128, 8, 16)),
    Effort(10_000, (1, 2, 3, 4, 5), 100, 9, 1_000, 20, 16, 1_000, (64, 4, 8)),
    Effort(5_000, (1, 3, 5), 50, 5, 500, 20, 8, 1_000, (48, 4, 6)),
    Effort(2_000, (1, 3, 5), 30, 3, 300, 10, 8, 500, (32, 3, 6)),
    Effort(1_000, (3,), 20, 1, 100, 10, 4, 300, (16, 2, 4)),
)
"""From the greatest to the least."""
DEFAULT = EFFORTS[1]
"""Without a budget."""


@dataclass(frozen=True)
class Questions:
    """What an audit is asked to measure.

    Args:
        certifiers: Each with the names of those of its options that were told; others are the effort's.
        severities: Of corruptions; None leaves them to the effort.
        also: Names of further probes.
        precision: In which votes are counted, by which `backend`.
        radii: Votes stop once these and the sizes of attacks in the same norm are decided; None counts them all.
    """

    threats: tuple[Ball, ...]
    certifiers: tuple[tuple[Certifier, frozenset[str]], ...]
    corruptions: tuple[str, ...]
    severities: tuple[int, ...] | None = None
    also: tuple[str, ...] = ()
    radii: tuple[float, ...] | None = None
    precision: Precision = "f32"
    backend: Backend = "torch"

    def probes(self, effort: Effort) -> list[Probe]:
        """The probes of a study: clean, attacks, attacks on what is smoothed, corruptions, certificates."""
        probes: list[Probe] = [Clean(), *(Attack(_attack(threat, effort)) for threat in self.threats)]
        for noise in self._noises():
            probes += [_on_smoothed(threat, noise, effort) for threat in self.threats if _same_ball(noise, threat)]
        if self.corruptions:
            probes.append(Corrupt(self.corruptions, self.severities or effort.severities))
        probes += [PROBES.create(name, self._usual(name)) for name in self.also]
        return [*probes, *(self._certify(self._voting(one, told, effort)) for one, told in self.certifiers)]

    def _certify(self, certifier: Certifier) -> Certify:
        """Votes in the precision that was asked for; margins are computed in f32."""
        if certifier.passes == 1 or certifier.classifier == "latent":
            return Certify(certifier)
        return Certify(certifier, precision=self.precision, backend=self.backend)

    def _voting(self, certifier: Certifier, told: frozenset[str], effort: Effort) -> Certifier:
        """A certifier with the votes of an effort, and when they stop, unless that was told."""
        known, changes = options_of(type(certifier)), dict[str, Any]()
        if "n" in known and "n" not in told:
            changes["n"] = effort.n
        if self.radii is not None and "stop" in known and "stop" not in told and certifier.noise is not None:
            noise = certifier.noise
            sizes = [threat.eps for threat in self.threats if _same_ball(noise, threat)]
            # findings speak of the scale of the noise, so that it is decided too
            changes["stop"] = Radii([0.0, noise.scale, *sizes, *self.radii])
        return replace(certifier, **changes)  # type: ignore[type-var]

    def _usual(self, probe: str) -> dict[str, Any]:
        """What another probe needs: the first threat to pixels, if it is about one."""
        if "threat" not in PROBES[probe].options:
            return {}
        pixels = [threat for threat in self.threats if isinstance(threat, Threat)]
        if not pixels:
            raise UsageError(f"the probe {probe!r} needs a threat to pixels, such as --threat l2:0.5")
        return {"threat": pixels[0]}

    def _noises(self) -> list[Noise]:
        """Of certificates that speak of a vote under noise: the same vote is attacked."""
        certifiers = [one for one, _ in self.certifiers if one.classifier == "smoothed"]
        return [one.noise for one in certifiers if one.noise is not None]


def applicable(
    questions: Questions, models: Mapping[str, nn.Module], data: StudyData
) -> tuple[Questions, list[Finding]]:
    """The questions without certificates and corruptions that do not apply, and why they do not.

    Other probes must apply: what they say against the model or the data is an error.
    """
    (model,) = models.values()
    if data.sources.is_regression:
        message = "labels are numbers to predict: attacks, corruptions and certificates count right answers, and do not"
        return Questions((), (), ()), [Finding("warn", "does-not-apply", f"{message} apply")]
    findings: list[Finding] = []
    if questions.corruptions:
        asked = Corrupt(questions.corruptions).on(data.sources)
        for name in asked.corruptions:
            check_kind(name, data.sources.kind)
        try:
            asked.check(model, data.measured[-1], data.training)
        except UsageError as error:
            findings.append(Finding("warn", "not-corrupted", str(error)))
            questions = replace(questions, corruptions=())
    for probe in replace(questions, certifiers=()).probes(DEFAULT):
        probe.check(model, data.measured[-1], data.training)
    able = []
    for certifier, told in questions.certifiers:
        try:
            Certify(certifier).check(model, data.measured[-1], data.training)
            able.append((certifier, told))
        except ModelError as error:
            findings.append(Finding("warn", "not-certified", f"{certifier.name}: nothing is certified: {error}"))
    return replace(questions, certifiers=tuple(able)), findings


def _attack(threat: Ball, effort: Effort) -> AttackMethod:
    """The attack that a threat is asked with: an ensemble for pixels, else the usual one."""
    if isinstance(threat, Threat):
        return Ensemble(threat, steps=effort.steps, targets=effort.targets, queries=effort.queries)
    return _usual_attack(threat, effort.edits, effort.smoothed_steps)


def _on_smoothed(threat: Ball, noise: Noise, effort: Effort) -> Attack:
    """The same ball around the samples of a majority vote under noise."""
    attack: AttackMethod
    if isinstance(threat, Threat):
        attack = PGD(threat, steps=effort.smoothed_steps, loss="margin")
    else:
        attack = _usual_attack(threat, tuple(most // 2 for most in effort.edits), effort.smoothed_steps)
    return Attack(attack, smoothed=noise, samples=effort.copies, votes=effort.votes)


def _usual_attack(threat: Ball, edits: Sequence[int], steps: int) -> AttackMethod:
    scaled: dict[str, Any] = {}
    if isinstance(threat, Edits):
        scaled = dict(zip(("positions", "tried", "words"), edits, strict=True))
    elif isinstance(threat, EmbeddingThreat):
        scaled = {"steps": steps}
    return ATTACKS.create(usual_attack(threat), {"threat": threat, **scaled})


def _same_ball(noise: Noise, threat: Ball) -> bool:
    """Whether certificates under the noise are radii in the threat's norm."""
    return (noise.norm, noise.units) == (threat.norm, threat.units)
