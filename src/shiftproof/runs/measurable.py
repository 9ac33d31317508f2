"""What a requirement or a claim can be about: what the probes of a study will have measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shiftproof.certification import Certifier
from shiftproof.domains import Domain
from shiftproof.errors import UsageError
from shiftproof.perturbations.noise import label
from shiftproof.probes import Probe
from shiftproof.probes.attack import Attack
from shiftproof.probes.certify import Certify
from shiftproof.probes.clean import Clean
from shiftproof.probes.corrupt import Corrupt
from shiftproof.report.claims.corrupted import check_corrupted
from shiftproof.report.claims.sides import SOURCES, Metric, Side
from shiftproof.report.requirements import Certifiable, Measurable
from shiftproof.runs.data import StudyData
from shiftproof.runs.spec import Study
from shiftproof.types import Finding

__all__ = ["changed_claims", "check_measured", "measurable"]


def measurable(probes: Sequence[Probe], domains: Sequence[Domain], classes: int, claims: int = 0) -> Measurable:
    """What there will be numbers of, and how many claims will be judged."""
    attacks = [one for one in probes if isinstance(one, Attack)]
    sizes = [(one.attack.threat.norm, eps) for one in attacks if one.smoothed is None for eps in one.budgets]
    return Measurable(
        domains=tuple(domain.name for domain in domains),
        attacks=tuple(dict.fromkeys(sizes)),
        votes=tuple(label(one.smoothed) for one in attacks if one.smoothed is not None),
        certificates=tuple(
            _certifiable(certifier, classes)
            for one in probes
            if isinstance(one, Certify)
            for certifier in one.settings.values()
            # what an unsound rule claims is never judged as certified
            if not certifier.unsound
        ),
        clean=any(isinstance(one, Clean) for one in probes),
        corrupted=any(isinstance(one, Corrupt) for one in probes),
        regression=any(domain.is_regression for domain in domains),
        claims=claims,
    )


def _certifiable(certifier: Certifier, classes: int) -> Certifiable:
    return Certifiable(certifier.norm, certifier.title, certifier.largest_radius(classes), certifier.asked_radii)


def check_measured(study: Study, data: StudyData) -> None:
    """Refuse a claim about a model on a domain where it will not be measured so: on sources of others, or of which a
    prefix of 0 takes no samples.
    """
    for claim in study.claims:
        for comparison in claim.all_comparisons(study.only_target):
            for side in (comparison.this, comparison.that):
                if not isinstance(side, Side):
                    continue
                metric, certified = comparison.metric, comparison.metric.needs_certificate
                if metric.kind == "corrupted" and side.probe_for(metric) is None:
                    check_corrupted(metric, side, study.probes_of(side.model), known=True)
                probes = [one for one in study.probes_of(side.model) if isinstance(one, Certify) or not certified]
                places = {one.name for probe in probes for one in data.measured_by(probe, side.model)}
                asked = set(data.sources.names) if side.domain == SOURCES else {side.domain}
                if not asked <= places:
                    known = ", ".join(sorted(places)) or "nothing"
                    raise UsageError(
                        f"claim {claim.id} is about {comparison.metric} of {side.model} on {side.domain}, and by what "
                        f"the study measures there is none of it; there is on {known}"
                    )
                _check_radius(claim.id, comparison.metric, side, probes, len(data.sources.classes))


def _check_radius(claim: str, metric: Metric, side: Side, probes: Sequence[Probe], classes: int) -> None:
    """Refuse a claim about a radius beyond what so many votes can certify."""
    if metric.kind != "certified" or not metric.size:
        return
    meant = [
        one
        for probe in probes
        if isinstance(probe, Certify)
        for one in probe.settings.values()
        if side.by is None or side.by.matches(one.to_config())
    ]
    largest = max((one.largest_radius(classes) for one in meant), default=math.inf)
    if metric.size > largest:
        raise UsageError(
            f"claim {claim} is about {metric} of {side}, but no radius of {meant[0].title} can be larger than "
            f"{largest:.4g}; ask for a smaller one, or for more noise samples"
        )


def changed_claims(begun: Study, now: Study) -> list[Finding]:
    """Warnings where a study now makes other claims than the run began with, which are those that are judged, or says
    that other models stand for published methods.
    """
    return [*_changed_claims(begun, now), *_changed_tables(begun, now)]


def _changed_tables(begun: Study, now: Study) -> list[Finding]:
    before = {one.key: one for one in begun.published}
    changed = [one for one in now.published if one.key in before and before[one.key] != one]
    message = (
        "since the run began, other models, certificates or domains stand beside "
        f"{'; '.join(f'{one.table}, {one.dataset}' for one in changed)}: the choice may have been made by the numbers"
    )
    return [Finding("warn", "published-changed", message)] if changed else []


def _changed_claims(begun: Study, now: Study) -> list[Finding]:
    if begun.claims == now.claims:
        return []
    before, after = ({one.id: one for one in study.claims} for study in (begun, now))
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    message = (
        f"the study now makes other claims than the run began with ({', '.join(changed) or 'in another order'}); those "
        "that it began with are judged, since what is written after numbers are known is no prediction; for new claims "
        "choose another --out"
    )
    return [Finding("warn", "claims-changed", message)]
