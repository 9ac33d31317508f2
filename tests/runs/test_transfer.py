"""Heads of a model, a new head on an old encoder, and training in two phases."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from shiftproof.certification import CERTIFIERS, certify
from shiftproof.domains import Domain, Domains, load_domains
from shiftproof.errors import ModelError, StudyError, UnknownName, UsageError
from shiftproof.models import NetworkBlueprint, SplitModel, build_model, load_model, save_model
from shiftproof.models.heads import Head
from shiftproof.models.lipschitz import MaxMin, RowL1Linear, RowL2Linear, SpectralLinear, frozen
from shiftproof.rng import seeded_globals
from shiftproof.runs import find_study, open_run, parse_study, run_study
from shiftproof.runs.estimate import estimate_study
from shiftproof.runs.identity import digest, study_identity
from shiftproof.runs.models import load_trained
from shiftproof.runs.seen import seen_domains
from shiftproof.training import Fit, train

Call = Callable[..., tuple[int, str, str]]

DIGITS = load_domains("digits")
COLORED = load_domains("colored-digits")
KINDS = {"free": nn.Linear, "row-l1": RowL1Linear, "row-l2": RowL2Linear, "spectral": SpectralLinear}


def parity(size: int = 8, channels: int = 1) -> Domains:
    """The digits as two classes, of another size if told."""
    inputs, labels = next(iter(DIGITS)).tensors()
    inputs = F.interpolate(inputs, size).repeat(1, channels, 1, 1)
    return Domains("parity", [Domain.from_arrays("all", inputs, (labels % 2).numpy(), ("even", "odd"))])


def weights(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("layers", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_heads_are_built_as_asked(kind: str, layers: int) -> None:
    model = build_model("mlp", DIGITS, width=16, head=kind, head_layers=layers, head_width=6)
    parts = [model.head] if layers == 1 else list(model.head.children())
    assert [type(part) for part in parts] == [KINDS[kind], MaxMin] * (layers - 1) + [KINDS[kind]]
    assert model(torch.rand(2, 1, 8, 8)).shape == (2, 10)


@pytest.mark.parametrize("layers", [1, 4])
def test_rows_stay_within_their_bound_while_they_are_trained(layers: int) -> None:
    options = {"head": "row-l1", "head_layers": layers, "head_width": 16, "head_bound": 0.5}
    model = build_model("mlp", DIGITS, width=16, **options)
    train(model, DIGITS, recipe={"steps": 20, "lr": 0.1, "batch": 32}, progress="off")
    matrices = [part.weight for part in frozen(model, (1, 8, 8)).head.modules() if isinstance(part, nn.Linear)]
    assert len(matrices) == layers
    norms = torch.cat([matrix.abs().sum(1) for matrix in matrices])
    assert float(norms.max()) <= 0.5 * (1 + 1e-6)
    # the bound is at work
    assert float(norms.max()) > 0.49


def test_the_usual_head_begins_with_the_bits_it_always_had() -> None:
    model = build_model("mlp", DIGITS, seed=3, width=32)
    with seeded_globals(3, "initialisation", "mlp"):
        for sizes in ((64, 32), (32, 32)):
            nn.Linear(*sizes)
        expected = nn.Linear(32, 10)
    assert same(weights(model.head), weights(expected))
    assert type(model.head) is nn.Linear


def test_an_architecture_comes_back_from_json() -> None:
    model = build_model("cnn", COLORED, gray=True, width=4, head="row-l2", head_layers=3, head_bound=2.0)
    record = json.loads(json.dumps(model.architecture.as_dict()))  # type: ignore[union-attr]
    assert NetworkBlueprint.from_dict(record) == model.architecture
    assert record["head"] == {"head": "row-l2", "head_layers": 3, "head_width": 256, "head_bound": 2.0}
    with pytest.raises(ModelError, match=r"is damaged at architecture.head.head"):
        NetworkBlueprint.from_dict({**record, "head": {"head": "round"}})
    # files that were written before there were heads to choose
    del record["head"]
    assert NetworkBlueprint.from_dict(record).head == Head()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"head": "rowl1"}, "head of model 'mlp' is 'rowl1'; it should be 'free', 'row-l1', 'row-l2' or 'spectral'"),
        ({"head_layers": 0}, "head_layers of model 'mlp' is 0"),
        ({"head_width": 7}, "head_width of model 'mlp' is 7; it should be a multiple of 2"),
        ({"head_bound": float("inf")}, "head_bound of model 'mlp' is inf"),
        ({"head_layer": 2}, "Did you mean 'head_layers'"),
    ],
)
def test_options_of_a_head_are_checked(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        build_model("mlp", DIGITS, **options)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A network that was trained on ten digits."""
    model = build_model("cnn", DIGITS, width=4, mean=[0.3], std=[0.4])
    train(model, DIGITS, recipe={"steps": 3, "batch": 16}, progress="off")
    save_model(model, tmp_path / "m.safetensors", {"classes": list(DIGITS.classes)})
    return tmp_path / "m.safetensors"


