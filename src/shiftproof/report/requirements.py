"""What a pipeline asks of a run: `certified@0.5>=0.6`, `clean:sketch>=0.8 with 95%`, `clean>=baseline-0.02`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shiftproof.errors import UsageError
from shiftproof.evidence import Evidence, seen_note
from shiftproof.execution import as_list
from shiftproof.perturbations.threat import parse_eps
from shiftproof.report.certified import series_of_evidence
from shiftproof.report.measures import measures_of
from shiftproof.report.shift import CONFIDENCE, ORDERS, ShiftSeries, shift_series
from shiftproof.report.tables import points
from shiftproof.theory.words import percent_down, rounded_down
from shiftproof.types import Estimate

__all__ = [
    "CLAIMS",
    "Certifiable",
    "ComparedOutcome",
    "Measurable",
    "Outcome",
    "Requirement",
    "classifier_words",
    "compared",
    "holds",
]

METRICS = ("clean", "clean-vote", "attacked", "corrupted", "certified", "shift")
CLAIMS = "claims"
"""The requirement that every claim of the study that can be judged is supported; it has no operator."""
SIZED = ("attacked", "certified", "shift")
SHIFT = "shift certificate"
"""The method of figures that are guaranteed around a domain."""
_COMPARED: dict[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le}
_NUMBER = r"(?:\d+\.?\d*|\.\d+)"
_FORM = re.compile(
    r"\s*(?P<metric>[a-z]+(?:-[a-z]+)?)(?:@(?:(?P<norm>[\w,=-]+):)?(?:(?P<order>w(?:1|2|inf))=)?"
    rf"(?P<size>{_NUMBER}(?:e-?\d+)?(?:/{_NUMBER})?))?"
    r"(?::(?P<domain>.+?))?\s*(?P<sign>>=|<=)\s*"
    rf"(?:(?P<baseline>baseline)(?:\s*(?P<margin>[+-]\s*{_NUMBER}\s*%?))?|(?P<share>{_NUMBER}\s*%?))"
    r"(?P<sure>\s+with\s+(?P<level>\S+))?\s*"
)
_EXAMPLE = "certified@0.5>=0.6, attacked@linf:8/255>=0.3, shift@w1=0.1>=0.6, clean:sketch>=0.8 with 95%"


@dataclass(frozen=True)
class Certifiable:
    """A certificate that is planned: its norm, no radius above `largest`, and `radii` if it decides no others."""

    norm: str
    title: str
    largest: float
    radii: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Measurable:
    """What there will be numbers of: attacks are those on the model itself (norm and size), votes are of noises."""

    domains: tuple[str, ...]
    attacks: tuple[tuple[str, float], ...] = ()
    votes: tuple[str, ...] = ()
    certificates: tuple[Certifiable, ...] = ()
    corrupted: bool = False
    clean: bool = True
    regression: bool = False
    claims: int = 0


@dataclass(frozen=True)
class Outcome:
    """Whether a requirement is met, by which number of which classifier, and what a reader should know of it.

    `judged` is what was compared: "value", "lower limit" or "upper limit" of the 95 % interval. `model` is named where
    there are several.
    """

    text: str
    met: bool
    measured: Estimate
    domain: str
    classifier: str
    judged: str
    seen_in_training: str = "no"
    model: str = ""

    def __str__(self) -> str:
        verb = "is met" if self.met else "is not met"
        limit = "" if self.judged == "value" else f"; its {self.judged} is judged"
        note = seen_note(self.seen_in_training, "; ")
        figure = self.measured.format()
        if self.measured.method == SHIFT:
            # a guarantee is a limit from below already
            figure = f"{percent_down(self.measured.value, 1)} guaranteed"
        measured = f"{figure} on {self.domain} (n = {self.measured.n}), {self.classifier}"
        of = f"{self.model}: " if self.model else ""
        return f"{of}{self.text} {verb}: {measured}{limit}{note}"


@dataclass(frozen=True)
class ComparedOutcome:
    """Whether a requirement against a baseline is met, and by which difference.

    `judged` is what was compared: "value", "lower limit" or "upper limit" of the 95 % interval of `difference`, which
    is the other model's figure (`measured`) less that of the baseline.
    """

    text: str
    met: bool
    measured: Estimate
    baseline: Estimate
    difference: Estimate
    domain: str
    classifier: str
    judged: str
    seen_in_training: str = "no"
    model: str = ""

    def __str__(self) -> str:
        verb = "is met" if self.met else "is not met"
        limit = "" if self.judged == "value" else f"; the {self.judged} of the difference is judged"
        note = seen_note(self.seen_in_training, "; ")
        figures = f"{self.measured.value:.1%} against {self.baseline.value:.1%}"
        apart = f"{self.difference.format(points)} points"
        of = f"{self.model}: " if self.model else ""
        where = f"on {self.domain} (n = {self.difference.n}), {self.classifier}"
        return f"{of}{self.text} {verb}: {figures}, {apart}, {where}{limit}{note}"


@dataclass(frozen=True)
class Requirement:
    """A number of the report, and what it must be: on the target, or on a domain that it names.

    `METRIC[@SIZE][:DOMAIN] >=|<= SHARE [with 95%]`. `clean`, `attacked` and `corrupted` are of the model itself,
    `clean-vote` of the smoothed one, `certified` of the classifier that is certified; `shift@w1=0.1` is what is
    guaranteed on every distribution within that Wasserstein distance of the domain (also w2, winf). Where there are
    several of a kind, the worst counts. `with 95%` asks it of the limit of the interval instead of the value; what
    `shift` says is such a limit already. `claims` stands alone: every claim of the study that can be judged must be
    supported; `report.claims` judges it, since it is no number of a model. In place of a share, `baseline-0.02` asks
    for no less than another run's figure, less that: `relative`, with `share` the number that is added to it. That is
    judged where there is a baseline, by `report.comparison`.

    >>> Requirement.parse("certified@0.5>=60%").share
    0.6
    >>> Requirement.parse("clean >= baseline - 2%").share
    -0.02
    """

    text: str
    metric: str
    norm: str | None
    size: float | None
    domain: str | None
    sign: str
    share: float
    with_limit: bool
    order: str | None = None
    relative: bool = False

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """From text such as certified@0.5>=0.6; the domain may follow a colon: clean:sketch>=0.8."""
        if not isinstance(text, str):
            raise UsageError(f"the requirement is {text!r}; it should be a text like {_EXAMPLE}")
        if text.strip() == CLAIMS:
            return cls(CLAIMS, CLAIMS, None, None, None, ">=", 1.0, with_limit=False)
        if re.match(rf"\s*{CLAIMS}\b", text):
            raise UsageError(f"the requirement {text!r} should read {CLAIMS!r} alone: that every claim is supported")
        found = _FORM.fullmatch(text)
        if not found or found["metric"] not in METRICS:
            known = ", ".join((*METRICS, CLAIMS))
            raise UsageError(f"can't read the requirement {text!r}; write it like {_EXAMPLE}; there is {known}")
        if (found["size"] is not None) != (found["metric"] in SIZED):
            lacks = "needs a size" if found["size"] is None else "has no size"
            raise UsageError(f"{found['metric']!r} of the requirement {text!r} {lacks}; write it like {_EXAMPLE}")
        if (found["order"] is not None) != (found["metric"] == "shift"):
            lacks = "needs a distance such as @w1=0.1" if found["order"] is None else f"has no {found['order']}"
            raise UsageError(f"{found['metric']!r} of the requirement {text!r} {lacks}; write it like {_EXAMPLE}")
        if found["metric"] == "shift" and found["sign"] == "<=":
            raise UsageError(f"the requirement {text!r} should say >=: a guarantee bounds accuracy from below alone")
        relative = found["baseline"] is not None
        if relative and found["metric"] == "shift":
            why = "what is guaranteed around a domain is a lower limit, and two of these have no difference"
            raise UsageError(f"the requirement {text!r} should compare with a number: {why}")
        share = _as_number(found["margin"] or "0" if relative else found["share"])
        if not (-1 if relative else 0) <= share <= 1:
            raise UsageError(f"the requirement {text!r} should compare with a part of 1, such as 0.6, or with 60%")
        if found["sure"] and found["level"] != "95%":
            raise UsageError(f"the requirement {text!r} should end with 95%: the report's intervals have that level")
        size = None if found["size"] is None else parse_eps(found["size"])
        parts = found["metric"], found["norm"], size, found["domain"], found["sign"]
        return cls(text.strip(), *parts, share, bool(found["sure"]), found["order"], relative)

    @classmethod
    def read(cls, require: Any) -> list[Requirement]:
        """One or several, as texts or as they are."""
        several = [require] if isinstance(require, Requirement) else as_list("require", require, "['clean>=0.8']")
        return [one if isinstance(one, Requirement) else cls.parse(one) for one in several]

    @property
    def judged(self) -> str:
        """What is compared: "value", "lower limit" or "upper limit" of the 95 % interval."""
        return ("lower limit" if self.sign == ">=" else "upper limit") if self.with_limit else "value"

    def check(self, planned: Measurable) -> None:
        """Refuse what will not have been measured: another domain, size or radius, a norm that is not certified."""
        self._check_absolute()
        if self.metric == CLAIMS:
            if not planned.claims:
                raise UsageError(f"{self.text!r} is required, but the study makes no claims: see docs/claims.md")
            return
        if self.domain is not None and self.domain not in planned.domains:
            raise UsageError(f"{self.text!r} names the domain {self.domain!r}; measured are {_list(planned.domains)}")
        if planned.regression:
            raise UsageError(f"{self.text!r} asks for right answers, but labels are numbers to predict: none is right")
        if self.metric == "attacked" and not any(self._is(norm, size) for norm, size in planned.attacks):
            threats = _list(f"{norm}:{size:g}" for norm, size in planned.attacks)
            raise UsageError(f"{self.text!r} asks for an attack that is not planned (planned: {threats}); see --threat")
        if self.metric == "clean" and not planned.clean:
            raise UsageError(f"{self.text!r} asks for clean accuracy, which is not measured here; audit and attack do")
        if self.metric == "corrupted" and not planned.corrupted:
            raise UsageError(f"{self.text!r} asks for corruptions, but none are planned; see --corruptions of audit")
        if self.metric == "clean-vote" and not planned.votes:
            why = "a vote is asked where a certificate by votes has the norm of a --threat"
            raise UsageError(f"{self.text!r} asks for a vote, but none is planned: {why}")
        if self.metric in ("certified", "shift"):
            self._check_certified(planned.certificates)

    def _check_certified(self, planned: Sequence[Certifiable]) -> None:
        norms = dict.fromkeys(one.norm for one in planned)
        mine = [one for one in planned if self._of_norm(one.norm)]
        if not mine:
            raise UsageError(f"{self.text!r} asks for a certificate that is not planned (planned: {_list(norms)})")
        if self.norm is None and not {"l1", "l2", "linf"} & set(norms):
            first = next(iter(norms))
            raise UsageError(f"{self.text!r} should name the norm, which is none of pixels: {self.metric}@{first}:...")
        if self.metric == "shift":
            return
        assert self.size is not None
        for one in mine:
            if one.radii is not None and not any(self._equals(radius) for radius in one.radii):
                decided = _list(f"{radius:g}" for radius in one.radii)
                message = f"{self.text!r} asks for a radius that is not decided (decided are {decided})"
                raise UsageError(f"{message}: choose another --out, and leave out --budget or add it to --radii")
            if self.sign == ">=" and self.share > 0 and self.size > one.largest:
                message = f"{one.title} certifies no radius above {one.largest:.3g}, however sure the model is"
                raise UsageError(f"{self.text!r} can't be met: {message}; more votes (--n) or more noise (--sigma)")

    def judge(self, evidence: Evidence, domains: Sequence[str]) -> Outcome:
        """By evidence of one model; `domains` are those that count unless one is named: the worst of them does."""
        self._check_absolute()
        estimates = [
            (*one, domain)
            for domain in ([self.domain] if self.domain else domains)
            for one in self._measured(evidence, domain)
        ]
        worst = min if self.sign == ">=" else max
        estimate, classifier, domain = worst(estimates, key=lambda one: compared(self, one[0]))
        seen = evidence.where(domain=domain).seen_in_training
        return Outcome(self.text, holds(self, estimate), estimate, domain, classifier, self.judged, seen)

    def _check_absolute(self) -> None:
        if self.relative:
            raise UsageError(
                f"{self.text!r} asks for a baseline, and there is none here: shiftproof compare BASELINE RUN --require "
                f"{self.text!r}"
            )

    def _measured(self, evidence: Evidence, domain: str) -> list[tuple[Estimate, str]]:
        """The figures of the report that are meant, each with the name of its classifier."""
        if self.metric == "shift":
            found = [
                self._guaranteed(one)
                for one in shift_series(evidence)
                if one.domain == domain and self._of_norm(one.norm)
            ]
        elif self.metric == "certified":
            assert self.size is not None
            found = [
                (one.at(self.size), f"certified: {one.name}, {classifier_words(one.classifier)}")
                for one in series_of_evidence(evidence)
                if one.domain == domain and self._of_norm(one.norm)
            ]
        else:
            kind, of_votes = self.metric.removesuffix("-vote"), self.metric.endswith("-vote")
            found = [
                (one.at(domain), f"{classifier_words(one.classifier)}{f', {one.noise}' if one.noise else ''}")
                for one in measures_of(evidence, evidence[0].model)
                if one.kind == kind
                and domain in one.samples
                and (one.classifier != "base") == of_votes
                and (self.size is None or self._is(one.norm, one.size))
            ]
        if not found:
            raise UsageError(f"{self.text!r}: nothing of the kind was measured on {domain}")
        return found

    def _guaranteed(self, one: ShiftSeries) -> tuple[Estimate, str]:
        """What is guaranteed within the distance; 0, with the reason, where nothing can be."""
        assert self.size is not None
        assert self.order is not None
        value = 0.0 if one.refusal else float(one.at(self.size, ORDERS[self.order]))
        what = f"no shift certificate: {one.refusal}" if one.refusal else one.title
        end = "" if one.refusal else f", W1 ends at {rounded_down(one.ends)}"
        estimate = Estimate(value, value, 1.0, one.series.images, CONFIDENCE, SHIFT)
        return estimate, f"{what}, {classifier_words(one.classifier)}{end}"

    def means(self, metric: str, norm: str, size: float) -> bool:
        """Whether a figure is of the kind, norm and size that it asks for."""
        return metric == self.metric and (self.size is None or self._is(norm, size))

    def _is(self, norm: str, size: float) -> bool:
        return self._of_norm(norm) and self._equals(size)

    def _equals(self, size: float) -> bool:
        return self.size is not None and abs(size - self.size) <= 1e-6 * max(1.0, self.size)

    def _of_norm(self, norm: str) -> bool:
        return self.norm is None or norm == self.norm


def compared(requirement: Requirement, estimate: Estimate) -> float:
    """The value, or the limit of the interval that is judged."""
    return {"value": estimate.value, "lower limit": estimate.low, "upper limit": estimate.high}[requirement.judged]


def holds(requirement: Requirement, estimate: Estimate) -> bool:
    """Whether a figure is as required; of one that is relative, a difference from the baseline."""
    # 0.70 less 0.72 is a little less than -0.02, which was not asked
    slack = (1e-9 if requirement.sign == ">=" else -1e-9) if requirement.relative else 0.0
    return _COMPARED[requirement.sign](compared(requirement, estimate) + slack, requirement.share)


def _as_number(text: str) -> float:
    """0.02, -0.02 or -2%, with spaces or without."""
    plain = "".join(text.split())
    return float(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)


def classifier_words(name: str) -> str:
    """A classifier as sentences call it."""
    return "the model itself" if name == "base" else f"the {name} classifier"


def _list(values: Iterable[str]) -> str:
    return ", ".join(values) or "none"
