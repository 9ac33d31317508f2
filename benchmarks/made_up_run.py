"""A run of made-up numbers, as large as one likes: the record and the evidence of models that were never trained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from shiftproof.evidence import Evidence, EvidenceStore, Measurement
from shiftproof.evidence.certificates import CERTIFICATE
from shiftproof.probes import Probe
from shiftproof.runs import parse_study
from shiftproof.runs.environment import environment
from shiftproof.runs.record import FORMAT, PROTOCOL, write_record

DOMAINS, CLASSES, SAMPLES = ("photo", "cartoon", "art", "sketch"), ("cat", "dog", "horse"), 12_500
MEASUREMENTS = 10
"""Of one model on one domain, by the five probes below."""
ROWS_OF_A_MODEL = len(DOMAINS) * MEASUREMENTS * SAMPLES
EPS, SIGMA, VOTES, ALPHA = 0.25, 0.25, 10_000, 0.001
UNITS = {"norm": "l2", "units": "pixel values in [0, 1]"}
STUDY = """
title: Made up
data: pacs
target: sketch
seed: 0
models: {%s}
probes:
  - clean
  - {name: attack, attack: {name: pgd, threat: "l2:0.25", steps: 5}}
  - {name: attack, attack: {name: pgd, threat: "l2:0.25", steps: 5}, smoothed: "gaussian:0.25", votes: 10000}
  - {name: corrupt, corruptions: [fog, snow, frost, contrast, pixelate], severities: [3]}
  - {name: certify, certifier: {name: randomized-smoothing, noise: "gaussian:0.25", n: 10000}}
