"""Claims of a study: what it says before it runs, judged by its evidence, beside what was published."""

from shiftproof.report.claims.check import check_claims
from shiftproof.report.claims.compare import PartOutcome
from shiftproof.report.claims.form import Claim
from shiftproof.report.claims.judge import (
    ClaimOutcome,
    RequiredClaims,
    RunEvidence,
    judge_claims,
    judge_over_targets,
    require_claims,
)
from shiftproof.report.claims.published import Published, PublishedRow, beside_published, published_over_targets

__all__ = [
    "Claim",
    "ClaimOutcome",
    "PartOutcome",
    "Published",
    "PublishedRow",
    "RequiredClaims",
    "RunEvidence",
    "beside_published",
    "check_claims",
    "judge_claims",
    "judge_over_targets",
    "published_over_targets",
    "require_claims",
]
