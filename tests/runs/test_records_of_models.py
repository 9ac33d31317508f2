"""What a model in memory says of its training: Python and the command line measure the same samples by it."""

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import shiftproof as sp
from shiftproof.domains import Domain, Domains
from shiftproof.domains.splits import held_out, train_part
from shiftproof.errors import DataError
from shiftproof.models.load import card_of
from shiftproof.models.records import record_of
from shiftproof.runs.study_files import validated

pytestmark = pytest.mark.usefixtures("least_effort", "no_trials", "brief_examination")

LOOK = {"threats": "l2:0.1", "corruptions": "none", "limit": 6, "seed": 0, "progress": "off"}
FEW = ["--threat", "l2:0.1", "--corruptions", "none", "--limit", 6, "--seed", 0, "--workers", 1, "--out", "typed"]
TRAIN = ["--objective", "gaussian", "--set", "objective.sigma=0.12", "--set", "training.steps=3", "--out", "m"]
Run = Callable[..., tuple[int, str, str]]
Samples = dict[tuple[str, str, str], tuple[list[str], str]]


def measured(run: sp.Run) -> Samples:
    """Samples and what is said of them, by domain, probe and setting."""
    return {
        (one.domain, one.probe, str(one.setting)): (one["id"].tolist(), str(one.fact("seen_in_training")))
        for one in run.evidence
    }


def marks(run: sp.Run) -> dict[str, str]:
    return {one.domain: str(one.fact("seen_in_training")) for one in run.evidence.where(probe="clean")}


@pytest.fixture
def digits() -> Domains:
    return sp.load_domains("colored-digits")


@pytest.fixture
def sources(digits: Domains) -> Domains:
    return digits.leave_out("e=0.9")[0]


@pytest.fixture
def target(digits: Domains) -> Domain:
    return digits["e=0.9"]


@pytest.fixture
def trained(sources: Domains) -> nn.Module:
    network = sp.build_model("mlp", sources, width=8)
    return sp.train(network, sources, sp.objectives.Gaussian(0.12), recipe={"steps": 3}, progress="off").model


def look(model: nn.Module, sources: Domains | Domain, target: Domain | None = None, **more: object) -> sp.Run:
    return sp.audit(model, sources, target, **{**LOOK, "certifiers": [], **more})  # type: ignore[arg-type]


def test_a_file_is_audited_in_python_as_on_the_command_line(run: Run, digits: Domains, target: Domain) -> None:
    """Trained on one of two sources: of that what was held out is measured, and all of the other."""
    where = ["--data", "colored-digits", "--source", "e=0.1", "--target", "e=0.9"]
    assert run("train", *where, "--model", "mlp", *TRAIN)[0] == 0
    code, _, err = run("audit", "--data", "colored-digits", "--target", "e=0.9", "--model", "file:m", *FEW)
    assert code in (0, 2), err
    model = sp.load_model("file:m", digits)
    in_python = sp.audit(model, digits.leave_out("e=0.9")[0], target, out="called", **LOOK)  # type: ignore[arg-type]
    assert measured(in_python) == measured(sp.open_run("typed"))
    assert set(marks(in_python).values()) == {"no"}
    assert set(in_python.evidence.get(domain="e=0.1", probe="clean")["id"]) <= set(held_out(digits["e=0.1"]).ids)
    assert "gaussian 0.12" in {one.fact("noise") for one in in_python.evidence.where(probe="certify")}


def test_what_training_returns_knows_what_it_was_trained_on(
    trained: nn.Module, sources: Domains, target: Domain
) -> None:
    run = look(trained, sources, target)
    assert set(marks(run).values()) == {"no"}
    for domain in sources:
        assert not set(run.evidence.get(domain=domain.name, probe="clean")["id"]) & set(train_part(domain).ids)
    assert set(marks(look(copy.deepcopy(trained), sources, target, name="copy")).values()) == {"no"}
    certified = look(trained, sources, certifiers=None).evidence.where(probe="certify")
    assert "gaussian 0.12" in {one.fact("noise") for one in certified}


def test_a_record_is_not_believed_of_other_weights(trained: nn.Module, sources: Domains, target: Domain) -> None:
    assert record_of(trained)["sources"] == ["e=0.1", "e=0.2"]
    with torch.no_grad():
        next(trained.parameters()).view(-1)[0] += 1e-3
    assert record_of(trained) == {}
    assert marks(look(trained, sources, target)) == {"e=0.1": "unknown", "e=0.2": "unknown", "e=0.9": "no"}