"""


def write_run(folder: Path, models: int, samples: int = SAMPLES) -> int:
    """Write a finished run into `folder`, with evidence as the engine writes it; returns how many rows it has."""
    names = [f"model {number}" for number in range(models)]
    study = parse_study(STUDY % ", ".join(f"{name}: {{model: cnn}}" for name in names), "made-up", "made-up")
    store, rows = EvidenceStore(folder / "evidence"), 0
    for number, name in enumerate(names):
        for place, domain in enumerate(DOMAINS):
            generator = np.random.default_rng([number, place])
            ids = np.array([f"{domain}/{CLASSES[i % 3]}/pic_{i:06d}.jpg" for i in range(samples)], object)
            made = _MadeUp(name, domain, generator, ids, np.arange(samples) % len(CLASSES))
            for probe in study.probes_of(name):
                evidence = Evidence(list(made.measurements(probe)))
                store.finish(store.path(name, domain, probe.name, repr(probe)), evidence, {"probe": repr(probe)})
                rows += evidence.rows
    write_record(folder, _record(study, names, samples))
    return rows


class _MadeUp:
    """What probes would have found of one model on one domain: on the sources more is right than on the target."""

    def __init__(self, model: str, domain: str, generator: np.random.Generator, ids: Any, labels: Any) -> None:
        self.facts = {"model": model, "domain": domain, "seed": 0, "precision": "f32", "sampled": "all"}
        self.facts |= {"seen_in_training": "no", "chose_weights": "no"}
        self.generator, self.ids, self.labels = generator, ids, labels
        self.right = 0.6 if domain == DOMAINS[-1] else 0.9
        chosen = generator.random(len(labels)) < self.right
        self.clean = np.where(chosen, labels, (labels + 1) % len(CLASSES))
        # the vote answers alike, and the surest are certified
        self.count = np.where(chosen, VOTES - generator.integers(0, VOTES // 2, len(labels)), VOTES // 2)
        self.radius = np.where(chosen, SIGMA * (self.count / VOTES - 0.5) * 4, 0.0)

    def measurements(self, probe: Probe) -> Iterator[Measurement]:
        """Of one probe, in the order in which it has its settings."""
        setting = {"setting": repr(probe), "title": probe.title}
        if probe.name == "clean":
            yield self._of(probe, self.clean, setting, confidence=self.generator.random(len(self.labels)))
        elif probe.name == "attack":
            voted = probe.classifier == "smoothed"
            for eps in (0.0, EPS) if voted else (EPS,):
                # what is certified within eps is not overturned
                falls = (self.radius <= 1.2 * eps) & (self.generator.random(len(self.labels)) < 0.5) & (eps > 0)
                answers = np.where(falls, (self.labels + 1) % len(CLASSES), self.clean)
                facts = {**UNITS, "eps": eps, "threat": "l2", "attack": repr(probe), "how": "inputs are changed"}
                facts |= {"noise": f"gaussian {SIGMA:g}", "votes": VOTES} if voted else {}
                title = {
                    "setting": f"{probe!r} at {eps:g}",
                    "title": f"attack, l2 {eps:g}{' on vote' if voted else ''}",
                }
                yield self._of(probe, answers, {**facts, **title}, distance=np.where(falls, 0.9 * eps, 0.0))
        elif probe.name == "corrupt":
            for kind in ("fog", "snow", "frost", "contrast", "pixelate"):
                falls = self.generator.random(len(self.labels)) < 0.2
                facts = {"corruption": kind, "corruption_group": "weather", "severity": 3, "constants": "cifar"}
                named = {"setting": f"{kind} 3, cifar constants", "title": f"{kind} 3"}
                yield self._of(probe, np.where(falls, (self.labels + 1) % len(CLASSES), self.clean), {**facts, **named})
        else:
            yield self._certified(probe)

    def _certified(self, probe: Probe) -> Measurement:
        n = len(self.labels)
        prediction = np.where(self.radius > 0, self.clean, -1)
        whole = {"chosen": self.clean, "count": self.count, "label_count": self.count, "n": np.full(n, VOTES)}
        whole |= {"runner_up": (self.clean + 1) % len(CLASSES), "runner_up_count": VOTES - self.count}
        shares = {"p_lower": self.count / VOTES - 0.01, "p_upper": 1.01 - self.count / VOTES, "off_grid": np.zeros(n)}
        texts = {"bound": np.full(n, "clopper-pearson", object), "parts": np.full(n, "", object)}
        columns = {
            "radius": self.radius,
            "skipped": np.zeros(n, bool),
            "margin": np.zeros(n),
            **whole,
            **shares,
            **texts,
        }
        facts: dict[str, Any] = {
            **UNITS,
            "setting": repr(probe),
            "title": f"gaussian {SIGMA:g}",
            "scale": SIGMA,
            "constant": None,
        }
        facts |= {"unsound": "", "alpha": ALPHA, "guarantee": "Made up.", "votes": VOTES, "passes": VOTES * n}
        facts |= {"noise": f"gaussian {SIGMA:g}", "noise_options": {"name": "gaussian", "sigma": SIGMA}}
        facts |= {"levels": {"final": ALPHA, "final_rival": 0.0, "early": 0.0, "early_rival": 0.0}}
        facts |= {"certifier": probe.to_config()["certifier"]}
        return self._of(probe, prediction, facts, **columns)

    def _of(self, probe: Probe, answers: Any, facts: dict[str, Any], **columns: Any) -> Measurement:
        common = {"probe": probe.name, "classifier": probe.classifier, "title": probe.title, **self.facts, **facts}
        values = {"id": self.ids, "label": self.labels, "prediction": answers, "correct": answers == self.labels}
        values |= {"seconds": np.full(len(answers), 1e-4), **columns}
        declared = CERTIFICATE if probe.name == "certify" else probe.columns
        return Measurement.of(common, values, declared)


def _record(study: Any, names: list[str], samples: int) -> dict[str, Any]:
    """What run.json says of it."""
    known = {"sampled": "all", "seen_in_training": "no", "chose_weights": "no"}
    recipe = {"optimiser": "adam", "lr": 0.001, "batch": 64, "steps": 100}
    model = {"model": {"name": "cnn"}, "objective": {"name": "erm"}, "recipe": recipe, "selection": "last"}
    each = samples // len(CLASSES)
    return {
        "format": FORMAT,
        "hash": "made-up",
        "study": study.to_config(),
        "config": {"data": {"name": "pacs"}, "models": dict.fromkeys(names, model)},
        "sources": list(DOMAINS[:-1]),
        "kind": "image",
        "classes": list(CLASSES),
        "labels": {domain: dict.fromkeys(CLASSES, each) for domain in DOMAINS},
        "selected": {name: {"step": 100, "rule": "last"} for name in names},
        "findings": [],
        "protocol": PROTOCOL,
        "parts": dict.fromkeys(DOMAINS, "all"),
        "id_key": "0" * 32,
        "noise_seed": 0,
        "fingerprints": {"data": dict.fromkeys(DOMAINS, "made up"), "weights": dict.fromkeys(names, "made up")},
        "environment": environment(),
        "later_environments": [],
        "measured": {name: dict.fromkeys(DOMAINS, known) for name in names},
        "finished": "2026-01-01T00:00:00+00:00",
    }
