"""Sweeps, scales, models with probes and sources of their own, and cells in worker processes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import shiftproof as sp
from shiftproof.errors import StudyError, UnknownName, UsageError
from shiftproof.execution.tables import hash_table
from shiftproof.execution.workers import always_in_workers
from shiftproof.runs import Study, open_run, parse_study, run_study
from shiftproof.runs.estimate import estimate_study
from shiftproof.runs.identity import digest, study_identity
from shiftproof.runs.verify import verify_folder

SWEEP = """
data: colored-digits
target: e=0.9
seeds: [0, 1]
limit: 40
prefix: {e=0.1: 0, e=0.2: 5, e=0.9: 10}
models:
  votes:
    model: {name: mlp, width: 16}
    objective: {name: gaussian, sigma: 0.25}
    training: &few {steps: 10, batch: 32}
    probes: [{name: certify, certifier: {noise: "gaussian:0.25", n: 100}}]
  margins:
    model: {name: mlp-cayley, width: 16}
    objective: {name: glean, anneal: 5}
    training: *few
    vary: {objective.irm_weight: [10, 1.0e+4]}
    probes: [{name: certify, certifier: latent-margin}]
  one source:
    model: {name: mlp, width: 16}
    training: *few
    source: e=0.1
"""


def parsed(text: str, scale: str | None = None) -> Study:
    return parse_study(text, "s.yaml", "s", scale=scale)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> sp.Run:
    return run_study(parsed(SWEEP), tmp_path_factory.mktemp("sweep") / "run", progress="off")


def test_a_sweep_is_one_model_for_every_value_and_its_name_says_which() -> None:
    study = parsed(SWEEP)
    assert list(study.models) == ["votes", "margins, irm_weight 10", "margins, irm_weight 10000", "one source"]
    weights = [study.models[name].objective.to_config()["irm_weight"] for name in list(study.models)[1:3]]
    assert weights == [10.0, 10_000.0]
    assert study.models["margins, irm_weight 10"].varied == {"objective.irm_weight": 10}
    # what is written out makes the same study again
    assert Study.model_validate(study.to_config()).to_config() == study.to_config()


def test_a_sweep_at_the_top_is_for_every_model_that_is_trained_and_options_combine() -> None:
    text = "data: colored-digits\nvary: {training.lr: [0.1, 0.01], model.width: [8, 16]}\nmodels: {a: {model: mlp}}\n"
    study = parsed(text)
    names = [f"a, lr {lr}, width {width}" for lr in (0.1, 0.01) for width in (8, 16)]
    assert list(study.models) == names
    assert study.models["a, lr 0.01, width 8"].recipe.lr == 0.01
    assert study.models["a, lr 0.01, width 8"].model.options == {"width": 8}


@pytest.mark.parametrize(
    ("vary", "sentence"),
    [
        ("{objective.sigma: 0.1}", "the values of objective.sigma should be a list"),
        ("[objective.sigma]", "should map options to lists of values"),
        ("{objective.sigma: [0.1, 0.1]}", "a value of objective.sigma is named twice"),
        ("{probes: [[clean]]}", "probes is not an option of a model or its training"),
        ("{training.steps: []}", "the values of training.steps should be a list"),
        ("{objective.sigmas: [1]}", "sigmas"),
        ("{training.steps: [5, 8], training: [{lr: 0.01}]}", "a value of training is a list or a mapping"),
        ("{model.width: [8], model: [mlp, cnn]}", "model.width is an option of model, which is swept over, too"),
        ("null", "it should map options to lists of values"),
        (f"{{model.width: [1{'0' * 400}]}}", "width"),
    ],
)
def test_a_sweep_that_means_nothing_is_refused_with_a_sentence(vary: str, sentence: str) -> None:
    text = f"data: colored-digits\nmodels:\n  a:\n    model: mlp\n    objective: gaussian\n    vary: {vary}\n"
    with pytest.raises(StudyError, match=r"^s.yaml, line \d+: ") as refused:
        parsed(text)
    assert sentence in str(refused.value)


def test_the_first_scale_is_the_usual_one_and_its_name_changes_no_number() -> None:
    scales = "scales:\n  cpu: {cap: 2m}\n  paper: {limit: 99, models: {votes: {training: {steps: 500}}}}\n"
    usual, paper = parsed(SWEEP + scales), parsed(SWEEP + scales, "paper")
    assert (usual.scale, usual.cap, usual.limit, usual.models["votes"].recipe.steps) == ("cpu", "2m", 40, 10)
    assert (paper.scale, paper.cap, paper.limit, paper.models["votes"].recipe.steps) == ("paper", None, 99, 500)
    # what a scale does not change stays, in a model that it changes too
    assert paper.models["votes"].recipe.batch == 32
    assert digest(study_identity(usual)) == digest(study_identity(parsed(SWEEP))) != digest(study_identity(paper))


@pytest.mark.parametrize(
    ("scales", "asked", "sentence"),
    [
        ("scales: {cpu: {}}", "papper", "unknown scale 'papper'"),
        ("", "paper", "the study has no scales"),
        ("scales: [cpu]", None, "should map names to changes"),
        ("scales: {cpu: {limitt: 3}}", None, "limitt"),
        ("scales: {1: {limitt: 3}}", "1", "limitt"),
    ],
)
def test_a_scale_that_there_is_not_is_refused(scales: str, asked: str | None, sentence: str) -> None:
    with pytest.raises(StudyError, match=sentence):
        parsed(f"data: colored-digits\nmodels: {{a: {{model: mlp}}}}\n{scales}\n", asked)


def test_a_model_is_measured_by_its_own_probes_on_its_own_sources_and_on_targets(swept: sp.Run) -> None:
    measured = {
        (one.model, one.domain, one.probe, len(one["id"])) for one in swept.evidence if one.fact("train_seed") == 0
    }
    clean = {("e=0.1", 40), ("e=0.2", 40), ("e=0.9", 40)}
    margins = ["margins, irm_weight 10", "margins, irm_weight 10000"]
    expected = {(model, domain, "clean", n) for model in ("votes", *margins) for domain, n in clean}
    expected |= {("one source", domain, "clean", n) for domain, n in clean if domain != "e=0.2"}
    # votes take the first samples, and none of a domain with a prefix of 0; margins take a forward pass
    expected |= {("votes", "e=0.2", "certify", 5), ("votes", "e=0.9", "certify", 10)}
    expected |= {(model, domain, "certify", n) for model in margins for domain, n in clean}
    assert measured == expected
    assert {one.domain: one.seen_in_training for one in swept.evidence.where(model="one source", train_seed=0)} == {
        "e=0.1": "no",
        "e=0.9": "no",
    }
    path = next((swept.folder / "models").glob("one-source-0-*.json"))
    assert json.loads(path.read_text())["sources"] == ["e=0.1"]


def test_what_a_model_loses_is_counted_from_its_own_sources(swept: sp.Run) -> None:
    rows = {row.model: row for row in swept.content().accuracy.rows}
    row = rows["one source"]
    assert set(row.accuracy) == {"e=0.1", "e=0.9"}
    assert row.gaps["e=0.9"].value == pytest.approx(row.accuracy["e=0.1"].value - row.accuracy["e=0.9"].value)


def test_a_run_with_sweeps_is_opened_and_verified(swept: sp.Run) -> None:
    again = open_run(swept.folder)
    assert [one.facts for one in again.evidence] == [one.facts for one in swept.evidence]
    assert [one for one in verify_folder(swept.folder, seed=0, part=2) if one.level == "fail"] == []


def test_only_what_is_missing_is_done_again(swept: sp.Run) -> None:
    files = sorted((swept.folder / "evidence").rglob("*.parquet"))
    models = sorted((swept.folder / "models").iterdir())
    before = {path: path.stat().st_mtime_ns for path in [*files, *models]}
    content = {path: open_run(swept.folder).evidence for path in files[:1]}
    for path in files[::2]:
        path.unlink()
    again = run_study(parsed(SWEEP), swept.folder, progress="off")
    after = {path: path.stat().st_mtime_ns for path in before}
    assert [path for path in before if after[path] != before[path]] == files[::2]
    for one, other in zip(content[files[0]], again.evidence, strict=True):
        assert hash_table(one.table.drop(["seconds"])) == hash_table(other.table.drop(["seconds"]))


@pytest.mark.slow
def test_cells_in_workers_end_with_the_same_bits(swept: sp.Run, tmp_path: Path) -> None:
    with always_in_workers():
        other = run_study(parsed(SWEEP), tmp_path / "run", workers=2, progress="off")
    same_bits(swept, other)


@pytest.mark.slow
def test_models_are_trained_in_workers_to_the_same_bits(tmp_path: Path) -> None:
    # one model with three seeds: the first is trained here, the others in two workers, and measured here
    text = SWEEP[: SWEEP.index("  margins:")].replace("seeds: [0, 1]", "seeds: [0, 1, 2]").replace("n: 100", "n: 10")
    alone = run_study(parsed(text), tmp_path / "alone", progress="off")
    with always_in_workers():
        other = run_study(parsed(text), tmp_path / "run", workers=2, progress="off")
    same_bits(alone, other)


def same_bits(run: sp.Run, other: sp.Run) -> None:
    paths = sorted((run.folder / "models").glob("*.safetensors"))
    assert paths
    for path in paths:
        one, two = load_file(path), load_file(other.folder / "models" / path.name)
        assert all(torch.equal(one[key], two[key]) for key in one)
    for here, there in zip(run.evidence, other.evidence, strict=True):
        assert here.facts == there.facts
        assert hash_table(here.table.drop(["seconds"])) == hash_table(there.table.drop(["seconds"]))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("    source: e=0.9\n", "'e=0.9' is both source and target"),
        ("    probes: [clean]\n", "the same probe is listed twice"),
        ("    probes: [corrupt]\nbudget: 5m\n", "a budget chooses probes for all models"),
        ("    train: false\n", "is a network without training"),
    ],
)
def test_sources_and_probes_of_a_model_that_can_not_be(change: str, sentence: str) -> None:
    with pytest.raises(StudyError, match=sentence):
        parsed(f"data: colored-digits\ntarget: e=0.9\nmodels:\n  a:\n    model: mlp\n{change}")


def test_a_domain_that_there_is_not(tmp_path: Path) -> None:
    for key in ("models: {a: {model: mlp, source: e=0.3}}", "models: {a: {model: mlp}}\nprefix: {e=0.3: 1}"):
        with pytest.raises(UnknownName, match=r"e=0\.3"):
            run_study(parsed(f"data: colored-digits\ntarget: e=0.9\n{key}\n"), tmp_path / "run", progress="off")
    assert not (tmp_path / "run").exists()


def test_models_of_a_sweep_are_tried_once_and_cost_what_their_probes_measure() -> None:
    cost = estimate_study(parsed(SWEEP))
    stages = {(one.model, one.stage): one.forward_passes for one in cost.costs}
    assert stages["margins, irm_weight 10", "training"] == stages["margins, irm_weight 10000", "training"]
    # two seeds; votes of 5 and 10 samples, at most 100 + 100 each
    assert stages["votes", "certify, gaussian 0.25"] == 2 * 15 * 200
    assert stages["one source", "clean"] == 2 * 80


@pytest.mark.parametrize(
    ("model", "domain", "metric"), [("one source", "e=0.2", "accuracy"), ("votes", "e=0.1", "acr")]
)
def test_a_claim_about_what_will_not_be_measured(model: str, domain: str, metric: str, tmp_path: Path) -> None:
    claim = f"{{id: C, says: So, model: {model}, domain: {domain}, metric: {metric}, above: 0.1, effect: 0.1}}"
    with pytest.raises(UsageError, match=f"claim C is about {metric} of {model} on {domain}"):
        run_study(parsed(f"{SWEEP}claims: [{claim}]\n"), tmp_path / "run", progress="off")
    assert not (tmp_path / "run").exists()


def test_a_run_that_lacks_evidence_of_a_seed_is_verified_without_a_crash(swept: sp.Run, tmp_path: Path) -> None:
    shutil.copytree(swept.folder, tmp_path / "run")
    next((tmp_path / "run" / "evidence" / "votes-0").rglob("clean*.parquet")).unlink()
    codes = {one.code for one in verify_folder(tmp_path / "run", seed=0, part=2) if one.level == "fail"}
    assert codes == {"rows-missing"}


@pytest.mark.parametrize(
    "override",
    [
        "training.lr=0.5",
        "models.a.training.lr=0.5",
        "training={lr: 0.5}",
        "models.a.training={lr: 0.5}",
        "models. a.training. lr=0.5",
    ],
)
def test_setting_what_is_swept_over_is_refused(override: str) -> None:
    said = "would have no effect on 'a', which is trained with several values of training.lr"
    own = "data: colored-digits\nmodels: {a: {model: mlp, vary: {training.lr: [0.1, 0.01]}}, b: {model: mlp}}\n"
    shared = "data: colored-digits\nvary: {training.lr: [0.1, 0.01]}\nmodels: {a: {model: mlp}}\n"
    for text in (own, shared):
        with pytest.raises(UsageError, match=said):
            parse_study(text, "s", "s", [override])
    assert parse_study(own, "s", "s", ["models.b.training.lr=0.5"]).models["b"].recipe.lr == 0.5
    assert parse_study(own, "s", "s", ["training.steps=5"]).models["a, lr 0.1"].recipe.steps == 5


def test_an_option_of_another_model_is_left_out_by_null() -> None:
    text = """
data: digits
limit: 20
models: {a: {model: {name: cnn, width: 4}, training: {evaluate_every: 5, steps: 5}}}
scales:
  cpu: {}
  other: {limit: null, models: {a: {model: {name: mlp, width: null}, training: {evaluate_every: null}}}}
"""
    study = parse_study(text, "s", "s", scale="other")
    assert (
        study.models["a"].model.to_config()
        == parse_study("data: digits\nmodels: {a: {model: mlp}}", "s", "s").models["a"].model.to_config()
    )
    assert study.limit is None
    # what has no name keeps its null
    assert study.models["a"].recipe.evaluate_every is None
