"""A corrupted copy of a data set of texts, as a table that every verb reads."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from shiftproof.domains import Domain
from shiftproof.execution import Mode, progress_bar, write_atomically
from shiftproof.perturbations.corruptions import corrupt
from shiftproof.perturbations.text import decode, parts_of
from shiftproof.runs.corrupting import Corrupting

__all__ = ["CorruptingTexts"]

TABLE = "texts.csv"


@dataclass(frozen=True, eq=False)
class CorruptingTexts(Corrupting):
    """Domains of texts, and what is to happen to them: every corruption at every severity."""

    def write(self, folder: Path, progress: Mode = "auto") -> list[Path]:
        """Texts with label, domain and id as a CSV file, in a folder of its own for each setting if there are several.

        A pair of texts has a second column, text2; samples that belong together share a group. Returns the files, each
        of which is a data set: `table:PATH`. One that is there already is not made again.
        """
        self._check()
        self._begin(folder)
        tables = [self._root(folder, setting) / TABLE for setting in self.settings]
        with progress_bar("corrupting", len(tables) * sum(map(len, self.domains)), progress) as bar:
            for path, setting in zip(tables, self.settings, strict=True):
                if not path.is_file():
                    write_atomically(path, self._table(*setting).encode())
                bar.advance(sum(map(len, self.domains)))
        return tables

    def _table(self, corruption: str, severity: int) -> str:
        rows = [row for domain in self.domains for row in self._rows(domain, corruption, severity)]
        text = io.StringIO()
        writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def _rows(self, domain: Domain, corruption: str, severity: int) -> list[dict[str, str]]:
        ids = [str(one) for one in domain.ids]
        # rows, not strings: the table holds what a probe would measure, cut where a probe would cut
        changed = decode(corrupt(domain.tensors()[0], corruption, severity, seed=self.seed, ids=ids))
        groups = [None] * len(domain) if domain.groups is None else domain.groups.tolist()
        return [
            {
                **dict(zip(("text", "text2"), parts_of(text), strict=False)),
                "label": domain.classes[label],
                "domain": domain.name,
                "id": sample,
                **({} if group is None else {"group": group}),
            }
            for text, label, sample, group in zip(changed, domain.labels.tolist(), ids, groups, strict=True)
        ]
