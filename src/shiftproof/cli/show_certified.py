"""How certificates are shown on the command line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from shiftproof.cli.lines import show_compact, tell
from shiftproof.cli.show import outcomes_now, say, show_findings, show_json, show_table
from shiftproof.cli.summary import show_doubts, show_end, show_findings_short, show_samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shiftproof.evidence import Measurement
    from shiftproof.probes.certify import Certify
    from shiftproof.report.certified import Series
    from shiftproof.report.tables import Table
    from shiftproof.runs import Run

__all__ = ["show_certified", "show_claimed", "to_json"]


def show_certified(run: Run, require: Sequence[str] | None, verbose: bool) -> None:
    """A table of certified accuracy, what is guaranteed, and what no radius could exceed."""
    content = run.content()
    series = content.series
    say(f"\n{content.title}", "bold")
    show_samples(run)
    show_doubts(content)
    say("")
    show_compact(_table(series, content.radii_of(series)))
    say("")
    tell("guarantee", series[0].promise, "green")
    _show_caps(run)
    if verbose:
        _show_small_print(run, series)
        show_findings(content.findings)
    else:
        show_findings_short(content)
    show_end(run, require, takes_target=False)


def to_json(run: Run, require: Sequence[str] | None) -> None:
    """All figures; with several domains or sigmas the first one's are at the top, and all are in `results`."""
    from dataclasses import asdict

    content = run.content()
    series = content.series
    at = content.radii_of(series)
    measured = {(one.setting, one.domain): one for one in run.evidence.where(probe="certify")}
    every = [_figures(run, measured[one.setting, one.domain], one, at) for one in series]
    outcomes = [asdict(one) for one in outcomes_now(run, require)]
    show_json({**every[0], "results": every, "out": str(run.folder), "requirements": outcomes})


def _probes(run: Run) -> list[Certify]:
    from shiftproof.probes.certify import Certify

    return [probe for probe in run.study.all_probes if isinstance(probe, Certify)]


def _figures(run: Run, one: Measurement, series: Series, radii: tuple[float, ...]) -> dict[str, Any]:
    """All figures of a measurement, for --json."""
    from shiftproof.evidence import EvidenceStore
    from shiftproof.report.certified import figures

    probe = next(probe for probe in _probes(run) if one.setting in probe.settings)
    facts = run.samples[one.domain]
    return figures(series, radii) | {
        "images": len(one),
        "split": facts["split"],
        "sampled": one.fact("sampled"),
        "seen_in_training": one.seen_in_training,
        "n": one.fact("votes"),
        "seed": one.fact("seed"),
        "precision": one.fact("precision"),
        "forward_passes": one.fact("passes"),
        "seconds": float(one["seconds"].sum()),
        "certificates": str(EvidenceStore(run.folder / "evidence").path(one.model, one.domain, "certify", repr(probe))),
    }


def show_claimed(run: Run, radii: tuple[float, ...], json: bool) -> None:
    """What an unsound rule claims: it is shown as that, and is written nowhere as certified."""
    from shiftproof.evidence.certificates import certificates_in
    from shiftproof.evidence.metrics import claimed_accuracy

    claimed = list(run.evidence.where(probe="certify"))
    first = claimed[0]
    asked = radii or (0.0, float(first.fact("scale")))
    classes = len(run.record["classes"])
    figures = [
        [float(v) for v in claimed_accuracy(certificates_in(one, classes), one["label"], asked)] for one in claimed
    ]
    if json:
        every = [
            {"domain": one.domain, "certificate": one.title, **dict(zip(map(str, asked), values, strict=True))}
            for one, values in zip(claimed, figures, strict=True)
        ]
        show_json({"unsound": first.fact("unsound"), "claimed": every, "out": str(run.folder)})
    else:
        rows = [
            [one.domain, one.title, *(f"{value:.1%}" for value in values)]
            for one, values in zip(claimed, figures, strict=True)
        ]
        show_table(["domain", "rule", *(f"claimed at {radius:g}" for radius in asked)], rows)
        say(f"fail  {first.fact('guarantee')}")


