"""Where and how to compute: what is refused, how memory that runs out is met, what is sent to other machines."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import shiftproof as sp
from shiftproof.certification.certifier import Job, Memory
from shiftproof.certification.sampling.devices import restart_elsewhere
from shiftproof.certification.sampling.engine import sample
from shiftproof.certification.sampling.tally import Tally
from shiftproof.errors import ModelError, UsageError
from shiftproof.execution import HERE, Compute, ready, run_shards
from shiftproof.execution.packing import LARGE, Packer, unpack
from shiftproof.models.prepared.slices import Slices, fitting_slice


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"device": "abacus"}, "can't compute on the device 'abacus'"),
        ({"device": "cuda:7"}, "can't compute on the device 'cuda:7'"),
        ({"device": 7}, "the device is 7"),
        ({"device": "privateuseone"}, "can't compute on the device 'privateuseone'"),
        ({"device": "meta"}, "can't compute on the device 'meta'"),
        ({"device": "cpu:3"}, "there is one CPU"),
        ({"precision": "f8"}, "unknown precision 'f8'"),
        ({"precision": "tf32"}, "precision 'tf32' is one of accelerators"),
        ({"backend": "tea"}, "unknown backend 'tea'"),
        ({"workers": 0}, "workers is 0; it should be a whole number of at least 1"),
        ({"cluster": "slurm"}, "the cluster is 'slurm'; it should be 'ray', or 'ray://HOST"),
        ({"cluster": "ray://"}, "the cluster is 'ray://'"),
    ],
)
def test_what_is_not_there_is_refused_in_a_sentence(options: dict[str, Any], sentence: str) -> None:
    if torch.accelerator.is_available() and "device" not in options:
        options["device"] = "cpu"
    with pytest.raises(UsageError, match=sentence.replace("?", r"\?")):
        Compute(**options).check()


@pytest.mark.parametrize("address", ["ray://127.0.0.1:9", "ray://127.0.0.1:x", "ray://:10001"])
def test_a_cluster_that_is_not_there_is_refused_before_anything_is_computed(address: str) -> None:
    pytest.importorskip("ray")
    with pytest.raises(UsageError, match="nobody answers at|it should be ray://HOST"):
        ready(Compute("cpu", cluster=address))


def _switches() -> tuple[str, ...]:
    return torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision


def _look(shard: int) -> Iterator[tuple[str, ...]]:
    yield _switches()
    yield _switches()


@pytest.mark.skipif(not hasattr(torch.backends.cudnn, "conv"), reason="switches of torch 2.9")
@pytest.mark.parametrize(("precision", "wanted"), [("f32", "ieee"), ("tf32", "tf32")])
def test_shards_compute_in_the_precision_that_was_asked_for(
    precision: Any, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the process that computes them, whatever is switched on around it: a worker elsewhere has torch's defaults."""
    monkeypatch.setattr("shiftproof.execution.compute.find_device", lambda _: torch.device("cuda"))
    before = _switches()
    with Compute("cuda", "tf32" if precision == "f32" else "f32").exact_products():
        around = _switches()
        for _, seen in run_shards(_look, [0, 1], Compute("cuda", precision)):
            assert seen == (wanted, wanted)
            assert _switches() == around != seen
    assert _switches() == before


def test_memory_that_runs_out_halves_the_slice_and_says_so() -> None:
    seen: list[int] = []

    def network(inputs: torch.Tensor) -> torch.Tensor:
        seen.append(len(inputs))
        if len(inputs) > 16:
            raise torch.OutOfMemoryError("out of memory")
        return 2 * inputs

    slices, inputs = Slices(64), torch.arange(100.0)[:, None]
    with pytest.warns(UserWarning, match="it gets (32|16) inputs at a time from now on") as said:
        doubled = slices.map(network, inputs)
    assert len(said) == 2
    assert torch.equal(doubled, 2 * inputs)
    assert slices.size == 16
    assert max(seen[seen.index(16) :]) == 16


