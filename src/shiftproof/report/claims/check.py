"""Whether claims and published tables fit the study that makes them: asked when it is read, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from shiftproof.certification import CERTIFIERS, Certifier
from shiftproof.errors import UnknownName, UsageError
from shiftproof.probes import PROBES, Probe
from shiftproof.probes.certify import Certify
from shiftproof.report.claims.asked import check_asked
from shiftproof.report.claims.corrupted import check_corrupted
from shiftproof.report.claims.form import Claim, refuse
from shiftproof.report.claims.published import Published, PublishedMethod, TableKey
from shiftproof.report.claims.sides import SOURCES, By, Metric, Side
from shiftproof.report.requirements import Measurable

__all__ = ["check_claims", "check_planned"]

Probes = Mapping[str, Sequence[Probe]]
"""What will measure each model of a study."""


def check_claims(
    claims: Sequence[Claim],
    published: Sequence[Published],
    probes: Mapping[str, Sequence[Probe]],
    domain: str | None,
) -> None:
    """Refuse claims and tables that the study can't answer: an error for pydantic, which leads to the line.

    `probes` are those of every model of the study; `domain` is its target, if there is one alone.
    """
    seen: set[str] = set()
    for place, one in enumerate(claims):
        if one.id in seen:
            raise refuse(f"there are two claims {one.id!r}; rename one of them", "claims", place, "id")
        seen.add(one.id)
        for index, part in enumerate(one.completed_parts if one.needs is None else ()):
            where = ("claims", place, *(("parts", index) if one.parts else ()))
            if part.domain is None and domain is None:
                message = "the study has no target, or several; say which with 'domain'"
                raise refuse(f"claim {one.id} does not say on which domain: {message}", *where)
            for comparison in part.comparisons(domain):
                for key, side in (((), comparison.this), ((comparison.direction,), comparison.that)):
                    try:
                        if isinstance(side, Side):
                            _check_side(comparison.metric, side, probes)
                    except UsageError as error:
                        raise refuse(f"claim {one.id}: {error}", *where, *key) from error
                if _as_read(comparison.this, comparison.metric) == _as_read(comparison.that, comparison.metric):
                    message = f"claim {one.id} compares {comparison.this} with itself"
                    raise refuse(message, *where, comparison.direction)
    tables: set[TableKey] = set()
    for place, table in enumerate(published):
        try:
            table.check()
            if table.key in tables:
                raise UsageError(f"{table.table}, {table.dataset} is named twice; put its methods together")
            tables.add(table.key)
            if table.domain is None and domain is None and table.methods:
                raise UsageError("the study has no target, or several; say which with 'domain'")
            for name, method in table.methods.items():
                _check_method(name, method, table, table.domain or domain or "", probes)
        except UsageError as error:
            raise refuse(f"published: {error}", "published", place) from error


def check_planned(
    claims: Sequence[Claim], published: Sequence[Published], planned: Measurable, domain: str | None
) -> None:
    """Refuse claims and tables about what will not be measured, such as other domains; asked once data is known."""
    measured = ", ".join(planned.domains)
    if SOURCES in planned.domains and any(SOURCES in _domains_of(one, domain) for one in claims):
        raise UsageError(f"a claim is about {SOURCES!r}, which means all sources; rename the domain of that name")
    for table in published:
        if table.domain is not None and table.domain not in planned.domains:
            raise UsageError(f"published: there is no domain {table.domain!r}; measured are {measured}")
    for one in claims:
        for comparison in one.all_comparisons(domain):
            for side in (comparison.this, comparison.that):
                if isinstance(side, Side) and side.domain not in (*planned.domains, SOURCES):
                    raise UsageError(f"claim {one.id} names the domain {side.domain!r}; measured are {measured}")
            sides = [side for side in (comparison.this, comparison.that) if isinstance(side, Side)]
            usual = any(_is_usual(comparison.metric, side) for side in sides)
            if usual and not _is_planned(comparison.metric, planned):
                raise UsageError(f"claim {one.id} is about {comparison.metric}, which no probe of the study measures")


def _domains_of(claim: Claim, domain: str | None) -> set[str]:
    comparisons = claim.all_comparisons(domain)
    return {side.domain for one in comparisons for side in (one.this, one.that) if isinstance(side, Side)}


def _as_read(side: Side | float, metric: Metric) -> Side | float:
    """The side without a certifier where none is looked at: of accuracy it says nothing."""
    if isinstance(side, Side) and not metric.needs_certificate and side.by is not None and not side.by.names_probe:
        return replace(side, by=None)
    return side


def _is_usual(metric: Metric, side: Side) -> bool:
    """Whether the metric alone says what has measured it; a probe or a search was looked for when it was read."""
    return not metric.needs_certificate and not metric.is_searched and side.probe_for(metric) is None


def _is_planned(metric: Metric, planned: Measurable) -> bool:
    if planned.regression:
        return False
    if metric.kind == "attacked":
        sizes = [size for norm, size in planned.attacks if metric.norm in (None, norm)]
        return any(abs(size - (metric.size or 0)) <= 1e-6 * max(1.0, size) for size in sizes)
    known = {"accuracy": planned.clean, "clean-vote": bool(planned.votes), "corrupted": planned.corrupted}
    return known[metric.kind]


def _certifiers(probes: Sequence[Probe], unsound: bool = False) -> list[Certifier]:
    """What certifies a model; what an unsound rule says is never judged as certified."""
    every = [one for probe in probes if isinstance(probe, Certify) for one in probe.settings.values()]
    return [one for one in every if bool(one.unsound) == unsound]


def _check_method(name: str, method: PublishedMethod, table: Published, domain: str, probes: Probes) -> None:
    """Refuse a method beside whose figures the study will have none."""
    side, numbers = Side(method.model, domain, method.by), table.numbers(name)
    _check_model(side, probes)
    if method.metric is not None and len(numbers) > 1:
        raise UsageError(f"'metric' says what stands beside one figure, but {name} has {len(numbers)}; leave it out")
    for number in numbers:
        metric = method.metric_of(number)
        if metric.kind == "reached" and metric.size is None:
            raise UsageError(
                f"the document does not say within which size {name} was searched; say which of ours stands beside "
                "it, such as metric: 'reached@linf:0.5'"
            )
        if method.is_claimed and not metric.needs_certificate:
            raise UsageError(f"{metric} of {side} is not what a published rule claims; leave 'unsound' out")
        if metric.needs_certificate and method.by is None and len(_certifiers(probes[method.model])) != 1:
            continue
        _check_side(metric, side, probes, unsound=method.is_claimed)
    if any(method.metric_of(one).kind in ("certified", "acr") for one in numbers):
        _check_norm(method, probes)


def _check_model(side: Side, probes: Probes) -> None:
    if side.model not in probes:
        raise UnknownName("model", side.model, probes)


def _check_side(metric: Metric, side: Side, probes: Probes, unsound: bool = False) -> None:
    _check_model(side, probes)
    asked = side.probe_for(metric)
    if metric.is_searched or asked is not None:
        check_asked(metric, side, asked, probes[side.model])
        return
    if side.by is not None:
        _check_by(side.by, metric)
    if metric.kind == "corrupted":
        check_corrupted(metric, side, probes[side.model])
    if not metric.needs_certificate:
        return
    planned = _certifiers(probes[side.model], unsound)
    meant = [one for one in planned if side.by is None or side.by.matches(one.to_config())]
    if not meant:
        others = ", ".join(dict.fromkeys(one.name for one in planned)) or "nothing"
        raise UsageError(f"{metric} of {side}: no such certificate is planned; {side.model} is certified by {others}")
    if len(meant) > 1:
        differing = ", ".join(dict.fromkeys(str(one.title) for one in meant))
        raise UsageError(
            f"{metric} of {side}: {len(meant)} certificates are meant ({differing}); say which, such as "
            f"'by: {{name: {meant[0].name}, ...}}' with an option in which they differ"
        )
    decided = meant[0].asked_radii
    if metric.size is not None and decided is not None and all(abs(metric.size - one) > 1e-9 for one in decided):
        known = ", ".join(f"{radius:g}" for radius in decided)
        raise UsageError(f"{metric} of {side}: the certificate decides only the radii {known}")


def _check_norm(method: PublishedMethod, probes: Probes) -> None:
    """Refuse to set other radii beside those of a document, all of which are in l2."""
    for one in _certifiers(probes[method.model], method.is_claimed):
        if (method.by is None or method.by.matches(one.to_config())) and one.norm != "l2":
            radii = f"those of {method.model} by {one.title} in {one.norm}"
            raise UsageError(f"radii of the document are in l2, and {radii}")


def _check_by(by: By, metric: Metric) -> None:
    if by.names_probe:
        raise UsageError(f"{metric} is by a certifier, and {by.name} is a probe; say which certifier")
    if not metric.needs_certificate and by.name not in CERTIFIERS:
        raise UnknownName("certifier or probe", by.name, [one.name for one in (*CERTIFIERS, *PROBES)])
    options = CERTIFIERS[by.name].options
    for key in by.options:
        if key not in options:
            raise UnknownName(f"option of {by.name}", key, options)