def test_a_new_head_on_a_saved_model(saved: Path) -> None:
    old = load_model(f"file:{saved}", DIGITS)
    options = {"head": "row-l1", "head_layers": 4, "head_width": 8}
    new = load_model(f"file:{saved}", parity(), seed=1, **options)
    assert isinstance(old, SplitModel)
    assert isinstance(new, SplitModel)
    assert not new.training
    assert new(torch.rand(3, 1, 8, 8)).shape == (3, 2)
    assert same(weights(new.encoder), weights(old.encoder))
    assert same(weights(new), weights(load_model(f"file:{saved}", parity(), seed=1, **options)))
    other = load_model(f"file:{saved}", parity(), seed=2, **options)
    assert not same(weights(new.head), weights(other.head))  # type: ignore[arg-type]
    save_model(new, saved.with_name("n.safetensors"), {"classes": ["even", "odd"]})
    again = load_model(f"file:{saved.with_name('n.safetensors')}", parity())
    assert same(weights(again), weights(new))


def test_a_new_head_in_memory_shares_the_encoder() -> None:
    model = build_model("cnn", DIGITS, width=4)
    before = weights(model)
    new = model.with_fresh_head(parity(), head="row-l2", seed=4)
    assert new.encoder is model.encoder
    assert new.architecture == build_model("cnn", parity(), width=4, head="row-l2").architecture
    assert same(weights(model), before)
    by_hand = SplitModel(nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.BatchNorm1d(12)), nn.Linear(12, 10))
    moved = by_hand.with_fresh_head(parity())
    assert moved.architecture is None
    assert moved(torch.rand(2, 1, 8, 8)).shape == (2, 2)
    with pytest.raises(UnknownName, match="Did you mean 'head_width'"):
        model.with_fresh_head(parity(), head_widht=3)
    with pytest.raises(ModelError, match=r"no row of numbers for an input of shape \(1, 9, 9\)"):
        by_hand.with_fresh_head(parity(9))


def test_another_image_size_where_the_weights_fit(saved: Path) -> None:
    old, new = load_model(f"file:{saved}"), load_model(f"file:{saved}", parity(13), head="free")
    assert isinstance(new, SplitModel)
    assert new(torch.rand(3, 1, 13, 13)).shape == (3, 2)
    assert same(weights(new.encoder), weights(old.encoder))  # type: ignore[arg-type]
    assert new.architecture is not None
    assert new.architecture.shape == (1, 13, 13)
    mlp = build_model("mlp", DIGITS, width=16)
    with pytest.raises(
        ModelError, match=r"inputs of shape \(1, 8, 8\), and does not fit those of \(1, 9, 9\): '1.weig"
    ):
        mlp.with_fresh_head(parity(9))
    # three values of normalisation are wanted for three channels
    with pytest.raises(
        ModelError, match=r"m.safetensors: .* inputs of shape \(1, 8, 8\), .* those of \(3, 8, 8\): mean"
    ):
        load_model(f"file:{saved}", parity(channels=3), head="free")
    gray = build_model("mlp", DIGITS, width=16, gray=True)
    assert gray.with_fresh_head(parity(channels=3))(torch.rand(2, 3, 8, 8)).shape == (2, 2)


def test_a_file_keeps_its_label_space_unless_told(saved: Path) -> None:
    with pytest.raises(ModelError, match=r"has the classes even, odd. 'shiftproof train --set model.head=free'"):
        load_model(f"file:{saved}", parity())
    with pytest.raises(UsageError, match="gray needs architecture=NAME"):
        load_model(f"file:{saved}", parity(), head="free", gray=True)
    with pytest.raises(UsageError, match="is built for a data set"):
        load_model(f"file:{saved}", head="free")
    with pytest.raises(UsageError, match="head of a new head of file:.* is 'round'"):
        load_model(f"file:{saved}", parity(), head="round")


