"""`verify` asks the model itself: it imports nothing of what certified, and finds what that got wrong."""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import shiftproof as sp
import shiftproof.certification.sampling.engine as engine
from shiftproof.certification.certifier import Memory
from shiftproof.certification.sampling.voting import Voter
from shiftproof.cli.main import main
from shiftproof.errors import NotAFunction
from shiftproof.evidence import Column, Evidence, EvidenceStore, Measurement
from shiftproof.models.lipschitz import CayleyLinear
from shiftproof.runs.verification import Case, verify
from shiftproof.testing.text_oracle import TextOracle

SOURCE = Path(sp.__file__).parent
ASKS_THE_MODEL = [
    *(SOURCE / "runs" / "verification").glob("*.py"),
    *(SOURCE / "certification").rglob("*_classifier.py"),
    SOURCE / "certification" / "plain_votes.py",
    SOURCE / "certification" / "rederive.py",
]
MADE_FOR_SPEED = (
    "shiftproof.certification.sampling",
    "shiftproof.certification.certify",
    "shiftproof.certification.certifiers.randomized_smoothing",
    "shiftproof.certification.certifiers.median_sampling",
    "shiftproof.models.prepared.prepare",
    "shiftproof.models.prepared.rewrite",
    "shiftproof.models.prepared.fuse",
    "shiftproof.models.reference",
    "shiftproof.models.prepared.openvino",
)


def _imports(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{name.name}" for name in node.names)}
    return found


@pytest.mark.parametrize("path", ASKS_THE_MODEL, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_verifies_imports_nothing_of_what_certifies(path: Path) -> None:
    assert not [name for name in _imports(path) if name.startswith(MADE_FOR_SPEED)]


def _model() -> sp.SplitModel:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 6))
    return sp.SplitModel(encoder, nn.Linear(6, 3)).eval()


def _orthogonal() -> sp.SplitModel:
    torch.manual_seed(0)
    return sp.SplitModel(nn.Sequential(nn.Flatten(), CayleyLinear(16, 8)), nn.Linear(8, 3)).eval()


def _domain(model: nn.Module, count: int = 10) -> sp.Domain:
    inputs = torch.randint(0, 256, (count, 1, 4, 4), generator=torch.Generator().manual_seed(1)) / 255.0
    with torch.no_grad():
        labels = model(inputs).argmax(1).numpy()
    return sp.Domain.from_arrays("d", inputs, labels, ["a", "b", "c"])


CALIBRATION = sp.certifiers.Calibration.of(torch.rand(32, 1, 4, 4, generator=torch.Generator().manual_seed(2)))
TEXTS = TextOracle(10)
CERTIFIERS: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "smoothing": (_model, sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.1), n=400)),
    "stopping": (_model, sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.1), n=2_000, stop="within:0.8")),
    "uniform": (_model, sp.certifiers.RandomizedSmoothing(sp.noise.Uniform(0.2), n=400)),
    "rotation": (_model, sp.certifiers.RandomizedSmoothing(sp.noise.Rotation(0.3), n=400)),
    "selection": (_model, sp.certifiers.AdaptedSmoothing([0.1, 0.2], CALIBRATION, rule="selection", n=400)),
    "median": (_model, sp.certifiers.MedianSmoothing(sigma=0.1, samples=400)),
    "embeddings": (lambda: TEXTS.model, sp.certifiers.RandomizedSmoothing(sp.noise.EmbeddingGaussian(0.3), n=400)),
    "latent smoothing": (_orthogonal, sp.certifiers.LatentSmoothing(0.2, n=2_000)),
    "latent margin": (_orthogonal, sp.certifiers.LatentMargin()),
}


def _case(name: str) -> Case:
    build, certifier = CERTIFIERS[name]
    model = build()
    domain = TEXTS.domain if name == "embeddings" else _domain(model)
    certificates = sp.certify(model, domain, certifier, seed=3)
    job = sp.certifiers.Job(model, domain, len(domain.classes), 3, Memory())
    return Case(name, certificates, certifier, job, seed=1, part=4)


