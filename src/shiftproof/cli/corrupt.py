"""`shiftproof corrupt`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shiftproof.cli.options import DATA_KINDS, AsJson, Data, Seed, SetOfData, options_of_set
from shiftproof.cli.show import say, show_json

__all__ = ["command"]


def command(
    data: Data,
    out: Annotated[Path, typer.Option("--out", help="Folder to write to.")],
    corruption: Annotated[
        str, typer.Option("--corruption", help="fog, or several with commas; standard, all, noise, blur, weather ...")
    ] = "standard",
    severity: Annotated[str, typer.Option("--severity", help="1 to 5; several with commas.")] = "3",
    constants: Annotated[
        str, typer.Option("--constants", help="How strong: auto, cifar or imagenet; auto goes by the size of images.")
    ] = "auto",
    domain: Annotated[str | None, typer.Option("--domain", help="Domains to corrupt: a,b.", show_default="all")] = None,
    seed: Seed = 0,
    set_: SetOfData = None,
    json: AsJson = False,
) -> None:
    """Write a corrupted copy of a data set: the same tree of images, as PNG of 8 bits, to look at or to measure on.

    With several corruptions or severities, each has a folder of its own below --out, such as fog-3. Every image has its
    own draw, by seed and name. The same command continues where it was stopped.
    """
    from shiftproof.domains import load_domains
    from shiftproof.execution import check_writable
    from shiftproof.probes.corrupt import Corrupt
    from shiftproof.runs.corrupting import Corrupting

    options = options_of_set(set_ or [], DATA_KINDS)
    asked = Corrupt(corruption, severity, constants)  # type: ignore[arg-type]
    domains = load_domains(data, **options["data"])
    chosen = domains if domain is None else domains.select([name.strip() for name in domain.split(",")])
    work = Corrupting(chosen, asked.corruptions, asked.severities, asked.constants, seed)
    check_writable(out)
    folders = work.write(out, progress="lines")
    images = len(folders) * sum(map(len, chosen))
    used = work.asked["constants"]
    if json:
        show_json({"folders": [str(one) for one in folders], "images": images, "constants": used})
        return
    say(f"{images:,} images; the constants of {'CIFAR-10-C' if used == 'cifar' else 'ImageNet-C'}")
    for one in folders:
        say(f"folder:{one}")
