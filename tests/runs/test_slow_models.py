"""What a study of slow models takes is counted, not tried."""

from __future__ import annotations

import pytest

from shiftproof.certification.certifiers.adapted_smoothing import AdaptedSmoothing
from shiftproof.runs import estimate, parse_study

STUDY = """
data: rotated-digits
target: angle=75
limit: 8
models:
  small:
    model: {name: cnn, width: 4}
    objective: {name: adversarial-training, threat: "l2:0.5", steps: 3}
    training: {steps: 10, batch: 16}
probes:
  - clean
  - {name: certify, certifier: {name: adapted-smoothing, sigmas: [0.1, 0.2], n: 50, n0: 10, rule: agreement}}
  - {name: attack, attack: {name: pgd, threat: "l2:0.5", steps: 5}}
"""


def stages(monkeypatch: pytest.MonkeyPatch, slow: float) -> dict[str, estimate.StageCost]:
    monkeypatch.setattr(estimate, "SLOW_SECONDS", slow)
    monkeypatch.setattr(estimate, "PROBE_SECONDS", 0.05)
    found = estimate.estimate_study(parse_study(STUDY, "study", "slow"))
    return {one.stage: one for one in found.costs}


def test_passes_of_a_slow_model_are_those_that_a_trial_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, counted = stages(monkeypatch, 60.0), stages(monkeypatch, 0.0)
    assert tried.keys() == counted.keys()
    for stage in tried:
        assert counted[stage].most_forward_passes == tried[stage].most_forward_passes, stage
        assert counted[stage].seconds > 0


def test_several_sigmas_vote_one_after_the_other_unless_one_is_fixed() -> None:
    several = {"sigmas": (0.1, 0.2, 0.3), "n": 100, "n0": 10}
    assert AdaptedSmoothing(**several).passes == 110
    assert AdaptedSmoothing(**several, rule="selection").passes == 330
    assert AdaptedSmoothing(**several, unsound="as-published").passes == 330
