"""How guarantees around domains, and the distance of a target, are shown on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shiftproof.cli.show import say, show_table

if TYPE_CHECKING:
    from shiftproof.runs.shift import Shift

__all__ = ["shift_json", "show_shift"]


def shift_json(found: Shift) -> dict[str, Any]:
    """All of it as one JSON object."""
    certificates = [
        {
            "model": one.model,
            "domain": one.domain,
            "certificate": one.title,
            "norm": one.norm,
            "units": one.units,
            "ends": None if one.refusal or one.ends == float("inf") else one.ends,
            "refusal": one.refusal,
        }
        for one in found.certificates
    ]
    compared = [one.to_dict() for one in found.comparisons]
    told = {"conclusion": found.conclusion} if compared else {}
    return {"outside": found.outside, "certificates": certificates, "comparisons": compared, **told}


def show_shift(found: Shift) -> None:
    """What is guaranteed at round distances, where nothing is and why, and how far a target is."""
    from shiftproof.report.shift import CONFIDENCE, nice_distances, refusal_sentences
    from shiftproof.theory.words import percent_down, rounded_down

    if not found.certificates:
        say("The run certifies nothing: certify a model (shiftproof certify), and ask of that run.")
    for norm, units in dict.fromkeys((one.norm, one.units) for one in found.certificates):
        series = [one for one in found.certificates if (one.norm, one.units) == (norm, units)]
        held = [one for one in series if not one.refusal]
        eps = nice_distances(held) if held else ()
        rows = [
            [
                one.model,
                one.domain,
                one.title,
                *(percent_down(v, 1) for v in one.at(eps).tolist()),
                rounded_down(one.ends),
            ]
            for one in held
        ]
        if held:
            say(f"Accuracy that is guaranteed ({CONFIDENCE:.0%}) on every distribution within W1, in {norm} ({units}):")
            show_table(["model", "domain", "certificate", *(f"W1 {e:g}" for e in eps), "ends at"], rows)
        if any(one.series.imported for one in held):
            say("These are what imported logs claim: others have measured it, and it can't be checked here.")
    for sentence in refusal_sentences(found.certificates):
        say(f"{sentence}.")
    for compared in found.comparisons:
        say(f"{compared.sentence}.", "bold" if compared.outside else "")
        say(f"  {compared.detail}.")
    if found.comparisons:
        say(f"{found.conclusion}.")
