"""A run: what a study or an audit has left in its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from shiftproof.display import Chart
from shiftproof.errors import DataError, UsageError
from shiftproof.evidence import Evidence, EvidenceStore, slug
from shiftproof.evidence.measurement import worst_seen
from shiftproof.evidence.order import order_summary
from shiftproof.execution import as_path, write_atomically
from shiftproof.probes import Probe
from shiftproof.report import Report, write_report
from shiftproof.report.claims import ClaimOutcome, RequiredClaims, beside_published, judge_claims, require_claims
from shiftproof.report.gallery.changes import changes_path
from shiftproof.report.gallery.files import GalleryFile, gallery_path, read_gallery
from shiftproof.report.gallery.gradients import gradient_path
from shiftproof.report.junit import claim_cases, finding_cases, junit_xml, outcome_cases
from shiftproof.report.page import FORMATS, render_page
from shiftproof.report.privacy import SampleNames
from shiftproof.report.requirements import CLAIMS, Outcome, Requirement
from shiftproof.report.robustness_chart import robustness_chart
from shiftproof.runs.absent import Recorded, sentence_of
from shiftproof.runs.distances import read_distances, read_gaps, read_pairs
from shiftproof.runs.facts import facts_of
from shiftproof.runs.log_files import certificate_logs
from shiftproof.runs.model_spec import Member
from shiftproof.runs.next_steps import next_steps
from shiftproof.runs.not_run import read_not_run, times_of
from shiftproof.runs.notebook import run_html
from shiftproof.runs.record import read_record
from shiftproof.runs.reproduce import compute_words, write_reproduction
from shiftproof.runs.robustness_cards import robustness_cards
from shiftproof.runs.spec import Study
from shiftproof.runs.study_files import validated
from shiftproof.runs.swept import sweeps_of
from shiftproof.types import Finding

__all__ = ["Run", "open_run", "sheet_path"]


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """What was asked, in which folder, and what was measured."""

    folder: Path
    study: Study
    record: dict[str, Any]
    evidence: Evidence

    def __repr__(self) -> str:
        models, domains = ", ".join(self.study.models), ", ".join(map(str, self.evidence.distinct("domain")))
        return f"Run({self.folder}: {models} on {domains}; {self.evidence.rows:,} rows of evidence)"

    def _repr_html_(self) -> str:
        return run_html(self.content(), self.folder)

    def plot(self, *, model: str | None = None, domain: str | None = None, norm: str | None = None) -> Chart:
        """Attacked and certified accuracy by size, as a chart that a notebook shows and `save(path)` writes.

        Of all models and domains, in the norm of the first certificate, unless told.
        """
        return robustness_chart(self.content(), model=model, domain=domain, norm=norm)

    def card(self, path: Path | str | None = None, *, model: str | None = None) -> Path:
        """Write the robustness card of a model, a README for a model hub; returns where.

        Of a run with several models say which; `export(["card"])` writes one for each. A card names no sample.
        """
        names = self.evidence.distinct("model")
        if model is None and len(names) > 1:
            raise UsageError(
                f"the run has {len(names)} models ({', '.join(names)}), and a card is of one: "
                f"run.card(model={names[0]!r}), or run.export(['card']) for one card each"
            )
        ((name, text),) = robustness_cards(
            self.content(images=False), self.study, self.record, self.samples, model
        ).items()
        where = self.folder / name if path is None else as_path("the file of the card", path)
        write_atomically(where, text.encode())
        return where

    def report(self, path: Path | str | None = None, *, images: bool = True) -> Path:
        """Write the report as one HTML page, to `path` or into the run's folder; returns where.

        Without `images` it shows no sample: no picture, no text, and ids as keyed hashes.
        """
        where = self.folder / "report.html" if path is None else Path(path)
        write_atomically(where, render_page(self.content(images)).encode())
        return where

    def export(
        self,
        formats: Sequence[str] = FORMATS,
        folder: Path | None = None,
        *,
        images: bool = True,
        model: str | None = None,
    ) -> list[Path]:
        """Write the page, tables and figures below `folder` or the run's own; returns their paths, the page first.

        Beside them go logs of certificates in the form that other tools read, logs/*.tsv. Without `images`, none of
        them shows a sample or names one. `model` is whose robustness card is written; of all, unless told.
        """
        where, content, cards = folder or self.folder, self.content(images), dict[str, str]()
        if "card" in formats:
            # a model that there is not is refused before anything is written
            cards = robustness_cards(self.content(images=False), self.study, self.record, self.samples, model)
        written = write_report(content, where, formats)
        for name, text in cards.items():
            write_atomically(where / name, text.encode())
            written.append(where / name)
        if "reproduction" in formats:
            written += write_reproduction(content, self.study, self.record, self.folder, where)
        if "junit" in formats:
            write_atomically(where / "junit.xml", self.junit(images=images))
            written.append(where / "junit.xml")
        if set(formats) - {"card", "junit", "reproduction"}:
            for name, log in certificate_logs(self.evidence, named=not content.names.private):
                write_atomically(where / name, log)
        return written

    def junit(self, outcomes: Sequence[Outcome | RequiredClaims] | None = None, *, images: bool = True) -> bytes:
        """Requirements and findings as JUnit XML, for continuous integration; claims too where they are required.

        `outcomes` are those that count; all that calls have required, unless told.
        """
        judged = self.outcomes if outcomes is None else outcomes
        required = any(isinstance(one, RequiredClaims) for one in judged)
        cases = [
            *outcome_cases(judged),
            *(claim_cases(self.claims) if required else ()),
            *finding_cases(self.content(images).findings),
        ]
        return junit_xml(self.study.name, cases)

    @property
    def imported(self) -> bool:
        """Whether it was made of others' results."""
        return self.record.get("imported") is not None

    @cached_property
    def absent(self) -> str:
        """A sentence about what the run was made with and is not installed here; nothing where all is there."""
        return sentence_of(self.study, self.record)

    @property
    def findings(self) -> list[Finding]:
        """What a reader should take away."""
        return self.content().findings

    @property
    def verdict(self) -> list[str]:
        """What was measured and guaranteed, in plain words."""
        return self.content().verdict

    @property
    def broken(self) -> list[Finding]:
        """Checks that failed: of data, of the model, of what can't be. That a model is bad is none of these."""
        said = [Finding(**finding) for finding in self.record["findings"]]
        return [one for one in [*said, *order_summary(self.evidence)] if one.level == "fail"]

    @property
    def samples(self) -> dict[str, dict[str, Any]]:
        """What was measured of each domain: how many samples, of which part, how chosen, seen in training by whom."""
        found = {}
        for domain, part in self.record.get("parts", {}).items():
            measured = {member: self.record["measured"][member.key] for member in self.study.members}
            # not every model of an import was measured everywhere
            known = {member: places[domain] for member, places in measured.items() if domain in places}
            found[domain] = {
                "n": self.evidence.where(domain=domain).samples,
                "split": part,
                "sampled": next(iter(known.values()))["sampled"],
                "seen_in_training": {
                    name: worst_seen(facts["seen_in_training"] for one, facts in known.items() if one.name == name)
                    for name in dict.fromkeys(one.name for one in known)
                },
            }
        return found

    @cached_property
    def claims(self) -> list[ClaimOutcome]:
        """The claims that the study made before it ran, and what evidence says of them."""
        study = self.study
        return judge_claims(
            study.claims, self.evidence, study.published, study.only_target, study.seed, self.record["sources"]
        )

    @cached_property
    def outcomes(self) -> list[Outcome | RequiredClaims]:
        """What was required, and whether it is met: on every target, or without one on every source."""
        domains = self.study.targets or self.record["sources"]
        required = [Requirement.parse(text) for text in self.record.get("require", ())]
        models = list(self.evidence.by("model"))
        several = len(models) > 1
        of_models: list[Outcome | RequiredClaims] = [
            replace(one.judge(part, domains), model=part[0].model if several else "")
            for one in required
            if one.metric != CLAIMS
            for part in models
        ]
        return of_models + [require_claims(one.text, self.claims) for one in required if one.metric == CLAIMS]

    def content(self, images: bool = True) -> Report:
        """What the report says; its numbers are computed once.

        Without `images`, or if the run was made without them, it shows no sample.
        """
        if images and self.record.get("images", True):
            return self._content
        # of runs of before there is no key, and what is hashed without one could be guessed
        private = SampleNames(True, str(self.record.get("id_key") or ""))
        return replace(self._content, sheets={}, gradients={}, changes=None, names=private)

    def _absent_notes(self) -> list[Finding]:
        return [Finding("warn", "not-installed", self.absent)] if self.absent else []

    def _galleries(self, domains: Sequence[str]) -> dict[str, GalleryFile]:
        paths = {name: gallery_path(self.folder, name) for name in domains}
        return {name: read_gallery(path) for name, path in paths.items() if path.is_file()}

    @cached_property
    def _content(self) -> Report:
        study, record = self.study, self.record
        names = [*record["sources"], *study.targets]
        took = compute_words(self.evidence, study, record, self.folder)
        facts = facts_of(study, record, self.samples, took)
        sheets = {name: sheet_path(self.folder, name) for name in names}
        return Report(
            title=study.title or study.name,
            about=study.about,
            models={name: spec.about for name, spec in study.models.items()},
            sources=tuple(record["sources"]),
            targets=study.targets,
            classes=tuple(record["classes"]),
            evidence=self.evidence,
            sheets={name: path for name, path in sheets.items() if path.is_file()},
            galleries=self._galleries(names),
            gradients={name: path for name in names if (path := gradient_path(self.folder, name)).is_file()},
            changes=changes_path(self.folder) if changes_path(self.folder).is_file() else None,
            facts=facts,
            labels=record["labels"],
            notes=[*self._absent_notes(), *(Finding(**finding) for finding in record["findings"])],
            seed=study.seed,
            outcomes=self.outcomes,
            radii=tuple(record.get("radii") or ()),
            distances=read_distances(self.folder),
            domain_distances=read_pairs(self.folder),
            other_gaps=read_gaps(self.folder),
            claims=self.claims,
            published=beside_published(
                self.evidence, study.published, study.only_target, times_of(read_not_run(self.folder))
            ),
            sweeps=sweeps_of(study),
            # a page does not depend on where its folder lies and what it is called
            steps=lambda: next_steps(self, folder=Path("RUN")),
            trained_here=all(spec.train for spec in study.models.values()),
        )


def open_run(folder: Path | str, *, unfinished: bool = False) -> Run:
    """A run from its folder; nothing is loaded but the record and the evidence. One that lacks some is refused, unless
    `unfinished` takes what is there.
    """
    folder = as_path("the folder of the run", folder)
    record = read_record(folder)
    study = validated(record["study"], str(folder / "run.json"), recorded=Recorded.of(record))
    store = EvidenceStore(folder / "evidence")
    domains = (*record["sources"], *study.targets)
    imported = record.get("imported")
    only = [] if imported is None else [tuple(one) for one in imported["measurements"]]
    # in the order in which they were measured, whatever files are called
    paths = [
        store.path(member.name, domain, probe.name, repr(probe), member.seed)
        for member in study.members
        for probe in study.probes_of(member.name)
        for domain in domains
        if (member.name, domain, repr(probe)) in only
        or (imported is None and is_asked(study, record, member, probe, domain))
    ]
    there = [path for path in paths if path.is_file()]
    _check_domains(folder, study, record, measured=bool(there))
    if len(there) < len(paths) and not unfinished:
        raise UsageError(f"the run in {folder} is not finished: run the same study again to complete it")
    return Run(folder, study, record, Evidence.concat(store.read_file(path).evidence for path in there))


def is_asked(study: Study, record: Mapping[str, Any], member: Member, probe: Probe, domain: str) -> bool:
    """Whether a study asks for a measurement: of a model on its own sources and on targets, where samples are taken."""
    own = record.get("trained_on", {}).get(member.name, record["sources"])
    none = isinstance(study.prefix, dict) and study.prefix.get(domain) == 0 and not probe.cheap
    return not none and (domain in own or domain not in record["sources"])


def _check_domains(folder: Path, study: Study, record: Mapping[str, Any], measured: bool) -> None:
    """Refuse a record that lacks a domain of its study where the report needs it, or that names another."""
    domains, known = {*record["sources"], *study.targets}, record.get("measured", {})
    told = all(domains <= set(known.get(member.key, ())) for member in study.members)
    if record.get("imported") is not None:
        told = all(domain in known.get(model, ()) for model, domain, *_ in record["imported"]["measurements"])
    if measured and not told:
        raise DataError(f"{folder / 'run.json'} is damaged: it does not say of all that was measured how it was chosen")
    counted = all(set(record["labels"].get(name, ())) == set(record["classes"]) for name in domains)
    wrong = [name for name, good in (("labels", counted), ("parts", set(record["parts"]) <= domains)) if not good]
    if wrong:
        raise DataError(f"{folder / 'run.json'} is damaged: {wrong[0]} are not those of the domains that were measured")


def sheet_path(folder: Path, domain: str) -> Path:
    """Where a run keeps the picture of a domain's samples."""
    return folder / "figures" / f"samples-{slug(domain)}.png"