def test_a_wrapped_model_is_another(trained: nn.Module, sources: Domains) -> None:
    assert set(marks(look(sp.Normalized(trained, [0.0, 0.0], [1.0, 1.0]), sources)).values()) == {"unknown"}


def test_data_of_ones_own_is_known_by_its_content_not_by_its_name(trained: nn.Module, sources: Domains) -> None:
    renamed = Domains("mine", list(sources))
    assert set(marks(look(trained, renamed)).values()) == {"no"}
    others = Domains("mine", [one.subset(range(100, 200)) for one in sources])
    assert set(marks(look(trained, others)).values()) == {"unknown"}


def renamed_copy(domain: Domain, places: range) -> Domain:
    """Some samples of a domain under other ids, as a copied folder would have."""
    inputs, labels = domain.subset(places).tensors()
    return Domain.from_arrays("shipped", inputs, labels.numpy(), domain.classes)


def test_copies_of_training_samples_are_not_unseen(trained: nn.Module, sources: Domains, target: Domain) -> None:
    """By content: neither the name of the domain nor the ids of its samples tell."""
    learned, kept = train_part(sources["e=0.1"]), held_out(sources["e=0.1"])
    run = look(trained, sources, renamed_copy(learned, range(20)))
    assert marks(run) == {"e=0.1": "no", "e=0.2": "no", "shipped": "yes"}
    assert "6 of 6 measured samples of shipped are copies of training samples of e=0.1" in str(run.record["findings"])
    assert marks(look(trained, sources, renamed_copy(kept, range(20)), name="kept"))["shipped"] == "no"
    # of a model without a record nobody knows, but the target is not what its auditor says it is
    unknown = sp.build_model("mlp", sources, width=8)
    assert marks(look(unknown, sources, renamed_copy(learned, range(20)), name="other"))["shipped"] == "unknown"
    # who trained it elsewhere knows nothing of our split either
    assert marks(look(unknown, sources, renamed_copy(kept, range(20)), name="elsewhere"))["shipped"] == "unknown"
    assert marks(look(unknown, sources, target, name="stated"))["e=0.9"] == "no"


def test_copied_texts_of_a_table_are_not_unseen(run: Run) -> None:
    rows = ["text,label,domain"]
    for domain in "abc":
        # c holds the texts of a
        words = [f"{'good' if n % 2 else 'bad'} film {'ab'[domain == 'b']}{n}" for n in range(30)]
        rows += [f"{text},{n % 2},{domain}" for n, text in enumerate(words)]
    Path("copied.csv").write_text("\n".join(rows) + "\n")
    small = ["--model", "text-cnn", "--set", "model.width=8", "--set", "model.filters=8", "--set", "training.steps=2"]
    assert run("train", "--data", "table:copied.csv", "--target", "c", *small, "--out", "m")[0] == 0
    assert marks(sp.open_run("m")) == {"a": "no", "b": "no", "c": "yes"}
    sources, target = sp.load_domains("table:copied.csv").leave_out("c")
    audited = look(sp.load_model("file:m", sources), sources, target, threats="edits:1")
    assert marks(audited) == {"a": "no", "b": "no", "c": "yes"}


def test_a_domain_that_a_data_set_has_and_training_did_not_take_was_not_seen(digits: Domains) -> None:
    network = sp.build_model("mlp", digits, width=8)
    model = sp.train(network, digits.select(["e=0.1"]), recipe={"steps": 2}, progress="off").model
    assert marks(look(model, digits, split="all")) == {"e=0.1": "yes", "e=0.2": "no", "e=0.9": "no"}


def test_training_goes_on_from_what_was_seen_before(trained: nn.Module, digits: Domains) -> None:
    later = digits.select(["e=0.9"])
    model = sp.train(trained, later, recipe={"steps": 2}, progress="off").model
    assert set(marks(look(model, digits, split="train")).values()) == {"yes"}
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] += 1e-3
    again = sp.train(model, later, recipe={"steps": 2}, progress="off").model
    assert marks(look(again, later)) == {"e=0.9": "unknown"}, "it was changed in between, by whatever"


