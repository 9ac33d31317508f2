"""Whether what attacks say of a model can be trusted."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom
from torch import Tensor, nn

from shiftproof.attacks.attack import Attack, craft
from shiftproof.attacks.boundary_check import changed_by_rounding, jumps_at_boundary
from shiftproof.attacks.gradient_checks import classes_without_gradient, gradient_mode_gap, gradients_inside_forward
from shiftproof.attacks.inner_logits import inner_logits
from shiftproof.attacks.losses import LOSSES, LossName, evaluate
from shiftproof.attacks.pgd import PGD
from shiftproof.attacks.validity_attacks import STEPS, poor_attacks, strong_attacks
from shiftproof.attacks.victim import Base, Victim, frozen
from shiftproof.errors import ModelError, UsageError
from shiftproof.models.outputs import logits_of
from shiftproof.models.state import first_change, snapshot
from shiftproof.perturbations.threat import Threat
from shiftproof.rng import seeded_globals
from shiftproof.types import Finding

__all__ = ["validity_findings"]

Level = Literal["pass", "warn", "fail"]
_LEVELS: tuple[Level, ...] = ("pass", "warn", "fail")

_ROUNDING = 1e-3
"""How far two passes may be apart, relative to what would change an answer."""
_SUM = 1e-4
_FLAT = 1e-10
"""Below, a gradient is none, relative to the usual lead of a winner: it would take as many steps to change anything."""
_MISSED = 0.05
"""Of what a poor attack overturns, a good one may miss this part."""
_WARN, _FAIL = 0.05, 0.01
"""p-values below which a finding is a warning / a failure."""


def validity_findings(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    ids: Sequence[str] | NDArray[np.object_],
    threat: Threat | None,
    *,
    seed: int = 0,
    classes: int | None = None,
    attack: Attack | None = None,
) -> Iterator[Finding]:
    """Checks on a few dozen samples (N x ...), one finding each: outputs, randomness, state, gradients, the attack.

    Without a threat to pixels, as for texts, neither the range of inputs nor gradients are looked at, and no finding
    says that they are in order. `classes` is how many the data has, if the outputs should be counted; `attack` is
    looked at if there is one. The model is left as it was. What is found weak here makes a robust accuracy look better
    than it is.
    """
    if not 0 < len(inputs) == len(labels) == len(ids):
        raise UsageError(f"{len(inputs)} inputs, {len(labels)} labels and {len(ids)} ids do not match, or are none")
    if attack is not None:
        yield from _reach(attack)
    if classes is not None:
        yield _outputs_counted(model, inputs, classes)
    random = _random(model, inputs, seed)
    if threat is None:
        yield from (random, _stateful(model, inputs, seed, random.level != "pass"))
        with frozen(model):
            yield _softmax(logits_of(model, inputs))
        return
    ranged = _in_range(inputs)
    yield from (ranged, random, _stateful(model, inputs, seed, random.level != "pass"))
    comparable = {ranged.level, random.level} == {"pass"} and threat.eps > 0
    with frozen(model):
        found = list(_under_attack(Base(model), inputs, labels, ids, threat, seed, comparable, attack))
    yield from found


def _under_attack(
    victim: Base,
    inputs: Tensor,
    labels: Tensor,
    ids: Sequence[str] | NDArray[np.object_],
    threat: Threat,
    seed: int,
    comparable: bool,
    attack: Attack | None,
) -> Iterator[Finding]:
    """What concerns the model in eval mode, in which it is attacked."""
    yield from gradients_inside_forward(victim.model, inputs)
    yield _softmax(logits_of(victim.model, inputs))
    right = victim.answers(inputs) == labels
    if not bool(right.any()):
        yield Finding("warn", "gradient-masking", "the model has no sample right: there is nothing to attack")
        return
    names = np.asarray(ids, dtype=object)[right.cpu().numpy()]
    try:
        yield _zero_gradients(victim, inputs[right], labels[right])
    except ModelError as error:
        yield Finding("fail", "zero-gradients", str(error))
        comparable = False
    yield from jumps_at_boundary(victim, inputs[right], labels[right])
    yield from changed_by_rounding(victim, inputs[right], labels[right])
    if comparable:
        yield from _masking(victim, inputs[right], labels[right], names, threat, seed, attack)
    else:
        message = (
            "masked gradients were not looked for, which takes inputs in [0, 1], outputs with gradients and without "
            "chance, and an eps above 0"
        )
        yield Finding("warn", "gradient-masking", message)


def _reach(attack: Attack) -> Iterator[Finding]:
    findings = list(attack.findings())
    yield from findings
    if not findings:
        yield Finding("pass", "attack-reach", f"{attack.name} can reach the full size of its threat")


def _outputs_counted(model: nn.Module, inputs: Tensor, classes: int) -> Finding:
    with frozen(model):
        outputs = logits_of(model, inputs[:1]).shape[1]
    evidence = {"outputs": outputs, "classes": classes}
    if outputs == classes:
        return Finding("pass", "class-count", f"the model has {outputs} outputs, one a class", evidence)
    message = f"the model has {outputs} outputs, the data {classes} classes: every other output counts as a mistake"
    return Finding("warn" if outputs > classes else "fail", "class-count", message, evidence)


def _in_range(inputs: Tensor) -> Finding:
    low, high = float(inputs.min()), float(inputs.max())
    evidence = {"lowest": low, "highest": high}
    if low >= 0 and high <= 1:
        return Finding("pass", "input-range", "inputs are in [0, 1]", evidence)
    message = f"inputs run from {low:.3g} to {high:.3g}, but eps is stated for [0, 1]"
    return Finding("fail", "input-range", f"{message}; put the normalisation inside the model", evidence)


def _random(model: nn.Module, inputs: Tensor, seed: int) -> Finding:
    """Two passes from the same state, with other draws, in the mode in which the model is."""
    gap = _gap(*(_outputs(_alone(model), inputs, seed, draw) for draw in (0, 1)))
    evidence = {"difference": gap}
    if gap <= _ROUNDING:
        return Finding("pass", "random-model", "two passes over the same inputs agree", evidence)
    message = (
        f"two passes over the same inputs differ by {gap:.2g} of what would change an answer: an attack may win by luck"
    )
    return Finding("fail", "random-model", message + _mode(model), evidence)


def _stateful(model: nn.Module, inputs: Tensor, seed: int, random: bool) -> Finding:
    """Passes with the same draws: again, in reverse, in parts; and what they change in the model."""
    subject, half = _alone(model), inputs[: -(-len(inputs) // 2)]
    before = {name: value.clone() for name, value in subject.state_dict().items()}
    first = _outputs(subject, inputs, seed)
    held, again = snapshot(subject), _outputs(subject, inputs, seed)
    changed = [name for name, value in subject.state_dict().items() if not torch.equal(value, before[name])]
    if not changed and (counted := first_change(held, snapshot(subject))) is not None:
        changed.append(counted)
    subject.load_state_dict(before)
    gaps = {"a second pass over the same inputs gives other outputs": _gap(first, again)}
    if not random:
        # of a random model, draws move with the order and the number of inputs
        reverse = _outputs(_alone(model), inputs.flip(0), seed).flip(0)
        gaps["outputs depend on the order of inputs"] = _gap(first, reverse)
        together = _gap(first[: len(half)], _outputs(_alone(model), half, seed))
        gaps["outputs depend on which inputs come together"] = together
    with frozen(model):
        gaps["outputs with gradients on differ from those without"] = _gap(*gradient_mode_gap(model, inputs, seed))
    evidence = {"differences": list(gaps.values()), "changed": changed}
    parts = [what for what, gap in gaps.items() if gap > _ROUNDING]
    if changed:
        parts.append(f"a pass changes {', '.join(changed[:3])}{', ...' if len(changed) > 3 else ''}")
    if not parts:
        return Finding("pass", "stateful-model", "outputs depend on their own input alone", evidence)
    return Finding("fail", "stateful-model", "; ".join(parts) + _mode(model), evidence)


def _mode(model: nn.Module) -> str:
    training = any(module.training for module in model.modules())
    return "; it is in train mode, while attacks see it in eval mode: call model.eval()" if training else ""


def _alone(model: nn.Module) -> nn.Module:
    """A copy that may be changed; the model itself where it can't be copied."""
    try:
        return copy.deepcopy(model)
    except Exception:  # noqa: BLE001  (a model may hold anything)
        return model


