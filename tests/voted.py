"""Certificates by votes that were never counted, for tests of what follows from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from shiftproof import noise
from shiftproof.certification.certificates import Certificates, certified_rows
from shiftproof.certification.sampling.budget import budget
from shiftproof.evidence import Measurement
from shiftproof.evidence.certificates import CERTIFICATE, certificate_columns, certificate_facts

VOTES, SIGMA = 1_000, 0.5


def votes_of(right: int, count: int, n: int = 400) -> Certificates:
    """Certificates of n samples: class 0 is chosen with so many votes; the first `right` samples are of that class."""
    counts, ids = np.full(n, count), np.array([str(i) for i in range(n)], object)
    labels = np.where(np.arange(n) < right, 0, 1)
    gaussian, levels = noise.Gaussian(SIGMA), budget(0.001, 3, runner_up=True, stops_early=False)
    start = Certificates.blank(
        ids,
        np.zeros(n, np.int64),
        np.ones(n),
        count=counts,
        label_count=np.where(labels == 0, counts, VOTES - counts),
        runner_up_count=VOTES - counts,
        n=np.full(n, VOTES),
        norm="l2",
        units="pixel values in [0, 1]",
        alpha=0.001,
        guarantee="",
        title="gaussian 0.5",
        noise=gaussian,
        levels=levels,
        samples=VOTES,
        classes=3,
        seed=0,
    )
    return replace(start, **certified_rows(gaussian, start.votes, VOTES, levels))


def certified(domain: str, right: int, count: int = 990, n: int = 400, **facts: Any) -> Measurement:
    """The same as evidence of a model on a domain, fit for shift certificates unless facts say otherwise."""
    held = votes_of(right, count, n)
    labels = np.where(np.arange(n) < right, 0, 1)
    known = {"model": "m", "domain": domain, "probe": "certify", "setting": "certify", "seed": 0, "sampled": "all"}
    known |= {"seen_in_training": "no", "chose_weights": "no", **certificate_facts(held), **facts}
    columns = certificate_columns(held) | {"id": held.ids, "label": labels, "correct": held.prediction == labels}
    if "group" in facts:
        columns["group"] = known.pop("group")
    return Measurement.of(known, columns, CERTIFICATE)
