"""Which value of an option is best under each corruption, for options that a study sweeps over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shiftproof.evidence import Evidence
from shiftproof.perturbations.corruptions import CORRUPTIONS, group_of
from shiftproof.report.estimates import TRAIN_SEED, Values
from shiftproof.report.measures import mean_by_sample
from shiftproof.report.section import SECTIONS, Section
from shiftproof.report.sections.sweeps import Sweep
from shiftproof.report.tables import Cell, Heading, Records, Row, Table
from shiftproof.rng import numpy_generator
from shiftproof.statistics import covering_range, win_shares
from shiftproof.statistics.units import Units

__all__ = ["BestValue", "BestValues", "best_values"]

_ALL = "mean of all"
_FEWEST = 3
_COLUMNS = (
    *("models", "option", "domain", "corruption", "group", "value of the option", "accuracy", "best", "wins"),
    *("best value at least", "best value at most"),
)


@dataclass(frozen=True)
class BestValue:
    """Of one corruption on one domain: accuracy at each value of an option, and how often each is best when samples and
    trainings are drawn anew.

    `low` and `high` are the smallest and largest value that is best, with 95 % of these draws between them.
    """

    domain: str
    corruption: str
    values: tuple[float, ...]
    accuracy: tuple[float, ...]
    wins: tuple[float, ...]

    @property
    def best(self) -> float:
        """The value with the largest accuracy; of several, the smallest."""
        return min(self.tied)

    @property
    def tied(self) -> tuple[float, ...]:
        """All values with the largest accuracy."""
        most = max(self.accuracy)
        # what differs by rounding alone is equal, as in `win_shares`
        each = zip(self.values, self.accuracy, strict=True)
        return tuple(value for value, share in each if share > most - 1e-12)

    @property
    def low(self) -> float:
        """The smallest value that may be best."""
        return self.values[covering_range(self.wins)[0]]

    @property
    def high(self) -> float:
        """The largest value that may be best."""
        return self.values[covering_range(self.wins)[1]]

    @property
    def group(self) -> str:
        """The group of the corruption; none of the mean of all."""
        return group_of(self.corruption) if self.corruption in CORRUPTIONS else ""


@SECTIONS.register("best-values")
class BestValues(Section):
    """Which value of an option is best under each corruption."""

    title = "Which value is best under which corruption"
    order = 1355

    def applies(self) -> bool:
        """Whether models of a sweep were asked on corrupted samples."""
        return any(self._found)

    def tables(self) -> list[Table]:
        """One for each sweep, in one file."""
        return [self._table(sweep, best) for sweep, best in zip(self.report.sweeps, self._found, strict=True) if best]

    def words(self) -> list[str]:
        """What the interval is, and what it is not."""
        return [
            "Best is the value with the largest accuracy of those that were tried; rows are in its order. Its interval "
            "reaches over the values that are best in 95 % of 2,000 bootstrap draws of samples and of training seeds, "
            "with wins as the part in which the best one itself is. It is chosen on the corrupted samples that it is "
            "shown for: a description of these, and no accuracy to expect of a model chosen so.",
            *self.report.seed_words,
        ]

    @cached_property
    def _found(self) -> list[list[BestValue]]:
        shown = self.report.targets or self.report.sources
        rows = Evidence([one for one in self.report.evidence.where(probe="corrupt") if one.domain in shown])
        return [best_values(sweep, rows, self.report.seed) for sweep in self.report.sweeps]

    def _table(self, sweep: Sweep, found: Sequence[BestValue]) -> Table:
        several = len({one.domain for one in found}) > 1
        values = sorted({value for one in found for value in one.values})
        heads = [Heading(f"{sweep.name} {value:.3g}") for value in values]
        rows = []
        for one in found:
            known = dict(zip(one.values, one.accuracy, strict=True))
            accuracies = (Cell(f"{known[value]:.1%}" if value in known else "-") for value in values)
            name = (one.corruption, *([one.domain] if several else []))
            span = f"{one.low:.3g} to {one.high:.3g}"
            wins = one.wins[one.values.index(one.best)]
            told = " or ".join(f"{value:.3g}" for value in one.tied) if len(one.tied) < len(values) else "all alike"
            best = Cell(told, (span,), f"{told} ({span})", strong=True)
            rows.append(Row([Cell(name[0], name[1:]), best, Cell(f"{wins:.0%}"), *accuracies]))
        headings = [Heading("corruption"), Heading(f"best {sweep.name}"), Heading("wins"), *heads]
        models = _common(sweep)
        return Table("best-values", headings, rows, Records(_COLUMNS, list(_records(sweep, models, found))), models)


def best_values(sweep: Sweep, corrupted: Evidence, seed: int = 0) -> list[BestValue]:
    """By domain, the best value under each corruption, the lowest first, and at last under all of them.

    Empty if fewer than three models of the sweep were asked on the same samples and corruptions.
    """
    found: list[BestValue] = []
    for here in corrupted.by("domain"):
        by_model = {value: here.where(model=model) for value, model in sweep.models}
        by_model = {value: some for value, some in by_model.items() if len(some)}
        if len(by_model) < _FEWEST or not _alike(list(by_model.values())):
            continue
        names = next(iter(by_model.values())).distinct("corruption")
        values = tuple(by_model)
        each = {name: [some.where(corruption=name) for some in by_model.values()] for name in names}
        found += sorted((_best(name, rows, values, seed) for name, rows in each.items()), key=lambda one: one.best)
        found += [_best(_ALL, list(by_model.values()), values, seed)] if len(names) > 1 else []
    return found


def _best(name: str, rows: Sequence[Evidence], values: tuple[float, ...], seed: int) -> BestValue:
    each: list[Values] = [mean_by_sample(some) for some in rows]
    told = [np.stack([one.values for one in values_of.by_seed]) for values_of in each]
    domain = rows[0][0].domain
    shares = win_shares(told, each[0].by_seed[0].units, numpy_generator(seed, "best of a sweep", domain, name))
    accuracy = tuple(float(one.mean()) for one in told)
    return BestValue(domain, name, values, accuracy, tuple(map(float, shares)))


def _alike(several: Sequence[Evidence]) -> bool:
    """Whether all were asked on the same samples, corruptions and severities, in the same order."""
    first = several[0]
    ids = first[0].ids

    def same(other: Units) -> bool:
        return bool(other.names.equals(ids.names)) and np.array_equal(other.codes, ids.codes)

    def asked(rows: Evidence) -> list[tuple[object, object]]:
        seed = rows[0].fact(TRAIN_SEED)
        return [(one.fact("corruption"), one.fact("severity")) for one in rows if one.fact(TRAIN_SEED) == seed]

    return all(asked(rows) == asked(first) and all(same(one.ids) for one in rows) for rows in several)


def _common(sweep: Sweep) -> str:
    """What the names of a sweep's models have in common: "Adv-l2" of "Adv-l2, threat l2:1" and others."""
    split = [model.split(", ") for _, model in sweep.models]
    same = [parts[0] for parts in zip(*split, strict=False) if len(set(parts)) == 1]
    return f"{', '.join(same)}, {sweep.option}" if same else sweep.option


def _records(sweep: Sweep, models: str, found: Sequence[BestValue]) -> Iterator[list[object]]:
    for one in found:
        for value, accuracy, wins in zip(one.values, one.accuracy, one.wins, strict=True):
            told = [models, sweep.option, one.domain, one.corruption, one.group, value, accuracy]
            yield [*told, value == one.best, wins, one.low, one.high]
