"""CelebA and DomainNet in their published layouts, as tiny trees of random images."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from shiftproof.domains import Domain, Domains, load_domains
from shiftproof.domains.images import FileInputs
from shiftproof.errors import DataError, DataNotFound, UsageError
from shiftproof.testing import check_domains

FACES = 600


def picture(path: Path, size: tuple[int, int], generator: np.random.Generator) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(generator.integers(0, 256, (size[1], size[0], 3), np.uint8)).save(path)


@pytest.fixture
def celeba(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Faces 0 to 399 of the train part, to 439 of validation, the rest of test; hair and smile at random."""
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    root, generator = tmp_path / "celeba", np.random.default_rng(0)
    names = [f"{k:06d}.jpg" for k in range(1, FACES + 1)]
    for name in names:
        picture(root / "img_align_celeba" / name, (18, 22), generator)
    values = 2 * generator.integers(0, 2, (FACES, 4)) - 1
    header = "Bald Black_Hair Blond_Hair Smiling"
    rows = [f"{name}  {' '.join(f'{v:2d}' for v in row)}" for name, row in zip(names, values, strict=True)]
    (root / "list_attr_celeba.txt").write_text(f"{FACES}\n{header} \n" + "\n".join(rows) + "\n")
    parts = [f"{name} {0 if k < 400 else 1 if k < 440 else 2}" for k, name in enumerate(names)]
    (root / "list_eval_partition.txt").write_text("\n".join(parts) + "\n")
    return root


def attributes_of(root: Path) -> dict[str, dict[str, bool]]:
    _, header, *rows = (root / "list_attr_celeba.txt").read_text().splitlines()
    table = [row.split() for row in rows]
    return {row[0]: dict(zip(header.split(), [v == "1" for v in row[1:]], strict=True)) for row in table}


def same(some: Domains, others: Domains) -> bool:
    pairs = list(zip(some, others, strict=True))
    return all(
        a.ids.tolist() == b.ids.tolist() and np.array_equal(a.labels, b.labels) and torch.equal(a[0][0], b[0][0])
        for a, b in pairs
    )


def test_celeba_samples_hair_that_agrees_with_the_label(celeba: Path) -> None:
    domains, known = load_domains("celeba", size=8), attributes_of(celeba)
    assert domains.names == ("agrees=0.9", "agrees=0.8", "agrees=0.1")
    assert domains.classes == ("not smiling", "smiling")
    check_domains(domains)
    for domain, share in zip(domains, (0.9, 0.8, 0.1), strict=True):
        blond = np.array([known[name]["Blond_Hair"] for name in domain.ids])
        assert all(known[name]["Blond_Hair"] != known[name]["Black_Hair"] for name in domain.ids)
        assert len(domain) > 10
        assert (blond == domain.labels).mean() == pytest.approx(share, abs=1 / len(domain))
        assert domain.labels.mean() == 0.5
        numbers = [int(name.removesuffix(".jpg")) for name in domain.ids]
        assert max(numbers) <= 400 if share != 0.1 else min(numbers) > 440
        # some labels are wrong on purpose
        smiles = np.array([known[name]["Smiling"] for name in domain.ids])
        assert 0.55 < (smiles == domain.labels).mean() < 0.95
    ids = [name for domain in domains for name in domain.ids]
    assert len(ids) == len(set(ids))
    for domain in load_domains("celeba", size=8, label_noise=0.0):
        assert [known[name]["Smiling"] for name in domain.ids] == domain.labels.tolist()


def test_faces_are_cut_to_their_central_square(celeba: Path) -> None:
    domain = load_domains("celeba", size=18)["agrees=0.9"]
    with Image.open(celeba / "img_align_celeba" / str(domain.ids[0])) as image:
        middle = np.asarray(image)[2:20].transpose(2, 0, 1) / np.float32(255)
    assert np.allclose(domain[0][0].numpy(), middle, atol=1e-6)
    assert isinstance(domain.inputs, FileInputs)
    stretched = FileInputs(domain.inputs._files, domain.ids.tolist(), (3, 18, 18))
    assert stretched.fingerprint != domain.inputs.fingerprint


