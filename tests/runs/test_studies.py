"""Study files, runs and reports."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import needs_data
from scipy.stats import norm

from shiftproof.cli.show import show_costs
from shiftproof.domains import Domain, Domains
from shiftproof.domains.colon import stain_of_site
from shiftproof.errors import DataError, DataNotFound, StudyError, UnknownName, UsageError
from shiftproof.evidence import Evidence
from shiftproof.probes.clean import Clean
from shiftproof.report import accuracy_table, shift_findings
from shiftproof.runs import Run, find_study, list_studies, open_run, parse_study, run_study
from shiftproof.runs.data import StudyData, data_findings, load_study_data
from shiftproof.runs.dry_run import prepare_blank
from shiftproof.runs.estimate import estimate_study
from shiftproof.runs.identity import study_identity
from shiftproof.runs.leave_one_out import left_out_of
from shiftproof.statistics import upper_bound

pytestmark = pytest.mark.usefixtures("brief_examinations")

SMALL = """
data: colored-digits
target: e=0.9
models:
  colour: {model: mlp, training: {steps: 40, evaluate_every: 20}}
  gray: {model: {name: mlp, gray: true}, training: {steps: 40, evaluate_every: 20}}
"""


EVEN = {name: {"0-4": 100, "5-9": 100} for name in ("e=0.1", "e=0.2", "e=0.9")}


@pytest.mark.parametrize("name", list_studies())
def test_studies_that_come_along_are_valid(name: str) -> None:
    assert find_study(name).title


def test_the_null_case_and_the_stained_one_are_one_study() -> None:
    null, stained = (find_study(name).to_config() for name in ("medical-colon", "medical-stain"))
    for key in null:
        if key not in ("data", "claims", "title", "about", "name"):
            assert null[key] == stained[key], key
    assert {**stained["data"], "stain": 0.0} == null["data"]
    # left out are the sites with most and least of both stains together
    stains = {f"site-{number}": np.prod(stain_of_site(number, 0.7)) for number in range(1, 6)}
    darkest_last = sorted(stains, key=lambda name: float(stains[name]))
    assert set(stained["leave_out"]) == {darkest_last[0], darkest_last[-1]}


def test_the_study_of_camelyon17_can_be_tried_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    study = find_study("medical")
    targets = left_out_of(study)
    assert targets == tuple(f"hospital_{number}" for number in range(5))
    dry = prepare_blank(study.leaving_out("hospital_2"), DataNotFound("no slides"))
    assert dry.measured(dry.prepared.data, "hospital_2", Clean()) == 600
    noises = {"gaussian", "rotation", "translation", "scaling", "affine", "dct"}
    for name in ("standard", "linf 8/255"):
        probes = [one.to_config() for one in study.models[name].probes]
        assert {one["certifier"]["noise"]["name"] for one in probes if one["name"] == "certify"} == noises
    # whatever the scale, the same models are compared
    assert set(find_study("medical", scale="paper").models) == set(study.models)
    assert not any(claim.needs for claim in study.claims)


@pytest.mark.parametrize(
    ("change", "line", "sentence"),
    [
        (("data: colored-digits", "dta: colored-digits"), None, "the key 'data' is missing"),
        (("target: e=0.9", "targt: e=0.9"), 3, "unknown key 'targt'. Did you mean 'target'?"),
        (("model: mlp, training", "model: mlp, trainig"), 5, "unknown key 'trainig'. Did you mean 'training'?"),
        (("{steps: 40, evaluate_every: 20}}\n  gray", "{stps: 40}}\n  gray"), 5, "'stps'. Did you mean 'steps'?"),
        (("{steps: 40, evaluate_every: 20}}\n  gray", "{steps: x}}\n  gray"), 5, "steps of training is 'x'"),
        (("model: mlp,", "model: mpl,"), 5, "unknown model 'mpl'. Did you mean 'mlp'?"),
        (("gray: true", "grey: true"), 6, "'grey'. Did you mean 'gray'?"),
        (("model: mlp,", "model: mlp, objective: emr,"), 5, "unknown objective 'emr'. Did you mean 'erm'?"),
        (("model: mlp,", "model: mlp, objective: {name: erm, x: 1},"), 5, "unknown option of objective 'erm': 'x'"),
        (
            ("colored-digits", "coloured-digits"),
            2,
            "unknown data set 'coloured-digits'. Did you mean 'colored-digits'?",
        ),
        (("target: e=0.9", "target: e=0.9\ntarget: e=0.1"), 4, "the key 'target' is given twice"),
        (("target: e=0.9", "seed: -1"), 3, "seed: input should be greater than or equal to 0, not -1"),
        (("target: e=0.9", "probes: [clean, clean]"), 3, "the same probe is listed twice"),
        (("target: e=0.9", "probes: [clen]"), 3, "unknown probe 'clen'. Did you mean 'clean'?"),
        (("target: e=0.9", "target: [e=0.9"), 4, "not valid YAML"),
    ],
)
def test_mistakes_are_answered_with_file_line_and_the_nearest_key(
    change: tuple[str, str], line: int | None, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(SMALL.replace(*change))
    with pytest.raises(StudyError) as caught:
        find_study(str(path))
    message = str(caught.value)
    assert sentence in message
    assert message.startswith(f"{path}, line {line}: " if line else f"{path}: ")


def test_what_is_not_a_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'quickstart'"):
        find_study("quikstart")
    with pytest.raises(StudyError, match="can't read the study"):
        find_study(str(tmp_path / "none.yaml"))
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StudyError, match="can't read the study"):
        find_study(str(tmp_path / "binary.yaml"))
    with pytest.raises(StudyError, match="a study is a mapping"):
        parse_study("- a\n- b", "x", "x")


def test_overrides_change_the_study() -> None:
    assert {m.training["lr"] for m in find_study("quickstart", ["training.lr=1e-2"]).models.values()} == {"1e-2"}
    study = find_study("quickstart", ["models.sees colour.training.steps=7", "seed=3", "data.name=colored-digits"])
    assert study.models["sees colour"].training == {"steps": 7}
    assert study.seed == 3
    with pytest.raises(UsageError, match="should read key.key=value"):
        find_study("quickstart", ["seed"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    run_study(parse_study(SMALL, "small", "small"), folder).export()
    return folder


def test_an_entry_of_a_list_is_changed_by_its_place() -> None:
    text = "data: digits\nmodels: {a: {model: mlp}}\nprobes: [clean, {name: noisy, noise: 'gaussian:0.5'}]\n"
    study = parse_study(text, "s", "s", ["probes.1.draws=3", "probes.0=clean"])
    assert [probe.name for probe in study.probes] == ["clean", "noisy"]
    assert study.probes[1].to_config()["draws"] == 3
    for wrong in ("probes.2.draws=3", "probes.x=1", "probes.-1=clean"):
        with pytest.raises(UsageError, match="probes is a list; its entries are probes.0 to probes.1"):
            parse_study(text, "s", "s", [wrong])


def test_a_study_that_comes_along_can_be_copied(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    code, out, _ = run("ls", "studies", "quickstart", "--yaml")
    assert code == 0
    copy = tmp_path / "quickstart.yaml"
    copy.write_text(out)
    assert find_study(str(copy)).to_config() == find_study("quickstart").to_config()
    assert run("ls", "studies", "quickstrat", "--yaml")[0] == 1
    assert run("ls", "models", "mlp", "--yaml")[0] == 1


def test_a_run_on_disk_is_as_documented(finished: Path) -> None:
    files = {str(path.relative_to(finished)) for path in finished.rglob("*") if path.is_file()}
    models = {f"models/{name}.{suffix}" for name in ("colour", "gray") for suffix in ("safetensors", "json")}
    short = hashlib.sha256(b"Clean()").hexdigest()[:8]
    evidence = {f"evidence/{m}/{d}/clean-{short}.parquet" for m in ("colour", "gray") for d in EVEN}
    tables = {f"tables/accuracy.{suffix}" for suffix in ("csv", "md", "tex")}
    assert {
        "run.json",
        "report.html",
        "figures/accuracy.svg",
        "figures/accuracy.png",
    } | models | evidence | tables <= files
    assert not [name for name in files if name.endswith((".journal", ".part"))]
    record = json.loads((finished / "run.json").read_text())
    assert record["config"]["models"]["colour"]["recipe"]["steps"] == 40
    assert set(record["fingerprints"]["weights"]) == {"colour", "gray"}
    assert record["environment"]["packages"]["torch"]
    card = json.loads((finished / "models" / "colour.json").read_text())
    assert (card["classes"], card["sources"], card["target"]) == (["0-4", "5-9"], ["e=0.1", "e=0.2"], "e=0.9")
    assert card["objective"]["name"] == "erm"
    assert card["selection"]["rule"] == "source-validation"
    assert card["architecture"]["name"] == "mlp"


def test_the_same_study_is_not_run_twice(finished: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*.parquet")}
    weights = (finished / "models" / "gray.safetensors").stat().st_mtime_ns
    run_study(parse_study(SMALL, "small", "small"), finished)
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*.parquet")} == before
    assert (finished / "models" / "gray.safetensors").stat().st_mtime_ns == weights


def test_another_study_does_not_overwrite_a_run(finished: Path) -> None:
    with pytest.raises(UsageError, match="holds a run with other models"):
        run_study(parse_study(SMALL.replace("40", "41"), "small", "small"), finished)


def test_the_hash_covers_what_changes_a_number_and_nothing_else() -> None:
    from shiftproof.runs.identity import digest, study_identity

    def hashed(text: str) -> str:
        return digest(study_identity(parse_study(text, "s", "s")))

    assert hashed(SMALL) == hashed(SMALL + "title: Another title\nabout: words\n")
    assert hashed(SMALL) == hashed(
        SMALL.replace("model: mlp,", "model: mlp, objective: erm, selection: source-validation,")
    )
    assert hashed(SMALL) == hashed(SMALL.replace("model: mlp,", "model: {name: mlp, width: '256', gray: false},"))
    others = [SMALL.replace("40", "41"), SMALL + "seed: 1\n", SMALL.replace("model: mlp,", "model: cnn,")]
    assert len({hashed(text) for text in [SMALL, *others]}) == 4


def test_a_report_is_written_again_from_evidence_alone(finished: Path, tmp_path: Path) -> None:
    run = open_run(finished)
    written = run.export(["html", "csv"], tmp_path / "again")
    tables = ["overview", "accuracy", "classes", "mistakes", "calibration"]
    assert [path.name for path in written] == ["report.html", *(f"{name}.csv" for name in tables)]
    assert (tmp_path / "again" / "report.html").read_text() == (finished / "report.html").read_text()
    page = run.report(str(tmp_path / "mine.html"))
    assert page.read_text() == (finished / "report.html").read_text()
    assert [finding.code for finding in run.findings] == ["collapse", "holds"]
    with pytest.raises(UnknownName, match="Did you mean 'html'"):
        run.export(["htm"])


def test_models_keep_their_order_in_a_report_made_again(tmp_path: Path) -> None:
    text = SMALL.replace("colour:", "z:").replace("  gray:", "  a:")
    run_study(parse_study(text, "small", "small"), tmp_path / "run").export(["markdown"])
    before = (tmp_path / "run" / "tables" / "accuracy.md").read_text()
    open_run(tmp_path / "run").export(["markdown"])
    assert (tmp_path / "run" / "tables" / "accuracy.md").read_text() == before


def test_the_page_opens_offline_and_shows_everything(finished: Path) -> None:
    page = (finished / "report.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "https://" not in page
    # one script, which is in it; the browser is told to fetch nothing
    assert page.count("<script") == page.count("<script>") == 1
    assert "default-src 'none'" in page
    for text in ("colour", "gray", "e=0.9", "unseen", "<svg", "data:image/png;base64"):
        assert text in page


def test_names_are_escaped_in_the_page(tmp_path: Path) -> None:
    text = SMALL.replace("colour:", "'<b>x</b> & co':").replace("target", "title: '<script>alert(1)</script>'\ntarget")
    run = run_study(parse_study(text, "small", "small"), tmp_path / "run")
    page = run.report().read_text()
    assert "<script>alert" not in page
    assert page.count("<script>") == 1
    assert "<b>x</b>" not in page


def test_an_unfinished_run_is_not_reported(finished: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    next((copy / "evidence" / "gray" / "e=0.9").glob("clean-*.parquet")).unlink()
    with pytest.raises(UsageError, match="is not finished"):
        open_run(copy)
    with pytest.raises(DataError, match="there is no file"):
        open_run(tmp_path / "nowhere")


def test_findings_tell_collapse_from_holding(finished: Path) -> None:
    run = open_run(finished)
    table = accuracy_table(run.evidence, ("e=0.1", "e=0.2"), ("e=0.9",))
    findings = {row.model: f for row, f in zip(table.rows, shift_findings(table, EVEN), strict=True)}
    assert (findings["colour"].level, findings["colour"].code) == ("fail", "collapse")
    assert findings["gray"].level == "pass"
    swapped = accuracy_table(run.evidence, ("e=0.9",), ("e=0.1",))
    assert [finding.code for finding in shift_findings(swapped, EVEN)] == ["not-learned", "holds"]
    alone = accuracy_table(run.evidence, ("e=0.1",), ())
    assert [finding.code for finding in shift_findings(alone, EVEN)] == ["no-target", "learned", "learned"]


def test_few_samples_decide_nothing(finished: Path) -> None:
    evidence = open_run(finished).evidence
    few = Evidence([evidence.get(model="gray", domain=d).take(np.arange(12)) for d in ("e=0.1", "e=0.9")])
    table = accuracy_table(few, ("e=0.1",), ("e=0.9",))
    assert next(iter(shift_findings(table, EVEN))).code == "undecided"


def test_a_model_that_learned_nothing_does_not_pass(finished: Path) -> None:
    evidence = open_run(finished).evidence
    table = accuracy_table(evidence, ("e=0.1", "e=0.2"), ("e=0.9",))
    # nine in ten are of one class: 87 % is worse than always answering that one
    uneven = {name: {"0-4": 95, "5-9": 5} for name in EVEN}
    assert [finding.code for finding in shift_findings(table, uneven)] == ["not-learned", "not-learned"]


def test_odd_targets_are_findings() -> None:
    def domain(name: str, labels: list[int], groups: list[str] | None = None) -> Domain:
        return Domain.from_arrays(name, torch.rand(len(labels), 1, 2, 2), labels, ("cat", "dog"), groups=groups)

    sources = Domains("x", [domain("a", [0, 0, 1], ["p", "q", "r"]), domain("b", [0, 0], ["s", "t"])])
    assert data_findings(StudyData(sources, (domain("t", [0, 1], ["u", "v"]),))) == []
    cats = Domains("x", [domain("b", [0, 0], ["s", "t"])])
    found = data_findings(StudyData(cats, (domain("t", [0, 1], ["s", "v"]),)))
    assert [finding.code for finding in found] == ["unseen-class", "shared-groups"]
    assert data_findings(StudyData(cats)) == []


def test_groups_that_splits_tear_apart_are_a_finding() -> None:
    def source(splits: list[str]) -> Domains:
        groups = ["slide-1", "slide-1", "slide-2", "slide-3"]
        images = torch.rand(4, 1, 2, 2)
        return Domains("x", [Domain.from_arrays("a", images, [0, 1, 0, 1], "xy", groups=groups, splits=splits)])

    (found,) = data_findings(StudyData(source(["train", "validation", "train", "validation"])))
    assert found.code == "torn-groups"
    assert "1 groups of a are trained on and measured, such as slide-1" in found.message
    assert data_findings(StudyData(source(["train", "train", "train", "validation"]))) == []
    assert data_findings(StudyData(source(["test"] * 4))) == []


def test_paths_in_a_study_start_at_the_study(images: Callable[..., Path], tmp_path: Path) -> None:
    images(count=3)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "my.yaml").write_text("data: folder:images\ntarget: clinic-b\nmodels: {m: {model: mlp}}\n")
    os.chdir(tmp_path / "elsewhere")
    study = find_study("../my.yaml")
    assert len(load_study_data(study).domains) == 2


def test_the_environment_of_the_first_computation_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = parse_study(SMALL, "small", "small")
    first = run_study(study, tmp_path / "run").record
    monkeypatch.setattr("shiftproof.runs.record.environment", lambda: {"python": "9"})
    second = run_study(study, tmp_path / "run").record
    assert second["environment"] == first["environment"]
    assert second["later_environments"] == [{"python": "9"}]
    assert second["fingerprints"] == first["fingerprints"]


def test_a_study_without_target(tmp_path: Path) -> None:
    text = "data: digits\nmodels:\n  m: {model: mlp, training: {steps: 20, evaluate_every: 10}}\n"
    run = run_study(parse_study(text, "s", "s"), tmp_path / "run")
    assert "gap" not in run.export(["markdown"])[0].read_text()
    assert run.report().is_file()


def test_changed_data_is_noticed(images: Callable[..., Path], tmp_path: Path) -> None:
    root = images(count=30)
    models = "models:\n  m: {model: mlp, training: {steps: 4, evaluate_every: 2}}\n"
    text = f"data: 'folder:{root}'\ntarget: clinic-b\n{models}"
    study = parse_study(text, "s", "s")
    run_study(study, tmp_path / "run")
    (root / "clinic-b" / "cat" / "0.png").write_bytes((root / "clinic-b" / "dog" / "1.png").read_bytes())
    with pytest.raises(DataError, match="the data has changed"):
        run_study(study, tmp_path / "run")


def test_estimates_count_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shiftproof.runs.estimate.PROBE_SECONDS", 0.1)
    estimate = estimate_study(parse_study(SMALL, "small", "small"))
    validation = 273
    assert [cost.stage for cost in estimate.costs] == ["training", "clean"] * 2
    assert estimate.costs[0].forward_passes == 40 * 2 * 128 + 2 * validation
    assert estimate.costs[1].forward_passes == validation + 397
    assert estimate.seconds > 0
    assert estimate.memory_mb > 50


def test_a_cap_is_compared_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shiftproof.runs.estimate.PROBE_SECONDS", 0.1)
    plain, short, long = (parse_study(f"{cap}{SMALL}", "small", "small") for cap in ("", "cap: 0.01s\n", "cap: 1h\n"))
    assert study_identity(plain) == study_identity(short) == study_identity(long)
    assert long.to_config()["cap"] == "1h"
    for study, words in ((short, "beyond it"), (long, "a cap of 60 min"), (long, "within it")):
        show_costs(estimate_study(study), as_json=False)
        assert words in capsys.readouterr().out
    with pytest.raises(StudyError, match="cap"):
        parse_study(f"cap: soon\n{SMALL}", "small", "small")


@needs_data
def test_a_study_on_groups(tmp_path: Path) -> None:
    models = "models:\n  m: {model: cnn, training: {steps: 4, batch: 8, evaluate_every: 4}}\n"
    run = run_study(parse_study(f"data: colon\ntarget: site-5\n{models}", "s", "s"), tmp_path / "run")
    assert run.evidence.grouped
    row = run.content().accuracy.rows[0]
    assert {estimate.method for estimate in row.accuracy.values()} == {"one-sample bootstrap"}
    assert "a bootstrap over whole groups" in run.report().read_text()


@needs_data
def test_a_study_on_lazy_images(tmp_path: Path) -> None:
    models = "models:\n  m: {model: cnn, training: {steps: 4, batch: 8, evaluate_every: 4}}\n"
    text = f"data: {{name: pacs, size: 16}}\ntarget: sketch\n{models}"
    run = run_study(parse_study(text, "s", "s"), tmp_path / "run")
    assert run.evidence.where(domain="sketch").rows == 3929
    assert run.report().is_file()


CERTIFIED = f"""{SMALL}
limit: 60
probes:
  - clean
  - {{name: certify, certifier: {{noise: "gaussian:0.25", n: 300, n0: 20}}}}
  - {{name: certify, certifier: {{noise: "rotation:0.2", n: 100, n0: 20, stop: "radii:0,0.1", skip_wrong: true}}}}
