"""`shiftproof corrupt`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shiftproof.cli.options import DATA_KINDS, AsJson, Data, Device, Seed, SetOfData, options_of_set
from shiftproof.cli.show import say, show_json

__all__ = ["command"]


def command(
    data: Data,
    out: Annotated[Path, typer.Option("--out", help="Folder to write to.")],
    corruption: Annotated[
        str,
        typer.Option(
            "--corruption", help="fog, typos, or several with commas; standard, all, noise, blur, weather ..."
        ),
    ] = "standard",
    severity: Annotated[str, typer.Option("--severity", help="1 to 5; several with commas.")] = "3",
    constants: Annotated[
        str, typer.Option("--constants", help="How strong: auto, cifar or imagenet; auto goes by the size of images.")
    ] = "auto",
    domain: Annotated[str | None, typer.Option("--domain", help="Domains to corrupt: a,b.", show_default="all")] = None,
    seed: Seed = 0,
    set_: SetOfData = None,
    device: Device = "auto",
    json: AsJson = False,
) -> None:
    """Write a corrupted copy of a data set, to look at or to measure on: of images the same tree, as PNG of 8 bits; of
    texts a table, texts.csv.

    With several corruptions or severities, each has a folder of its own below --out, such as fog-3. Every sample has
    its own draw, by seed and name. The same command continues where it was stopped.
    """
    from shiftproof.domains import load_domains
    from shiftproof.execution import Compute, check_writable
    from shiftproof.probes.corrupt import Corrupt
    from shiftproof.runs.corrupting import Corrupting
    from shiftproof.runs.corrupting_texts import CorruptingTexts

    place = Compute(device).check().place
    options = options_of_set(set_ or [], DATA_KINDS)
    asked = Corrupt(corruption, severity, constants)  # type: ignore[arg-type]
    domains = load_domains(data, **options["data"])
    chosen = domains if domain is None else domains.select([name.strip() for name in domain.split(",")])
    asked = asked.on(chosen)
    kind = CorruptingTexts if chosen.kind == "text" else Corrupting
    work = kind(chosen, asked.corruptions, asked.severities, asked.constants, seed, place)
    check_writable(out)
    written = work.write(out, progress="lines")
    count = len(written) * sum(map(len, chosen))
    used = work.asked["constants"]
    if json:
        places = {"tables" if chosen.kind == "text" else "folders": [str(one) for one in written]}
        show_json({**places, f"{chosen.kind}s": count, **({"constants": used} if used else {})})
        return
    names = {"cifar": "; the constants of CIFAR-10-C", "imagenet": "; the constants of ImageNet-C"}
    say(f"{count:,} {chosen.kind}s{names.get(used, '')}")
    for one in written:
        say(f"{'table' if chosen.kind == 'text' else 'folder'}:{one}")
