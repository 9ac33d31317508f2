"""Images of the Hugging Face hub, or a folder that its library wrote: hf:NAME, hf:PATH."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from shiftproof.domains.domain import Domains
from shiftproof.domains.files import Listing
from shiftproof.domains.folder import domains_of_files
from shiftproof.domains.index import SPLITS, Index, sorted_classes, torn_groups
from shiftproof.domains.registry import DOMAINS, DataSet
from shiftproof.errors import DataError, DataNotFound, UnknownName, UsageError
from shiftproof.types import Side

__all__ = ["HuggingFace"]

FIRST_WITHOUT_SCRIPTS = 4
"""Older releases of the library can run code that comes with a data set."""
UNLABELLED = -1


@DOMAINS.register("hf", content="images of the Hugging Face hub: hf:NAME, or hf:PATH of a saved data set")
@dataclass(frozen=True)
class HuggingFace(DataSet):
    """Images of the Hugging Face hub, or of a folder that its library wrote.

    `image`, `label`, `domain` and `group` are columns. Image and label are found by their kind (Image, ClassLabel) if
    there is one of each; a column called 'domain' says where a sample is from, and without one all are one domain.
    Splits called train, validation and test are kept as such; `split` picks some ('train', 'train+test'). `config` and
    `revision` are the hub's; `size` and `channels` are those of a folder of images.
    """

    path: str
    split: str | None = None
    image: str | None = None
    label: str | None = None
    domain: str | None = None
    group: str | None = None
    config: str | None = None
    revision: str | None = None
    size: Side | tuple[Side, Side] | None = None
    channels: Literal[1, 3] | None = None

    @property
    def source(self) -> str:
        """As it is typed."""
        return f"hf:{self.path}"

    def load(self) -> Domains:
        """Read labels now; decode images when they are asked for."""
        library = _library(self.source)
        parts = self._select_splits(self._tables(library))
        features = [table.features for table in parts.values()]
        if any(one != features[0] for one in features):
            raise DataError(f"the splits {', '.join(parts)} of {self.source} differ in their columns or classes")
        columns = self._columns(library, features[0])
        index, classes = self._index(library, parts, columns)
        domains = domains_of_files(self.source, index, self.size, self.channels)
        # files have their classes in alphabetical order; here the data set says which is which
        number = {name: i for i, name in enumerate(classes)}
        renamed = [
            replace(one, classes=classes, labels=np.array([number[name] for name in one.classes])[one.labels])
            for one in domains
        ]
        return Domains(self.source, renamed)

    def _tables(self, library: Any) -> dict[str, Any]:
        """The data set's tables by split; one that has no split is called 'data'."""
        path = Path(self.path)
        if not self.path or (self.path[0] in "./~" and not path.is_dir()):
            raise DataNotFound(f"there is no folder {self.path!r}; hf: takes a name of the hub or a folder")
        try:
            if any((path / file).is_file() for file in ("state.json", "dataset_dict.json")):
                loaded = library.load_from_disk(self.path)
            else:
                loaded = library.load_dataset(self.path, self.config, revision=self.revision)
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            raise DataNotFound(
                f"can't load {self.source}: {reason}. A name is looked for on the hub, which must be within reach; "
                "a path should be a folder that save_to_disk wrote, or one of data files"
            ) from error
        if isinstance(loaded, Mapping):
            return {str(name): table for name, table in loaded.items()}
        return {str(loaded.split or "data"): loaded}

    def _select_splits(self, tables: dict[str, Any]) -> dict[str, Any]:
        if self.split is None:
            unknown = [name for name in tables if name not in SPLITS]
            if unknown and len(tables) > 1:
                raise UsageError(
                    f"the splits of {self.source} are {', '.join(tables)}, and not all are train, validation or test: "
                    f"say which to load, such as split={unknown[0]}"
                )
            return tables
        names = [name.strip() for name in self.split.split("+")]
        for name in names:
            if name not in tables:
                raise UnknownName(f"split of {self.source}:", name, tables)
        return {name: tables[name] for name in names}

    def _columns(self, library: Any, features: Mapping[str, Any]) -> dict[str, str | None]:
        """Which column is what, as told or by kind."""
        asked = {"image": self.image, "label": self.label, "domain": self.domain, "group": self.group}
        for column in asked.values():
            if column is not None and column not in features:
                raise UnknownName(f"column of {self.source}:", column, features)
        domain = self.domain or ("domain" if "domain" in features and self.label != "domain" else None)
        taken = {domain, self.group}
        image = self.image or self._only("image", library.Image, features, taken)
        label = self.label or self._only("label", library.ClassLabel, features, taken)
        if not isinstance(features[image], library.Image):
            raise UsageError(f"the column {image!r} of {self.source} holds {features[image]}, not images")
        return {"image": image, "label": label, "domain": domain, "group": self.group}

    def _only(self, role: str, kind: type, features: Mapping[str, Any], taken: set[str | None]) -> str:
        found = [name for name, feature in features.items() if isinstance(feature, kind) and name not in taken]
        if len(found) == 1:
            return found[0]
        some = f"several columns of kind {kind.__name__}: {', '.join(found)}"
        none = f"no column of kind {kind.__name__}; its columns are {', '.join(features)}"
        raise UsageError(f"{self.source} has {some if found else none}. Say which is the {role}: {role}=COLUMN")

    def _index(
        self, library: Any, parts: Mapping[str, Any], columns: Mapping[str, str | None]
    ) -> tuple[Index, tuple[str, ...]]:
        """Every sample with its label, domain, split and group; and the classes in order."""
        values: dict[str, list[str]] = {}
        for role in ("label", "domain", "group"):
            column = columns[role]
            read = [(name, table[column], table.features[column]) for name, table in parts.items()] if column else []
            values[role] = [text for one in read for text in self._texts(library, str(column), *one)]
        paths = [f"{name}/{row}" for name, table in parts.items() for row in range(len(table))]
        if not paths:
            raise DataError(f"{self.source} has no rows")
        # one split alone says nothing of what is trained on, and is divided as any data are
        marks = {name: SPLITS.get(name, "") if len(parts) > 1 else "" for name in parts}
        splits = [marks[name] for name, table in parts.items() for _ in range(len(table))]
        domains = values["domain"] or [Path(self.path).name] * len(paths)
        groups = values["group"] or [""] * len(paths)
        rows = zip(paths, values["label"], domains, splits, groups, strict=True)
        image, feature = str(columns["image"]), next(iter(parts.values())).features[columns["label"]]
        encoded = {name: table.cast_column(image, library.Image(decode=False)) for name, table in parts.items()}
        names = feature.names if isinstance(feature, library.ClassLabel) else sorted_classes(values["label"])
        torn = torn_groups(Path(self.source), splits, groups)
        return Index.of(_Rows(self.source, encoded, image), rows, problems=torn), tuple(names)

    def _texts(self, library: Any, column: str, split: str, values: Sequence[Any], feature: Any) -> Iterable[str]:
        """The values of a column as text; a class by its name."""
        given = list(values)
        bad = [value for value in given if value is None or isinstance(value, float | list | dict)]
        if bad:
            raise DataError(
                f"{len(bad)} of {len(given)} values of {column!r} in the split {split!r} of {self.source} are no name "
                f"or whole number, such as {bad[0]!r}"
            )
        if not isinstance(feature, library.ClassLabel):
            return map(str, given)
        if UNLABELLED in given:
            raise DataError(
                f"rows of the split {split!r} of {self.source} have no {column!r}; leave it out with split="
            )
        return [feature.names[value] for value in given]


