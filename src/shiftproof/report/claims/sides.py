"""What a claim compares: a metric of a model on a domain, by a certificate or a probe where there are several."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shiftproof.errors import UnknownName, UsageError
from shiftproof.perturbations.threat import parse_eps
from shiftproof.probes import PROBES
from shiftproof.probes.corrupt import as_corruptions

__all__ = ["SOURCES", "By", "Comparison", "Metric", "Side", "parse_metric", "parse_metrics"]

SOURCES = "sources"
"""In place of a domain: the mean over the domains that trained, each weighing the same."""

PLAIN = ("accuracy", "clean-vote", "corrupted", "acr", "answers", "reached-representation")
SIZED = ("attacked", "certified", "reached")
_FORM = re.compile(r"\s*([a-z-]+)\s*(?:@\s*(?:([\w,=-]+):)?\s*(\[.*\]|[^\[\]]+?))?\s*")
_CORRUPTED = re.compile(r"(?:([a-z][a-z+-]*)(?::([1-5]))?|([1-5]))")
_EXAMPLE = "accuracy, acr, certified@0.25, certified@[0, 0.05, 0.1], attacked@linf:8/255 or reached@linf:0.1"


@dataclass(frozen=True)
class Metric:
    """A number of a model on a domain: what is measured of every sample, whose mean it is.

    `accuracy`, `attacked` and `corrupted` are of the model itself, `clean-vote` of the smoothed one; `certified` is the
    share that is right and certified within `size`, `acr` the average certified radius over all samples, and `answers`
    the share that the certified classifier answers right, whatever its radius. `reached` is the share of predictions
    that a search has changed within `size`, `reached-representation` that with an adversarial representation anywhere.

    Of `corrupted`, `of` are the corruptions or groups of them that are meant, as they were written ("fog+contrast",
    all unless told), and `size` is the severity (the mean over all that were measured unless told).
    """

    kind: str
    size: float | None = None
    norm: str | None = None
    of: str = ""

    def __str__(self) -> str:
        if self.kind == "corrupted":
            return f"corrupted@{self.asked}" if self.asked else self.kind
        norm = "" if self.norm is None else f"{self.norm}:"
        return self.kind if self.size is None else f"{self.kind}@{norm}{self.size:g}"

    @property
    def text(self) -> str:
        """What is read as the same metric again, with the size to its last digit."""
        norm = "" if self.norm is None else f"{self.norm}:"
        return f"{self.kind}@{norm}{self.asked}" if self.asked else self.kind

    @property
    def asked(self) -> str:
        """The size as it is written behind the @, without the norm; of `corrupted`, what is corrupted and how much."""
        size = "" if self.size is None else f"{self.size:g}" if self.kind == "corrupted" else f"{self.size!r}"
        return ":".join(one for one in (self.of, size) if one)

    @property
    def needs_certificate(self) -> bool:
        """Whether it is read from certificates."""
        return self.kind in ("certified", "acr", "answers")

    @property
    def is_searched(self) -> bool:
        """Whether it is what a search in the representation finds."""
        return self.kind in ("reached", "reached-representation")

    @property
    def is_share(self) -> bool:
        """Whether it is a part of 1."""
        return self.kind != "acr"


def parse_metrics(value: Any) -> tuple[Metric, ...]:
    """One metric, or one for each of several sizes.

    >>> [str(one) for one in parse_metrics("certified@[0, 0.05]")]
    ['certified@0', 'certified@0.05']
    >>> [str(one) for one in parse_metrics("corrupted@[fog+contrast:5, blur]")]
    ['corrupted@fog+contrast:5', 'corrupted@blur']
    """
    if isinstance(value, tuple) and value and all(isinstance(one, Metric) for one in value):
        return value
    if isinstance(value, str) and value.strip().startswith("corrupted@"):
        return _parse_corrupted(value)
    found = _FORM.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise UsageError(f"can't read the metric {value!r}; write it like {_EXAMPLE}")
    kind, norm, sizes = found.groups()
    if kind not in (*PLAIN, *SIZED):
        raise UnknownName("metric", kind, (*PLAIN, *SIZED))
    if (sizes is not None) != (kind in SIZED):
        lacks = "needs a size" if sizes is None else "has no size"
        raise UsageError(f"the metric {value!r} {lacks}; write it like {_EXAMPLE}")
    if sizes is None:
        return (Metric(kind),)
    each = [text.strip() for text in sizes.strip("[]").split(",")]
    try:
        numbers = [parse_eps(text) for text in each]
    except UsageError as error:
        raise UsageError(f"can't read the sizes of the metric {value!r}; write it like {_EXAMPLE}") from error
    if len(set(numbers)) != len(numbers) or not all(0 <= number < math.inf for number in numbers):
        raise UsageError(f"the sizes of the metric {value!r} should be at least 0, each named once")
    return tuple(Metric(kind, number, norm) for number in numbers)


def _parse_corrupted(value: str) -> tuple[Metric, ...]:
    """One metric for each entry behind the @: corruptions or groups of them joined by +, and a severity."""
    text = value.strip().removeprefix("corrupted@").strip()
    several = text.startswith("[") and text.endswith("]")
    each = [one.strip() for one in (text[1:-1].split(",") if several else [text])]
    metrics = []
    for one in each:
        found = _CORRUPTED.fullmatch(one)
        if not found:
            form = "corrupted@fog, corrupted@blur:5, corrupted@5 or corrupted@[fog+contrast, snow]"
            raise UsageError(f"can't read the metric {value!r}; write it like {form}, with severities from 1 to 5")
        names, severity = found[1] or "", found[2] or found[3]
        if names:
            as_corruptions(names.split("+"))
        metrics.append(Metric("corrupted", None if severity is None else float(severity), None, names))
    if len(set(metrics)) != len(metrics):
        raise UsageError(f"the metric {value!r} names something twice")
    return tuple(metrics)


def parse_metric(value: Any) -> Metric:
    """One metric, of one size at most."""
    if isinstance(value, Metric):
        return value
    metrics = parse_metrics(value)
    if len(metrics) > 1:
        raise UsageError(f"the metric {value!r} has {len(metrics)} sizes; one figure stands beside another: name one")
    return metrics[0]


@dataclass(frozen=True)
class By:
    """Which certificate is meant, or which probe has measured: its name, and options that tell it from others.

    >>> By.make("latent-margin")
    By(name='latent-margin', options={})
    >>> by = By.make({"name": "randomized-smoothing", "noise": "gaussian:0.25"})
    >>> by.matches({"name": "randomized-smoothing", "noise": {"name": "gaussian", "sigma": 0.25}, "n": 1000})
    True
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def make(cls, value: Any) -> By:
        """From the name of a certifier or a probe, or from a mapping with its name and options."""
        if isinstance(value, By):
            return value
        if isinstance(value, str):
            return cls(value)
        if isinstance(value, Mapping) and isinstance(value.get("name"), str):
            return cls(value["name"], {key: one for key, one in value.items() if key != "name"})
        form = "the name of a certifier or a probe, or a mapping with name and options"
        raise UsageError(f"'by' is {value!r}; it should be {form}")

    @property
    def names_probe(self) -> bool:
        """Whether it is a probe that measures something, not a certifier."""
        return self.name in PROBES

    @property
    def is_unsound(self) -> bool:
        """Whether it is a rule that proves nothing, named as such."""
        return bool(self.options.get("unsound"))

    def to_config(self) -> str | dict[str, Any]:
        """What makes it again."""
        return {"name": self.name, **self.options} if self.options else self.name

    def matches(self, recorded: Mapping[str, Any]) -> bool:
        """Whether a certifier or a probe, as it was recorded, has this name and these options."""
        return recorded.get("name") == self.name and all(
            _same(value, recorded.get(key)) for key, value in self.options.items()
        )

    def __str__(self) -> str:
        options = ", ".join(f"{key} {value}" if value else f"not {key}" for key, value in self.options.items())
        return f"{self.name} ({options})" if options else self.name


