"""Training in several processes: the weights of one process, whatever is killed, and never two opinions."""

import json
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from rank_models import Descents, Drifting, Forgetful, descend_by, objective
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.domains import train_part
from shiftproof.errors import TrainingError, UsageError
from shiftproof.execution.ranks import run_ranks
from shiftproof.models.files import file_hash, fingerprint
from shiftproof.objectives import OBJECTIVES
from shiftproof.training import loop
from shiftproof.training.batches import Batches
from shiftproof.training.machine import rank_devices
from shiftproof.training.team import Team
from shiftproof.types import Batch, Loss, Share

SOURCES, _ = sp.load_domains("colored-digits").leave_out("e=0.9")
NAMES = [entry.name for entry in OBJECTIVES]
WHOLE = {"embedding-gaussian"}
"""Objectives whose minibatches are not shared out."""
SHORT = {"steps": 30, "evaluate_every": 10, "batch": 16}


def test_every_objective_takes_the_steps_of_one_process(tmp_path: Path) -> None:
    """In double precision, with real processes, and shares of three and four samples."""
    names = [*(name for name in NAMES if name not in WHOLE), "adversarial-training of texts"]
    found = run_ranks(pickle.dumps(Descents(names, str(tmp_path / "store"))), 2, lambda _: None)
    for name in names:
        alone, shared = descend_by(name, Team()), found[name]
        assert shared["losses"] == pytest.approx(alone["losses"], abs=1e-9), name
        for key, weights in alone["weights"].items():
            assert torch.allclose(shared["weights"][key], weights, rtol=0, atol=1e-9), (name, key)
        assert shared["memory"].keys() == alone["memory"].keys(), name
        assert all(torch.allclose(shared["memory"][key], one, atol=1e-9) for key, one in alone["memory"].items())
    assert found["group-dro"]["memory"].keys() == set(SOURCES.names)
    assert found["disagreement"] == (
        "the processes that train do not agree after step 3: process 1 has other weights than process 0. Nothing was "
        "written of this; run the same command again, or with --processes 1."
    )


def test_every_objective_is_either_shared_out_or_refused() -> None:
    assert {name for name in NAMES if objective(name).why_whole()} == WHOLE
    for method, why in [
        (objective("embedding-gaussian"), "as many tokens as the longest text"),
        (objective("trades of texts"), "objective.random_start=false"),
        (Undeclared(), "its class does not say that its loss splits"),
    ]:
        with pytest.raises(UsageError, match=f"can't be trained in 2 processes: .*{why}.*leave --processes out"):
            loop.check_processes(method, method.recipe, 2)
        loop.check_processes(method, method.recipe, 1)


class Undeclared(sp.objectives.ERM):
    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        return Loss(nn.functional.cross_entropy(model(batch.inputs), batch.labels))


class Declared(Undeclared):
    splits: ClassVar[bool] = True


def test_a_loss_of_ones_own_is_declared_by_the_class_that_has_it() -> None:
    assert Undeclared.splits
    assert Undeclared().why_whole()
    assert not Declared().why_whole()
    assert not sp.objectives.TransferAdv().why_whole()


class Third(Team):
    """The second of three processes, without the others."""

    rank, size = 1, 3

    def share(self, sizes: tuple[int, ...]) -> Share:
        return Share(tuple(self.held(size).start for size in sizes), sizes, lambda sums: sums)


