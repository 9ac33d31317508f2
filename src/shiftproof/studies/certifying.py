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
from shiftproof.certification.certifiers.randomized_smoothing import RandomizedSmoothing
from shiftproof.certification.checks import check_classifier
from shiftproof.domains import Domain, Domains
from shiftproof.domains.splits import first_samples, part_of, train_part
from shiftproof.errors import DataError, UsageError
from shiftproof.evidence import slug
from shiftproof.execution import Mode, only_one, read_json, write_json
from shiftproof.models.behaviour import behaviour_of, difference
from shiftproof.models.identity import identity_of
from shiftproof.models.prepared.prepare import Backend, Precision
from shiftproof.perturbations.noise import Noise, as_record
from shiftproof.report.certified import Series, figures, series_of
from shiftproof.rng import fresh_seed
from shiftproof.studies.data import measured_part
from shiftproof.studies.jobs import card_of
from shiftproof.studies.seen import seen_domains, seen_in_training
from shiftproof.types import Cost, IntArray

__all__ = ["Certified", "Place", "Question", "calibration_pool", "places", "recorded"]


@dataclass(frozen=True, eq=False)
class Place:
    """The samples of a domain that are measured, and which they are: in words, and as facts.

    `part` is that of the domain, `sampled` all | simple, `seen_in_training` no | unknown | yes.
    """

    domain: Domain
    what: str
    part: str = "all"
    sampled: str = "all"
    seen_in_training: str = "unknown"

    @property
    def facts(self) -> dict[str, str]:
        """For JSON."""
        return {"split": self.part, "sampled": self.sampled, "seen_in_training": self.seen_in_training}


@dataclass(frozen=True, eq=False)
class Certified:
    """Certificates of one domain by one certifier, and where they are."""

    domain: str
    setting: Certifier
    certificates: Certificates
    labels: IntArray
    groups: NDArray[np.object_] | None
    path: Path
    place: Place

    def series(self, name: str) -> Series:
        """For tables and pictures, under a name."""
        seen = self.place.seen_in_training
        return series_of(name, self.domain, self.certificates, self.labels, self.groups, seen)

    def summary(self, name: str, radii: Sequence[float]) -> dict[str, Any]:
        """All figures, for --json."""
        certificates = self.certificates
        return figures(self.series(name), radii) | {
            "images": len(certificates),
            **self.place.facts,
            "n": certificates.samples,
            "seed": certificates.seed,
            "precision": certificates.precision,
            "forward_passes": certificates.passes,
            "seconds": certificates.details["seconds"],
            "certificates": str(self.path),
        }


def places(
    domains: Domains,
    names: Sequence[str] | None,
    model: str,
    limit: int | None,
    sample_seed: int = 0,
    split: str | None = None,
    adapting: Sequence[str] = (),
) -> list[Place]:
    """What is measured of each domain: never a sample that the model's record says it was trained on, unless told.

    The part called `split`; without one, the held-out part of a domain that the model was trained on, or that is
    `adapting` it now; else all. A `limit` takes some of that, at random.
    """
    card, found = card_of(model), []
    for domain in domains if not names else domains.select(names):
        name = measured_part([card], domains.name, domain, split)
        name = "held-out" if domain.name in adapting and split is None else name
        part = part_of(domain, name)
        few = first_samples(part, limit, sample_seed)
        seen = seen_in_training(card, domains.name, domain, name)
        what = _words(domain, name, None if few is part else len(few))
        what += _seen_words(seen, card, domains.name, domain.name in seen_domains(card, domains.name))
        found.append(Place(few, what, name, "all" if few is part else "simple", seen))
    return found


def _words(domain: Domain, part: str, few: int | None) -> str:
    """All samples; its test rows; 12 of its held-out part, at random."""
    has_test = domain.splits is not None and bool(np.any(domain.splits == "test"))
    whole = {"held-out": "test rows" if has_test else "held-out part"}.get(part, f"{part} rows")
    if part == "all":
        return "all samples" if few is None else f"{few} samples, at random"
    return f"its {whole}" if few is None else f"{few} of its {whole}, at random"


def _seen_words(seen: str, card: Mapping[str, Any], data: str, trained: bool) -> str:
    if seen == "yes":
        return "; seen in training: yes"
    if seen == "no":
        return "; the model was trained on the others" if trained else "; unseen by the model"
    known = str((card.get("data") or {}).get("name") or "")
    return "; seen in training: unknown" + (f", the model was trained on {known}" if known and known != data else "")


def calibration_pool(domains: Domains, names: Sequence[str] | None, model: str) -> Domains | None:
    """Training images that may shape a model before it is certified: of the domains named, or of those it knows."""
    known = list(names or sorted(seen_domains(card_of(model), domains.name)))
    return Domains("calibration", [train_part(domains[name]) for name in known]) if known else None


