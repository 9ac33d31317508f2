"""The head of a robustness card: YAML that model hubs read, with a result for every domain and measure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from shiftproof.report.measures import Measure
from shiftproof.report.report import Report
from shiftproof.types import Estimate

__all__ = ["METRICS", "card_head"]

METRICS = {
    "clean": "accuracy",
    "attacked": "accuracy-under-attack",
    "corrupted": "accuracy-when-corrupted",
    "certified": "certified-accuracy",
}
"""Types of metrics by kind of measure: what is certified should not be taken for an accuracy, nor the other way."""
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_UNNAMED = ("given", "imported")
"""What records call data that has no name."""
_PLAIN = re.compile(r"[A-Za-z]+(-[A-Za-z]+)*")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


class _Dumper(yaml.SafeDumper):
    """Writes every text in quotes that is not a plain word, so that no reader of any YAML version takes it for more."""


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _quoted)


def card_head(report: Report, model: str, data: str, task: str) -> str:
    """The YAML between two lines of dashes; `data` is the name of the data set, `task` what a hub calls the task.

    Language and license are left to the reader, who alone knows them. A data set is only listed by a name that others
    can find it by.
    """
    known = data.removeprefix("hf:")
    on_a_hub = _HUB_NAME.fullmatch(known) is not None and data not in _UNNAMED
    results: list[dict[str, Any]] = [
        {
            "task": {"type": task},
            "dataset": {
                "type": known if on_a_hub else "local",
                "name": f"{data}, {domain} ({'unseen' if domain in report.targets else 'source'})",
                "config": domain,
            },
            "metrics": metrics,
        }
        for domain in (*report.targets, *report.sources)
        if (metrics := list(_metrics(report, domain)))
    ]
    types = dict.fromkeys(metric["type"] for result in results for metric in result["metrics"])
    head: dict[str, Any] = {
        "tags": ["robustness", "domain-generalization", "distribution-shift", "shiftproof", task],
        **({"datasets": [known]} if on_a_hub else {}),
        "metrics": list(types),
        "model-index": [{"name": model, "results": results}],
    }
    text = yaml.dump(head, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return f"---\n# yours to add: language, license\n{text}---\n"


def _metrics(report: Report, domain: str) -> Iterator[dict[str, Any]]:
    for row in report.measures.rows:
        if domain in row.accuracy:
            one = row.measure
            yield _metric(METRICS[one.kind], metric_name(one), row.accuracy[domain], _arguments(one))
    for score in report.scores.rows:
        if domain in score.scores:
            yield _metric(score.kind, score.kind.replace("_", " "), score.scores[domain], {})


def metric_name(one: Measure) -> str:
    """What a figure is of: what was done to the samples, which classifier, and whether it is guaranteed."""
    who = "the model itself" if one.classifier == "base" else f"{one.classifier} classifier"
    how = "imported" if one.imported else "guaranteed" if one.kind == "certified" else "measured"
    return f"{one.title} ({how}, {who})"


def _arguments(one: Measure) -> Mapping[str, Any]:
    known = {"classifier": one.classifier, "norm": one.norm, "size": one.size, "units": one.units, "alpha": one.alpha}
    # a size without a norm, and a chance of error of what is measured, say nothing
    return {name: value for name, value in known.items() if value != "" and (value or one.kind == "certified")}


def _metric(kind: str, name: str, e: Estimate, arguments: Mapping[str, Any]) -> dict[str, Any]:
    interval = {"interval": [float(e.low), float(e.high)], "level": float(e.level), "samples": int(e.n)}
    return {"type": kind, "value": float(e.value), "name": name, "args": {**arguments, **interval}}
