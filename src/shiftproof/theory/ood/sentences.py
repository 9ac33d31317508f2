"""What a bound says, in words."""

from __future__ import annotations

import math

from shiftproof.theory.ood.checks import Norm

__all__ = ["describe", "power_of_ten"]

BALLS: dict[Norm, str] = {"linf": "W_infinity", "l2": "W_2"}


def describe(
    kind: str,
    norm: Norm,
    r: float,
    value: float,
    flat: float,
    cells: float,
    n: int,
    most: float,
    theta: float,
    short: float,
) -> str:
    """One or two sentences: what holds, or that nothing does, by how much it fails, and what would help."""
    worst = f"the worst mean loss over all distributions within {BALLS[norm]} distance {r:.4g} of the one sampled"
    if value < most:
        verb = "is at most" if kind == "risk" else f"differs from the mean loss on the {n:,} samples by at most"
        return (
            f"With probability at least {100 * (1 - theta):.4g} %, {worst} {verb} {value:.4g} (largest loss {most:g})."
        )
    start = f"Vacuous: {worst} is at most the largest loss, {most:g}, which is known anyway."
    if math.isinf(short):
        return f"{start} Without any sampling error the bound is {flat:.4g}; only a more robust model would help."
    orders = f"{short:,.0f} orders of magnitude" if short >= 2 else f"a factor of {10**short:.3g}"
    if math.isinf(cells):
        return f"{start} The number of cells is too large to state; only fewer dimensions would help."
    return (
        f"{start} The inputs fall into {power_of_ten(cells)} cells, and n = {n:,} samples are too few by {orders}; "
        f"more than {power_of_ten(short + math.log10(n))} samples, fewer dimensions or the same robustness at a larger "
        "radius would help."
    )


def power_of_ten(exponent: float) -> str:
    """A number given by its log10: in full up to a million, else as a power.

    >>> power_of_ten(2.0), power_of_ten(6473.4)
    ('100', '10^6,473')
    """
    if exponent <= 6:
        return f"{10**exponent:,.0f}"
    return f"10^{exponent:,.0f}" if exponent < 1e6 else f"10^({exponent:.3g})"
