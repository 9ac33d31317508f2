"""Whether run.json, and what lies beside the weights of a run, say what follows from the study, its data and models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from shiftproof.domains import Domain
from shiftproof.errors import DataError, ModelError
from shiftproof.models import read_card
from shiftproof.models.behaviour import behaviour_of, difference
from shiftproof.models.files import fingerprint
from shiftproof.runs.copies import Copies, copies_of_training
from shiftproof.runs.data import StudyData, data_findings, parts_of_study
from shiftproof.runs.derived import Models as CardedModels
from shiftproof.runs.derived import derived_findings
from shiftproof.runs.identity import digest
from shiftproof.runs.model_spec import Member
from shiftproof.runs.models import hash_cards, model_file
from shiftproof.runs.names import to_plain_targets
from shiftproof.runs.record import is_sealed, protocol_of
from shiftproof.runs.run import Run
from shiftproof.runs.samples import known_of_samples
from shiftproof.runs.seen import seen_targets
from shiftproof.runs.sources import as_recorded
from shiftproof.types import Finding

__all__ = ["check_hashes", "check_run_json", "check_seal"]

Models = Mapping[Member, nn.Module]


def check_seal(run: Run) -> Iterator[Finding]:
    """Whether run.json is as it was written."""
    if "seal" not in run.record:
        message = "run.json has no seal: it was edited, or written by an earlier version"
        yield Finding("fail", "record-unsealed", f"{message}; the command that made the run seals it")
    elif not is_sealed(run.record):
        yield Finding("fail", "record-changed", "run.json was changed after it was written; its seal is broken")
    else:
        yield Finding("pass", "record-same", "run.json is as it was written")


def check_hashes(run: Run, data: StudyData, models: Models) -> Iterator[Finding]:
    """Whether data and weights are those that the run recorded, and the models answer as they did."""
    known = run.record["fingerprints"]
    weights = {member.key: fingerprint(model) for member, model in models.items()}
    if not known["weights"] and not run.evidence.rows:
        # stopped before all models were there
        weights = {}
    now = {"data": {domain.name: domain.fingerprint for domain in data.domains}, "weights": weights}
    for kind, hashes in now.items():
        changed = [name for name, value in hashes.items() if known[kind].get(name) != value]
        for name in changed:
            yield Finding(
                "fail", f"{kind}-differ", f"{name}: {kind} are not those that the run recorded; the hash differs"
            )
        if hashes and not changed:
            yield Finding("pass", f"{kind}-same", f"{kind} of {', '.join(hashes)} are those that the run recorded")
    yield from _beside_weights(run)
    for member, model in models.items():
        answers = run.record.get("behaviour", {}).get(member.key, {})
        if run.evidence.rows and not answers:
            message = f"run.json does not say how {member.title} answered when it was measured; it was edited"
            yield Finding("fail", "behaviour-missing", message)
        for domain in data.measured if answers else ():
            differs = difference(answers.get(domain.name, []), behaviour_of(model, domain))
            if differs:
                message = f"{member.title} does not answer as the model that was measured: on {domain.name}, {differs}"
                yield Finding("fail", "behaviour-differs", message)


def _beside_weights(run: Run) -> Iterator[Finding]:
    """Whether the records beside the weights are as they were written."""
    known, now = run.record["fingerprints"].get("cards"), hash_cards(run.folder)
    if known is None:
        # written with the first evidence of every run
        if run.evidence.rows:
            message = "run.json has no hashes of the records beside its models; it was edited"
            yield Finding("fail", "model-record-missing", message)
        return
    for name in sorted({*known, *now}):
        if name not in now:
            yield Finding("fail", "model-record-missing", f"{name} was written beside a model, and is not there")
        elif name not in known:
            yield Finding("fail", "model-unexpected", f"{name}: the run wrote no such file")
        elif known[name] != now[name]:
            yield Finding("fail", "model-record-differs", f"{name} was changed after it was written; the hash differs")


def check_run_json(run: Run, data: StudyData, models: Models) -> Iterator[Finding]:
    """Whether run.json says of the study and its data what follows from them."""
    due: dict[str, Any] = {
        "protocol": protocol_of(run.study),
        "sources": list(data.sources.names),
        "classes": list(data.sources.classes),
        "labels": {domain.name: domain.class_counts for domain in data.domains},
    }
    if data.trained_on or "trained_on" in run.record:
        due["trained_on"] = {name: list(names) for name, names in data.trained_on.items()}
    cards = {member: _card(run, member) for member in run.study.members}
    if run.record["selected"]:
        due["selected"] = {member.key: card.get("selection") for member, card in cards.items()}
    copies = copies_of_training(run.study, data)
    if "measured" in run.record:
        taken = [card for member, card in cards.items() if not run.study.models[member.name].train]
        due["parts"] = parts_of_study(run.study, data, taken)
        due["measured"] = {
            member.key: known_of_samples(data, run.study, card, copies) for member, card in cards.items()
        }
    differs = [name for name, value in due.items() if run.record.get(name) != value]
    known = run.record["config"]
    # a budget chooses the probes, and what was asked is what it chose from
    if run.study.budget is None and known.get("probes") != [probe.to_config() for probe in run.study.probes]:
        differs.append("config.probes")
    asked = {**run.study.to_config(), "target": to_plain_targets(sorted(run.study.targets))}
    told = {key: asked.get(key) for key in ("data", "target", "seeds", "sample_seed", "split", "limit", "budget")}
    differs += [f"config.{key}" for key, value in told.items() if known.get(key) != value]
    configs = known.get("models", {})
    if set(configs) != set(run.study.models):
        differs.append("config.models")
    for name, spec in run.study.models.items():
        if configs.get(name, {}).get("probes", []) != [probe.to_config() for probe in spec.probes]:
            differs.append(f"config.models.{name}.probes")
    for member, model in models.items():
        weights = configs.get(member.name, {}).get("weights")
        if weights is not None and weights != fingerprint(model):
            differs.append(f"config.models.{member.name}.weights")
    if run.record["hash"] != digest(known):
        differs.append("hash")
    if differs:
        message = f"run.json does not say what follows from its study and data: {', '.join(differs)}"
        yield Finding("fail", "record-differs", message)
    yield from _unexpected_models(run)
    yield from _left_out(run, data)
    # of what is not installed, or not trained yet, nothing can be derived
    if "measured" in run.record and set(models) == set(run.study.members) and not run.absent:
        yield from _findings(run, data, {member: (model, cards[member]) for member, model in models.items()}, copies)


def _card(run: Run, member: Member) -> dict[str, Any]:
    """The record beside the weights of a model; nothing if it can't be read."""
    try:
        return read_card(model_file(run.folder, run.study, member))
    except ModelError:
        return {}


