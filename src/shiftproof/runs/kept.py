"""What a later command has found about a run, kept beside it as one JSON file so that its report can show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from shiftproof.errors import DataError
from shiftproof.execution import read_json, write_json

__all__ = ["KeptRows"]

Row = TypeVar("Row")


@dataclass(frozen=True)
class KeptRows(Generic[Row]):
    """Rows of one kind, dataclasses of type `row`, in the file NAME.json of a run; `again` is what finds them anew."""

    name: str
    row: type[Row]
    again: str

    def write(self, folder: Path, rows: Sequence[Row]) -> None:
        """Write rows in place of what is there."""
        written: list[Any] = [asdict(one) for one in rows]  # type: ignore[call-overload]
        write_json(self._path(folder), {"format": self._format, self.name: written})

    def read(self, folder: Path) -> list[Row]:
        """What is there; nothing where nobody has asked."""
        path = self._path(folder)
        if not path.is_file():
            return []
        document = read_json(path, DataError)
        try:
            if document.get("format") != self._format:
                raise ValueError
            return TypeAdapter(list[self.row]).validate_python(document[self.name])  # type: ignore[name-defined]
        except (KeyError, ValueError, ValidationError) as error:
            raise DataError(f"{path} is damaged; remove it, and ask again: {self.again}") from error

    @property
    def _format(self) -> str:
        return f"shiftproof-{self.name}/1"

    def _path(self, folder: Path) -> Path:
        return folder / f"{self.name}.json"
