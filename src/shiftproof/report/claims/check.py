"""Whether claims and published tables fit the study that makes them: asked when it is read, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shiftproof.certification import CERTIFIERS, Certifier
from shiftproof.errors import UnknownName, UsageError
from shiftproof.probes import Probe
from shiftproof.probes.certify import Certify
from shiftproof.report.claims.form import Claim, refuse
from shiftproof.report.claims.published import Published, TableKey
from shiftproof.report.claims.sides import By, Metric, Side
from shiftproof.report.requirements import Measurable

__all__ = ["check_claims", "check_planned"]

Certifiers = Mapping[str, Sequence[Certifier]]
"""The certifiers that will certify each model of a study."""


def check_claims(
    claims: Sequence[Claim],
    published: Sequence[Published],
    probes: Mapping[str, Sequence[Probe]],
    domain: str | None,
) -> None:
    """Refuse claims and tables that the study can't answer: an error for pydantic, which leads to the line.

    `probes` are those of every model of the study; `domain` is its target, if there is one alone.
    """
    certifiers = {name: _certifiers(some) for name, some in probes.items()}
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
                            _check_side(comparison.metric, side, certifiers)
                    except UsageError as error:
                        raise refuse(f"claim {one.id}: {error}", *where, *key) from error
                if comparison.this == comparison.that:
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
            for method in table.methods.values():
                _check_side(Metric("acr"), Side(method.model, "", method.by), certifiers, any_number=method.by is None)
                _check_norm(method.model, method.by, certifiers)
            for name, method in table.methods.items():
                for number in table.numbers(name):
                    if number.kind == "certified" and (method.by is not None or len(certifiers[method.model]) == 1):
                        side = Side(method.model, table.domain or domain or "", method.by)
                        _check_side(Metric("certified", number.level), side, certifiers)
        except UsageError as error:
            raise refuse(f"published: {error}", "published", place) from error


def check_planned(
    claims: Sequence[Claim], published: Sequence[Published], planned: Measurable, domain: str | None
) -> None:
    """Refuse claims and tables about what will not be measured, such as other domains; asked once data is known."""
    measured = ", ".join(planned.domains)
    for table in published:
        if table.domain is not None and table.domain not in planned.domains:
            raise UsageError(f"published: there is no domain {table.domain!r}; measured are {measured}")
    for one in claims:
        for comparison in one.all_comparisons(domain):
            for side in (comparison.this, comparison.that):
                if isinstance(side, Side) and side.domain not in planned.domains:
                    raise UsageError(f"claim {one.id} names the domain {side.domain!r}; measured are {measured}")
            if not comparison.metric.needs_certificate and not _is_planned(comparison.metric, planned):
                raise UsageError(f"claim {one.id} is about {comparison.metric}, which no probe of the study measures")


def _is_planned(metric: Metric, planned: Measurable) -> bool:
    if planned.regression:
        return False
    if metric.kind == "attacked":
        sizes = [size for norm, size in planned.attacks if metric.norm in (None, norm)]
        return any(abs(size - (metric.size or 0)) <= 1e-6 * max(1.0, size) for size in sizes)
    known = {"accuracy": planned.clean, "clean-vote": bool(planned.votes), "corrupted": planned.corrupted}
    return known[metric.kind]


def _certifiers(probes: Sequence[Probe]) -> list[Certifier]:
    """What certifies a model; what an unsound rule says is never judged as certified."""
    every = [one for probe in probes if isinstance(probe, Certify) for one in probe.settings.values()]
    return [one for one in every if not one.unsound]


def _check_side(metric: Metric, side: Side, certifiers: Certifiers, any_number: bool = False) -> None:
    if side.model not in certifiers:
        raise UnknownName("model", side.model, certifiers)
    if side.by is not None:
        _check_by(side.by)
    if not metric.needs_certificate or any_number:
        return
    planned = certifiers[side.model]
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


def _check_norm(model: str, by: By | None, certifiers: Certifiers) -> None:
    """Refuse to set other radii beside those of a document, all of which are in l2."""
    for one in certifiers[model]:
        if (by is None or by.matches(one.to_config())) and one.norm != "l2":
            raise UsageError(f"radii of the document are in l2, and those of {model} by {one.title} in {one.norm}")


def _check_by(by: By) -> None:
    options = CERTIFIERS[by.name].options
    for key in by.options:
        if key not in options:
            raise UnknownName(f"option of {by.name}", key, options)
