"""What stands between an audit and a pipeline: requirements, budgets, and a model that is fed the wrong scale."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shiftproof as sp
from shiftproof.domains import Domain
from shiftproof.execution import HERE, progress_bar
from shiftproof.probes.clean import Clean
from shiftproof.probes.costs import seconds_a_sample
from shiftproof.runs.budget import plan_probes
from shiftproof.runs.scale import scale_findings
from shiftproof.runs.trial import Stopwatch

Run = Callable[..., tuple[int, str, str]]


pytestmark = pytest.mark.usefixtures("least_effort", "brief_examination")


@pytest.fixture
def arguments(images: Callable[..., Path]) -> Callable[..., list[object]]:
    """An audit of a model on images that are bright or dark, as quick as can be."""

    def make(model: str, count: int = 20) -> list[object]:
        root = images(count=count)
        where = ["--data", f"folder:{root}", "--target", "clinic-b", "--model", f"python:{model}"]
        return ["audit", *where, "--threat", "l2:0.1", "--corruptions", "none", "--n", 100, "--seed", 0, "--workers", 1]

    return make


def last(out: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


@pytest.mark.usefixtures("no_trials")
class TestRequire:
    def test_clean_is_the_model_itself_and_clean_vote_the_smoothed_one(
        self, run: Run, arguments: Callable[..., list[object]], tmp_path: Path
    ) -> None:
        audit = [*arguments("misfits:fragile"), "--out", tmp_path / "run", "--json"]
        code, out, _ = run(*audit, "--require", "clean>=0.9", "--require", "clean-vote>=0.9")
        assert code == 2
        itself, vote = last(out)["requirements"]
        assert (itself["met"], itself["classifier"]) == (True, "the model itself")
        assert not vote["met"]
        assert vote["classifier"].startswith("the smoothed classifier")
        assert vote["measured"]["value"] == pytest.approx(0.5)

    def test_the_outcome_stands_first_in_the_report_and_last_in_the_terminal(
        self, run: Run, arguments: Callable[..., list[object]], tmp_path: Path
    ) -> None:
        audit = [*arguments("toys:two_classes"), "--out", tmp_path / "run"]
        code, out, _ = run(*audit, "--require", "clean>=0.5 with 95%", "--require", "clean<=0.1")
        assert code == 2
        *said, path = out.strip().splitlines()[-3:]
        assert path.endswith("report.html")
        assert "clean>=0.5 with 95% is met" in said[0]
        assert "its lower limit is judged" in said[0]
        assert "clean<=0.1 is not met" in said[1]
        page = (tmp_path / "run" / "report.html").read_text()
        assert 0 < page.index("What was required") < page.index("In short")
        assert "clean&lt;=0.1 is not met" in page
        outcomes = sp.open_run(tmp_path / "run").outcomes
        assert [one.met for one in outcomes] == [True, False]
        # what is judged is what the table shows
        shown = sp.open_run(tmp_path / "run").content().measures.rows[0].accuracy["clinic-b"]
        assert outcomes[0].measured == shown

    @pytest.mark.parametrize(
        ("requirement", "said"),
        [
            ("clean>=1.2.3", "can't read the requirement"),
            ("clean>=2", "a part of 1"),
            ("clean:moon>=0.5", "measured are clinic-a, clinic-b"),
            ("attacked@0.7>=0.5", "planned: l2:0.1"),
            ("certified@7>=0.5", "certifies no radius above"),
            ("certified@linf:0.1>=0.5", "planned: l2"),
            ("corrupted>=0.5", "none are planned"),
            ("shift>=0.5", "needs a size"),
            ("claims>=0.5", "should read 'claims' alone"),
            ("clean>=0.5 with 90%", "should end with 95%"),
        ],
    )
    def test_a_bad_one_is_a_sentence_before_anything_is_measured(
        self,
        run: Run,
        arguments: Callable[..., list[object]],
        tmp_path: Path,
        requirement: str,
        said: str,
    ) -> None:
        code, _, err = run(*arguments("toys:two_classes"), "--out", tmp_path / "run", "--require", requirement)
        assert code == 1
        assert said in err
        assert len(err.strip().splitlines()) <= 2
        assert not (tmp_path / "run").exists()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every probe but clean is said to take ten seconds a sample."""

    def each(_: object, probe: Any) -> float:
        return 0.001 if isinstance(probe, Clean) else 10.0

    monkeypatch.setattr(Stopwatch, "__init__", lambda self, *_: setattr(self, "fixed", 0.0))
    monkeypatch.setattr(Stopwatch, "each", each)
    monkeypatch.setattr(Stopwatch, "at_most", lambda self, probe, *_: each(self, probe))


