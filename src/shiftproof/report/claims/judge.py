"""The claims of a study judged by its evidence, all together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shiftproof.evidence import Evidence
from shiftproof.report.claims.compare import Measured, PartOutcome, compare
from shiftproof.report.claims.figures import Figures
from shiftproof.report.claims.form import Claim
from shiftproof.report.claims.published import Published
from shiftproof.statistics import holm

__all__ = ["ClaimOutcome", "RequiredClaims", "RunEvidence", "judge_claims", "judge_over_targets", "require_claims"]


@dataclass(frozen=True)
class ClaimOutcome:
    """A claim and what evidence says of it.

    Args:
        verdict: supported | contradicted | undecided | not measured | needs data: ... | needs paper scale.
        p: Of the claim as it stands, corrected for the claims of the study (Holm); None if nothing was judged.
        p_against: The same of its contradiction.
        why: What decided it, in a sentence.
    """

    id: str
    says: str
    verdict: str
    parts: tuple[PartOutcome, ...] = ()
    p: float | None = None
    p_against: float | None = None
    confidence: float = 0.95
    why: str = ""

    @property
    def judged(self) -> bool:
        """Whether it can be tested here at all."""
        return not self.verdict.startswith("needs ")

    @property
    def weakest(self) -> PartOutcome | None:
        """The part that is farthest from being supported, which a short table shows."""
        rank = ("supported", "undecided", "contradicted", "not measured")
        return max(self.parts, key=lambda one: (rank.index(one.verdict), one.p), default=None)

    def __str__(self) -> str:
        return f"{self.id} {self.verdict}"


@dataclass(frozen=True)
class RequiredClaims:
    """Whether the requirement `claims` is met, and by which verdicts."""

    text: str
    met: bool
    verdicts: dict[str, str]
    model: str = ""

    def __str__(self) -> str:
        by_verdict: dict[str, list[str]] = {}
        for name, verdict in self.verdicts.items():
            by_verdict.setdefault(verdict, []).append(name)
        each = "; ".join(f"{verdict}: {', '.join(names)}" for verdict, names in by_verdict.items())
        return f"{self.text} {'is met' if self.met else 'is not met'}: {each}"


def require_claims(text: str, outcomes: Sequence[ClaimOutcome]) -> RequiredClaims:
    """Met if every claim that can be tested here is supported; the others are named, and fail nothing."""
    met = all(one.verdict == "supported" for one in outcomes if one.judged)
    return RequiredClaims(text, met, {one.id: one.verdict for one in outcomes})


def judge_claims(
    claims: Sequence[Claim],
    evidence: Evidence,
    published: Sequence[Published] = (),
    domain: str | None = None,
    seed: int = 0,
    sources: Sequence[str] = (),
) -> list[ClaimOutcome]:
    """The verdict on every claim of a study, in their order.

    A claim is supported if all its parts are (the largest of their p-values), and contradicted if any is (the smallest,
    times their number). Both are corrected over all claims that are judged, so that the chance that any is wrongly
    called supported is at most 1 - confidence, and so is the chance that any is wrongly called contradicted, as far as
    the intervals hold, whose coverage is simulated.

    Args:
        published: Tables with published figures of the same models.
        domain: Where claims are about that name no domain: the study's target.
        seed: Of the bootstrap.
        sources: What claims about `sources` are about: the mean over these domains.
    """
    return judge_over_targets(claims, [RunEvidence(evidence, domain, seed, tuple(sources))], published)


@dataclass(frozen=True)
class RunEvidence:
    """What one run measured: claims that name no domain are about its target, `domain`, those about `sources` about the
    mean over these; `seed` is of the bootstrap.
    """

    evidence: Evidence
    domain: str | None = None
    seed: int = 0
    sources: tuple[str, ...] = ()


def judge_over_targets(
    claims: Sequence[Claim], runs: Sequence[RunEvidence], published: Sequence[Published] = ()
) -> list[ClaimOutcome]:
    """The verdict on every claim about the mean over the targets of several runs, each of which left out its own.

    Of one run, these are its own verdicts (`judge_claims`, which says what is corrected for).
    """
    judged = [one for one in claims if one.needs is None]
    figures = [Figures(run.evidence, run.sources) for run in runs]
    first = runs[0].domain

    def parts_of(one: Claim) -> tuple[PartOutcome, ...]:
        by_run = [one.all_comparisons(run.domain) for run in runs]
        same = zip(*by_run, strict=True)
        measured = [
            [Measured(own, part, run.seed) for own, part, run in zip(figures, part, runs, strict=True)] for part in same
        ]
        return tuple(compare(some, one.confidence, published, first) for some in measured)

    parts = {one.id: parts_of(one) for one in judged}
    corrected = {
        one.id: (float(p), float(against), len(judged))
        for one, p, against in zip(
            judged,
            holm([max(part.p for part in parts[one.id]) for one in judged]),
            holm([min(1.0, len(parts[one.id]) * min(part.p_against for part in parts[one.id])) for one in judged]),
            strict=True,
        )
    }
    return [
        _judged(one, parts[one.id], *corrected[one.id])
        if one.needs is None
        else ClaimOutcome(one.id, one.says, f"needs {one.needs}", why=_needed(one))
        for one in claims
    ]


def _judged(claim: Claim, parts: tuple[PartOutcome, ...], p: float, against: float, claims: int) -> ClaimOutcome:
    taken = 1 - claim.confidence
    missing = next((part for part in parts if part.verdict == "not measured"), None)
    if against <= taken:
        verdict, part = "contradicted", min(parts, key=lambda one: one.p_against)
        why = part.why
    elif missing is not None:
        verdict, why, part = "not measured", missing.why, missing
    elif p <= taken:
        verdict, part = "supported", max(parts, key=lambda one: one.p)
        why = part.why
    else:
        verdict, part = "undecided", max(parts, key=lambda one: one.p)
        alone = all(one.verdict == "supported" for one in parts) or any(one.verdict == "contradicted" for one in parts)
        why = part.why
        if alone:
            part = next((one for one in parts if one.verdict == "contradicted"), part)
            many = f"{claims} claims" if len(parts) == 1 else f"{claims} claims, {len(parts)} parts of this one"
            why = f"{part.why}; not so surely that it holds with Holm's correction ({many})"
    if len(parts) > 1:
        held = sum(one.verdict == "supported" for one in parts)
        why = f"{held} of {len(parts)} parts hold by their intervals; {_deciding(verdict)}: {part.sentence}: {why}"
    return ClaimOutcome(claim.id, claim.says, verdict, parts, p, against, claim.confidence, why)


def _deciding(verdict: str) -> str:
    return {"supported": "the closest one", "not measured": "missing"}.get(verdict, "what decides")


def _needed(claim: Claim) -> str:
    return f"needed for {claim.for_}" if claim.for_ else "can't be tested here"