def test_celeba_comes_as_text_or_csv_and_as_a_folder_or_an_archive(celeba: Path) -> None:
    published = load_domains("celeba", size=8)
    read_all(published)
    for name, header in (("list_attr_celeba", ""), ("list_eval_partition", "image_id,partition\n")):
        lines = (celeba / f"{name}.txt").read_text().splitlines()
        lines = lines if header else [f"image_id {lines[1]}", *lines[2:]]
        (celeba / f"{name}.csv").write_text(header + "\n".join(",".join(line.split()) for line in lines))
        (celeba / f"{name}.txt").rename(celeba / f"{name}.old")
    assert same(load_domains("celeba", size=8), published)
    shutil.make_archive(str(celeba / "img_align_celeba"), "zip", celeba, "img_align_celeba")
    (celeba / "img_align_celeba").rename(celeba / "moved")
    assert same(load_domains("celeba", size=8), published)
    (celeba / "img_align_celeba.zip").unlink()
    (celeba / "img_align_celeba").mkdir()
    (celeba / "moved").rename(celeba / "img_align_celeba" / "img_align_celeba")
    assert same(load_domains("celeba", size=8), published)


def cut(path: Path) -> None:
    path.write_text("\n".join(path.read_text().splitlines()[:-3]))


def without_images(path: Path) -> None:
    for image in sorted(path.iterdir())[:300]:
        image.unlink()


