"""`sp.attack`: the boring and dangerous parts of an attack, done once for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftproof.attacks.contract import ATTACKS, Attack, as_attack
from shiftproof.attacks.result import AttackResult, Found
from shiftproof.attacks.victim import Base, Smoothed, Victim, frozen
from shiftproof.domains import Domain, Domains, one_domain
from shiftproof.errors import DataError, ModelError, UsageError
from shiftproof.execution import Compute, Mode, check_count, check_progress, progress_bar, ready, run_shards
from shiftproof.models.outputs import logits_of
from shiftproof.models.placement import device_of, on_device
from shiftproof.perturbations.noise import Noise, as_noise
from shiftproof.perturbations.noise.noise import check_kind
from shiftproof.perturbations.threat import Ball, Threat
from shiftproof.rng import checked_seed, torch_generator

__all__ = [
    "ATTACKS",
    "Attack",
    "AttackResult",
    "as_attack",
    "as_victim",
    "attack",
    "attack_samples",
    "check_eps",
    "check_size",
    "check_victim",
    "craft",
    "overturn",
]

Data = Domain | Domains | tuple[Tensor, Tensor]


class _Options(TypedDict, total=False):
    seed: int
    smoothed: Noise | None
    samples: int
    votes: int
    keep_inputs: bool
    workers: int
    device: str
    cluster: str | None
    progress: Mode
    label: str


@overload
def attack(
    model: nn.Module, data: Data, attack: Attack, *, eps: float | None = None, **options: Unpack[_Options]
) -> AttackResult: ...
@overload
def attack(
    model: nn.Module, data: Data, attack: Attack, *, eps: Sequence[float], **options: Unpack[_Options]
) -> list[AttackResult]: ...
def attack(
    model: nn.Module,
    data: Data,
    attack: Attack,
    *,
    eps: float | Sequence[float] | None = None,
    seed: int = 0,
    smoothed: Noise | None = None,
    samples: int = 16,
    votes: int = 1_000,
    keep_inputs: bool = True,
    workers: int = 1,
    device: str = "auto",
    cluster: str | None = None,
    progress: Mode = "auto",
    label: str = "attacking",
) -> AttackResult | list[AttackResult]:
    """Attack every sample of `data`, a domain or a pair (inputs, labels), within the attack's threat or other `eps`.

    Several `eps` give a list in their order; an example found within one is inside the larger ones too, so that
    accuracy never rises with eps. With `smoothed`, the victim is the majority vote under that noise: `samples` noisy
    copies are attacked, `votes` others judge. Without `keep_inputs` the results have no attacked inputs. The model is
    in eval mode for this, and as it was after it.

    >>> import shiftproof as sp, torch
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    >>> inputs, labels = torch.rand(3, 1, 2, 2), torch.tensor([0, 1, 0])
    >>> result = sp.attack(model, (inputs, labels), sp.attacks.PGD(sp.Threat("linf", 8 / 255)))
    >>> result.robust_accuracy <= result.clean_accuracy
    True
    """
    if not isinstance(attack, Attack):
        raise UsageError(f"the attack is {attack!r}; it should be an object such as PGD(Threat('linf', 8 / 255))")
    several = isinstance(eps, Sequence | np.ndarray)
    asked: list[float] = list(eps) if several else [attack.threat.eps if eps is None else eps]  # type: ignore[arg-type,list-item]
    if not asked:
        raise UsageError("there is no eps in the list")
    threats = [attack.threat.at(one) for one in asked]
    for threat in threats:
        check_eps(threat)
    compute = ready(Compute(device, workers=workers, cluster=cluster))
    check_progress(progress)
    check_count("samples", samples)
    check_count("votes", votes)
    domain, seed = one_domain(data, "attack"), checked_seed(seed)
    if isinstance(model, nn.Module):
        model = on_device(model, compute.place)
    victim = as_victim(model, smoothed, samples, votes, seed)
    domain.inputs.prepare()
    check_victim(victim, domain, attack)
    budgets = sorted({threat.eps for threat in threats})
    task, blocks = _Shards(victim, attack, domain, budgets, seed, keep_inputs), domain.blocks
    parts: dict[int, list[AttackResult]] = {}
    with compute.exact_products(), progress_bar(label, len(domain), progress) as bar:
        for shard, part in run_shards(task, range(len(blocks)), compute):
            parts[shard] = part
            bar.advance(len(blocks[shard]))
    joined = [
        AttackResult.joined([parts[shard][index] for shard in range(len(blocks))]) for index in range(len(budgets))
    ]
    results = [replace(joined[budgets.index(threat.eps)], domain=domain) for threat in threats]
    return results if several else results[0]


def attack_samples(
    victim: Victim,
    attack: Attack,
    inputs: Tensor,
    labels: Tensor,
    ids: NDArray[np.object_],
    budgets: Sequence[float],
    seed: int,
) -> list[AttackResult]:
    """One result a budget, from the smallest to the largest, for samples that were checked already."""
    clean = victim.answers(inputs)
    best = Found.nothing(inputs, clean)
    results = []
    for eps in budgets:
        # an attack that may stop early has no use for samples that a smaller budget has overturned
        rows = torch.nonzero((best.answers == labels) if attack.early_exit else (clean == labels)).flatten()
        if len(rows) and eps > 0:
            own, radii = labels[rows], torch.full((len(rows),), eps, device=inputs.device)
            found = overturn(victim, inputs[rows], own, attack, radii=radii, ids=ids[_array(rows)], seed=seed)
            # what was found within a smaller ball is not given up for a failure in this one
            taken = (found.answers != own) | (best.answers[rows] == own)
            best = best.improved(rows, found, taken)
        one = AttackResult(
            ids,
            best.inputs.cpu(),
            _array(labels),
            _array(clean),
            _array(best.answers),
            _array(best.distance),
            attack.threat.at(eps),
            victim.classifier,
            _array(best.parameters.double()) if best.parameters.shape[1] else None,
            attack.how(victim),
        )
        results.append(one)
    return results


def overturn(
    victim: Victim,
    inputs: Tensor,
    labels: Tensor,
    attack: Attack,
    *,
    radii: Tensor,
    ids: Sequence[str] | NDArray[np.object_],
    seed: int = 0,
) -> Found:
    """What an attack finds within each sample's own of the `radii` (N), and what the victim answers to it."""
    with _attackable(victim, inputs, labels, attack, radii, ids, seed) as generators:
        if not len(inputs):
            return Found.nothing(inputs, labels)
        return attack.overturn(victim, inputs, labels, radii.to(inputs), generators)


