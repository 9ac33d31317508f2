"""Which samples helped to make a model: trained on, or deciding which weights were kept, by its record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shiftproof as sp
from shiftproof.domains import Domain, Domains
from shiftproof.runs.copies import Copies
from shiftproof.runs.data import StudyData
from shiftproof.runs.samples import known_of_samples
from shiftproof.runs.seen import chose_weights, seen_in_training
from shiftproof.runs.study_files import validated

FOLDER = "folder:/data/clinics"


def domain(name: str, seed: int = 0, splits: list[str] | None = None) -> Domain:
    pixels = np.random.default_rng(seed).random((20, 1, 4, 4), np.float32)
    return Domain.from_arrays(name, pixels, [0, 1] * 10, ["cat", "dog"], splits=splits)


def card(**others: Any) -> dict[str, Any]:
    """Of a model that was trained on domain a of the folder, and shipped to b."""
    known = {"data": {"name": FOLDER}, "sources": ["a"], "target": "b", "fingerprints": {"a": domain("a").fingerprint}}
    return known | {"selection": {"rule": "source-validation", "step": 3}} | others


def test_a_domain_that_was_renamed_is_not_unseen() -> None:
    """Folders are the user's: what the record names neither as source nor as target may be a source of before."""
    assert seen_in_training(card(), FOLDER, domain("b", 1), "all") == "no"
    assert seen_in_training(card(), FOLDER, domain("newsite", 2), "all") == "unknown"
    # the same samples under another name
    assert seen_in_training(card(), FOLDER, domain("a"), "held-out") == "no"
    # data sets of a name have the domains that they have
    named = card(data={"name": "colored-digits"}, sources=["e=0.1"], fingerprints={})
    assert seen_in_training(named, "colored-digits", domain("e=0.9", 2), "all") == "no"


def test_another_size_hides_no_change() -> None:
    changed = domain("a", 5)
    assert seen_in_training(card(), FOLDER, changed, "held-out") == "unknown"
    assert seen_in_training(card(), {"name": FOLDER, "size": 4}, changed, "held-out") == "unknown"


@pytest.mark.parametrize(
    ("rule", "part", "splits", "expected"),
    [
        ("source-validation", "held-out", None, "yes"),
        ("robust-source-validation", "validation", None, "yes"),
        ("last", "held-out", None, "no"),
        ("source-validation", "test", None, "no"),
        ("source-validation", "held-out", ["train"] * 10 + ["test"] * 10, "no"),
        (None, "held-out", None, "unknown"),
    ],
)
def test_what_chose_the_weights(rule: str | None, part: str, splits: list[str] | None, expected: str) -> None:
    selection = {} if rule is None else {"selection": {"rule": rule, "step": 3}}
    record = {**card(), "selection": None, **selection}
    assert chose_weights(record, FOLDER, domain("a", splits=splits), part) == expected
    assert chose_weights(record, FOLDER, domain("b", 1), part) == "no"


def test_a_phase_on_other_data_chose_nothing_here() -> None:
    before = {"data": {"name": "digits"}, "sources": ["digits"], "fingerprints": {}}
    last = card(selection={"rule": "last", "step": 3}, initial=before)
    assert chose_weights(last, FOLDER, domain("a"), "held-out") == "no"
    same = card(selection={"rule": "last", "step": 3}, initial={**before, "data": {"name": FOLDER}, "sources": ["a"]})
    assert chose_weights(same, FOLDER, domain("a"), "held-out") == "unknown"


def test_copies_of_samples_that_chose_the_weights_may_not_be_used() -> None:
    study = validated(
        {
            "name": "s",
            "data": {"name": "colored-digits"},
            "target": "e=0.9",
            "models": {"m": {"model": "mlp", "objective": "erm"}},
            "probes": ["clean"],
        },
        "test",
    )
    digits = sp.load_domains("colored-digits")
    sources, target = digits.leave_out("e=0.9")
    data = StudyData(Domains("colored-digits", list(sources)), (target,))
    record = {"data": {"name": "colored-digits"}, "sources": list(sources.names), "fingerprints": {}}
    record["selection"] = {"rule": "source-validation", "step": 3}
    apart = known_of_samples(data, study, record, Copies())
    assert apart["e=0.9"]["chose_weights"] == "no"
    assert apart["e=0.1"]["chose_weights"] == "yes"
    copied = known_of_samples(data, study, record, Copies(shared={"e=0.9": frozenset({"e=0.1"})}))
    assert copied["e=0.9"]["chose_weights"] == "unknown"
    kept = known_of_samples(
        data, study, {**record, "selection": {"rule": "last"}}, Copies(shared={"e=0.9": frozenset({"e=0.1"})})
    )
    assert kept["e=0.9"]["chose_weights"] == "no"
