"""`shiftproof corrupt`: a corrupted copy of a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import shiftproof as sp

Run = Callable[..., tuple[int, str, str]]


def test_the_copy_is_the_same_tree_and_can_be_loaded(run: Run, images: Callable[..., Path], tmp_path: Path) -> None:
    root = images(size=16)
    code, out, err = run("corrupt", "--data", f"folder:{root}", "--corruption", "fog", "--out", tmp_path / "foggy")
    assert code == 0, err
    assert f"folder:{tmp_path / 'foggy'}" in out
    before, after = sp.load_domains(f"folder:{root}"), sp.load_domains(f"folder:{tmp_path / 'foggy'}")
    assert before.names == after.names
    for one, other in zip(before, after, strict=True):
        assert list(one.ids) == list(other.ids)
        expected = sp.corrupt(one.tensors()[0], "fog", 3, ids=[str(name) for name in one.ids])
        assert float((expected - other.tensors()[0]).abs().max()) <= 0.5 / 255 + 1e-6


def test_several_have_a_folder_each(run: Run, images: Callable[..., Path], tmp_path: Path) -> None:
    root = images(count=2)
    arguments = ["--corruption", "contrast,snow", "--severity", "1,5", "--domain", "clinic-a", "--json"]
    code, out, _ = run("corrupt", "--data", f"folder:{root}", "--out", tmp_path / "all", *arguments)
    assert code == 0
    found = json.loads(out)
    assert [Path(one).name for one in found["folders"]] == ["contrast-1", "contrast-5", "snow-1", "snow-5"]
    assert (found["images"], found["constants"]) == (16, "cifar")
    assert len(list((tmp_path / "all").rglob("*.png"))) == 16


def test_the_same_command_goes_on(run: Run, images: Callable[..., Path], tmp_path: Path) -> None:
    root, out = images(count=3), tmp_path / "copy"
    arguments = ["corrupt", "--data", f"folder:{root}", "--corruption", "shot-noise", "--out", out]
    assert run(*arguments)[0] == 0
    lost = out / "clinic-b" / "dog" / "1.png"
    content, others = lost.read_bytes(), {path: path.stat().st_mtime_ns for path in out.rglob("0.png")}
    lost.unlink()
    assert run(*arguments)[0] == 0
    assert lost.read_bytes() == content
    code, _, err = run(*arguments[:-1], out, "--severity", 5)
    assert code == 1
    assert "holds other corrupted images" in err
    assert others


def test_gray_of_16_bits_and_names_that_meet(run: Run, images: Callable[..., Path], tmp_path: Path) -> None:
    root = images(mode="I;16", count=2)
    Image.fromarray(np.full((8, 8), 99, np.uint8)).save(root / "clinic-a" / "cat" / "0.jpg")
    assert run("corrupt", "--data", f"folder:{root}", "--corruption", "pixelate", "--out", tmp_path / "copy")[0] == 0
    copied = sp.load_domains(f"folder:{tmp_path / 'copy'}")
    assert copied.shape == (1, 8, 8)
    assert [len(domain) for domain in copied] == [5, 4]


def test_an_embedded_set_of_two_channels(run: Run, tmp_path: Path) -> None:
    arguments = ["--data", "colored-digits", "--domain", "e=0.9", "--corruption", "brightness", "--severity", "1"]
    code, _, err = run("corrupt", *arguments, "--out", tmp_path / "copy")
    assert code == 0, err
    (domain,) = sp.load_domains(f"folder:{tmp_path / 'copy'}")
    assert (len(domain), domain.shape) == (397, (3, 8, 8))


def test_two_channels_are_red_and_green() -> None:
    images = torch.rand(4, 2, 16, 16, generator=torch.Generator().manual_seed(0))
    colour = torch.cat([images, torch.zeros(4, 1, 16, 16)], 1)
    assert torch.equal(sp.corrupt(images, "saturate", 4), sp.corrupt(colour, "saturate", 4)[:, :2])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--corruption", "fogg"], "Did you mean 'fog'"),
        (["--corruption", "fog", "--severity", "6"], "from 1 to 5"),
        (["--corruption", "fog", "--constants", "svhn"], "constants"),
        (["--corruption", "fog", "--set", "model.width=3"], "unknown key of --set"),
    ],
)
def test_mistakes(run: Run, images: Callable[..., Path], tmp_path: Path, arguments: list[str], said: str) -> None:
    code, _, err = run("corrupt", "--data", f"folder:{images(count=1)}", "--out", tmp_path / "copy", *arguments)
    assert code == 1
    assert said in err
    assert not (tmp_path / "copy").exists()


def test_a_folder_that_is_not_empty(run: Run, images: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    arguments = ["--data", f"folder:{images(count=1)}", "--corruption", "fog", "--out", tmp_path / "mine"]
    code, _, err = run("corrupt", *arguments)
    assert code == 1
    assert "is not empty" in err
