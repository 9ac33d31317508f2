"""Claims in studies: what is refused, what a run keeps, what is shown and required."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import shiftproof as sp
from shiftproof.errors import StudyError, UsageError
from shiftproof.report.claims import beside_published
from shiftproof.runs import parse_study, run_study
from shiftproof.runs.identity import study_identity

pytestmark = pytest.mark.usefixtures("brief_examinations")

Call = Callable[..., tuple[int, str, str]]
SMALL = """
data: colored-digits
target: e=0.9
limit: 60
seeds: [0, 1, 2]
models:
  plain: {model: {name: mlp, width: 16}, training: {steps: 40, batch: 32}}
  gray: {model: {name: mlp, width: 16, gray: true}, training: {steps: 40, batch: 32}}
probes:
  - clean
  - {name: certify, certifier: {noise: "gaussian:0.25", n: 100}}
"""
CLAIMS = """
claims:
  - id: C1
    says: A network that sees no colour is more accurate where colour is reversed
    metric: accuracy
    model: gray
    above: plain
    effect: 0.05
  - id: C2
    says: The one that sees colour is more accurate there
    metric: accuracy
    model: plain
    domain: e=0.9
    above: {model: gray}
    effect: 0.05
  - {id: C3, says: Faces, needs: "data: CelebA", for: the second part of Table 2}
published:
  - document: "001"
    table: Table 2
    dataset: CMNIST
    methods: {GLEAN: {model: gray, by: randomized-smoothing}, Gaussian: plain}