def test_memory_for_not_even_one_input_is_told() -> None:
    def network(_: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("out of memory")

    with pytest.raises(ModelError, match="not enough memory for one input"):
        Slices(1).map(network, torch.zeros(3, 1))


def test_a_slice_is_a_power_of_two_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shiftproof.models.prepared.slices._free_bytes", lambda _: 1 << 30)
    size = fitting_slice(torch.device("cpu"), 64 * 32 * 32)
    assert size & (size - 1) == 0
    assert size * 4 * 8 * 64 * 32 * 32 <= 1 << 29 < 2 * size * 4 * 8 * 64 * 32 * 32


class _Elsewhere(Compute):
    """A computer of another kind, as far as a record can tell."""

    kind = "cuda"


def _job(record: Memory, compute: Compute) -> tuple[Job, Any]:
    inputs, labels = (
        torch.rand(6, 1, 4, 4, generator=torch.Generator().manual_seed(0)),
        torch.zeros(6, dtype=torch.long),
    )
    domain = sp.Domain.from_arrays("d", inputs, labels.numpy(), ["a", "b"])
    torch.manual_seed(1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).eval()
    setting = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.5), n=600, n0=32)
    return Job(model, domain, 2, 3, record, compute, "off"), setting


def test_an_image_that_another_kind_of_device_has_begun_starts_again() -> None:
    record = Memory()
    job, setting = _job(record, HERE)
    whole = sample(job, [setting])[0]
    begun = Memory()
    # two images are finished, one has half of its votes, one has its class alone
    begun.done = {key: value for key, value in record.done.items() if key in ("0:0", "0:1")}
    begun.done |= {"0:2": [int(whole.chosen[2]), 256, [0, 1], [200, 56]], "0:3": [int(whole.chosen[3]), 0, [], []]}
    tally = Tally(setting, np.zeros(6), 2)
    for key, state in begun.done.items():
        tally.restore(int(key[2:]), state)
    tally.settle(np.arange(6), job.domain.labels)
    elsewhere = replace(job, record=begun, compute=_Elsewhere(device="cpu"))
    assert restart_elsewhere(elsewhere, [tally]) == ["cpu", "cuda"]
    assert begun.done["0:0"] == record.done["0:0"]
    assert begun.done["0:2"] == begun.done["0:3"] == [-1, 0, [], []]
    assert begun.done["devices"] == ["cpu", "cuda"]
    # back on the first one, what the second has begun starts again, and all is as if nothing had happened
    begun.done["0:4"] = [0, 128, [0], [128]]
    again = sample(replace(job, record=begun), [setting])[0]
    assert np.array_equal(again.count, whole.count)
    assert again.details["device"] == "cuda, cpu"


def test_a_record_of_one_cpu_is_as_it_always_was() -> None:
    record = Memory()
    job, setting = _job(record, HERE)
    certificates = sample(job, [setting])[0]
    assert sorted(record.done) == [f"0:{image}" for image in range(6)]
    assert certificates.details["device"] == "cpu"


def test_large_tensors_are_stored_once() -> None:
    stored: list[Any] = []
    packer = Packer(pickle.Pickler, lambda array: stored.append(array.copy()) or len(stored) - 1)
    tied = nn.Linear(300, 300)
    model = nn.Sequential(tied, nn.Tanh(), tied, nn.Linear(300, 2)).double()
    data = torch.zeros(LARGE, dtype=torch.uint8)
    package, references = packer.pack({"model": model, "data": data, "labels": np.arange(5)})
    assert len(references) == len(stored) == 2
    again, same = packer.pack([model, data])
    assert len(stored) == 2
    assert sorted(same) == sorted(references)
    assert len(again) < 10_000
    with torch.no_grad():
        model[0].weight.mul_(2)
    packer.pack(model)
    assert len(stored) == 3, "a tensor that was written to is another one"
    model[0].weight.data.mul_(2)
    packer.pack(model)
    assert len(stored) == 4, "in whatever way"
    model[0].weight.data.div_(2)
    made = unpack(package, [stored[number] for number in references])
    assert made["model"][0].weight is made["model"][2].weight
    assert isinstance(made["model"][0].weight, nn.Parameter)
    inputs = torch.rand(3, 300, dtype=torch.float64)
    with torch.no_grad():
        model[0].weight.div_(2)
    assert torch.equal(made["model"](inputs), model(inputs))


def test_tensors_that_are_not_whole_stay_in_the_package() -> None:
    stored: list[Any] = []
    packer = Packer(pickle.Pickler, lambda array: stored.append(array.copy()) or len(stored) - 1)
    images = torch.rand(64, 16, 16, 16).contiguous(memory_format=torch.channels_last)
    row = torch.rand(2, LARGE)[0]
    package, references = packer.pack([images, row])
    assert references == []
    again = unpack(package, [])
    assert again[0].stride() == images.stride()
    assert torch.equal(again[1], row)
