"""Certify the domains of a data set with a model that is there already, into a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from shiftproof.catalogue import options_of
from shiftproof.certification import CERTIFIERS, Certificates, Certifier, certify
from shiftproof.certification.certifier import Job, Memory
from shiftproof.certification.certify import identity
from shiftproof.certification.checks import check_classifier
from shiftproof.certification.smoothing import RandomizedSmoothing
from shiftproof.domains import Domain, Domains, held_out
from shiftproof.domains.splits import stratified, train_part
from shiftproof.errors import DataError, UsageError
from shiftproof.evidence import slug
from shiftproof.execution import Mode, only_one, read_json, write_json
from shiftproof.models import read_card
from shiftproof.models.files import fingerprint
from shiftproof.models.load import model_path
from shiftproof.models.prepare import Backend, Precision
from shiftproof.perturbations.noise import Noise, as_record
from shiftproof.report.certified import Series, figures, series_of
from shiftproof.studies.seen import seen_domains
from shiftproof.types import Cost, IntArray

__all__ = ["Certified", "Place", "Question", "calibration_pool", "places", "recorded"]


@dataclass(frozen=True, eq=False)
class Place:
    """The samples of a domain that are measured, and which they are, in words."""

    domain: Domain
    what: str


@dataclass(frozen=True, eq=False)
class Certified:
    """Certificates of one domain by one certifier, and where they are."""

    domain: str
    setting: Certifier
    certificates: Certificates
    labels: IntArray
    groups: NDArray[np.object_] | None
    path: Path

    def series(self, name: str) -> Series:
        """For tables and pictures, under a name."""
        return series_of(name, self.domain, self.certificates, self.labels, self.groups)

    def summary(self, name: str, radii: Sequence[float]) -> dict[str, Any]:
        """All figures, for --json."""
        certificates = self.certificates
        return figures(self.series(name), radii) | {
            "images": len(certificates),
            "n": certificates.samples,
            "precision": certificates.precision,
            "forward_passes": certificates.passes,
            "seconds": certificates.details["seconds"],
            "certificates": str(self.path),
        }


def places(domains: Domains, names: Sequence[str] | None, model: str, limit: int | None) -> list[Place]:
    """What is measured of each domain: never a sample that the model's record says it was trained on.

    Test rows where the data set has them; the held-out part of a domain that the model was trained on; else all.
    """
    trained_on, elsewhere = _trained_on(model, domains.name)
    found = []
    for domain in domains if not names else domains.select(names):
        has_test = domain.splits is not None and bool(np.any(domain.splits == "test"))
        if has_test or domain.name in trained_on:
            part, what = held_out(domain), "test rows" if has_test else "held-out part"
        else:
            part, what = domain, "all samples"
        if limit is not None and limit < len(part):
            part = stratified(part, limit)
            what = f"{limit} of its {what}, stratified" if what != "all samples" else f"{limit} samples, stratified"
        if domain.name in trained_on:
            what += "; the model was trained on the others"
        elif trained_on:
            what += "; unseen by the model"
        elif elsewhere:
            what += f"; the model was trained on {elsewhere}, whether on these too is not known"
        found.append(Place(part, what))
    return found


def calibration_pool(domains: Domains, names: Sequence[str] | None, model: str) -> Domains | None:
    """Training images that may shape a model before it is certified: of the domains named, or of those it knows."""
    known = list(names or sorted(_trained_on(model, domains.name)[0]))
    return Domains("calibration", [train_part(domains[name]) for name in known]) if known else None


def _trained_on(model: str, data: str) -> tuple[set[str], str]:
    """Domains of this data set that the model's record names, or the other data set that it does."""
    path = model_path(model) if model.startswith("file:") else None
    if path is None or not path.with_suffix(".json").is_file():
        return set(), ""
    card = read_card(path)
    known, seen = str((card.get("data") or {}).get("name") or ""), seen_domains(card, data)
    return seen, "" if seen or known == data else known


