"""Leave-one-out: a study run once for each domain that is left out, and the page about all runs."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shiftproof.errors import DataError, StudyError, UsageError
from shiftproof.report.claims import RunEvidence, judge_claims, judge_over_targets
from shiftproof.runs import find_study, parse_study, run_study
from shiftproof.runs.leave_one_out import LeaveOneOut, open_leave_one_out, run_leave_one_out
from shiftproof.runs.verify_leave_one_out import check_leave_one_out

Run = Callable[..., tuple[int, str, str]]
PLACES = ("sources", "target")
STUDY = """
title: Does it hold on an angle that was left out?
data: rotated-digits
leave_out: [angle=0, angle=45]
limit: 40
seeds: [0, 1, 2]
models:
  clean: {model: {name: mlp, width: 16}, objective: erm, training: {steps: 40}}
  robust: {model: {name: mlp, width: 16}, objective: {name: gaussian, sigma: 0.25}, training: {steps: 40}}
probes:
  - clean
  - {name: attack, attack: {name: pgd, threat: "linf:8/255", steps: 2}, eps: [4/255]}
  - {name: certify, certifier: {name: randomized-smoothing, noise: "gaussian:0.25", n: 100}}
published:
  - document: "000"
    table: Table 2
    dataset: PACS
    methods:
      "ResNet-50 DomainBed, standard (train eps=0)": {model: clean}
claims:
  - {id: C1, says: it is right more often, metric: accuracy, model: clean, above: robust, effect: 0.9}
  - {id: C2, says: radii are about as long, metric: acr, model: clean, near: robust, effect: 3}
  - {id: C3, says: it loses accuracy on the way, metric: accuracy, model: clean, below: {domain: sources}, effect: 0}
  - id: C4
    says: what gains radius on the sources gains it on the target
    metric: acr
    model: clean
    below: robust
    effect: 0
    parts: [{domain: sources}, {}]
