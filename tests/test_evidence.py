"""Evidence, probes and metrics."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.domains import Domain
from shiftproof.errors import DataError, ModelError, UsageError
from shiftproof.evidence import SCHEMA, Evidence, EvidenceStore, slug
from shiftproof.execution import workers
from shiftproof.probes import run_probe
from shiftproof.probes.clean import Clean

DOMAINS = sp.load_domains("colored-digits")
DOMAIN = DOMAINS["e=0.1"]
SHARD = len(DOMAIN.blocks[0])


class Counting(nn.Module):
    """Predicts class 1 where the second channel is brighter, and counts how many samples it was shown."""

    def __init__(self, fail_after: int | None = None) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.shown, self.fail_after = 0, fail_after

    def forward(self, inputs: Tensor) -> Tensor:
        if self.fail_after is not None and self.shown >= self.fail_after:
            raise KeyboardInterrupt
        self.shown += len(inputs)
        return inputs.flatten(2).sum(2) * self.scale


def test_a_row_for_every_sample(tmp_path: Path) -> None:
    rows = run_probe(Clean(), Counting(), DOMAIN, EvidenceStore(tmp_path), model_name="m", seed=3)
    assert rows.table.schema == SCHEMA
    assert rows["sample"].tolist() == DOMAIN.ids.tolist()
    assert np.array_equal(rows["correct"], rows["prediction"] == DOMAIN.labels)
    assert rows["correct"].mean() == pytest.approx(0.9, abs=0.03)
    assert set(rows.distinct("classifier")) == {"base"}
    assert (rows["seed"] == 3).all()
    assert (rows["seconds"] > 0).all()
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["clean.parquet"]


def test_an_interrupted_probe_does_not_start_over(tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path)
    first = Counting(fail_after=SHARD)
    with pytest.raises(KeyboardInterrupt):
        run_probe(Clean(), first, DOMAIN, store)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["clean.journal"]
    second = Counting()
    rows = run_probe(Clean(), second, DOMAIN, store)
    assert first.shown == SHARD
    assert second.shown == len(DOMAIN) - SHARD
    whole = run_probe(Clean(), Counting(), DOMAIN, EvidenceStore(tmp_path / "whole"))
    assert rows.table.drop(["seconds"]).equals(whole.table.drop(["seconds"]))
    third = Counting()
    assert run_probe(Clean(), third, DOMAIN, store).table.equals(rows.table)
    assert third.shown == 0


def test_other_weights_are_another_question(tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path)
    run_probe(Clean(), Counting(), DOMAIN, store)
    other = Counting()
    other.scale.data.fill_(2.0)
    run_probe(Clean(), other, DOMAIN, store)
    assert other.shown == len(DOMAIN)


def test_workers_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = sp.build_model("mlp", DOMAINS)
    alone = run_probe(Clean(), model, DOMAIN, EvidenceStore(tmp_path / "1"))
    used = []
    original = workers._in_processes
    monkeypatch.setattr(workers, "_in_processes", lambda *arguments: used.append(1) or original(*arguments))
    monkeypatch.setattr("shiftproof.execution.workers.run_shards.__defaults__", (1, 0.0, 1.0))
    both = run_probe(Clean(), model, DOMAIN, EvidenceStore(tmp_path / "2"), workers=2)
    assert used
    assert both.table.drop(["seconds"]).equals(alone.table.drop(["seconds"]))


def test_a_model_that_returns_nan_is_refused(tmp_path: Path) -> None:
    model = Counting()
    model.scale.data.fill_(float("nan"))
    with pytest.raises(ModelError, match="not numbers"):
        run_probe(Clean(), model, DOMAIN, EvidenceStore(tmp_path))


def test_the_store_reads_only_whole_evidence(tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path)
    for domain in DOMAINS:
        run_probe(Clean(), Counting(), domain, store, model_name="a/b: c")
    everything = store.read()
    assert len(everything) == 1797
    assert everything.distinct("domain") == ["e=0.1", "e=0.2", "e=0.9"]
    assert len(everything.where(domain="e=0.9", probe="clean")) == 397
    victim = next(tmp_path.rglob("*.parquet"))
    victim.write_bytes(victim.read_bytes()[:500])
    with pytest.raises(DataError, match="not a readable Parquet file"):
        store.read()


def test_slugs_are_safe_and_never_meet() -> None:
    names = ["a", "a/b", "a b", "a-b", "../x", "x", ".hidden", "é", "è", "e=0.9", ""]
    slugs = [slug(name) for name in names]
    assert len(set(slugs)) == len(names)
    assert all("/" not in s and not s.startswith(".") and s for s in slugs)


def grouped(name: str, groups: list[str] | None, ids: list[str] | None = None) -> Domain:
    inputs = torch.rand(8, 2, 2, 2, generator=torch.Generator().manual_seed(0))
    return Domain.from_arrays(name, inputs, [0, 1] * 4, ("a", "b"), groups=groups, ids=ids)


def test_bootstrap_units_are_groups_where_there_are_any(tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path)
    with_groups = run_probe(Clean(), Counting(), grouped("g", ["p", "q"] * 4), store)
    without = run_probe(Clean(), Counting(), grouped("h", None), store)
    assert set(with_groups.sample().units) == {"p", "q"}
    assert set(without.sample().units) == {f"h/{i}" for i in range(8)}


def test_the_gap_is_paired_where_ids_are_equal(tmp_path: Path) -> None:
    store, ids = EvidenceStore(tmp_path), [str(i) for i in range(8)]
    one = run_probe(Clean(), Counting(), grouped("one", None, ids), store)
    other = run_probe(Clean(), Counting(), grouped("other", None, ids), store)
    apart = run_probe(Clean(), Counting(), grouped("apart", None), store)
    assert sp.metrics.gap([one.sample()], other.sample()).method == "paired bootstrap"
    paired, two = (sp.metrics.gap([one.sample()], sample.sample()) for sample in (other, apart))
    assert paired.value == two.value == 0
    assert paired.high - paired.low < two.high - two.low
    assert sp.metrics.gap([one.sample()], apart.sample()).method == "two-sample bootstrap"


def test_metrics_refuse_nothing_at_all() -> None:
    with pytest.raises(UsageError):
        sp.metrics.accuracy([])
    assert len(Evidence.of([])) == 0
