"""Distances between real domains: photographs and sketches are far apart, patients dealt at random are not."""

import numpy as np
from conftest import needs_data

from shiftproof.domains import load_domains
from shiftproof.domains.splits import first_samples, held_out
from shiftproof.rng import numpy_generator
from shiftproof.theory import Points, lower_distance

pytestmark = needs_data


def test_photographs_and_sketches_are_farther_apart_than_any_certificate_reaches() -> None:
    domains = load_domains("pacs")
    photo, sketch = (
        Points.of(name, first_samples(held_out(domains[name]), 200).tensors()[0].numpy())
        for name in ("photo", "sketch")
    )
    found = lower_distance(photo, sketch)
    assert found.n == (100, 100)
    assert 30 < found.lower < found.difference < np.sqrt(3 * 64 * 64)


def test_sites_of_patients_that_were_dealt_at_random_raise_no_alarm() -> None:
    """The null case; a site that is brighter by a tenth is seen in most deals, so that the test could fail."""
    sites = list(load_domains("colon"))
    inputs = np.concatenate([site.tensors()[0].numpy()[::20] for site in sites])
    groups = np.concatenate([site.groups[::20] for site in sites if site.groups is not None])
    patients = np.unique(groups.astype(str))
    alarms, brighter = 0, 0
    for deal in range(10):
        first = set(numpy_generator(deal, "deal patients").permutation(patients)[: len(patients) // 2].tolist())
        here = np.array([group in first for group in groups])
        site = Points.of("here", inputs[here], groups[here].tolist())
        other = Points.of("there", inputs[~here], groups[~here].tolist())
        bright = Points(other.name, np.clip(other.inputs + np.float32(0.1), 0, 1), other.units)
        alarms += lower_distance(site, other, seed=deal).lower > 0
        brighter += lower_distance(site, bright, seed=deal).lower > 0
    assert alarms == 0
    assert brighter >= 3
