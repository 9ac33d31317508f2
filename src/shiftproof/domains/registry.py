"""Data sets by name, and where those on disk are looked for."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from shiftproof.catalogue import Catalogue, Method
from shiftproof.domains.domain import Domains
from shiftproof.domains.outline import Outline
from shiftproof.domains.registries import command_for
from shiftproof.errors import DataNotFound, UnknownName, UsageError

__all__ = [
    "DOMAINS",
    "LOCAL",
    "PREFIXED",
    "DataSet",
    "data_folder",
    "data_set",
    "find_file",
    "kind_named",
    "load_domains",
    "look_for",
]


class DataSet(Method, ABC):
    """A data set that can be loaded: a frozen dataclass of options."""

    files: ClassVar[tuple[str, ...]] = ()
    """What it needs from the data folder, all of it ("a.zip or a": either will do)."""
    page: ClassVar[str] = ""
    """Where its files are published, if that is to be said."""
    layout: ClassVar[str] = ""
    """What its files should hold, in a phrase for somebody who has none."""

    @abstractmethod
    def load(self) -> Domains:
        """Its domains; large ones are decoded when they are asked for."""

    def outline(self) -> Outline | None:
        """Shape, classes and counts that `load` gives of the published files, without them; None if nobody knows.

        For a dry run of a study whose data is not on this machine.
        """
        return None

    @property
    def source(self) -> str:
        """How it is named on the command line, behind --data."""
        return self.name

    def to_config(self) -> dict[str, Any]:
        """How it is named, and the options that are not in the name, from which `data_set` makes it again."""
        options = super().to_config()
        path = {"path"} if options["name"] in PREFIXED else set()
        return {**{key: value for key, value in options.items() if key not in path}, "name": self.source}


DOMAINS: Catalogue[DataSet] = Catalogue("data set", "shiftproof.domains", base=DataSet)
PREFIXED = ("folder", "table", "hf")
"""Kinds of data that are named with what follows: folder:PATH, table:PATH, hf:NAME."""
LOCAL = ("folder", "table")
"""Those that are always read from this machine, by path."""


def load_domains(name: str, **options: Any) -> Domains:
    """Load a data set by name, your own data, or data of the hub.

    `folder:PATH` is images at root/domain/class/image or listed in a CSV manifest, `table:PATH` is texts in a CSV,
    JSONL or Parquet file, `hf:NAME` is images of the Hugging Face hub.

    >>> load_domains("rotated-digits").names[:2]
    ('angle=0', 'angle=15')
    """
    return data_set(name, options).load()


def data_set(name: str, options: Mapping[str, Any]) -> DataSet:
    """The data set called `name`, not loaded yet."""
    kind, colon, path = name.partition(":")
    if colon and kind in PREFIXED:
        return DOMAINS.create(kind, {**options, "path": path})
    if name not in DOMAINS or name in PREFIXED:
        if Path(name).exists():
            raise UsageError(
                f"{name!r} is not the name of a data set, but there is such a path: did you mean {_meant(name)}?"
            )
        known = [entry.name for entry in DOMAINS if entry.name not in PREFIXED]
        raise UnknownName("data set", name, [*known, "folder:PATH", "table:PATH", "hf:NAME"])
    return DOMAINS.create(name, options)


def kind_named(name: str) -> str:
    """What the samples of a data set are, image | text, as far as its entry says; nothing is loaded."""
    kind, colon, _ = name.partition(":")
    key = kind if colon and kind in PREFIXED else name
    return str(DOMAINS[key].metadata.get("kind", "image")) if key in DOMAINS else "image"


def _meant(path: str) -> str:
    ending = Path(path).suffix.lower()
    if ending == ".csv":
        return f"'table:{path}' (texts) or 'folder:{path}' (a list of images)"
    return f"'table:{path}'" if ending in (".jsonl", ".ndjson", ".parquet") else f"'folder:{path}'"


def data_folder() -> Path:
    """Where data sets on disk are looked for: SHIFTPROOF_DATA, or shiftproof's folder in the user's data directory."""
    if os.environ.get("SHIFTPROOF_DATA"):
        return Path(os.environ["SHIFTPROOF_DATA"])
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "shiftproof"


def find_file(data_set: str, file: str, layout: str) -> Path:
    """The path of `file` ("a.zip or a": either) in the data folder; `layout` tells who has none what is expected."""
    found = look_for(file)
    if found is None:
        where = "" if os.environ.get("SHIFTPROOF_DATA") else " (SHIFTPROOF_DATA is not set)"
        command = command_for(file)
        fetched = "" if command is None else f"'{command}' fetches it; or set"
        raise DataNotFound(
            f"data set {data_set!r} needs {file}, looked for in {data_folder()}{where}. Expected: {layout}. "
            f"{fetched or 'Set'} SHIFTPROOF_DATA to the folder that holds it; 'shiftproof data ls' shows what is here."
        )
    return found


def look_for(file: str) -> Path | None:
    """The path of `file` ("a.zip or a": either) in the data folder, or None."""
    candidates = (data_folder() / name for name in file.split(" or "))
    return next((path for path in candidates if path.exists()), None)
