"""Calls from Python with arguments of the wrong kind: one sentence that quotes what was seen; nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import shiftproof as sp
from shiftproof.certification import CERTIFIERS, Certifier
from shiftproof.errors import StudyError, UsageError

VOTE = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=20)
STEP = sp.attacks.PGD(sp.Threat("linf", 0.1), steps=1)
STUDY = "data: colored-digits\nlimit: 4\nmodels: {m: {model: {name: mlp, width: 4}, training: {steps: 1}}}\n"


@pytest.fixture(scope="module")
def domain() -> sp.Domain:
    return sp.load_domains("colored-digits")["e=0.9"].subset(range(4))


@pytest.fixture(scope="module")
def model(domain: sp.Domain) -> nn.Module:
    return sp.build_model("mlp", sp.Domains("few", [domain]), width=4).eval()


def refused(call: Callable[..., Any], value: object, *arguments: Any, **options: Any) -> None:
    """What was seen is quoted; of long things, by its kind."""
    # options that become a study's are checked where every study is
    with pytest.raises((UsageError, StudyError)) as caught:
        call(*arguments, **{"progress": "off", **options})
    assert repr(value) in str(caught.value) or type(value).__name__ in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not Path("r").exists()


@pytest.mark.parametrize(
    ("name", "values"),
    {
        "threats": [3, [3], [None]],
        "certifiers": [5, "latent-margin", [5]],
        "corruptions": [5],
        "severities": ["x", 9, [1.5], ["a"], [True]],
        "also": [5],
        "limit": ["5", 2.5, True, 0],
        "budget": [5, True],
        "require": [5, [5]],
        "out": [5, ["r"]],
        "name": [5, ""],
        "seed": ["x", 1.5, -1, True],
        "sample_seed": ["x", 1.5],
        "split": [5],
        "workers": ["2", 0, 1.5, None, True],
        "progress": ["x", 5],
    }.items(),
)
def test_audit(model: nn.Module, domain: sp.Domain, name: str, values: list[Any]) -> None:
    for value in values:
        seen = value[0] if isinstance(value, list) and name in ("threats", "certifiers", "require") else value
        refused(sp.audit, seen, model, domain, **{"out": "r", name: value})


def test_certify_and_attack(model: nn.Module, domain: sp.Domain) -> None:
    wrong = {"workers": ["2", 1.5, None, True], "progress": ["x"], "seed": ["x"], "journal": [5], "calibration": [5]}
    for name, value in [(name, value) for name, values in wrong.items() for value in values]:
        refused(sp.certify, value, model, domain, VOTE, **{name: value})
        if name in ("workers", "progress", "seed"):
            refused(sp.attack, value, model, domain, STEP, **{name: value})
    for name in ("samples", "votes"):
        refused(sp.attack, "x", model, domain, STEP, **{name: "x"})
    for call, how in ((sp.certify, VOTE), (sp.attack, STEP)):
        for arguments in ((3, domain, how), (model, 3, how), (model, (1, 2), how), (model, domain, 3)):
            refused(call, next(one for one in arguments if isinstance(one, int | tuple)), *arguments)


def test_train(model: nn.Module, domain: sp.Domain) -> None:
    erm = sp.objectives.ERM()
    for arguments in ((3, domain, erm), (model, 3, erm), (model, domain, 3)):
        refused(sp.train, 3, *arguments)
    wrong: dict[str, list[Any]] = {
        "recipe": [5, {"steps": "x"}, {1: 2}],
        "checkpoint": [5],
        "device": [1.5],
        "seed": ["x"],
    }
    for name, value in [(name, value) for name, values in wrong.items() for value in values]:
        seen = value if not isinstance(value, dict) else "x" if "steps" in value else "1"
        refused(sp.train, seen, model, domain, erm, **{name: value})
    refused(sp.train, "x", model, domain, erm, progress="x")


def test_run_study_and_open_run() -> None:
    Path("s.yaml").write_text(STUDY)
    wrong: dict[str, list[Any]] = {
        "out": [5],
        "workers": ["2", None],
        "device": [5.5],
        "require": [5],
        "radii": ["x", [-1.0]],
    }
    for name, value in [(name, value) for name, values in wrong.items() for value in values]:
        refused(sp.run_study, value, "s.yaml", **{"out": "r", name: value})
    for study in (3, None, ["s.yaml"]):
        refused(sp.run_study, study, study)
    with pytest.raises(UsageError, match="is 3; it should be a path"):
        sp.open_run(3)  # type: ignore[arg-type]
    run = sp.run_study("s.yaml", "r", require=["clean>=0.0"], progress="off")
    assert [one.met for one in run.outcomes] == [True]


def test_a_plug_in_without_an_abstract_member_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"the certifier 'half' lacks 'certified_classifier', 'certify'"):

        @CERTIFIERS.register("half")
        @dataclass(frozen=True)
        class Half(Certifier):
            title = "half"

            def applies(self, job: object) -> str:
                return "always"

            def estimate(self, job: object) -> Any:
                return torch.tensor(0.0)

            def rederive(self, certificates: object) -> Any:
                return torch.tensor(0.0)

    assert "half" not in CERTIFIERS
