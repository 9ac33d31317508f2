"""The audit: the same samples, clean, attacked, corrupted and certified, of a model that is there already."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.certification import CERTIFIERS
from shiftproof.certification.certifiers.randomized_smoothing import RandomizedSmoothing
from shiftproof.domains import Domain, Domains
from shiftproof.errors import CheckFailed, DataError, UsageError
from shiftproof.execution import HERE, parse_duration
from shiftproof.execution.tables import hash_table
from shiftproof.perturbations.balls import as_ball
from shiftproof.probes import Probe
from shiftproof.probes.attack import Attack
from shiftproof.probes.corrupt import Corrupt
from shiftproof.runs import efforts
from shiftproof.runs.audit import audit, audit_study, plan_audit, usual_certifiers
from shiftproof.runs.budget import plan_probes
from shiftproof.runs.efforts import EFFORTS, Questions
from shiftproof.runs.prepare import Prepared, prepare_study
from shiftproof.runs.sources import ModelSource

Run = Callable[..., tuple[int, str, str]]
QUICK = {"seed": 0, "limit": 16, "corruptions": ["fog", "contrast"], "severities": [3], "progress": "off"}
pytestmark = pytest.mark.usefixtures("least_effort", "brief_trials")
short = pytest.mark.usefixtures("no_trials", "brief_examination")
"""For audits of which neither the time nor what is found about attacks is looked at."""


@pytest.fixture(scope="session")
def digits() -> tuple[Domains, Domain]:
    """Digits at five angles, shipped to a sixth."""
    return sp.load_domains("rotated-digits").leave_out("angle=75")


@pytest.fixture(scope="session")
def fitted(digits: tuple[Domains, Domain]) -> nn.Module:
    """A network that was trained on noisy digits."""
    torch.set_num_threads(1)
    fit = sp.train(
        sp.build_model("mlp", digits[0], width=64), digits[0], sp.objectives.Gaussian(0.25), recipe={"steps": 150}
    )
    return fit.model


@pytest.fixture
def few(digits: tuple[Domains, Domain]) -> tuple[Domains, Domain]:
    """Two of the sources, and the target."""
    sources, target = digits
    return sources.select(["angle=0", "angle=45"]), target


@pytest.fixture(scope="module")
def ran(
    digits: tuple[Domains, Domain],
    fitted: nn.Module,
    tmp_path_factory: pytest.TempPathFactory,
    least_effort: None,
) -> sp.Run:
    """A whole audit, small."""
    sources, out = digits[0].select(["angle=0", "angle=45"]), tmp_path_factory.mktemp("audit") / "run"
    return audit(fitted, sources, digits[1], out=out, **asked())


def asked() -> dict[str, object]:
    """What that audit asks."""
    return {**QUICK, "certifiers": [smoothing()], "threats": ["l2:0.25"]}


def prepared(
    model: nn.Module, few: tuple[Domains, Domain], card: dict[str, object] | None = None, **options: object
) -> Prepared:
    """Model and data of an audit, before anything is asked."""
    sources, target = few
    source = replace(ModelSource.make(model), known=card or {})
    places = Domains("given", [*sources, target])
    return prepare_study(audit_study(places, source, "model", sources.names, [target.name], options))


def smoothing(n: int = 300) -> RandomizedSmoothing:
    return RandomizedSmoothing(sp.noise.Gaussian(0.25), n=n)


class TestMeasures:
    def test_all_four_are_of_the_same_samples(self, ran: sp.Run) -> None:
        for domain in ("angle=0", "angle=45", "angle=75"):
            sets = [
                set(ran.evidence.where(domain=domain, probe=probe).column("id"))
                for probe in ("clean", "attack", "corrupt", "certify")
            ]
            assert len(sets[0]) == 16
            assert all(one == sets[0] for one in sets)

    def test_every_measure_has_a_row_with_its_gap(self, ran: sp.Run) -> None:
        table = ran.content().measures
        kinds = [row.measure.kind for row in table.rows]
        assert kinds == ["clean", "clean", "attacked", "attacked", "corrupted", "certified", "certified"]
        for row in table.rows:
            lost = row.gaps["angle=75"]
            assert lost.low <= lost.value <= lost.high
            for estimate in row.accuracy.values():
                assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1

    def test_numbers_are_those_of_the_model(self, ran: sp.Run, fitted: nn.Module, few: tuple[Domains, Domain]) -> None:
        rows = ran.evidence.get(domain="angle=75", probe="clean")
        index = {str(one): i for i, one in enumerate(few[1].ids)}
        inputs, labels = few[1].take([index[one] for one in rows["id"]])
        assert ((fitted(inputs).argmax(1) == labels).numpy() == rows["correct"]).all()
        measure = ran.content().measures.rows[0]
        assert measure.accuracy["angle=75"].value == pytest.approx(rows["correct"].mean())

    def test_order_holds_and_is_said(self, ran: sp.Run) -> None:
        assert "sandwich-holds" in [finding.code for finding in ran.findings]
        assert ran.broken == []

    def test_verdict_says_both_classifiers_and_both_places(self, ran: sp.Run) -> None:
        (sentence,) = ran.verdict
        for part in (
            "On 16 samples of angle=75 the model is right on",
            "the smoothed model",
            "survive an attack of l2 0.25",
        ):
            assert part in sentence
        assert "guaranteed within l2 0.25" in sentence
        assert "; on 32 samples of the training domains it is right on" in sentence

    def test_report_shows_every_domain(self, ran: sp.Run, tmp_path: Path) -> None:
        page = ran.report(tmp_path / "report.html").read_text()
        for part in ("angle=0", "angle=45", "angle=75", "In short", "Corrupted", "guaranteed"):
            assert part in page
        names = {path.name for path in ran.export(["csv"], tmp_path)}
        assert {"measures.csv", "corrupted.csv", "certified.csv"} <= names

    def test_it_does_not_claim_a_training(self, ran: sp.Run) -> None:
        data = ran.content().facts["data"]
        assert data.endswith("and the target angle=75; nothing was trained in this run")
        assert "left out" not in data

    def test_can_be_opened_and_verified(self, ran: sp.Run) -> None:
        again = sp.open_run(ran.folder)
        assert again.verdict == ran.verdict
        assert (ran.folder / "models" / "model.safetensors").is_file()


@short
def test_an_audit_that_was_stopped_ends_the_same(
    ran: sp.Run, few: tuple[Domains, Domain], fitted: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, calls = asked(), []

    def interrupted(*_: object) -> None:
        calls.append(1)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Corrupt, "collect", interrupted)
        with pytest.raises(KeyboardInterrupt):
            audit(fitted, *few, out=tmp_path / "part", **options)
    assert calls
    assert (tmp_path / "part" / "run.json").is_file()
    # a budget is resolved once: what a trial says now does not count
    monkeypatch.setattr("shiftproof.runs.plan.plan_probes", lambda *_, **__: pytest.fail("the plan was made again"))
    continued = audit(fitted, *few, out=tmp_path / "part", **options)
    one, other = (run.evidence.to_arrow().drop(["seconds"]) for run in (continued, ran))
    # bit by bit: what is not a number is equal to itself
    assert hash_table(one) == hash_table(other)


@short
def test_a_folder_of_another_audit_is_refused(
    ran: sp.Run, few: tuple[Domains, Domain], fitted: nn.Module, tmp_path: Path
) -> None:
    shutil.copytree(ran.folder, tmp_path / "run")
    with pytest.raises(UsageError, match="holds a run with other probes"):
        audit(fitted, *few, out=tmp_path / "run", **{**asked(), "threats": ["l2:0.5"]})


@pytest.mark.usefixtures("no_trials")
class TestPlantedFaults:
    """What the audit is for: it must not be silent on these."""

    class Quantised(nn.Module):
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, inputs: Tensor) -> Tensor:
            return self.model(torch.round(inputs * 8) / 8)

    class Probabilities(Quantised):
        def forward(self, inputs: Tensor) -> Tensor:
            return self.model(inputs).softmax(1)

    def findings(self, model: nn.Module, few: tuple[Domains, Domain], out: Path) -> dict[str, str]:
        options = {**QUICK, "corruptions": [], "certifiers": [], "threats": ["l2:0.5"], "out": out}
        run = audit(model, *few, **options)
        return {finding.code: finding.level for finding in run.findings}

    def test_masked_gradients(self, few: tuple[Domains, Domain], fitted: nn.Module, tmp_path: Path) -> None:
        found = self.findings(self.Quantised(fitted), few, tmp_path / "run")
        assert found["zero-gradients"] == "fail"
        assert found["gradient-masking"] == "fail"

    def test_probabilities_as_outputs(self, few: tuple[Domains, Domain], fitted: nn.Module, tmp_path: Path) -> None:
        assert self.findings(self.Probabilities(fitted), few, tmp_path / "run")["softmax-outputs"] != "pass"

    def test_an_honest_model_is_left_in_peace(
        self, few: tuple[Domains, Domain], fitted: nn.Module, tmp_path: Path
    ) -> None:
        found = self.findings(fitted, few, tmp_path / "run")
        for code in ("zero-gradients", "gradient-masking", "softmax-outputs", "random-model", "stateful-model"):
            assert found[code] == "pass"

    def test_an_inflated_certificate(self, few: tuple[Domains, Domain], fitted: nn.Module, tmp_path: Path) -> None:
        @CERTIFIERS.register("inflated")
        @dataclass(frozen=True)
        class Inflated(RandomizedSmoothing):
            """Radii eight times too large."""

            def certify(self, job):  # type: ignore[no-untyped-def]
                found = super().certify(job)
                return replace(found, radius=8 * found.radius)

        try:
            options = {**QUICK, "corruptions": [], "certifiers": [Inflated(sp.noise.Gaussian(0.25), n=300)]}
            run = audit(fitted, *few, threats=["l2:1"], out=tmp_path / "run", **options)
        finally:
            CERTIFIERS._entries.pop("inflated")
        assert [finding.code for finding in run.broken] != []
        assert {finding.code for finding in run.broken} == {"sandwich-broken"}


class TestBudget:
    def wanted(self) -> Questions:
        certifier = RandomizedSmoothing(sp.noise.Gaussian(0.25))
        return Questions((as_ball("l2:0.5"),), ((certifier, frozenset()),), ("fog",))

    def efforts(self) -> list[list[Probe]]:
        return [self.wanted().probes(effort) for effort in EFFORTS]

    @pytest.mark.slow
    def test_more_time_asks_harder(self, few: tuple[Domains, Domain], fitted: nn.Module) -> None:
        measured = [few[1].subset(np.arange(40))]
        plans = [plan_probes(self.efforts(), [fitted], measured, time, HERE) for time in (3600.0, 1e9)]
        votes = [plan.probes[-1].certifier.n for plan in plans]
        assert votes[-1] == EFFORTS[0].n
        assert votes == sorted(votes)
        assert [plan.prefix for plan in plans] == [None, None]
        with pytest.raises(UsageError, match="the budget of 1 s can't be kept"):
            plan_probes(self.efforts(), [fitted], measured, 1.0, HERE)

    def test_one_that_is_too_short_is_said(
        self, few: tuple[Domains, Domain], fitted: nn.Module, tmp_path: Path
    ) -> None:
        with pytest.raises(UsageError, match="the budget of 1 s can't be kept"):
            plan_audit(prepared(fitted, few, limit=20, budget="1s"), self.wanted(), tmp_path / "run", progress="off")
        assert not (tmp_path / "run").exists()

    def test_without_one_it_is_the_usual_effort(self, few: tuple[Domains, Domain], fitted: nn.Module) -> None:
        planned = plan_audit(prepared(fitted, few, limit=10), self.wanted(), progress="off")
        assert list(planned.study.probes) == self.wanted().probes(efforts.DEFAULT)
        assert planned.plan is not None
        assert planned.plan.seconds > 0

    def test_what_was_asked_for_stays(self) -> None:
        told = (RandomizedSmoothing(sp.noise.Gaussian(0.25), n=77), frozenset({"n"}))
        wanted = replace(self.wanted(), severities=(5,), certifiers=(told,))
        for effort in EFFORTS:
            probes = wanted.probes(effort)
            assert probes[-1].certifier.n == 77
            assert probes[-2].severities == (5,)

    @pytest.mark.parametrize("text", ["", "20", "m", "-3m", "0s", "1 day"])
    def test_a_time_that_is_none(self, text: str) -> None:
        with pytest.raises(UsageError, match="the budget is"):
            parse_duration(text)

    def test_a_smoothed_vote_is_attacked_where_norms_match(self) -> None:
        wanted = replace(self.wanted(), threats=(as_ball("l2:0.5"), as_ball("linf:0.1"), as_ball("rotation:0.2")))
        attacks = self.attacks(wanted)
        assert [probe.attack.name for probe in attacks] == ["ensemble", "ensemble", "spatial", "pgd"]
        assert attacks[-1].smoothed is not None
        turned = (RandomizedSmoothing(sp.noise.Rotation(0.5)), frozenset[str]())
        attacks = self.attacks(replace(wanted, certifiers=(turned,)))
        assert [probe.attack.name for probe in attacks if probe.smoothed is not None] == ["spatial"]

    def attacks(self, wanted: Questions) -> list[Attack]:
        return [probe for probe in wanted.probes(EFFORTS[-1]) if isinstance(probe, Attack)]


class TestUsual:
    def test_sigma_is_that_of_the_training(self, few: tuple[Domains, Domain], fitted: nn.Module) -> None:
        known = prepared(fitted, few, card={"objective": {"name": "gaussian", "sigma": 0.12}})
        assert usual_certifiers(known)[0].noise == sp.noise.Gaussian(0.12)
        assert usual_certifiers(prepared(fitted, few))[0].noise == sp.noise.Gaussian(0.25)

    def test_a_lipschitz_network_has_margins_too(self, few: tuple[Domains, Domain], fitted: nn.Module) -> None:
        cayley = sp.build_model("mlp-cayley", few[0], width=16).eval()
        names = [one.name for one in usual_certifiers(prepared(cayley, few))]
        assert names == ["randomized-smoothing", "latent-margin"]
        assert len(usual_certifiers(prepared(fitted, few))) == 1


@short
class TestBadInput:
    def test_fewer_outputs_than_classes(self, few: tuple[Domains, Domain]) -> None:
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 4)).eval()
        with pytest.raises(sp.errors.ModelError, match="the model has 4 outputs, but the data has 10 classes"):
            audit(model, *few, **QUICK)

    def test_a_target_among_the_sources(self, digits: tuple[Domains, Domain], fitted: nn.Module) -> None:
        with pytest.raises(UsageError, match="both source and target"):
            audit(fitted, digits[0], digits[0]["angle=0"], **QUICK)

    def test_no_samples(self, few: tuple[Domains, Domain], fitted: nn.Module) -> None:
        with pytest.raises(UsageError, match="the limit is 0"):
            audit(fitted, *few, **{**QUICK, "limit": 0})

    @pytest.mark.parametrize(("threat", "guess"), [("linf:8", "8/255"), ("l2:128", "l2:0.502")])
    def test_eps_of_0_to_255(self, few: tuple[Domains, Domain], fitted: nn.Module, threat: str, guess: str) -> None:
        with pytest.raises(UsageError, match=f"did you mean {guess}"):
            audit(fitted, *few, threats=[threat], **QUICK)

    def test_nothing_is_right(self, few: tuple[Domains, Domain], tmp_path: Path) -> None:
        class Twelve(nn.Module):
            """Says twelve, which there is not."""

            def forward(self, inputs: Tensor) -> Tensor:
                spread = inputs.flatten(1)[:, :12]
                return torch.cat([0 * spread[:, :11], 1 + spread[:, 11:]], 1)

        run = audit(Twelve().eval(), *few, certifiers=[smoothing(100)], out=tmp_path / "run", **QUICK)
        assert all(row.accuracy["angle=75"].value == 0 for row in run.content().measures.rows)
        assert run.verdict[0].startswith("What follows says little (model: 0% on the domains it was trained on")
        assert "is right on 0%" in run.verdict[1]
        run.report()

    def test_one_class_only(self, few: tuple[Domains, Domain], fitted: nn.Module, tmp_path: Path) -> None:
        threes = few[1].subset(np.flatnonzero(few[1].labels == 3))
        options = {**QUICK, "corruptions": [], "certifiers": [], "out": tmp_path / "run"}
        run = audit(fitted, few[0], threes, **options)
        assert "one-class" in [finding.code for finding in run.findings]
        with pytest.raises(CheckFailed, match="--strict"):
            audit(fitted, few[0], threes, strict=True, **{**options, "out": tmp_path / "other"})
        assert not (tmp_path / "other").exists()

    def test_an_unreadable_image_is_reported_and_counted(
        self, images: Callable[..., Path], run: Run, tmp_path: Path
    ) -> None:
        root = images(count=20)
        (root / "clinic-b" / "cat" / "7.png").write_bytes(b"no image")
        arguments = ["--data", f"folder:{root}", "--target", "clinic-b", "--model", "python:toys:two_classes"]
        quick = ["--threat", "l2:0.3", "--corruptions", "none", "--n", "100", "--workers", "1"]
        code, out, err = run("audit", *arguments, *quick, "--out", tmp_path / "run", "--json")
        assert code == 0, err
        found = json.loads(out.splitlines()[-1])
        messages = [one["message"] for one in found["findings"] if one["code"] == "unreadable"]
        assert messages == ["1 file can't be read: clinic-b: clinic-b/cat/7.png"]
        assert sp.open_run(tmp_path / "run").evidence.where(domain="clinic-b", probe="clean").rows == 39
        code, out, _ = run("verify", tmp_path / "run", "--part", 2, "--seed", 0, "--trust")
        assert code == 0, out
        code, _, err = run("audit", *arguments, *quick, "--strict", "--out", tmp_path / "strict")
        assert code == 2
        assert "7.png" in err
        assert not (tmp_path / "strict").exists()

    def test_none_can_be_read(self, images: Callable[..., Path], fitted: nn.Module) -> None:
        root = images(count=20)
        domains = sp.load_domains(f"folder:{root}")
        for path in (root / "clinic-b").rglob("*.png"):
            path.write_bytes(b"no image")
        sources, target = domains.leave_out("clinic-b")
        model = nn.Sequential(nn.Flatten(), nn.Linear(192, 2)).eval()
        with pytest.raises(DataError, match="none of the samples of 'clinic-b' that were looked at can be read"):
            audit(model, sources, target, **QUICK)


@short
class TestAroundTheModel:
    def test_its_mode_is_as_it_was(self, few: tuple[Domains, Domain], fitted: nn.Module, tmp_path: Path) -> None:
        model = copy.deepcopy(fitted).train()
        audit(model, *few, out=tmp_path / "run", **{**QUICK, "corruptions": "none", "certifiers": [], "limit": 4})
        assert model.training
        assert all(parameter.requires_grad for parameter in model.parameters())

    def test_inputs_that_are_no_images(self, tmp_path: Path) -> None:
        generator = np.random.default_rng(0)
        inputs = generator.random((60, 5)).astype(np.float32)
        labels = (inputs.sum(1) > 2.5).astype(np.int64)
        sources = Domains("v", [Domain.from_arrays("a", inputs[:40], labels[:40], ["low", "high"])])
        target = Domain.from_arrays("b", inputs[40:], labels[40:], ["low", "high"])
        model = nn.Linear(5, 2)
        with torch.no_grad():
            model.weight.copy_(torch.stack([-torch.ones(5), torch.ones(5)]))
            model.bias.copy_(torch.tensor([2.5, -2.5]))
        run = audit(model, sources, target, threats="l2:0.1", certifiers=[smoothing(100)], out=tmp_path / "run")
        assert "not-corrupted" in [finding.code for finding in run.findings]
        assert run.report().is_file()

    def test_votes_that_can_not_reach_the_attack(
        self, few: tuple[Domains, Domain], fitted: nn.Module, tmp_path: Path
    ) -> None:
        options = {**QUICK, "corruptions": "none", "limit": 4, "certifiers": [smoothing(50)], "threats": "l2:2"}
        run = audit(fitted, *few, out=tmp_path / "run", **options)
        assert "out-of-reach" in [finding.code for finding in run.findings]

    def test_more_outputs_than_classes_are_counted(
        self, few: tuple[Domains, Domain], fitted: nn.Module, tmp_path: Path
    ) -> None:
        class Padded(nn.Module):
            def forward(self, inputs: Tensor) -> Tensor:
                return torch.nn.functional.pad(fitted(inputs), (0, 2), value=-50.0)

        options = {**QUICK, "corruptions": "none", "limit": 4, "certifiers": []}
        run = audit(Padded(), *few, out=tmp_path / "run", **options)
        assert {one.code: one.level for one in run.findings}["class-count"] == "warn"


@short
class TestCommandLine:
    def arguments(self, folder: Path) -> list[object]:
        quick = ["--limit", 12, "--threat", "l2:0.3", "--corruptions", "fog", "--severities", "3", "--n", "200"]
        where = ["--data", "rotated-digits", "--target", "angle=75", "--source", "angle=0,angle=15"]
        return ["audit", "--model", f"file:{folder}", *where, *quick, "--workers", 1]

    @pytest.fixture
    def saved(self, fitted: nn.Module, digits: tuple[Domains, Domain], tmp_path: Path) -> Path:
        card = {"classes": list(digits[0].classes), "data": {"name": "rotated-digits"}, "sources": ["angle=0"]}
        sp.save_model(fitted, tmp_path / "mine" / "model.safetensors", card)
        return tmp_path / "mine"

    def test_figures_verdict_and_files(self, run: Run, saved: Path, tmp_path: Path) -> None:
        code, out, err = run(*self.arguments(saved), "--out", tmp_path / "run", "--json")
        assert code == 0, err
        found = json.loads(out.splitlines()[-1])
        assert {one["kind"] for one in found["measures"]} == {"clean", "attacked", "corrupted", "certified"}
        assert found["verdict"][0].startswith("On 12 samples of angle=75 the model is right on")
        assert Path(found["report"]).is_file()
        assert found["measures"][0]["model"] == "mine"
        code, out, _ = run("verify", tmp_path / "run", "--part", 4, "--seed", 1, "--trust")
        assert code == 0, out

    def test_requirements_decide_the_exit_code(self, run: Run, saved: Path, tmp_path: Path) -> None:
        arguments = [*self.arguments(saved), "--out", tmp_path / "run"]
        code, out, _ = run(*arguments, "--require", "certified@0.1>=0", "--require", "clean:angle=0>=10%")
        assert code == 0
        assert out.count("is met") == 2
        code, out, _ = run(*arguments, "--require", "certified@0.3>=0.99")
        assert code == 2
        assert "certified@0.3>=0.99 is not met" in out

    @pytest.mark.parametrize(
        ("requirement", "said"),
        [
            ("robust>=1", "write it like certified@0.5>=0.6"),
            ("attacked@0.9>=0.1", "planned: l2:0.3"),
            ("clean:moon>=0.1", "measured are angle=0, angle=15, angle=75"),
            ("certified>=0.3", "needs a size"),
            ("clean>=3", "a part of 1"),
        ],
    )
    def test_a_requirement_that_makes_no_sense(
        self, run: Run, saved: Path, tmp_path: Path, requirement: str, said: str
    ) -> None:
        code, _, err = run(*self.arguments(saved), "--out", tmp_path / "run", "--require", requirement)
        assert code == 1
        assert said in err
        assert not (tmp_path / "run").exists()

    def test_a_target_that_was_trained_on(self, run: Run, saved: Path, tmp_path: Path) -> None:
        arguments = [*self.arguments(saved), "--target", "angle=0", "--source", "angle=15"]
        code, out, err = run(*arguments, "--out", tmp_path / "run")
        assert code == 0, err
        assert "was trained on angle=0" in out
        code, _, err = run(*arguments, "--strict", "--out", tmp_path / "strict", "--junit", tmp_path / "junit.xml")
        assert code == 2
        assert "was trained on angle=0" in err
        (case,) = ElementTree.parse(tmp_path / "junit.xml").getroot().iter("testcase")
        assert "was trained on angle=0" in case.find("failure").get("message")  # type: ignore[union-attr, operator]

    def test_estimate_writes_nothing(self, run: Run, saved: Path, tmp_path: Path) -> None:
        code, out, _ = run(*self.arguments(saved), "--out", tmp_path / "run", "--budget", "3m", "--estimate")
        assert code == 0
        assert "angle=75 12" in out
        assert "time     about" in out
        assert "times as fast as f32 here" in " ".join(out.split()) or "bf16 does not work" in out
        assert "         of angle=0 the held-out part: training samples are not measured\n" in out
        assert "target   none" not in out
        assert not (tmp_path / "run").exists()

    def test_without_a_target(self, run: Run, saved: Path) -> None:
        sources = ["--source", "angle=0,angle=15"]
        fast = ["--limit", 4, "--n", 100, "--corruptions", "none", "--estimate"]
        code, out, _ = run("audit", "--data", "rotated-digits", "--model", f"file:{saved}", *sources, *fast)
        assert code == 0
        assert (
            "target   none: without --target all domains count as those that the model was trained on, so that" in out
        )
        assert "to say where it is shipped to: --target and the name of another domain" in out

    def test_an_untrained_network(self, run: Run) -> None:
        code, _, err = run("audit", "--data", "rotated-digits", "--model", "mlp")
        assert code == 1
        assert "a network without training" in err


def test_planning_looks_before_it_writes(
    few: tuple[Domains, Domain], fitted: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shiftproof.probes.costs._TRIAL_SECONDS", 0.1)
    known = prepared(fitted, few, limit=10, budget="2m")
    certifiers = tuple((one, frozenset[str]()) for one in usual_certifiers(known))
    planned = plan_audit(known, Questions((as_ball("l2:0.25"),), certifiers, ()), tmp_path / "run", progress="off")
    assert [len(domain) for domain in planned.prepared.data.measured] == [10, 10, 10]
    assert not (tmp_path / "run").exists()