@pytest.mark.parametrize("size", [3, 7, 8, 64])
def test_a_share_is_rows_of_the_whole_with_the_draws_of_the_whole(size: int) -> None:
    parts, team = [train_part(domain) for domain in SOURCES], Third()
    whole, share = (Batches(parts, size, 0, torch.device("cpu"), team=one)[5] for one in (Team(), team))
    rows = share.share.rows(share.sizes) if share.share else torch.arange(0)
    assert len(rows) == sum(share.sizes) == 2 * share.sizes[0]
    assert torch.equal(share.inputs, whole.inputs[rows])
    assert torch.equal(share.labels, whole.labels[rows])
    assert share.whole_sizes == whole.sizes == (size, size)
    starts = [Team.held(one, size) for one in (_rank(0), team, _rank(2))]
    assert [one.start for one in starts] == [0, *(one.stop for one in starts[:-1])]
    assert starts[-1].stop == size

    def normal(batch: Batch, dim: int) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        return batch.draw(lambda count: torch.randn((*(2, 3)[:dim], count, 4), generator=generator), dim)

    for dim in (0, 1):
        assert torch.equal(normal(share, dim), normal(whole, dim).index_select(dim, rows))
    values = torch.arange(2.0 * size)
    held, halves = values[rows], share.in_halves()
    for number, (first, last) in enumerate([(0, size // 2), (size // 2, size), (size, size + size // 2)]):
        own = held[(held >= first) & (held < last)]
        assert halves.domain_means(held)[number] == pytest.approx(float(own.sum()) / (last - first))
    assert [one.whole_sizes for one in share.per_domain()] == [(size,), (size,)]
    assert torch.equal(torch.cat([one.inputs for one in share.per_domain()]), share.inputs)


def _rank(number: int) -> Team:
    team = Third()
    team.rank = number
    return team


def close(one: nn.Module, other: nn.Module, most: float) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.allclose(a.double(), b.double(), rtol=0, atol=most) for a, b in pairs)


CASES = [
    pytest.param(model, name, double, id=f"{model} {name} {'float64' if double else 'float32'}",
                 marks=() if (model, name, double) == ("mlp", "adversarial-training", True) else pytest.mark.slow)
    for model in ("mlp", "mlp-cayley")
    for name in ("erm", "adversarial-training", "gaussian")
    for double in (True, False)
]  # fmt: skip


@pytest.mark.parametrize(("model", "name", "double"), CASES)
def test_two_processes_give_the_weights_of_one(model: str, name: str, double: bool) -> None:
    options: dict[str, Any] = {"threat": "l2:0.5", "steps": 3} if name == "adversarial-training" else {}
    method = OBJECTIVES.create(name, options)
    recipe = {"steps": 50, "evaluate_every": 25, "batch": 33, "optimiser": "adam", "lr": 1e-3}

    def fit(processes: int) -> sp.training.Fit:
        network = sp.build_model(model, SOURCES, width=32)
        network = network.double() if double else network
        return sp.train(network, SOURCES, method, recipe=recipe, processes=processes)

    torch.set_num_threads(2)
    alone, shared = fit(1), fit(2)
    assert close(shared.model, alone.model, 1e-9 if double else 1e-3)
    assert not any(key for key, one in alone.last.items() if not torch.allclose(shared.last[key], one, atol=1e-3))
    assert [row["step"] for row in shared.history] == [25, 50]
    assert [row["loss"] for row in shared.history] == pytest.approx([row["loss"] for row in alone.history], abs=1e-3)
    assert (alone.processes, alone.threads, shared.processes, shared.threads) == (1, 2, 2, 1)
    assert shared.selected == alone.selected
    assert shared.findings == ()


def test_what_can_not_be_shared_out_gets_a_sentence(tmp_path: Path) -> None:
    model = sp.build_model("mlp", SOURCES, width=8)

    class Local(nn.Sequential):
        pass

    for arguments, sentence in [
        ({"processes": 0}, "processes is 0; it should be a whole number of at least 1"),
        ({"processes": 2.0}, "processes is 2.0; it should be a whole number of at least 1"),
        ({"processes": 4, "recipe": {"batch": 3}}, "minibatch of 3 .*among 4 processes.*--set training.batch=4"),
        ({"processes": 2, "objective": Undeclared()}, "Undeclared can't be trained in 2 processes"),
        ({"processes": 2, "model": Local(model)}, "can't be sent to 2 processes.*not in a notebook"),
    ]:
        given = {"model": model, "objective": sp.objectives.ERM(), "recipe": SHORT, **arguments}
        with pytest.raises(UsageError, match=sentence):
            sp.train(sources=SOURCES, **given)  # type: ignore[arg-type]


def test_accelerators_have_a_process_each(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rank_devices("cpu", 3) == [torch.device("cpu")] * 3
    monkeypatch.setattr("shiftproof.training.machine.find_device", lambda _: torch.device("cuda", 0))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    assert rank_devices("auto", 2) == [torch.device("cuda", 0), torch.device("cuda", 1)]
    for name, processes, sentence in [
        ("cuda", 3, "3 processes need a device each, and there are 2 of cuda: write --processes 2, or --device cpu"),
        ("cuda:1", 2, "'cuda:1', and 2 processes need one each: write --device cuda"),
    ]:
        with pytest.raises(UsageError, match=sentence):
            rank_devices(name, processes)


def test_another_number_of_processes_does_not_go_on_with_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "c.ckpt"
    sp.train(sp.build_model("mlp", SOURCES), SOURCES, recipe=SHORT, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(TrainingError, match="in 1 processes, not 2: go on with --processes 1"):
        sp.train(sp.build_model("mlp", SOURCES), SOURCES, recipe=SHORT, checkpoint=path, processes=2)
    assert path.read_bytes() == before
    # a checkpoint of before says nothing of processes
    state = torch.load(path, weights_only=True)
    del state["processes"]
    torch.save(state, path)
    assert sp.train(sp.build_model("mlp", SOURCES), SOURCES, recipe=SHORT, checkpoint=path).processes == 1


@pytest.mark.slow
def test_processes_that_begin_differently_do_not_begin(tmp_path: Path) -> None:
    model = Forgetful(SOURCES)
    before = fingerprint(model)
    with pytest.raises(TrainingError, match="do not agree before the first step: process 1 has other initial weights"):
        sp.train(model, SOURCES, recipe=SHORT, checkpoint=tmp_path / "c.ckpt", checkpoint_seconds=0, processes=2)
    assert list(tmp_path.iterdir()) == []
    assert fingerprint(model) == before


@pytest.mark.slow
def test_processes_that_come_apart_write_nothing_more(tmp_path: Path) -> None:
    path = tmp_path / "c.ckpt"
    with pytest.raises(TrainingError, match="do not agree after step 8: process 1 has other weights"):
        sp.train(
            sp.build_model("mlp", SOURCES), SOURCES, Drifting(), recipe=SHORT, checkpoint=path,
            checkpoint_seconds=0, processes=2,
        )  # fmt: skip
    assert torch.load(path, weights_only=True)["step"] == 7
    assert [one.name for one in tmp_path.iterdir()] == ["c.ckpt"]


@pytest.mark.slow
def test_a_loss_that_is_not_a_number_stops_all_processes() -> None:
    recipe = {**SHORT, "lr": 1e30, "optimiser": "sgd"}
    with pytest.raises(TrainingError, match="try a smaller learning rate"):
        sp.train(sp.build_model("mlp", SOURCES), SOURCES, recipe=recipe, processes=2)


def killer(folder: Path, rank: int, delay: float) -> threading.Thread:
    """Kills one of the processes that train, a moment after a new checkpoint is there."""

    def is_new(known: dict[Path, int]) -> bool:
        return any(known.get(path) != path.stat().st_mtime_ns for path in folder.rglob("*.ckpt"))

    def kill() -> None:
        known = {path: path.stat().st_mtime_ns for path in folder.rglob("*.ckpt")}
        while not is_new(known):
            time.sleep(0.005)
        time.sleep(delay)
        processes = sorted(multiprocessing.active_children(), key=lambda one: one.pid or 0)
        os.kill(processes[rank].pid or 0, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


@pytest.mark.slow
@pytest.mark.parametrize(("model", "processes"), [("mlp", 2), ("cnn", 2), ("mlp", 3)])
def test_killed_it_goes_on_to_the_same_bits(
    model: str,
    processes: int,
    tmp_path: Path,
    run: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any of the processes may be killed; cnn has BatchNorm, and three processes add in an order of their own."""
    monkeypatch.setitem(loop.train.__kwdefaults__, "checkpoint_seconds", 0.05)
    steps = 400 if model == "mlp" else 150

    def train(out: str) -> tuple[int, str, str]:
        return run(
            "train", "--data", "colored-digits", "--target", "e=0.9", "--model", model, "--objective", "gaussian",
            "--set", f"training.steps={steps}", "--set", "training.batch=31", "--set", "model.width=16",
            "--limit", 50, "--out", tmp_path / out, "--processes", processes,
        )  # fmt: skip

    generator = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    for rank in (processes - 1, 0):
        thread = killer(tmp_path / "killed", rank, generator.uniform(0, 0.2))
        code, _, err = train("killed")
        thread.join()
        assert code == 1
        assert f"error: process {rank} of the {processes} that train died by SIGKILL (out of memory?)." in err
        assert "run the same command again." in err
        assert "Traceback" not in err
        assert multiprocessing.active_children() == []
        assert not (tmp_path / "killed" / "model.safetensors").exists()
    assert train("killed")[0] == train("whole")[0] == 0
    whole, killed = ((tmp_path / name / "model.safetensors") for name in ("whole", "killed"))
    assert file_hash(whole) == file_hash(killed)
    card, other = (json.loads(path.with_suffix(".json").read_text()) for path in (whole, killed))
    assert card["history"] == other["history"]
    assert (card["processes"], card["threads"]) == (processes, 1)
    found = [one["code"] for one in json.loads((tmp_path / "whole" / "run.json").read_text())["findings"]]
    assert ("batchnorm-shares" in found) == (model == "cnn")
    assert run("verify", tmp_path / "whole")[0] == 0
