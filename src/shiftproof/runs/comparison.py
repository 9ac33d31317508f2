"""A comparison of runs: what differs between models on the same samples, as rows, JSON and a page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from shiftproof.execution import write_atomically, write_json
from shiftproof.report.cells import csv_text
from shiftproof.report.comparison import ModelPair, comparison_report
from shiftproof.report.comparison.report import ComparisonReport, count_verdicts
from shiftproof.report.comparison.tables import SAMPLE_COLUMNS, difference_table, line_figures, sample_rows
from shiftproof.report.junit import Case, junit_xml, outcome_cases
from shiftproof.report.page import render_page, write_report
from shiftproof.report.requirements import ComparedOutcome, Outcome
from shiftproof.report.tables import markdown_file
from shiftproof.runs.run import Run

__all__ = ["Comparison"]

_FORMATS = ("csv", "markdown", "latex", "svg", "png")
PAGE, SAMPLES, NUMBERS = "compare.html", "samples.csv", "compare.json"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Models of several runs against those of the first, the baseline; made by `sp.compare`.

    `pairs` hold a line for every measure and domain, `outcomes` what was required and whether it is met.
    """

    runs: tuple[Run, ...]
    pairs: tuple[ModelPair, ...]
    outcomes: tuple[ComparedOutcome | Outcome, ...] = ()

    def __repr__(self) -> str:
        lines = sum(len(pair.lines) for pair in self.pairs)
        domains = ", ".join(dict.fromkeys(name for pair in self.pairs for name in pair.domains))
        counts = [count_verdicts(pair) for pair in self.pairs]
        said = ", ".join(f"{sum(one[word] for one in counts)} {word}" for word in ("better", "worse", "undecided"))
        titles = "; ".join(pair.title for pair in self.pairs)
        return f"Comparison({titles}: {lines} differences on {domains}; {said})"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every number, one mapping for each pair of models, measure and domain: as in tables/compare.csv."""
        tables = [difference_table(pair).records for pair in self.pairs]
        return [dict(zip(one.columns, row, strict=True)) for one in tables for row in one.rows]

    @property
    def table(self) -> str:
        """The differences as a table in Markdown, with the samples that gained and lost counted."""
        return markdown_file([difference_table(pair) for pair in self.pairs])

    @property
    def left_out(self) -> list[str]:
        """What was measured in one run alone, or with other options, and was not compared."""
        return list(dict.fromkeys(text for pair in self.pairs for text in pair.left_out))

    @property
    def met(self) -> bool:
        """Whether everything that was required is."""
        return all(one.met for one in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        """All numbers, and the ids of all samples that gained or lost."""
        return {
            "baseline": str(self.runs[0].folder),
            "runs": [str(run.folder) for run in self.runs[1:]],
            "pairs": [
                {
                    "baseline_run": pair.baseline_run,
                    "baseline_model": pair.baseline_model,
                    "run": pair.run,
                    "model": pair.model,
                    **count_verdicts(pair),
                    "notes": list(pair.notes),
                    "left_out": list(pair.left_out),
                    "lines": [line_figures(line) for line in pair.lines],
                }
                for pair in self.pairs
            ],
            "requirements": [asdict(one) for one in self.outcomes],
        }

    def report(self, path: Path | str = PAGE) -> Path:
        """Write the page, which opens offline; returns where."""
        where = Path(path)
        write_atomically(where, render_page(self.content).encode())
        return where

    def export(self, folder: Path | str) -> list[Path]:
        """Write the page, tables, figures, all numbers (JSON) and every sample (CSV); returns paths, the page first."""
        where = Path(folder)
        page = self.report(where / PAGE)
        samples = [row for pair in self.pairs for row in sample_rows(pair)]
        write_atomically(where / "tables" / SAMPLES, csv_text([SAMPLE_COLUMNS, *samples]).encode())
        write_json(where / NUMBERS, self.to_json())
        written = write_report(self.content, where, _FORMATS)
        return [page, where / NUMBERS, where / "tables" / SAMPLES, *written]

    def junit(self) -> bytes:
        """Requirements and differences as tests for continuous integration.

        A requirement that is not met fails; a difference that is decided and for the worse is a warning, since nobody
        required that it is not, and so is what was left out.
        """
        cases = list(outcome_cases(self.outcomes))
        for pair in self.pairs:
            of = f"{pair.title}: " if len(self.pairs) > 1 else ""
            for line in pair.lines:
                found = line.difference.format("{:+.4f}".format)
                message = f"{line.verdict}: {found} on {line.domain} (n = {line.difference.n})"
                name = f"{of}{line.title}, {line.classifier}: {line.domain}"
                cases.append(Case("differences", name, "warn" if line.verdict == "worse" else "pass", message))
            cases += [Case("left out", f"{of}{text}", "warn", text) for text in pair.left_out]
        return junit_xml("compare", cases)

    @cached_property
    def content(self) -> ComparisonReport:
        """What the page says."""
        facts = {"baseline": _describe(self.runs[0])}
        for place, run in enumerate(self.runs[1:], 1):
            facts["other" if len(self.runs) == 2 else f"other {place}"] = _describe(run)
        titles = list(dict.fromkeys(pair.run for pair in self.pairs))
        about = (
            f"{len(self.pairs)} pair{'s' if len(self.pairs) > 1 else ''} of models, each measured on the same samples "
            "and by the same probes."
        )
        first = self.pairs[0].baseline_run
        title = f"Models of {first}" if titles == [first] else f"{', '.join(titles)} against {first}"
        return comparison_report(title, about, self.pairs, self.outcomes, facts, self.runs[0].study.seed)


def _describe(run: Run) -> str:
    """A run in one line."""
    samples = {domain: facts["n"] for domain, facts in run.samples.items()}
    counts = ", ".join(f"{domain} {count}" for domain, count in samples.items())
    return f"{run.folder.name}, hash {run.record['hash']}; {', '.join(run.study.models)}; samples: {counts}"
