"""Constructions with a shortcut: how often it agrees, whom it moves, and that twins are exact."""

import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import needs_data

from shiftproof.domains import Domain, held_out, load_domains, train_part
from shiftproof.domains.images import FileInputs
from shiftproof.domains.pacs_shortcut import ANIMALS
from shiftproof.domains.paint import Border, PaintedInputs, Tint
from shiftproof.domains.shortcuts import cell_sizes, deal, draws
from shiftproof.errors import DataError, UsageError
from shiftproof.testing import check_domains


def colour(domain: Domain) -> np.ndarray:
    inputs, _ = domain.tensors()
    return (inputs[:, 1].flatten(1).sum(1) > inputs[:, 0].flatten(1).sum(1)).long().numpy()


def agreement(domain: Domain, attributes: np.ndarray) -> float:
    return float((attributes == domain.labels).mean())


# --- draws -----------------------------------------------------------------------------------------------------------


def test_a_draw_depends_on_its_own_id_alone() -> None:
    ids = [f"image/{i}" for i in range(4_000)]
    numbers = draws("x", "label", ids)
    assert np.array_equal(draws("x", "label", ids[::-1])[::-1], numbers)
    assert np.array_equal(draws("x", "label", ids[:7]), numbers[:7])
    assert 0 <= numbers.min() < numbers.max() < 1
    assert numbers.mean() == pytest.approx(0.5, abs=0.02)
    for other in (draws("y", "label", ids), draws("x", "attribute", ids)):
        assert abs(np.corrcoef(other, numbers)[0, 1]) < 0.05


def test_ids_are_dealt_once_each() -> None:
    parts = deal("x", [f"{i}" for i in range(100)], (40, 40, 20))
    assert [len(part) for part in parts] == [40, 40, 20]
    assert sorted(np.concatenate(parts).tolist()) == list(range(100))


@pytest.mark.parametrize("total", [2, 10, 999, 3_500])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.85, 1.0])
def test_cells_have_labels_half_and_half_and_agree_as_often_as_told(total: int, share: float) -> None:
    same_0, same_1, other_0, other_1 = cell_sizes(total, share)
    assert same_0 + other_0 == same_1 + other_1 == total // 2
    assert same_0 == same_1 == pytest.approx(share * total / 2, abs=1)


def test_domains_of_one_name_are_refused() -> None:
    for numbers, sentence in [((0.9, 0.9, 0.1), "should differ"), ((0.9, 0.8, 1.1), "less than or equal to 1")]:
        with pytest.raises(UsageError, match=sentence):
            load_domains("colored-fashion-mnist", agreement=numbers)


# --- colour ----------------------------------------------------------------------------------------------------------


PUBLISHED = {
    "e=0.1": "6391a991a0fc9ddeeaa51480d8dbe565",
    "e=0.2": "ec7d5aaa2cda106cb5758f4ef1bf5d53",
    "e=0.9": "2cc4ceb3c47b1120f5bb5d56563d81a2",
}


@needs_data
def test_coloured_digits_are_the_same_with_and_without_gray_ones() -> None:
    assert {domain.name: domain.fingerprint for domain in load_domains("colored-mnist")} == PUBLISHED
    assert load_domains("colored-mnist", gray=True).names == (*PUBLISHED, "gray")
    assert {d.name: d.fingerprint for d in load_domains("colored-mnist", gray=True) if d.name != "gray"} == PUBLISHED


@needs_data
def test_gray_digits_are_as_far_apart_as_in_one_channel_and_as_noisy() -> None:
    gray, mnist = load_domains("colored-mnist", gray=True)["gray"], load_domains("mnist")["mnist"]
    assert gray.ids.tolist() == [f"mnist/{k}" for k in range(50_000)]
    assert ((mnist.labels[:50_000] >= 5) == gray.labels).mean() == pytest.approx(0.75, abs=0.01)
    few = np.arange(40)
    digits = mnist.take(few)[0][:, :, ::2, ::2].flatten(1)
    inputs = gray.take(few)[0]
    assert torch.equal(inputs[:, 0], inputs[:, 1])
    assert torch.allclose(torch.pdist(inputs.flatten(1)), torch.pdist(digits), rtol=1e-5)


@needs_data
def test_a_digit_that_is_trained_on_in_one_domain_is_held_out_in_none() -> None:
    domains = load_domains("colored-mnist", gray=True)
    sources = [domains[name] for name in ("e=0.1", "e=0.2", "gray")]
    trained = set[str]().union(*(train_part(domain).ids.tolist() for domain in sources))
    held = set[str]().union(*(held_out(domain).ids.tolist() for domain in sources))
    assert not trained & held
    assert len(trained | held) == 50_000
    # noise of labels is drawn again: a model can't remember a digit's wrong label from another domain
    label = dict(zip(domains["gray"].ids, domains["gray"].labels, strict=True))
    coloured = domains["e=0.1"]
    same = np.mean([label[name] == own for name, own in zip(coloured.ids, coloured.labels, strict=True)])
    assert same == pytest.approx(0.75**2 + 0.25**2, abs=0.01)


@needs_data
@pytest.mark.parametrize("size", [14, 28])
def test_coloured_clothes(size: int) -> None:
    domains = load_domains("colored-fashion-mnist", size=size)
    assert domains.names == ("agrees=0.9", "agrees=0.8", "agrees=0.1")
    assert domains.shape == (2, size, size)
    assert [len(domain) for domain in domains] == [10_000, 10_000, 5_000]
    assert [agreement(d, colour(d)) for d in domains] == pytest.approx([0.9, 0.8, 0.1], abs=3e-4)
    assert [d.labels.mean() for d in domains] == pytest.approx([0.5] * 3, abs=0.03)
    assert len({name for domain in domains for name in domain.ids}) == 25_000
    check_domains(domains)


