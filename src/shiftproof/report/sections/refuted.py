"""What published rules claim that prove nothing, what of it was refuted, and what sound certificates say beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from shiftproof.certification.curves import NOTHING, round_radii
from shiftproof.certification.imported import alpha_text
from shiftproof.evidence import Evidence, Measurement
from shiftproof.perturbations.threat import size_text
from shiftproof.report.estimates import Repeats, estimate, repeats_in
from shiftproof.report.section import SECTIONS, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, percent_cell
from shiftproof.types import Estimate, FloatArray

__all__ = ["Refuted", "Rule", "rules_of"]

_COLUMNS = ("model", "domain", "rule", "unsound", "norm", "alpha", "metric", "radius", "value", "low", "high", "n")


@dataclass(frozen=True, eq=False)
class Rule:
    """What one rule says of one model on one domain; `attacked` are the same claims after the probe `refute`, if it
    was run on them.
    """

    said: Repeats
    attacked: Repeats | None

    @property
    def title(self) -> str:
        """The rule in a few words."""
        return str(self.said.fact("rule") or self.said.first.title)

    @property
    def unsound(self) -> str:
        """Which published rule without a proof it is; nothing of a certificate."""
        return str(self.said.fact("unsound") or "")

    @property
    def radius(self) -> str:
        """The norm of its radii and their units: rules that have these in common stand in one table."""
        return f"{self.said.fact('norm')} ({self.said.fact('units')})"

    @property
    def earned(self) -> FloatArray:
        """The radius of each sample of which a class is claimed that is right, `NOTHING` for the others."""
        return np.concatenate([_earned(one) for one in self.said.measurements])

    @property
    def mean_radius(self) -> float:
        """The mean over all samples, with 0 for those that are wrong or of which nothing is claimed."""
        return float(np.maximum(self.earned, 0.0).mean())

    @property
    def images(self) -> int:
        """How many samples there are."""
        return len(self.said.first)

    @property
    def tried(self) -> int | None:
        """How many claims were attacked, right or wrong, over all training seeds."""
        return None if self.attacked is None else int(self.attacked.column("claimed").sum())

    @property
    def refuted(self) -> int | None:
        """How many of these were refuted."""
        return None if self.attacked is None else int(self.attacked.column("refuted").sum())

    def at(self, radius: float) -> Estimate:
        """The share of samples that are claimed right within a radius, with its interval over samples."""
        values = self.said.values(lambda one: _earned(one) >= radius)
        return estimate(values, exact=not self.said.grouped)


@SECTIONS.register("refuted")
class Refuted(Section):
    """What published rules claim, what of it was refuted, and what sound certificates say beside it."""

    title = "What published rules claim, and what holds"
    order = 1210

    def applies(self) -> bool:
        """Whether claims were attacked, or there are some that prove nothing."""
        return bool(self._rules)

    def tables(self) -> list[Table]:
        """One for each norm, all in one file."""
        return [
            self._table(name, [one for one in self._rules if one.radius == name])
            for name in dict.fromkeys(one.radius for one in self._rules)
        ]

    def words(self) -> list[str]:
        """Which rows are no guarantee, and what a refutation says."""
        unsound = list(dict.fromkeys(one.title for one in self._rules if one.unsound))
        levels = {float(one.attacked.fact("level")) for one in self._rules if one.attacked is not None}
        words = []
        if unsound:
            words.append(
                f"No guarantee: {'; '.join(unsound)}. These rows are what a published rule claims, computed for "
                "comparison; the rule proves nothing, and nothing of it is counted as certified anywhere."
            )
        words.append(
            "Shares are of all samples: claimed, and right, within the radius. The other rows are certificates of the "
            "same model on the same samples, each of its own classifier."
        )
        if levels:
            words.append(
                "Claims, right or wrong, were attacked inside their radii, and count as refuted where fresh votes of "
                f"the classifier that is claimed about show another class (at level {max(levels):g} for each claim). "
                "Refuted by an attack; those that were not are not thereby true."
            )
        return words

    @property
    def _rules(self) -> list[Rule]:
        return rules_of(self.report.evidence)

    def _table(self, name: str, rules: Sequence[Rule]) -> Table:
        radii = self.report.radii or _radii(rules)
        rows: list[Row] = []
        records: list[list[object]] = []
        for one in rules:
            head = one.said
            what = f"no guarantee ({one.unsound})" if one.unsound else f"certificate, {alpha_text(_alpha(one))}"
            refuted = "not attacked" if one.tried is None else f"{one.refuted} of {one.tried}"
            cells = [
                self.report.row_name(head.model, head.domain, f"n = {one.images}"),
                Cell(one.title, (what,)),
                *(percent_cell(one.at(radius)) for radius in radii),
                Cell(f"{one.mean_radius:.3f}"),
                Cell(refuted),
            ]
            rows.append(Row(cells, tint=head.domain in self.report.targets, mark=not one.unsound))
            records += _records(one, radii)
        norm = str(rules[0].said.fact("norm"))
        headings = [
            Heading("model, domain"),
            Heading("rule"),
            *(
                Heading(size_text(radius, norm) if radius else "at all", ("claimed right",), f"r >= {radius:.4g}")
                for radius in radii
            ),
            Heading("mean radius", ("all samples",)),
            Heading("refuted", ("of claims attacked",)),
        ]
        return Table("refuted", headings, rows, Records(_COLUMNS, records), f"radius in {name}")


def rules_of(evidence: Evidence) -> list[Rule]:
    """By model and domain: published rules, then the certificates that stand beside them; none where there is neither a
    rule without a proof nor an attack on claims.
    """
    rules: list[Rule] = []
    for part in evidence.by("model", "domain"):
        attacked = {_key(one): one for one in repeats_in(part.where(probe="refute"))}
        certified = {_key(one): one for one in repeats_in(part.where(probe="certify"))}
        every = [Rule(certified.get(key, one), one) for key, one in attacked.items()]
        every += [Rule(one, None) for key, one in certified.items() if key not in attacked]
        if attacked or any(one.unsound for one in every):
            # what has another norm than all that is doubted here does not belong beside it
            doubted = {one.radius for one in every if one.unsound or one.attacked is not None}
            rules += sorted((one for one in every if one.radius in doubted), key=lambda one: not one.unsound)
    return rules


def _key(one: Repeats) -> str:
    """The certifier with its options, by which claims that were attacked are told from others; else its setting."""
    config, alpha = one.fact("certifier"), one.fact("alpha")
    return json.dumps([config or one.first.setting, alpha], sort_keys=True)


def _earned(one: Measurement) -> FloatArray:
    claimed = one["claimed"] if "claimed" in one else ~one["skipped"] & (one["prediction"] >= 0)
    earned: FloatArray = np.where(one["correct"] & claimed, one["radius"], NOTHING)
    return earned


def _alpha(one: Rule) -> float:
    return float(one.said.fact("alpha") or 0.0)


def _radii(rules: Sequence[Rule]) -> tuple[float, ...]:
    """A handful of round radii, and those that certifiers name as of interest, where anything is claimed."""
    farthest = max(float(np.quantile(one.earned, 0.98)) for one in rules)
    scales = {float(one.said.fact("scale") or 0.0) for one in rules}
    return tuple(sorted({*round_radii(max(farthest, 0.0)), *(one for one in scales if 0 < one <= 2 * farthest)}))


def _records(one: Rule, radii: Sequence[float]) -> Iterator[list[object]]:
    head = [one.said.model, one.said.domain, one.title, one.unsound, one.said.fact("norm"), _alpha(one)]
    for radius in radii:
        e = one.at(radius)
        yield [*head, "claimed right", radius, e.value, e.low, e.high, e.n]
    yield [*head, "mean radius claimed, all", "", one.mean_radius, "", "", one.images]
    if one.attacked is not None:
        yield [*head, "claims attacked", "", one.tried, "", "", one.images]
        yield [*head, "claims refuted", "", one.refuted, "", "", one.tried]
