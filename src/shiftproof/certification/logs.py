"""The tab-separated log that certification scripts exchange: idx, label, predict, radius, correct, time."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shiftproof.errors import DataError
from shiftproof.types import FloatArray, IntArray

__all__ = ["Log", "read", "write"]

COLUMNS = ("idx", "label", "predict", "radius", "correct", "time")
_DIGITS = 1e6


@dataclass(frozen=True, eq=False)
class Log:
    """One row a sample; prediction -1 is an abstention."""

    ids: NDArray[np.object_]
    labels: IntArray
    prediction: IntArray
    radius: FloatArray


def write(log: Log) -> str:
    """The log as text. A radius is rounded down to six digits: rounded up it would promise too much."""
    rows = zip(log.labels, log.prediction, log.radius, strict=True)
    lines = ["\t".join(COLUMNS)]
    for number, (label, prediction, radius) in enumerate(rows):
        correct = int(prediction == label)
        down = math.floor(radius * _DIGITS) / _DIGITS
        lines.append(f"{number}\t{label}\t{prediction}\t{down:.6f}\t{correct}\t0")
    return "\n".join(lines) + "\n"


def read(path: Path) -> Log:
    """Rows of a log. A column `correct` that contradicts label and prediction is an error: some tools sum it up."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"can't read the log {path}: {getattr(error, 'strerror', None) or error}") from error
    reader = csv.DictReader(io.StringIO(text), delimiter="\t")
    missing = set(COLUMNS[:4]) - set(reader.fieldnames or ())
    if missing:
        raise DataError(f"{path} is not a certification log: it has no column {', '.join(sorted(missing))}")
    ids, labels, predictions, radii = [], [], [], []
    for row in reader:
        try:
            label, prediction, radius = int(row["label"]), int(row["predict"]), float(row["radius"])
            if not 0 <= radius < math.inf:
                raise DataError(f"{path}, line {reader.line_num}: the radius is {radius}")
            correct = row.get("correct")
            if correct is not None and bool(int(correct)) != (label == prediction):
                raise DataError(f"{path}, line {reader.line_num}: correct is {correct}, but label and predict say not")
        except (TypeError, ValueError) as error:
            raise DataError(f"{path}, line {reader.line_num}: not a row of numbers") from error
        ids.append(row["idx"])
        labels.append(label)
        predictions.append(prediction)
        radii.append(radius if prediction >= 0 else 0.0)
    if not ids:
        raise DataError(f"{path} has no rows")
    return Log(np.array(ids, object), np.array(labels), np.array(predictions), np.array(radii))
