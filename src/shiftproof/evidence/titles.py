"""What certificates are called where several stand in one table."""

from __future__ import annotations

from shiftproof.certification.imported import alpha_text
from shiftproof.evidence.evidence import Evidence
from shiftproof.evidence.measurement import Measurement

__all__ = ["certificate_titles"]


def certificate_titles(evidence: Evidence) -> dict[str, str]:
    """A name for each setting of `certify` probes: its title, and its alpha where certificates differ in that.

    What holds without sampling has no alpha, and needs none to be told from the others.
    """
    certified = evidence.where(probe="certify")
    alphas = {one.setting: _alpha(one) for one in certified}
    several = len(set(alphas.values()) - {0.0}) > 1
    return {
        one.setting: f"{one.title}, {alpha_text(alpha)}" if several and (alpha := alphas[one.setting]) else one.title
        for one in certified
    }


def _alpha(one: Measurement) -> float:
    """0 where there is none, also where an edited file says nonsense, which other checks point out."""
    alpha = one.fact("alpha")
    return float(alpha) if isinstance(alpha, int | float) else 0.0
