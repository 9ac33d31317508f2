"""What was measured without a certificate, measured again: clean answers of all samples, attacks on a few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import nn

from shiftproof.attacks.victim import frozen
from shiftproof.models.outputs import logits_of
from shiftproof.probes.attack import Attack
from shiftproof.probes.clean import Clean
from shiftproof.probes.score import Score
from shiftproof.rng import numpy_generator
from shiftproof.runs.data import StudyData
from shiftproof.runs.engine import probe_seed
from shiftproof.runs.run import Run
from shiftproof.runs.spec import Member
from shiftproof.types import Finding

__all__ = ["attacked_again", "clean_again"]

_TIE = 1e-3
"""Of the usual lead: below this, another machine may round an answer to the other side."""
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
                logits = torch.cat([logits_of(model, domain.take(block)[0]).double().cpu() for block in domain.blocks])
                top = logits.topk(min(2, logits.shape[1]), 1).values
                lead = (top[:, 0] - top[:, -1]).numpy()
                other = (logits.argmax(1).numpy() != rows["prediction"]) & (lead > _TIE * np.median(lead))
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
                if (apart > _TIE * max(float(now.std()), 1e-9)).any():
                    worst = int(np.argmax(apart))
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
    probes = [probe for probe in run.study.probes if isinstance(probe, Attack)]
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
