"""What domains, attacks and certificates show in a notebook, against the arrays that they are made of."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from harmless import ODD, assert_harmless
from voted import votes_of

import shiftproof as sp
from shiftproof.certification.curves import round_radii
from shiftproof.errors import UsageError

INPUTS = torch.rand(12, 1, 4, 4, generator=torch.Generator().manual_seed(0))


def domain(name: str, classes: tuple[str, ...] = ("a", ODD), n: int = 12) -> sp.Domain:
    return sp.Domain.from_arrays(name, INPUTS[:n], np.arange(n) % len(classes) if n else np.zeros(0, int), classes)


def cells_of(html: str) -> list[str]:
    return [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", html)]


class TestDomains:
    def test_counts_by_class(self) -> None:
        both = sp.Domains("set", [domain(ODD), domain("other", n=7)])
        read = assert_harmless(both._repr_html_())
        assert read.texts.count(ODD) == 3  # a class, a row, a caption
        assert cells_of(both._repr_html_())[-4:] == ["other", "7", "4", "3"]
        assert len(read.images) == 2

    def test_of_many_classes_a_range(self) -> None:
        many = sp.Domain.from_arrays("d", INPUTS, np.arange(12) // 2 * 2, [f"c{i}" for i in range(12)])
        assert cells_of(many._repr_html_()) == ["domain", "samples", "samples of a class", "d", "12", "0 to 2"]

    def test_numbers_texts_groups_and_nothing(self) -> None:
        numbers = sp.Domain.from_arrays("n", INPUTS, np.linspace(0, 5, 12), [], groups=["p", "q"] * 6)
        assert cells_of(numbers._repr_html_()) == ["domain", "samples", "groups", "labels", "n", "12", "2", "0 to 5"]
        texts = sp.load_domains("signed-reviews")
        assert_harmless(texts._repr_html_())
        assert f"{texts.classes[0]}: " in texts._repr_html_()
        assert "No samples." in domain("empty", n=0)._repr_html_()

    def test_inputs_that_can_not_be_read_are_a_sentence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        one = domain("d")

        def refuse(_: object) -> None:
            raise sp.errors.DataError(f"can't read {ODD}")

        monkeypatch.setattr(one.inputs, "take", refuse)
        read = assert_harmless(one._repr_html_())
        assert f"can't read {ODD}" in read.texts
        assert not read.images


class TestAttack:
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))

    def attacked(self, **options: object) -> sp.attacks.AttackResult:
        with torch.no_grad():
            labels = self.model(INPUTS).argmax(1).numpy()
        data = sp.Domain.from_arrays("d", INPUTS, labels, ["cat", ODD])
        return sp.attack(self.model, data, sp.attacks.PGD(sp.Threat("l2", 3.0), steps=5), progress="off", **options)  # type: ignore[call-overload,no-any-return]

    def test_figures_and_pictures(self) -> None:
        result = self.attacked()
        lost = int(result.overturned.sum())
        assert lost
        read = assert_harmless(result._repr_html_())
        cells = cells_of(result._repr_html_())
        assert cells[cells.index("overturned") + 1] == f"{lost} of 12 that were right"
        assert cells[cells.index("right after") + 1] == f"{np.mean(result.predictions == result.labels):.1%}"
        assert len(read.images) == 1
        assert f"of {lost} overturned samples" in read.text

    def test_without_inputs_there_are_no_pictures(self) -> None:
        assert not assert_harmless(self.attacked(keep_inputs=False)._repr_html_()).images


class TestCertificates:
    def test_shares_by_radius(self) -> None:
        held = replace(votes_of(30, 990, 40), guarantee=f"Sure {ODD}")
        held.radius[:10] = np.linspace(0.01, 0.9, 10)
        read = assert_harmless(held._repr_html_())
        assert f"Sure {ODD}" in read.texts
        cells = cells_of(held._repr_html_())
        radii = [0.0, *(float(cell.removeprefix("l2 ")) for cell in cells[2 : len(cells) // 2])]
        assert cells[len(cells) // 2 + 1 :] == [f"{np.mean(held.radius >= r):.1%}" for r in radii]
        assert cells[len(cells) // 2] == "share certified, right or wrong"

    def test_an_unsound_rule_certifies_nothing(self) -> None:
        claimed = replace(votes_of(30, 990, 40), unsound="as-published")
        assert "Nothing is guaranteed" in claimed._repr_html_()
        assert "claimed, not certified" in cells_of(claimed._repr_html_())
        assert "nothing of it is certified" in claimed.plot().words

    def test_radii_that_are_no_numbers(self) -> None:
        broken = votes_of(30, 990, 40)
        broken.radius[0] = np.nan
        assert "not a finite number" in broken._repr_html_()
        with pytest.raises(UsageError, match="not a finite number"):
            broken.plot()

    def test_plot_with_labels_is_certified_accuracy(self) -> None:
        held, labels = votes_of(30, 990, 40), np.where(np.arange(40) < 25, 0, 1)
        held.radius[:] = np.linspace(0.1, 1, 40)
        (drawn,) = held.plot(labels).panels
        for radius, share in drawn.marks[0].points:
            assert share == pytest.approx(((held.prediction == labels) & (held.radius >= radius)).mean())
        assert drawn.y.title == "certified accuracy"
        (without,) = held.plot().panels
        assert without.marks[0].points[0] == (0.0, 1.0)
        with pytest.raises(UsageError, match="40 certificates but labels of shape"):
            held.plot(labels[:3])

    def test_labels_of_a_log_are_used(self, tmp_path: Path) -> None:
        votes_of(30, 990, 40).to_log(tmp_path / "log.tsv", np.where(np.arange(40) < 30, 0, 1))
        assert "75.0%" in cells_of(sp.Certificates.from_log(tmp_path / "log.tsv")._repr_html_())

    @pytest.mark.parametrize("farthest", [0.0, 0.004, 0.3, 1.0, 40.0])
    def test_round_radii_start_at_0_and_stay_within(self, farthest: float) -> None:
        radii = round_radii(farthest)
        assert radii[0] == 0
        assert 2 <= len(radii) <= 5
        assert list(radii[2:]) == [radius for radius in radii[2:] if radius <= farthest]
