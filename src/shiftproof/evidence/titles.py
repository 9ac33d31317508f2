"""What certificates are called where several stand in one table, and what the size of an attack is next to."""

from __future__ import annotations

from collections.abc import Iterable

from shiftproof.certification.imported import alpha_text
from shiftproof.evidence.evidence import Evidence
from shiftproof.evidence.measurement import Measurement

__all__ = ["certificate_titles", "relative_size"]


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


def relative_size(attacked: Iterable[Measurement], size: float) -> str:
    """How much a size is of what attacks recorded for comparison, over all their domains; nothing where none did.

    >>> one = {"reference": "the median l2 norm of a text's embeddings", "reference_size": 12.5}
    >>> relative_size([Measurement(one, None), Measurement({**one, "reference_size": 20.0}, None)], 1.0)
    "5 to 8 % of the median l2 norm of a text's embeddings"
    """
    known = [one for one in attacked if one.fact("reference_size")]
    if not known:
        return ""
    shares = [100 * size / float(one.fact("reference_size")) for one in known]
    told = dict.fromkeys(f"{one:.2g}" if one < 100 else f"{one:.0f}" for one in (min(shares), max(shares)))
    return f"{' to '.join(told)} % of {known[0].fact('reference')}"


def _alpha(one: Measurement) -> float:
    """0 where there is none, also where an edited file says nonsense, which other checks point out."""
    alpha = one.fact("alpha")
    return float(alpha) if isinstance(alpha, int | float) else 0.0
