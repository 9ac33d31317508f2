"""Simulated studies with known truths: models that are right with a known probability, over seeds and samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shiftproof.evidence import Evidence, Measurement
from shiftproof.evidence.certificates import CERTIFICATE

SAMPLES = 120
IDS = np.array([f"sample-{i}" for i in range(2_000)])


def simulate(
    generator: np.random.Generator, shares: Mapping[str, float], seeds: int, spread: float, samples: int = SAMPLES
) -> Evidence:
    """Clean accuracy of models whose mean over all seeds and samples is exactly as `shares` say.

    Every training has a skill of its own (standard deviation `spread`), every sample a difficulty for all models.
    """
    difficulty = generator.uniform(-0.12, 0.12, samples)
    return Evidence(
        [
            clean(model, seed, generator.random(samples) < share + skill + difficulty)
            for model, share in shares.items()
            for seed, skill in enumerate(np.clip(spread * generator.standard_normal(seeds), -0.3, 0.3))
        ]
    )


def clean(model: str, seed: int | None, right: Any, domain: str = "target", **columns: Any) -> Measurement:
    """What the probe `clean` would have measured."""
    right = np.asarray(right, bool)
    facts = {"model": model, "domain": domain, "probe": "clean", "setting": "Clean()", "classifier": "base"}
    values = {"id": IDS[: len(right)], "label": np.zeros(len(right), int), "prediction": 1 - right, "correct": right}
    return Measurement.of(facts | ({} if seed is None else {"train_seed": seed}), values | columns)


def certified(
    model: str, seed: int, radii: Any, domain: str = "target", certifier: Mapping[str, Any] | None = None, **facts: Any
) -> Measurement:
    """What the probe `certify` would have measured: negative radii are of samples that are wrong."""
    radii = np.asarray(radii, np.float64)
    n, config = len(radii), dict(certifier or {"name": "latent-margin"})
    kinds = {"int": np.zeros(n, int), "float": np.zeros(n), "bool": np.zeros(n, bool), "text": np.full(n, "exact")}
    columns: dict[str, Any] = {column.name: kinds[column.kind] for column in CERTIFICATE}
    columns |= {"radius": np.maximum(radii, 0), "correct": radii >= 0, "prediction": np.where(radii >= 0, 0, 1)}
    known = {
        "model": model,
        "domain": domain,
        "probe": "certify",
        "setting": f"Certify({config})",
        "train_seed": seed,
        "classifier": "latent",
        "title": str(config["name"]),
        "norm": "l2",
        "units": "pixels",
        "alpha": 0.0,
        "scale": 0.25,
        "guarantee": "",
        "certifier": config,
        **facts,
    }
    return Measurement.of(known, {"id": IDS[:n], "label": np.zeros(n, int), **columns}, CERTIFICATE)
