"""Data sets in the layouts in which others publish them, as small trees of random images; damage is a sentence."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shiftproof.domains import load_domains, train_part, validation_part
from shiftproof.domains.camelyon17 import Camelyon17
from shiftproof.domains.corrupted_sets import FIFTEEN, PUBLISHED
from shiftproof.domains.domain_folders import PACS, VLCS, DomainFolders, OfficeHome, TerraIncognita
from shiftproof.domains.registry import data_set
from shiftproof.errors import DataError, DataNotFound, ShiftproofError, UnknownName, UsageError
from shiftproof.perturbations.corruptions import EXTRA, STANDARD
from shiftproof.testing import check_domains

Run = Callable[..., tuple[int, str, str]]
TREES = {"pacs": (PACS, "PACS"), "vlcs": (VLCS, "VLCS"), "terra-incognita": (TerraIncognita, "terra_incognita")}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    return tmp_path


def picture(path: Path, seed: int, side: int = 9, *, square: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    width = side if square else side + seed % 3
    pixels = np.random.default_rng(seed).integers(0, 256, (side, width, 3), np.uint8)
    Image.fromarray(pixels).save(path)


def tree(kind: type[DomainFolders], root: Path, monkeypatch: pytest.MonkeyPatch, each: int = 2) -> Path:
    """A tree as DomainBed's download leaves it, with `each` images a class, and other files that lie about."""
    monkeypatch.setattr(kind, "counts", dict.fromkeys(kind.counts, each * len(kind.classes)))
    number = 0
    for domain in kind.counts:
        for label in kind.classes:
            for _ in range(each):
                picture(root / domain / label / f"pic_{number:03}.jpg", number)
                number += 1
    (root / "ImageInfo.csv").write_text("not an image\n")
    return root


