"""What methods of published tables would take that a run does not have, kept beside it for its report: not-run.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from shiftproof.errors import DataError
from shiftproof.execution import duration, read_json, write_json
from shiftproof.report.claims.published import TableKey

__all__ = ["NotRun", "keep_not_run", "read_not_run", "times_of"]

_FORMAT = "shiftproof-not-run/1"


@dataclass(frozen=True)
class NotRun:
    """A method of a published table that was not run, the study that has it, and the seconds that it would take."""

    document: str
    table: str
    dataset: str
    method: str
    study: str
    seconds: float
    most_seconds: float

    @property
    def table_key(self) -> TableKey:
        """The document, the table and the data set."""
        return self.document, self.table, self.dataset

    @property
    def words(self) -> str:
        """How long it would take, and where."""
        most = f", at most {duration(self.most_seconds)}" if self.most_seconds > 1.5 * self.seconds else ""
        return f"about {duration(self.seconds)}{most}, in {self.study}"


_ROWS = TypeAdapter(list[NotRun])


def keep_not_run(folder: Path, found: Sequence[NotRun]) -> None:
    """Write what was found in place of what was known."""
    write_json(_path(folder), {"format": _FORMAT, "not run": [asdict(one) for one in found]})


def read_not_run(folder: Path) -> list[NotRun]:
    """What a run knows of what it lacks; nothing where nobody has asked."""
    path = _path(folder)
    if not path.is_file():
        return []
    document = read_json(path, DataError)
    try:
        if document.get("format") != _FORMAT:
            raise ValueError
        return _ROWS.validate_python(document["not run"])
    except (KeyError, ValueError, ValidationError) as error:
        raise DataError(f"{path} is damaged; remove it, and ask again: shiftproof estimate {folder}") from error


def times_of(known: Sequence[NotRun]) -> dict[tuple[TableKey, str], str]:
    """How long every method would take, in words, by its table and name."""
    return {(one.table_key, one.method): one.words for one in known}


def _path(folder: Path) -> Path:
    return folder / "not-run.json"
