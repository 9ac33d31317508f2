"""The tab-separated log that certification scripts exchange: idx, label, predict, radius, correct, time."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shiftproof.errors import DataError
from shiftproof.types import FloatArray, IntArray

__all__ = ["Log", "parse", "read", "write"]

COLUMNS = ("idx", "label", "predict", "radius", "correct", "time")
ABSTAIN = -1
_DIGITS = 1e6
_MOST_CLASSES = 2**31


@dataclass(frozen=True, eq=False)
class Log:
    """One row a sample; prediction -1 is an abstention, with radius 0.

    `rounding` is by how much each radius may be too large because it was rounded to so many digits; a log that is
    written here rounds down, and has none.
    """

    ids: NDArray[np.object_]
    labels: IntArray
    prediction: IntArray
    radius: FloatArray
    rounding: FloatArray | None = None


def write(log: Log) -> str:
    """The log as text. A radius is rounded down to six digits: rounded up it would promise too much.

    Other tools read idx as a number: ids that are none are counted from 0.
    """
    numbers = log.ids if all(str(one).isdecimal() for one in log.ids) else range(len(log.ids))
    rows = zip(numbers, log.labels, log.prediction, log.radius, strict=True)
    lines = ["\t".join(COLUMNS)]
    for number, label, prediction, radius in rows:
        correct = int(prediction == label)
        down = math.floor(radius * _DIGITS) / _DIGITS
        lines.append(f"{number}\t{label}\t{prediction}\t{down:.6f}\t{correct}\t0")
    return "\n".join(lines) + "\n"


def read(path: Path) -> Log:
    """Rows of a log. A column `correct` that contradicts label and prediction is an error: some tools sum it up."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"can't read the log {path}: {error.strerror or error}") from error
    return parse(content, str(path))


def parse(content: bytes, name: str) -> Log:
    """The same from the content of a file that messages call `name`; commas may stand in place of tabs."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"can't read the log {name}: it is not text ({error})") from error
    head = text.partition("\n")[0]
    if not text.strip():
        raise DataError(f"{name} is empty")
    # as the file has them, or a stray carriage return would end a row
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if "\t" in head else ",")
    missing = [column for column in COLUMNS[:4] if column not in (reader.fieldnames or ())]
    if missing:
        raise DataError(
            f"{name} is not a certification log: it has no column {', '.join(missing)}; a log has a line "
            f"'{' '.join(COLUMNS)}' and then a line a sample, with tabs or commas between"
        )
    lines: dict[str, int] = {}
    labels, predictions, radii, texts = [], [], [], []
    for row in reader:
        line = f"{name}, line {reader.line_num}"
        label, prediction, radius = _row(row, line)
        if (before := lines.setdefault(row["idx"], reader.line_num)) != reader.line_num:
            raise DataError(f"{line}: sample {row['idx']} stands in line {before} already; every sample should be once")
        labels.append(label)
        predictions.append(prediction)
        radii.append(radius if prediction != ABSTAIN else 0.0)
        texts.append(row["radius"] if prediction != ABSTAIN else "0")
    if not lines:
        raise DataError(f"{name} has no rows")
    ids = np.array(list(lines), object)
    return Log(ids, np.array(labels), np.array(predictions), np.array(radii), _rounding(texts, np.array(radii)))


def _row(row: dict[str, str], line: str) -> tuple[int, int, float]:
    """Label, prediction and radius of a row."""
    try:
        label, prediction, radius = int(row["label"]), int(row["predict"]), float(row["radius"])
        if not 0 <= radius < math.inf:
            raise DataError(f"{line}: the radius is {radius}")
        if max(label, prediction) >= _MOST_CLASSES:
            raise DataError(f"{line}: the label is {label}, predict is {prediction}; there are not so many classes")
        if label < 0 or prediction < ABSTAIN:
            raise DataError(f"{line}: the label is {label}, predict is {prediction}; classes count from 0, -1 abstains")
        correct = row.get("correct")
        if correct is not None and bool(int(correct)) != (label == prediction):
            raise DataError(f"{line}: correct is {correct}, but label and predict say not")
    except (TypeError, ValueError) as error:
        raise DataError(f"{line}: not a row of numbers") from error
    if not row["idx"]:
        raise DataError(f"{line}: the row has no idx")
    return label, prediction, radius


def _rounding(texts: Sequence[str], radii: FloatArray) -> FloatArray:
    """Half a unit of the last digit that each radius was rounded to.

    A program writes either so many significant digits ("1.91", "0.852") or so many behind the point; which of the two
    is not told by a log, so that the greater is taken. Zeros at the end may have been left out: the row with most
    digits tells how many there are.
    """
    try:
        parts = [Decimal(text.strip()).as_tuple() for text in texts]
    except InvalidOperation:
        return np.zeros(len(radii))
    significant = max(len(part.digits) for part in parts)
    behind = max(max(0, -int(part.exponent)) for part in parts)
    leading = np.floor(np.log10(np.where(radii > 0, radii, 1.0)))
    half: FloatArray = 0.5 * np.maximum(10.0 ** (leading - significant + 1), 10.0**-behind)
    return np.where(radii > 0, half, 0.0)
