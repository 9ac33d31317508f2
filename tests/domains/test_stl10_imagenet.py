"""STL-10 and ImageNet in their published layouts, as tiny files of random images."""

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from shiftproof.domains import Domain, load_domains
from shiftproof.domains.images import FileInputs
from shiftproof.domains.registry import data_set
from shiftproof.domains.splits import Balanced, first_samples, held_out
from shiftproof.errors import DataError, DataNotFound
from shiftproof.testing import check_domains

Run = Callable[..., tuple[int, str, str]]
SYNSETS = ("n01440764", "n01443537", "n02102040")


@pytest.fixture
def stl10(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, np.ndarray]:
    """Twelve train and twenty test images (N x 3 x 96 x 96), written byte by byte as the page says."""
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    root, generator = tmp_path / "stl10_binary", np.random.default_rng(0)
    root.mkdir()
    images = generator.integers(0, 256, (32, 3, 96, 96), np.uint8)
    for part, some in (("train", range(12)), ("test", range(12, 32))):
        # red, green, blue; of each the first column from top to bottom, then the second
        content = b"".join(images[k, c, :, x].tobytes() for k in some for c in range(3) for x in range(96))
        (root / f"{part}_X.bin").write_bytes(content)
        (root / f"{part}_y.bin").write_bytes(bytes(1 + k % 10 for k in some))
    return root, images


class TestSTL10:
    def test_images_are_those_that_were_stored_column_after_column(self, stl10: tuple[Path, np.ndarray]) -> None:
        domains = load_domains("stl10")
        domain = domains["stl10"]
        check_domains(domains)
        assert np.allclose(domain.tensors()[0].numpy(), stl10[1] / np.float32(255))
        assert domain.labels.tolist() == [k % 10 for k in range(32)]
        assert domain.classes[2] == "car"
        assert domain.splits is not None
        assert domain.splits.tolist() == ["train"] * 12 + ["test"] * 20
        outline = data_set("stl10", {}).outline()
        assert outline is not None
        assert (outline.shape, outline.counts) == (domain.shape, {"stl10": 32})

    def test_a_size_is_one_of_pillow(self, stl10: tuple[Path, np.ndarray]) -> None:
        images = load_domains("stl10", size=32)["stl10"].tensors()[0].numpy()
        for place in (0, 31):
            picture = Image.fromarray(stl10[1][place].transpose(1, 2, 0)).resize((32, 32), Image.Resampling.BILINEAR)
            assert np.allclose(images[place], np.asarray(picture).transpose(2, 0, 1) / np.float32(255))

    def test_an_npz_file_of_ours_is_the_same(self, stl10: tuple[Path, np.ndarray]) -> None:
        root, images = stl10
        before = load_domains("stl10", size=24)["stl10"]
        for path in root.iterdir():
            path.unlink()
        root.rmdir()
        x, y = images.transpose(0, 2, 3, 1), np.arange(32) % 10
        np.savez(root.parent / "stl10.npz", x_train=x[:12], y_train=y[:12], x_test=x[12:], y_test=y[12:])
        assert load_domains("stl10", size=24)["stl10"].fingerprint == before.fingerprint
        outline = data_set("stl10", {}).outline()
        assert outline is not None
        assert outline.counts == {"stl10": 32}

    @pytest.mark.parametrize(
        ("damage", "said"),
        [
            (lambda root: (root / "test_X.bin").unlink(), "lacks test_X.bin"),
            (lambda root: (root / "train_y.bin").unlink(), "train_y.bin can't be read"),
            (lambda root: (root / "test_y.bin").write_bytes(b""), "is empty"),
            (lambda root: (root / "train_y.bin").write_bytes(bytes(range(12))), "labels run from 0 to 11"),
            (lambda root: (root / "test_X.bin").write_bytes(bytes(27_648 * 19 + 5)), "take 552,960: was it cut"),
        ],
        ids=["no images", "no labels", "empty", "labels", "cut"],
    )
    def test_files_that_are_damaged_are_a_sentence(
        self, stl10: tuple[Path, np.ndarray], damage: Callable[[Path], None], said: str
    ) -> None:
        damage(stl10[0])
        with pytest.raises(DataError, match=said):
            load_domains("stl10")


def picture(path: Path, width: int, height: int, generator: np.random.Generator) -> np.ndarray:
    path.parent.mkdir(parents=True, exist_ok=True)
    # smooth, as JPEG stores what is not smooth badly
    pixels = np.asarray(Image.fromarray(generator.integers(0, 256, (4, 4, 3), np.uint8)).resize((width, height)))
    Image.fromarray(pixels).save(path, "JPEG", quality=95)
    return pixels


