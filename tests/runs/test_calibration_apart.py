"""What adapts a model is not measured: an overlap is refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import shiftproof as sp
from shiftproof.errors import UsageError

pytestmark = pytest.mark.usefixtures("brief_examinations")

Call = Callable[..., tuple[int, str, str]]
OVERLAP = "among the calibration images"


def normed() -> nn.Module:
    """For python:test_calibration_apart:normed: a model with BatchNorm, of images of 3 x 8 x 8."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2)).eval()


MODEL = "python:test_calibration_apart:normed"
CERTIFY = "{name: certify, certifier: {name: adapted-smoothing, sigmas: [0.1], n: 50, calibration: 8}}"
NOISY = '{name: noisy, noise: "gaussian:0.1", adapted: true, calibration: 8}'


@pytest.mark.parametrize("probe", [CERTIFY, NOISY], ids=["certify", "noisy"])
@pytest.mark.parametrize("model", [f"{{model: '{MODEL}', train: false}}", "{model: {name: cnn, width: 4}}"])
def test_by_a_study(run: Call, images: Callable[..., Path], probe: str, model: str) -> None:
    """The target is apart; that a source is not is seen all the same."""
    images()
    text = f"data: folder:images\ntarget: clinic-b\nsplit: all\nmodels: {{m: {model}}}\nprobes: [clean, {probe}]\n"
    Path("s.yaml").write_text(text)
    code, _, err = run("run", "s.yaml", "--out", "r", "--workers", 1)
    assert (code, OVERLAP in err) == (1, True), err
    assert not Path("r").exists()


def test_by_verbs(run: Call, images: Callable[..., Path]) -> None:
    images()
    where = ["--data", "folder:images", "--model", MODEL, "--split", "all", "--workers", 1, "--out", "r"]
    adapted = ["--certifier", "adapted-smoothing", "--sigma", 0.1, "--set", "certifier.calibration=8"]
    for verb in (["certify"], ["audit", "--target", "clinic-b"]):
        code, _, err = run(*verb, *where, *adapted)
        assert (code, OVERLAP in err) == (1, True), err
        assert not Path("r").exists()


def test_in_python(images: Callable[..., Path]) -> None:
    sources, target = sp.load_domains(f"folder:{images()}").leave_out("clinic-b")
    adapted = sp.certifiers.AdaptedSmoothing((0.1,), 8, n=50)
    with pytest.raises(UsageError, match=OVERLAP):
        sp.audit(normed(), sources, target, certifiers=[adapted], split="all", corruptions="none", out="r")
    assert not Path("r").exists()


def test_what_is_not_asked_to_overlap_does_not(images: Callable[..., Path]) -> None:
    """Without a target the last domain is a source; of it, what adapts the model is left out."""
    domains = sp.load_domains(f"folder:{images()}")
    adapted = sp.certifiers.AdaptedSmoothing((0.1,), 8, n=50)
    run = sp.audit(normed(), domains, certifiers=[adapted], corruptions="none", threats=[], out="r", progress="off")
    assert {one.domain for one in run.evidence.where(probe="certify")} == set(domains.names)
