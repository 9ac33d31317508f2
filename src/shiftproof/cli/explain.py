"""`shiftproof explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shiftproof.cli.certifiers import make_certifiers
from shiftproof.cli.options import (
    CERTIFY_KINDS,
    Architecture,
    AsJson,
    Noise,
    SetOfCertify,
    options_of_set,
    with_architecture,
)
from shiftproof.cli.show import show_json, show_table

if TYPE_CHECKING:
    from torch import nn

    from shiftproof.domains import Domain

__all__ = ["command"]


def command(
    model: Annotated[str, typer.Option("--model", help="file:PATH, python:PKG.MOD:FN, or a name with --data.")],
    architecture: Architecture = None,
    data: Annotated[
        str | None, typer.Option("--data", help="Samples to certify.", show_default="any of the model's shape")
    ] = None,
    certifier: Annotated[str | None, typer.Option("--certifier", help="Only this one.", show_default="all")] = None,
    noise: Noise = None,
    sigma: Annotated[str | None, typer.Option("--sigma", help="Scale of the noise.")] = None,
    n: Annotated[int | None, typer.Option("--n", help="Votes or samples.")] = None,
    alpha: Annotated[float | None, typer.Option("--alpha", help="Probability of error.")] = None,
    set_: SetOfCertify = None,
    json: AsJson = False,
) -> None:
    """Say which certificates apply to a model, and why others do not."""
    from dataclasses import asdict

    from shiftproof.certification import explain
    from shiftproof.certification.usual import usual_noise
    from shiftproof.domains import load_domains
    from shiftproof.domains.splits import part_of
    from shiftproof.errors import UsageError
    from shiftproof.models import load_model
    from shiftproof.runs.data import calibration_pool, measured_part
    from shiftproof.runs.sources import ModelSource

    options = options_of_set(with_architecture(set_, architecture), CERTIFY_KINDS)
    told = {"noise": noise, "sigma": sigma, "n": n, "alpha": alpha}
    given = {key: value for key, value in told.items() if value is not None}
    if certifier is None and (given or options["certifier"]):
        raise UsageError("options of a certifier need to know which: --certifier NAME")
    domains = None if data is None else load_domains(data, **options["data"])
    loaded = load_model(model, domains, **options["model"])
    if not model.startswith("python:"):
        loaded.eval()
    domain, pool, card = _like(loaded) if domains is None else next(iter(domains)), None, ModelSource(model).card
    if domains is not None:
        domain = part_of(domain, measured_part([card], domains.name, domain))
        pool = calibration_pool(domains, card)
    usual = usual_noise(domain.kind, card)
    chosen = None if certifier is None else make_certifiers(certifier, given, options, usual)
    found = explain(loaded, domain, chosen, calibration=pool)
    if json:
        show_json({"certifiers": [asdict(one) for one in found]})
        return
    first = sorted(found, key=lambda one: not one.applies)
    rows = [["yes" if one.applies else "no", one.certifier, one.title, one.why] for one in first]
    show_table(["applies", "certifier", "tried as", "why"], rows)


def _like(model: nn.Module) -> Domain:
    """Two samples of the shape that a model of ours was built for."""
    import numpy as np

    from shiftproof.domains import Domain
    from shiftproof.domains.texts import text_domain
    from shiftproof.errors import UsageError
    from shiftproof.models import blueprint_of
    from shiftproof.rng import numpy_generator

    built = blueprint_of(model)
    if built is None:
        raise UsageError("the model does not say what inputs it takes: give --data")
    if built.classes < 2:
        raise UsageError("the model predicts a number; certificates are for models that choose a class")
    if len(built.shape) == 1:
        names = [str(c) for c in range(built.classes)]
        return text_domain("samples", ["a few words", "others"], [0, 1], names, width=built.shape[0])
    images = numpy_generator(0, "explain").integers(0, 256, (2, *built.shape)).astype(np.uint8)
    return Domain.from_arrays("samples", images, [0, 1], [str(c) for c in range(built.classes)])
