"""Evidence, probes and metrics."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.domains import Domain
from shiftproof.errors import ConformanceError, DataError, ModelError, UsageError
from shiftproof.evidence import Column, Evidence, EvidenceStore, Measurement, slug
from shiftproof.execution import Compute, always_in_workers, workers
from shiftproof.execution.tables import hash_table
from shiftproof.probes import run_probe
from shiftproof.probes.blocks import ProbeTask
from shiftproof.probes.clean import Clean
from shiftproof.probes.corrupt import Corrupt
from shiftproof.probes.probe import Probe, Result
from shiftproof.types import Cost

DOMAINS = sp.load_domains("colored-digits")
DOMAIN = DOMAINS["e=0.1"]
SHARD = len(DOMAIN.blocks[0])
STEM = f"clean-{hashlib.sha256(b'Clean()').hexdigest()[:8]}"


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
    (rows,) = run_probe(Clean(), Counting(), DOMAIN, EvidenceStore(tmp_path), model_name="m", seed=3)
    assert rows.table.column_names == ["id", "label", "prediction", "correct", "seconds", "confidence"]
    assert rows["id"].tolist() == DOMAIN.ids.tolist()
    assert np.array_equal(rows["correct"], rows["prediction"] == DOMAIN.labels)
    assert rows["correct"].mean() == pytest.approx(0.9, abs=0.03)
    assert (rows.classifier, rows.fact("seed"), rows.model, rows.probe) == ("base", 3, "m", "clean")
    assert (rows["seconds"] > 0).all()
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [f"{STEM}.parquet"]


def test_an_interrupted_probe_does_not_start_over(tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path)
    first = Counting(fail_after=SHARD)
    with pytest.raises(KeyboardInterrupt):
        run_probe(Clean(), first, DOMAIN, store)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [f"{STEM}.journal"]
    second = Counting()
    (rows,) = run_probe(Clean(), second, DOMAIN, store)
    assert first.shown == SHARD
    assert second.shown == len(DOMAIN) - SHARD
    (whole,) = run_probe(Clean(), Counting(), DOMAIN, EvidenceStore(tmp_path / "whole"))
    assert rows.table.drop(["seconds"]).equals(whole.table.drop(["seconds"]))
    third = Counting()
    assert run_probe(Clean(), third, DOMAIN, store)[0].table.equals(rows.table)
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
    (alone,) = run_probe(Clean(), model, DOMAIN, EvidenceStore(tmp_path / "1"))
    used = []
    original = workers._in_processes
    monkeypatch.setattr(workers, "_in_processes", lambda *arguments: used.append(1) or original(*arguments))
    with always_in_workers():
        (both,) = run_probe(Clean(), model, DOMAIN, EvidenceStore(tmp_path / "2"), compute=Compute(workers=2))
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
    assert (len(everything), everything.rows) == (3, 1797)
    assert everything.distinct("domain") == ["e=0.1", "e=0.2", "e=0.9"]
    assert len(everything.get(domain="e=0.9", probe="clean")) == 397
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
    (with_groups,) = run_probe(Clean(), Counting(), grouped("g", ["p", "q"] * 4), store)
    (without,) = run_probe(Clean(), Counting(), grouped("h", None), store)
    assert set(with_groups.sample().units) == {"p", "q"}
    assert set(without.sample().units) == {f"h/{i}" for i in range(8)}


def test_the_gap_is_paired_where_ids_are_equal(tmp_path: Path) -> None:
    store, ids = EvidenceStore(tmp_path), [str(i) for i in range(8)]
    (one,) = run_probe(Clean(), Counting(), grouped("one", None, ids), store)
    (other,) = run_probe(Clean(), Counting(), grouped("other", None, ids), store)
    (apart,) = run_probe(Clean(), Counting(), grouped("apart", None), store)
    assert sp.metrics.gap([one.sample()], other.sample()).method == "paired bootstrap"
    paired, two = (sp.metrics.gap([one.sample()], sample.sample()) for sample in (other, apart))
    assert paired.value == two.value == 0
    assert paired.high - paired.low < two.high - two.low
    assert sp.metrics.gap([one.sample()], apart.sample()).method == "two-sample bootstrap"


def test_metrics_refuse_nothing_at_all() -> None:
    with pytest.raises(UsageError):
        sp.metrics.accuracy([])
    assert len(Evidence.concat([])) == 0


# ------------------------------------------------------------------------------------------------------ measurements


@dataclass(frozen=True)
class Sloppy(Probe):
    """Measures the brightness of samples, and declares what it is told to."""

    declares: tuple[str, ...] = ()
    rows: int | None = None

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        return tuple(Column(name, "float", "How bright it is.") for name in self.declares)

    def collect(self, task: ProbeTask) -> list[Result]:
        n = len(task.domain) if self.rows is None else self.rows
        return [Result({"prediction": np.zeros(n, int), "brightness": np.linspace(0, 1, n)}, {"lamp": "on"})]

    def cost(self, model: nn.Module, domain: Domain, workers: int) -> Cost:
        return Cost(0, 0.0, 0, 0.0)


@pytest.mark.parametrize(
    ("probe", "sentence"),
    [
        (Sloppy(), "measured 'brightness' without declaring it"),
        (Sloppy(("brightness", "colour")), "declares 'colour', but did not measure it"),
        (Sloppy(("brightness",), rows=3), "gave 3 predictions for 8 samples"),
    ],
)
def test_what_a_probe_does_not_declare_is_an_error(probe: Probe, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConformanceError, match=sentence):
        run_probe(probe, Counting(), grouped("g", None), EvidenceStore(tmp_path))
    assert not list(tmp_path.rglob("*.parquet"))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path)
    (rows,) = run_probe(Sloppy(("brightness",)), Counting(), grouped("g", ["p", "q"] * 4), store)
    assert rows.fact("lamp") == "on"
    (again,) = store.read()
    assert dict(again.facts) == dict(rows.facts)
    assert again.table.equals(rows.table)
    assert set(again.table.column_names) == {"id", "group", "label", "prediction", "correct", "brightness"}


def test_settings_of_a_probe_share_a_file_and_come_apart_again(tmp_path: Path) -> None:
    store, domain = EvidenceStore(tmp_path), grouped("g", None)
    probe = Corrupt(("fog", "snow"), (1, 5))
    model = sp.build_model("mlp", DOMAINS, width=4)
    images = Domain.from_arrays("g", torch.rand(8, 2, 8, 8), domain.labels, ("a", "b"))
    whole = run_probe(probe, model, images, store, progress="off")
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
    again = store.read()
    assert [one.title for one in again] == ["fog 1", "fog 5", "snow 1", "snow 5"]
    for one, other in zip(whole, again, strict=True):
        assert one.table.equals(other.table)


def test_a_flat_table_for_people(tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path)
    for name in ("one", "other"):
        run_probe(Clean(), Counting(), grouped(name, None), store, model_name="m")
    run_probe(Sloppy(("brightness",)), Counting(), grouped("one", None), store, model_name="m")
    table = store.read().to_arrow()
    assert table.num_rows == 24
    assert table.column_names[:3] == ["model", "domain", "probe"]
    assert table.column("brightness").null_count == 16
    assert table.column("lamp").to_pylist().count("on") == 8
    assert store.read().where(domain="nowhere").to_arrow().num_rows == 0


def test_pandas_is_asked_for_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = EvidenceStore(tmp_path)
    run_probe(Clean(), Counting(), grouped("one", None), store)
    if find_spec("pandas") is not None:
        assert store.read().to_pandas().shape[0] == 8
    monkeypatch.setattr("shiftproof.evidence.evidence.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="pip install pandas"):
        store.read().to_pandas()


def _changed(store: EvidenceStore, change: Callable[[Any], Any]) -> bool:
    """Whether a change of the only file's table, under the notes that it has, is noticed."""
    (file,) = store.files()
    notes = pq.read_table(file.path).schema.metadata
    pq.write_table(change(pq.read_table(file.path)).replace_schema_metadata(notes), file.path)
    (file,) = store.files()
    return not file.untouched