@dataclass(frozen=True, eq=False)
class Question:
    """What is to be certified: a model, samples, settings. Its answer fills a folder, which holds no other.

    Votes are counted once, at the alpha of the settings; `alphas` are further ones that the same votes answer. `source`
    is how model and data were named, so that `verify` finds them again.
    """

    model: nn.Module
    where: Sequence[Place]
    settings: Sequence[Certifier]
    alphas: Sequence[float] = ()
    seed: int = 0
    precision: Precision = "f32"
    backend: Backend = "torch"
    calibration: Domains | None = None
    source: Mapping[str, Any] = field(default_factory=dict)

    @property
    def asked(self) -> dict[str, Any]:
        """All that can change a vote, in a form that fits into JSON."""
        return {
            "model": fingerprint(self.model),
            "data": {place.domain.name: place.domain.fingerprint for place in self.where},
            "settings": [repr(setting) for setting in self.settings],
            "calibration": None if self.calibration is None else [one.fingerprint for one in self.calibration],
            "seed": self.seed,
            "precision": self.precision,
            "backend": self.backend,
        }

    @property
    def recorded_settings(self) -> list[dict[str, Any]]:
        """The settings in a form from which `as_certifier` makes them again."""
        return [recorded(setting) for setting in self.settings]

    def check(self) -> None:
        """Refuse what can't be answered, before anything is written."""
        if self.alphas and not isinstance(self.settings[0], RandomizedSmoothing):
            raise UsageError("several alphas are read from the votes of randomized smoothing; give one")
        for place in self.where:
            job = self._job(place, 1)
            for one in self.settings:
                one.applies(job)
                for alpha in self.alphas:
                    replace(one, alpha=alpha).applies(job)  # type: ignore[type-var]

    def estimate(self, workers: int) -> list[tuple[Place, Certifier, Cost]]:
        """What the answer will take; nothing is written."""
        return [(p, one, one.estimate(self._job(p, workers))) for p in self.where for one in self.settings]

    def answer(self, folder: Path, workers: int = 1, progress: Mode = "auto") -> list[Certified]:
        """Certificates of every place under every setting; what is finished in `folder` is not done again."""
        with only_one(folder):
            _keep_to_one_question(
                folder, self.asked, {**self.source, "settings": self.recorded_settings, "seed": self.seed}
            )
            counted = [one for place in self.where for one in self._certified(place.domain, folder, workers, progress)]
        others = [
            replace(one, certificates=one.certificates.at_alpha(alpha)) for alpha in self.alphas for one in counted
        ]
        return [*counted, *others]

    def _job(self, place: Place, workers: int) -> Job:
        classes = check_classifier(self.model, place.domain)
        job = Job(self.model, place.domain, classes, self.seed, Memory(), workers, self.precision, self.backend, "off")
        return replace(job, calibration=self.calibration)

    def _certified(self, domain: Domain, folder: Path, workers: int, progress: Mode) -> list[Certified]:
        # what can share noise is one piece of work
        together = all(isinstance(one, RandomizedSmoothing) for one in self.settings)
        pieces = [list(self.settings)] if together else [[one] for one in self.settings]
        return [one for piece in pieces for one in self._piece(domain, piece, folder, workers, progress)]

    def _piece(
        self, domain: Domain, settings: list[Certifier], folder: Path, workers: int, progress: Mode
    ) -> list[Certified]:
        stem = folder / "certificates" / slug(domain.name)
        paths = [stem.with_name(f"{stem.name}-{slug(one.title)}.parquet") for one in settings]
        what = identity(self.model, domain, settings, self.seed, self.precision, self.backend, self.calibration)
        certificates = [one for path in paths if (one := _finished(path, what)) is not None]
        if len(certificates) < len(paths):
            journal = paths[0].with_suffix(".journal")
            computed = certify(
                self.model,
                domain,
                settings,
                seed=self.seed,
                workers=workers,
                precision=self.precision,
                backend=self.backend,
                journal=journal,
                progress=progress,
                label=f"certifying {domain.name}",
                calibration=self.calibration,
            )
            certificates = [replace(one, details={**one.details, "identity": what}) for one in computed]
            for path, one in zip(paths, certificates, strict=True):
                one.save(path)
                # other tools would take it for certified
                if not one.unsound:
                    one.to_log(folder / "logs" / f"{path.stem}.tsv", domain.labels)
            journal.unlink(missing_ok=True)
        return [
            Certified(domain.name, setting, one, domain.labels, domain.groups, path)
            for setting, one, path in zip(settings, certificates, paths, strict=True)
        ]


def recorded(certifier: Certifier) -> dict[str, Any]:
    """A certifier in a form from which `as_certifier` makes it again."""
    record: dict[str, Any] = {"name": CERTIFIERS.name_of(certifier)}
    for name in options_of(type(certifier)):
        value = getattr(certifier, name)
        if isinstance(value, Noise):
            value = as_record(value)
        record[name] = (
            value if value is None or isinstance(value, bool | int | float | list | tuple | dict) else str(value)
        )
    return record


def _keep_to_one_question(folder: Path, asked: dict[str, Any], source: Mapping[str, Any]) -> None:
    """Refuse a folder that holds the answer to another question, or a part of it; else note this one."""
    path = folder / "certify.json"
    if path.is_file():
        before = read_json(path, DataError).get("asked", {})
        now = json.loads(json.dumps(asked))
        changed = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
        if changed:
            raise UsageError(f"{folder} holds certificates for another {', '.join(changed)}; choose another --out")
    else:
        write_json(path, {"asked": asked, "source": dict(source)})


def _finished(path: Path, what: dict[str, Any]) -> Certificates | None:
    if not path.is_file():
        return None
    try:
        certificates = Certificates.load(path)
    except DataError:
        return None
    return certificates if certificates.details.get("identity") == what else None