"""


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Run:
    torch.set_num_threads(1)
    study = parse_study(CERTIFIED, "certified", "certified")
    return run_study(study, tmp_path_factory.mktemp("certified") / "run")


def test_certificates_are_evidence_from_which_every_radius_follows(certified: Run) -> None:
    for rows in certified.evidence.where(probe="certify", norm="l2"):
        assert rows.classifier == "smoothed"
        assert (rows["n"] == 300).all()
        assert set(rows["bound"]) == {"clopper-pearson"}
        miss = upper_bound(rows["n"] - rows["count"], rows["n"], rows.fact("levels")["final"])
        derived = np.maximum(-0.25 * norm.ppf(miss), 0)
        assert np.allclose(np.where(rows["prediction"] >= 0, rows["radius"], 0), derived)
    turned = certified.evidence.where(probe="certify", norm="angle")
    assert set(turned.column("bound")) <= {"clopper-pearson", "sequence", "none"}
    assert ((turned.column("bound") == "none") == turned.column("skipped")).all()
    assert turned.column("skipped").any()
    assert not (turned.column("correct") & turned.column("skipped")).any()


def test_votes_of_the_label_are_kept(certified: Run) -> None:
    """A label is the chosen class, and has its votes, or another, and has no more than the runner-up."""
    for rows in certified.evidence.where(probe="certify"):
        chosen = rows["chosen"] == rows["label"]
        assert (rows["label_count"][chosen] == rows["count"][chosen]).all()
        # of two classes, one that was not chosen is the runner-up
        assert (rows["label_count"][~chosen] == rows["runner_up_count"][~chosen]).all()
    assert (rows["label_count"] > 0).any()


def test_the_report_says_what_is_guaranteed(certified: Run, tmp_path: Path) -> None:
    written = certified.export(folder=tmp_path)
    page = written[0].read_text()
    assert "What is guaranteed" in page
    assert "interpolation" in page
    assert "share noise" in page
    names = {path.name for path in written}
    assert {"certified.csv", "certified.svg", "certified.png"} <= names
    codes = {finding.code for finding in certified.findings}
    assert codes & {"guarantee-shrinks", "guarantee-undecided", "guarantee-holds"}
    again = open_run(certified.folder)
    assert again.evidence.rows == certified.evidence.rows


def test_a_run_without_one_of_its_probes_is_not_finished(certified: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(certified.folder, copy)
    for path in copy.rglob("certify*.parquet"):
        path.unlink()
    with pytest.raises(UsageError, match="not finished"):
        open_run(copy)


def test_certification_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shiftproof.runs.estimate.PROBE_SECONDS", 0.1)
    monkeypatch.setattr("shiftproof.certification.sampling.estimate.RATE_SECONDS", 0.05)
    estimate = estimate_study(parse_study(CERTIFIED, "certified", "certified"))
    costs = [cost for cost in estimate.costs if cost.stage.startswith("certify, ")]
    samples = estimate.costs[1].forward_passes
    assert costs[0].forward_passes == samples * 320
    assert costs[1].forward_passes < samples * 120
    assert costs[1].most_seconds >= costs[1].seconds


def test_a_study_may_ask_for_certificates_alone(tmp_path: Path) -> None:
    probes = '\nprobes: [{name: certify, certifier: {noise: "gaussian:0.25", n: 100, n0: 10}}]\n'
    run = run_study(parse_study(f"{SMALL}\nlimit: 40\n{probes}", "alone", "alone"), tmp_path / "run")
    page = run.export()[0].read_text()
    assert "What is guaranteed" in page
    assert "domain by domain" not in page


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("probes: [{name: certify, alphas: [0.001]}]", "each should be named once"),
        ("probes: [{name: certify, alphas: [[0.1]]}]", "alphas are"),
        ("probes: [{name: certify, alphas: x}]", "alphas are"),
        ("probes: [{name: corrupt, corruptions: 3}]", "corruptions are 3"),
        ("at_top: true", "only one model can lie at the top"),
    ],
)
def test_values_that_no_probe_or_study_takes_are_one_sentence(change: str, sentence: str) -> None:
    key = change.split(":")[0]
    text = "\n".join(line for line in SMALL.splitlines() if not line.startswith(f"{key}:"))
    with pytest.raises(StudyError, match=sentence):
        parse_study(f"{text.split('probes:')[0] if key == 'probes' else text}\n{change}\n", "s", "s")


def test_a_study_is_the_same_from_wherever_it_is_run(images: Callable[..., Path], tmp_path: Path) -> None:
    images(count=3)
    (tmp_path / "s.yaml").write_text("data: {name: 'folder:images', size: 8}\nmodels: {a: {model: mlp}}\n")
    here = find_study("s.yaml")
    (tmp_path / "below").mkdir()
    os.chdir(tmp_path / "below")
    assert find_study("../s.yaml").to_config() == here.to_config() == find_study(str(tmp_path / "s.yaml")).to_config()


def test_what_is_no_study_is_refused() -> None:
    for value in (3, None, {"data": "digits"}):
        with pytest.raises(UsageError, match="should be a Study"):
            run_study(value)  # type: ignore[arg-type]
