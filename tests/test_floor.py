"""errors, types, rng, catalogue."""

import importlib
import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from shiftproof import rng
from shiftproof.attacks.attack import ATTACKS
from shiftproof.catalogue import Catalogue, Method
from shiftproof.certification import CERTIFIERS
from shiftproof.domains.registry import DOMAINS
from shiftproof.errors import UnknownName, UsageError
from shiftproof.models import MODELS
from shiftproof.objectives.objective import OBJECTIVES
from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS
from shiftproof.perturbations.noise import NOISES
from shiftproof.probes.probe import PROBES
from shiftproof.types import Batch


def test_derived_numbers_depend_on_every_part_and_its_type() -> None:
    keys = [(0, "a"), (1, "a"), (0, "b"), (0, "a", 1), (0, "a", "1"), (0, "a", 1, 2), (0, "a", 12), (0, "ab", "")]
    assert len({rng.derive(*key) for key in keys}) == len(keys)


def test_derived_numbers_are_the_same_everywhere() -> None:
    assert rng.derive(7, "noise", "x", 3) == 331632484913913263663378255380659980519


def test_torch_generator_fills_the_whole_state() -> None:
    words = np.random.SeedSequence(rng.derive(0, "x")).generate_state(624, np.uint32)
    twister = np.random.MT19937()
    state = twister.state
    state["state"] = {"key": words, "pos": 624}
    twister.state = state
    drawn = torch.empty(1000, dtype=torch.int32).random_(generator=rng.torch_generator(0, "x"))
    assert np.array_equal(drawn.numpy(), (twister.random_raw(1000) & 0x7FFFFFFF).astype(np.int32))


@pytest.mark.parametrize("catalogue", [ATTACKS, CORRUPTIONS, NOISES], ids=lambda catalogue: catalogue.kind)
def test_packages_name_what_is_registered_in_them(catalogue: Catalogue[object]) -> None:
    own = [entry for entry in catalogue if entry.cls.__module__.startswith("shiftproof.")]
    assert own
    for entry in own:
        package = importlib.import_module(entry.cls.__module__.rpartition(".")[0])
        assert entry.cls.__name__ in package.__all__
        assert getattr(package, entry.cls.__name__) is entry.cls
        assert issubclass(entry.cls, catalogue.base)


def test_seeded_globals_leave_no_trace() -> None:
    before = torch.get_rng_state()
    with rng.seeded_globals(0, "init"):
        first = torch.rand(3)
    with rng.seeded_globals(0, "init"):
        assert torch.equal(torch.rand(3), first)
    assert torch.equal(torch.get_rng_state(), before)


METHODS: Catalogue[object] = Catalogue("method", "shiftproof.statistics")


@METHODS.register("shrink", paper="nobody")
@dataclass(frozen=True)
class Shrink:
    """Make it smaller."""

    factor: float
    times: int = 1


def test_catalogue_creates_by_name() -> None:
    assert METHODS.create("shrink", {"factor": 0.5}) == Shrink(0.5, 1)
    assert METHODS.create("shrink", {"factor": "1e-3"}) == Shrink(0.001, 1)
    assert METHODS["shrink"].summary == "Make it smaller."
    assert METHODS["shrink"].options == {"factor": ..., "times": 1}
    assert METHODS.name_of(Shrink(1.0)) == "shrink"


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("shrnk", {}, "unknown method 'shrnk'. Did you mean 'shrink'?"),
        ("zzz", {}, "unknown method 'zzz'. Known: shrink."),
        ("shrink", {"factor": "big"}, "factor of method 'shrink' is 'big'; it should be a valid number"),
        ("shrink", {"factor": True}, "factor of method 'shrink' is True; it takes no true or false"),
        ("shrink", {"facto": 1}, "unknown option of method 'shrink': 'facto'. Did you mean 'factor'?"),
        ("shrink", {}, "method 'shrink' needs a value for 'factor'"),
    ],
)
def test_catalogue_errors_say_what_to_type(name: str, options: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        METHODS.create(name, options)
    assert str(caught.value) == sentence


def test_plug_ins_are_found_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    methods: Catalogue[object] = Catalogue("method", "shiftproof.statistics")

    class Point:
        def load(self) -> None:
            methods.register("grow")(type("Grow", (), {"__doc__": "Make it larger."}))

    asked = []
    monkeypatch.setattr("shiftproof.catalogue.entry_points", lambda group: asked.append(group) or [Point()])
    assert [entry.name for entry in methods] == ["grow"]
    assert "grow" in methods
    assert asked == ["shiftproof.statistics"]


@pytest.mark.parametrize(
    ("package", "options", "group"),
    [
        ("shiftproof.statistics", {}, "shiftproof.statistics"),
        ("shiftproof.certification.bounds", {}, "shiftproof.bounds"),
        ("shiftproof.certification.bounds", {"group": "shiftproof.limits"}, "shiftproof.limits"),
    ],
)
def test_the_group_of_entry_points_follows_from_the_package_unless_told(
    package: str, options: dict[str, str], group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr("shiftproof.catalogue.entry_points", lambda group: asked.append(group) or [])
    assert list(Catalogue("method", package, **options)) == []
    assert asked == [group]


def test_groups_of_entry_points_are_those_that_contributors_are_told() -> None:
    catalogues = (ATTACKS, CERTIFIERS, CORRUPTIONS, DOMAINS, MODELS, NOISES, OBJECTIVES, PROBES)
    told = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
    assert [one.group for one in catalogues if f"`{one.group}`" not in told] == []


@pytest.mark.parametrize("catalogue", [CERTIFIERS, MODELS, OBJECTIVES], ids=lambda one: one.kind)
def test_packages_name_their_members_so_that_editors_see_them(catalogue: Catalogue[Method]) -> None:
    package = importlib.import_module(catalogue._package)
    own = [entry.cls for entry in catalogue if entry.cls.__module__.startswith("shiftproof.")]
    assert own
    assert [cls.__name__ for cls in own if cls.__name__ not in package.__all__] == []
    assert all(vars(package)[cls.__name__] is cls for cls in own)
    assert "__getattr__" not in vars(package)


def test_a_class_defined_again_replaces_itself() -> None:
    methods: Catalogue[object] = Catalogue("method", "shiftproof.statistics")
    for factor in (1, 2):
        methods.register("again")(type("Again", (), {"factor": factor}))
    assert methods["again"].cls.factor == 2  # type: ignore[attr-defined]


def test_two_methods_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two methods are called 'shrink'"):
        METHODS.register("shrink")(type("Other", (), {}))


def test_unknown_name_survives_a_trip_to_a_worker() -> None:
    error = pickle.loads(pickle.dumps(UnknownName("model", "mpl", ["mlp"])))  # noqa: S301
    assert str(error) == "unknown model 'mpl'. Did you mean 'mlp'?"


def test_batches_weigh_domains_equally() -> None:
    batch = Batch(torch.zeros(4, 1), torch.zeros(4, dtype=torch.long), ("a", "b"), (3, 1))
    assert float(batch.mean_over_domains(torch.tensor([0.0, 0.0, 0.0, 1.0]))) == 0.5
    assert [part.names for part in batch.per_domain()] == [("a",), ("b",)]
    assert [len(part.labels) for part in batch.per_domain()] == [3, 1]