def _left_out(run: Run, data: StudyData) -> Iterator[Finding]:
    """Whether samples that were left out because they can't be read really can't: otherwise they were picked."""
    for domain in data.domains:
        left_out = set(run.record.get("left_out", {}).get(domain.name, ()))
        good = [str(one) for place, one in enumerate(domain.ids) if str(one) in left_out and _can_read(domain, place)]
        if good:
            message = f"{len(good)} samples of {domain.name} were left out as unreadable and can be read, such as"
            yield Finding("fail", "left-out-readable", f"{message} {good[0]}")


def _can_read(domain: Domain, place: int) -> bool:
    try:
        domain.take([place])
    except DataError:
        return False
    return True


def _findings(run: Run, data: StudyData, models: CardedModels, copies: Copies) -> Iterator[Finding]:
    """Whether findings that can be derived again, and those of the examination, are all among the run's.

    By level and code alone: words may be those of another version.
    """
    due = [*data_findings(data), *derived_findings(run.study, data, models, copies)]
    for member, (_, card) in models.items():
        if not run.study.models[member.name].train:
            due += seen_targets(member.name, card, as_recorded(run.study.data), data.targets)
    due += [Finding(**one) for one in run.record.get("examined", ())]
    there = Counter((one["level"], one["code"]) for one in run.record["findings"])
    for finding in due:
        if not there[finding.level, finding.code]:
            message = f"run.json does not say what was found of its data and models: {finding.message}"
            yield Finding("fail", "findings-differ", message)
        there[finding.level, finding.code] -= 1


def _unexpected_models(run: Run) -> Iterator[Finding]:
    owned = {model_file(run.folder, run.study, member).stem for member in run.study.members}
    owned |= {f"{name}-pretrained" for name in owned}
    for path in sorted((run.folder / "models").glob("*.safetensors")):
        if path.stem not in owned:
            yield Finding("fail", "model-unexpected", f"models/{path.name}: the study has no such model")