"""
STUDY = SMALL + CLAIMS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("claims") / "run"
    run_study(parse_study(STUDY, "s", "s"), out, progress="off").export()
    return out


def claim(text: str, study: str = SMALL) -> str:
    return f"{study}claims:\n  - {{id: C1, says: words, {text}}}\n"


COMPARED = "metric: accuracy, model: gray, above: plain"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            claim("metric: accuracy, model: gray, above: plain"),
            "line 13: claim C1 does not say its effect: the smallest",
        ),
        (claim("metric: accuracy, model: gray, effect: 0"), "claim C1 does not say its above, below or near"),
        (claim(f"{COMPARED}, below: 0.5, effect: 0"), "line 13: it says both 'above' and 'below'"),
        (claim("metric: accuracy, model: grey, above: plain, effect: 0"), "unknown model 'grey'. Did you mean 'gray'?"),
        (claim("metric: accuracy, model: gray, above: plane, effect: 0"), "unknown model 'plane'"),
        (claim("metric: accuracy, model: gray, above: gray, effect: 0"), "compares gray on e=0.9 with itself"),
        (
            claim("metric: accuracy, model: gray, by: randomized-smoothing, near: {by: latent-margin}, effect: 0.1"),
            "with itself",
        ),
        (claim("metric: acurracy, model: gray, above: plain, effect: 0"), "unknown metric 'acurracy'"),
        (claim("metric: certified, model: gray, above: plain, effect: 0"), "the metric 'certified' needs a size"),
        (claim('metric: "certified@[0, x]", model: gray, above: plain, effect: 0'), "can't read the sizes"),
        (claim("metric: 3, model: gray, above: plain, effect: 0"), "can't read the metric 3"),
        (claim(f"{COMPARED}, effect: -1"), "effect: input should be greater than or equal to 0"),
        (claim("metric: accuracy, model: gray, near: plain, effect: 0"), "'near' needs an effect above 0"),
        (claim(f"{COMPARED}, effect: 0, confidence: 95"), "confidence"),
        (claim(f"{COMPARED}, efect: 0"), "line 13: unknown key 'efect'. Did you mean 'effect'?"),
        (
            claim("metric: acr, model: gray, above: {modle: plain}, effect: 0"),
            "unknown key 'modle'. Did you mean 'model'?",
        ),
        (claim("metric: acr, model: gray, above: {}, effect: 0"), "it says nothing to compare with"),
        (
            claim("metric: accuracy, model: gray, above: {model: [plain, plain]}, effect: 0"),
            "it names the model 'plain' twice",
        ),
        (claim("metric: accuracy, model: gray, above: {domain: []}, effect: 0"), "should have at least 1 item"),
        (claim(f"{COMPARED}, by: nope, effect: 0"), "unknown certifier or probe 'nope'"),
        (STUDY.replace("n: 100", "n: 100, stop: 'radii:0,0.5'"), "decides only the radii 0, 0.5"),
        (
            STUDY + '  - {document: "001", table: Table 2, dataset: CMNIST, methods: {MACER: plain}}\n',
            "Table 2, CMNIST is named twice; put its methods together",
        ),
        (
            STUDY + '  - {document: "001", table: Table 2, dataset: CelebA, study: glean-celebs}\n',
            "line 33: unknown study 'glean-celebs'. Did you mean 'glean-celeba'?",
        ),
        (
            claim("metric: acr, by: latent-margin, model: gray, above: plain, effect: 0"),
            "is certified by randomized-smoothing",
        ),
        (
            claim("metric: acr, by: latent-margn, model: gray, above: plain, effect: 0"),
            "unknown certifier 'latent-margn'",
        ),
        (
            claim("metric: acr, by: {name: randomized-smoothing, sigm: 1}, model: gray, above: 0, effect: 0"),
            "unknown option of",
        ),
        (claim("needs: a GPU"), "it should be 'paper scale', or name data"),
        (claim("needs: paper scale, model: gray"), "can't be tested here by its 'needs'"),
        (claim(f"{COMPARED}, effect: 0, for: x"), "there is no 'needs'"),
        (STUDY.replace("id: C2", "id: C1"), "there are two claims 'C1'"),
        (STUDY.replace("target: e=0.9", ""), "does not say on which domain"),
        (STUDY.replace('"001"', "001"), 'write its number as text: "001"'),
        (STUDY.replace('"001"', '"009"'), "unknown document with published numbers '009'"),
        (STUDY.replace("Table 2\n    dataset", "Table 9\n    dataset"), "unknown table of document 001 'Table 9'"),
        (STUDY.replace("GLEAN:", "GLEEN:"), "unknown method of Table 2, CMNIST in document 001 'GLEEN'"),
        (STUDY.replace("Gaussian: plain", "Gaussian: plan"), "unknown model 'plan'"),
        (
            claim("metric: certified@0.3, model: gray, above: plain, effect: 0").replace(
                "n: 100", "n: 100, stop: 'radii:0.25'"
            ),
            "decides only the radii",
        ),
    ],
)
def test_what_is_wrong_is_a_sentence_when_the_study_is_read(text: str, said: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse_study(text, "s", "s")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_certificate_that_is_not_told_from_another_is_refused() -> None:
    more = SMALL + '  - {name: certify, certifier: {noise: "gaussian:0.5", n: 100}}\n'
    text = "metric: acr, model: gray, above: plain, effect: 0"
    with pytest.raises(StudyError, match="2 certificates are meant"):
        parse_study(claim(text, more), "s", "s")
    by = 'by: {name: randomized-smoothing, noise: "gaussian:0.5"}'
    assert parse_study(claim(f"{text}, {by}", more), "s", "s").claims[0].by is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (claim(f"{COMPARED}, effect: 0, domain: e=0.3"), "claim C1 names the domain 'e=0.3'; measured are"),
        (claim("metric: corrupted, model: gray, above: plain, effect: 0"), "is about corrupted, which no probe"),
        (STUDY.replace("dataset: CMNIST", "dataset: CMNIST\n    domain: moon"), "there is no domain 'moon'"),
        (claim('metric: "attacked@l2:0.5", model: gray, above: plain, effect: 0'), "is about attacked@l2:0.5"),
        (claim("metric: certified@2, model: gray, above: plain, effect: 0"), "can be larger than 0.3"),
    ],
)
def test_what_will_not_be_measured_is_refused_before_anything_is_trained(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        run_study(parse_study(text, "s", "s"), tmp_path / "run", progress="off")
    assert said in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_claims_are_written_down_and_change_no_identity() -> None:
    study, silent = parse_study(STUDY, "s", "s"), parse_study(SMALL, "s", "s")
    assert study_identity(study) == study_identity(silent)
    assert "claims" not in silent.to_config()
    again = sp.runs.Study.model_validate(json.loads(json.dumps(study.to_config())))
    assert (again.claims, again.published) == (study.claims, study.published)
    several = claim(
        'metric: "certified@[0, 0.25]", by: {name: randomized-smoothing, n: 100}, model: gray, near: 0.5, effect: 1'
    )
    study = parse_study(several, "s", "s")
    assert study.to_config()["claims"][0]["metric"] == "certified@[0.0, 0.25]"
    assert sp.runs.Study.model_validate(study.to_config()).claims == study.claims


def test_a_run_judges_the_claims_that_it_began_with(folder: Path) -> None:
    run = sp.open_run(folder)
    assert [(one.id, one.verdict) for one in run.claims] == [
        *(("C1", "supported"), ("C2", "contradicted"), ("C3", "needs data: CelebA"))
    ]
    changed = STUDY.replace("effect: 0.05\n  - id: C2", "effect: 0.9\n  - id: C2")
    again = run_study(parse_study(changed, "s", "s"), folder, progress="off")
    assert again.study.claims == run.study.claims
    (warning,) = [one for one in again.findings if one.code == "claims-changed"]
    assert "(C1)" in warning.message
    # also one that made none before
    assert not [
        one
        for one in run_study(parse_study(STUDY, "s", "s"), folder, progress="off").findings
        if one.code == "claims-changed"
    ]


def test_another_model_beside_a_published_method_is_said(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    changed = run_study(parse_study(STUDY.replace("Gaussian: plain", "Gaussian: gray"), "s", "s"), copy, progress="off")
    (warning,) = [one for one in changed.findings if one.code == "published-changed"]
    assert "Table 2, CMNIST" in warning.message
    (row,) = [one for one in changed.content().published if (one.method, one.metric) == ("Gaussian", "acr")]
    assert row.model == "gray"


def test_page_files_and_figures_beside_published_ones(folder: Path) -> None:
    run = sp.open_run(folder)
    page = run.report().read_text()
    assert page.index("What the study claims") < page.index("What we found")
    assert "Of 3 claims: 1 supported, 1 contradicted, 1 needs data: CelebA." in page
    lines = (folder / "tables" / "claims.csv").read_text().splitlines()
    assert lines[0].startswith("claim,says,verdict,why,p,p against,confidence,part,sentence")
    assert len(lines) == 4
    stored = json.loads((folder / "report.json").read_text())["sections"]["claims"]
    assert [one["verdict"] for one in stored] == ["supported", "contradicted", "needs data: CelebA"]
    assert stored[0]["parts"][0]["difference"]["value"] > 0.05
    rows = beside_published(run.evidence, run.study.published, run.study.only_target)
    assert [(one.method, one.metric, one.level) for one in rows[:2]] == [
        ("GLEAN", "certified", 0.0),
        ("GLEAN", "certified", 0.05),
    ]
    # the table has five methods; the study has two of them, and the other three are rows without a figure of ours
    assert len(rows) == 5 * 11
    assert {one.method for one in rows if one.model} == {"GLEAN", "Gaussian"}
    assert all(one.ours is None for one in rows if not one.model)
    acr = next(one for one in rows if one.metric == "acr" and one.method == "Gaussian")
    assert (acr.published, acr.model, acr.domain) == (0.0458, "plain", "e=0.9")
    series = next(one for one in run.content().series if (one.model, one.domain) == ("plain", "e=0.9"))
    assert acr.ours is not None
    assert acr.ours.value == pytest.approx(series.mean_radius())


def test_verify_finds_nothing_wrong_with_claims(folder: Path, run: Call) -> None:
    code, out, err = run("verify", folder)
    assert code == 0, out + err


def test_terminal_json_and_requirement(folder: Path, tmp_path: Path, run: Call) -> None:
    study = tmp_path / "s.yaml"
    study.write_text(STUDY)
    code, out, _ = run("run", study, "--out", folder)
    assert code == 0
    assert "contradicted: C2" in out
    # with the difference that decides it
    assert "difference" in out.split("contradicted: C2")[1].splitlines()[0]
    code, out, _ = run("run", study, "--out", folder, "--require", "claims")
    assert code == 2
    assert "claims is not met: supported: C1; contradicted: C2; needs data: CelebA: C3" in out.replace("\n", " ")
    code, out, _ = run("run", study, "--out", folder, "--json")
    assert code == 0
    assert [one["id"] for one in json.loads(out.splitlines()[-1])["claims"]] == ["C1", "C2", "C3"]
    assert "What was required" in (folder / "report.html").read_text()


def test_a_study_without_claims_can_not_be_required_to_have_any(tmp_path: Path, run: Call) -> None:
    study = tmp_path / "s.yaml"
    study.write_text(SMALL)
    for text, said in (("claims", "the study makes no claims"), ("claims>=0.5", "should read 'claims' alone")):
        code, _, err = run("run", study, "--out", tmp_path / "run", "--require", text)
        assert code == 1
        assert said in err
        assert not (tmp_path / "run").exists()
