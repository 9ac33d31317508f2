"""The gallery of a report, from the files of a run and its evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from shiftproof.evidence import Evidence
from shiftproof.report.gallery.block import ON_PAPER, Answer, DomainView, Figure, Filter, Gallery, ModelView, SampleView
from shiftproof.report.gallery.files import GalleryFile, GallerySample, Version
from shiftproof.report.gallery.outcomes import SampleOutcome, first_seed, outcomes_of
from shiftproof.report.gallery.words import answer_of, attack_words, bars_of, chips_of, scale_of, vote_words
from shiftproof.report.privacy import SampleNames
from shiftproof.report.word_diff import shortened, word_diff

__all__ = ["GalleryMaker"]

WRONG, CERTIFIED, ABSTAINED, BROKEN, CORRUPTED, LOST = "wrong", "certified", "abstained", "broken", "corrupted", "lost"
_FILTERS = (
    Filter(WRONG, "wrong", "The model is wrong on the sample as it is."),
    Filter(CERTIFIED, "certified", "The right answer is guaranteed within a radius, by the run's first certificate."),
    Filter(ABSTAINED, "abstained", "The run's first certificate guarantees no class."),
    Filter(BROKEN, "broken by an attack", "The answer was right, and an attack of the run made it wrong."),
    Filter(
        CORRUPTED,
        "wrong only when corrupted",
        "The model is right on the sample as it is, and wrong under at least one corruption that was measured.",
    ),
    Filter(
        LOST,
        "certified on sources, lost on the target",
        "Samples of sources whose right answer is certified, beside samples of the target that the model gets right "
        "but that an attack breaks or that are not certified: where the guarantee is left behind.",
    ),
)


@dataclass(frozen=True, eq=False)
class GalleryMaker:
    """Makes the gallery of a report. `names` says what samples are called, and whether their contents are shown."""

    files: Mapping[str, GalleryFile]
    evidence: Evidence
    classes: Sequence[str]
    targets: Sequence[str]
    names: SampleNames

    @cached_property
    def models(self) -> list[str]:
        """Names of the models, in order."""
        return [str(one) for one in self.evidence.distinct("model")]

    @cached_property
    def outcomes(self) -> dict[tuple[str, str], dict[str, SampleOutcome]]:
        """What was measured of the shown samples, by model and domain."""
        found = {}
        for part in self.evidence.by("model", "domain"):
            model, domain = part[0].model, part[0].domain
            if domain in self.files:
                ids = [sample.id for sample in self.files[domain].samples]
                found[model, domain] = outcomes_of(first_seed(part), ids)
        return found

    @cached_property
    def gallery(self) -> Gallery:
        """All samples, and the filters that leave at least one of them."""
        domains, printed = [], max(1, ON_PAPER // max(1, len(self.files)))
        for name, file in self.files.items():
            samples = [self._sample(name, one, i < printed) for i, one in enumerate(file.samples)]
            role = "unseen" if name in self.targets else "source"
            domains.append(DomainView(name, role, samples, self._notes(file)))
        whole = Gallery(self.models, domains, _FILTERS)
        used = [one for one in _FILTERS if any(whole.count(one.tag, model) for model in range(len(self.models)))]
        return Gallery(self.models, domains, used)

    @cached_property
    def _losing(self) -> set[str]:
        """Models that lose the guarantee on a target sample that is shown."""
        return {
            model
            for (model, domain), outcomes in self.outcomes.items()
            if domain in self.targets and any(map(_is_lost, outcomes.values()))
        }

    def tags(self, outcome: SampleOutcome, model: str, domain: str) -> list[str]:
        """The filters that leave a sample, by what a model made of it."""
        first = outcome.first
        certified, broken = first is not None and first.holds, bool(outcome.broken_by)
        # certified sources are there to be compared: with nothing beside them they would say nothing
        lost = _is_lost(outcome) if domain in self.targets else certified and model in self._losing
        told = {
            WRONG: outcome.wrong,
            CERTIFIED: certified,
            ABSTAINED: first is not None and first.abstained,
            BROKEN: broken,
            CORRUPTED: bool(outcome.lost_to),
            LOST: lost,
        }
        return [name for name, true in told.items() if true]

    def _notes(self, file: GalleryFile) -> list[str]:
        if self.names.private or not file.contents:
            return []
        return list(file.notes)

    def _sample(self, domain: str, sample: GallerySample, printed: bool) -> SampleView:
        outcomes = [self.outcomes.get((model, domain), {}).get(sample.id) for model in self.models]
        known = [one for one in outcomes if one is not None]
        label = next((one.label for one in known if one.label is not None), None)
        truth = next((one.truth for one in known if one.truth is not None), None)
        # a page without samples has neither pictures nor texts
        kept = GallerySample(sample.id, () if self.names.private else sample.versions)
        views = [
            None if one is None else self._model(model, domain, one, kept)
            for model, one in zip(self.models, outcomes, strict=True)
        ]
        named = (
            f"{truth:.3g}"
            if truth is not None
            else "unknown"
            if label is None
            else answer_of(label, None, self.classes).text
        )
        return SampleView(self.names.of(sample.id), named, list(self._shared(kept, outcomes)), views, printed)

    def _shared(self, sample: GallerySample, outcomes: Sequence[SampleOutcome | None]) -> Iterator[Figure]:
        """Pictures that are the same for all models, with what each of them answers."""
        text = _text_of(sample)
        for one in sample.of("original"):
            answers = [None if out is None else self._clean(out) for out in outcomes]
            yield _figure("as it is", one, text, answers)
        for note in dict.fromkeys(one.note for one in sample.versions if one.kind == "noisy"):
            own = {one.model: one for one in sample.versions if one.kind == "noisy" and one.note == note}
            shown = next((one for one in own.values() if one.picture or one.text is not None), None)
            answers = [
                answer_of(own[model].answer or 0, out.label, self.classes)
                if model in own and out is not None and own[model].answer is not None
                else None
                for model, out in zip(self.models, outcomes, strict=True)
            ]
            if shown is not None:
                yield _figure("one noisy copy", shown, text, answers)
        for one in sample.of("corrupted"):
            yield _figure("corrupted", one, text, [self._corrupted(out, one.setting) for out in outcomes])

    def _clean(self, outcome: SampleOutcome) -> Answer | None:
        if outcome.answer is not None:
            return answer_of(outcome.answer, outcome.label, self.classes)
        return None if outcome.predicted is None else Answer(f"{outcome.predicted:.3g}", None)

    def _corrupted(self, outcome: SampleOutcome | None, setting: str) -> Answer | None:
        found = [] if outcome is None else [one for one in outcome.corrupted if one.setting == setting]
        return answer_of(found[0].answer, outcome.label, self.classes) if found and outcome else None

    def _model(self, model: str, domain: str, outcome: SampleOutcome, sample: GallerySample) -> ModelView:
        first, classes = outcome.first, self.classes
        return ModelView(
            model,
            self.tags(outcome, model, domain),
            list(chips_of(outcome, classes)),
            list(self._own(model, outcome, sample)),
            list(self._answers(outcome)),
            [] if first is None else list(bars_of(first, outcome.label, classes)),
            "" if first is None else vote_words(first, classes),
            [] if first is None else [scale_of(first, one) for one in outcome.attacked if one.distance > 0],
            list(self._words(outcome)),
        )

    def _own(self, model: str, outcome: SampleOutcome, sample: GallerySample) -> Iterator[Figure]:
        """Pictures of one model: at the edge of its certificate, attacked, and what the attack changed."""
        text = _text_of(sample)
        for one in (version for version in sample.versions if version.model == model):
            attack = next((other for other in outcome.attacked if other.setting == one.setting), None)
            if one.kind == "moved" and outcome.first is not None:
                held = answer_of(outcome.first.prediction, outcome.label, self.classes)
                yield replace(_figure("at the edge of the certified ball", one, text, [held]), verb="guaranteed")
            elif one.kind == "attacked" and attack is not None:
                kind = "attacked" if attack.classifier == "base" else f"attacked, {attack.classifier} classifier"
                yield _figure(kind, one, text, [answer_of(attack.answer, outcome.label, self.classes)])
            elif one.kind == "difference":
                yield _figure("what the attack changed", one, text, [])

    def _answers(self, outcome: SampleOutcome) -> Iterator[tuple[str, Answer]]:
        """The answer in every case, except for corruptions that change nothing."""
        clean = self._clean(outcome)
        if clean is not None:
            yield "as it is", clean
        for attack in outcome.attacked:
            if attack.distance > 0:
                yield attack.title, answer_of(attack.answer, outcome.label, self.classes)
        if outcome.first is not None and not outcome.first.skipped:
            yield outcome.first.title, answer_of(outcome.first.prediction, outcome.label, self.classes)

    def _words(self, outcome: SampleOutcome) -> Iterator[str]:
        for attack in outcome.attacked:
            yield attack_words(attack, self.classes)
        if outcome.corrupted:
            lost, count = [one.title for one in outcome.lost_to], len(outcome.corrupted)
            some = f": {', '.join(lost[:8])}{f' and {len(lost) - 8} more' if len(lost) > 8 else ''}" if lost else ""
            right = f"right as it is, and wrong under {len(lost)} of {count} corruptions{some}."
            still = sum(one.right for one in outcome.corrupted)
            yield f"Corrupted: {right}" if outcome.right else f"Corrupted: right under {still} of {count} corruptions."
        for other in outcome.certified[1:]:
            yield vote_words(other, self.classes)


def _is_lost(outcome: SampleOutcome) -> bool:
    """Whether a sample of a target is right and yet broken or not certified."""
    first = outcome.first
    return first is not None and outcome.right and (bool(outcome.broken_by) or not first.holds)


def _text_of(sample: GallerySample) -> str | None:
    return next((one.text for one in sample.versions if one.kind == "original"), None)


def _figure(title: str, one: Version, text: str | None, answers: Sequence[Answer | None]) -> Figure:
    pieces = None if one.text is None else shortened(word_diff(one.text if text is None else text, one.text))
    return Figure(title, one.note, one.picture, pieces, answers)