def craft(
    victim: Victim,
    inputs: Tensor,
    labels: Tensor,
    attack: Attack,
    *,
    radii: Tensor,
    ids: Sequence[str] | NDArray[np.object_],
    seed: int = 0,
) -> Tensor:
    """Attacked inputs (N x ...), each within its own of the `radii` (N), in [0, 1] if the attack clips.

    Draws depend on the seed and a sample's id alone. Nothing is judged: ask the victim for its answers.
    """
    with _attackable(victim, inputs, labels, attack, radii, ids, seed) as generators:
        return attack.run_in_batches(victim, inputs, labels, radii.to(inputs), generators)


@contextmanager
def _attackable(
    victim: Victim,
    inputs: Tensor,
    labels: Tensor,
    attack: Attack,
    radii: Tensor,
    ids: Sequence[str] | NDArray[np.object_],
    seed: int,
) -> Iterator[list[torch.Generator]]:
    """Check what is attacked; inside the block the model is frozen and gradients are on. Gives a generator a sample."""
    if not len(inputs) == len(labels) == len(radii) == len(ids):
        raise UsageError(f"{len(inputs)} inputs, {len(labels)} labels, {len(radii)} radii, {len(ids)} ids do not match")
    if not bool((radii.isfinite() & (radii >= 0)).all()):
        raise UsageError("a radius is negative or not finite; there is no ball to attack in")
    if attack.clip and len(inputs) and not 0 <= float(inputs.min()) <= float(inputs.max()) <= 1:
        raise UsageError("inputs leave [0, 1], to which the attack clips; use clip=False for inputs that are no images")
    with frozen(victim.model), torch.inference_mode(False), torch.enable_grad():
        yield [torch_generator(seed, "attack", str(one)) for one in ids]


