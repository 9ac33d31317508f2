"""Certificates: what is guaranteed, sample by sample, and the counts that it follows from."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from shiftproof.certification import logs
from shiftproof.certification.guarantees import smoothing_guarantee
from shiftproof.certification.notebook import certificates_html, certified_curve
from shiftproof.certification.sampling.budget import EXACT_N, STOPPED, Levels, bounds, budget
from shiftproof.display import Chart
from shiftproof.errors import DataError, UsageError
from shiftproof.execution import parse_json, write_atomically
from shiftproof.execution.tables import hash_table
from shiftproof.perturbations.edits import readable_radii
from shiftproof.perturbations.noise import Noise, as_noise
from shiftproof.types import FloatArray, IntArray

__all__ = ["ABSTAIN", "COLUMNS", "Certificates", "Votes", "certified_rows"]

ABSTAIN = -1
NO_BOUND = "none"
"""Of a sample that was skipped: there are no votes to bound."""
_FACTS, _SEAL = b"shiftproof.certificates", b"shiftproof.seal"


@dataclass(frozen=True, eq=False, repr=False)
class Certificates:
    """Columns over samples (numpy) and facts that hold for all of them.

    `prediction` is -1 where the classifier abstains; `radius` is 0 there. A `skipped` sample has a prediction that was
    not certified because it is wrong anyway. `count` of `n` votes were for `chosen`, `label_count` for the label (-1
    where no votes were counted) and `runner_up_count` for the best class but the chosen one; `p_lower` and `p_upper`
    bound their probabilities by the `bound` named. A guarantee holds below its `radius`: of k word edits that is k +
    0.0001, and k in logs, tables, metrics and `Evidence.to_pandas`. `off_grid` is how far a sample was from the grid on
    which noise lives; it is taken off the radius. Certificates that rest on several smoothed classifiers have the votes
    of each in `parts` (JSON); those that count no votes have a `margin` instead.

    `guarantee` is a sentence about the `classifier` named: base, smoothed, adapted, latent or median.
    `scale` is a radius of interest that was fixed in advance. Where `unsound` is not empty nothing is guaranteed: the
    rows are what a published rule claims, kept for comparison.
    """

    ids: NDArray[np.object_]
    chosen: IntArray
    prediction: IntArray
    radius: FloatArray
    skipped: NDArray[np.bool_]
    count: IntArray
    label_count: IntArray
    runner_up: IntArray
    runner_up_count: IntArray
    n: IntArray
    p_lower: FloatArray
    p_upper: FloatArray
    bound: NDArray[np.str_]
    off_grid: FloatArray
    margin: FloatArray
    parts: NDArray[np.object_]
    norm: str
    units: str
    alpha: float
    guarantee: str
    title: str = ""
    classifier: str = "smoothed"
    scale: float = 0.25
    constant: float | None = None
    unsound: str = ""
    levels: Levels | None = None
    noise: Noise | None = None
    samples: int = 0
    classes: int = 0
    precision: str = ""
    seed: int | None = None
    fingerprint: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        held = int(((self.prediction >= 0) & ~self.skipped).sum())
        what = f"claimed by an unsound rule ({self.unsound})" if self.unsound else "certified"
        return f"Certificates({held} of {len(self)} {what}, {self.norm}, alpha {self.alpha:g}, {self.title})"

    def _repr_html_(self) -> str:
        return certificates_html(self)

    def plot(self, labels: ArrayLike | None = None) -> Chart:
        """Certified accuracy by radius, as a chart that a notebook shows and `save(path)` writes.

        Without labels, the share of samples whose answer is guaranteed within each radius, whether right or wrong.
        """
        return certified_curve(self, labels)

    @classmethod
    def blank(cls, ids: NDArray[np.object_], prediction: IntArray, radius: FloatArray, **others: Any) -> Certificates:
        """Certificates of which only some columns are given. Where the radius is 0 or less they abstain."""
        n, held = len(ids), radius > 0
        skipped = others.get("skipped", np.zeros(n, bool))
        nothing, unknown = np.zeros(n, np.int64), np.full(n, np.nan)
        columns = {
            "chosen": prediction,
            "prediction": np.where(held | skipped, prediction, ABSTAIN),
            "radius": np.where(held, radius, 0.0),
            "skipped": skipped,
            "count": nothing,
            "label_count": nothing - 1,
            "runner_up": nothing - 1,
            "runner_up_count": nothing,
            "n": nothing,
            "p_lower": unknown,
            "p_upper": unknown,
            "bound": np.full(n, NO_BOUND),
            "off_grid": np.zeros(n),
            "margin": unknown,
            "parts": np.full(n, "", object),
        }
        return cls(ids=ids, **(columns | others))

    @property
    def abstained(self) -> NDArray[np.bool_]:
        """Where no class is certified at any radius; a skipped sample has not abstained."""
        mask: NDArray[np.bool_] = (self.prediction == ABSTAIN) & ~self.skipped
        return mask

    @property
    def passes(self) -> int:
        """Forward passes spent, those that chose the classes included."""
        return int(self.details.get("passes", self.n.sum() + len(self) * int(self.details.get("n0", 0))))

    @property
    def stops_early(self) -> bool:
        """Whether radii of stopped samples are lower than more samples would make them: averages are biased low."""
        return bool(self.levels is not None and self.levels.early > 0)

    def subset(self, indices: ArrayLike) -> Certificates:
        """The rows at `indices`."""
        chosen = np.asarray(indices)
        chosen = chosen if chosen.size else chosen.astype(np.int64)
        details = dict(self.details)
        if "labels" in details:
            details["labels"] = np.asarray(details["labels"])[chosen].tolist()
        if "passes" in details:
            details["passes"] = len(self.ids[chosen])
        return replace(self, **{name: getattr(self, name)[chosen] for name in COLUMNS}, details=details)

    def at_alpha(self, alpha: float) -> Certificates:
        """The same votes at another error probability; no model is needed.

        Samples that stopped early keep the bound that allows it, at its share of the new alpha.
        """
        if self.noise is None or self.levels is None or self.classifier != "smoothed" or self.unsound:
            raise UsageError("only the votes of one smoothed classifier can be read again at another alpha")
        if not 0 < alpha < 1:
            raise UsageError(f"alpha is {alpha}; it is a probability of error strictly between 0 and 1, such as 0.001")
        own = self.levels.final_rival > 0
        levels = budget(alpha, self.classes, runner_up=own, stops_early=self.stops_early)
        rows = certified_rows(self.noise, self.votes, self.samples, levels)
        return replace(
            self,
            **rows,
            alpha=alpha,
            levels=levels,
            guarantee=smoothing_guarantee(self.noise, alpha, self.details.get("prepared", self.precision)),
        )

    @property
    def votes(self) -> Votes:
        """The counts that everything else follows from."""
        return Votes(self.chosen, self.skipped, self.count, self.runner_up, self.runner_up_count, self.n, self.off_grid)

    @property
    def ballots(self) -> IntArray:
        """Of every smoothed classifier and sample: class, votes for it, for the best other one, and in all (M x N x 4).

        Nothing (0 x N x 4) where no votes were counted.
        """
        if len(self) and self.parts[0]:
            rows: IntArray = np.array([json.loads(text)["votes"] for text in self.parts])
            return rows.transpose(1, 0, 2)
        voted = bool(np.isin(self.bound, [EXACT_N, STOPPED, NO_BOUND]).all() and self.n.any())
        columns = np.stack([self.chosen, self.count, self.runner_up_count, self.n], 1)
        return columns[None][: int(voted)]

    def save(self, path: Path | str) -> None:
        """Write everything to a Parquet file, in one atomic step."""
        facts = {name: getattr(self, name) for name in _FACT_NAMES}
        facts["levels"] = None if self.levels is None else vars(self.levels)
        facts["noise"] = None if self.noise is None else self.noise.to_config()
        table = pa.table({name: pa.array(getattr(self, name)) for name in COLUMNS})
        buffer, text = io.BytesIO(), json.dumps(facts).encode()
        notes = {_FACTS: text, _SEAL: hash_table(table, text).encode()}
        pq.write_table(table.replace_schema_metadata(notes), buffer)
        write_atomically(Path(path), buffer.getvalue())

    @classmethod
    def load(cls, path: Path | str) -> Certificates:
        """Back from a file that `save` wrote."""
        if not Path(path).is_file():
            raise DataError(f"there is no file {path}")
        try:
            table = pq.read_table(path)
            notes = table.schema.metadata or {}
            facts = parse_json(notes[_FACTS])
            sealed = notes[_SEAL].decode() == hash_table(table.replace_schema_metadata(None), notes[_FACTS])
            columns = {name: table.column(name).to_numpy() for name in COLUMNS}
        except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
            raise DataError(f"{path} does not hold certificates") from error
        if not sealed:
            raise DataError(f"{path} was changed after it was written: its hash differs")
        facts["levels"] = None if facts["levels"] is None else Levels(**facts["levels"])
        facts["noise"] = None if facts["noise"] is None else as_noise(facts["noise"])
        columns["bound"] = columns["bound"].astype(str)
        return cls(**columns, **facts)

    def to_log(self, path: Path | str, labels: ArrayLike) -> None:
        """Write the tab-separated log that other tools read; radii are rounded down, so that none grows.

        Of word edits the radius in it is the number that is certified, as a tool counts it that asks for `radius >= k`.
        """
        wanted = np.asarray(labels)
        if self.unsound:
            raise UsageError(f"{self.title}: a log would show what an unsound rule claims as if it were certified")
        if len(wanted) != len(self):
            raise UsageError(f"there are {len(self)} certificates but {len(wanted)} labels")
        rows = logs.Log(self.ids, wanted, self.prediction, readable_radii(self.radius, self.norm))
        write_atomically(Path(path), logs.write(rows).encode())

    @classmethod
    def from_log(cls, path: Path | str, *, alpha: float = 0.001, norm: str = "l2") -> Certificates:
        """Certificates that another tool has logged: idx, label, predict, radius, correct, time, tab separated.

        Radii and predictions are taken at their word; `labels` are in `details["labels"]`.
        """
        log = logs.read(Path(path))
        return replace(
            cls.blank(
                log.ids,
                log.prediction,
                log.radius,
                bound=np.full(len(log.ids), "imported"),
                norm=norm,
                units="as logged",
                alpha=alpha,
                title=Path(path).stem,
                guarantee=f"Imported from {Path(path).name}; whoever wrote it answers for it.",
                details={"labels": log.labels.tolist()},
            ),
            # a log rounds radii: a certified one may read 0
            prediction=log.prediction,
        )


@dataclass(frozen=True, eq=False)
class Votes:
    """What sampling leaves behind, column by column over samples."""

    chosen: IntArray
    skipped: NDArray[np.bool_]
    count: IntArray
    runner_up: IntArray
    runner_up_count: IntArray
    n: IntArray
    off_grid: FloatArray


def certified_rows(noise: Noise, votes: Votes, n: int, levels: Levels) -> dict[str, Any]:
    """The columns that follow from votes: bounds, radius, prediction. A pure function, so that it can be checked."""
    known = bounds(votes.count, votes.runner_up_count, votes.n, n, levels)
    radius = noise.radius(known.miss, known.rival) - votes.off_grid
    certified = (radius > 0) & ~votes.skipped & (votes.n > 0)
    return {
        "radius": np.where(certified, radius, 0.0),
        "prediction": np.where(certified | votes.skipped, votes.chosen, ABSTAIN),
        "p_lower": 1 - known.miss,
        "p_upper": known.rival,
        "bound": np.where(votes.n > 0, known.kind, NO_BOUND),
    }


COLUMNS = (
    "ids",
    "chosen",
    "prediction",
    "radius",
    "skipped",
    "count",
    "label_count",
    "runner_up",
    "runner_up_count",
    "n",
    "p_lower",
    "p_upper",
    "bound",
    "off_grid",
    "margin",
    "parts",
)
"""What is said of every sample."""
_FACT_NAMES = (
    "norm",
    "units",
    "alpha",
    "guarantee",
    "title",
    "classifier",
    "scale",
    "constant",
    "unsound",
    "samples",
    "classes",
    "precision",
    "seed",
    "fingerprint",
    "details",
)