def _show_caps(run: Run) -> None:
    """What no radius can exceed, whatever the model: that of unanimous votes, or of the outermost samples."""
    from shiftproof.certification.sampling.budget import Levels
    from shiftproof.perturbations.threat import size_text

    certifying = {setting: one for probe in _probes(run) for setting, one in probe.settings.items()}
    classes, caps = len(run.record["classes"]), {}
    for one in run.evidence.where(probe="certify"):
        certifier, levels = certifying[one.setting], one.fact("levels")
        name = f"{one.title}, alpha {one.fact('alpha'):g}"
        caps[name] = certifier.largest_radius(classes, None if levels is None else Levels(**levels))
    for series in {one.title: one for one in run.content().series if math.isfinite(one.cap)}.values():
        most = size_text(series.cap, series.norm)
        tell("limit", f"Under {series.title} no radius can exceed {most}, however many votes there are.")
    known = {name: cap for name, cap in caps.items() if math.isfinite(cap)}
    if known:
        limits = "; ".join(f"{cap:.4g} ({name})" for name, cap in known.items())
        tell("limit", f"With so many noise samples no radius can exceed {limits}, however sure the model is.")


def _radius(value: float) -> str:
    """Four digits, and of what is next to nothing that it is."""
    return f"{value:.4f}" if value == 0 or value >= 1e-3 else f"{value:.1e}"


def _table(series: list[Series], radii: tuple[float, ...]) -> Table:
    """A row for each domain and certificate: certified accuracy by radius, the mean radius, and what abstained."""
    from shiftproof.report.tables import Cell, Heading, Row, Table, percent_cell

    edits, several = all(one.counts_edits for one in series), len({one.name for one in series}) > 1
    heads = [series[0].radius_words(radius) if edits else f"r >= {radius:g}" for radius in radii]
    rows = []
    for one in series:
        mean = f"{_radius(one.mean_radius())}{' or more' if one.biased else ''}"
        right = f"{_radius(one.mean_radius('correct'))} if right"
        abstained = "not known" if one.abstained is None else f"{one.abstained:.1%}"
        name = Cell(f"{one.domain}, {one.name}" if several else one.domain, ("", one.note) if one.note else ())
        rows.append(
            Row([name, *(percent_cell(one.at(radius)) for radius in radii), Cell(mean, (right,)), Cell(abstained)])
        )
    names = [*heads, "mean edits" if edits else "mean radius", "abstained"]
    first = Heading("certified", () if several else (series[0].name,))
    return Table("certified", [first, *(Heading(name, tint=name in heads) for name in names)], rows)


def _show_small_print(run: Run, series: list[Series]) -> None:
    """The guarantee in full, what it cost, and what the intervals are."""
    from shiftproof.certification import TOGETHER

    # further alphas are read from the same votes
    counted = {(one.domain, one.title): one.fact("passes") for one in run.evidence.where(probe="certify")}
    tell(
        "in full",
        f"{series[0].guarantee} Certified accuracy is of all samples; r is {series[0].norm}, {series[0].units}.",
    )
    others = list(
        dict.fromkeys(f"{one.title} at alpha {one.alpha:g}" for one in series if one.heading != series[0].heading)
    )
    if others:
        tell("", f"Likewise for {', '.join(others)}.")
    random = any(one.alpha > 0 for one in series)
    if random:
        tell("together", TOGETHER)
    kind = "intervals of a bootstrap over groups" if series[0].grouped else "Clopper-Pearson intervals over samples"
    given = ", for this noise; the upper limit does not bound what more votes would certify" if random else ""
    tell("intervals", f"are 95 % {kind}{given}.")
    tell("cost", f"{sum(counted.values()):,} forward passes")
