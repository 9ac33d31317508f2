"""timm where torchvision can't be imported, published weights from a file, and the names that papers use."""

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from shiftproof import load_domains, load_model
from shiftproof.errors import ModelError, UnknownName, UsageError
from shiftproof.models.load import check_trained
from shiftproof.runs import parse_study, run_study
from shiftproof.runs.estimate import estimate_study
from shiftproof.runs.sources import ModelSource

Run = Callable[..., tuple[int, str, str]]

BROKEN = 'raise RuntimeError("operator torchvision::nms does not exist")\n'
"""What a torchvision for another torch says when it is imported."""
LIKE_TIMM = """
from torch import nn
from torchvision.ops.misc import FrozenBatchNorm2d
from torchvision.transforms import InterpolationMode
import torchvision.transforms.functional as F
from torchvision import datasets

MODES = {InterpolationMode.BILINEAR: "bilinear"}

class Frozen(FrozenBatchNorm2d):
    pass

class Small(nn.Module):
    default_cfg = {"mean": (0.5,) * 3, "std": (0.25,) * 3, "input_size": (3, 8, 8), "first_conv": "conv"}

    def __init__(self, channels):
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(channels, 6, 3), nn.BatchNorm2d(6), nn.Linear(6, 10)

    def get_classifier(self):
        return self.fc

    def reset_classifier(self, classes):
        self.fc = nn.Linear(6, classes) if classes else nn.Identity()

    def forward(self, x):
        return self.fc(self.norm(self.conv(x)).relu().mean((2, 3)))

def is_model(name):
    return name in list_models()

def list_models():
    return ["small", "resnet50"]

def create_model(name, pretrained=False, in_chans=3):
    if pretrained:
        raise RuntimeError("no route to the hub")
    return Small(in_chans)
"""
ADAPT = """
def adapt_input_conv(channels, weight):
    return weight.sum(1, keepdim=True) if channels == 1 else weight
"""
CERTIFY = """
import sys
import torch
import shiftproof as sp

def main():
    domain = sp.load_domains("digits")["digits"]
    model = sp.load_model(sys.argv[1], domain, seed=0, **({"size": 32} if "resnet18" in sys.argv[1] else {})).eval()
    pair = domain.take(range(6))[0], torch.as_tensor(domain.labels[:6])
    noise = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=64)
    alone, both = (sp.certify(model, pair, noise, seed=0, workers=n).count for n in (1, 2))
    assert (alone == both).all(), (alone, both)
    assert "torchvision" not in sys.modules
    print("certified", len(both))

if __name__ == "__main__":
    main()
"""


