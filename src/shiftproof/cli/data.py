"""`shiftproof data ls`."""

from __future__ import annotations

import typer

from shiftproof.cli.options import AsJson, show_json, show_table

__all__ = ["app"]

app = typer.Typer(help="What data sets are here, and what is missing.", no_args_is_help=False)


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """Without a verb, list."""
    if context.invoked_subcommand is None:
        ls()


@app.command(name="ls")
def ls(json: AsJson = False) -> None:
    """List the data sets: embedded ones, those found on disk, and what is missing for the others."""
    from shiftproof.domains import DOMAINS
    from shiftproof.domains.registry import data_folder, look_for

    rows = []
    for entry in DOMAINS:
        if entry.name == "folder":
            continue
        files = tuple(getattr(entry.cls, "files", ()))
        missing = [file for file in files if look_for(file) is None]
        state = "missing" if missing else "here" if files else "embedded"
        rows.append(
            {"name": entry.name, "state": state, "missing": missing, "content": entry.metadata.get("content", "")}
        )
    if json:
        show_json({"folder": str(data_folder()), "data": rows})
        return
    show_table(
        ["data set", "state", "content"],
        [
            [
                str(row["name"]),
                f"needs {', '.join(row['missing'])}" if row["state"] == "missing" else str(row["state"]),
                str(row["content"]),
            ]
            for row in rows
        ],
    )
    typer.echo(
        f"looked in {data_folder()} (set SHIFTPROOF_DATA to change). "
        "Your own images: folder:PATH with PATH/domain/class/image.png"
    )
