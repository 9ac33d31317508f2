"""Accuracies that DomainBed's sweeps leave in results.jsonl, one line a checkpoint, as evidence: one row a trial."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shiftproof.errors import DataError, UsageError
from shiftproof.evidence import Column
from shiftproof.execution import parse_json
from shiftproof.runs.imported import ImportedProbe
from shiftproof.runs.imports.parts import ImportedFile, Part, make_part
from shiftproof.types import Finding

__all__ = ["read_sweep"]

COLUMNS = (
    Column("accuracy", "float", "Accuracy on the unseen domain, on its larger part."),
    Column("source_accuracy", "float", "Mean accuracy on held-out samples of the training domains, which selected."),
    Column("step", "int", "The training step that was selected."),
    Column("hparams_seed", "int", "The hyper-parameters that were selected."),
    Column("tried", "int", "How many hyper-parameters there were to select from."),
)
RULE = "training-domain validation"
NAMES = {
    "ColoredMNIST": ("+90%", "+80%", "-90%"),
    "RotatedMNIST": ("0", "15", "30", "45", "60", "75"),
    "VLCS": ("C", "L", "S", "V"),
    "PACS": ("A", "C", "P", "S"),
    "OfficeHome": ("A", "C", "P", "R"),
    "TerraIncognita": ("L100", "L38", "L43", "L46"),
    "DomainNet": ("clip", "info", "paint", "quick", "real", "sketch"),
}
"""What the domains of a data set are called there, by number."""


@dataclass(frozen=True)
class _Checkpoint:
    """One line: what was trained, and how accurate it was on both parts of every domain."""

    dataset: str
    algorithm: str
    trial: int
    hparams_seed: int
    target: int
    step: int
    accuracy: float
    source_accuracy: float
    adapts: bool


def read_sweep(files: Sequence[ImportedFile]) -> list[Part]:
    """The accuracy of every algorithm on every domain that training left out, one row a trial.

    Of all hyper-parameters and steps of a trial the one is taken whose accuracy on held-out samples of the training
    domains is best (Gulrajani and Lopez-Paz, In search of lost domain generalization, 2021, arXiv:2007.01434).
    """
    told = next((file.told for file in files if file.told.model or file.told.domain), None)
    if told is not None:
        raise UsageError("results of DomainBed name their algorithms and data sets; leave out --model and --domain")
    skipped, checkpoints = 0, []
    for file in files:
        for line in _lines(file):
            if len(line["args"]["test_envs"]) != 1:
                skipped += 1
                continue
            checkpoints.append(_checkpoint(file.name, line))
    if not checkpoints:
        raise DataError(f"{files[0].name}: no line leaves out exactly one domain, which is what is evaluated")
    groups: dict[tuple[str, int, str], list[_Checkpoint]] = {}
    for one in checkpoints:
        groups.setdefault((one.dataset, one.target, one.algorithm), []).append(one)
    return [_part(files, groups[key], skipped) for key in sorted(groups)]


def _part(files: Sequence[ImportedFile], checkpoints: Sequence[_Checkpoint], skipped: int) -> Part:
    """One algorithm on one unseen domain."""
    first = checkpoints[0]
    trials = sorted({one.trial for one in checkpoints})
    chosen = [
        max((one for one in checkpoints if one.trial == trial), key=lambda one: one.source_accuracy) for trial in trials
    ]
    values = {
        "id": [f"trial {trial}" for trial in trials],
        "accuracy": [one.accuracy for one in chosen],
        "source_accuracy": [one.source_accuracy for one in chosen],
        "step": [one.step for one in chosen],
        "hparams_seed": [one.hparams_seed for one in chosen],
        "tried": [len({one.hparams_seed for one in checkpoints if one.trial == trial}) for trial in trials],
    }
    count = len(files)
    name = files[0].name if count == 1 else f"{count} files of DomainBed"
    part = make_part(
        files[0],
        ImportedProbe("trials", rule=RULE),
        values,
        COLUMNS,
        findings=list(_findings(name, len(trials), first, skipped)),
        model=first.algorithm,
        domain=_domain(first.dataset, first.target),
        title=f"accuracy by trial, {RULE}",
        imported=name,
        dataset=first.dataset,
        seen_in_training="unknown" if any(one.adapts for one in checkpoints) else "no",
    )
    return replace(part, sha256=tuple(sorted(file.sha256 for file in files)))


def _findings(name: str, trials: int, first: _Checkpoint, skipped: int) -> Iterator[Finding]:
    message = (
        f"imported from {name}; the accuracies can't be checked, because neither models nor answers to samples are "
        "here, and no interval over samples can be given"
    )
    yield Finding("warn", "cant-be-checked", message)
    if trials < 3:
        message = f"only {trials} of each training, which says little about how much trainings differ"
        yield Finding("warn", "few-trials", message)
    if skipped:
        message = f"{skipped} lines that leave out several domains at once were not used"
        yield Finding("pass", "lines-left-out", message)


def _domain(dataset: str, number: int) -> str:
    names = NAMES.get(dataset, ())
    return f"{dataset} {names[number]}" if number < len(names) else f"{dataset} env{number}"


def _lines(file: ImportedFile) -> Iterator[Mapping[str, Any]]:
    for number, text in enumerate(file.content.decode("utf-8", "replace").splitlines(), 1):
        if not text.strip():
            continue
        try:
            line = parse_json(text)
            envs = line["args"]["test_envs"]
            if not isinstance(envs, list) or not all(isinstance(one, int) for one in envs):
                raise TypeError
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{file.name}, line {number}: not a line of results that DomainBed writes") from error
        yield line


def _checkpoint(name: str, line: Mapping[str, Any]) -> _Checkpoint:
    args, target = line["args"], line["args"]["test_envs"][0]
    held_out = {int(found[1]): key for key in line if (found := re.fullmatch(r"env(\d+)_out_acc", key))}
    try:
        sources = [float(line[key]) for number, key in held_out.items() if number != target]
        accuracy = float(line[f"env{target}_in_acc"])
        known = _Checkpoint(
            str(args["dataset"]),
            str(args["algorithm"]),
            int(args["trial_seed"]),
            int(args["hparams_seed"]),
            target,
            int(line["step"]),
            accuracy,
            float(np.mean(sources)) if sources else float("nan"),
            args.get("task", "domain_generalization") != "domain_generalization",
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{name}: a line of {args.get('algorithm')} lacks {error} or has something else there"
        ) from error
    if not sources or not all(0 <= one <= 1 for one in (accuracy, *sources)):
        raise DataError(
            f"{name}: accuracies of {known.algorithm} at step {known.step} are not between 0 and 1, or missing"
        )
    return known
