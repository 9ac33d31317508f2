"""Certificates as evidence."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, PlainValidator
from torch import nn

from shiftproof.catalogue import options_of
from shiftproof.certification import CERTIFIERS, Certificates, Certifier
from shiftproof.certification.certifier import Job, Memory
from shiftproof.certification.certifiers.randomized_smoothing import RandomizedSmoothing
from shiftproof.certification.checks import check_classifier
from shiftproof.domains import Domain, Domains
from shiftproof.errors import UsageError
from shiftproof.evidence.certificates import CERTIFICATE, certificate_columns, certificate_facts
from shiftproof.execution import HERE, Backend, Compute, Precision
from shiftproof.models.placement import CPU, on_device
from shiftproof.perturbations.noise import as_noise
from shiftproof.probes.blocks import ProbeTask
from shiftproof.probes.probe import PROBES, Probe, Result
from shiftproof.types import Cost

__all__ = ["Certify", "as_certifier", "as_certifiers"]


def as_certifier(value: Any) -> Certifier:
    """A certifier from a study file: its name, or a mapping with the name and its options."""
    return CERTIFIERS.make(value)


def as_certifiers(value: Any) -> Any:
    """One certifier, or several in a list."""
    if isinstance(value, list | tuple):
        made = tuple(as_certifier(one) for one in value)
        return made[0] if len(made) == 1 else made
    return as_certifier(value)


def as_alphas(value: Any) -> tuple[float, ...]:
    """Probabilities of error, strictly between 0 and 1."""
    try:
        found = tuple(float(one) for one in (value if isinstance(value, list | tuple) else [value]))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"alphas are {value!r}; they should be numbers between 0 and 1, such as [0.001, 0.01]"
        ) from error
    for one in found:
        if not 0 < one < 1:
            raise UsageError(f"alpha is {one:g}; it is a probability of error strictly between 0 and 1, such as 0.001")
    return found


@PROBES.register("certify", cost="as the certifier says: n0 + n forward passes a sample for randomized smoothing")
@dataclass(frozen=True)
class Certify(Probe):
    """Certificates: `{name: certify, certifier: {name: randomized-smoothing, noise: gaussian:0.25, n: 10000}}`.

    `certifier` may be a list of several by randomized smoothing (one a noise), which then share their draws. `alphas`
    are further probabilities of error at which the same votes are read.
    """

    columns: ClassVar = CERTIFICATE
    in_blocks: ClassVar = False

    certifier: Annotated[Any, BeforeValidator(as_certifiers)] = field(
        default_factory=lambda: RandomizedSmoothing(as_noise("gaussian:0.25"))
    )
    precision: Precision = "f32"
    backend: Backend = "torch"
    alphas: Annotated[tuple[float, ...], PlainValidator(as_alphas)] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        # a class of one's own may certify otherwise, alone
        voting = all(type(one) is RandomizedSmoothing for one in self.certifiers)
        if not self.certifiers:
            raise UsageError("there is no certifier in the list")
        for one in self.certifiers if self.alphas else ():
            if len({one.alpha, *self.alphas}) != 1 + len(self.alphas):
                raise UsageError(f"alphas are {list(self.alphas)} beside {one.alpha:g}; each should be named once")
        if self.alphas and not voting:
            raise UsageError("several alphas are read from the votes of randomized smoothing; give one")
        if len(self.certifiers) > 1 and not voting:
            raise UsageError("only certifiers by randomized smoothing can share a probe; give each a probe of its own")

    @property
    def certifiers(self) -> tuple[Certifier, ...]:
        """All of them, as a tuple."""
        return self.certifier if isinstance(self.certifier, tuple) else (self.certifier,)

    @property
    def settings(self) -> dict[str, Certifier]:
        """The certifier behind every setting of its measurements: each at its own alpha, then at the others."""
        others: list[Any] = [replace(one, alpha=alpha) for alpha in self.alphas for one in self.certifiers]  # type: ignore[type-var]
        every = [*self.certifiers, *others]
        return {repr(self) if len(every) == 1 else f"{self!r} by {one!r}": one for one in every}

    @property
    def classifier(self) -> str:
        """Of which classifier the certificates speak."""
        return str(self.certifiers[0].classifier)

    @property
    def cheap(self) -> bool:
        """Whether nothing is sampled: margins take a forward pass."""
        return all(one.passes == 1 for one in self.certifiers)

    @property
    def calibrates(self) -> bool:
        """Whether a certifier adapts the model to training samples."""
        return any("calibration" in options_of(type(one)) for one in self.certifiers)

    @property
    def title(self) -> str:
        """What tells it from other certify probes of a study."""
        return f"certify, {', '.join(str(one.title) for one in self.certifiers)}"

    def collect(self, task: ProbeTask) -> list[Result]:
        """Certificates of all samples."""
        job = replace(
            self.job(task.model, task.domain, task.compute),
            seed=task.seed,
            record=task.journal,
            progress=task.progress,
            label=task.label,
            calibration=task.calibration,
        )
        if len(self.certifiers) > 1:
            counted: list[Certificates] = RandomizedSmoothing.certify_together(job, self.certifiers)  # type: ignore[arg-type]
        else:
            counted = [self.certifiers[0].certify(job)]
        every = [*counted, *(one.at_alpha(alpha) for alpha in self.alphas for one in counted)]
        facts = [{"setting": setting, "certifier": one.to_config()} for setting, one in self.settings.items()]
        return [
            Result(certificate_columns(one), certificate_facts(one) | more)
            for more, one in zip(facts, every, strict=True)
        ]

    def check(self, model: nn.Module, domain: Domain, calibration: Domains | None) -> None:
        """Refuse samples that the certifier is not about, and a model to which it does not apply."""
        for certifier in self.certifiers:
            certifier.check_kind(domain)
        job = replace(self.job(model, domain), calibration=calibration)
        for certifier in self.settings.values():
            certifier.applies(job)

    def cost(self, model: nn.Module, domain: Domain, compute: Compute) -> Cost:
        """By a trial on a few samples."""
        job = self.job(model, domain, compute)
        each = [one.estimate(job) for one in self.certifiers]
        return Cost(
            sum(one.passes for one in each),
            sum(one.seconds for one in each),
            sum(one.most_passes for one in each),
            sum(one.most_seconds for one in each),
        )

    def passes(self, model: nn.Module) -> int:
        """Votes of one sample, at most; one where none are counted."""
        return sum(one.passes for one in self.certifiers)

    def job(self, model: nn.Module, domain: Domain, compute: Compute = HERE) -> Job:
        """What the certifier is given; precision and backend are the probe's, because they are certified."""
        classes = check_classifier(model, domain)
        own = replace(compute, precision=self.precision, backend=self.backend)
        return Job(on_device(model, CPU), domain, classes, 0, Memory(), own, "off")
