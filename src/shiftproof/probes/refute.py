"""What a certifier claims, and which of these claims an attack refutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainValidator
from torch import Tensor, nn

from shiftproof.certification import Certificates, Certifier
from shiftproof.certification.certified_classifier import CertifiedClassifier
from shiftproof.certification.certifier import Alpha, Job, Memory
from shiftproof.certification.refute import ATTEMPTS, DIRECTIONS, GLANCED, Claims, refute
from shiftproof.domains import Domain, Domains
from shiftproof.errors import UsageError
from shiftproof.evidence import Column
from shiftproof.execution import Compute, Journal
from shiftproof.perturbations.norms import ORDERS
from shiftproof.perturbations.threat import Threat
from shiftproof.probes.blocks import Columns, ProbeTask, measure_blocks
from shiftproof.probes.certify import Certify, as_certifier
from shiftproof.probes.costs import trial_cost
from shiftproof.probes.probe import PROBES, Probe, Result
from shiftproof.rng import derive
from shiftproof.types import Cost, Positive

__all__ = ["Refute"]

_TOGETHER = 32
_TRIED = 16
_COPIES, _VOTES = 16, 4_000
"""Noisy copies of which an attack takes the mean, at most, and votes that judge what it found, at least."""
Known = Mapping[str, tuple[int, float]]
"""Of the samples that somebody claims something of, by id: the class, and within which radius."""


@PROBES.register("refute", cost="as the certifier says, and attacks inside its balls with votes on what they find")
@dataclass(frozen=True)
class Refute(Probe):
    """Claims attacked in their balls: `{name: refute, certifier: {name: median-smoothing, unsound: as-published}}`.

    What is claimed is of the certifier's own classifier, at the input and everywhere in the ball. A claim is refuted
    where fresh votes show another class, inside [0, 1]; a true one with probability `level` at most. It proves a rule
    wrong, and none right. Of a sound certifier no more than alpha of all can be refuted, which is its control.
    """

    columns: ClassVar = (
        Column("radius", "float", "Claimed radius, in `norm` and `units`; 0 where nothing is claimed."),
        Column("claimed", "bool", "Whether a class is claimed within a radius, be it right (`correct`) or wrong."),
        Column("refuted", "bool", "Whether a point inside the radius was shown to have another class."),
        Column("distance", "float", "How far that point is, in `norm`; no number where there is none."),
    )
    in_blocks: ClassVar = False

    certifier: Annotated[Any, PlainValidator(as_certifier)]
    steps: Positive = 20
    level: Alpha = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        certifier: Certifier = self.certifier
        units = Threat("l2", 1.0).units
        if certifier.kind != "image" or certifier.norm not in ORDERS or certifier.units != units:
            raise UsageError(
                f"{certifier.title} claims radii in {certifier.norm} ({certifier.units}); the probe refute attacks "
                f"images in l2, linf or l1 of {units}, such as claims under gaussian or uniform noise"
            )

    @property
    def classifier(self) -> str:
        """Of which classifier the claims speak."""
        return str(self.certifier.classifier)

    @property
    def calibrates(self) -> bool:
        """Whether the certifier adapts the model to training samples."""
        return self._certify.calibrates

    @property
    def title(self) -> str:
        """What tells it from other probes."""
        return f"refute, {self.certifier.title}"

    def collect(self, task: ProbeTask) -> list[Result]:
        """What is claimed of every sample, and what is refuted of it."""
        job = replace(
            self._certify.job(task.model, task.domain, task.compute),
            seed=task.seed,
            record=_Claimed(task.journal),
            progress=task.progress,
            label=f"{task.label}, claims",
            calibration=task.calibration,
        )
        claimed: Certificates = self.certifier.certify(job)
        made = (claimed.prediction >= 0) & (claimed.radius > 0) & ~claimed.skipped
        known = {
            str(name): (int(label), float(radius))
            for name, label, radius in zip(
                claimed.ids[made], claimed.prediction[made], claimed.radius[made], strict=True
            )
        }
        # what an attack meets, and what judges it, are draws that the claims do not rest on
        seed = derive(task.seed, "refute")
        asked = self._asked(replace(job, seed=seed))
        attacked = measure_blocks(
            partial(self.measure, classifier=asked, known=known, seed=seed), task, with_ids=True, most=_TOGETHER
        )
        columns = {"prediction": claimed.prediction, "radius": np.where(made, claimed.radius, 0.0), "claimed": made}
        return [Result(columns | attacked, self._facts(claimed))]

    def measure(
        self,
        model: nn.Module,
        inputs: Tensor,
        labels: Tensor,
        ids: NDArray[np.object_],
        *,
        classifier: CertifiedClassifier,
        known: Known,
        seed: int = 0,
    ) -> Columns:
        """Of a block of samples; draws depend on the seed and a sample's id alone."""
        classes, radii = zip(*(known.get(str(one), (-1, 0.0)) for one in ids), strict=True)
        claims = Claims(np.array(classes, np.int64), np.array(radii), self.certifier.norm)
        found = refute(classifier, inputs.cpu(), claims, ids, steps=self.steps, level=self.level, seed=seed)
        return {"refuted": found.refuted, "distance": found.distance}

    def check(self, model: nn.Module, domain: Domain, calibration: Domains | None) -> None:
        """Refuse texts, and a model to which the certifier does not apply."""
        self._certify.check(model, domain, calibration)

    def passes(self, model: nn.Module) -> int:
        """Noise samples of the claim, and forward passes of all attempts and of the votes on what they find."""
        return int(self.certifier.passes) + self._most_passes

    def cost(self, model: nn.Module, domain: Domain, compute: Compute) -> Cost:
        """That of the claims by the certifier's own trial, and of attacks as if all samples were claimed."""
        claims = self._certify.cost(model, domain, compute)
        few = domain.subset(np.arange(min(_TRIED, len(domain))))
        job: Job = replace(self._certify.job(model, domain, compute), calibration=Domains("trial", [few]))
        asked = self._asked(job)

        def measure(model: nn.Module, inputs: Tensor, labels: Tensor, ids: NDArray[np.object_]) -> Columns:
            answers = asked.answers(inputs.cpu()).tolist()
            known = {str(one): (answer, float(self.certifier.scale)) for one, answer in zip(ids, answers, strict=True)}
            return self.measure(model, inputs, labels, ids, classifier=asked, known=known)

        attacks = trial_cost(measure, job.model, few, compute, self._attack_passes, _TOGETHER)
        seconds = attacks.seconds * len(domain) / len(few)
        return Cost(
            claims.passes + self._attack_passes * len(domain),
            claims.seconds + seconds,
            claims.most_passes + self._most_passes * len(domain),
            claims.most_seconds + seconds,
        )

    def _asked(self, job: Job) -> CertifiedClassifier:
        """The classifier of the claims; one that votes is judged by no fewer votes than they rest on."""
        asked: Any = self.certifier.certified_classifier(job)
        few = asked.counts_votes and asked.votes < max(_VOTES, self.certifier.votes)
        return replace(asked, votes=max(_VOTES, self.certifier.votes)) if few else asked  # type: ignore[no-any-return]

    @property
    def _noises(self) -> int:
        """Under how many noises a sample is voted on, one after the other."""
        return len(getattr(self.certifier, "noises", ("one",)))

    @property
    def _attack_passes(self) -> int:
        """Of one sample: scores, over copies where there is noise, and the votes that say which points are judged."""
        copies, glanced = (1, 1) if self.certifier.passes == 1 else (_COPIES, GLANCED)
        return self._noises * (len(ATTEMPTS) * ((self.steps + 1) * copies + glanced) + DIRECTIONS * copies)

    @property
    def _most_passes(self) -> int:
        """With the votes that judge, where every attempt ends at another class."""
        judged = 0 if self.certifier.passes == 1 else max(_VOTES, int(self.certifier.votes))
        return self._attack_passes + self._noises * len(ATTEMPTS) * judged

    @property
    def _certify(self) -> Certify:
        return Certify(self.certifier)

    def _facts(self, claimed: Certificates) -> dict[str, Any]:
        return {
            **{name: getattr(claimed, name) for name in ("norm", "units", "alpha", "scale", "unsound", "guarantee")},
            "rule": claimed.title,
            "certifier": self.certifier.to_config(),
            "level": self.level,
            "steps": self.steps,
            "attempts": len(ATTEMPTS),
        }


class _Claimed(Memory):
    """A part of a journal in which claims are recorded, beside what attacks have done."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal, self._mark = journal, "claims "
        marked = ((key, value) for key, value in journal.done.items() if key.startswith(self._mark))
        self.done = {key.removeprefix(self._mark): value for key, value in marked}

    def append(self, key: str, value: Any) -> None:
        """Remember a piece, here and in the journal."""
        self._journal.append(f"{self._mark}{key}", value)
        super().append(key, value)

    def discard(self) -> None:
        """Forget everything: what certifies nothing attacks nothing."""
        self._journal.discard()
        super().discard()