@pytest.mark.usefixtures("brief_trials")
class TestBudget:
    def test_one_that_can_not_be_kept_is_a_sentence_before_the_start(
        self, run: Run, arguments: Callable[..., list[object]], tmp_path: Path
    ) -> None:
        code, out, err = run(*arguments("toys:two_classes"), "--budget", "1s", "--out", tmp_path / "run")
        assert code == 1
        assert "the budget of 1 s can't be kept" in err
        assert "give --budget" in err
        assert out == ""
        assert not (tmp_path / "run").exists()

    @pytest.mark.usefixtures("slow")
    def test_clean_measures_all_and_the_rest_a_prefix_that_all_share(
        self, run: Run, arguments: Callable[..., list[object]], tmp_path: Path
    ) -> None:
        audit = [*arguments("toys:two_classes", 80), "--n", 1000, "--budget", "60m", "--out", tmp_path / "run"]
        code, out, err = run(*audit, "--require", "clean>=0.5", "--json")
        assert code == 0, err
        found = last(out)
        shown = {row["n"]["clinic-b"] for row in found["measures"]}
        assert len(shown) == 1
        (few,) = shown
        assert 20 <= few < 160
        evidence = sp.open_run(tmp_path / "run").evidence.where(domain="clinic-b")
        every = set(evidence.where(probe="clean").column("id"))
        assert len(every) == 160
        for probe in ("attack", "certify"):
            part = set(evidence.where(probe=probe).column("id"))
            assert len(part) == few
            assert part < every
        # the accuracy of all samples is what is required and shown, beside the table of those that are shared
        assert found["requirements"][0]["measured"]["n"] == 160
        page = (tmp_path / "run" / "report.html").read_text()
        assert f"clinic-b {few} of 160" in page
        assert "Accuracy, domain by domain" in page
        assert found["time"]["budget"] == "60m"
        # the same command continues, says how far it is, and keeps what the budget was resolved to
        code, out, err = run(*audit)
        assert code == 0, err
        assert "8 of 8 measurements are done" in out
        assert f"clinic-b {few}" in out
        assert f"clinic-b {few} of 160" in out
        code, out, err = run("verify", tmp_path / "run", "--part", 2, "--seed", 0, "--trust")
        assert code == 0, out + err

    @pytest.mark.usefixtures("slow")
    def test_certificates_stop_where_their_question_is_decided(
        self, run: Run, arguments: Callable[..., list[object]]
    ) -> None:
        audit = [*arguments("toys:two_classes"), "--n", 1000, "--estimate", "--json"]
        code, out, err = run(*audit, "--budget", "10h", "--require", "certified@0.2>=0.1")
        assert code == 0, err
        assert "stop radii:0,0.1,0.2" in last(out)["probes"][-1]
        assert set(last(out)["costs"]) >= {"clean", "attack, l2 0.1", "certify, gaussian 0.25"}
        code, out, err = run(*audit)
        assert code == 0, err
        assert "stop" not in last(out)["probes"][-1]

    @pytest.mark.usefixtures("slow")
    def test_a_long_audit_says_so_and_how_to_shorten_it(self, run: Run, arguments: Callable[..., list[object]]) -> None:
        code, _, err = run(*arguments("toys:two_classes", 80), "--estimate", "--json")
        assert code == 0
        assert "this takes about" in err
        assert "to shorten it: --budget 20m, a smaller --limit" in err

    def test_an_overrun_is_said(
        self,
        run: Run,
        arguments: Callable[..., list[object]],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def hopeful(asked: Any, models: Any, measured: Any, budget: float, *_: Any, **__: Any) -> Any:
            assert budget == 1.0
            return plan_probes(asked[-1:], models, measured, None, HERE)

        monkeypatch.setattr("shiftproof.runs.plan.plan_probes", hopeful)
        audit = [*arguments("toys:two_classes"), "--budget", "1s", "--limit", 4, "--out", tmp_path / "run", "--json"]
        code, out, err = run(*audit)
        assert code == 0, err
        assert "longer than the budget of 1s" in last(out)["time"]["overrun"]
        assert last(out)["time"]["expected"] > 0


@pytest.mark.parametrize(("each", "tried"), [(1e-4, [1, 4, 16, 64]), (0.1, [1, 4, 16]), (5.0, [1, 1]), (30.0, [1])])
def test_a_trial_grows_until_it_says_enough(each: float, tried: list[int]) -> None:
    """A first sample that takes long may have paid what is slow once: it is tried again, unless it takes very long."""
    domain = sp.load_domains("rotated-digits")["angle=0"].subset(range(100))
    model = sp.build_model("mlp", sp.load_domains("rotated-digits"), width=8).eval()
    counts: list[int] = []

    def seconds_of(few: Domain) -> float:
        counts.append(len(few))
        return each * len(few)

    assert seconds_a_sample(domain, seconds_of, model) > 0
    assert counts == tried


def test_work_without_news_says_that_it_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shiftproof.execution.progress._Lines.SILENT_SECONDS", 0.01)
    heard = ""
    with progress_bar("one long block", 60, "lines"):
        for _ in range(500):
            heard += capsys.readouterr().err
            if heard:
                break
            time.sleep(0.01)
    assert heard.startswith("one long block: 0/60")


@pytest.mark.usefixtures("no_trials")
class TestScale:
    @pytest.mark.parametrize(
        ("model", "helps", "typed"),
        [
            ("for_bytes", "inputs from 0 to 255", "mean=[0, 0, 0], std=[0.00392, 0.00392, 0.00392]"),
            ("for_imagenet", "normalisation", "sp.Normalized(model, mean=["),
        ],
    )
    def test_what_would_help_is_named_before_the_audit(
        self, run: Run, arguments: Callable[..., list[object]], model: str, helps: str, typed: str
    ) -> None:
        code, out, err = run(*arguments(f"misfits:{model}", 80), "--estimate")
        assert code == 0, err
        (line,) = [line for line in out.splitlines() if "wrap it as" in line]
        assert helps in line
        assert typed in line
        assert line.startswith("warn")

    def test_it_is_in_the_report_and_in_json(
        self, run: Run, arguments: Callable[..., list[object]], tmp_path: Path
    ) -> None:
        audit = [*arguments("misfits:for_bytes", 80), "--limit", 40]
        code, out, err = run(*audit, "--out", tmp_path / "run", "--json")
        assert code in (0, 2), err
        (found,) = [one for one in last(out)["findings"] if one["code"] == "input-scale"]
        assert found["level"] == "warn"
        assert found["evidence"]["would_be"] > 0.9
        assert found["message"] in (tmp_path / "run" / "report.html").read_text().replace("&#39;", "'")

    @pytest.mark.parametrize("model", ["misfits:useless", "toys:two_classes"])
    def test_a_model_that_is_good_or_simply_bad_is_left_in_peace(
        self, run: Run, arguments: Callable[..., list[object]], model: str
    ) -> None:
        code, out, err = run(*arguments(model, 80), "--estimate")
        assert code == 0, err
        assert "wrap it as" not in out

    def test_networks_that_were_never_trained_have_no_scale(self) -> None:
        sources = list(sp.load_domains("rotated-digits"))[:2]
        for seed in range(10):
            model = sp.build_model(("mlp", "cnn")[seed % 2], sp.load_domains("rotated-digits"), seed=seed).eval()
            assert list(scale_findings(model, sources)) == []
