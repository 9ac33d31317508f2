"""Outlines say what loading would give; blank domains look like the data and are marked as blank."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from shiftproof.domains import DOMAINS, load_domains
from shiftproof.domains.outline import Outline, blank_domains
from shiftproof.domains.registry import PREFIXED, data_set, look_for
from shiftproof.testing import check_domains

OUTLINED = [
    entry.name for entry in DOMAINS if entry.name not in PREFIXED and data_set(entry.name, {}).outline() is not None
]
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in OUTLINED),
    ("colored-mnist", {"gray": True}),
    ("colored-mnist", {"size": 28}),
    ("pacs-shortcut", {"shortcut": "tint", "size": 32}),
    ("colored-fashion-mnist", {"agreement": (0.95, 0.7, 0.05)}),
]


def test_data_sets_of_studies_have_an_outline() -> None:
    assert {"celeba", "domainnet", "colored-mnist", "colored-fashion-mnist", "pacs-shortcut"} <= set(OUTLINED)
    assert {"imagenet", "stl10"} <= set(OUTLINED)
    assert data_set("folder:x", {}).outline() is None


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_an_outline_is_what_loading_gives(name: str, options: dict[str, Any]) -> None:
    if missing := [file for file in DOMAINS[name].cls.files if look_for(file) is None]:
        pytest.skip(f"the data folder does not hold {', '.join(missing)}")
    domains = load_domains(name, **options)
    outline = data_set(name, options).outline()
    assert outline == Outline.of(domains)
    assert outline is not None
    for domain in domains:
        here, told = domain.counterfactual, outline.counterfactuals.get(domain.name)
        assert (here is None) == (told is None)
        if here is not None and told is not None:
            inputs = domain.take([0, 1])[0]
            assert torch.equal(here(inputs), told(inputs))


@pytest.mark.parametrize("name", OUTLINED)
def test_blank_domains_need_no_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path))
    outline = data_set(name, {}).outline()
    assert outline is not None
    blank = blank_domains(outline, name, each=20)
    assert blank.name == f"{name} (blank)"
    assert (blank.shape, blank.classes, blank.names) == (outline.shape, outline.classes, tuple(outline.counts))
    assert all(str(one).startswith("blank/") for domain in blank for one in domain.ids)
    assert all(set(domain.labels) == set(range(min(20, len(outline.classes)))) for domain in blank)
    check_domains(blank)
    again = blank_domains(outline, name, each=20)
    assert [one.fingerprint for one in again] == [one.fingerprint for one in blank]
    first, *others = (domain.tensors()[0] for domain in blank)
    assert not any(torch.equal(first, other) for other in others)


def test_blank_domains_are_no_larger_than_the_data() -> None:
    outline = Outline((1, 2, 2), ("a", "b"), {"few": 5, "many": 500})
    assert [len(domain) for domain in blank_domains(outline, "x")] == [5, 64]


def test_the_outline_of_samples_is_the_size_asked_for() -> None:
    celeba = data_set("celeba", {"agreement": (0.85, 0.75, 0.15)}).outline()
    assert celeba is not None
    assert celeba.counts == {"agrees=0.85": 14_000, "agrees=0.75": 14_000, "agrees=0.15": 2_400}
    assert np.prod(celeba.shape) == 3 * 64 * 64
