"""Probes with several settings: attacks of several sizes, corruptions, searches, the change of the loss."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import shiftproof as sp
from shiftproof.domains import Domain
from shiftproof.domains.splits import first_samples
from shiftproof.errors import ModelError, UnknownName, UsageError
from shiftproof.evidence import Evidence, EvidenceStore
from shiftproof.execution import Compute
from shiftproof.perturbations.corruptions import EXTRA, STANDARD, TEXT
from shiftproof.probes import PROBES, Probe, run_probe
from shiftproof.probes.corrupt import Corrupt, as_corruptions


@pytest.fixture(scope="module")
def digits() -> Domain:
    return first_samples(sp.load_domains("rotated-digits")["angle=30"], 20)


@pytest.fixture(scope="module")
def network(digits: Domain) -> nn.Module:
    torch.set_num_threads(1)
    sources = sp.load_domains("rotated-digits").select(["angle=0", "angle=30"])
    return sp.train(sp.build_model("mlp", sources, width=32), sources, sp.objectives.ERM(), recipe={"steps": 80}).model


def rows_of(probe: Probe, model: nn.Module, domain: Domain, folder: Path, **options: int) -> Evidence:
    return run_probe(probe, model, domain, EvidenceStore(folder), progress="off", **options)  # type: ignore[arg-type]


class TestAttack:
    def test_rows_of_every_size_and_never_more_right(self, network: nn.Module, digits: Domain, tmp_path: Path) -> None:
        probe = PROBES.create("attack", {"attack": {"threat": "l2:0.5", "steps": 5}, "eps": ["0.1", 0.25]})
        rows = rows_of(probe, network, digits, tmp_path)
        assert rows.rows == 3 * len(digits)
        parts = list(rows)
        assert [part.fact("eps") for part in parts] == [0.1, 0.25, 0.5]
        for smaller, larger in pairwise(parts):
            assert (larger["correct"].astype(bool) <= smaller["correct"].astype(bool)).all()
            assert smaller["id"].tolist() == larger["id"].tolist() == digits.ids.tolist()
        for part in parts:
            assert (part["distance"] <= part.fact("eps") * (1 + 1e-5)).all()

    def test_a_size_alone_is_what_it_is_in_company(self, network: nn.Module, digits: Domain, tmp_path: Path) -> None:
        attack = {"threat": "linf:0.05", "steps": 4}
        alone = rows_of(PROBES.create("attack", {"attack": attack}), network, digits, tmp_path / "a")
        both = rows_of(PROBES.create("attack", {"attack": attack, "eps": [0.01]}), network, digits, tmp_path / "b")
        with_it = both.get(title="attack, linf 0.05")
        # what the smaller size has found stays; nothing else differs
        assert (with_it["correct"] <= alone[0]["correct"]).all()

    @pytest.mark.parametrize("eps", ["much", [None], [-1]])
    def test_bad_sizes(self, eps: object) -> None:
        with pytest.raises(UsageError, match="eps"):
            PROBES.create("attack", {"attack": {"threat": "l2:0.5"}, "eps": eps})


class TestCorrupt:
    def test_rows_of_every_corruption(self, network: nn.Module, digits: Domain, tmp_path: Path) -> None:
        probe = PROBES.create("corrupt", {"corruptions": "blur,fog", "severities": "1,5"})
        rows = rows_of(probe, network, digits, tmp_path)
        assert rows.distinct("corruption") == ["defocus-blur", "glass-blur", "motion-blur", "zoom-blur", "fog"]
        assert sorted(rows.distinct("severity")) == [1, 5]
        part = rows.get(title="fog 5")
        assert part["id"].tolist() == digits.ids.tolist()
        changed = sp.corrupt(digits.tensors()[0], "fog", 5, seed=0, ids=[str(one) for one in digits.ids])
        with torch.no_grad():
            assert part["prediction"].tolist() == network(changed).argmax(1).tolist()

    def test_workers_do_not_matter(self, network: nn.Module, tmp_path: Path) -> None:
        many = sp.load_domains("rotated-digits")["angle=30"].subset(np.arange(130))
        probe = PROBES.create("corrupt", {"corruptions": "shot-noise", "severities": 3})
        one, two = (rows_of(probe, network, many, tmp_path / str(n), compute=Compute(workers=n)) for n in (1, 2))
        assert one.column("prediction").tolist() == two.column("prediction").tolist()

    def test_names(self) -> None:
        assert as_corruptions("standard") == STANDARD
        assert len(as_corruptions("all")) == 19
        assert as_corruptions("weather") == ("brightness", "fog", "frost", "snow")
        assert as_corruptions(["fog", "fog"]) == ("fog",)
        with pytest.raises(UnknownName, match="Did you mean 'fog'"):
            as_corruptions("fogg")
        assert as_corruptions("text") == TEXT

    def test_standard_is_what_the_data_can_have(self, network: nn.Module, digits: Domain) -> None:
        every, texts = (*STANDARD, *EXTRA), sp.load_domains("signed-reviews")
        assert Corrupt().on(texts).corruptions == Corrupt(every).on(texts).corruptions == TEXT  # type: ignore[arg-type]
        # what a run on images is called is a part of its identity
        assert repr(Corrupt().on(digits)) == (
            f"Corrupt(corruptions={STANDARD!r}, severities=(1, 2, 3, 4, 5), constants='auto')"
        )
        chosen = Corrupt(("fog", "typos"))  # type: ignore[arg-type]
        assert chosen.on(texts) == chosen.on(digits) == chosen
        with pytest.raises(UsageError, match="'typos' corrupts texts, and these samples are images"):
            chosen.check(network, digits, None)

    def test_texts(self, tmp_path: Path) -> None:
        reviews = sp.load_domains("signed-reviews")["e=0.1"].subset(np.arange(20))
        reader = sp.build_model("text-cnn", reviews, width=8, filters=8, vocabulary=256, seed=0).eval()
        rows = rows_of(PROBES.create("corrupt", {"severities": "1,5"}), reader, reviews, tmp_path)
        assert tuple(rows.distinct("corruption")) == TEXT
        part = rows.get(title="typos 5")
        assert part.setting == "typos 5"
        changed = sp.corrupt(reviews.tensors()[0], "typos", 5, seed=0, ids=[str(one) for one in reviews.ids])
        with torch.no_grad():
            assert part["prediction"].tolist() == reader(changed).argmax(1).tolist()

    def test_what_is_not_a_number_is_no_class(self, digits: Domain, tmp_path: Path) -> None:
        class Dazzled(nn.Module):
            def forward(self, inputs: torch.Tensor) -> torch.Tensor:
                bright = inputs.flatten(1).mean(1, keepdim=True)
                return torch.where(bright > 0.6, torch.nan, bright * torch.arange(10.0))

        probe = PROBES.create("corrupt", {"corruptions": "brightness", "severities": 5})
        with pytest.raises(ModelError, match="not numbers"):
            rows_of(probe, Dazzled(), digits, tmp_path)

    @pytest.mark.parametrize("severities", ["0", "6", "hard", []])
    def test_bad_severities(self, severities: object) -> None:
        with pytest.raises(UsageError, match="from 1 to 5"):
            PROBES.create("corrupt", {"severities": severities})


class TestSearch:
    def test_reaches_more_with_more_room(self, network: nn.Module, digits: Domain, tmp_path: Path) -> None:
        from shiftproof.report.sections.search import searched_of

        probe = PROBES.create("search", {"threat": "l2:2", "eps": [0.2, 0.6], "steps": 40, "lr": 0.3})
        rows = rows_of(probe, network, digits, tmp_path)
        (found,) = searched_of(rows)
        values = [estimate.value for estimate in found.reached.values()]
        assert values == sorted(values)
        assert values[-1] > 0.5
        assert found.nearest > 0
        before = rows.get(title="search, l2 0")["prediction"]
        with torch.no_grad():
            assert before.tolist() == network(digits.tensors()[0]).argmax(1).tolist()
        nearest = rows.get(title="adversarial representation")
        assert (nearest["prediction"] != before).all()

    def test_two_searches_are_two_tables(self, network: nn.Module, digits: Domain, tmp_path: Path) -> None:
        from shiftproof.report.sections.search import searched_of

        probes = [{"threat": "l2:0.5", "steps": 5}, {"threat": "linf:0.1", "eps": 0.05, "steps": 5}]
        found = [rows_of(PROBES.create("search", options), network, digits, tmp_path) for options in probes]
        first, second = searched_of(Evidence.concat(found))
        assert (first.norm, list(first.reached)) == ("l2", [0.5])
        assert (second.norm, list(second.reached)) == ("linf", [0.05, 0.1])

    def test_needs_a_linear_head(self, digits: Domain) -> None:
        probe = PROBES.create("search", {"threat": "l2:1"})
        with pytest.raises(ModelError, match="one linear layer"):
            probe.check(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), digits, None)  # type: ignore[attr-defined]


def test_change_of_the_loss_is_between_what_is_found_and_proven(
    network: nn.Module, digits: Domain, tmp_path: Path
) -> None:
    from shiftproof.report.sections.loss_change import loss_changes_of

    evidence = rows_of(
        PROBES.create("input-robustness", {"threat": "linf:0.02", "steps": 10}), network, digits, tmp_path
    )
    (rows,) = evidence
    assert (rows["loss_change"] > 0).all()
    assert (rows["loss_change"] <= rows["loss_bound"]).all()
    (found,) = loss_changes_of(evidence)
    assert found.proven is not None
    assert found.found.value == pytest.approx(rows["loss_change"].mean())