"""


@pytest.fixture(scope="module")
def study_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "angles.yaml"
    path.write_text(STUDY)
    return path


@pytest.fixture(scope="module")
def found(study_file: Path) -> LeaveOneOut:
    out = study_file.parent / "out"
    result = run_leave_one_out(str(study_file), out, workers=1, progress="off")
    result.export()
    return result


def mean_over(found: LeaveOneOut, model: str, domains: Callable[[str], list[str]]) -> float:
    """Accuracy over runs, domains of a run and seeds, each weighing the same, counted from evidence."""
    shares = []
    for run, target in zip(found.runs, found.targets, strict=True):
        for name in domains(target):
            rows = run.evidence.where(model=model, domain=name, probe="clean")
            shares.append(np.mean([(one["prediction"] == one["label"]).mean() for one in rows]))
    return float(np.mean(shares))


def right(found: LeaveOneOut, model: str, target: str, **facts: object) -> list[float]:
    """The share that is right on a target, for each seed, counted from evidence."""
    run = found.runs[found.targets.index(target)]
    rows = list(run.evidence.where(model=model, domain=target, **facts))
    return [float((one["prediction"] == one["label"]).mean()) for one in rows]


class TestRuns:
    def test_every_run_leaves_out_its_own_domain(self, found: LeaveOneOut) -> None:
        assert found.targets == ("angle=0", "angle=45")
        assert [run.folder.name for run in found.runs] == ["without-angle=0", "without-angle=45"]
        for run, target in zip(found.runs, found.targets, strict=True):
            assert run.study.targets == (target,)
            assert len(run.record["sources"]) == 5
            assert target not in run.record["sources"]
        assert repr(found).endswith("angle=0, angle=45 left out, one run for each)")

    def test_a_run_is_that_of_the_same_study_with_a_target(self, found: LeaveOneOut, tmp_path: Path) -> None:
        text = STUDY.replace("leave_out: [angle=0, angle=45]", "target: angle=45").split("published:")[0]
        (tmp_path / "one.yaml").write_text(text)
        alone = run_study(find_study(str(tmp_path / "one.yaml")), tmp_path / "alone", workers=1, progress="off")
        for one, other in zip(found.runs[1].evidence, alone.evidence, strict=True):
            assert (one.model, one.domain, one.title) == (other.model, other.domain, other.title)
            assert np.array_equal(one["prediction"], other["prediction"])

    def test_a_second_call_computes_nothing_again(self, found: LeaveOneOut, study_file: Path) -> None:
        before = {path: path.stat().st_mtime_ns for path in found.folder.rglob("*.parquet")}
        again = run_leave_one_out(str(study_file), found.folder, workers=1, progress="off")
        assert again.targets == found.targets
        assert {path: path.stat().st_mtime_ns for path in found.folder.rglob("*.parquet")} == before

    def test_opens_from_its_folder(self, found: LeaveOneOut) -> None:
        opened = open_leave_one_out(found.folder)
        assert opened.targets == found.targets
        assert opened.content.to_json() == found.content.to_json()


class TestPage:
    def test_figures_are_those_of_the_evidence(self, found: LeaveOneOut) -> None:
        rows = found.content.sections["accuracy"].to_json()
        for model in ("clean", "robust"):
            each = {target: float(np.mean(right(found, model, target, probe="clean"))) for target in found.targets}
            told = {
                row["target"]: row["value"]
                for row in rows
                if (row["model"], row["measure"], row["figure"]) == (model, "as they are", "accuracy")
            }
            assert told == pytest.approx({**each, "mean over targets": np.mean(list(each.values()))})
        radii = found.content.sections["certified"].to_json()
        for target, run in zip(found.targets, found.runs, strict=True):
            rows_of = list(run.evidence.where(model="clean", probe="certify", domain=target))
            expected = np.mean(
                [np.where(one["prediction"] == one["label"], one["radius"], 0).mean() for one in rows_of]
            )
            (told_radius,) = [
                row["value"]
                for row in radii
                if (row["model"], row["target"], row["figure"]) == ("clean", target, "mean radius on the target")
            ]
            assert told_radius == pytest.approx(expected)

    def test_what_is_lost_of_a_radius_is_a_share_too(self, found: LeaveOneOut) -> None:
        section = found.content.sections["certified"]
        told = {(row["target"], row["figure"]): row["value"] for row in section.to_json() if row["model"] == "clean"}
        for target in found.targets:
            there, here = (told[target, f"mean radius on the {place}"] for place in PLACES)
            assert told[target, "lost from sources"] == pytest.approx(there - here)
            assert told[target, "share lost from sources"] == pytest.approx(1 - here / there)
        (row,) = [one for one in section.tables()[0].rows if str(one.cells[0]) == "clean"]
        for cell, target in zip(row.cells[1:], found.targets, strict=False):
            assert cell.below[1].endswith(f", {told[target, 'share lost from sources']:+.1%}")
        # of all targets, it is a share of the mean radius on their sources
        means = [np.mean([told[one, f"mean radius on the {place}"] for one in found.targets]) for place in PLACES]
        assert row.cells[-1].below[1].endswith(f", {1 - means[1] / means[0]:+.1%}")

    def test_what_was_published_stands_beside_the_mean_over_targets(self, found: LeaveOneOut) -> None:
        rows = {row.metric: row for row in found.content.published if row.model}
        assert rows["accuracy"].published == pytest.approx(0.8423)
        each = [np.mean(right(found, "clean", target, probe="clean")) for target in found.targets]
        assert rows["accuracy"].ours is not None
        assert rows["accuracy"].ours.value == pytest.approx(np.mean(each))
        assert rows["attacked"].level == pytest.approx(8 / 255)
        assert rows["attacked"].published == pytest.approx(0.4029)
        assert not found.runs[0].study.published

    def test_files_are_written(self, found: LeaveOneOut) -> None:
        page = (found.folder / "report.html").read_text()
        for heading in ("What the study claims", "On the domain that was left out", "How far apart"):
            assert heading in page
        found.export(["reproduction"], found.folder / "pages")
        text = (found.folder / "pages" / "angles.md").read_text()
        assert "| C1 | it is right more often | contradicted" in text
        assert (found.folder / "pages" / "angles" / "certified-gaussian.svg").read_bytes().startswith(b"<svg")
        with pytest.raises(UsageError, match="junit is of one run"):
            found.export(["junit"])


class TestClaims:
    def test_verdicts_are_about_the_mean_over_targets(self, found: LeaveOneOut) -> None:
        first, second, *_ = found.claims
        assert (first.verdict, second.verdict) == ("contradicted", "supported")
        part = first.parts[0]
        assert "the domains that were left out" in part.sentence
        each = [
            np.mean(right(found, "clean", target, probe="clean"))
            - np.mean(right(found, "robust", target, probe="clean"))
            for target in found.targets
        ]
        assert part.difference is not None
        assert part.difference.value == pytest.approx(np.mean(each))
        assert part.published_this == pytest.approx(0.8423)

    def test_of_one_run_they_are_its_own(self, found: LeaveOneOut) -> None:
        run, target = found.runs[0], found.targets[0]
        sources = run.record["sources"]
        measured = RunEvidence(run.evidence, target, run.study.seed, tuple(sources))
        alone = judge_over_targets(run.study.claims, [measured])
        assert alone == judge_claims(run.study.claims, run.evidence, (), target, run.study.seed, sources) == run.claims

    def test_sources_are_the_mean_over_the_domains_that_trained(self, found: LeaveOneOut) -> None:
        every = found.runs[0].record["sources"] + ["angle=0"]
        lost = found.claims[2].parts[0]
        assert lost.this is not None
        assert lost.that is not None
        assert "of clean on the domains that were left out is below that on their sources" in lost.sentence
        assert lost.this.value == pytest.approx(mean_over(found, "clean", lambda target: [target]))
        apart = mean_over(found, "clean", lambda target: [name for name in every if name != target])
        assert lost.that.value == pytest.approx(apart)
        assert lost.that.low < apart < lost.that.high
        on_sources, on_target = found.claims[3].parts
        assert on_sources.difference is not None
        assert on_target.difference is not None
        assert on_sources.difference.value != on_target.difference.value

    def test_without_sources_nothing_is_measured_there(self, found: LeaveOneOut) -> None:
        run = found.runs[0]
        lost = judge_claims(run.study.claims, run.evidence, (), "angle=0")[2]
        assert lost.verdict == "not measured"
        assert "not measured on sources" in lost.why

    def test_what_was_changed_stands_first_and_published_figures_are_of_their_own_data(self, study_file: Path) -> None:
        text = study_file.read_text()
        study = parse_study(text, "angles.yaml", "angles", ["limit=5", "data=folder:/somewhere/mine"])
        assert study.published == ()
        assert study.about.startswith("Changed from the study as it is written")
        assert "limit=5, data=folder:mine" in study.about
        assert "Published figures are of rotated-digits, and are left out." in study.about
        same = parse_study(text, "angles.yaml", "angles", ["limit=5"])
        assert same.published
        assert parse_study(text, "angles.yaml", "angles").about == ""

    def test_two_runs_know_more_than_one(self, found: LeaveOneOut) -> None:
        # what is about sources shares samples between runs (test_differences_over_runs)
        for over, *alone in zip(found.claims[:2], *(run.claims[:2] for run in found.runs), strict=True):
            wide = [one.parts[0].difference for one in alone]
            mean = over.parts[0].difference
            assert mean is not None
            halves = [one.high - one.value for one in wide if one is not None]
            assert mean.high - mean.value == pytest.approx(np.hypot(*halves) / 2, rel=0.02)


class TestRefusals:
    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ("limit: 40", "target: angle=15", "leave target out"),
            ("limit: 40", "source: angle=15", "leave source out"),
            ("[angle=0, angle=45]", "[angle=0, angle=0]", "'angle=0' is named twice"),
            ("effect: 0.9}", "effect: 0.9, domain: angle=0}", "about the domain that is left out; leave domain out"),
            ("dataset: PACS", "dataset: PACS, domain: angle=0".replace(", ", "\n    "), "leave domain out"),
        ],
    )
    def test_what_contradicts_it_is_a_sentence(self, old: str, new: str, said: str, tmp_path: Path) -> None:
        assert old in STUDY
        (tmp_path / "s.yaml").write_text(STUDY.replace(old, new, 1))
        with pytest.raises(StudyError, match=said):
            find_study(str(tmp_path / "s.yaml"))

    def test_domains_that_there_are_not(self, study_file: Path, tmp_path: Path, run: Run) -> None:
        code, _, error = run("run", study_file, "--set", "leave_out=[angle=46]", "--out", tmp_path / "x")
        assert code == 1
        assert "there is no domain 'angle=46' in rotated-digits, which has angle=0" in error
        assert "--set leave_out=each" in error
        code, _, error = run(
            "run", study_file, "--set", "data=digits", "--set", "leave_out=each", "--out", tmp_path / "x"
        )
        assert code == 1
        assert "nothing is left to train on" in error
        assert not (tmp_path / "x").exists()

    def test_it_is_not_run_as_one(self, study_file: Path) -> None:
        with pytest.raises(UsageError, match="leaves out one domain after another"):
            run_study(find_study(str(study_file)), progress="off")

    def test_a_folder_of_a_run_is_kept(self, found: LeaveOneOut, study_file: Path) -> None:
        with pytest.raises(UsageError, match="is a run, and not the folder"):
            run_leave_one_out(str(study_file), found.runs[0].folder, progress="off")

    @pytest.mark.parametrize("content", ['{"runs": []}', '{"runs": ["../x"]}', "[]", '{"runs": ["a"], "published": 3}'])
    def test_a_damaged_record_is_a_sentence(self, content: str, tmp_path: Path) -> None:
        (tmp_path / "leave-one-out.json").write_text(content)
        with pytest.raises(DataError, match=r"leave-one-out.json"):
            open_leave_one_out(tmp_path)


class TestCommandLine:
    def test_run_tells_every_target_and_continues(self, found: LeaveOneOut, study_file: Path, run: Run) -> None:
        code, out, error = run("run", study_file, "--out", found.folder, "--workers", "1")
        assert code == 0, error
        assert "leaving out angle=45 (2 of 2)" in error
        for word in ("angle=0", "over 2 targets", "contradicted: C1", "supported: C2"):
            assert word in out
        assert str(found.folder / "report.html") in out.replace("\n", "")

    def test_json_and_requirements(self, found: LeaveOneOut, study_file: Path, run: Run) -> None:
        asked = ("run", study_file, "--out", found.folder, "--workers", "1", "--json", "--require")
        code, out, _ = run(*asked, "clean>=0.999")
        assert code == 2
        told = json.loads(out.splitlines()[-1])
        assert list(told["runs"]) == list(found.targets)
        assert [one["verdict"] for one in told["claims"]][:2] == ["contradicted", "supported"]
        assert not told["requirements"]["angle=45"][0]["met"]

    def test_report_and_verify_take_the_folder(self, found: LeaveOneOut, tmp_path: Path, run: Run) -> None:
        code, out, error = run("report", found.folder, "--format", "reproduction", "--out", tmp_path)
        assert code == 0, error
        assert "angles.md" in out
        code, out, error = run("verify", found.folder, "--part", "2", "--seed", "1")
        assert code == 0, out + error
        assert "nothing is broken" in out

    def test_a_run_of_it_is_asked_for_where_one_run_is_needed(self, found: LeaveOneOut, run: Run) -> None:
        code, _, error = run("compare", found.folder, found.folder)
        assert code == 1
        assert "is a leave-one-out, which has a run for each domain: name one of these" in error

    @pytest.mark.parametrize(
        ("name", "old", "new", "said"),
        [
            ("report.html", "mean over", "mean of", "report.html does not say what the runs give"),
            ("tables/claims.csv", "contradicted", "supported", "claims.csv does not say what the runs give"),
            ("leave-one-out.json", '"PACS"', '"VLCS"', "leave-one-out.json was edited"),
            ("leave-one-out.json", '"without-angle=45"', "", "does not name without-angle=45"),
        ],
    )
    def test_verify_looks_at_what_is_said_of_all_runs(
        self, name: str, old: str, new: str, said: str, found: LeaveOneOut, tmp_path: Path
    ) -> None:
        folder = tmp_path / "copy"
        shutil.copytree(found.folder, folder)
        assert all(one.level != "fail" for one in check_leave_one_out(open_leave_one_out(folder)))
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(re.sub(r",(\s*\])", r"\1", text.replace(old, new)))
        failed = [one.message for one in check_leave_one_out(open_leave_one_out(folder)) if one.level == "fail"]
        assert any(said in one for one in failed), failed

    def test_runs_that_changed_places_are_noticed(self, found: LeaveOneOut, tmp_path: Path) -> None:
        folder = tmp_path / "copy"
        shutil.copytree(found.folder, folder)
        one, other = (folder / f"without-angle={angle}" for angle in (0, 45))
        one.rename(folder / "aside")
        other.rename(one)
        (folder / "aside").rename(other)
        messages = [found.message for found in check_leave_one_out(open_leave_one_out(folder)) if found.level == "fail"]
        assert sum("folders were renamed or swapped" in message for message in messages) == 2

    def test_distances_by_other_features_stand_beside_the_first(
        self, found: LeaveOneOut, tmp_path: Path, run: Run
    ) -> None:
        folder = tmp_path / "copy"
        shutil.copytree(found.folder, folder)
        model, *_ = sorted((folder / "without-angle=0" / "models").glob("robust*.safetensors"))
        asked = ("shift", "--distances", "--run", folder, "--features", f"file:{model}", "--measures", "fid")
        code, _, error = run(*asked, "--limit", "60", "--in-report")
        assert code == 0, error
        again = open_leave_one_out(folder)
        features = {one.features for one in again.content.domain_distances}
        (label,) = features - {one.features for one in found.content.domain_distances}
        assert label.startswith(f"file:{model.stem} (")
        # both stand below the mean radii, for every target, and no folder of this machine is told
        rows = again.content.sections["certified"].tables()[0].rows
        named = {row.cells[0].below[-1]: row for row in rows if row.cells[0].below}
        assert set(named) == {f"features: {one}" for one in features}
        assert all(str(cell) != "-" for cell in named[f"features: {label}"].cells[1:3])
        assert str(tmp_path) not in "".join(path.read_text() for path in folder.glob("tables/*.csv"))

    def test_an_estimate_counts_all_runs(self, study_file: Path, run: Run) -> None:
        code, out, error = run("estimate", study_file, "--json", "--workers", "1")
        assert code == 0, error
        code, single, error = run("estimate", study_file, "--set", "leave_out=[angle=0]", "--json", "--workers", "1")
        assert code == 0, error
        assert json.loads(out)["forward_passes"] == 2 * json.loads(single)["forward_passes"]
