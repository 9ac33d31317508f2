"""How much the loss can change around an input: found by gradient, and bounded by proof (document 002)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from torch import Tensor, nn

from shiftproof.attacks.ascent import OVERSHOOT, attackable, climb, input_gradient, step_inside
from shiftproof.attacks.attack import Data, check_eps, check_victim
from shiftproof.attacks.rows import where_rows
from shiftproof.attacks.victim import Base, max_batch_size
from shiftproof.certification.bounds.interval import InputBall, layers_of, leads
from shiftproof.certification.bounds.representations import Parts, linear_parts
from shiftproof.domains import one_domain
from shiftproof.errors import ModelError, UsageError
from shiftproof.execution import Mode, progress_bar
from shiftproof.models.lipschitz import frozen
from shiftproof.models.outputs import logits_of
from shiftproof.perturbations.norms import BETWEEN_TWO, DUALS
from shiftproof.perturbations.threat import Threat, as_threat, project, random_start
from shiftproof.rng import checked_seed, torch_generator
from shiftproof.statistics import Sample, bootstrap_mean
from shiftproof.types import Estimate, FloatArray, IntArray

__all__ = ["InputRobustness", "Measured", "input_robustness"]

_ROUNDING = 1e-9
"""Of a logit, relative: far more than float64 loses."""
_CELLS = 1 << 23


@dataclass(frozen=True, eq=False)
class InputRobustness:
    """By how much the cross-entropy of each sample (N) can change within the threat: at least, and at most.

    `lower` is the largest change that gradient ascent and descent found; the truth may be larger. `upper` holds for
    every change of the input, in exact arithmetic, or is None; `reason` says by what, or why not. Changes may leave
    [0, 1], as in the definition. `units` are what a bootstrap draws: groups, or the samples.
    """

    threat: Threat
    ids: NDArray[np.object_]
    units: NDArray[np.object_]
    labels: IntArray
    loss: FloatArray
    lower: FloatArray
    upper: FloatArray | None
    reason: str

    @cached_property
    def found(self) -> Estimate:
        """The mean of `lower`, with a bootstrap interval."""
        return bootstrap_mean(Sample(self.lower, self.units))

    @cached_property
    def proven(self) -> Estimate | None:
        """The mean of `upper`, if there is one."""
        return None if self.upper is None else bootstrap_mean(Sample(self.upper, self.units))

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        most = "" if self.proven is None else f", at most {self.proven.value:.4g}"
        return (
            f"InputRobustness({self.threat}: the loss of {len(self)} samples changes by {self.found.value:.4g}{most})"
        )

    @classmethod
    def joined(cls, parts: Sequence[InputRobustness]) -> InputRobustness:
        """Of several blocks of samples, one after the other."""
        names = ["ids", "units", "labels", "loss", "lower", *(["upper"] if parts[0].upper is not None else [])]
        columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return replace(parts[0], **columns)


def input_robustness(
    model: nn.Module,
    data: Data,
    threat: Threat | str,
    *,
    steps: int = 20,
    seed: int = 0,
    progress: Mode = "auto",
) -> InputRobustness:
    """How much the loss of every sample of `data`, a domain or a pair (inputs, labels), can change within a threat.

    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    >>> result = input_robustness(model, (torch.rand(3, 1, 2, 2), torch.tensor([0, 1, 1])), "l2:0.1")
    >>> bool((result.lower <= result.upper).all())
    True
    """
    ball, domain = as_threat(threat), one_domain(data, "measure")
    check_eps(ball)
    domain.inputs.prepare()
    check_victim(Base(model), domain)
    measured = Measured(model, domain.shape, ball, steps, checked_seed(seed))
    parts = []
    with progress_bar("measuring", len(domain), progress) as bar:
        for block in domain.blocks:
            parts.append(measured.of(*domain.take(block), domain.ids[block], domain.units[block]))
            bar.advance(len(block))
    return InputRobustness.joined(parts)


@dataclass(frozen=True, eq=False)
class Measured:
    """A network and a threat, prepared once for blocks of samples: `Measured(model, shape, threat).of(x, y, ids)`."""

    model: nn.Module
    shape: tuple[int, ...]
    threat: Threat
    steps: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UsageError(f"steps is {self.steps}; it should be at least 1")

    def of(
        self,
        inputs: Tensor,
        labels: Tensor,
        ids: NDArray[np.object_],
        units: NDArray[np.object_] | None = None,
    ) -> InputRobustness:
        """Of a block of samples (N x ...); random starts depend on the seed and a sample's id alone."""
        inputs, labels = inputs.cpu(), labels.cpu()
        parts = [
            self._some(inputs[rows], labels[rows], ids[rows.numpy()])
            for rows in torch.split(torch.arange(len(inputs)), max_batch_size(self.shape))
        ]
        loss, lower = (np.concatenate([part[name] for part in parts]) for name in ("loss", "lower"))
        upper = np.concatenate([part["upper"] for part in parts]) if self._bounds else None
        own = ids if units is None else units
        return InputRobustness(self.threat, ids, own, labels.numpy(), loss, lower, upper, self.reason)

    @property
    def reason(self) -> str:
        """By what the upper estimate holds, or why there is none."""
        return "; ".join([*self._proofs] if self._bounds else [text for text in self._refusals if text])

    def _some(self, inputs: Tensor, labels: Tensor, ids: NDArray[np.object_]) -> dict[str, FloatArray]:
        loss = self._losses(inputs.double(), labels)
        lower = torch.zeros_like(loss)
        # the model's own device computes the gradients
        device = next((parameter.device for parameter in self.model.parameters()), inputs.device)
        here, own = inputs.to(device), labels.to(device)
        with attackable(self.model, here) as scores, torch.inference_mode(False), torch.enable_grad():
            drawn = [self._start(str(one)) for one in ids]
            for start in (torch.zeros_like(here), torch.cat(drawn).to(here)):
                for sign in (1.0, -1.0):
                    points = self._extreme(scores, here, own, start, sign)
                    change = project((points - here).double().cpu(), self.threat.norm, self.threat.eps)
                    lower = torch.maximum(lower, (self._losses(inputs.double() + change, labels) - loss).abs())
        columns = {"loss": loss.numpy(), "lower": lower.numpy()}
        return columns | ({"upper": self._upper(inputs, labels, loss).numpy()} if self._bounds else {})

    def _start(self, name: str) -> Tensor:
        generator = torch_generator(self.seed, "input robustness", name)
        return random_start((1, *self.shape), self.threat.norm, self.threat.eps, generator)

    def _extreme(
        self, scores: Callable[[Tensor], Tensor], inputs: Tensor, labels: Tensor, start: Tensor, sign: float
    ) -> Tensor:
        """The points (N x ...) of highest loss, or of lowest if `sign` is -1, on the way up or down."""
        norm, eps = self.threat.norm, self.threat.eps
        length = OVERSHOOT * eps / self.steps
        best, highest = inputs, torch.full((len(inputs),), -math.inf, dtype=torch.float64, device=inputs.device)

        def note(points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            nonlocal best, highest
            points = points.detach().requires_grad_()
            logits = scores(points)
            losses = sign * F.cross_entropy(logits, labels, reduction="none")
            higher = losses.detach() > highest
            best, highest = where_rows(higher, points.detach(), best), torch.maximum(highest, losses.detach())
            return points, logits, losses

        def evaluate(rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
            return input_gradient(*note(points), "steepest"), torch.zeros_like(rows, dtype=torch.bool)

        def move(rows: Tensor, points: Tensor, gradient: Tensor, number: int) -> Tensor:
            return step_inside(points, inputs, gradient, length, norm, eps, clip=False, done=number / self.steps)

        note(climb(inputs + start, self.steps, evaluate, move)[1])
        return best

    def _upper(self, inputs: Tensor, labels: Tensor, loss: Tensor) -> Tensor:
        low = high = None
        for bound in self._bounds:
            least, most = bound(inputs.double(), labels)
            low = least if low is None else torch.maximum(low, least)
            high = most if high is None else torch.minimum(high, most)
        assert low is not None
        assert high is not None
        size = torch.maximum(low.abs(), high.abs()).amax(1)
        change = torch.maximum(high.logsumexp(1) - loss, loss - low.logsumexp(1))
        return change.clamp(min=0) + _ROUNDING * (1 + size)

    def _losses(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """In float64, where the network can: what is found then compares with what is proven."""
        network = self._exact if self._exact is not None else self.model
        return F.cross_entropy(logits_of(network, inputs).double().cpu(), labels, reduction="none")

    @cached_property
    def _exact(self) -> nn.Module | None:
        """The network in float64, with weights that are computed at every pass stored, on the CPU."""
        try:
            network = copy.deepcopy(frozen(self.model, self.shape)).cpu().double().eval()
            logits_of(network, torch.zeros(1, *self.shape, dtype=torch.float64))
        except (ModelError, RuntimeError):
            return None
        return network

    @cached_property
    def _layers(self) -> list[nn.Module] | str:
        """Those that boxes can pass, or why they can't."""
        if self._exact is None:
            return "the network does not compute in float64"
        try:
            layers = layers_of(self._exact)
            # some layers have options with which they can't be passed
            leads(
                layers, self._ball(torch.zeros(1, *self.shape, dtype=torch.float64)), torch.zeros(1, dtype=torch.int64)
            )
        except ModelError as error:
            return str(error)
        return layers

    @cached_property
    def _parts(self) -> Parts | str:
        """A body of known constant with its head, or why there is none."""
        if self._exact is None:
            return "the network does not compute in float64"
        try:
            parts = linear_parts(self.model, self.shape, self.threat.norm)
        except ModelError as error:
            return str(error)
        return parts if math.isfinite(parts.constant) else "its Lipschitz constant is infinite"

    @property
    def _refusals(self) -> list[str]:
        return [text for text in (self._layers, self._parts) if isinstance(text, str)]

    @property
    def _proofs(self) -> list[str]:
        proofs = [] if isinstance(self._layers, str) else ["boxes through every layer"]
        if not isinstance(self._parts, str):
            proofs.append(f"the {self.threat.norm} constant of its layers, {self._parts.constant:.4g}")
        return proofs

    @property
    def _bounds(self) -> list[Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]]:
        """Functions of inputs and labels that bound by how much each logit is over that of the label (each N x K)."""
        known = ((self._by_boxes, self._layers), (self._by_constant, self._parts))
        return [bound for bound, basis in known if not isinstance(basis, str)]

    def _by_boxes(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        assert not isinstance(self._layers, str)
        last = self._layers[-1] if self._layers else None
        cells = math.prod(last.weight.shape) if isinstance(last, nn.Linear) else 1
        found = []
        with torch.no_grad():
            # the differences of rows are a matrix for each sample
            for rows in torch.split(torch.arange(len(inputs)), max(1, _CELLS // cells)):
                found.append(leads(self._layers, self._ball(inputs[rows]), labels[rows]))
        return torch.cat([low for low, _ in found]), torch.cat([high for _, high in found])

    def _by_constant(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        parts = self._parts
        assert not isinstance(parts, str)
        assert self._exact is not None
        logits = logits_of(self._exact, inputs)
        ahead = logits - logits.gather(1, labels[:, None])
        if parts.weight is None:
            slopes = torch.full_like(logits, BETWEEN_TWO[self.threat.norm])
        else:
            between = cdist(parts.weight, parts.weight, "minkowski", p=DUALS[self.threat.norm])
            slopes = torch.from_numpy(between[labels.numpy()])
        move = slopes * parts.constant * self.threat.eps
        move[torch.arange(len(labels)), labels] = 0.0
        return ahead - move, ahead + move

    def _ball(self, inputs: Tensor) -> InputBall:
        return InputBall(inputs, torch.ones_like(inputs[:1]), self.threat.norm, self.threat.eps)
