"""The chart that `run.plot()` shows: attacked and certified accuracy by size, of some of what a report is about."""

from __future__ import annotations

from dataclasses import replace

from shiftproof.display.chart import Chart
from shiftproof.errors import UnknownName, UsageError
from shiftproof.evidence import Evidence
from shiftproof.report.report import Report
from shiftproof.report.section import SECTIONS

__all__ = ["robustness_chart"]

_SECTIONS = ("curves", "certified", "attacked", "matrix")
"""Whose chart is shown: of the first that applies, which is both on one axis where both were measured."""


def robustness_chart(
    report: Report, *, model: str | None = None, domain: str | None = None, norm: str | None = None
) -> Chart:
    """The first chart by size that the report draws of one model, domain and norm, or of all.

    Attacks and certificates in one norm stand on one axis; without the one the other stands alone.
    """
    evidence = report.evidence
    by_size = [one for one in evidence if one.probe in ("attack", "certify")]
    norms = dict.fromkeys(str(one.fact("norm")) for one in by_size)
    if not by_size:
        raise UsageError("there is nothing to plot by size: the run has neither certificates nor attacks")
    known = {"model": evidence.distinct("model"), "domain": evidence.distinct("domain"), "norm": list(norms)}
    for name, value in (("model", model), ("domain", domain), ("norm", norm)):
        if value is not None and value not in known[name]:
            raise UnknownName(f"{name} of the run:", value, map(str, known[name]))
    chosen = [
        one
        for one in evidence
        if model in (None, one.model) and domain in (None, one.domain) and norm in (None, one.fact("norm", norm))
    ]
    part = replace(
        report,
        evidence=Evidence(chosen),
        models={name: about for name, about in report.models.items() if model in (None, name)},
        sources=tuple(name for name in report.sources if domain in (None, name)),
        targets=tuple(name for name in report.targets if domain in (None, name)),
    )
    for name in _SECTIONS:
        section = SECTIONS[name].cls(part)
        if section.applies() and (charts := section.charts()):
            return charts[0]
    raise UsageError("there is nothing to plot by size: the run has no certificates, and attacks of one size only")
