"""The tables of documents as printed: every figure that can be compared with ours, under a name of its own."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from shiftproof.errors import UnknownName
from shiftproof.perturbations.threat import parse_eps

__all__ = ["PublishedNumber", "read_document"]

Printed = dict[str, str]
"""A row of a table: what it says of a figure, by the name of the column."""

_UNITS = {
    "certified accuracy %": ("certified", 0.01),
    "accuracy %": ("accuracy", 0.01),
    "top-1 accuracy % (mean of 5)": ("accuracy", 0.01),
    "AB accuracy %": ("accuracy", 0.01),
    "AM median accuracy %": ("answers", 0.01),
    "AV verifiable accuracy %": ("certified", 0.01),
    "p_x % (input search)": ("reached", 0.01),
    "p_z % (representation search)": ("reached-representation", 0.01),
    "clean accuracy %": ("accuracy", 0.01),
    "robust accuracy % (PGD-20)": ("attacked", 0.01),
    "robust accuracy %": ("attacked", 0.01),
    "ACR": ("acr", 1.0),
}
"""What tables call a figure: our word for it, and what its unit is of ours. Others are not compared."""

_CORRUPTIONS = {
    "Gauss": "gaussian-noise",
    "Shot": "shot-noise",
    "Impulse": "impulse-noise",
    "Defocus": "defocus-blur",
    "Glass": "glass-blur",
    "Motion": "motion-blur",
    "Zoom": "zoom-blur",
    "Snow": "snow",
    "Frost": "frost",
    "Fog": "fog",
    "Bright": "brightness",
    "Contrast": "contrast",
    "Elastic": "elastic-transform",
    "Pixel": "pixelate",
    "JPEG": "jpeg-compression",
    "Avg": "",
}
"""What tables of document 002 call a corruption: our word for it; none is the mean over all."""

_VERIFIED_AT = 0.1
"""The radius of document 004's verifiable accuracy, but for label smoothing, whose figures allow no radius at all."""

_WORDS = {"training": {"none": "no adaptive BN"}, "constraint": {"None": "no constraint"}}
_TELLING: tuple[list[str], ...] = ([], ["sigma"], ["level"], ["sigma", "level"])
"""What may tell rows of a table apart beside method, training and constraint; the first that does goes into names."""


@dataclass(frozen=True)
class PublishedNumber:
    """A figure of a document: shares are parts of 1, `level` is the radius of a certified accuracy, or the size of an
    attack; of a corruption, `kind` has both it and its severity, as in `corrupted@fog:5`.
    """

    table: str
    dataset: str
    method: str
    kind: str
    level: float | None
    value: float


def _documents() -> dict[str, Path]:
    folder = Path(str(files("shiftproof.report.claims"))) / "papers"
    return {path.stem: path for path in sorted(folder.glob("*.csv"))}


@cache
def read_document(document: str) -> tuple[PublishedNumber, ...]:
    """All figures of a document that can be compared with ours.

    A method is called by all that tells its row from others of the table, a data set also by whether it is the source
    or the target.

    >>> len([one for one in read_document("001") if one.kind == "acr"])
    17
    >>> read_document("003")[99].method
    'Baseline, no adaptive BN, sigma 0'
    """
    known = _documents()
    if document not in known:
        raise UnknownName("document with published numbers", document, known)
    with known[document].open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] in _UNITS]
    tables = {name: [row for row in rows if row["table"] == name] for name in dict.fromkeys(r["table"] for r in rows)}
    named = {name: _naming(some) for name, some in tables.items()}
    return tuple(
        PublishedNumber(
            row["table"],
            _dataset(row),
            _method(row, named[row["table"]]),
            _kind(row),
            _radius(row),
            # 18.1 % is .181, not a neighbour of it
            round(float(row["value"]) * _UNITS[row["metric"]][1], 6),
        )
        for row in rows
    )


def _naming(rows: Sequence[Printed]) -> list[str]:
    """The columns of a table that its methods are called by: those that differ, and what else tells rows apart."""
    usual = ["method", *(key for key in ("training", "constraint") if len({row[key] for row in rows}) > 1)]
    for more in _TELLING:
        keys = [
            (_dataset(row), row["metric"], _kind(row), _radius(row), *(row[key] for key in [*usual, *more]))
            for row in rows
        ]
        if len(set(keys)) == len(rows):
            return [*usual, *more]
    raise ValueError(f"rows of {rows[0]['table']} of document {rows[0]['document']} can't be told apart")


def _method(row: Printed, naming: Sequence[str]) -> str:
    """A method in words: its name, training and constraint, then what else differs within the table."""
    words = [_WORDS.get(key, {}).get(row[key], row[key]) for key in naming if key not in ("sigma", "level")]
    words += [f"sigma {row['sigma']}"] if "sigma" in naming else []
    if "level" in naming:
        level = row["level"]
        words.append(f"{row['level_kind']} {level if level == 'none' else format(float(level), 'g')}")
    # of searches in one row of a table, each is a method of its own
    search = re.search(r"\((\w+ search)\)", row["metric"])
    return ", ".join(word for word in [*words, search[1] if search else ""] if word)


def _kind(row: Printed) -> str:
    """Our word for a figure; of a corruption, also which it is and, where the document says so, how severe."""
    kind = _UNITS[row["metric"]][0]
    if row["level_kind"] != "corruption" or row["level"] == "Clean":
        return kind
    severity = row["note"].removeprefix("severity ") if row["note"].startswith("severity ") else ""
    asked = ":".join(one for one in (_CORRUPTIONS[row["level"]], severity) if one)
    return f"corrupted@{asked}" if asked else "corrupted"


def _dataset(row: Printed) -> str:
    role = row["domain_role"]
    named = role in ("source", "target") or role.startswith(("in-distribution ", "OOD "))
    return f"{row['dataset']}, {role}" if named else row["dataset"]


def _radius(row: Printed) -> float | None:
    if row["metric"].startswith("AV "):
        return 0.0 if row["method"].startswith("label smoothing") else _VERIFIED_AT
    if row["level_kind"] == "epsilon" and row["metric"].startswith("robust"):
        return parse_eps(row["level"])
    return float(row["level"]) if row["level_kind"] == "radius" else None
