"""`shiftproof verify RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shiftproof.cli.options import EXIT_FAILED, AsJson, Device
from shiftproof.cli.show import say, show_findings, show_json

__all__ = ["command"]


def command(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run, or of shiftproof certify.")],
    part: Annotated[
        int,
        typer.Option("--part", min=1, help="Samples of each model, domain and setting to ask again and attack."),
    ] = 24,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Seed for the verification's own random draws.", show_default="a fresh one"),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="Repeat a model that the folder names, python:PKG.MOD:FN, to let its code run."),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run the code that the folder names, and fetch the data that it names.")
    ] = False,
    device: Device = "auto",
    json: AsJson = False,
) -> None:
    """Try to break what a run certifies; exit 2 if anything is broken.

    Derives every radius again from its record, asks the model itself for a random part of the votes, with fresh noise
    and with the noise that certified, attacks inside certified balls, repeats attacks and corruptions on a few samples,
    and checks hashes of weights, data and evidence, that certified classes are those measured elsewhere, and that
    guarantees, tables, drawings and logs say what the evidence gives. Code that the folder names is not run, and no
    data is fetched, unless you repeat it or trust the folder.
    """
    import secrets
    from dataclasses import asdict

    from shiftproof.runs.leave_one_out import is_leave_one_out, open_leave_one_out
    from shiftproof.runs.trust import Trust
    from shiftproof.runs.verify import verify_folder
    from shiftproof.runs.verify_leave_one_out import check_leave_one_out

    chosen = secrets.randbits(32) if seed is None else seed
    trusted, findings = Trust(tuple(model or ()), trust), []
    whole = open_leave_one_out(run) if is_leave_one_out(run) else None
    folders = [run] if whole is None else [one.folder for one in whole.runs]
    for folder in folders:
        if len(folders) > 1 and not json:
            say(str(folder))
        for finding in verify_folder(folder, seed=chosen, part=part, trust=trusted, device=device):
            findings.append(finding)
            if not json:
                show_findings([finding])
    if whole is not None:
        about_all = list(check_leave_one_out(whole))
        findings += about_all
        if not json:
            say(str(run))
            show_findings(about_all)
    failed = [finding for finding in findings if finding.level == "fail"]
    if json:
        show_json({"broken": len(failed), "seed": chosen, "findings": [asdict(finding) for finding in findings]})
    else:
        say("")
        show_findings(failed)
        verdict = f"{len(failed)} of {len(findings)} checks failed" if failed else "nothing is broken"
        checks = "" if failed else f" by {len(findings)} checks"
        say(f"{verdict}{checks}; seed {chosen} (give it as --seed to repeat them)")
    if failed:
        raise typer.Exit(EXIT_FAILED)
