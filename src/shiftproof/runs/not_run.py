"""What methods of published tables would take that a run does not have, kept beside it for its report: not-run.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from shiftproof.execution import duration
from shiftproof.report.claims.published import TableKey
from shiftproof.runs.kept import KeptRows

__all__ = ["NotRun", "keep_not_run", "read_not_run", "times_of"]


Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class NotRun:
    """A method of a published table that was not run, the study that has it, and the seconds that it would take."""

    document: str
    table: str
    dataset: str
    method: str
    study: str
    seconds: Seconds
    most_seconds: Seconds

    @property
    def table_key(self) -> TableKey:
        """The document, the table and the data set."""
        return self.document, self.table, self.dataset

    @property
    def words(self) -> str:
        """How long it would take, and where."""
        most = f", at most {duration(self.most_seconds)}" if self.most_seconds > 1.5 * self.seconds else ""
        return f"about {duration(self.seconds)}{most}, in {self.study}"


_KEPT = KeptRows("not-run", NotRun, "shiftproof estimate RUN")


def keep_not_run(folder: Path, found: Sequence[NotRun]) -> None:
    """Write what was found in place of what was known."""
    _KEPT.write(folder, found)


def read_not_run(folder: Path) -> list[NotRun]:
    """What a run knows of what it lacks; nothing where nobody has asked."""
    return _KEPT.read(folder)


def times_of(known: Sequence[NotRun]) -> dict[tuple[TableKey, str], str]:
    """How long every method would take, in words, by its table and name."""
    return {(one.table_key, one.method): one.words for one in known}
