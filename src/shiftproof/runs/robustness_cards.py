"""Robustness cards of a run: one for each model, from its evidence and its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shiftproof.errors import UnknownName
from shiftproof.evidence import slug
from shiftproof.report import Report
from shiftproof.report.privacy import short_source
from shiftproof.report.robustness_card import CardFacts, card_text, report_of_model
from shiftproof.runs.spec import Study

__all__ = ["card_name", "robustness_cards"]


def card_name(model: str, several: bool) -> str:
    """The file of a model's card: card.md, or one name for each of several."""
    return f"card-{slug(model)}.md" if several else "card.md"


def robustness_cards(
    report: Report,
    study: Study,
    record: Mapping[str, Any],
    samples: Mapping[str, Mapping[str, Any]],
    model: str | None = None,
) -> dict[str, str]:
    """The cards of all models, or of one, by the name of their file."""
    names = [str(name) for name in report.evidence.distinct("model")]
    if model is not None and model not in names:
        raise UnknownName("model of the run:", model, names)
    return {
        card_name(name, len(names) > 1): card_text(
            report_of_model(report, name), name, _facts(report, study, record, samples, name)
        )
        for name in names
        if model in (None, name)
    }


def _facts(
    report: Report, study: Study, record: Mapping[str, Any], samples: Mapping[str, Mapping[str, Any]], model: str
) -> CardFacts:
    keys = [member.key for member in study.members if member.name == model]
    weights = {
        key: str(record["fingerprints"]["weights"][key]) for key in keys if key in record["fingerprints"]["weights"]
    }
    command = str(record.get("command") or "")
    measured = report.evidence.where(model=model).distinct("domain")
    packages = record["environment"]["packages"]
    reproduce = {
        **({"command": report.facts["run again"]} if command and "run again" in report.facts else {}),
        "run": f"{study.name}, hash {record['hash']}",
        **({"date": report.facts["date"]} if "date" in report.facts else {}),
        "model": str(report.facts.get(f"model {model}", "")),
        **{f"weights{f' of {key}' if len(weights) > 1 else ''}": value for key, value in weights.items()},
        **{f"data, {name}": str(value) for name, value in record["fingerprints"]["data"].items()},
        "measured by": str(report.facts.get("measured by", "")),
        "versions": ", ".join(
            [f"Python {record['environment']['python']}", *(f"{name} {one}" for name, one in packages.items())]
        ),
    }
    return CardFacts(
        data=short_source(study.data.source),
        task=_task(report, record),
        samples={name: _sample_facts(one, model) for name, one in samples.items() if name in measured},
        reproduce={name: value for name, value in reproduce.items() if value},
        seeds=len(keys) if study.seeds else 0,
    )


def _sample_facts(known: Mapping[str, Any], model: str) -> dict[str, Any]:
    seen = known["seen_in_training"].get(model, "unknown")
    chosen = "" if known["sampled"] == "all" else f", {known['sampled']} sample"
    return {"n": known["n"], "how": f"{known['split']}{chosen}", "seen": seen}


def _task(report: Report, record: Mapping[str, Any]) -> str:
    """What hubs call the task; runs of before do not say what their inputs are, but only texts have words to edit."""
    kind = record.get("kind") or ("text" if "edits" in report.evidence.distinct("norm") else "image")
    if not report.classes:
        return "sentence-similarity" if kind == "text" else "other"
    return f"{kind}-classification"
