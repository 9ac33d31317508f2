"""Published numbers beside ours: how the models of a study map to the methods of a document's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from shiftproof.errors import UnknownName, UsageError
from shiftproof.evidence import Evidence
from shiftproof.report.claims.documents import PublishedNumber, read_document
from shiftproof.report.claims.figures import Figures
from shiftproof.report.claims.form import ByOption, MetricOption, refuse
from shiftproof.report.claims.sides import Metric, Side, parse_metric
from shiftproof.statistics import mean_of_independent
from shiftproof.types import Estimate

__all__ = [
    "Published",
    "PublishedNumber",
    "PublishedRow",
    "TableKey",
    "beside_published",
    "published_figure",
    "published_over_targets",
    "read_document",
]

TableKey = tuple[str, str, str]
"""A document, a table of it and a data set of that."""


def _quoted(value: Any) -> Any:
    if isinstance(value, int):
        raise refuse(f'the document is {value!r}; write its number as text: "{value:03d}"')
    return value


class PublishedMethod(BaseModel):
    """The model of the study that stands for a method of a document, and the certificate or probe that is compared.

    `metric` is which of our figures stands beside the one that was published, where that is not the natural one. With
    `unsound: as-published` in `by`, it is what the published rule claims, and is shown as that.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    model: str
    by: ByOption | None = None
    metric: MetricOption | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_a_name(cls, value: Any) -> Any:
        return {"model": value} if isinstance(value, str) else value

    @model_serializer
    def _short(self) -> Any:
        by = {} if self.by is None else {"by": self.by.to_config()}
        metric = {} if self.metric is None else {"metric": str(self.metric)}
        return {"model": self.model, **by, **metric} if by or metric else self.model

    @property
    def is_claimed(self) -> bool:
        """Whether it is what an unsound rule claims."""
        return self.by is not None and self.by.is_unsound

    def metric_of(self, number: PublishedNumber) -> Metric:
        """Which of our figures stands beside a published one."""
        if self.metric is not None:
            return self.metric
        # the accuracy of a smoothed classifier is what is certified at all: abstentions count as wrong
        if number.kind == "accuracy" and self.by is not None and not self.by.names_probe:
            return Metric("certified", 0.0)
        return parse_metric(number.kind) if "@" in number.kind else Metric(number.kind, number.level)


