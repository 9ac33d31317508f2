"""Certifiers from what was typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shiftproof.certification import Certifier
    from shiftproof.perturbations.noise import Noise

__all__ = ["make_certifiers"]


def make_certifiers(
    certifier: str, told: dict[str, Any], options: dict[str, dict[str, Any]], usual: Noise | None = None
) -> list[Certifier]:
    """One certifier for each sigma, or one for all where it takes several; `told` are values of --n, --sigma ...

    `usual` is the noise for the data and the model, where none is told.
    """
    from shiftproof.certification import CERTIFIERS
    from shiftproof.errors import UsageError
    from shiftproof.perturbations.noise import Noise

    known = CERTIFIERS[certifier].options
    own = {"samples" if key == "n" and "samples" in known else key: value for key, value in told.items()}
    noise, sigma = own.pop("noise", None), own.pop("sigma", None)
    scales = [part.strip() for part in (sigma or str(Noise.usual)).split(",")]
    if len(set(scales)) != len(scales):
        raise UsageError(f"--sigma {sigma} names the same noise twice")
    for key in own:
        if key not in known:
            takes = f"it takes {', '.join(known)}" if known else "it has no options"
            raise UsageError(f"{certifier} does not take --{key.replace('_', '-')}; {takes}")
    own |= options["certifier"]
    if "noise" in known:
        noises = _noises(noise, sigma, options["noise"], usual)
        return [CERTIFIERS.create(certifier, {**own, "noise": one}) for one in noises]
    if "family" in known and not options["noise"]:
        family, _, given = (noise or "").partition(":")
        named = {"family": family} if family else {}
        return [CERTIFIERS.create(certifier, {"sigmas": given.split(",") if given else scales, **named, **own})]
    if noise is not None or options["noise"]:
        raise UsageError(f"{certifier} does not take {'--noise' if noise is not None else '--set noise'}")
    if "sigma" in known:
        chosen = scales if sigma is not None else [str(known["sigma"] if known["sigma"] is not ... else scales[0])]
        return [CERTIFIERS.create(certifier, {"sigma": one, **own}) for one in chosen]
    if sigma is not None:
        raise UsageError(f"{certifier} does not take --sigma")
    return [CERTIFIERS.create(certifier, own)]


def _noises(text: str | None, sigma: str | None, options: dict[str, Any], usual: Noise | None) -> list[Noise]:
    """One noise for each scale; `gaussian:0.5` says both. Without a name it is the usual one, by default Gaussian."""
    from shiftproof.errors import UsageError
    from shiftproof.perturbations.noise import NOISES

    name, _, given = (text or ("gaussian" if usual is None else usual.name)).partition(":")
    first = next(iter(NOISES[name].options))
    known = NOISES[name].cls.usual if text or usual is None else getattr(usual, first)
    asked = (given or sigma or str(known)).split(",")
    chosen = [NOISES.create(name, {first: value.strip(), **options}) for value in asked]
    if len(set(chosen)) != len(chosen):
        raise UsageError(f"--sigma {','.join(asked)} names the same noise twice")
    return chosen