@pytest.mark.parametrize("name", CERTIFIERS)
def test_verify_needs_nothing_of_what_certified(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates verify with the prepared models, the sampling engine and the noise bank taken away."""
    case = _case(name)
    assert (case.certificates.radius > 0).sum() >= 3

    def gone(*_: Any, **__: Any) -> None:
        raise AssertionError("verify used what certified")

    for where in (
        "certification.sampling.engine.sample",
        "certification.certifiers.randomized_smoothing.sample",
        "certification.certifiers.adapted_smoothing.sample",
        "certification.sampling.engine.prepare",
        "certification.certifiers.median_sampling.prepare",
        "certification.certifiers.median_sampling.draw_block",
        "certification.sampling.engine.draw_block",
        "certification.sampling.bank.draw_block",
        "certification.sampling.voting.Voter.outputs",
        "certification.sampling.embedded.EmbeddedVoter.evaluate",
        "certification.sampling.embedded.off_grid_texts",
        "certification.sampling.exact.ExactLayer.of_noise",
        "certification.certificates.certified_rows",
        "models.prepared.prepare.prepare",
        "models.prepared.rewrite.rewrite",
        "models.prepared.fuse.fuse",
        "models.prepared.fuse.FusedConv.forward",
    ):
        monkeypatch.setattr(f"shiftproof.{where}", gone)
    findings = verify(case)
    assert not [one.message for one in findings if one.level == "fail"]
    assert {"record", "asked-again", "attacked"} <= {one.code for one in findings}


@pytest.mark.parametrize("name", ["smoothing", "selection", "latent smoothing", "latent margin", "median"])
def test_lead_and_disproof_come_from_one_count(name: str) -> None:
    build, certifier = CERTIFIERS[name]
    model = build()
    domain = _domain(model)
    job = sp.certifiers.Job(model, domain, 3, 3, Memory())
    classifier = certifier.certified_classifier(job)
    inputs = domain.take(np.arange(4))[0]
    answers = classifier.answers(inputs).numpy()
    passes: list[int] = []
    for layer in classifier.model.modules():
        if isinstance(layer, nn.Conv2d | CayleyLinear):
            layer.register_forward_pre_hook(lambda _, given: passes.append(len(given[0])))
    lead, disproved = classifier.judge(inputs, answers, 1e-6)
    assert (lead >= 0).all()
    assert not disproved.any()
    assert sum(passes) == 4 * {"smoothing": 1_000, "selection": 2_000, "median": 2_000}.get(name, 1)
    others = (answers + 1) % 3
    assert (classifier.judge(inputs, others, 1e-6).lead <= 0).all()
    assert np.array_equal(
        classifier.disproved_at(inputs, others, 1e-6), classifier.judge(inputs, others, 1e-6).disproved
    )


def _rotated_winners(self: Voter, image: Any, noise: Any, count: int) -> Any:
    return (self.outputs(image, noise, count).argmax(1) + 1) % self.classes


def test_votes_of_another_function_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the engine, which verify would repeat if it voted by it."""
    with monkeypatch.context() as patch:
        patch.setattr(Voter, "winners", _rotated_winners)
        patch.setattr(engine, "spot_check", lambda *_: None)
        patch.setattr(engine.Compared, "check", lambda *_: None)
        case = _case("smoothing")
        found = {one.code for one in verify(case)}
    assert {"votes-differ", "replay-differs"} <= found


@pytest.mark.parametrize("left_out", ["spot_check", "Compared"])
def test_votes_of_another_function_are_not_handed_out(left_out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either of two checks is enough: plain votes with other noise, and single votes with the same."""
    monkeypatch.setattr(Voter, "winners", _rotated_winners)
    if left_out == "spot_check":
        monkeypatch.setattr(engine, "spot_check", lambda *_: None)
    else:
        monkeypatch.setattr(engine.Compared, "check", lambda *_: None)
    words = {"spot_check": "that were compared", "Compared": "what voted is not the model"}[left_out]
    with pytest.raises(NotAFunction, match=words):
        _case("smoothing")


# what people read


STUDY = """
data: colored-digits
source: [e=0.2, e=0.1]
target: e=0.9
limit: 24
models:
  plain: {model: {name: mlp, width: 16, gray: true}, objective: {name: gaussian, sigma: 0.25}, training: {steps: 20}}
probes:
  - clean
  - {name: certify, certifier: {noise: "gaussian:0.25", n: 200}}
"""


def _verb(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([str(one) for one in arguments])
    return int(stopped.value.code or 0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("read")
    (folder / "study.yaml").write_text(STUDY)
    assert _verb("run", folder / "study.yaml", "--out", folder / "run") == 0
    assert _verb("report", folder / "run", "--format", "html,csv,markdown,latex,svg") == 0
    return folder / "run"


@pytest.fixture(scope="module")
def certified(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("certified") / "out"
    model = next((run / "models").glob("*.safetensors"))
    asked = ("certify", "--data", "colored-digits", "--model", f"file:{model}", "--domain", "e=0.9", "--limit", 12)
    assert _verb(*asked, "--sigma", "0.25", "--alpha", "0.001,0.01", "--n", 200, "--workers", 1, "--out", out) == 0
    return out


def test_a_relative_path_is_the_same_model(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(run.parent)
    model = next((run / "models").glob("*.safetensors")).relative_to(run.parent)
    asked = ("certify", "--data", "colored-digits", "--model", f"file:{model}", "--domain", "e=0.9", "--limit", 6)
    assert _verb(*asked, "--sigma", "0.25", "--n", 200, "--workers", 1, "--out", tmp_path / "out") == 0
    assert _failures(tmp_path / "out", capsys) == set()


def _failures(folder: Path, capsys: pytest.CaptureFixture[str]) -> set[str]:
    capsys.readouterr()
    code = _verb("verify", folder, "--part", 4, "--seed", 1, "--json")
    answer = json.loads(capsys.readouterr().out)
    failed = {one["code"] for one in answer["findings"] if one["level"] == "fail"}
    assert code == (2 if failed else 0)
    return failed


def _edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


def test_what_nobody_touched_passes(run: Path, certified: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _failures(run, capsys) == set()
    assert _failures(certified, capsys) == set()


@pytest.mark.parametrize("name", ["report.html", "tables/accuracy.csv", "tables/certified.csv", "tables/accuracy.md"])
def test_an_edited_table_or_page_is_found(
    name: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    path = copy / name
    digit = next(mark for mark in "123456789" if mark in path.read_text())
    _edit(path, digit, "9" if digit != "9" else "8")
    assert _failures(copy, capsys) == {"table-differs"}
    (copy / "tables" / "better.csv").write_text("model,accuracy\nplain,1.0\n")
    assert _failures(copy, capsys) == {"table-differs", "table-unexpected"}


def test_an_edited_log_and_table_of_certify_are_found(
    certified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(certified, tmp_path / "copy"))
    log = next((copy / "logs").glob("*.tsv"))
    rows = [line.split("\t") for line in log.read_text().splitlines()]
    rows[1][3] = "9.990000"
    log.write_text("\n".join("\t".join(row) for row in rows) + "\n")
    assert _failures(copy, capsys) == {"log-differs"}
    table = copy / "tables" / "certified.csv"
    _edit(table, table.read_text().splitlines()[1].split(",")[7], "0.999")
    assert _failures(copy, capsys) == {"log-differs", "table-differs"}


@pytest.mark.parametrize(
    ("column", "value", "code"),
    [
        ("guarantee", "The model itself is 100 % safe.", "guarantee-differs"),
        ("guarantee", None, "guarantee-differs"),
        ("units", "kilometres", "units-differs"),
    ],
)
def test_forged_words_of_certificates_are_found(
    column: str, value: str | None, code: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    for name in ("report.html", "tables", "figures"):
        path = copy / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    store = EvidenceStore(copy / "evidence")
    for file in store.files():
        (measurement,) = file.evidence
        if measurement.probe == "certify":
            sentence = measurement.fact("guarantee").replace("at most 0.001", "at most 0.0001")
            forged = {**measurement.facts, column: sentence if value is None else value}
            store.finish(file.path, Evidence([Measurement(forged, measurement.table)]), file.identity)
    assert code in _failures(copy, capsys)


def test_certified_and_measured_classes_are_compared_whether_right_or_wrong() -> None:
    """A vote that is certified as one wrong class and measured as another is no certificate of that vote."""
    from shiftproof.evidence.order import order_findings

    case = _case("smoothing")
    rows = len(case.certificates)
    facts = {"model": "m", "domain": "d", "classifier": "smoothed", "noise": "gaussian 0.1", "title": "t"}
    held = facts | {"probe": "certify", "setting": "c", "norm": "l2", "alpha": 0.001, "scale": 0.1, "unsound": ""}
    vote = facts | {"probe": "attack", "setting": "a", "norm": "linf", "eps": 0.0, "votes": 1_000}
    columns = {"id": case.certificates.ids, "label": np.full(rows, 9), "correct": np.full(rows, False)}
    radius, skipped = Column("radius", "float", ""), Column("skipped", "bool", "")
    for other, level in ((1, "pass"), (2, "fail")):
        certified = {"prediction": np.full(rows, 1), "radius": np.full(rows, 0.9), "skipped": np.full(rows, False)}
        evidence = Evidence(
            [
                Measurement.of(held, {**columns, **certified}, [radius, skipped]),
                Measurement.of(vote, {**columns, "prediction": np.full(rows, other)}),
            ]
        )
        assert {one.level for one in order_findings(evidence)} == {level}


def test_replacing_a_certifier_keeps_its_rule() -> None:
    """A sigma that was chosen on calibration images is taken from the record, and none that was not offered."""
    certifier = sp.certifiers.AdaptedSmoothing([0.1, 0.2], CALIBRATION, rule="fixed", n=400)
    certificates = _case("selection").certificates
    parts = np.array([json.dumps({**json.loads(text), "sigmas": [0.2]}) for text in certificates.parts], object)
    assert certifier.as_recorded(replace(certificates, parts=parts)).sigmas == (0.2,)
    parts = np.array([json.dumps({**json.loads(text), "sigmas": [0.5]}) for text in certificates.parts], object)
    assert certifier.as_recorded(replace(certificates, parts=parts)).sigmas == (0.1, 0.2)
