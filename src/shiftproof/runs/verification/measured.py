"""What was measured without a certificate, measured again: clean answers of all samples, others of a few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftproof.attacks.victim import frozen
from shiftproof.models.outputs import logits_of
from shiftproof.perturbations.corruptions import constants_for, corrupt
from shiftproof.probes.attack import Attack
from shiftproof.probes.clean import Clean
from shiftproof.probes.corrupt import Corrupt
from shiftproof.probes.score import Score
from shiftproof.rng import numpy_generator
from shiftproof.runs.data import StudyData
from shiftproof.runs.engine import probe_seed
from shiftproof.runs.model_spec import Member
from shiftproof.runs.run import Run
from shiftproof.types import Finding, IntArray

__all__ = ["attacked_again", "clean_again", "corrupted_again"]

_TIE, _CORRUPTED_TIE = 1e-3, 1e-2
"""Of the usual lead: below this, another machine may round an answer to the other side, or a corrupted sample."""
_MOST, _ALLOWED = 8, 0.25
"""Samples of each attack and domain that are attacked again, and the part of them that rounding may make differ."""


def clean_again(run: Run, data: StudyData, models: Mapping[Member, nn.Module]) -> Iterator[Finding]:
    """Whether the models themselves give the clean answers that are recorded; where two logits tie, either."""
    if data.sources.is_regression:
        yield from _predicted_again(run, data, models)
        return
    for member, model in models.items():
        name = member.title
        for domain in data.measured_by(Clean()):
            same = {"model": member.name, "train_seed": member.seed, "domain": domain.name}
            for rows in run.evidence.where(probe="clean", **same):
                if rows["id"].tolist() != domain.ids.tolist():
                    continue
                logits = torch.cat([logits_of(model, domain.take(block)[0]).cpu() for block in domain.blocks])
                other = _answers_otherwise(logits, rows["prediction"], _TIE)
                if other.any():
                    sample = rows["id"][int(np.argmax(other))]
                    message = f"{name} on {domain.name}: the model itself answers {int(other.sum())} samples otherwise"
                    yield Finding("fail", "clean-differs", f"{message} than is recorded, such as {sample}")


def _predicted_again(run: Run, data: StudyData, models: Mapping[Member, nn.Module]) -> Iterator[Finding]:
    """Whether the models themselves predict the numbers that are recorded, but for rounding."""
    for member, model in models.items():
        for domain in data.measured_by(Score()):
            same = {"model": member.name, "train_seed": member.seed, "domain": domain.name}
            for rows in run.evidence.where(probe="score", **same):
                if rows["id"].tolist() != domain.ids.tolist():
                    continue
                outputs = [logits_of(model, domain.take(block)[0])[:, 0].double().cpu() for block in domain.blocks]
                now = torch.cat(outputs).numpy()
                apart = np.abs(now - rows["predicted"])
                # what is no number is not within it either
                if not (apart <= _TIE * max(float(now.std()), 1e-9)).all():
                    worst = int(np.argmax(np.nan_to_num(apart, nan=np.inf)))
                    message = f"{member.title} on {domain.name}: the model itself predicts {now[worst]:.4g}"
                    yield Finding(
                        "fail",
                        "score-differs",
                        f"{message} for {rows['id'][worst]}, and {rows['predicted'][worst]:.4g} is recorded",
                    )


def attacked_again(
    run: Run, data: StudyData, models: Mapping[Member, nn.Module], seed: int, part: int
) -> Iterator[Finding]:
    """Whether the attacks of a study, on a few samples with the same draws, overturn no more than is recorded.

    An attack on a sample depends on the seed and its id alone, so that it ends the same but for rounding.
    """
    probes = [probe for probe in run.study.all_probes if isinstance(probe, Attack)]
    tried = broken = 0
    for member, model in models.items():
        name = member.title
        for probe in probes:
            for domain in data.measured_by(probe):
                same = {"model": member.name, "train_seed": member.seed, "domain": domain.name}
                rows = run.evidence.where(probe="attack", attack=repr(probe), **same)
                if len(rows) != len(probe.budgets) or rows[0]["id"].tolist() != domain.ids.tolist():
                    continue
                order = numpy_generator(seed, "verify", "attack", name, domain.name).permutation(len(domain))
                few = np.sort(order[: min(part, _MOST)])
                with frozen(model):
                    again = probe.measure(
                        model, *domain.take(few), domain.ids[few], seed=probe_seed(run.study, run.record, member, probe)
                    )["prediction"]
                labels = domain.labels[few]
                stored = np.stack([one["prediction"][few] for one in rows], 1)
                robust = (stored == labels[:, None]) & (again != labels[:, None])
                wrong, tried = int(robust.any(1).sum()), tried + len(few)
                if wrong > max(1, _ALLOWED * len(few)):
                    broken += 1
                    message = f"{name} on {domain.name}, {probe.title}: the same attack overturns {wrong} of {len(few)}"
                    yield Finding("fail", "attack-differs", f"{message} samples that are recorded as right")
    if tried and not broken:
        yield Finding("pass", "attacked-again", f"{tried} samples attacked again end as recorded, but for rounding")


def corrupted_again(
    run: Run, data: StudyData, models: Mapping[Member, nn.Module], seed: int, part: int
) -> Iterator[Finding]:
    """Whether the models themselves answer `part` samples under every corruption as recorded; where logits tie, either.

    What a corruption does to a sample depends on the seed and its id alone. Of every setting other samples are taken.
    """
    probes = [probe.on(data.sources) for probe in run.study.all_probes if isinstance(probe, Corrupt)]
    asked = [
        (member, probe, domain, name, severity)
        for member in models
        for probe in probes
        for domain in data.measured_by(probe)
        for name, severity in probe.settings
    ]
    tried, broken = 0, False
    for member, probe, domain, name, severity in asked:
        rows = run.evidence.where(probe="corrupt", model=member.name, train_seed=member.seed, domain=domain.name)
        rows = rows.where(constants=constants_for(domain.shape, probe.constants) if domain.kind == "image" else "")
        recorded = rows.where(corruption=name, severity=severity)
        what = f"{member.title} on {domain.name}, {name} {severity}"
        if len(rows) and not len(recorded):
            broken = True
            yield Finding("fail", "rows-missing", f"{what}: the study asks for it, and it is not there")
        order = numpy_generator(seed, "verify", "corrupt", what).permutation(len(domain))
        few, drawn = np.sort(order[:part]), probe_seed(run.study, run.record, member, probe)
        for one in recorded:
            if one["id"].tolist() != domain.ids.tolist():
                continue
            ids = [str(sample) for sample in domain.ids[few]]
            inputs = corrupt(domain.take(few)[0], name, severity, seed=drawn, ids=ids, constants=probe.constants)
            with frozen(models[member]):
                logits = logits_of(models[member], inputs)
            other, tried = _answers_otherwise(logits, one["prediction"][few], _CORRUPTED_TIE), tried + len(few)
            if other.any():
                broken = True
                message = f"{what}: the model itself answers {int(other.sum())} of {len(few)} samples otherwise than"
                yield Finding("fail", "corrupt-differs", f"{message} is recorded, such as {ids[int(np.argmax(other))]}")
    if tried and not broken:
        yield Finding("pass", "corrupted-again", f"{tried} answers to samples corrupted again are those recorded")


def _answers_otherwise(logits: Tensor, recorded: IntArray, tie: float) -> NDArray[np.bool_]:
    """Which recorded answers are not those of the logits, whose lead is not so small that rounding decides."""
    values = logits.double().cpu()
    top = values.topk(min(2, values.shape[1]), 1).values
    lead = (top[:, 0] - top[:, -1]).numpy()
    return np.asarray((values.argmax(1).numpy() != recorded) & (lead > tie * np.median(lead)))