def _same(asked: Any, recorded: Any) -> bool:
    """Whether an option of a study is the one of a record, where `gaussian:0.25` is a name with its first option."""
    if isinstance(recorded, Mapping) and isinstance(asked, str):
        name, _, first = asked.partition(":")
        option = next((str(one) for key, one in recorded.items() if key != "name"), "")
        return recorded.get("name") == name and (not first or _same(first, option))
    if isinstance(recorded, Mapping) and isinstance(asked, Mapping):
        return all(_same(value, recorded.get(key)) for key, value in asked.items())
    if isinstance(recorded, list | tuple) and isinstance(asked, list | tuple):
        return len(recorded) == len(asked) and all(map(_same, asked, recorded))
    try:
        return math.isclose(float(asked), float(recorded))
    except (TypeError, ValueError):
        return bool(asked == recorded)


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a model on a domain (or on `SOURCES`), and the certificate or the probe meant."""

    model: str
    domain: str
    by: By | None = None

    def probe_for(self, metric: Metric) -> By | None:
        """The probe that is meant; None where certificates are read, or what the metric itself says."""
        named = self.by is not None and self.by.names_probe and not metric.needs_certificate
        return self.by if named else None

    def __str__(self) -> str:
        return f"{self.model} on {self.domain}{f' by {self.by}' if self.by else ''}"


@dataclass(frozen=True)
class Comparison:
    """One part of a claim: a metric of one side is above, below or near that of another, or a number.

    `effect` is the smallest difference that matters, in the unit of the metric.
    """

    metric: Metric
    this: Side
    direction: str
    that: Side | float
    effect: float

    def __str__(self) -> str:
        """In words, without repeating what both sides have in common."""
        if isinstance(self.that, Side):
            model = f" of {self.that.model}" if self.that.model != self.this.model else ""
            domain = f" on {self.that.domain}" if self.that.domain != self.this.domain else ""
            by = f" by {self.that.by}" if self.that.by != self.this.by else ""
            than = f"that{model}{domain}{by}"
        else:
            than = f"{self.that:g}"
        if self.direction == "near":
            wanted = f"is within {self.effect:g} of {than}"
        else:
            wanted = f"is {self.direction} {than}, by more than {self.effect:g}"
        return f"{self.metric} of {self.this} {wanted}"
