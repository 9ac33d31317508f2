"""A verifier that tries to break certificates: it passes what holds and finds what was planted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import nn

import shiftproof as sp
from shiftproof.certification.certificates import Votes, certified_rows
from shiftproof.certification.certifier import Memory
from shiftproof.cli.main import main
from shiftproof.evidence import Evidence, EvidenceStore, Measurement
from shiftproof.evidence.order import order_findings
from shiftproof.runs.verification import Case, verify
from shiftproof.runs.verify import verify_folder
from shiftproof.testing import LinearOracle
from shiftproof.types import Finding

pytestmark = pytest.mark.usefixtures("brief_examinations")

STUDY = """
data: colored-digits
source: e=0.1
target: e=0.9
limit: 200
models:
  plain: {model: {name: mlp, width: 32, gray: true}, objective: {name: gaussian, sigma: 0.25}, training: {steps: 60}}
  cayley: {model: {name: mlp-cayley, width: 32}, objective: erm, training: {steps: 60}}
probes:
  - clean
  - {name: attack, attack: {threat: "l2:0.1", steps: 3}}
  - {name: attack, attack: {threat: "l2:0.1", steps: 3}, smoothed: "gaussian:0.25", votes: 200}
  - {name: certify, certifier: {noise: "gaussian:0.25", n: 400}}
  - {name: certify, certifier: {noise: "gaussian:0.25", n: 2000, stop: "within:0.9", skip_wrong: true}}
"""
CAYLEY = """
data: colored-digits
target: e=0.9
models:
  cayley: {model: {name: mlp-cayley, width: 32}, objective: erm, training: {steps: 60}}
probes:
  - clean
  - {name: attack, attack: {threat: "l2:0.1", steps: 3}}
  - {name: certify, certifier: {name: latent-margin}}
  - {name: certify, certifier: {name: lipschitz-margin, norm: linf}}
  - {name: certify, certifier: {name: median-smoothing, samples: 200}}