class Published(BaseModel):
    """A data set of a published table, the domain of the study that it is compared with, and its methods.

    `methods` are by their name in the document; without `domain`, the study's only target is meant. Of a data set that
    another study has, `study` names it, and there are no methods: its figures are shown as not run.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    document: Annotated[str, BeforeValidator(_quoted)]
    table: str
    dataset: str
    domain: str | None = None
    methods: dict[str, PublishedMethod] = Field(default_factory=dict)
    study: str | None = None

    @model_validator(mode="after")
    def _here_or_elsewhere(self) -> Self:
        if bool(self.methods) == (self.study is not None):
            raise refuse("a published table needs 'methods', or the 'study' that has them, and not both")
        return self

    @model_serializer(mode="wrap")
    def _without_gaps(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in write(self).items() if value not in (None, {})}

    @property
    def key(self) -> TableKey:
        """The document, the table and the data set."""
        return self.document, self.table, self.dataset

    def numbers(self, method: str) -> list[PublishedNumber]:
        """The figures of a method, in the order of the table."""
        return [
            one
            for one in read_document(self.document)
            if (one.table, one.dataset, one.method) == (self.table, self.dataset, method)
        ]

    def check(self) -> None:
        """Refuse a document, table, data set or method of which nothing is known; a `UsageError` says which."""
        rows = read_document(self.document)
        for kind in ("table", "dataset"):
            known = list(dict.fromkeys(getattr(one, kind) for one in rows))
            if (name := getattr(self, kind)) not in known:
                raise UnknownName(f"{kind} of document {self.document}", name, known)
            rows = tuple(one for one in rows if getattr(one, kind) == name)
        methods = {one.method for one in rows}
        for method in self.methods:
            if method not in methods:
                kind = f"method of {self.table}, {self.dataset} in document {self.document}"
                raise UnknownName(kind, method, methods)


@dataclass(frozen=True)
class PublishedRow:
    """A published figure beside ours; `ours` is None where the study did not measure it.

    `metric` is our word: accuracy, certified, acr, answers, reached; `level` is the radius of a certified accuracy. Of
    a method that was not run, `takes` says which other study has it and how long it would take, as far as that is
    known. A mean radius that is `biased` is one at least: votes stopped early. Where ours is another metric than that
    of the document, `measure` names it; what is `claimed` is by the published rule, and guarantees nothing.
    """

    document: str
    table: str
    dataset: str
    method: str
    metric: str
    level: float | None
    published: float
    ours: Estimate | None
    model: str
    domain: str
    takes: str = ""
    biased: bool = False
    measure: str = ""
    claimed: bool = False


def beside_published(
    evidence: Evidence,
    published: Sequence[Published],
    domain: str | None = None,
    takes: Mapping[tuple[TableKey, str], str] | None = None,
) -> list[PublishedRow]:
    """Every published figure of a study's tables, with ours beside it if there is one; `domain` is where none is named.

    Methods of a table that the study does not have are rows without; `takes` says how long they would take.
    """
    figures, rows, takes = Figures(evidence), list[PublishedRow](), takes or {}
    for one in published:
        for name, number, metric, side in _mapped(one, domain):
            method, ours, biased = one.methods[name], None, False
            # what was not measured at this scale is a row that lacks it
            with suppress(UsageError):
                figure = (figures.claimed if method.is_claimed else figures.find)(metric, side)
                ours, biased = figure.estimate, figure.reachable is not None
            how_long = "" if ours is not None else takes.get((one.key, name), "")
            rows.append(
                PublishedRow(
                    *(*one.key, name, number.kind, number.level, number.value, ours),
                    *(side.model, side.domain, how_long, biased),
                    "" if method.metric is None else str(method.metric),
                    # what the rule's classifier answers was counted, whatever it claims
                    method.is_claimed and metric.kind != "answers",
                )
            )
        rows += [
            PublishedRow(
                *(*one.key, number.method, number.kind, number.level, number.value, None),
                *(
                    "",
                    "",
                    takes.get((one.key, number.method), "" if one.study is None else f"in {Path(one.study).stem}"),
                ),
            )
            for number in read_document(one.document)
            if (number.table, number.dataset) == (one.table, one.dataset) and number.method not in one.methods
        ]
    return rows


def published_over_targets(runs: Sequence[tuple[Evidence, str]], published: Sequence[Published]) -> list[PublishedRow]:
    """The same for several runs, each of which left out its own domain: ours is the mean over these domains.

    What one of them did not measure has no figure of ours.
    """
    by_run = [beside_published(evidence, published, target) for evidence, target in runs]
    rows = []
    for same in zip(*by_run, strict=True):
        ours = [row.ours for row in same if row.ours is not None]
        whole = len(ours) == len(same)
        mean = mean_of_independent(ours) if whole else None
        place = f"mean over {', '.join(target for _, target in runs)}" if whole else ""
        rows.append(replace(same[0], ours=mean, domain=place, biased=any(row.biased for row in same)))
    return rows


def published_figure(
    published: Sequence[Published], metric: Metric, side: Side, domain: str | None = None
) -> float | None:
    """The published figure of a side of a claim, if a table of the study has it."""
    for one in published:
        for _, number, known, place in _mapped(one, domain):
            same = (place.model, place.domain, known.kind) == (side.model, side.domain, metric.kind)
            balls = known.norm == metric.norm or None in (known.norm, metric.norm)
            sizes = known.size == metric.size or None not in (known.size, metric.size)
            near = same and balls and sizes and abs((known.size or 0) - (metric.size or 0)) < 1e-9
            near = near and known.of == metric.of
            if near and _is_by(place, side, metric):
                return number.value
    return None


def _is_by(place: Side, side: Side, metric: Metric) -> bool:
    """Whether a claim's figure and a table's are by the same certificate, or by the same probe or none."""
    if metric.needs_certificate:
        return place.by is None or side.by is None or place.by == side.by
    return place.probe_for(metric) == side.probe_for(metric)


def _mapped(one: Published, domain: str | None) -> Iterator[tuple[str, PublishedNumber, Metric, Side]]:
    """Every figure of a table's methods, as a metric of a side of ours."""
    for method, ours in one.methods.items():
        side = Side(ours.model, one.domain or domain or "", ours.by)
        for number in one.numbers(method):
            yield method, number, ours.metric_of(number), side