def test_a_new_head_on_weights_without_a_record(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = load_model(f"file:{saved}")
    saved.with_suffix(".json").unlink()
    normalised = {"width": 4, "mean": [0.3], "std": [0.4]}
    new = load_model(f"file:{saved}", parity(), architecture="cnn", head="row-l1", **normalised)
    assert same(weights(new.encoder), weights(old.encoder))  # type: ignore[arg-type]
    assert isinstance(new.head, RowL1Linear)
    (saved.parent / "nets_for_transfer.py").write_text(
        "from torch import nn\nfrom shiftproof.models import SplitModel\n"
        "def split(): return SplitModel(nn.Sequential(nn.Flatten(), nn.Linear(64, 6)), nn.Linear(6, 10))\n"
        "def whole(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    monkeypatch.syspath_prepend(str(saved.parent))
    for name in ("split", "whole"):
        save_model(load_model(f"python:nets_for_transfer:{name}"), saved.with_name(f"{name}.safetensors"))
    spec = f"file:{saved.with_name('split.safetensors')}"
    model = load_model(spec, parity(), architecture="python:nets_for_transfer:split", head="row-l1")
    assert model(torch.rand(2, 1, 8, 8)).shape == (2, 2)
    with pytest.raises(ModelError, match="if you trust that code"):
        load_model(spec, parity(), head="row-l1")
    with pytest.raises(ModelError, match=r"goes on a SplitModel\(encoder, head\), but .* is a Sequential"):
        load_model(spec.replace("split", "whole"), parity(), architecture="python:nets_for_transfer:whole", head="free")
    with pytest.raises(UsageError, match="takes no options, but head was given"):
        load_model("python:nets_for_transfer:split", parity(), head="free")


CERTIFIER = {
    "median-smoothing": {"sigma": 0.25, "samples": 200},
    "lipschitz-margin": {"norm": "linf"},
    "latent-margin": {},
}


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CERTIFIER)
def test_models_with_new_heads_are_certified_or_refused(name: str, kind: str, layers: int) -> None:
    model = build_model("mlp", DIGITS, width=8, head=kind, head_layers=layers, head_width=8).eval()
    few = next(iter(DIGITS)).subset(range(6))
    certifier = CERTIFIERS.create(name, CERTIFIER[name])
    if (name, layers) == ("latent-margin", 3):
        with pytest.raises(ModelError, match="its head is not a plain linear layer"):
            certify(model, few, certifier)
    else:
        assert (certify(model, few, certifier).radius >= 0).all()


TRANSFER = """
data: digits
models:
  small: &small
    model: {name: cnn, width: 4, head: row-l1, head_layers: 2, head_width: 8}
    pretrain: {data: rotated-digits, source: "angle=0, angle=30", training: {steps: 4, batch: 16}}
    training: {steps: 4, batch: 16, part: head, evaluate_every: 2}
  free: {<<: *small, model: {name: cnn, width: 4}}
  tuned: {<<: *small, training: {steps: 4, batch: 16}}
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("transfer") / "run"
    torch.set_num_threads(1)
    run_study(parse_study(TRANSFER, "t", "t"), folder)
    return folder


def test_a_study_in_two_phases(finished: Path) -> None:
    files = {path.name for path in (finished / "models").iterdir()}
    names = ("small", "free", "tuned", "small-pretrained")
    # one first phase, which all three share
    assert files == {f"{name}.{suffix}" for name in names for suffix in ("safetensors", "json")}
    run = open_run(finished)
    study = run.study
    card = json.loads((finished / "models" / "small.json").read_text())
    assert card["initial"]["name"] == "file:small-pretrained.safetensors"
    assert card["initial"]["sources"] == ["angle=0", "angle=30"]
    assert card["architecture"]["head"]["head"] == "row-l1"
    first = json.loads((finished / "models" / "small-pretrained.json").read_text())
    assert (first["sources"], first["architecture"]["head"]["head"]) == (["angle=0", "angle=30"], "free")
    assert run.record["config"]["models"]["small"]["pretrain"]["recipe"]["steps"] == 4
    facts = run.content().facts
    assert "head=row-l1, head_layers=2" in facts["model small"]
    assert "pre-trained on rotated-digits: erm" in facts["model small"]
    assert "head=" not in facts["model free"]
    extractor = load_model(f"file:{finished / 'models' / 'small-pretrained.safetensors'}")
    models = {member.name: load_trained(study, DIGITS, finished, member) for member in study.members}
    encoders = {name: weights(model.encoder) for name, model in models.items()}  # type: ignore[arg-type]
    before = weights(extractor.encoder)  # type: ignore[arg-type]
    # BatchNorm statistics included
    assert "1.running_mean" in before
    assert same(encoders["small"], before)
    assert same(encoders["free"], before)
    assert not same(encoders["tuned"], before)


def test_a_run_is_completed_from_the_phase_that_is_there(finished: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    kept, lost = (copy / "models" / name for name in ("small-pretrained.safetensors", "small.safetensors"))
    written, before = kept.stat().st_mtime_ns, lost.read_bytes()
    for path in (lost, lost.with_suffix(".json")):
        path.unlink()
    run_study(parse_study(TRANSFER, "t", "t"), copy)
    assert lost.read_bytes() == before
    assert kept.stat().st_mtime_ns == written
    # the first phase comes back from its own checkpoint, to the same bits
    before = kept.read_bytes()
    for path in (lost, lost.with_suffix(".json"), kept, kept.with_suffix(".json")):
        path.unlink()
    run_study(parse_study(TRANSFER, "t", "t"), copy)
    assert kept.read_bytes() == before
    # a model that is there needs no first phase any more
    for path in (kept, kept.with_suffix(".json")):
        path.unlink()
    run_study(parse_study(TRANSFER, "t", "t"), copy)
    assert not kept.exists()


def test_the_hash_of_a_study_covers_the_first_phase() -> None:
    def hashed(text: str) -> str:
        return digest(study_identity(parse_study(text, "s", "s")))

    changes = [("angle=30", "angle=15"), ("head_layers: 2", "head_layers: 3"), ("source:", "seed: 3, source:")]
    assert len({hashed(TRANSFER), *(hashed(TRANSFER.replace(*change)) for change in changes)}) == 4
    assert hashed(TRANSFER) == hashed(TRANSFER.replace("source:", "objective: erm, source:"))


@pytest.mark.parametrize(
    ("change", "line", "sentence"),
    [
        (("data: rotated-digits", "data: rotted-digits"), 6, "Did you mean 'rotated-digits'?"),
        (("source:", "sorce:"), 6, "unknown key 'sorce'. Did you mean 'source'?"),
        (("data: rotated-digits, ", ""), 6, "the key 'models.small.pretrain.data' is missing"),
        (("source:", "steps: 3, source:"), 6, "Did you mean 'training.steps'?"),
        (("source:", "objective: emr, source:"), 6, "unknown objective 'emr'. Did you mean 'erm'?"),
        (("{steps: 4, batch: 16}}", "{steps: x}}"), 6, "steps of training is 'x'"),
        (("source:", "selection: robust-source-validation, source:"), 6, "has no attack to select by"),
        (("model: {name: cnn, width: 4, head: row-l1,", "head: row-l1\n    model: {name: cnn,"), 5, "'model.head'?"),
        (("{name: cnn, width: 4, head", "{name: 'file:m', head"), 6, "a model of a file is trained already"),
        (("{name: cnn, width: 4, head: row-l1, head_layers: 2, head_width: 8}", "'python:a:b'"), 6, "by other code"),
        (("free:", "small-pretrained:"), 6, "kept where the model 'small-pretrained' goes"),
    ],
)
def test_mistakes_in_a_first_phase_are_one_sentence(change: tuple[str, str], line: int, sentence: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse_study(TRANSFER.replace(*change), "s", "s")
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(f"s, line {line}: ")


def test_what_does_not_fit_is_noticed_before_anything_is_trained(tmp_path: Path) -> None:
    text = TRANSFER.replace("rotated-digits", "colored-digits").replace('source: "angle=0, angle=30", ', "")
    with pytest.raises(ModelError, match=r"inputs of shape \(2, 8, 8\), and does not fit those of \(1, 8, 8\)"):
        run_study(parse_study(text, "s", "s"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(UnknownName, match="angle=7"):
        run_study(parse_study(TRANSFER.replace("angle=30", "angle=7"), "s", "s"), tmp_path / "run")


def test_paths_and_overrides_reach_the_first_phase(images: Callable[..., Path], tmp_path: Path) -> None:
    images(count=3)
    (tmp_path / "studies").mkdir()
    phase = "pretrain: {data: {name: 'folder:../images', size: 8}}"
    text = f"data: digits\nmodels:\n  a: &a {{model: cnn, {phase}}}\n  b: {{model: cnn}}\n  c: {{<<: *a}}\n  d: *a\n"
    (tmp_path / "studies" / "my.yaml").write_text(text)
    study = find_study("studies/my.yaml", ["pretrain.training.steps=7", "models.a.pretrain.training.steps=8"])
    phases = {name: spec.pretrain for name, spec in study.models.items()}
    assert phases.pop("b") is None
    # what the file says once by an alias is changed for one model alone
    assert {name: one.training["steps"] for name, one in phases.items() if one} == {"a": 8, "c": 7, "d": 7}
    assert {one.data.source for one in phases.values() if one} == {f"folder:{Path('images').resolve()}"}
    assert all(spec.pretrain for spec in find_study("quickstart", ["pretrain.data=digits"]).models.values())


SMALL = ["--model", "cnn", "--set", "model.width=4", "--set", "training.steps=4", "--set", "training.batch=16"]
FIRST = ["pretrain.training.steps=4", "pretrain.training.batch=16", "pretrain.objective=gaussian"]
HEAD = ["model.head=row-l1", "model.head_layers=2", "training.part=head"]


def command(*changes: str, data: str = "digits") -> list[object]:
    sets = [part for change in (*FIRST, *HEAD, *changes) for part in ("--set", change)]
    return ["train", "--data", data, *SMALL, *sets]


def test_the_train_command_in_two_phases(run: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phases: list[str] = []

    def recorded(*arguments: Any, label: str, **options: Any) -> Fit:
        phases.append(label)
        return train(*arguments, label=label, **options)

    monkeypatch.setattr("shiftproof.runs.models.train", recorded)
    wanted = command("pretrain.data=rotated-digits", "pretrain.source=angle=0")
    code, out, err = run(*wanted, "--out", tmp_path / "m", "--json")
    assert code == 0, err
    assert phases == ["pre-training", "training"]
    names = {path.name for path in (tmp_path / "m").iterdir()}
    both = {f"{stem}.{suffix}" for stem in ("model", "model-pretrained") for suffix in ("safetensors", "json")}
    assert both <= names
    assert not list((tmp_path / "m").rglob("*.ckpt"))
    kept = tmp_path / "m" / "model-pretrained.safetensors"
    first, last = load_model(f"file:{kept}"), load_model(f"file:{tmp_path / 'm'}")
    assert same(weights(first.encoder), weights(last.encoder))  # type: ignore[arg-type]
    assert isinstance(last.head, nn.Sequential)
    card = json.loads((tmp_path / "m" / "model.json").read_text())
    assert card["initial"]["objective"]["name"] == "gaussian"
    # the second phase is done again, the first is not
    accuracy, written = json.loads(out.splitlines()[-1])["accuracy"], kept.stat().st_mtime_ns
    for name in ("model.safetensors", "model.json"):
        (tmp_path / "m" / name).unlink()
    shutil.rmtree(tmp_path / "m" / "evidence")
    code, out, err = run(*wanted, "--out", tmp_path / "m", "--json")
    assert (code, json.loads(out.splitlines()[-1])["accuracy"]) == (0, accuracy)
    assert phases == ["pre-training", "training", "training"]
    assert kept.stat().st_mtime_ns == written
    # another first phase is another model, wherever it is kept
    other = command("pretrain.data=rotated-digits", "pretrain.source=angle=15")
    assert "holds a run with other pretrain; choose another --out" in run(*other, "--out", tmp_path / "m")[2]
    (tmp_path / "m" / "run.json").unlink()
    assert "holds model.safetensors, but no run.json" in run(*other, "--out", tmp_path / "m")[2]


def test_a_target_that_the_first_phase_has_seen_is_not_unseen(run: Call, tmp_path: Path) -> None:
    target = ["--target", "angle=75", "--source", "angle=0"]
    seen = command("pretrain.data=rotated-digits", "pretrain.source=angle=75", data="rotated-digits")
    assert "was trained on angle=75" in run(*seen, *target, "--out", tmp_path / "m")[1]
    clean = command("pretrain.data=rotated-digits", "pretrain.source=angle=30", data="rotated-digits")
    assert "was trained on angle=75" not in run(*clean, *target, "--out", tmp_path / "n")[1]
    # through another data set and back
    for data, start, out, more in (("digits", "m", "o", []), ("rotated-digits", "o", "p", target)):
        few = ["--set", "training.steps=2", "--set", "model.head=free", "--out", tmp_path / out]
        code, text, _ = run("train", "--data", data, "--model", f"file:{tmp_path / start}", *few, *more)
        assert code == 0
    assert "was trained on angle=75" in text


def test_a_command_that_makes_no_sense_leaves_nothing(run: Call, tmp_path: Path) -> None:
    for changes, sentence in {
        ("pretrain.data=colored-digits",): "does not fit those of (1, 8, 8)",
        ("pretrain.data=nowhere",): "unknown data set 'nowhere'",
        ("pretrain.objective=erm",): "the key 'models.cnn.pretrain.data' is missing",
        ("pretrain=digits",): "pretrain should be a name, or a mapping with its keys",
        ("pretrain.data=digits", "model.head_width=3"): "head_width of model 'cnn' is 3",
    }.items():
        code, _, err = run(*command(*changes), "--out", tmp_path / "m")
        assert code == 1
        assert sentence in err
        assert len(err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_training_starts_from_a_file_with_a_new_head(run: Call, saved: Path) -> None:
    out = saved.with_name("out")
    options = ["--set", "training.steps=2", "--set", "training.part=head", "--out", out]
    code, _, err = run("train", "--data", "colored-digits", "--model", f"file:{saved}", *options)
    assert code == 1
    assert "--set model.head=free" in err
    code, _, err = run("train", "--data", "digits", "--model", f"file:{saved}", "--set", "model.head=row-l1", *options)
    assert code == 0, err
    assert isinstance(load_model(f"file:{out}").head, RowL1Linear)


def test_training_starts_from_code_with_a_new_head(run: Call, tmp_path: Path) -> None:
    (tmp_path / "nets_by_hand.py").write_text(
        "from torch import nn\nfrom shiftproof.models import SplitModel\n"
        "def split(): return SplitModel(nn.Sequential(nn.Flatten(), nn.Linear(64, 6)), nn.Linear(6, 3))\n"
    )
    save_model(load_model("python:nets_by_hand:split"), tmp_path / "m.safetensors")
    changes = ["model.architecture=python:nets_by_hand:split", "model.head=row-l2", "training.steps=2"]
    sets = [part for change in changes for part in ("--set", change)]
    for _ in range(2):
        call = ["train", "--data", "digits", "--model", "file:m.safetensors", *sets, "--out", "out", "--json"]
        code, _, err = run(*call)
        assert code == 0, err


def test_heads_are_listed(run: Call) -> None:
    listed = json.loads(run("ls", "models", "--json")[1])["models"]
    assert all(entry["options"]["head"] == "free" for entry in listed)


def test_a_model_has_seen_what_any_phase_has() -> None:
    first = {"data": {"name": "a"}, "sources": ["x", "y"], "initial": None}
    card = {"data": {"name": "b"}, "sources": ["x"], "initial": first}
    assert seen_domains(card, "a") == {"x", "y"}
    assert seen_domains(card, "b") == {"x"}
    assert seen_domains(card, "c") == set()


def test_an_estimate_counts_the_first_phase_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shiftproof.runs.estimate.PROBE_SECONDS", 0.05)
    stages = [(cost.model, cost.stage) for cost in estimate_study(parse_study(TRANSFER, "t", "t")).costs]
    assert [model for model, stage in stages if stage == "pre-training"] == ["small"]
    assert len([model for model, stage in stages if stage == "training"]) == 3


@pytest.mark.parametrize("verb", [("attack", "--threat", "l2:0.1"), ("certify", "--certifier", "lipschitz-margin")])
def test_a_head_that_nobody_trained_is_not_measured(verb: tuple[str, ...], run: Call, tmp_path: Path) -> None:
    save_model(build_model("mlp", load_domains("digits")), tmp_path / "m.safetensors", {"classes": list("0123456789")})
    model = ("--data", "digits", "--model", f"file:{tmp_path / 'm.safetensors'}", "--set", "model.head=free")
    code, _, err = run(*verb, *model, "--out", tmp_path / "o")
    assert code == 1
    assert "puts a new head on" in err
    assert not (tmp_path / "o").exists()
    assert "behind 'file:' is empty" in run(*verb, "--data", "digits", "--model", "file:")[2]
