"""A report: what a run asked and measured, and the numbers that several sections share, each computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from shiftproof.evidence import Evidence, seen_note
from shiftproof.evidence.checks import constant_findings, counterfactual_findings, refuted_findings, unsound_findings
from shiftproof.evidence.order import order_summary
from shiftproof.report.accuracy import AccuracyTable, ProbeTable, accuracy_table, probe_tables
from shiftproof.report.balanced import balanced_note, class_counts
from shiftproof.report.certified import Series, nice_radii, series_of_evidence
from shiftproof.report.claims.judge import ClaimOutcome, RequiredClaims
from shiftproof.report.claims.published import PublishedRow
from shiftproof.report.gallery.build import GalleryMaker
from shiftproof.report.gallery.edited import EditedText, edited_texts
from shiftproof.report.gallery.files import GalleryFile
from shiftproof.report.how_far import Gap, KnownPair
from shiftproof.report.measures import shared_rows
from shiftproof.report.overview import Overview, overview_of
from shiftproof.report.privacy import SampleNames
from shiftproof.report.requirements import ComparedOutcome, Outcome
from shiftproof.report.scores import ScoreTable, score_table
from shiftproof.report.section import SECTIONS, Section
from shiftproof.report.sections.around import headline
from shiftproof.report.sections.attacked import Attacked, attacked_of
from shiftproof.report.sections.corrupted import Corrupted, corrupted_of
from shiftproof.report.sections.findings import certificate_findings, score_findings, shift_findings
from shiftproof.report.sections.matrix import Matrix, matrices_of
from shiftproof.report.sections.measures import SideBySide, side_by_side
from shiftproof.report.sections.sweeps import Sweep
from shiftproof.report.sections.verdict import score_verdict, verdict_of
from shiftproof.report.shift import KnownDistance, ShiftSeries, shift_order, shift_series
from shiftproof.report.story import Step, Story, story_of
from shiftproof.report.tables import Cell
from shiftproof.types import Finding

__all__ = ["Report"]


@dataclass(frozen=True, eq=False)
class Report:
    """What a report says. Every number is a function of `evidence`, computed when it is first asked for.

    Args:
        models: What each model is, in a few words.
        sheets: Files with pictures of samples, by domain.
        galleries: Samples that are shown one by one, by domain.
        gradients: Files with pictures of loss gradients, by domain.
        changes: A file with a picture of what was done to samples.
        names: What samples are called, and whether the page may show them.
        facts: How the run was made.
        labels: How many samples of each class every domain has.
        notes: Findings on data and models, from before anything was measured.
        seed: Seed of bootstraps.
        outcomes: What was required, and whether it is met.
        trained_here: Whether the run trained all its models.
        radii: The radii that tables show; none: round ones are chosen.
        distances: How far targets are from domains at least, where somebody has asked.
        domain_distances: How far apart domains are by several measures, where somebody has asked.
        other_gaps: What models of other runs lose between these domains, where they were asked together.
        claims: What the study claims, and what evidence says of it.
        published: Published figures, with ours beside them.
        sweeps: Models that differ in one option.
        steps: What to do next; called when the page is made, because it depends on what the report says.
    """

    title: str
    about: str
    models: Mapping[str, str]
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    classes: tuple[str, ...]
    evidence: Evidence
    sheets: Mapping[str, Path]
    facts: Mapping[str, str]
    labels: Mapping[str, Mapping[str, int]]
    notes: Sequence[Finding]
    seed: int
    outcomes: Sequence[Outcome | ComparedOutcome | RequiredClaims] = ()
    trained_here: bool = True
    radii: tuple[float, ...] = ()
    galleries: Mapping[str, GalleryFile] = field(default_factory=dict)
    gradients: Mapping[str, Path] = field(default_factory=dict)
    changes: Path | None = None
    names: SampleNames = field(default_factory=SampleNames)
    distances: Sequence[KnownDistance] = ()
    domain_distances: Sequence[KnownPair] = ()
    other_gaps: Sequence[Gap] = ()
    claims: Sequence[ClaimOutcome] = ()
    published: Sequence[PublishedRow] = ()
    sweeps: Sequence[Sweep] = ()
    steps: Callable[[], Sequence[Step]] = tuple

    @cached_property
    def sections(self) -> dict[str, Section]:
        """The sections that apply by name, in the order of the page."""
        entries = sorted(SECTIONS, key=lambda entry: (entry.cls.order, entry.name))
        made = {entry.name: entry.cls(self) for entry in entries}
        return {name: section for name, section in made.items() if section.applies()}

    def to_json(self) -> dict[str, Any]:
        """Title, and the numbers of every section by its name."""
        sections = {name: section.to_json() for name, section in self.sections.items()}
        return {"title": self.title, "about": self.about, "sections": sections}

    @cached_property
    def accuracy(self) -> AccuracyTable:
        """Clean accuracy per model and domain."""
        return accuracy_table(self.evidence, self.sources, self.targets, self.seed)

    @cached_property
    def class_counts(self) -> Mapping[str, Mapping[str, int]]:
        """How many samples of each class accuracy is about."""
        return class_counts(self.labels, self.classes, self.evidence)

    @cached_property
    def scores(self) -> ScoreTable:
        """Correlations per model and domain, where labels are numbers."""
        return score_table(self.evidence, self.sources, self.targets, self.seed)

    @cached_property
    def gallery_maker(self) -> GalleryMaker:
        """What puts the samples that are shown and evidence together."""
        return GalleryMaker(self.galleries, self.evidence, self.classes, self.targets, self.names)

    @cached_property
    def edited_texts(self) -> list[EditedText]:
        """Texts of the gallery that an attack has overturned."""
        return list(edited_texts(self.gallery_maker))

    @cached_property
    def probe_tables(self) -> list[ProbeTable]:
        """Accuracy by probes that have no section of their own."""
        return probe_tables(self.evidence, self.sources, self.targets, self.seed)

    @cached_property
    def shared(self) -> Evidence:
        """Samples that all probes measured: figures that are compared are of these."""
        return shared_rows(self.evidence)

    @cached_property
    def measures(self) -> SideBySide:
        """Clean, attacked, corrupted and certified side by side."""
        return side_by_side(self.evidence, self.sources, self.targets, self.seed)

    @cached_property
    def overview(self) -> Overview:
        """Every model in one line."""
        return overview_of(self)

    @cached_property
    def story(self) -> Story:
        """What a reader in a hurry should know."""
        return story_of(self)

    @cached_property
    def corrupted(self) -> list[Corrupted]:
        """Accuracy on corrupted samples, if it was measured."""
        return corrupted_of(self.shared)

    @cached_property
    def matrices(self) -> list[Matrix]:
        """Models by the size of attacks, where there are several sizes."""
        return matrices_of(self.shared, self.sources, self.targets)

    @cached_property
    def attacked(self) -> list[list[Attacked]]:
        """Accuracy by the size of each attack, of runs with one model; of several, matrices show it."""
        if len(self.evidence.distinct("model")) != 1:
            return []
        answers = attacked_of(self.evidence)
        names = dict.fromkeys(one.fact("attack") for one in answers)
        return [[one for one in answers if one.fact("attack") == name] for name in names]

    @cached_property
    def series(self) -> list[Series]:
        """Certificates per model and domain, if there are any."""
        return series_of_evidence(self.evidence)

    @cached_property
    def around(self) -> list[ShiftSeries]:
        """Shift certificates per model and domain, if there are certificates."""
        return shift_series(self.evidence)

    def radii_of(self, series: Sequence[Series]) -> tuple[float, ...]:
        """The radii that tables show: those that were asked for, or round ones."""
        return self.radii or nice_radii(series)

    @cached_property
    def verdict(self) -> list[str]:
        """What was measured and guaranteed, in plain words; first of all whether it can be trusted."""
        of_classes = verdict_of(self.shared, self.sources, self.targets, self.seed)
        sentences = [*of_classes, *score_verdict(self.scores), *self.around_verdict]
        return [*self.doubts, *sentences] if sentences else []

    @property
    def doubts(self) -> list[str]:
        """Why figures can't be trusted or checked, are not the domain's, or say little; nothing without a reason."""
        failed = [*self.notes, *self._order]
        codes = list(dict.fromkeys(one.code for one in failed if one.level == "fail"))
        doubts = (
            [f"What follows can't be trusted as it stands, because checks failed: {', '.join(codes)}."] if codes else []
        )
        if self.imported:
            doubts.append("What follows was imported: others have measured it, and it can't be checked here.")
        if note := balanced_note(self.evidence):
            doubts.append(note)
        # a robust guess is a guess
        learned = [*shift_findings(self.accuracy, self.class_counts), *score_findings(self.scores)]
        return doubts + [f"What follows says little ({one.message})." for one in learned if one.code == "not-learned"]

    @property
    def around_verdict(self) -> Iterator[str]:
        """One sentence for each model and classifier on what is guaranteed around a domain, if anything is."""
        models = self.evidence.distinct("model")
        for model in models if len(models) <= 2 else ():
            of_model = [one for one in self.around if one.model == model]
            there = [one for one in of_model if one.domain in self.targets] or of_model
            if sentence := headline(there):
                yield f"{f'{model}: ' if len(models) > 1 else ''}Of the {there[0].classifier} classifier, {sentence}."

    @cached_property
    def findings(self) -> list[Finding]:
        """What a reader should take away, failures first."""
        findings = [
            *shift_findings(self.accuracy, self.class_counts),
            *score_findings(self.scores),
            *certificate_findings(self.series, self.sources, self.targets, self.seed),
            *unsound_findings(self.evidence),
            *refuted_findings(self.evidence),
            *counterfactual_findings(self.evidence),
            *constant_findings(self.evidence),
            *self._order,
            *shift_order(self.around),
            *self.notes,
        ]
        # what two checks say in the same words is said once
        named = {(one.level, one.code, one.message): one for one in map(self.names.finding, findings)}
        return sorted(named.values(), key=lambda one: ("fail", "warn", "pass").index(one.level))

    @cached_property
    def imported(self) -> bool:
        """Whether others have measured any of it."""
        return any(one.fact("imported") for one in self.evidence)

    @cached_property
    def _order(self) -> list[Finding]:
        return order_summary(self.evidence)

    @property
    def seed_words(self) -> list[str]:
        """What figures and intervals are where models were trained with several seeds; else nothing."""
        seeds = [seed for seed in self.evidence.distinct("train_seed") if seed is not None]
        if len(seeds) < 2:
            return []
        return [
            f"Every model was trained with {len(seeds)} seeds ({', '.join(map(str, seeds))}), and figures are means "
            "over them. Intervals count samples, or groups of them, by a bootstrap, and seeds by their t interval, "
            f"which is wide for few seeds{': of two it says next to nothing' if len(seeds) == 2 else ''}."
        ]

    @property
    def measured_on(self) -> str:
        """Whether figures rest on samples that a model was trained on."""
        if self.trained_here:
            return (
                "Sources are measured on held-out samples, which were never trained on; where a data set has no test "
                "rows, they also chose which step's weights were kept."
            )
        if any(seen != "no" for seen in self._seen.values()):
            return (
                '"Seen in training" says whether the model was trained on the very samples that a figure rests on: '
                "unknown, where no record of its training says so. A gap to such figures can be too large."
            )
        by = "as was told on import" if self.imported else "by its record"
        return f"No figure rests on a sample that the model was trained on, {by}."

    def role_of(self, domain: str) -> str:
        """unseen for a target, source for the others."""
        return "unseen" if domain in self.targets else "source"

    def row_name(self, model: str, domain: str, *more: str) -> Cell:
        """The first cell of a row for a model and a domain; says whether the model may have been trained on it."""
        note = seen_note(self._seen.get((model, domain), "no"), ", ")
        below = ", ".join([f"{domain}, {self.role_of(domain)}{note}", *more])
        return Cell(model, (below,), strong=True)

    @cached_property
    def _seen(self) -> dict[tuple[str, str], str]:
        return {(part[0].model, part[0].domain): part.seen_in_training for part in self.evidence.by("model", "domain")}
