"""Labels that are numbers: what trains, what is measured, and what says that it does not apply."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import needs_data
from scipy import stats
from toys import batch_of, generator

import shiftproof as sp
from shiftproof.cli.main import main
from shiftproof.domains.splits import train_part
from shiftproof.errors import DataError, ModelError, UsageError
from shiftproof.evidence import Evidence, EvidenceStore, Measurement
from shiftproof.models.text import EmbeddedTexts
from shiftproof.objectives import OBJECTIVES
from shiftproof.perturbations.text import encode
from shiftproof.probes import PROBES
from shiftproof.runs import open_run
from shiftproof.testing import check_domains
from shiftproof.testing.text_attacks import mean_of_words
from shiftproof.training.batches import Batches

GOOD, BAD, OTHER = "great superb lovely", "awful dreadful bad", "the a film plot actor was"
TINY = ["--model", "text-cnn", "--set", "model.width=8", "--set", "model.filters=8", "--set", "model.vocabulary=256"]
NUMBERS = ["--data", "table:stars.csv", "--set", "data.labels=numbers"]
SHORT = ["--set", "training.steps=25", "--set", "training.batch=16", "--set", "training.lr=0.01"]


def stars() -> list[dict[str, Any]]:
    """Texts whose number is how many of their words are good; on trips the number is another."""
    chance, rows = random.Random(0), []
    for domain in ("books", "films", "trips"):
        for _ in range(60):
            good = chance.randint(0, 4)
            words = [chance.choice(GOOD.split()) for _ in range(good)]
            words += [chance.choice(BAD.split()) for _ in range(4 - good)] + chance.choices(OTHER.split(), k=3)
            chance.shuffle(words)
            number = good + 0.25 if domain != "trips" else 2 + 3 * chance.random()
            rows.append({"text": " ".join(words), "label": round(number, 3), "domain": domain})
    return rows


@pytest.fixture(autouse=True)
def _table(tmp_path: Path) -> None:
    with Path("stars.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ("text", "label", "domain"))
        writer.writeheader()
        writer.writerows(stars())


def verb(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return int(stopped.value.code or 0)


def load() -> sp.Domains:
    return sp.load_domains("table:stars.csv", labels="numbers")


def test_a_table_of_numbers_is_domains_without_classes() -> None:
    domains = load()
    check_domains(domains)
    assert domains.is_regression
    assert domains.classes == ()
    assert domains.outputs == 1
    inputs, labels = domains["books"].tensors()
    assert (labels.dtype, inputs.shape[0]) == (torch.float32, 60)
    assert "numbers to predict" in repr(domains["books"])
    assert domains["books"].class_counts == {}
    assert isinstance(domains["books"][0][1], float)


def test_errors_are_squared_and_nothing_else_differs() -> None:
    sources, _ = load().leave_out("trips")
    options: dict[str, Any] = {"width": 8, "filters": 8, "vocabulary": 256}
    model, other = (sp.build_model("text-cnn", sources, seed=0, **options) for _ in range(2))
    assert model(sources["books"].take([0])[0]).shape == (1, 1)
    fit = sp.train(model, sources, seed=1, recipe={"steps": 5, "batch": 8}, selection="last")
    optimiser = torch.optim.Adam(other.parameters(), lr=fit.recipe.lr)
    for batch in Batches([train_part(domain) for domain in sources], 8, 1, torch.device("cpu")).steps(0, 5):
        errors = (other(batch.inputs).squeeze(1) - batch.labels) ** 2
        optimiser.zero_grad()
        torch.stack([part.mean() for part in errors.split(8)]).mean().backward()
        optimiser.step()
    for name, weights in other.state_dict().items():
        assert torch.allclose(weights, fit.model.state_dict()[name], atol=1e-7), name


def test_the_worst_embeddings_of_a_linear_model_in_closed_form() -> None:
    weights = torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0, -0.25])
    model = mean_of_words(weights)
    model.head = torch.nn.Linear(len(weights), 1)
    model.head.weight.data, model.head.bias.data = weights[None].clone(), torch.zeros(1)
    rows = encode(["a good film", "we saw a long and dull film", "bad", "thin plot"])
    labels = torch.tensor([5.0, -5.0, 1.0, -1.0])
    data = batch_of((rows[:2], labels[:2]), (rows[2:], labels[2:]))
    objective = OBJECTIVES.create(
        "adversarial-training", {"threat": "embedding-l2:0.3", "steps": 3, "random_start": False}
    )
    found = objective.loss(model.train(), data, generator()).total
    tokens = EmbeddedTexts.of(model, rows).tokens
    # the mean over all tokens moves by eps * sqrt(words) / tokens along the weights, away from the truth
    reach = 0.3 * tokens.words.sum(1).sqrt() / tokens.real.sum(1) * weights.norm()
    with torch.no_grad():
        plain = model(rows)[:, 0]
    errors = ((plain - labels).abs() + reach) ** 2
    assert found.item() == pytest.approx(data.mean_over_domains(errors).item(), rel=1e-4)


def test_a_run_from_training_to_verify_and_its_figures_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    assert verb("train", *NUMBERS, "--target", "trips", *TINY, *SHORT, "--out", "run", "--json") == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    model = sp.load_model("file:run")
    for name, domain in ((name, load()[name]) for name in ("books", "trips")):
        measured = open_run("run").evidence.get(probe="score", domain=name)
        rows = domain.subset([domain.ids.tolist().index(one) for one in measured["id"]])
        with torch.no_grad():
            predicted = model(rows.tensors()[0])[:, 0].numpy()
        assert np.allclose(measured["predicted"], predicted, atol=1e-5)
        assert said["pearson"][name] == pytest.approx(stats.pearsonr(rows.labels, predicted).statistic, abs=1e-6)
        assert said["spearman"][name] == pytest.approx(stats.spearmanr(rows.labels, predicted).statistic, abs=1e-6)
        assert said["mean_absolute_error"][name] == pytest.approx(np.abs(rows.labels - predicted).mean(), abs=1e-5)
    errors = said["mean_absolute_error"]
    assert said["mean_absolute_error_gap"] == pytest.approx(errors["trips"] - (errors["books"] + errors["films"]) / 2)
    here = np.mean([said["pearson"][name] for name in ("books", "films")])
    assert said["pearson_gap"] == pytest.approx(here - said["pearson"]["trips"])
    assert said["pearson_gap_interval"][0] > 0.2
    assert [one["code"] for one in said["findings"]] == ["gap"]
    assert verb("verify", "run") == 0
    page = Path("run/report.html").read_text()
    assert "Correlation, domain by domain" in page
    assert "scores.csv" in {path.name for path in Path("run/tables").iterdir()}
    assert (
        verb(
            "audit",
            *NUMBERS,
            "--model",
            "file:run",
            "--target",
            "trips",
            "--limit",
            "20",
            "--out",
            "audit",
            "--verbose",
        )
        == 0
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert "do not apply" in shown
    audit = open_run("audit")
    (text,) = audit.verdict
    assert text in shown
    scores = audit.content().to_json()["sections"]["scores"]
    ((pearson, gap, (low, high)),) = (
        (scores["pearson"][model], scores["pearson_gap"][model], scores["pearson_gap_interval"][model])
        for model in scores["pearson"]
    )
    here = (pearson["books"] + pearson["films"]) / 2
    assert text.startswith("On 20 samples of trips what the model predicts and the true numbers have a correlation ")
    assert f"of {pearson['trips']:.2f} (Pearson: 1 is best, 0 is none); on " in text
    assert f" samples of the training domains one of {here:.2f}. " in text
    assert f"It loses {gap:.2f} (95 % interval {low:.2f} to {high:.2f})." in text
    assert text.endswith("Attacks and guarantees are about classes, and do not apply to numbers.")
    about = "The same samples of every domain, by how well predicted numbers follow the true ones; trips is where it is"
    assert audit.content().about.startswith(about)
    sections = list(audit.content().sections)
    assert sections.index("verdict") < sections.index("findings") < sections.index("scores")


def test_verify_asks_the_model_for_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert verb("train", *NUMBERS, "--target", "trips", *TINY, *SHORT, "--out", "run") == 0
    store = EvidenceStore(Path("run/evidence"))
    (path,) = Path("run/evidence").rglob("trips/score-*.parquet")
    file = store.read_file(path)
    (one,) = file.evidence
    columns = {name: one[name] for name in one.table.column_names}
    columns["predicted"] = one["truth"].copy()
    forged = Measurement.of(one.facts, columns, PROBES["score"].cls.columns)
    store.finish(path, Evidence([forged]), file.identity)
    assert verb("verify", "run") == 2
    assert "the model itself predicts" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["attack", *NUMBERS, "--model", "file:run", "--threat", "edits:1"], "the probe attack does not apply"),
        (["certify", *NUMBERS, "--model", "file:run", "--noise", "word-deletion"], "the probe certify does not apply"),
        (["train", *NUMBERS, *TINY, "--objective", "word-deletion", "--out", "x"], "needs classes"),
        (["train", *NUMBERS, *TINY, *SHORT, "--require", "clean>=0.5", "--out", "x"], "none is right"),
        (["train", "--data", "table:stars.csv", *TINY, "--out", "x"], "--set data.labels=numbers"),
        (["explain", "--model", "file:run"], "certificates are for models that choose a class"),
    ],
)
def test_what_counts_right_answers_does_not_apply(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = sp.build_model("text-cnn", load(), width=8, filters=8, vocabulary=256)
    sp.save_model(model.eval(), Path("run/model.safetensors"), {"classes": []})
    assert verb(*arguments) == 1
    assert sentence in capsys.readouterr().err
    assert not Path("x/run.json").exists()


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(DataError, match="finite numbers"):
        sp.Domain.from_inputs("odd", load()["books"].inputs, [float("nan")] * 60, [])
    with pytest.raises(DataError, match="one number a sample"):
        sp.Domain.from_inputs("odd", load()["books"].inputs, ["a"] * 60, [])
    for label, sentence in {
        "high": "the label 'high' is no number",
        "NaN": "the label is NaN, which is no number to predict",
        "": "the label is missing",
        "-inf": "the label '-inf' is not finite",
        "1e999": "the label '1e999' is not finite",
    }.items():
        Path("bad.csv").write_text(f"text,label,domain\nso good,{label},books\nbad,0.5,books\n")
        with pytest.raises(DataError, match=f"line 2: {sentence}"):
            sp.load_domains("table:bad.csv", labels="numbers")
    model = sp.build_model("text-cnn", sp.load_domains("signed-reviews"), width=8, filters=8, vocabulary=256)
    with pytest.raises(ModelError, match="2 outputs, but labels are numbers to predict"):
        sp.train(model, load(), recipe={"steps": 1})
    with pytest.raises(UsageError, match="robust-source-validation|has no attack"):
        sp.train(model, load(), selection="robust-source-validation")


@needs_data
def test_stsb_has_four_sources_with_numbers_from_0_to_5() -> None:
    domains = sp.load_domains("stsb")
    check_domains(domains)
    assert domains.names == ("images", "MSRvid", "headlines", "MSRpar")
    assert [len(train_part(one)) for one in domains] == [1000, 1000, 1999, 1000]
    assert all(one.labels.min() >= 0 and one.labels.max() <= 5 for one in domains)
