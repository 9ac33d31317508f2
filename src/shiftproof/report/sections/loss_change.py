"""How much the loss can change within a threat: what gradients found, and what is proven."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shiftproof.evidence import Evidence
from shiftproof.report.estimates import estimate, repeats_in
from shiftproof.report.section import SECTIONS, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, number_cell
from shiftproof.theory.ood.bounds import OODBound, ood_bound
from shiftproof.types import Estimate

__all__ = ["LossChange", "LossChanges", "loss_changes_of"]


@dataclass(frozen=True)
class LossChange:
    """Of one model on one domain: by how much the loss changes within a threat, as found and as proven."""

    model: str
    domain: str
    title: str
    found: Estimate
    proven: Estimate | None
    norm: str = ""
    eps: float = 0.0
    dimensions: int = 0

    @property
    def threat(self) -> str:
        """The norm and size of the threat."""
        return self.title.split(", ")[-1]


@SECTIONS.register("loss-change")
class LossChanges(Section):
    """How much the loss can change within a threat: what gradients found, and what is proven."""

    title = "How much the loss can change"
    order = 1000

    def applies(self) -> bool:
        """Whether it was measured."""
        return len(self.report.evidence.where(probe="input-robustness")) > 0

    def tables(self) -> list[Table]:
        """A row for each model, domain and threat."""
        rows, records = [], []
        for one in loss_changes_of(self.report.evidence):
            proven = Cell("-") if one.proven is None else number_cell(one.proven)
            name = self.report.row_name(one.model, one.domain)
            cells = [name, Cell(one.threat), number_cell(one.found), proven, _nearby(one)]
            rows.append(Row(cells, tint=one.domain in self.report.targets))
            for metric, e in (("found, at least", one.found), ("proven, at most", one.proven)):
                if e is not None:
                    records.append([one.model, one.domain, one.threat, metric, e.value, e.low, e.high, e.n, ""])
            if one.dimensions:
                place = [one.model, one.domain, one.threat, "bound on distributions nearby"]
                records.append([*place, None, None, None, one.found.n, _bound(one).vacuous])
        heads = [Heading("threat"), Heading("found", ("at least",)), Heading("proven", ("at most",))]
        heads.append(Heading("distributions nearby", ("bound",)))
        columns = ["model", "domain", "threat", "metric", "value", "low", "high", "n", "vacuous"]
        return [Table("loss-change", [Heading("model, domain"), *heads], rows, Records(columns, records))]

    def words(self) -> list[str]:
        """What is a lower bound, and what an upper one."""
        return [
            "The mean over samples of the largest change of the cross-entropy within the threat: what gradients found "
            "is a lower bound, what interval arithmetic through the layers gives is an upper one.",
            *(_distribution_bound(one) for one in self._closest()),
        ]

    def _closest(self) -> list[LossChange]:
        """For each threat, the model that lacks fewest samples for a bound that says something."""
        known = [one for one in loss_changes_of(self.report.evidence) if one.dimensions]
        return [
            min((one for one in known if one.threat == threat), key=lambda one: _bound(one).orders_short)
            for threat in dict.fromkeys(one.threat for one in known)
        ]


def loss_changes_of(evidence: Evidence) -> list[LossChange]:
    """One for each model, domain and threat."""
    changes = []
    for part in evidence.where(probe="input-robustness").by("model", "setting"):
        for one in repeats_in(part):
            bound = one.values("loss_bound")
            proven = None if np.isnan(bound.mean) else _not_negative(estimate(bound, exact=False, limits=None))
            found = _not_negative(estimate(one.values("loss_change"), exact=False, limits=None))
            facts = {name: one.first.fact(name) for name in ("norm", "eps", "dimensions")}
            known = facts if all(facts.values()) and facts["norm"] in ("linf", "l2") else {}
            changes.append(LossChange(one.model, one.domain, one.first.title, found, proven, **known))
    return changes


def _not_negative(found: Estimate) -> Estimate:
    return replace(found, low=max(found.low, 0.0))


def _bound(one: LossChange) -> OODBound:
    """The bound for all distributions nearby, at best, on the loss cut off at 1: it changes no more than the loss."""
    if one.norm == "linf":
        # not even for a loss that did not change at all
        return ood_bound(0.0, one.eps / 2, one.found.n, one.dimensions)
    change = min(max(one.found.value, 1e-3), 0.5)
    return ood_bound(change, one.eps * change / 2, one.found.n, one.dimensions, "l2")


def _nearby(one: LossChange) -> Cell:
    """Whether the bound says nothing, and how many times more samples it would take; what it would say is not shown."""
    if not one.dimensions or not _bound(one).vacuous:
        return Cell("-")
    orders = f"10^{_bound(one).orders_short:,.0f} times too few samples"
    return Cell("vacuous", (orders,), f"vacuous ({orders})")


def _distribution_bound(one: LossChange) -> str:
    """What follows for all distributions nearby, at best: on images nothing does, and by how much."""
    return (
        f"What this says of distributions nearby, within {one.threat} and of {one.model}, which comes closest "
        "(theorems 1 and 2 of arXiv 2105.11144, corrected). They need a bounded loss, here the "
        f"cross-entropy cut off at 1, which changes by no more than the whole one: {_bound(one).sentence}"
    )