"""


def _run(text: str, folder: Path) -> Path:
    from shiftproof.runs import parse_study, run_study

    torch.set_num_threads(1)
    run_study(parse_study(text, "study", "planted"), folder, progress="off")
    return folder


@pytest.fixture(scope="module")
def voted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _run(STUDY, tmp_path_factory.mktemp("voted") / "run")


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _run(CAYLEY, tmp_path_factory.mktemp("exact") / "run")


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[Path], Path]:
    return lambda run: Path(shutil.copytree(run, tmp_path / "copy"))


def codes(folder: Path, level: str = "fail", part: int = 4) -> set[str]:
    return {one.code for one in verify_folder(folder, seed=1, part=part) if one.level == level}


def plant(
    run: Path,
    change: Callable[[dict[str, list[object]]], None],
    title: str,
    *,
    model: str = "cayley",
    domain: str = "e=0.9",
    seal: bool = True,
) -> None:
    """Change the rows of one file of evidence, and seal it again as if nothing had happened."""
    store = EvidenceStore(run / "evidence")
    for file in store.files():
        every = list(file.evidence)
        for first in [
            one
            for one in every
            if (one.title, one.model, one.domain) == (title, model, domain) and "Within" not in one.setting
        ]:
            # facts as columns too, so that a change can be to either
            facts = {name: [value] * len(first) for name, value in first.facts.items()}
            columns = first.table.to_pydict() | facts
            change(columns)
            table = pa.table({name: columns[name] for name in first.table.column_names}, schema=first.table.schema)
            if seal:
                changed = Measurement({name: columns[name][0] for name in facts}, table)
                others = [changed if one is first else one for one in every]
                store.finish(file.path, Evidence(others), file.identity)
            else:
                notes = pa.parquet.read_table(file.path).schema.metadata
                pa.parquet.write_table(table.replace_schema_metadata(notes), file.path)
            return
    raise AssertionError("no such evidence")


# what holds passes


def test_a_run_that_holds_passes(voted: Path, exact: Path) -> None:
    for run in (voted, exact):
        findings = list(verify_folder(run, seed=1, part=8))
        assert not [one.message for one in findings if one.level == "fail"]
        seen = {one.code for one in findings}
        assert {"record", "asked-again", "attacked", "weights-same", "evidence-same", "sandwich-holds"} <= seen


def test_the_same_seed_says_the_same(voted: Path) -> None:
    once, again = (list(verify_folder(voted, seed=3, part=4)) for _ in range(2))
    assert once == again


# what was planted is found


def inflated(columns: dict[str, list]) -> None:
    row = int(np.argmax(columns["radius"]))
    columns["radius"][row] *= 1.01


def edited_votes(columns: dict[str, list]) -> None:
    """All votes for the class, with the radius, bounds and levels that follow: a record that is right in itself."""
    n = columns["n"][0]
    certifier = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=400)
    columns["count"] = [n] * len(columns["n"])
    columns["runner_up_count"] = [0] * len(columns["n"])
    columns["radius"] = [certifier.largest_radius(2)] * len(columns["n"])
    columns["prediction"] = columns["chosen"] = columns["label"]
    columns["label_count"] = columns["count"]


def not_a_number(columns: dict[str, list]) -> None:
    columns["radius"][0] = float("nan")


def unpaid(columns: dict[str, list]) -> None:
    columns["off_grid"] = [-0.1] * len(columns["off_grid"])
    columns["radius"] = [radius + 0.1 if radius else 0.0 for radius in columns["radius"]]


def tenfold(columns: dict[str, list]) -> None:
    for name in ("n", "count", "runner_up_count"):
        columns[name] = [10 * value for value in columns[name]]


def called_certain(columns: dict[str, list]) -> None:
    columns["alpha"] = [0.0] * len(columns["alpha"])


def called_right(columns: dict[str, list]) -> None:
    columns["correct"] = [True] * len(columns["correct"])


def other_labels(columns: dict[str, list]) -> None:
    columns["label"] = columns["prediction"]
    columns["correct"] = [True] * len(columns["correct"])


def other_setting(columns: dict[str, list]) -> None:
    columns["setting"] = ["Certify(mine)"] * len(columns["setting"])


def votes_for_the_label(columns: dict[str, list]) -> None:
    columns["label_count"] = columns["n"]


def a_few_more(columns: dict[str, list]) -> None:
    """Five votes more for every class that has them to gain, with the radius that follows."""
    certifier = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=400)
    for row, count in enumerate(columns["count"]):
        gained = min(count + 5, 400)
        columns["count"][row], columns["runner_up_count"][row] = gained, 400 - gained
        same = columns["chosen"][row] == columns["label"][row]
        columns["label_count"][row] = gained if same else 400 - gained
    rows = certified_rows(
        certifier.noise,
        Votes(
            np.array(columns["prediction"]),
            np.zeros(len(columns["n"]), bool),
            np.array(columns["count"]),
            np.array(columns["runner_up"]),
            np.array(columns["runner_up_count"]),
            np.array(columns["n"]),
            np.array(columns["off_grid"]),
        ),
        400,
        certifier.levels(2),
    )
    columns["radius"] = np.where(np.array(columns["prediction"]) >= 0, rows["radius"], 0.0).tolist()


def nobody(columns: dict[str, list]) -> None:
    columns["prediction"][0] = -1


def impossible(columns: dict[str, list]) -> None:
    columns["count"][0], columns["runner_up_count"][0] = columns["n"][0], 5


def other_alpha(columns: dict[str, list]) -> None:
    columns["alpha"] = [0.01] * len(columns["alpha"])


def other_levels(columns: dict[str, list]) -> None:
    columns["levels"] = [{**columns["levels"][0], "final": 0.01}]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (inflated, "radius-inflated"),
        (edited_votes, "votes-differ"),
        (impossible, "impossible-counts"),
        (nobody, "no-class"),
        (not_a_number, "impossible-radius"),
        (unpaid, "off-grid-differs"),
        (tenfold, "impossible-counts"),
        (called_certain, "alpha-differs"),
        (called_right, "correct-differs"),
        (other_labels, "labels-differ"),
        (other_setting, "evidence-unexpected"),
        (votes_for_the_label, "impossible-counts"),
        (a_few_more, "replay-differs"),
        (other_alpha, "alpha-differs"),
        (other_levels, "levels-differ"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_changed_record_of_votes_is_found(
    voted: Path, copy: Callable[[Path], Path], change: Callable[[dict[str, list[object]]], None], code: str
) -> None:
    run = copy(voted)
    plant(run, change, "gaussian 0.25", model="plain")
    assert code in codes(run)


def test_one_edited_image_among_hundreds_is_found(voted: Path, copy: Callable[[Path], Path]) -> None:
    """Not every row is asked again, but those that look worst at a glance are."""
    run = copy(voted)

    def raise_one(columns: dict[str, list]) -> None:
        row = int(np.argmin([count if count > 200 else 999 for count in columns["count"]]))
        most = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=400).largest_radius(2)
        columns["count"][row], columns["runner_up_count"][row], columns["radius"][row] = 400, 0, most
        columns["prediction"][row] = columns["chosen"][row] = columns["label"][row]
        columns["correct"][row], columns["label_count"][row] = True, 400

    plant(run, raise_one, "gaussian 0.25", model="plain")
    assert "votes-differ" in codes(run)


def test_what_was_changed_without_a_seal_is_found(voted: Path, copy: Callable[[Path], Path]) -> None:
    run = copy(voted)

    def shrink(columns: dict[str, list]) -> None:
        columns["radius"] = [radius * 0.9 for radius in columns["radius"]]

    plant(run, shrink, "gaussian 0.25", seal=False)
    assert codes(run) == {"evidence-changed"}


@pytest.mark.parametrize("title", ["latent margin", "lipschitz margin linf", "median representation 0.1"])
def test_a_radius_without_votes_is_computed_again(exact: Path, copy: Callable[[Path], Path], title: str) -> None:
    run = copy(exact)

    def double(columns: dict[str, list]) -> None:
        if title.startswith("median"):
            columns["count"] = [max(k // 8, 1) if k else 0 for k in columns["count"]]
            certifier = sp.certifiers.MedianSmoothing(samples=200)
            from shiftproof.certification.bounds.ranks import order_radius

            radii = order_radius(np.array(columns["count"]), 200, 0.1, certifier.share(32))
            columns["radius"] = np.where(np.array(columns["radius"]) > 0, radii, 0.0).tolist()
        else:
            columns["margin"] = [2 * margin for margin in columns["margin"]]
            columns["radius"] = [2 * radius for radius in columns["radius"]]

    plant(run, double, title)
    assert "recomputed-otherwise" in codes(run, part=8)


def test_an_unsound_rule_fails_and_is_never_shown_as_certified(tmp_path: Path) -> None:
    text = "limit: 60" + CAYLEY.split("  - {name: certify")[0]
    text += (
        "  - {name: certify, certifier: {name: median-smoothing, samples: 200, radius: 0.05, unsound: as-published}}\n"
    )
    run = _run(text, tmp_path / "run")
    assert codes(run) == {"unsound-rule"}
    opened = sp.open_run(run)
    assert [one.code for one in opened.findings if one.level == "fail" and one.code == "unsound-rule"]
    assert opened.content().series == []
    assert "What is guaranteed" not in opened.report().read_text()


def test_other_weights_and_other_data_are_found(voted: Path, exact: Path, copy: Callable[[Path], Path]) -> None:
    run = copy(voted)
    record = json.loads((run / "run.json").read_text())
    record["fingerprints"]["weights"]["plain"] = record["fingerprints"]["weights"]["cayley"]
    record["fingerprints"]["data"]["e=0.1"] = "0"
    (run / "run.json").write_text(json.dumps(record))
    assert {"weights-differ", "data-differ"} <= codes(run)


def test_rows_that_are_gone_are_missed(voted: Path, copy: Callable[[Path], Path]) -> None:
    run = copy(voted)
    file = next(
        one
        for one in EvidenceStore(run / "evidence").files()
        if (one.evidence[0].probe, one.evidence[0].model, one.evidence[0].setting.count("Within"))
        == ("certify", "plain", 0)
    )
    file.path.unlink()
    assert "rows-missing" in codes(run)


# attacks inside the ball


def _case(certificates: sp.Certificates, certifier: object, oracle: LinearOracle) -> Case:
    job = sp.certifiers.Job(oracle.model, oracle.domain, 2, 0, Memory())
    return Case("oracle", certificates, certifier, job, seed=1, part=12)  # type: ignore[arg-type]


class Believing:
    """A certifier whose record always gives what it says, so that only the attack is left."""

    def __init__(self, certifier: object) -> None:
        self.certifier = certifier

    def __getattr__(self, name: str) -> object:
        return getattr(self.certifier, name)

    def rederive(self, certificates: sp.Certificates) -> np.ndarray:
        return certificates.radius


@pytest.mark.parametrize(
    "certifier",
    [
        sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.5), n=2_000),
        sp.certifiers.LipschitzMargin(),
        sp.certifiers.LipschitzMargin("linf"),
        sp.certifiers.MedianSmoothing("logits", sigma=0.5, samples=2_000),
    ],
    ids=["smoothing", "l2 margin", "linf margin", "median"],
)
def test_a_ball_that_is_too_large_is_broken_by_attack(certifier: object) -> None:
    oracle = LinearOracle()
    certificates = sp.certify(oracle.model, oracle.domain, certifier, seed=0)  # type: ignore[arg-type]
    sound = verify(_case(certificates, Believing(certifier), oracle))
    assert not [one for one in sound if one.level == "fail"]
    larger = replace(certificates, radius=np.where(certificates.radius > 0, 2 * certificates.radius + 0.2, 0.0))
    found = verify(_case(larger, Believing(certifier), oracle))
    assert "broken" in {one.code for one in found}


def test_deformations_are_moved_inside_their_interpolation() -> None:
    """A classifier that tells left from right: shifted by more than is certified, it changes its mind."""

    class Side(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            half = inputs.shape[-1] // 2
            left, right = inputs[..., :half].sum((1, 2, 3)), inputs[..., half:].sum((1, 2, 3))
            return torch.stack([left, right], 1)

    image = torch.zeros(1, 1, 8, 8)
    image[..., 2:6, 1:3] = 1
    certifier = sp.certifiers.RandomizedSmoothing(sp.noise.Translation(0.2), n=2_000)
    domain = sp.Domain.from_arrays("one", image, [0], ["left", "right"])
    certificates = sp.certify(Side().eval(), domain, certifier, seed=0)
    assert certificates.radius[0] > 0.1
    job = sp.certifiers.Job(Side().eval(), domain, 2, 0, Memory())
    case = Case("side", certificates, certifier, job, 1)
    assert {one.level for one in verify(case)} == {"pass"}
    farther = replace(certificates, radius=certificates.radius + 0.8)
    assert "broken" in {one.code for one in verify(replace(case, certificates=farther, certifier=Believing(certifier)))}  # type: ignore[arg-type]


# the sandwich


def test_certified_and_wrong_elsewhere_is_a_failure_for_the_same_classifier(
    exact: Path, copy: Callable[[Path], Path]
) -> None:
    run = copy(exact)

    def spoil(columns: dict[str, list]) -> None:
        columns["correct"] = [False] * len(columns["correct"])

    plant(run, spoil, "clean")
    assert "sandwich-broken" in codes(run)


def test_other_classifiers_are_only_put_beside_each_other(voted: Path) -> None:
    evidence = sp.open_run(voted).evidence
    findings = list(order_findings(evidence))
    assert {one.level for one in findings} == {"pass"}
    assert {one.code for one in findings} == {
        "attacked-below-clean",
        "sandwich-holds",
        "sandwich-other-classifier",
    }
    assert any("no order is claimed" in one.message for one in findings)


# the verb


def _verb(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([str(one) for one in arguments])
    return int(stopped.value.code or 0)


def test_the_verb_exits_with_2_if_anything_is_broken(
    voted: Path, copy: Callable[[Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = copy(voted)
    assert _verb("verify", run, "--part", 4, "--seed", 1) == 0
    assert "nothing is broken" in capsys.readouterr().out
    plant(run, inflated, "gaussian 0.25")
    assert _verb("verify", run, "--part", 4, "--json") == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer["broken"] >= 1
    assert Finding(**next(one for one in answer["findings"] if one["level"] == "fail")).code == "radius-inflated"


def test_adapted_certificates_are_verified_and_their_sigmas_believed_by_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        _verb(
            "train",
            "--data",
            "rotated-digits",
            "--target",
            "angle=75",
            "--model",
            "cnn",
            "--out",
            tmp_path / "m",
            "--set",
            "model.width=4",
            "--set",
            "training.steps=40",
        )
        == 0
    )
    asked = [
        "certify",
        "--data",
        "rotated-digits",
        "--model",
        f"file:{tmp_path / 'm'}",
        "--domain",
        "angle=0",
        "--certifier",
        "adapted-smoothing",
        "--n",
        200,
        "--limit",
        12,
        "--set",
        "certifier.calibration=64",
    ]
    for rule in ("fixed", "selection", "agreement"):
        folder = tmp_path / rule
        assert _verb(*asked, "--sigma", "0.1,0.25", "--set", f"certifier.rule={rule}", "--out", folder) == 0
        assert _verb("verify", folder, "--part", 4, "--seed", 1) == 0

    def enlarge(columns: dict[str, list]) -> None:
        columns["parts"] = [json.dumps({**json.loads(text), "sigmas": [0.2, 0.5]}) for text in columns["parts"]]
        columns["radius"] = [2 * radius for radius in columns["radius"]]

    plant(folder, enlarge, sp.open_run(folder).evidence[0].title, model="m", domain="angle=0")
    assert _verb("verify", folder, "--part", 4, "--seed", 1) == 2
    assert "larger than their record gives" in capsys.readouterr().out


def test_a_folder_that_holds_no_run_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _verb("verify", tmp_path) == 1
    assert "holds no run" in capsys.readouterr().err


def test_what_the_verb_certify_writes_is_verified_too(
    voted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = f"file:{voted / 'models' / 'cayley.safetensors'}"
    folder = tmp_path / "certified"
    asked = ("certify", "--data", "colored-digits", "--model", model, "--domain", "e=0.9", "--limit", 20)
    assert _verb(*asked, "--sigma", "0.25,0.5", "--n", 300, "--workers", 1, "--out", folder) == 0
    assert _verb("verify", folder, "--part", 4) == 0
    assert "asked again with" in capsys.readouterr().out

    def inflate(columns: dict[str, list]) -> None:
        columns["radius"] = [radius * 1.5 for radius in columns["radius"]]

    plant(folder, inflate, "gaussian 0.5")
    assert _verb("verify", folder, "--part", 4) == 2
    path = next((folder / "evidence").rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-40])
    assert _verb("verify", folder, "--part", 4) == 2
    assert "not a readable Parquet file" in capsys.readouterr().out
    margins = tmp_path / "margins"
    assert _verb(*asked, "--certifier", "latent-margin", "--out", margins) == 0
    assert _verb("verify", margins) == 0


def test_rounding_that_is_measured_otherwise_on_a_part_is_no_fault(tmp_path: Path) -> None:
    """Rows of radius 0 are not computed again, so that the allowance is measured on other samples."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Flatten(), nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
    model = sp.SplitModel(body, nn.Linear(32, 3)).eval()
    inputs = torch.rand(400, 1, 4, 4)
    domain = sp.Domain.from_arrays("random", inputs, model(inputs).argmax(1).numpy(), ["a", "b", "c"])
    for certifier in (sp.certifiers.LatentMargin(), sp.certifiers.LipschitzMargin("l1")):
        certificates = sp.certify(model, domain, certifier, seed=0)
        radius = np.where(np.arange(400) % 7 == 0, 0.0, certificates.radius)
        fewer = replace(certificates, radius=radius, prediction=np.where(radius > 0, certificates.prediction, -1))
        job = sp.certifiers.Job(model, domain, 3, 0, Memory())
        assert not [one for one in verify(Case("random", fewer, certifier, job, 1)) if one.level == "fail"]


def test_few_votes_do_not_break_the_sandwich(tmp_path: Path) -> None:
    text = STUDY.replace("votes: 200", "votes: 15").split(
        '  - {name: certify, certifier: {noise: "gaussian:0.25", n: 2000'
    )[0]
    run = _run(text, tmp_path / "run")
    assert not [one for one in order_findings(sp.open_run(run).evidence) if one.level == "fail"]