@needs_data
def test_labels_without_noise_say_what_is_worn() -> None:
    target = load_domains("colored-fashion-mnist", label_noise=0.0)["agrees=0.1"]
    clothes = held_out(load_domains("fashion-mnist")["fashion-mnist"])
    upper = np.isin(clothes.labels[:5_000], [clothes.classes.index(c) for c in ("t-shirt", "pullover", "dress")])
    assert target.labels[upper].all()
    assert not target.labels[clothes.labels[:5_000] == clothes.classes.index("bag")].any()
    noisy = load_domains("colored-fashion-mnist")["agrees=0.1"]
    assert (noisy.labels == target.labels).mean() == pytest.approx(0.75, abs=0.02)


def test_too_few_clothes_get_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    few = np.zeros((3, 28, 28), np.uint8)
    np.savez(tmp_path / "fashion_mnist.npz", x_train=few, y_train=[0, 1, 2], x_test=few, y_test=[0, 1, 2])
    with pytest.raises(DataError, match=r"has 3 \+ 3 images; 'colored-fashion-mnist' takes 20,000 \+ 5,000"):
        load_domains("colored-fashion-mnist")


# --- paint -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("painter", [Border(1), Border(3), Tint()])
def test_paint_can_be_exchanged_exactly(painter: Border | Tint) -> None:
    images = torch.rand(6, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    marks = torch.tensor([0, 1, 0, 1, 1, 0])
    painted = painter.paint(images, marks)
    assert torch.equal(painter.other(painted), painter.paint(images, 1 - marks))
    assert torch.equal(painter.other(painter.other(painted)), painted)
    assert (painted - painter.other(painted)).flatten(1).norm(dim=1).min() > 1


def test_a_border_leaves_the_inside_as_it_is() -> None:
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    painted = Border(2).paint(images, torch.tensor([0, 1]))
    assert torch.equal(painted[:, :, 2:-2, 2:-2], images[:, :, 2:-2, 2:-2])
    assert painted[:, :, 0, 5].tolist() == painted[:, :, -2, 1].tolist() == [[1, 0, 0], [0, 1, 0]]


@pytest.fixture
def pacs(images: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    return images(domains=("photo", "sketch"), classes=("dog", "guitar"), count=50, size=16, root="pacs")


def border_colour(domain: Domain) -> np.ndarray:
    return domain.tensors()[0][:, 1, 0, 0].numpy().astype(np.int64)


@pytest.mark.parametrize("shortcut", ["border", "tint"])
def test_pacs_with_a_shortcut_is_decoded_when_asked_for(pacs: Path, shortcut: str) -> None:
    domains = load_domains("pacs-shortcut", size=16, shortcut=shortcut)
    assert [len(domain) for domain in domains] == [80, 80, 40]
    assert domains.classes == ("thing or person", "animal")
    check_domains(domains)
    assert not {*domains["agrees=0.9"].ids} & ({*domains["agrees=0.8"].ids} | {*domains["agrees=0.1"].ids})
    first = domains["agrees=0.9"]
    assert isinstance(first.inputs, PaintedInputs)
    assert isinstance(first.inputs._base, FileInputs)
    sent = pickle.loads(pickle.dumps(first))  # noqa: S301
    assert torch.equal(sent[3][0], first[3][0])
    again = load_domains("pacs-shortcut", size=16, shortcut=shortcut)["agrees=0.9"]
    assert again.fingerprint == first.fingerprint
    other = load_domains("pacs-shortcut", size=16, shortcut={"border": "tint", "tint": "border"}[shortcut])
    assert other["agrees=0.9"].fingerprint != first.fingerprint
    assert other["agrees=0.9"].labels.tolist() == first.labels.tolist()
    (pacs / first.ids[0]).write_bytes(b"no image")
    broken = load_domains("pacs-shortcut", size=16)["agrees=0.9"]
    with pytest.raises(DataError, match="can't read the image .*: not an image"):
        broken[0]


def test_labels_of_pacs_without_noise_are_animals(pacs: Path) -> None:
    for domain in load_domains("pacs-shortcut", size=16, label_noise=0.0, agreement=(1.0, 0.5, 0.0)):
        assert domain.labels.tolist() == ["/dog/" in name for name in domain.ids]
        if domain.name != "agrees=0.5":
            assert agreement(domain, border_colour(domain)) == float(domain.name.removeprefix("agrees="))


@needs_data
def test_borders_of_pacs_agree_as_often_as_they_say() -> None:
    domains = load_domains("pacs-shortcut", size=32)
    assert [len(domain) for domain in domains] == [2_700, 2_700, 1_352]
    assert [agreement(d, border_colour(d)) for d in domains] == pytest.approx([0.9, 0.8, 0.1], abs=1e-3)
    places = [str(name).split("/") for domain in domains for name in domain.ids]
    animals = Counter(style for style, label, _ in places if label in ANIMALS)
    assert animals == Counter(style for style, label, _ in places if label not in ANIMALS)
    assert animals == {"art_painting": 928, "cartoon": 828, "photo": 772, "sketch": 848}
    target = domains["agrees=0.1"]
    assert target.counterfactual is not None
    twins = target.counterfactual(target.take(np.arange(20))[0])
    assert twins[:, 1, 0, 0].long().tolist() == (1 - border_colour(target)[:20]).tolist()
