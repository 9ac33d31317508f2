"""How far hidden states of a text move when its embeddings do, as evidence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
import torch
from annotated_types import Interval
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftproof.attacks.ascent import weaknesses
from shiftproof.attacks.embedded_steps import text_batches
from shiftproof.attacks.hidden_states import move_hidden_states
from shiftproof.attacks.victim import frozen
from shiftproof.domains import Domain
from shiftproof.errors import UsageError
from shiftproof.evidence import Column
from shiftproof.execution import Compute
from shiftproof.models.text import EmbeddedTexts
from shiftproof.perturbations.embedding import EmbeddingOption
from shiftproof.probes.blocks import Columns, ProbeTask, answers_of, measure_blocks
from shiftproof.probes.costs import trial_cost
from shiftproof.probes.probe import PROBES, Probe, Result
from shiftproof.rng import torch_generator
from shiftproof.types import Cost, Finding, Positive

__all__ = ["HiddenState"]

_TOGETHER = 64


@PROBES.register(
    "hidden-state",
    paper="Yi et al., OOD by adversarial training, 2021",
    cost="steps + 3 forward, steps + 1 backward a sample",
)
@dataclass(frozen=True)
class HiddenState(Probe):
    """How far the last hidden states of a text move when its embeddings are moved to that end: `{name: hidden-state}`.

    `steps` steps up the distance between hidden states before and after, from a random start, each of half of eps
    unless `step` says otherwise. Hidden states are those of all tokens in the last layer where the model offers them,
    else its representation of the text. `prediction` is what the model says there.
    """

    threat: EmbeddingOption = "embedding-linf:0.001"  # type: ignore[assignment]
    steps: Positive = 3
    step: Annotated[float, Interval(gt=0, lt=math.inf)] | None = None

    columns: ClassVar = (
        Column("hidden_change", "float", "The l2 norm of the change of all hidden states of a text."),
        Column("hidden_cosine", "float", "The cosine between the hidden states before and after."),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.threat.eps == 0:
            raise UsageError(f"eps is 0: within {self.threat.kind}:0 nothing changes; write a size above 0")

    @property
    def length(self) -> float:
        """Of a step."""
        return self.threat.eps / 2 if self.step is None else self.step

    @property
    def title(self) -> str:
        """What tells it from other probes of a study."""
        return f"hidden states, {self.threat}"

    def findings(self) -> Iterator[Finding]:
        """What weakens the attack."""
        return weaknesses(self.threat, self.steps, self.length, "steepest")

    def collect(self, task: ProbeTask) -> list[Result]:
        """Changes and cosines of all samples."""
        columns = measure_blocks(partial(self.measure, seed=task.seed), task, with_ids=True, most=_TOGETHER)
        facts = {"threat": self.threat.kind, "norm": self.threat.norm, "units": self.threat.units}
        return [Result(columns, {**facts, "eps": self.threat.eps})]

    def check(self, model: nn.Module, domain: Domain, calibration: object) -> None:
        """Refuse images, and a model that does not read text."""
        if domain.kind != "text":
            raise UsageError(f"the probe hidden-state moves embeddings of text, but {domain.name!r} holds images")
        EmbeddedTexts.of(model, domain.take(np.array([0]))[0])

    def passes(self, model: nn.Module) -> int:
        """Forward passes of one sample, at most."""
        return self.steps + 4

    def cost(self, model: nn.Module, domain: Domain, compute: Compute) -> Cost:
        """By a trial on a few samples."""
        return trial_cost(self.measure, model, domain, compute, self.passes(model), _TOGETHER)

    def measure(
        self, model: nn.Module, inputs: Tensor, labels: Tensor, ids: NDArray[np.object_], seed: int = 0
    ) -> Columns:
        """Of a block of samples; draws depend on the seed and a sample's id alone."""
        parts: list[Columns] = []
        with frozen(model):
            for rows in text_batches(EmbeddedTexts.of(model, inputs)):
                generators = [torch_generator(seed, "hidden state", str(ids[row])) for row in rows.tolist()]
                parts.append(self._measured(EmbeddedTexts.of(model, inputs[rows]), generators))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _measured(self, texts: EmbeddedTexts, generators: list[torch.Generator]) -> Columns:
        points = move_hidden_states(texts, self.threat, self.steps, self.length, generators)
        with torch.no_grad():
            before, after = (texts.hidden(at).double().flatten(1) for at in (texts.embed(), points))
            cosine = torch.nn.functional.cosine_similarity(before, after)
            return {
                "prediction": answers_of(texts.scores(points)),
                "hidden_change": (after - before).norm(dim=1).cpu().numpy(),
                "hidden_cosine": cosine.cpu().numpy(),
            }