def package(folder: Path, name: str, **files: str) -> None:
    """A package below `folder`, from the texts of its modules."""
    (folder / name).mkdir(parents=True)
    for module, text in files.items():
        (folder / name / f"{module}.py").write_text(text)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a timm that asks torchvision for what the real one asks for, and a torchvision that fails."""
    folder = tmp_path / "site"
    package(folder, "timm", __init__=LIKE_TIMM + "from timm import models\n", models=ADAPT)
    package(folder, "torchvision", __init__=BROKEN)
    monkeypatch.syspath_prepend(str(folder))
    for name in [one for one in sys.modules if one.split(".")[0] in ("timm", "torchvision")]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def in_a_new_process(folders: list[Path], spec: str) -> subprocess.CompletedProcess[str]:
    script = folders[0] / "certify.py"
    script.write_text(CERTIFY)
    paths = ":".join(map(str, [*folders, *filter(None, sys.path)]))
    return subprocess.run(
        [sys.executable, str(script), spec], capture_output=True, text=True, env={"PYTHONPATH": paths}, timeout=300
    )


class TestWithoutTorchvision:
    def test_a_torchvision_that_fails_does_not_break_networks_or_their_workers(self, library: Path) -> None:
        with pytest.raises(RuntimeError, match="nms"):
            __import__("torchvision")
        done = in_a_new_process([library], "timm:small")
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == ["certified", "6"]

    @pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed")
    def test_nor_those_of_the_library_itself(self, tmp_path: Path) -> None:
        package(tmp_path / "site", "torchvision", __init__=BROKEN)
        done = in_a_new_process([tmp_path / "site"], "timm:resnet18")
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == ["certified", "6"]

    def test_nothing_that_stood_in_is_left_behind(self, library: Path) -> None:
        load_model("timm:small", load_domains("digits"))
        assert not [name for name in sys.modules if name.startswith("torchvision")]
        sys.modules.pop("timm")
        sys.modules.pop("timm.models")

    def test_a_torchvision_that_works_is_used(self, library: Path) -> None:
        (library / "torchvision" / "__init__.py").write_text("datasets = None\n")
        for name, text in (
            ("ops", ""),
            ("transforms", "class InterpolationMode:\n    BILINEAR = 1\n"),
            ("datasets", ""),
        ):
            package(library / "torchvision", name, __init__=text)
        (library / "torchvision" / "ops" / "misc.py").write_text("class FrozenBatchNorm2d:\n    own = True\n")
        (library / "torchvision" / "transforms" / "functional.py").write_text("")
        load_model("timm:small", load_domains("digits"))
        assert sys.modules["timm"].Frozen.own
        for name in [one for one in sys.modules if one.split(".")[0] in ("timm", "torchvision")]:
            sys.modules.pop(name)

    def test_a_library_that_fails_itself_is_a_sentence(self, library: Path) -> None:
        (library / "timm" / "__init__.py").write_text("import torchvision\nraise ImportError('torch is too old')\n")
        with pytest.raises(
            UsageError, match=r"timm can't be imported here: torch is too old\. Another version of timm"
        ):
            load_model("timm:small", load_domains("digits"))
        assert not [name for name in sys.modules if name.split(".")[0] in ("timm", "torchvision")]


class TestWeightsOfAFile:
    @pytest.fixture(autouse=True)
    def _no_leftovers(self, library: Path) -> None:
        pass

    def tensors(self, classes: int = 10, channels: int = 3) -> dict[str, torch.Tensor]:
        made = torch.Generator().manual_seed(0)
        shapes = {"conv.weight": (6, channels, 3, 3), "fc.weight": (classes, 6), "fc.bias": (classes,)}
        shapes |= dict.fromkeys(
            ("conv.bias", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"), (6,)
        )
        return {name: torch.rand(shape, generator=made) for name, shape in shapes.items()}

    def test_are_those_of_the_network_and_are_not_fetched(self, tmp_path: Path) -> None:
        tensors = self.tensors()
        save_file(tensors, tmp_path / "published.safetensors")
        # three channels in the file, one in the data: their sum, as of weights of the hub
        model = load_model("timm:small", load_domains("digits"), weights=str(tmp_path / "published.safetensors"))
        state = {name.rpartition("conv.")[2]: one for name, one in model.state_dict().items() if "conv.weight" in name}
        assert torch.equal(state["weight"], tensors["conv.weight"].sum(1, keepdim=True))
        head = [one for name, one in model.state_dict().items() if name.startswith("head") and name.endswith("weight")]
        assert torch.equal(head[0], tensors["fc.weight"])
        check_trained("timm:small", {"weights": "published.safetensors"})

    def test_for_other_classes_leave_a_new_head(self, tmp_path: Path) -> None:
        tensors = self.tensors(classes=1_000)
        save_file(tensors, tmp_path / "published.safetensors")
        digits = load_domains("digits")
        with pytest.raises(ModelError, match="tells apart 1000 classes; the data has 10"):
            load_model("timm:small", digits, weights=str(tmp_path / "published.safetensors"))
        model = load_model("timm:small", digits, weights=str(tmp_path / "published.safetensors"), head="free")
        kept = [one for name, one in model.state_dict().items() if name.endswith("conv.bias")]
        assert torch.equal(kept[0], tensors["conv.bias"])
        assert model.eval()(torch.rand(2, 1, 8, 8)).shape == (2, 10)

    def test_other_weights_under_their_name_are_another_model(self, tmp_path: Path) -> None:
        path = tmp_path / "published.safetensors"
        source = ModelSource.make({"name": "timm:small", "weights": str(path)})
        save_file(self.tensors(), path)
        first = source.identity()
        save_file({name: one + 1 for name, one in self.tensors().items()}, path)
        assert source.identity()["sha256"] != first["sha256"]

    @pytest.mark.parametrize(
        ("lost", "words"),
        [("conv.bias", "it has no tensor 'conv.bias'"), (None, "can't read the model file")],
    )
    def test_a_file_that_does_not_fit_is_a_sentence(self, lost: str | None, words: str, tmp_path: Path) -> None:
        if lost is not None:
            save_file({name: one for name, one in self.tensors().items() if name != lost}, tmp_path / "w.safetensors")
        with pytest.raises(ModelError, match=words):
            load_model("timm:small", load_domains("digits"), weights=str(tmp_path / "w.safetensors"))

    def test_the_hub_out_of_reach_names_the_file_as_a_way(self) -> None:
        with pytest.raises(ModelError, match=r"no route to the hub.*--set model\.weights=FILE\.safetensors"):
            load_model("timm:small", load_domains("digits"), pretrained=True)


class TestEstimates:
    def test_fetch_nothing_and_say_so(self, library: Path, brief_trials: None) -> None:
        study = """
        data: digits
        limit: 20
        models:
          small:
            model: {name: "timm:small", pretrained: true, head: free}
            objective: erm
            training: {batch: 8, steps: 4}
        probes: [clean]
        """
        cost = estimate_study(parse_study(study, "study.yaml", "study"))
        assert cost.unfetched == ("timm:small",)
        assert cost.gpu_hours is not None
        with pytest.raises(ModelError, match="no route to the hub"):
            run_study(parse_study(study, "study.yaml", "study"), "out", progress="off")
        assert not list(Path().glob("out/models/*"))
        for name in [one for one in sys.modules if one.split(".")[0] == "timm"]:
            sys.modules.pop(name)


@pytest.mark.parametrize(
    ("name", "meant"), [("resnet50", "timm:resnet50"), ("resnet34", "timm:resnet34"), ("vit-base", "timm:vit_base_")]
)
def test_names_of_papers_are_told_where_they_are(name: str, meant: str, run: Run) -> None:
    code, _, err = run("train", "--data", "digits", "--model", name, "--out", "nothing")
    assert code == 1
    assert f"Did you mean '{meant}" in err
    assert not Path("nothing").exists()


def test_names_of_nobody_are_unknown() -> None:
    with pytest.raises(UnknownName, match="resnet51"):
        load_model("resnet51", load_domains("digits"))