@pytest.fixture
def imagenet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three classes with four train and two val images each, whose sizes differ; and what else lies about."""
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    root, generator = tmp_path / "imagenet", np.random.default_rng(0)
    for number, name in enumerate(SYNSETS):
        for k in range(4):
            picture(root / "train" / name / f"{name}_{k}.JPEG", 40 + 3 * k, 30 + 5 * number, generator)
        for k in range(2):
            picture(root / "val" / name / f"ILSVRC2012_val_{number}{k}.JPEG", 33, 50 + k, generator)
    (root / "val" / "synset_words.txt").write_text("n01440764 tench\n")
    (root / "test").mkdir()
    (root / "test" / "ILSVRC2012_test_1.JPEG").write_bytes(b"not looked at")
    return root


class TestImageNet:
    def test_is_one_domain_with_classes_in_the_order_of_their_folders(self, imagenet: Path) -> None:
        domains = load_domains("imagenet", classes=3, size=16)
        domain = domains["imagenet"]
        check_domains(domains)
        assert (domain.classes, domain.shape, len(domain)) == (SYNSETS, (3, 16, 16), 18)
        assert domain.splits is not None
        for sample, label, split in zip(domain.ids, domain.labels, domain.splits, strict=True):
            folder, synset, _ = str(sample).split("/")
            assert synset == SYNSETS[label]
            assert split == {"val": "test", "train": "train"}[folder]
        assert len(held_out(domain)) == 6
        alone = load_domains("imagenet", classes=3, size=16, train=False)["imagenet"]
        assert alone.ids.tolist() == held_out(domain).ids.tolist()
        outline = data_set("imagenet", {"classes": 3}).outline()
        assert outline is not None
        assert (outline.classes, outline.shape) == (SYNSETS, (3, 224, 224))

    @pytest.mark.parametrize(("width", "height"), [(500, 375), (375, 500), (256, 256), (300, 257), (90, 61)])
    def test_the_centre_is_that_of_torchvision(self, imagenet: Path, width: int, height: int) -> None:
        """Resize(256), CenterCrop(224), written out after torchvision.transforms.functional."""
        path = imagenet / "val" / SYNSETS[0] / "a.JPEG"
        picture(path, width, height, np.random.default_rng(1))
        domain = load_domains("imagenet", classes=3, train=False)["imagenet"]
        place = domain.ids.tolist().index(f"val/{SYNSETS[0]}/a.JPEG")
        with Image.open(path) as image:
            short, long = sorted(image.size)
            new = (256, int(256 * long / short)) if width <= height else (int(256 * long / short), 256)
            pixels = np.asarray(image.resize(new, Image.Resampling.BILINEAR))
        top, left = round((new[1] - 224) / 2.0), round((new[0] - 224) / 2.0)
        expected = pixels[top : top + 224, left : left + 224].transpose(2, 0, 1) / np.float32(255)
        assert np.array_equal(domain[place][0].numpy(), expected)

    def test_another_cut_is_other_data(self, imagenet: Path) -> None:
        inputs = load_domains("imagenet", classes=3, size=16)["imagenet"].inputs
        assert isinstance(inputs, FileInputs)
        others = [FileInputs(inputs._files, inputs._names, (3, 16, 16), shorter=some) for some in (None, 17, 18)]
        assert [one.fingerprint == inputs.fingerprint for one in others] == [False, False, True]
        part = inputs.narrow(np.array([7, 2]))
        sent = copy.deepcopy(part)
        for few in (part, sent):
            assert torch.equal(few.take(np.arange(2)), inputs.take(np.array([7, 2])))

    def test_at_most_one_image_a_class(self, imagenet: Path) -> None:
        domain = load_domains("imagenet", classes=3, size=16, train=False)["imagenet"]
        chosen = first_samples(domain, Balanced(2))
        assert len(chosen) == 2
        assert len(set(chosen.labels.tolist())) == 2
        every = first_samples(domain, Balanced(3))
        assert sorted(every.labels.tolist()) == [0, 1, 2]
        assert set(chosen.ids) < set(every.ids)

    def test_a_file_that_is_no_image_is_named(self, imagenet: Path) -> None:
        path = imagenet / "val" / SYNSETS[1] / "ILSVRC2012_val_10.JPEG"
        path.write_bytes(b"no image")
        domain = load_domains("imagenet", classes=3, size=16)["imagenet"]
        with pytest.raises(DataError, match=r"can't read the image .*ILSVRC2012_val_10.JPEG: not an image"):
            read_all(domain)

    @pytest.mark.parametrize(
        ("damage", "options", "said"),
        [
            (
                lambda root: remove(root / "val" / SYNSETS[1]),
                {"classes": 3},
                "val has no image of 1 classes .*n01443537",
            ),
            (lambda root: None, {}, r"images of 3 classes, not of 1,000.*--set data.classes=3"),
            (lambda root: remove(root / "val" / SYNSETS[1]), {"classes": 3, "train": False}, "of 2 classes, not of 3"),
            (
                lambda root: (root / "val" / "loose.JPEG").write_bytes(b""),
                {"classes": 3},
                "1 images that are in no class",
            ),
            (lambda root: (root / "train").rename(root / "training"), {"classes": 3}, "data.train=false"),
            (
                lambda root: remove(*(root / "val" / name for name in SYNSETS)),
                {"classes": 3},
                "val has no image. Expected",
            ),
        ],
        ids=["class missing in val", "few classes", "class missing", "loose", "no train", "no val"],
    )
    def test_a_tree_that_is_not_whole_is_a_sentence(
        self, imagenet: Path, damage: Callable[[Path], None], options: dict[str, object], said: str
    ) -> None:
        damage(imagenet)
        with pytest.raises(DataError, match=said):
            load_domains("imagenet", size=16, **options)


def read_all(domain: Domain) -> None:
    for place in range(len(domain)):
        domain.take([place])


def remove(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder)


@pytest.mark.parametrize(("name", "count"), [("stl10", 13_000), ("imagenet", 1_331_167)])
def test_published_counts_are_known_without_files(
    name: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    outline = data_set(name, {}).outline()
    assert outline is not None
    assert outline.counts == {name: count}
    with pytest.raises(DataNotFound, match=f"{name}.*looked for in"):
        load_domains(name)
    listed = {one["name"]: one for one in json.loads(run("data", "ls", "--json")[1])["data"]}[name]
    assert listed["state"] == "missing"
    assert listed["page"].startswith("https://")
