"""Requirements against a baseline: `certified@0.5 >= baseline-0.02 with 95%`."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.errors import UsageError
from shiftproof.report.comparison.lines import Line
from shiftproof.report.requirements import ComparedOutcome, Requirement, classifier_words, compared, holds

__all__ = ["judge_relative"]


def judge_relative(
    requirement: Requirement, lines: Sequence[Line], domains: Sequence[str], model: str = ""
) -> ComparedOutcome:
    """By the lines of one comparison; `domains` are those that count unless one is named: the worst of them does.

    `model` is what the outcome calls the comparison, where there are several.
    """
    meant = []
    for domain in [requirement.domain] if requirement.domain else domains:
        here = [one for one in lines if one.domain == domain and requirement.means(one.metric, one.norm, one.size)]
        if not here:
            there = ", ".join(dict.fromkeys(_named(one) for one in lines if one.domain == domain))
            known = f"; compared are {there}" if there else ""
            raise UsageError(f"{requirement.text!r}: nothing of the kind was compared on {domain}{known}")
        meant += here
    if requirement.metric == "certified" and not any(one.other.value or one.baseline.value for one in meant):
        where = ", ".join(dict.fromkeys(one.domain for one in meant))
        message = f"not one sample of {where} is certified within that radius, by neither model"
        raise UsageError(f"{requirement.text!r} says nothing: {message}; choose a smaller one")
    worst = min if requirement.sign == ">=" else max
    line = worst(meant, key=lambda one: compared(requirement, one.difference))
    return ComparedOutcome(
        requirement.text,
        holds(requirement, line.difference),
        line.other,
        line.baseline,
        line.difference,
        line.domain,
        classifier_words(line.classifier),
        requirement.judged,
        line.seen,
        model,
    )


def _named(line: Line) -> str:
    return f"{line.metric}@{line.norm}:{line.size:g}" if line.metric in ("attacked", "certified") else line.metric