@pytest.mark.parametrize("column", ["id", "label", "prediction", "correct", "seconds"])
def test_any_changed_value_is_noticed(column: str, tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path)
    run_probe(Clean(), Counting(), DOMAIN, store)

    def change(table: Any) -> Any:
        values = table.column(column).to_pylist()
        last = values[-1]
        values[-1] = not last if isinstance(last, bool) else f"{last}x" if isinstance(last, str) else last + 1
        place = table.column_names.index(column)
        return table.set_column(place, column, pa.array(values, table.schema.field(column).type))

    assert not _changed(store, lambda table: table)
    assert _changed(store, change)


def test_moving_a_letter_from_one_id_to_the_next_is_noticed(tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path)
    run_probe(Clean(), Counting(), grouped("g", None, [*"abcdef", "gh", "i"]), store)

    def change(table: Any) -> Any:
        return table.set_column(0, "id", pa.array([*"abcdef", "g", "hi"]))

    assert _changed(store, change)


def test_the_hash_is_of_the_values_not_of_their_place_in_memory() -> None:
    table = pa.table({"t": [f"é{i}" for i in range(50)], "x": [*range(49), None], "b": [True, False] * 25})
    whole = hash_table(table)
    assert hash_table(pa.concat_tables([table.slice(0, 7), table.slice(7)])) == whole
    assert hash_table(pa.concat_tables([table, table]).slice(50)) == whole
    assert hash_table(table.take(pa.array(range(50)))) == whole
    assert hash_table(table.slice(0, 49)) != whole
    assert hash_table(table.rename_columns(["t", "y", "b"])) != whole
    assert hash_table(table, b"note") != whole


@pytest.mark.slow
def test_a_million_rows_are_written_hashed_and_read(tmp_path: Path) -> None:
    """Nothing goes through JSON or a Python loop over values: it takes seconds, not minutes."""
    n = 1_000_000
    columns = {
        "id": np.array([f"folder/image-{i}.png" for i in range(n)], object),
        "label": np.arange(n) % 10,
        "prediction": np.arange(n) % 7,
        "correct": np.arange(n) % 3 == 0,
        "seconds": np.full(n, 1e-3),
    }
    facts = {"model": "m", "domain": "d", "probe": "clean", "setting": "Clean()", "classifier": "base"}
    store = EvidenceStore(tmp_path)
    store.finish(store.path("m", "d", "clean", "Clean()"), Evidence([Measurement.of(facts, columns)]), {"a": 1})
    (file,) = store.files()
    assert file.untouched
    assert file.evidence.rows == n