@dataclass(frozen=True, eq=False)
class Question:
    """What is to be certified: a model, samples, settings. Its answer fills a folder, which holds no other.

    Votes are counted once, at the alpha of the settings; `alphas` are further ones that the same votes answer. Without
    a `seed` one is drawn for the folder, and kept in it. `source` is how model and data were named, so that `verify`
    finds them again.
    """

    model: nn.Module
    where: Sequence[Place]
    settings: Sequence[Certifier]
    alphas: Sequence[float] = ()
    seed: int | None = None
    precision: Precision = "f32"
    backend: Backend = "torch"
    calibration: Domains | None = None
    source: Mapping[str, Any] = field(default_factory=dict)

    @property
    def asked(self) -> dict[str, Any]:
        """All that was asked for and can change a vote, in a form that fits into JSON."""
        settings, domains = [repr(setting) for setting in self.settings], [place.domain for place in self.where]
        same = identity_of(settings, self.model, domains, seed=self.seed, **self._how)
        return {"settings": same.pop("asked"), "model": same.pop("weights"), **same}

    @property
    def _how(self) -> dict[str, Any]:
        return {"precision": self.precision, "backend": self.backend, "calibration": self.calibration}

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
            seed = self._keep_to_one_question(folder)
            counted = [one for place in self.where for one in self._certified(place, seed, folder, workers, progress)]
        others = [
            replace(one, certificates=one.certificates.at_alpha(alpha)) for alpha in self.alphas for one in counted
        ]
        return [*counted, *others]

    def _job(self, place: Place, workers: int) -> Job:
        classes = check_classifier(self.model, place.domain)
        job = Job(
            self.model, place.domain, classes, self.seed or 0, Memory(), workers, self.precision, self.backend, "off"
        )
        return replace(job, calibration=self.calibration)

    def _certified(self, place: Place, seed: int, folder: Path, workers: int, progress: Mode) -> list[Certified]:
        # what can share noise is one piece of work
        together = all(isinstance(one, RandomizedSmoothing) for one in self.settings)
        pieces = [list(self.settings)] if together else [[one] for one in self.settings]
        return [one for piece in pieces for one in self._piece(place, piece, seed, folder, workers, progress)]

    def _piece(
        self, place: Place, settings: list[Certifier], seed: int, folder: Path, workers: int, progress: Mode
    ) -> list[Certified]:
        domain = place.domain
        stem = folder / "certificates" / slug(domain.name)
        paths = [stem.with_name(f"{stem.name}-{slug(one.title)}.parquet") for one in settings]
        what = identity_of([repr(one) for one in settings], self.model, domain, seed=seed, **self._how)
        certificates = [one for path in paths if (one := _finished(path, what)) is not None]
        if len(certificates) < len(paths):
            journal = paths[0].with_suffix(".journal")
            computed = certify(
                self.model,
                domain,
                settings,
                seed=seed,
                workers=workers,
                journal=journal,
                progress=progress,
                label=f"certifying {domain.name}",
                **self._how,
            )
            certificates = [replace(one, details={**one.details, "identity": what}) for one in computed]
            for path, one in zip(paths, certificates, strict=True):
                one.save(path)
                # other tools would take it for certified
                if not one.unsound:
                    one.to_log(folder / "logs" / f"{path.stem}.tsv", domain.labels)
            journal.unlink(missing_ok=True)
        return [
            Certified(domain.name, setting, one, domain.labels, domain.groups, path, place)
            for setting, one, path in zip(settings, certificates, paths, strict=True)
        ]

    def _keep_to_one_question(self, folder: Path) -> int:
        """Refuse a folder that holds the answer to another question, or a part of it; else note this one.

        Returns the seed of the noise: as asked for, as the folder has it, or drawn now.
        """
        path, asked = folder / "certify.json", json.loads(json.dumps(self.asked))
        answers = {place.domain.name: behaviour_of(self.model, place.domain) for place in self.where}
        if not path.is_file():
            seed = fresh_seed() if self.seed is None else self.seed
            source = {**self.source, "settings": self.recorded_settings, "seed": seed}
            samples = {place.domain.name: place.facts for place in self.where}
            write_json(path, {"asked": asked, "source": source, "samples": samples, "behaviour": answers})
            return seed
        record = read_json(path, DataError)
        before, seed = record.get("asked", {}), record.get("source", {}).get("seed")
        if not isinstance(seed, int) or "behaviour" not in record:
            raise UsageError(f"{folder} does not say with which seed or model it was made; choose another --out")
        # whoever names the seed that was drawn asks for the same votes
        now = {**asked, "seed": before.get("seed") if self.seed in (None, seed) else self.seed}
        changed = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
        if changed:
            raise UsageError(f"{folder} holds certificates for another {', '.join(changed)}; choose another --out")
        for name, logits in answers.items():
            differs = difference(record["behaviour"].get(name, []), logits)
            if differs:
                raise UsageError(
                    f"the model is not the one that {folder} holds certificates of: its weights are the same, but on "
                    f"{name}, {differs}; choose another --out, or remove the folder to certify anew"
                )
        return seed


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


def _finished(path: Path, what: dict[str, Any]) -> Certificates | None:
    if not path.is_file():
        return None
    try:
        certificates = Certificates.load(path)
    except DataError:
        return None
    return certificates if certificates.details.get("identity") == what else None
