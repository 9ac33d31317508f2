"""The robustness card of a model: what was measured, what is guaranteed and what is not, as a README for a hub."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shiftproof.certification import TOGETHER
from shiftproof.certification.imported import alpha_text
from shiftproof.perturbations.edits import readable_radii
from shiftproof.perturbations.threat import size_text
from shiftproof.report.cells import markdown_text
from shiftproof.report.certified import Series, by_setting
from shiftproof.report.model_index import card_head
from shiftproof.report.report import Report
from shiftproof.report.sections.around import headline
from shiftproof.report.shift import refusal_sentences
from shiftproof.report.tables import Cell, Heading, Row, Table, markdown_file
from shiftproof.types import Finding

__all__ = ["CardFacts", "card_text", "report_of_model"]

NORMS = {
    "l2": "changes measured in l2",
    "linf": "changes measured in linf",
    "l1": "changes measured in l1",
    "edits": "edits of words",
}
_SHOWN_ALWAYS = ("l2", "linf", "l1")


@dataclass(frozen=True)
class CardFacts:
    """What a card says besides evidence: names, and how to make it again.

    Args:
        data: The name of the data set.
        task: What a hub calls the task: image-classification, text-classification, ...
        samples: By domain, how many samples were measured, of which part, and whether they were trained on.
        reproduce: Names with values: command, hash, weights, versions.
        seeds: With how many seeds the model was trained; 0 if it was taken as it is.
    """

    data: str
    task: str
    samples: Mapping[str, Mapping[str, Any]]
    reproduce: Mapping[str, str]
    seeds: int = 0


def report_of_model(report: Report, model: str) -> Report:
    """The same report of one model alone: its evidence, its findings, and nothing of the others."""
    evidence = report.evidence.where(model=model)
    measured = evidence.distinct("domain")
    return replace(
        report,
        evidence=evidence,
        # not every model has all sources
        sources=tuple(name for name in report.sources if name in measured),
        targets=tuple(name for name in report.targets if name in measured),
        models={model: report.models.get(model, "")},
        notes=[one for one in report.notes if _about(one, report.models) in ("", model)],
        outcomes=[one for one in report.outcomes if getattr(one, "model", "") in ("", model)],
        claims=(),
        published=(),
        sweeps=(),
    )


def _about(finding: Finding, models: Mapping[str, str]) -> str:
    """The model that a note is about, by the name at its beginning; the longest, where one name begins another."""
    named = [name for name in models if finding.message.startswith(f"{name}: ")]
    return max(named, key=len, default="")


def card_text(report: Report, model: str, facts: CardFacts) -> str:
    """The card of one model, of a report about it alone (`report_of_model`)."""
    parts = [
        f"# Robustness of {markdown_text(model)}",
        *([markdown_text(report.models[model])] if report.models.get(model) else []),
        *_findings(report),
        *_intended(report, facts),
        *_measured(report),
        *_guaranteed(report),
        "## What is not promised",
        "\n".join(f"- {markdown_text(one)}" for one in _limits(report, facts)),
        "## How to reproduce it",
        "\n".join(f"- {markdown_text(name)}: {_code(value)}" for name, value in facts.reproduce.items()),
    ]
    return card_head(report, model, facts.data, facts.task) + "\n" + "\n\n".join(parts) + "\n"


def _findings(report: Report) -> Iterator[str]:
    """What failed and what is suspicious, before any figure; how many checks passed."""
    told = [(one.level, one.message) for one in report.findings if one.level != "pass"]
    passed = len(report.findings) - len(told)
    unmet = [("not met", str(one)) for one in report.outcomes if not one.met]
    if unmet or told:
        yield "## Read this first"
        yield "\n".join(f"- **{word}**: {markdown_text(sentence)}" for word, sentence in [*unmet, *told])
    if passed:
        yield f"{passed} other check{'s' if passed > 1 else ''} passed."


def _intended(report: Report, facts: CardFacts) -> Iterator[str]:
    yield "## Intended domain"
    sources, targets = (", ".join(map(markdown_text, some)) for some in (report.sources, report.targets))
    data = f"Data: {markdown_text(facts.data)}."
    if not report.sources:
        yield f"{data} Judged on {targets}."
    elif report.targets and report.trained_here:
        yield f"{data} Trained on {sources}. Meant for, and judged on, {targets}, which training left out."
    elif report.targets:
        yield f"{data} Meant for, and judged on, {targets}; compared with the sources {sources}."
    else:
        trained = f"Trained on {sources}." if report.trained_here else f"Measured on {sources}."
        yield f"{data} {trained} No domain was left out: nothing is known of a domain that it was not trained on."
    rows = []
    for domain in (*report.targets, *report.sources):
        known = facts.samples.get(domain, {})
        cells = [domain, report.role_of(domain), f"{known.get('n', 0):,}", known.get("how", ""), known.get("seen", "")]
        rows.append(Row([Cell(str(cell)) for cell in cells]))
    heads = ["domain", "role", "samples measured", "of which part", "seen in training"]
    yield _markdown(Table("domains", [Heading(head) for head in heads], rows))


def _measured(report: Report) -> Iterator[str]:
    yield "## What was measured"
    if report.measures.rows:
        table = report.measures.to_table({})
        yield _markdown(replace(table, rows=[replace(row, group="") for row in table.rows]))
        note = report.measures.note or "Every row is of the same samples"
        yield (
            f"Right, of all samples, with 95 % intervals. {markdown_text(note)}. Attacked accuracy is an upper bound: "
            f"a better attack may leave less. {report.measured_on}"
        )
    if report.scores.rows:
        yield _markdown(report.scores.to_table("scores", {}))
    if not report.measures.rows and not report.scores.rows:
        yield "Nothing on samples as they are, attacked or corrupted."
    yield from report.seed_words


def _guaranteed(report: Report) -> Iterator[str]:
    yield "## What is guaranteed"
    if not report.series:
        yield "Nothing: no certificate was computed."
        return
    for series in by_setting(report.series):
        first = series[0]
        yield f"### {markdown_text(first.heading)}"
        yield f"> {markdown_text(first.guarantee)}"
        yield _markdown(_certified_table(report, series))
    if any(one.alpha and not one.imported for one in report.series):
        yield TOGETHER
    yield from _around(report)


def _certified_table(report: Report, series: Sequence[Series]) -> Table:
    radii = report.radii_of(series)
    heads = ["certified accuracy", *(series[0].radius_words(radius) for radius in radii), "mean radius", "abstains"]
    rows = []
    for one in sorted(series, key=lambda one: one.domain not in report.targets):
        note = f", {one.note}" if one.note else ""
        mean = f"{one.mean_radius():.3f}{', biased low' if one.biased else ''}"
        cells = [
            f"{one.domain} ({report.role_of(one.domain)}, n = {one.images}{note})",
            *(one.at(radius).format() for radius in radii),
            mean,
            "-" if one.abstained is None else f"{one.abstained:.1%}",
        ]
        rows.append(Row([Cell(cell) for cell in cells]))
    return Table("certified", [Heading(head) for head in heads], rows)


def _around(report: Report) -> Iterator[str]:
    """What certificates of single samples add up to on every distribution near a domain."""
    held = sorted((one for one in report.around if not one.refusal), key=lambda one: one.domain not in report.targets)
    lines = []
    for setting in dict.fromkeys(one.series.setting for one in held):
        for one in (one for one in held if one.series.setting == setting):
            if sentence := headline([one]):
                lines.append(f"- {markdown_text(f'{one.title}, {one.domain}: {sentence}')}.")
    refused = [f"- {markdown_text(sentence)}." for sentence in refusal_sentences(report.around)]
    if lines or refused:
        yield "### Around each domain"
        yield "\n".join([*lines, *refused])
        yield from (f"> {markdown_text(text)}" for text in dict.fromkeys(one.first.guarantee for one in held))


def _limits(report: Report, facts: CardFacts) -> Iterator[str]:
    """What a reader might take for promised and is not."""
    for series in by_setting(report.series):
        first = series[0]
        most = max(float(readable_radii(one.earned, one.norm).max(initial=0.0)) for one in series)
        reach = f"no sample has more than {size_text(rounded_up(most), first.norm)}" if most > 0 else "none has any"
        yield f"{first.name}: nothing is guaranteed beyond a sample's own radius; {reach}."
        if first.classifier != "base":
            yield (
                f"{first.name}: the guarantee holds for the {first.classifier} classifier, not for the model as it is. "
                f"Whoever wants the guarantee has to deploy the {first.classifier} classifier."
            )
        if first.imported:
            yield f"{first.name}: these certificates were imported ({alpha_text(first.alpha)}) and can't be checked."
    norms = {one.norm for one in report.series}
    others = [NORMS[name] for name in _SHOWN_ALWAYS if name not in norms]
    if report.series and "edits" not in norms:
        yield (
            f"{', '.join(others) or 'deformations'}: not covered by a certificate here, beyond what follows from the "
            "norms above. The same goes for rotations, blur, fog and everything else that moves an input farther."
        )
    unsound = [one for one in report.evidence.where(probe="certify") if one.fact("unsound")]
    for title in dict.fromkeys(one.title for one in unsound):
        yield f"{title}: a published rule that proves nothing was computed for comparison; none of it is certified."
    yield (
        f"Other domains than {', '.join((*report.targets, *report.sources))}: what was measured on these, or is "
        "guaranteed around them, says nothing of one that lies farther away."
    )
    for seen in ("yes", "unknown"):
        names = [domain for domain, known in facts.samples.items() if known.get("seen") == seen]
        if names and seen == "yes":
            yield f"Figures on {', '.join(names)} rest on samples that the model was trained on: they may be too good."
        elif names:
            yield f"Whether it was trained on samples of {', '.join(names)} is not known: figures may be too good."
    if any(row.measure.kind == "attacked" for row in report.measures.rows):
        yield "Accuracy under attack is what these attacks left, not what every attack leaves."
    if len(report.corrupted):
        yield "Corruptions that were not measured, or are stronger, may leave less."
    if facts.seeds > 1:
        yield f"Figures are means over {facts.seeds} trainings; a single file of weights may do better or worse."


def rounded_up(value: float) -> float:
    """A number above 0 with four digits, none below it: what no radius exceeds must not shrink.

    >>> rounded_up(0.67541), rounded_up(3.0)
    (0.6755, 3.0)
    """
    step = 10.0 ** (math.floor(math.log10(value)) - 3)
    return float(f"{math.ceil(round(value / step, 6)) * step:.4g}")


def _code(value: str) -> str:
    """A text as code: what it holds of back quotes is closed in by more of them."""
    fence = "`" * (1 + max((len(run) for run in _ticks(value)), default=0))
    pad = " " if value.startswith("`") or value.endswith("`") else ""
    return f"{fence}{pad}{' '.join(value.split())}{pad}{fence}"


def _ticks(value: str) -> list[str]:
    return [part for part in "".join("`" if char == "`" else " " for char in value).split() if part]


def _markdown(table: Table) -> str:
    return markdown_file([table]).strip()
