"""What a pipeline asks of an audit: `certified@0.5>=0.6`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shiftproof.errors import UsageError
from shiftproof.evidence import Evidence
from shiftproof.evidence.record import seen_note
from shiftproof.perturbations.threat import parse_eps
from shiftproof.report.certified import series_of_evidence
from shiftproof.report.measures import Measure, measures_of
from shiftproof.types import Estimate

__all__ = ["Outcome", "Requirement"]

KINDS = ("clean", "attacked", "corrupted", "certified")
_COMPARED: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_FORM = re.compile(r"\s*(\w+)(?:@(?:(\w+):)?([\d./e-]+))?(?::(.+?))?\s*(>=|<=|>|<)\s*([\d.]+)\s*(%?)\s*")
_EXAMPLE = "certified@0.5>=0.6, attacked@linf:8/255>=0.3, clean:sketch>=0.8"


@dataclass(frozen=True)
class Outcome:
    """Whether a requirement is met, and by which number."""

    text: str
    met: bool
    measured: Estimate
    domain: str
    seen_in_training: str = "no"

    def __str__(self) -> str:
        verb = "is met" if self.met else "is not met"
        note = seen_note(self.seen_in_training, ", ")
        return f"{self.text} {verb}: {self.measured.format()} on {self.domain}{note}"


@dataclass(frozen=True)
class Requirement:
    """A number of the report, and what it must be: on the target, or on a domain that it names.

    >>> Requirement.parse("certified@0.5>=60%").least
    0.6
    """

    text: str
    kind: str
    norm: str | None
    size: float | None
    domain: str | None
    sign: str
    least: float

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """From text such as certified@0.5>=0.6; the domain may follow a colon: clean:sketch>=0.8."""
        found = _FORM.fullmatch(text)
        if not found or found[1] not in KINDS:
            raise UsageError(f"can't read the requirement {text!r}; write it like {_EXAMPLE}")
        kind, norm, size, domain, sign, number, percent = found.groups()
        if (size is not None) != (kind in ("attacked", "certified")):
            lacks = "needs a size" if size is None else "has no size"
            raise UsageError(f"{kind!r} of the requirement {text!r} {lacks}; write it like {_EXAMPLE}")
        least = float(number) / (100 if percent else 1)
        if not 0 <= least <= 1:
            raise UsageError(f"the requirement {text!r} should end with a part of 1, such as 0.6, or with 60%")
        return cls(text, kind, norm, None if size is None else parse_eps(size), domain, sign, least)

    def check(
        self, domains: Sequence[str], attacks: Sequence[tuple[str, float]], certified: Sequence[str], corrupted: bool
    ) -> None:
        """Refuse what will not have been measured: another domain, an attack of another size, a norm not certified."""
        if self.domain is not None and self.domain not in domains:
            raise UsageError(f"{self.text!r} names the domain {self.domain!r}; measured are {', '.join(domains)}")
        if self.kind == "attacked" and not any(self._is(norm, size) for norm, size in attacks):
            planned = ", ".join(f"{norm}:{size:g}" for norm, size in attacks) or "none"
            raise UsageError(f"{self.text!r} asks for an attack that is not planned (planned: {planned}); see --threat")
        if self.kind == "corrupted" and not corrupted:
            raise UsageError(f"{self.text!r} asks for corruptions, but none are planned; see --corruptions")
        if self.kind == "certified":
            norms = ", ".join(certified) or "nothing"
            if not any(self._of_norm(norm) for norm in certified):
                raise UsageError(f"{self.text!r} asks for a certificate that is not planned (planned: {norms})")
            if self.norm is None and not set(certified) & {"l1", "l2", "linf"}:
                raise UsageError(f"{self.text!r} should name the norm, which is none of pixels: certified@{norms}:...")

    def judge(self, evidence: Evidence, domains: Sequence[str]) -> Outcome:
        """By evidence of one model; `domains` are those that count unless one is named: the worst of them does."""
        estimates = [
            (self._measured(evidence, domain), domain) for domain in ([self.domain] if self.domain else domains)
        ]
        sought = min if self.sign.startswith(">") else max
        measured, domain = sought(estimates, key=lambda one: one[0].value)
        seen = evidence.where(domain=domain).seen_in_training
        return Outcome(self.text, _COMPARED[self.sign](measured.value, self.least), measured, domain, seen)

    def _measured(self, evidence: Evidence, domain: str) -> Estimate:
        if self.kind == "certified":
            assert self.size is not None
            series = [one for one in series_of_evidence(evidence) if one.domain == domain and self._of_norm(one.norm)]
            if not series:
                raise UsageError(f"{self.text!r}: nothing was certified on {domain}")
            # certificates of several kinds speak of several classifiers: the first is the one asked for first
            return series[0].at(self.size)
        every = measures_of(evidence, str(evidence["model"][0]))
        mine = [one for one in every if one.kind == self.kind and (self.size is None or self._is(one.norm, one.size))]
        if not mine:
            raise UsageError(f"{self.text!r}: nothing of the kind was measured")
        return self._worst(mine, domain)

    def _worst(self, measures: Sequence[Measure], domain: str) -> Estimate:
        sought = min if self.sign.startswith(">") else max
        return sought((one.at(domain) for one in measures), key=lambda estimate: estimate.value)

    def _is(self, norm: str, size: float) -> bool:
        return self._of_norm(norm) and self.size is not None and abs(size - self.size) <= 1e-6 * max(1.0, self.size)

    def _of_norm(self, norm: str) -> bool:
        return self.norm is None or norm == self.norm