class TestDomainFolders:
    @pytest.mark.parametrize("name", TREES)
    def test_are_read_as_domainbed_leaves_them(
        self, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, run: Run
    ) -> None:
        kind, place = TREES[name]
        root = tree(kind, folder / place, monkeypatch)
        domains = load_domains(name, size=8)
        check_domains(domains)
        assert domains.names == tuple(sorted(kind.counts))
        assert domains.classes == kind.classes
        assert [len(domain) for domain in domains] == [2 * len(kind.classes)] * 4
        outline = data_set(name, {"size": 8}).outline()
        assert outline is not None
        assert (outline.shape, outline.classes) == (domains.shape, domains.classes)
        # the same images as those of a folder that anybody may have
        plain = load_domains(f"folder:{root}", size=8)
        assert [domain.fingerprint for domain in plain] == [domain.fingerprint for domain in domains]
        code, out, _ = run("data", "ls", name, "--json")
        assert code == 0
        assert json.loads(out)["domains"] == dict.fromkeys(sorted(kind.counts), 2 * len(kind.classes))

    def test_a_zip_with_a_folder_of_another_name_is_read(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        root = tree(OfficeHome, folder / "OfficeHomeDataset_10072016", monkeypatch, each=1)
        before = [domain.fingerprint for domain in load_domains("office-home", size=8)]
        shutil.make_archive(str(folder / "office_home"), "zip", folder, root.name)
        shutil.rmtree(root)
        assert [domain.fingerprint for domain in load_domains("office-home", size=8)] == before
        assert load_domains("office-home", size=8).names == ("Art", "Clipart", "Product", "Real World")

    def test_a_folder_in_the_folder_is_looked_into(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        tree(PACS, folder / "PACS" / "kfold", monkeypatch)
        assert load_domains("pacs", size=8).names == ("art_painting", "cartoon", "photo", "sketch")

    @pytest.mark.parametrize(
        ("damage", "said"),
        [
            (lambda root: shutil.rmtree(root / "SUN09"), "lacks the domain 'SUN09'.*unpack it again"),
            (lambda root: shutil.rmtree(root / "LabelMe" / "dog"), "no image of the class 'dog' in LabelMe"),
            (lambda root: next((root / "VOC2007" / "car").iterdir()).unlink(), "9 images of VOC2007, 10 are published"),
            (lambda root: (root / "SUN09").rename(root / "sun"), "lacks the domain 'SUN09'.*it has .*sun"),
            (lambda root: picture(root / "SUN09" / "cat" / "1.png", 1), "has a class 'cat' in SUN09"),
            (lambda root: picture(root / "more" / "cat" / "1.png", 1), "has a domain 'more'"),
            (lambda root: [shutil.rmtree(one) for one in root.iterdir() if one.is_dir()], "holds no image"),
        ],
        ids=["domain", "class", "half", "renamed", "another class", "another domain", "empty"],
    )
    def test_a_half_unpacked_archive_is_a_sentence(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None], said: str, run: Run
    ) -> None:
        damage(tree(VLCS, folder / "VLCS", monkeypatch))
        with pytest.raises(DataError, match=said):
            load_domains("vlcs", size=8)
        code, out, _ = run("data", "ls", "vlcs", "--json")
        assert code == 0
        assert json.loads(out)["fault"]

    def test_a_part_is_read_when_that_is_said(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        root = tree(VLCS, folder / "VLCS", monkeypatch)
        shutil.rmtree(root / "SUN09")
        assert load_domains("vlcs", size=8, whole=False).names == ("Caltech101", "LabelMe", "VOC2007")

    def test_who_has_none_is_told_where_to_get_it(self, run: Run) -> None:
        with pytest.raises(DataNotFound, match=r"'vlcs' needs VLCS or .*five class folders"):
            load_domains("vlcs")
        code, out, _ = run("data", "ls", "vlcs")
        assert code == 0
        assert "DomainBed" in out
        assert run("data", "ls", "vlsc")[0] == 1

    def test_sizes_differ_and_are_brought_to_one(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        root = tree(VLCS, folder / "VLCS", monkeypatch)
        picture(root / "SUN09" / "dog" / "big.png", 3, side=40)
        assert load_domains("vlcs", size=8)["SUN09"].shape == (3, 8, 8)
        with pytest.raises(DataError, match=r"differ in size \(from 9x9 to 40x40\)"):
            load_domains(f"folder:{root}")


HOSPITALS = range(5)


def hospitals(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two slides of six patches in each hospital, and their table; a third of the patches has the split 1."""
    root = folder / "camelyon17_v1.0"
    rows, number = [], 0
    for center in HOSPITALS:
        for slide in (2 * center, 2 * center + 1):
            for k in range(6):
                row = [number, f"{center:03}", slide % 2, 32 * k, 96, k % 2, slide, center, int(k % 3 == 0)]
                name = f"patient_{row[1]}_node_{row[2]}"
                picture(root / "patches" / name / f"patch_{name}_x_{row[3]}_y_96.png", number, square=True)
                rows.append(row)
                number += 1
    with (root / "metadata.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["", "patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split"])
        writer.writerows(rows)
    monkeypatch.setattr("shiftproof.domains.camelyon17.COUNTS", {f"hospital_{center}": 12 for center in HOSPITALS})
    monkeypatch.setattr("shiftproof.domains.camelyon17.PATCH", (9, 9))
    return root


def rewrite(table: Path, old: str, new: str) -> None:
    text = table.read_text()
    assert old in text
    table.write_text(text.replace(old, new, 1))


class TestCamelyon17:
    def test_hospitals_are_domains_and_slides_stay_together(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = hospitals(folder, monkeypatch)
        domains = load_domains("camelyon17", size=8)
        check_domains(domains)
        assert domains.names == tuple(f"hospital_{center}" for center in HOSPITALS)
        assert domains.classes == ("normal", "tumor")
        for domain in domains:
            assert domain.groups is not None
            assert len(set(domain.groups)) == 2
            apart = {*train_part(domain).units} & {*validation_part(domain).units}
            assert not apart
        # labels and pixels are those of the table's rows
        with (root / "metadata.csv").open() as file:
            row = list(csv.DictReader(file))[15]
        name = f"patient_{row['patient']}_node_{row['node']}"
        path = f"patches/{name}/patch_{name}_x_{row['x_coord']}_y_{row['y_coord']}.png"
        domain = domains[f"hospital_{row['center']}"]
        place = domain.ids.tolist().index(path)
        assert domain.labels[place] == int(row["tumor"])
        pixels = np.asarray(Image.open(root / path).resize((8, 8), Image.Resampling.BILINEAR))
        assert np.allclose(domain.take([place])[0][0].numpy(), pixels.transpose(2, 0, 1) / np.float32(255))
        outline = Camelyon17().outline()
        assert tuple(outline.counts) == domains.names

    def test_official_splits_are_those_of_the_table(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        hospitals(folder, monkeypatch)
        domains = load_domains("camelyon17", size=8, split="official")
        for name, marks in {"hospital_1": {"validation"}, "hospital_2": {"test"}}.items():
            splits = domains[name].splits
            assert splits is not None
            assert set(splits) == marks
        splits = domains["hospital_0"].splits
        assert splits is not None
        assert splits.tolist().count("validation") == 4

    def test_few_patches_of_every_slide_are_the_same_patches(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hospitals(folder, monkeypatch)
        whole, few, more = (load_domains("camelyon17", size=8, per_slide=most) for most in (None, 4, 5))
        check_domains(few)
        for all_of, some, others in zip(whole, few, more, strict=True):
            assert some.groups is not None
            assert np.unique(some.groups, return_counts=True)[1].tolist() == [4, 4]
            assert set(some.ids) < set(others.ids) < set(all_of.ids)
            # pixels and labels are those of the same file
            places = [all_of.ids.tolist().index(one) for one in some.ids]
            for mine, its in zip(some.tensors(), all_of.take(places), strict=True):
                assert mine.equal(its)
        monkeypatch.undo()
        assert set(Camelyon17(per_slide=60).outline().counts.values()) == {600}
        assert Camelyon17(per_slide=10_000).outline().counts["hospital_1"] == 34_904

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ("center", "centre", "lacks the column 'center'; it has patient, node, .*centre"),
            (",1,0,1\n", ",1,7,1\n", "center '7'.*center 0 to 4"),
            (",96,0,0,0,1\n", ",96,2,0,0,1\n", "line 2: tumor '2'"),
            (",0,2,1,1\n", ",0,0,1,1\n", "slide 0 is of hospital_1, and above of hospital_0.*trained on and tested on"),
            (",0,0,1\n", ",0,0\n", "line 2: 8 values for 9 columns; was it cut"),
            ("0,000,", "0,017,", "lacks 1 of the 60 patches that metadata.csv names, such as patches/patient_017"),
        ],
        ids=["column", "hospital", "label", "slide in two domains", "cut", "patch"],
    )
    def test_a_damaged_table_is_a_sentence(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, said: str
    ) -> None:
        rewrite(hospitals(folder, monkeypatch) / "metadata.csv", old, new)
        with pytest.raises(DataError, match=said):
            load_domains("camelyon17", size=8)

    def test_a_half_unpacked_archive_is_a_sentence(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        root = hospitals(folder, monkeypatch)
        shutil.rmtree(root / "patches" / "patient_004_node_1")
        with pytest.raises(DataError, match=r"lacks 6 of the 60 patches.*unpack the archive again"):
            load_domains("camelyon17", size=8)
        assert len(load_domains("camelyon17", size=8, whole=False)["hospital_4"]) == 6
        shutil.rmtree(root / "patches")
        with pytest.raises(DataError, match="none of the 60 patches"):
            load_domains("camelyon17", size=8, whole=False)

    def test_a_patch_of_another_size_is_a_sentence(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        root = hospitals(folder, monkeypatch)
        name = "patches/patient_002_node_0/patch_patient_002_node_0_x_64_y_96.png"
        picture(root / name, 5, side=12, square=True)
        with pytest.raises(DataError, match=rf"{name} is 12x12, as 1 of 60 images are not the published 9x9"):
            load_domains("camelyon17", size=8)
        assert len(load_domains("camelyon17", size=8, whole=False)["hospital_2"]) == 12

    def test_a_short_table_is_a_sentence(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        hospitals(folder, monkeypatch)
        monkeypatch.setattr("shiftproof.domains.camelyon17.COUNTS", {f"hospital_{center}": 13 for center in HOSPITALS})
        with pytest.raises(DataError, match="names 12 patches of hospital_0, 13 are published"):
            load_domains("camelyon17", size=8)


@pytest.fixture
def cifar10_c(folder: Path) -> tuple[Path, np.ndarray]:
    """Six photographs at five severities, of two corruptions."""
    root, generator = folder / "CIFAR-10-C", np.random.default_rng(0)
    root.mkdir()
    images = generator.integers(0, 256, (2, 30, 32, 32, 3), np.uint8)
    np.save(root / "fog.npy", images[0])
    np.save(root / "gaussian_noise.npy", images[1])
    np.save(root / "labels.npy", np.tile(np.arange(6), 5))
    return root, images


class TestCorruptedSets:
    def test_names_are_those_of_our_own_corruptions(self) -> None:
        assert FIFTEEN == STANDARD
        assert set(PUBLISHED) == {*STANDARD, *EXTRA}

    def test_cifar10_c_has_a_domain_for_each_corruption(self, cifar10_c: tuple[Path, np.ndarray]) -> None:
        domains = load_domains("cifar10-c", severity=2, corruptions=("gaussian-noise", "fog"))
        check_domains(domains)
        assert domains.names == ("gaussian-noise", "fog")
        assert domains["fog"].labels.tolist() == list(range(6))
        assert np.allclose(
            domains["fog"].tensors()[0].numpy(), cifar10_c[1][0][6:12].transpose(0, 3, 1, 2) / np.float32(255)
        )
        # the same photograph, measured twice
        assert domains["fog"].ids.tolist() == domains["gaussian-noise"].ids.tolist()

    @pytest.mark.parametrize(
        ("damage", "said"),
        [
            (lambda root: (root / "fog.npy").unlink(), "lacks fog.npy"),
            (lambda root: (root / "fog.npy").write_bytes(b""), "fog.npy is not a readable npy file"),
            (lambda root: (root / "fog.npy").write_bytes((root / "fog.npy").read_bytes()[:999]), "was it cut"),
            (lambda root: np.save(root / "labels.npy", np.arange(7)), "five severities"),
            (lambda root: np.save(root / "labels.npy", np.arange(10)), "as many as there are labels"),
            (lambda root: np.save(root / "fog.npy", np.array([{}])), "not a readable npy file"),
        ],
        ids=["missing", "empty", "cut", "labels", "too few", "pickled"],
    )
    def test_damaged_arrays_are_a_sentence(
        self, cifar10_c: tuple[Path, np.ndarray], damage: Callable[[Path], None], said: str
    ) -> None:
        damage(cifar10_c[0])
        with pytest.raises(DataError, match=said):
            load_domains("cifar10-c", corruptions=("fog",))

    @pytest.mark.parametrize(
        ("options", "fault"),
        [
            ({"corruptions": ("mist",)}, UnknownName),
            ({"corruptions": ("fog", "fog")}, UsageError),
            ({"severity": 6}, ShiftproofError),
        ],
    )
    def test_what_is_not_published_is_refused(self, options: dict[str, object], fault: type[Exception]) -> None:
        for name in ("cifar10-c", "imagenet-c"):
            with pytest.raises(fault):
                load_domains(name, **options)

    def test_imagenet_c_is_read_from_its_folders(self, folder: Path) -> None:
        synsets, root = ("n01440764", "n01443537", "n02102040"), folder / "imagenet-c"
        for corruption in ("fog", "jpeg_compression"):
            for number, name in enumerate(synsets):
                for k in range(2):
                    picture(root / corruption / "3" / name / f"ILSVRC2012_val_{number}{k}.JPEG", 7 * number + k, 8)
        names = ("jpeg-compression", "fog")
        domains = load_domains("imagenet-c", severity=3, corruptions=names, classes=3, size=8)
        check_domains(domains)
        assert domains.names == names
        assert domains.classes == synsets
        assert domains["fog"].labels.tolist() == [0, 0, 1, 1, 2, 2]
        with pytest.raises(DataError, match="3 classes, not of 1,000"):
            load_domains("imagenet-c", severity=3, corruptions=names)
        with pytest.raises(DataError, match="lacks the folder fog/5"):
            load_domains("imagenet-c", corruptions=("fog",), classes=3)
        (root / "fog" / "3" / synsets[1]).rename(root / "fog" / "3" / "n09999999")
        with pytest.raises(DataError, match="differ in the class n01443537"):
            load_domains("imagenet-c", severity=3, corruptions=names, classes=3)