def as_victim(model: nn.Module, smoothed: Noise | None, samples: int, votes: int, seed: int) -> Base | Smoothed:
    """The model as it is, or its majority vote under a noise."""
    if not isinstance(model, nn.Module):
        raise UsageError(f"the model is {type(model).__name__}; it should be a torch.nn.Module that returns logits")
    return Base(model) if smoothed is None else Smoothed(model, as_noise(smoothed), samples, votes, seed)


def check_victim(victim: Victim, domain: Domain, attack: Attack | None = None) -> None:
    """Refuse a network that does not take the samples, does not tell their classes apart, or is not for the attack."""
    if not len(domain):
        raise DataError(f"domain {domain.name!r} has no samples to attack")
    if isinstance(victim, Smoothed):
        check_kind(victim.noise, domain.kind, domain.name)
    if attack is not None:
        attack.check(victim, domain)
    with frozen(victim.model):
        classes = logits_of(victim.model, domain.take(np.array([0]))[0]).shape[1]
    if classes < len(domain.classes):
        hint = "; of a single logit z make two: torch.cat([-z, z], 1) / 2" if classes == 1 else ""
        raise ModelError(f"the model has {classes} outputs, but the data has {len(domain.classes)} classes{hint}")


def check_eps(threat: Ball) -> None:
    """Refuse an eps that was meant for pixels from 0 to 255: samples of a domain are in [0, 1]."""
    if threat.norm == "linf" and threat.eps > 1:
        raise UsageError(f"eps is {threat.eps:g}: images are in [0, 1]; did you mean {threat.eps:g}/255?")


def check_size(threat: Ball, shape: tuple[int, ...]) -> None:
    """Refuse a size of 0, one that was meant for pixels from 0 to 255, or one that turns any image into any other."""
    if threat.eps == 0:
        raise UsageError(f"eps is 0: within {threat.kind}:0 nothing changes; write a size above 0, such as linf:8/255")
    if not isinstance(threat, Threat):
        return
    check_eps(threat)
    diameter = float(threat.size(torch.ones(1, *shape)))  # on the CPU: a number
    if threat.eps >= diameter:
        guess = f"did you mean {threat.norm}:{threat.eps / 255:.3g}, in pixel values from 0 to 1?"
        message = f"any image is within {threat.norm} {diameter:.3g} of any other"
        raise UsageError(f"eps is {threat.eps:g}, but {message}; {guess}")


@dataclass(frozen=True, eq=False)
class _Shards:
    """The attack on a block of the domain, in a form that can be sent to another process."""

    victim: Victim
    attack: Attack
    domain: Domain
    budgets: Sequence[float]
    seed: int
    keep_inputs: bool

    def __call__(self, shard: int) -> Iterator[list[AttackResult]]:
        block = self.domain.blocks[shard]
        inputs, labels = self.domain.take(block)
        device = device_of(self.victim.model)
        results = attack_samples(
            self.victim,
            self.attack,
            inputs.to(device),
            labels.to(device),
            self.domain.ids[block],
            self.budgets,
            self.seed,
        )
        kept = None if self.keep_inputs else 0
        # as arrays: torch sends tensors through shared memory, of which a machine may have little
        yield [replace(one, inputs=one.inputs[:kept].numpy()) for one in results]  # type: ignore[arg-type]


def _array(values: Tensor) -> NDArray[Any]:
    return values.cpu().numpy()