class _Rows:
    """Encoded images of tables, as files called 'split/row'."""

    def __init__(self, spec: str, tables: Mapping[str, Any], column: str) -> None:
        self.root = Path(spec)
        self._tables, self._column = dict(tables), column

    def names(self) -> list[str]:
        """All rows of all splits."""
        return [f"{name}/{row}" for name, table in self._tables.items() for row in range(len(table))]

    def listing(self) -> Listing:
        """The same: a table does not say what has changed."""
        return Listing(self.names())

    def read(self, name: str) -> bytes:
        """The encoded image of one row."""
        split, _, row = name.rpartition("/")
        value = self._tables[split][int(row)][self._column] or {}
        content: bytes | None = value.get("bytes")
        if content is None and value.get("path") is None:
            raise ValueError("the row holds no image")
        return Path(value["path"]).read_bytes() if content is None else content

    def header(self, name: str) -> bytes:
        """The same: a table is not read by halves."""
        return self.read(name)


def _library(spec: str) -> Any:
    try:
        library = importlib.import_module("datasets")
    except Exception as error:
        reason = "" if isinstance(error, ModuleNotFoundError) and error.name == "datasets" else f" ({error})"
        raise UsageError(
            f"{spec} needs the library 'datasets', which can't be imported here{reason}: pip install 'shiftproof[hf]'"
        ) from error
    if int(library.__version__.split(".")[0]) < FIRST_WITHOUT_SCRIPTS:
        raise UsageError(
            f"datasets {library.__version__} can run code that comes with data; {spec} needs {FIRST_WITHOUT_SCRIPTS}.0 "
            "or newer: pip install 'shiftproof[hf]'"
        )
    return library