def test_training_in_a_loop_leaves_a_record_that_can_be_read(digits: Domains) -> None:
    model = sp.build_model("mlp", digits, width=8)
    for _ in range(4):
        sp.train(model, digits.select(["e=0.1"]), recipe={"steps": 1}, progress="off")
    assert record_of(model)["initial"]["initial"] is None, "the same data over and over is one phase"
    turns = [["e=0.1"], ["e=0.2"]] * 10
    for names in turns:
        sp.train(model, digits.select(names), recipe={"steps": 1}, progress="off")
    sp.save_model(model, "long.safetensors")
    loaded = sp.load_model("file:long.safetensors", digits)
    assert marks(look(loaded, digits, split="all")) == {"e=0.1": "yes", "e=0.2": "yes", "e=0.9": "unknown"}


def test_a_module_that_a_study_trains_tells_what_it_was_before(trained: nn.Module, sources: Domains) -> None:
    document = {
        "name": "later",
        "data": Domains("mine", [sp.load_domains("colored-digits")["e=0.9"]]),
        "models": {"m": {"model": trained, "objective": "erm", "training": {"steps": 2}}},
        "probes": [{"name": "clean"}],
    }
    run = sp.run_study(validated(document, "the study"), progress="off", out="later")
    card = json.loads((run.folder / "models" / "m.json").read_text())
    assert (card["sources"], card["initial"]["sources"]) == (["e=0.9"], ["e=0.1", "e=0.2"])
    assert card["initial"]["fingerprints"] == {one.name: one.fingerprint for one in sources}


def test_a_saved_model_keeps_its_record(trained: nn.Module, sources: Domains) -> None:
    sp.save_model(trained, "saved.safetensors")
    loaded = sp.load_model("file:saved.safetensors", sources)
    assert record_of(loaded)["fingerprints"] == record_of(trained)["fingerprints"]
    assert set(marks(look(loaded, sources)).values()) == {"no"}
    sp.save_model(sp.build_model("mlp", sources, width=8, seed=1), "other.safetensors")
    Path("saved.safetensors").write_bytes(Path("other.safetensors").read_bytes())
    assert card_of(Path("saved.safetensors")) == {}, "the file was exchanged under its record"
    # who names the architecture himself may load it all the same
    named = sp.load_model("file:saved.safetensors", sources, architecture="mlp", width=8)
    assert record_of(named) == {}
    Path("saved.json").write_text('{"of": "something else"}')
    assert record_of(sp.load_model("file:saved.safetensors", sources, architecture="mlp", width=8)) == {}


def test_other_domains_of_the_same_rows_are_not_called_unseen(run: Run) -> None:
    rows = ["text,label,domain,site"]
    for place in range(48):
        words = f"{'good' if place % 2 else 'bad'} film number{place}"
        rows.append(f"{words},{'yes' if place % 2 else 'no'},{'ab'[place // 24]},{'ns'[place % 3 > 0]}")
    Path("two.csv").write_text("\n".join(rows) + "\n")
    small = ["--model", "text-cnn", "--set", "model.width=8", "--set", "model.filters=8", "--set", "training.steps=3"]
    assert run("train", "--data", "table:two.csv", "--source", "a", "--target", "b", *small, "--out", "m")[0] == 0
    look_at = ["--model", "file:m", "--threat", "edits:1", "--limit", 20, "--workers", 1]

    def seen(name: str, *more: object) -> dict[str, str]:
        code, _, err = run("attack", "--data", "table:two.csv", *look_at, *more, "--out", name)
        assert code == 0, err
        return marks(sp.open_run(name))

    assert seen("same") == {"a": "no", "b": "no"}
    # every row of a is in n or in s
    assert seen("sites", "--set", "data.domain=site") == {"n": "unknown", "s": "unknown"}
    # without ids, what was held out is told by the row
    Path("two.csv").write_text("\n".join([rows[0], *rows[:0:-1]]) + "\n")
    assert seen("turned")["a"] == "unknown"


def test_a_model_is_measured_on_data_that_is_all_test_rows() -> None:
    texts = [f"{'good' if n % 2 else 'bad'} film {n}" for n in range(20)]
    rows = [f"{text},{n % 2},{'ab'[n % 3 == 0]},test" for n, text in enumerate(texts)]
    Path("test.csv").write_text("\n".join(["text,label,domain,split", *rows]) + "\n")
    sources, target = sp.load_domains("table:test.csv").leave_out("b")
    network = sp.build_model("text-cnn", sources, width=8, filters=8, vocabulary=64)
    assert marks(look(network, sources, target, threats="edits:1")) == {"a": "unknown", "b": "no"}
    with pytest.raises(DataError, match="all 13 samples of 'a' are test rows: measure on them, train elsewhere"):
        sp.train(network, sources, sp.objectives.ERM(), recipe={"steps": 1}, progress="off")