def _outputs(model: nn.Module, inputs: Tensor, seed: int, draw: int = 0) -> Tensor:
    with seeded_globals(seed, "validity of attacks", draw):
        return logits_of(model, inputs).double()


def _gap(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to what would change the answer; infinite where one is not a number.

    That is an output's distance to the largest of its row with the usual lead of a winner, so that neither an offset
    nor a masked class hides anything. What float32 rounds is no difference.
    """
    apart = torch.where(one == other, 0.0, (one - other).abs())
    if one.shape[1] < 2:
        return float((apart / one.abs().max().clamp(min=1e-30)).max())
    top = one.topk(2, 1).values
    scale = one.amax(1, keepdim=True) - one + (top[:, 0] - top[:, 1]).nan_to_num(0, 0, 0).mean()
    rounded = 16 * 2.0**-24 * one.abs().nan_to_num(0, 0, 0) if bool((one == one.float()).all()) else 0.0
    gap = float(((apart - rounded).clamp(min=0) / scale.clamp(min=torch.finfo(torch.float64).tiny)).max())
    return gap if math.isfinite(gap) else math.inf


def _softmax(outputs: Tensor) -> Finding:
    sums, low, high = outputs.double().sum(1), float(outputs.min()), float(outputs.max())
    evidence = {"lowest": low, "highest": high, "farthest sum from 1": float((sums - 1).abs().max())}
    if low >= 0 and high <= 1 and evidence["farthest sum from 1"] <= _SUM:
        message = "outputs are probabilities, not logits: where the model is sure they have no slope"
        return Finding("fail", "softmax-outputs", f"{message}; take the softmax off", evidence)
    return Finding("pass", "softmax-outputs", "outputs are not probabilities", evidence)


def _zero_gradients(victim: Base, inputs: Tensor, labels: Tensor) -> Finding:
    flat = {}
    best = logits_of(victim.model, inputs).double().topk(2, 1).values
    least = _FLAT * float((best[:, 0] - best[:, 1]).nan_to_num(0, 0, 0).mean())
    with torch.inference_mode(False), torch.enable_grad():
        for name in ("ce", "margin"):
            gradient = evaluate(victim, inputs.detach().clone(), labels, LOSSES[name], "steepest").gradient
            flat[name] = gradient.flatten(1).abs().amax(1) <= least
    none, of_loss = int((flat["ce"] & flat["margin"]).sum()), int(flat["ce"].sum())
    share, evidence = none / len(inputs), {"samples": len(inputs), "without gradient": none, "of the loss": of_loss}
    message = f"{none} of {len(inputs)} samples that are right are without a gradient"
    level: Level = "pass" if not of_loss else "warn" if share < 0.1 else "fail"
    few, asked = classes_without_gradient(victim, inputs)
    evidence["without gradients of most classes"] = few
    if none:
        message += ": no step leads anywhere"
    elif of_loss:
        message += f", {of_loss} none of the cross-entropy: attack the margin"
    if few:
        level = "fail" if 2 * few >= asked else max(level, "warn", key=_LEVELS.index)
        message += (
            f"; of {asked} samples, {few} have most losing logits without a gradient of their own (clipped, cut off or "
            "made from others): return the logits from before that"
        )
    return Finding(level, "zero-gradients", message, evidence)


def _masking(
    victim: Base,
    inputs: Tensor,
    labels: Tensor,
    ids: NDArray[np.object_],
    threat: Threat,
    seed: int,
    given: Attack | None,
) -> Iterator[Finding]:
    """Poor attacks against a good one, and the good one without a bound."""

    def crafted(attack: Attack, target: Victim = victim) -> Tensor:
        radii = torch.full((len(inputs),), attack.threat.eps, device=inputs.device)
        return craft(target, inputs, labels, attack, radii=radii, ids=ids, seed=seed)

    def overturned(attack: Attack, target: Victim = victim) -> Tensor:
        return victim.answers(crafted(attack, target)) != labels

    climbs, poor = strong_attacks(threat), poor_attacks(threat)
    points = [crafted(one) for one in climbs]
    many = torch.stack([victim.answers(one) != labels for one in points]).any(0)
    # a model may know points by lying off the 8-bit grid, or at the edge of the ball
    whole = [inputs + torch.trunc((one - inputs) * 255) / 255 for one in points]
    on_grid = torch.stack([victim.answers(one) != labels for one in whole]).any(0)
    hidden = inner_logits(victim, inputs)
    if hidden is not None:
        poor["an attack on logits inside the model"] = climbs[1]
    rule = f"weak below a chance of {_WARN:g}, misleading below {_FAIL:g} or where over {_MISSED:.0%} withstand"
    evidence: dict[str, Any] = {"samples": len(inputs), "many steps": int(many.sum()), "rule": rule}
    levels: list[Level] = []
    sentences = [f"{STEPS} steps overturn {int(many.sum())} of {len(inputs)} samples that are right"]
    masks = {
        name: overturned(attack, hidden if hidden is not None and "inside" in name else victim)
        for name, attack in poor.items()
    }
    for name, found in {**masks, "rounding to 8 bits": on_grid}.items():
        total, alone = int(found.sum()), int((found & ~many).sum())
        # how likely so many misses are, if each of what the poor attack finds is missed once in twenty
        chance = float(binom.sf(alone - 1, total, _MISSED))
        levels.append("pass" if alone == 0 or chance >= _WARN else "warn" if chance >= _FAIL else "fail")
        evidence[name] = {"overturned": total, "missed by many steps": alone, "chance": chance}
        if alone:
            sentences.append(f"{name} overturns {alone} that these miss")
    # from any image to any other; a random start would be a mistake already, and say nothing of gradients
    free_threat = Threat("l2", math.sqrt(inputs[0].numel())) if threat.norm == "l2" else Threat("linf", 1.0)
    names: tuple[LossName, ...] = ("ce", "margin")
    straight = PGD(free_threat, STEPS, random_start=False, early_exit=True)
    free = torch.stack([overturned(replace(straight, loss=name)) for name in names]).any(0)
    # what was found within eps is within any larger ball
    standing = int((~(free | many)).sum())
    levels.append("fail" if standing > _MISSED * len(inputs) else "pass")
    evidence["unbounded"] = {"threat": str(free_threat), "still right": standing}
    if standing:
        sentences.append(f"{standing} withstand {free_threat}, within which any image can become any other")
    elif len(sentences) == 1:
        sentences.append("poorer attacks find none that these miss")
    level = max(levels, key=_LEVELS.index)
    verdict = {"pass": "gradients do not mislead", "warn": "gradients may mislead", "fail": "gradients mislead"}[level]
    yield Finding(level, "gradient-masking", f"{verdict}: {'; '.join(sentences)}", evidence)
    if isinstance(given, PGD) and given.threat == threat:
        missed = int((many & ~overturned(given)).sum())
        if missed > _MISSED * len(inputs):
            message = (
                f"the attack misses {missed} of {int(many.sum())} samples that {STEPS} steps of APGD overturn: what "
                "it leaves is not robust; use --attack ensemble, or more steps and --set attack.loss=margin"
            )
            yield Finding("warn", "weak-attack", message, {"missed": missed, "samples": len(inputs)})
