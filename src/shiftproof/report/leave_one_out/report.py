"""The page of a leave-one-out: what every run of it found on the domain that it left out, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shiftproof.evidence import Evidence
from shiftproof.report.claims import ClaimOutcome, PublishedRow
from shiftproof.report.how_far import Gap, KnownPair
from shiftproof.report.leave_one_out.accuracy import AccuracyByTarget
from shiftproof.report.leave_one_out.certified import CertifiedByTarget
from shiftproof.report.leave_one_out.claims import ClaimsByTarget
from shiftproof.report.leave_one_out.doubts import DoubtsByTarget
from shiftproof.report.leave_one_out.matrices import MatricesByTarget
from shiftproof.report.leave_one_out.samples import SamplesByTarget
from shiftproof.report.report import Report
from shiftproof.report.section import Section
from shiftproof.report.sections.how_far import HowFar
from shiftproof.report.sections.provenance import Provenance
from shiftproof.report.sections.published import BesidePublished

__all__ = ["LeaveOneOutReport", "leave_one_out_report"]


@dataclass(frozen=True, eq=False)
class LeaveOneOutReport(Report):
    """A report about several runs instead of one run's evidence: `parts` are their reports, each with one target."""

    parts: Sequence[Report] = ()

    @cached_property
    def sections(self) -> dict[str, Section]:
        """Those that apply, in the order of the page."""
        made: dict[str, Section] = {
            "doubts": DoubtsByTarget(self),
            "claims": ClaimsByTarget(self),
            "published": BesidePublished(self),
            "accuracy": AccuracyByTarget(self),
            "matrix": MatricesByTarget(self),
            "certified": CertifiedByTarget(self),
            "how-far": HowFar(self),
            "samples": SamplesByTarget(self),
            "provenance": Provenance(self),
        }
        return {name: section for name, section in made.items() if section.applies()}

    def to_json(self) -> dict[str, Any]:
        """Title, targets, and the numbers of every section by its name."""
        return {**super().to_json(), "targets": list(self.targets)}


def leave_one_out_report(
    title: str,
    about: str,
    parts: Sequence[Report],
    facts: Mapping[str, str],
    distances: Sequence[KnownPair] = (),
    gaps: Sequence[Gap] = (),
    claims: Sequence[ClaimOutcome] = (),
    published: Sequence[PublishedRow] = (),
) -> LeaveOneOutReport:
    """The report of runs that leave out one domain each.

    Args:
        distances: How far the sources of each run are from its target, where somebody has asked.
        gaps: What the models of each run lose on the way.
        claims: What is claimed of the mean over all targets, and what the evidence of all runs says of it.
        published: Published means over targets, with ours beside them.
    """
    targets = tuple(part.targets[0] for part in parts)
    return LeaveOneOutReport(
        title=title,
        about=about,
        models=parts[0].models,
        sources=(),
        targets=targets,
        classes=parts[0].classes,
        evidence=Evidence(),
        sheets={},
        facts=facts,
        labels={},
        notes=(),
        seed=parts[0].seed,
        domain_distances=distances,
        other_gaps=gaps,
        claims=claims,
        published=published,
        parts=parts,
    )
