"""Data sets keep their promises; splits are stable; constructions are what they say."""

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import needs_data, pixels
from PIL import ExifTags, Image

from shiftproof.domains import DOMAINS, Domain, Domains, as_domains, held_out, load_domains, train_part, validation_part
from shiftproof.domains.colon import stain_of_site
from shiftproof.domains.images import FileInputs
from shiftproof.domains.inputs import ArrayInputs
from shiftproof.domains.registry import PREFIXED, look_for
from shiftproof.domains.stain import change_stain
from shiftproof.errors import ConformanceError, DataError, DataNotFound, UnknownName, UsageError
from shiftproof.perturbations import rotate
from shiftproof.testing import check_domains

ON_DISK = [entry.name for entry in DOMAINS if entry.cls.files]
EMBEDDED = [entry.name for entry in DOMAINS if entry.name not in (*ON_DISK, *PREFIXED)]


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_data_sets_conform(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHIFTPROOF_DATA", raising=False)
    check_domains(load_domains(name))


@needs_data
@pytest.mark.parametrize("name", ON_DISK)
def test_data_sets_on_disk_conform(name: str) -> None:
    if missing := [file for file in DOMAINS[name].cls.files if look_for(file) is None]:
        pytest.skip(f"the data folder does not hold {', '.join(missing)}")
    check_domains(load_domains(name))


@pytest.mark.parametrize("name", ON_DISK)
def test_missing_data_says_what_where_and_how(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    with pytest.raises(DataNotFound) as caught:
        load_domains(name)
    message = str(caught.value)
    assert repr(name) in message
    assert DOMAINS[name].cls.files[0] in message
    assert str(tmp_path) in message
    assert "Expected:" in message


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04 cut"])
def test_a_damaged_npz_is_one_sentence(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    (tmp_path / "mnist.npz").write_bytes(content)
    with pytest.raises(DataError, match="not a readable npz file"):
        load_domains("mnist")


def test_an_npz_that_holds_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    good = {"x_train": np.zeros((3, 28, 28), np.uint8), "y_train": [0, 1, 2], "x_test": np.zeros((1, 28, 28), np.uint8)}
    for arrays, sentence in [
        (good, "lacks the array"),
        ({**good, "y_test": [12]}, "labels of 'mnist' run from 0 to 12, but 10 classes allow 0 to 9"),
        ({**good, "y_test": [0], "x_test": np.zeros((1, 28, 28)), "x_train": np.zeros((3, 28, 28))}, "float64"),
        ({**good, "y_test": np.array([print], object)}, "not a readable npz file"),
    ]:
        np.savez(tmp_path / "mnist.npz", **arrays)
        with pytest.raises(DataError, match=sentence):
            load_domains("mnist")


def test_pacs_comes_as_a_folder_or_an_archive(
    images: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    root = images(domains=("art_painting", "sketch"), root="pacs")
    from_folder = load_domains("pacs", size=8, whole=False)
    shutil.make_archive(str(tmp_path / "pacs_64"), "zip", tmp_path, "pacs")
    shutil.rmtree(root)
    from_archive = load_domains("pacs", size=8, whole=False)
    assert from_folder.names == from_archive.names == ("art_painting", "sketch")
    assert from_folder["sketch"].ids.tolist() == from_archive["sketch"].ids.tolist()
    assert from_folder["sketch"].ids[0] == "sketch/cat/0.png"
    sent = pickle.loads(pickle.dumps(from_archive["sketch"]))  # noqa: S301
    assert torch.equal(sent[3][0], from_archive["sketch"][3][0])


def agreement(domain: Domain) -> float:
    inputs, labels = domain.take(np.arange(len(domain)))
    colours = (inputs[:, 1].flatten(1).sum(1) > inputs[:, 0].flatten(1).sum(1)).long()
    return float((colours == labels).float().mean())


def test_colored_digits_sizes_and_colours() -> None:
    domains = load_domains("colored-digits")
    assert [len(domain) for domain in domains] == [700, 700, 397]
    assert [agreement(domain) for domain in domains] == pytest.approx([0.9, 0.8, 0.1], abs=0.04)
    everything = np.concatenate([domain.ids for domain in domains])
    assert len(set(everything.tolist())) == 1797


@needs_data
@pytest.mark.parametrize("size", [14, 28])
def test_colored_mnist_is_the_published_construction(size: int) -> None:
    domains = load_domains("colored-mnist", size=size)
    assert domains.shape == (2, size, size)
    assert [len(domain) for domain in domains] == [25_000, 25_000, 10_000]
    assert [agreement(domain) for domain in domains] == pytest.approx([0.9, 0.8, 0.1], abs=0.01)
    digits = load_domains("mnist")["mnist"].labels
    for domain in domains:
        origin = np.array([int(i.removeprefix("mnist/")) for i in domain.ids])
        assert ((digits[origin] >= 5) == domain.labels).mean() == pytest.approx(0.75, abs=0.01)
        assert origin.max() < 50_000 if domain.name != "e=0.9" else np.array_equal(origin, np.arange(50_000, 60_000))
    # one channel holds the digit, the other nothing
    inputs, _ = domains["e=0.9"].take(np.arange(200))
    assert float(inputs.amin(1).max()) == 0
    with pytest.raises(UsageError, match="it should be 14 or 28"):
        load_domains("colored-mnist", size=20)


@needs_data
def test_colon_sites_keep_patients_together() -> None:
    domains = load_domains("colon")
    patients = [set(domain.groups.tolist()) for domain in domains if domain.groups is not None]
    assert len(set.union(*patients)) == sum(map(len, patients)) == 98
    sizes = [len(domain) for domain in domains]
    assert max(sizes) - min(sizes) < 50


@pytest.fixture
def patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """Random patches in the place of colon's: fifteen patients of 3 to 17 patches."""
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    patients = np.repeat(np.arange(15), np.arange(3, 18))
    generator = np.random.default_rng(0)
    x = generator.integers(0, 256, (len(patients), 27, 27, 3), np.uint8)
    x[:, 0, 0] = 255
    x[:, 0, 1] = 0
    arrays = {"x": x, "is_cancerous": generator.integers(0, 2, len(patients)), "patient": patients}
    np.savez(tmp_path / "colon.npz", **arrays)
    return arrays


def test_colon_images_are_as_they_are_unless_they_are_stained(patches: dict[str, np.ndarray]) -> None:
    for domain in load_domains("colon"):
        rows = [int(str(one).removeprefix("colon/")) for one in domain.ids]
        expected = patches["x"][rows].transpose(0, 3, 1, 2).astype(np.float32) / 255
        assert np.array_equal(domain.tensors()[0].numpy(), expected)
    assert [one.fingerprint for one in load_domains("colon", stain=0.0)] == [
        one.fingerprint for one in load_domains("colon")
    ]


def test_a_stain_changes_pixels_and_nothing_else(patches: dict[str, np.ndarray]) -> None:
    plain, stained = load_domains("colon"), load_domains("colon", stain=0.7)
    check_domains(stained)
    assert stained.names == plain.names == tuple(f"site-{number}" for number in range(1, 6))
    for before, after in zip(plain, stained, strict=True):
        for column in ("ids", "labels", "groups"):
            assert np.array_equal(getattr(before, column), getattr(after, column))
        images = after.tensors()[0]
        assert 0 <= float(images.min()) <= float(images.max()) <= 1
        assert float((images - before.tensors()[0]).abs().mean()) > 0.01
        # white is no stain, and stays
        assert bool((images[:, :, 0, 0] == 1).all())
    # always the same, for everybody, whatever else was drawn
    again = load_domains("colon", stain=0.7)
    assert [one.fingerprint for one in again] == [one.fingerprint for one in stained]
    factors = [stain_of_site(number, 0.7) for number in range(1, 6)]
    assert np.round(factors, 3).tolist() == [
        [0.622, 1.22],
        [1.725, 0.509],
        [1.867, 0.654],
        [1.458, 1.733],
        [0.537, 0.846],
    ]
    assert stain_of_site(2, 0.0) == (1.0, 1.0)
    assert stain_of_site(2, 1.4) == pytest.approx(np.square(stain_of_site(2, 0.7)))
    with pytest.raises(UsageError, match="stain"):
        load_domains("colon", stain=-0.1)


def test_more_of_a_stain_is_more_of_its_colour() -> None:
    # three units of one stain: each channel's light is exp(-3 times its share of the stain's colour)
    colours = {"haematoxylin": (0.65, 0.70, 0.29), "eosin": (0.07, 0.99, 0.11)}
    for name, colour in colours.items():
        unit = np.array(colour) / np.linalg.norm(colour)
        images = {times: 256 * np.exp(-times * unit) - 1 for times in (0.5, 1.0, 2.0)}
        patch = np.rint(images[1.0]).astype(np.uint8).reshape(1, 1, 1, 3)
        for times in (0.5, 2.0):
            changed = change_stain(patch, **{**dict.fromkeys(colours, 1.0), name: times})
            assert np.abs(changed.reshape(3) - images[times]).max() < 2
        # the other stain is not in it
        (other,) = {*colours} - {name}
        same = change_stain(patch, **{**dict.fromkeys(colours, 1.0), other: 2.0})
        assert np.abs(same.astype(int) - patch).max() <= 1
    everything = np.arange(256, dtype=np.uint8).repeat(3).reshape(1, 16, 16, 3)
    assert np.array_equal(change_stain(everything, 1, 1), everything)
    # of both, and nothing else, nothing is left without them
    both = np.exp(-sum(np.array(colour) / np.linalg.norm(colour) for colour in colours.values()))
    patch = np.rint(256 * both - 1).astype(np.uint8).reshape(1, 1, 1, 3)
    assert change_stain(patch, 0, 0).min() >= 253


def test_few_patches_of_every_patient_are_always_the_same(patches: dict[str, np.ndarray]) -> None:
    whole, few, more = (load_domains("colon", per_patient=most) for most in (None, 4, 6))
    for all_of, some, others in zip(whole, few, more, strict=True):
        assert some.groups is not None
        assert others.groups is not None
        assert set(some.ids) <= set(others.ids) <= set(all_of.ids)
        assert set(some.groups) == set(all_of.groups if all_of.groups is not None else ())
        sizes = np.bincount(patches["patient"])
        for patient, count in zip(*np.unique(some.groups, return_counts=True), strict=True):
            assert count == min(4, sizes[int(patient.removeprefix("patient-"))])
    tissue = load_domains("colon", per_patient=4, stain=0.7)
    assert [one.ids.tolist() for one in tissue] == [one.ids.tolist() for one in few]
    with pytest.raises(UsageError, match="per_patient"):
        load_domains("colon", per_patient=0)


def test_rotation_turns_and_no_digit_is_in_two_domains() -> None:
    domains = load_domains("rotated-digits")
    assert domains.names == tuple(f"angle={a}" for a in (0, 15, 30, 45, 60, 75))
    ids = np.concatenate([domain.ids for domain in domains])
    assert len(ids) == len(set(ids.tolist())) == 1797
    unturned = {f"digits/{i}": image for i, (image, _) in enumerate(_all(load_domains("digits")["digits"]))}
    first = domains["angle=0"]
    assert float((first[0][0] - unturned[str(first.ids[0])]).abs().max()) < 1 / 255


def _all(domain: Domain) -> list[tuple[torch.Tensor, int]]:
    return [domain[i] for i in range(len(domain))]


def test_an_oblong_image_is_turned_not_sheared() -> None:
    image = torch.zeros(1, 1, 41, 81)
    image[0, 0, 20, 30:51] = 1
    turned = rotate(image, 90)[0, 0]
    assert (turned > 0.5).nonzero()[:, 0].tolist() == list(range(10, 31))
    assert set((turned > 0.5).nonzero()[:, 1].tolist()) == {40}


def test_leave_out() -> None:
    domains = load_domains("colored-digits")
    sources, target = domains.leave_out("e=0.9")
    assert (sources.names, target.name) == (("e=0.1", "e=0.2"), "e=0.9")
    with pytest.raises(UnknownName, match="Did you mean 'e=0.9'"):
        domains.leave_out("e=9")
    with pytest.raises(UsageError, match="leaves nothing to train on"):
        load_domains("digits").leave_out("digits")


def small(name: str = "d", n: int = 200, **columns: list[str]) -> Domain:
    inputs = torch.rand(n, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    return Domain.from_arrays(name, inputs, np.arange(n) % 2, ("a", "b"), **columns)


def test_a_split_does_not_change_when_samples_are_added() -> None:
    few, many = small(n=200), small(n=400)
    assert set(validation_part(few).ids) <= set(validation_part(many).ids)
    assert set(train_part(few).ids) <= set(train_part(many).ids)
    assert 0.12 < len(validation_part(many)) / 400 < 0.28
    assert len(train_part(few)) + len(validation_part(few)) == 200


def test_a_split_keeps_groups_together() -> None:
    domain = small(groups=[f"patient-{i // 5}" for i in range(200)])
    train, validation = train_part(domain), validation_part(domain)
    assert not set(train.units) & set(validation.units)
    assert len(train) % 5 == len(validation) % 5 == 0


def test_given_splits_are_kept() -> None:
    marks = ["train"] * 120 + ["validation"] * 40 + ["test"] * 40
    domain = small(splits=marks)
    assert [len(train_part(domain)), len(validation_part(domain)), len(held_out(domain))] == [120, 40, 40]
    without = small(splits=["train"] * 150 + ["test"] * 50)
    assert len(train_part(without)) + len(validation_part(without)) == 150
    assert len(held_out(without)) == 50


@pytest.mark.parametrize("groups", range(2, 12))
def test_two_units_are_enough_for_two_parts(groups: int) -> None:
    for trial in range(30):
        domain = small(n=4 * groups, groups=[f"{trial}-{i % groups}" for i in range(4 * groups)])
        assert len(train_part(domain)) + len(validation_part(domain)) == 4 * groups
        assert not set(train_part(domain).units) & set(validation_part(domain).units)


def test_a_domain_too_small_to_split_says_so() -> None:
    with pytest.raises(DataError, match="too few, the (train|validation) part is empty"):
        train_part(small(n=1)), validation_part(small(n=1))


PAIR = (torch.rand(6, 1, 2, 2), torch.tensor([0, 1, 0, 1, 0, 1]))


@pytest.mark.parametrize(
    ("inputs", "labels", "sentence"),
    [
        (PAIR[0] * 255, PAIR[1], "Divide by 255"),
        (PAIR[0] * 4 - 2, PAIR[1], "Normalized\\(model, mean, std\\)"),
        (PAIR[0] * float("nan"), PAIR[1], "not numbers"),
        (PAIR[0], PAIR[1] + 1, "labels of 'data' run from 1 to 2, but 2 classes allow 0 to 1"),
        (PAIR[0], -PAIR[1], "run from -1 to 0"),
        (PAIR[0], PAIR[1].float(), "one integer a sample"),
        (PAIR[0], PAIR[1][:4], "inputs of shape \\(6, 1, 2, 2\\) but labels of shape \\(4,\\)"),
    ],
)
def test_a_bad_pair_gets_a_sentence(inputs: torch.Tensor, labels: torch.Tensor, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        as_domains((inputs, labels), classes=2)


def test_blocks_cover_a_domain_in_pieces_that_fit_in_memory() -> None:
    assert [len(block) for block in small(n=600).blocks] == [256, 256, 88]
    large = Domain.from_arrays("l", np.zeros((5, 3, 1024, 1024), np.uint8), [0] * 5, ("a",))
    assert [block.tolist() for block in large.blocks] == [[0], [1], [2], [3], [4]]


def test_domains_must_agree() -> None:
    other = Domain.from_arrays("o", torch.rand(4, 1, 2, 2), [0, 1, 0, 1], ("a", "c"))
    wide = Domain.from_arrays("w", torch.rand(4, 1, 2, 3), [0, 1, 0, 1], ("a", "b"))
    for second, sentence in ((other, "different classes"), (wide, "different shape"), (small(), "same name")):
        with pytest.raises(DataError, match=sentence):
            Domains("x", [small(), second])


def test_conformance_finds_a_domain_that_lies() -> None:
    class Restless(ArrayInputs):
        """Gives other pixels every time."""

        def take(self, indices: np.ndarray) -> torch.Tensor:
            return super().take(indices) * float(np.random.default_rng().random())

    honest = small()
    liar = Domain("d", honest.classes, Restless(torch.rand(200, 1, 2, 2)), honest.labels, honest.ids)
    check_domains(Domains("d", [honest]))
    with pytest.raises(ConformanceError, match="other inputs when read again"):
        check_domains(Domains("d", [liar]))


def test_a_domain_refuses_columns_that_make_no_sense() -> None:
    inputs, labels = torch.rand(4, 1, 2, 2), [0, 1, 0, 1]
    for columns, sentence in [
        ({"ids": ["same"] * 4}, "two samples with the same id"),
        ({"splits": ["train", "dev", "test", "test"]}, "should be train, validation or test"),
        ({"groups": ["a"] * 3}, "4 inputs but 3 groups"),
    ]:
        with pytest.raises(DataError, match=sentence):
            Domain.from_arrays("d", inputs, labels, ("a", "b"), **columns)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="two classes"):
        Domain.from_arrays("d", inputs, labels, ("a", "a"))
    with pytest.raises(DataError, match="complex64"):
        Domain.from_arrays("d", inputs.to(torch.complex64), labels, ("a", "b"))


def test_fingerprints_see_pixels_labels_and_ids() -> None:
    base = small()
    inputs, labels = base.take(np.arange(len(base)))
    changed = inputs.clone()
    changed[3, 0, 0, 0] = 0.5
    others = [
        Domain.from_arrays("d", changed, labels, ("a", "b")),
        Domain.from_arrays("d", inputs, 1 - labels, ("a", "b")),
        Domain.from_arrays("d", inputs, labels, ("a", "b"), ids=[f"x{i}" for i in range(200)]),
        Domain.from_arrays("d", inputs, labels, ("a", "c")),
        Domain.from_arrays("d", inputs, labels, ("a", "b"), groups=["g"] * 200),
        Domain.from_arrays("d", inputs, labels, ("a", "b"), splits=["train"] * 200),
        Domain.from_arrays("d", inputs.reshape(200, 1, 1, 4), labels, ("a", "b")),
    ]
    assert base.fingerprint == small().fingerprint
    assert len({base.fingerprint, *(other.fingerprint for other in others)}) == 8


# --- folders ---------------------------------------------------------------------------------------------------------


def test_a_folder_is_a_data_set(images: Callable[..., Path]) -> None:
    domains = load_domains(f"folder:{images()}")
    assert domains.names == ("clinic-a", "clinic-b")
    assert domains.classes == ("cat", "dog")
    assert domains.shape == (3, 8, 8)
    check_domains(domains)


@pytest.mark.parametrize("mode", ["L", "RGB", "I;16"])
def test_pixels_arrive_in_the_unit_interval_at_full_depth(images: Callable[..., Path], mode: str) -> None:
    root = images(mode=mode, count=3)
    domain = load_domains(f"folder:{root}")["clinic-a"]
    with Image.open(root / str(domain.ids[0])) as image:
        expected = np.asarray(image).astype(np.float32) / (65535 if mode == "I;16" else 255)
    expected = expected.transpose(2, 0, 1) if mode == "RGB" else expected[None]
    assert np.allclose(domain[0][0].numpy(), expected, atol=1e-6)


def test_images_are_resized_to_a_stated_size(images: Callable[..., Path]) -> None:
    root = images(count=2)
    Image.fromarray(pixels(np.random.default_rng(0), 16, "RGB")).save(root / "clinic-a" / "cat" / "big.png")
    with pytest.raises(DataError, match="differ in size .*8x8 to 16x16.*size=64"):
        load_domains(f"folder:{root}")
    assert load_domains(f"folder:{root}", size=12, channels=1).shape == (1, 12, 12)
    assert load_domains(f"folder:{root}", size=(6, 4)).shape == (3, 6, 4)


def test_lazy_images_are_the_same_without_a_cache(images: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    root = images(count=10)
    cached = load_domains(f"folder:{root}")["clinic-a"]
    monkeypatch.setattr("shiftproof.domains.images.CACHE_BYTES", 0)
    lazy = load_domains(f"folder:{root}")["clinic-a"]
    assert isinstance(lazy.inputs, FileInputs)
    assert not lazy.inputs.in_memory
    assert cached.inputs.in_memory
    order = np.array([5, 1, 5, 9])
    assert torch.equal(lazy.take(order)[0], cached.take(order)[0])
    assert lazy.fingerprint == cached.fingerprint


def test_bad_folders_get_a_sentence(images: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(DataNotFound, match=r"nowhere does not exist. Expected: root/domain/class/image"):
        load_domains(f"folder:{tmp_path / 'nowhere'}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no image"):
        load_domains(f"folder:{tmp_path / 'empty'}")
    root = images()
    (root / "clinic-a" / "bird").mkdir()
    with pytest.raises(DataError, match="the folder clinic-a/bird .* holds no image"):
        load_domains(f"folder:{root}")
    (root / "clinic-a" / "bird").rmdir()
    (root / "clinic-c" / "cat").mkdir(parents=True)
    with pytest.raises(DataError, match="the folder clinic-c .* holds no image"):
        load_domains(f"folder:{root}")
    (root / "clinic-c" / "cat").rmdir()
    (root / "clinic-c").rmdir()
    Image.fromarray(pixels(np.random.default_rng(0), 8, "L")).save(root / "clinic-a" / "loose.png")
    with pytest.raises(DataError, match="not at domain/class/image, such as clinic-a/loose.png"):
        load_domains(f"folder:{root}")


def test_the_last_image_counts_as_much_as_the_first(images: Callable[..., Path]) -> None:
    root = images(count=30, mode="L")
    Image.fromarray(pixels(np.random.default_rng(0), 8, "RGB")).save(root / "clinic-b" / "dog" / "zz.png")
    assert load_domains(f"folder:{root}").shape == (3, 8, 8)
    Image.fromarray(pixels(np.random.default_rng(0), 9, "RGB")).save(root / "clinic-b" / "dog" / "zzz.png")
    with pytest.raises(DataError, match="differ in size"):
        load_domains(f"folder:{root}")


def test_a_change_anywhere_in_a_file_changes_the_fingerprint(images: Callable[..., Path]) -> None:
    root = images(count=2)
    Image.fromarray(pixels(np.random.default_rng(0), 64, "RGB")).save(root / "clinic-a" / "cat" / "big.bmp")
    before = load_domains(f"folder:{root}", size=8)["clinic-a"].fingerprint
    content = bytearray((root / "clinic-a" / "cat" / "big.bmp").read_bytes())
    content[-5] ^= 255
    (root / "clinic-a" / "cat" / "big.bmp").write_bytes(content)
    assert load_domains(f"folder:{root}", size=8)["clinic-a"].fingerprint != before


def test_an_image_that_lies_on_its_side_is_set_upright(images: Callable[..., Path]) -> None:
    root = images(count=1)
    for path in root.rglob("*.png"):
        path.unlink()
        note = Image.Exif()
        note[ExifTags.Base.Orientation] = 6
        Image.new("RGB", (40, 20)).save(path.with_suffix(".jpg"), exif=note)
    assert load_domains(f"folder:{root}").shape == (3, 40, 20)
    assert load_domains(f"folder:{root}")["clinic-a"][0][0].shape == (3, 40, 20)


def test_values_of_more_than_16_bits_are_refused(images: Callable[..., Path]) -> None:
    root = images(count=2)
    Image.fromarray(np.full((8, 8), 100_000, np.int32)).save(root / "clinic-a" / "cat" / "deep.tif")
    with pytest.raises(DataError, match="8 and 16 bits are read, not 32"):
        load_domains(f"folder:{root}")["clinic-a"].inputs.prepare()


def test_a_corrupt_jpeg_is_named(images: Callable[..., Path]) -> None:
    root = images()
    victim = root / "clinic-b" / "dog" / "broken.jpg"
    Image.fromarray(pixels(np.random.default_rng(0), 8, "RGB")).save(victim)
    victim.write_bytes(victim.read_bytes()[:200])
    domains = load_domains(f"folder:{root}")
    with pytest.raises(DataError, match=r"can't read the image .*broken\.jpg"):
        domains["clinic-b"].inputs.prepare()


def test_a_manifest_is_a_data_set(images: Callable[..., Path], tmp_path: Path) -> None:
    root = images(domains=("scans",))
    rows = [
        f"images/scans/{label}/{i}.png,{label},site-{i % 2},{'test' if i > 9 else 'train'},patient-{i // 2}"
        for label in ("cat", "dog")
        for i in range(12)
    ]
    manifest = tmp_path / "manifest.csv"
    manifest.write_text("\ufeffpath,label,domain,split,group\n" + "\n".join(rows) + "\n\n")
    domains = load_domains(f"folder:{manifest}")
    assert domains.names == ("site-0", "site-1")
    site = domains["site-0"]
    assert len(site) == 12
    assert len(held_out(site)) == 2
    assert site.groups is not None
    assert root.is_dir()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("path,label\nx.png,a", "lacks the column 'domain'"),
        ("path,label,domain\nnone.png,a,d", "line 2: there is no file"),
        ("path,label,domain\n,a,d", "line 2: path, label and domain must all be filled in"),
        ("path,label,domain", "lists no image"),
        ("path,label,domain,split\nimages/clinic-a/cat/0.png,a,d,holdout", "split 'holdout' should be"),
        (
            "path,label,domain,group\nimages/clinic-a/cat/0.png,a,d,p\nimages/clinic-a/cat/1.png,a,d,",
            "1 rows have no group while others do",
        ),
        ("path,label,domain\nimages/clinic-a/cat/0.png,a,d\n./images/clinic-a/cat/0.png,a,e", "more than once"),
        ("", "lacks the column 'path'; it has none"),
        (
            "Path, Label, Domain, Group, Split\n"
            "images/clinic-a/cat/0.png,a,d,p,train\nimages/clinic-a/cat/1.png,a,d,p,test",
            "1 groups are in more than one split, such as p",
        ),
    ],
)
def test_bad_manifests_get_a_sentence(images: Callable[..., Path], tmp_path: Path, text: str, sentence: str) -> None:
    images()
    (tmp_path / "manifest.csv").write_text(text)
    with pytest.raises(DataError, match=sentence):
        load_domains(f"folder:{tmp_path / 'manifest.csv'}")