def replaced(old: str, new: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(path.read_text().replace(old, new, 1)) and None


@pytest.mark.parametrize(
    ("file", "harm", "sentence"),
    [
        ("list_attr_celeba.txt", cut, r"says that it lists 600 images and lists 597: was it cut\?"),
        ("list_attr_celeba.txt", replaced("Smiling", "Frowning"), "lacks the column 'Smiling'; it has Bald"),
        ("list_attr_celeba.txt", replaced("600\n", ""), "should begin with the number of images"),
        ("list_attr_celeba.txt", replaced("000001.jpg", "000001.jpg 1"), "row of 000001.jpg has 5 values, not 4"),
        ("list_attr_celeba.txt", lambda path: path.write_bytes(b"\xff\xfe\x00"), "can't be read"),
        ("list_eval_partition.txt", cut, "does not say of which part 000598.jpg is"),
        ("list_eval_partition.txt", replaced("000001.jpg 0", "000001.jpg"), "row of 000001.jpg has 0 values, not 1"),
        ("img_align_celeba", without_images, r"lacks \d+ images that 'celeba' lists, such as 000"),
        ("list_attr_celeba.txt", Path.unlink, r"needs celeba/list_attr_celeba.txt or .*mmlab.ie.cuhk.edu.hk"),
        ("img_align_celeba", shutil.rmtree, "needs celeba/img_align_celeba.zip or"),
    ],
)
def test_a_celeba_that_is_not_whole_gets_a_sentence(
    celeba: Path, file: str, harm: Callable[[Path], None], sentence: str
) -> None:
    harm(celeba / file)
    with pytest.raises((DataError, DataNotFound), match=sentence):
        load_domains("celeba", size=8)


def test_a_celeba_without_blond_hair_gets_a_sentence(celeba: Path) -> None:
    path = celeba / "list_attr_celeba.txt"
    path.write_text(path.read_text().replace("Blond_Hair", "Gray_Hair").replace("Bald", "Blond_Hair", 1))
    text = path.read_text().splitlines()
    path.write_text("\n".join([*text[:2], *(f"{row.split()[0]} -1 {' '.join(row.split()[2:])}" for row in text[2:])]))
    with pytest.raises(DataError, match="too few images for the domain 'agrees=0.9' of 'celeba': there are, by"):
        load_domains("celeba", size=8)


# --- DomainNet -------------------------------------------------------------------------------------------------------

GROUPS = {"first": ("cat", "sheep"), "second": ("bus",)}


@pytest.fixture
def domainnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three classes that are used and one that is not; of five images, four are of the train part."""
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    root, generator = tmp_path / "domainnet", np.random.default_rng(0)
    for style in ("real", "quickdraw"):
        lists: dict[str, list[str]] = {"train": [], "test": []}
        for number, label in enumerate(("bus", "cat", "sheep", "axe")):
            for k in range(100 if label == "bus" else 50):
                name = f"{style}/{label}/{style}_{number:03d}_{k:06d}.jpg"
                picture(root / name, (10, 12), generator)
                lists["test" if k % 5 == 0 else "train"].append(f"{name} {number}")
        for part, lines in lists.items():
            (root / f"{style}_{part}.txt").write_text("\n".join(lines) + "\n")
    return root


def test_domainnet_samples_styles_that_agree_with_the_label(domainnet: Path) -> None:
    domains = load_domains("domainnet", size=8, **GROUPS)
    assert domains.names == ("agrees=0.9", "agrees=0.8", "agrees=0.1")
    assert domains.classes == ("cat and 1 more", "bus")
    check_domains(domains)
    listed = {part: (domainnet / f"real_{part}.txt").read_text() for part in ("train", "test")}
    for domain, share in zip(domains, (0.9, 0.8, 0.1), strict=True):
        drawn = np.array([name.startswith("quickdraw/") for name in domain.ids])
        assert len(domain) > 10
        assert (drawn == domain.labels).mean() == pytest.approx(share, abs=1 / len(domain))
        assert domain.labels.mean() == 0.5
        photos = [name for name in domain.ids if name.startswith("real/")]
        assert all(name in listed["test" if share == 0.1 else "train"] for name in photos)
        assert not any("/axe/" in name for name in domain.ids)
    ids = [name for domain in domains for name in domain.ids]
    assert len(ids) == len(set(ids))
    for domain in load_domains("domainnet", size=8, label_noise=0.0, **GROUPS):
        assert [("/bus/" in name) for name in domain.ids] == domain.labels.tolist()


def test_domainnet_comes_as_folders_or_archives(domainnet: Path) -> None:
    from_folders = load_domains("domainnet", size=8, **GROUPS)
    read_all(from_folders)
    for style in ("real", "quickdraw"):
        shutil.make_archive(str(domainnet / style), "zip", domainnet, style)
        shutil.rmtree(domainnet / style)
    assert same(load_domains("domainnet", size=8, **GROUPS), from_folders)


def broken_image(root: Path) -> None:
    for path in (root / "real").rglob("*.jpg"):
        path.write_bytes(b"no image")


def read_all(domains: Domains) -> list[Domain]:
    return [domain for domain in domains if domain.inputs.prepare() is None]


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (lambda root: (root / "real_train.txt").write_text("real/cat.jpg 3"), "line 1: expected 'real/class/image.jpg"),
        (lambda root: (root / "real_train.txt").write_text("sketch/cat/1.jpg 3"), "line 1: expected 'real/class"),
        (lambda root: shutil.copy(root / "real_train.txt", root / "real_test.txt"), "lists .* images more than once"),
        (lambda root: shutil.rmtree(root / "real" / "bus"), r"lacks \d+ images that 'domainnet' lists"),
        (lambda root: shutil.rmtree(root / "quickdraw"), "needs domainnet/quickdraw.zip or domainnet/quickdraw"),
        (lambda root: (root / "real_test.txt").unlink(), "needs domainnet/real_test.txt.*ai.bu.edu/M3SDA"),
        (broken_image, "can't read the image .*: not an image"),
    ],
)
def test_a_domainnet_that_is_not_whole_gets_a_sentence(
    domainnet: Path, harm: Callable[[Path], object], sentence: str
) -> None:
    harm(domainnet)
    with pytest.raises((DataError, DataNotFound), match=sentence):
        read_all(load_domains("domainnet", size=8, **GROUPS))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"first": ("cat",), "second": ("cat", "bus")}, "groups of classes that share none"),
        ({"first": ()}, "groups of classes that share none"),
        ({"styles": ("real", "real")}, "real twice"),
        ({"styles": ("real", "photo")}, "'painting', 'quickdraw', 'real' or 'sketch'"),
        ({"first": ("cat", "unicorn"), "second": ("bus",)}, "no image of the class 'unicorn'"),
    ],
)
def test_domainnet_refuses_groups_and_styles_that_make_no_sense(
    domainnet: Path, options: dict[str, tuple[str, ...]], sentence: str
) -> None:
    with pytest.raises((DataError, UsageError), match=sentence):
        load_domains("domainnet", size=8, **options)
