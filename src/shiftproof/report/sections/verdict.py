"""The verdict in plain words: what is right, what survives, what is guaranteed, here and where you ship to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from shiftproof.certification.imported import alpha_text
from shiftproof.evidence import Evidence, seen_note
from shiftproof.perturbations.threat import size_text
from shiftproof.report.estimates import ratio_difference, repeats_in
from shiftproof.report.measures import Measure, measures_of
from shiftproof.report.privacy import short_command
from shiftproof.report.scores import ScoreRow, ScoreTable
from shiftproof.report.section import SECTIONS, Badge, Badges, Card, Section
from shiftproof.report.sections.corrupted import corrupted_of
from shiftproof.report.story import NOTHING, Step
from shiftproof.types import Estimate

__all__ = ["Verdict", "score_verdict", "verdict_of"]

SURE = 0.99
"""The level of a comparison that a sentence states without its interval."""
FEW = 10
"""With fewer successes than this on either side, nothing is said of their ratio."""


@SECTIONS.register("verdict")
class Verdict(Section):
    """What is right, what survives and what is guaranteed, here and where you ship to, in plain words."""

    title = "In short"
    order = 60

    def applies(self) -> bool:
        """Whether anything was measured of which a sentence can be said."""
        return bool(self.report.verdict or self.report.overview.rows)

    def cards(self) -> list[Card]:
        """A paragraph for each of one or two models; of more the table says it better. Then the story in short."""
        report, story = self.report, self.report.story
        badges = [Badge("next", "tested", f"{story.tested}.")]
        told = {"holds": story.holds, "logged" if report.imported else "guaranteed": story.guaranteed}
        badges += [
            Badge("warn" if sentence.startswith(NOTHING) else "pass", name, f"{sentence.rstrip('.')}.")
            for name, some in told.items()
            for sentence in some
        ]
        badges += [Badge(one.level, one.level, f"{one.message}.") for one in story.suspicious]
        if story.untold:
            badges.append(Badge("warn", "more", f"{story.untold} more kinds of findings stand below."))
        if story.passed:
            checks = f"{story.passed} check{'s' if story.passed != 1 else ''} passed."
            badges.append(Badge("pass", "pass", checks))
        steps = [Badge("next", "next", _step(one)) for one in report.steps()]
        cards = [Card([Badges([*badges, *steps])], lead=report.doubts)]
        if len(report.models) <= 2 and report.verdict:
            cards.append(Card(lead=report.verdict, heading="The same in sentences", folded=True))
        return cards

    def to_json(self) -> list[str]:
        """The sentences."""
        return list(self.report.verdict)


def _step(one: Step) -> str:
    return f"{short_command(one.command)}: {one.text}." if one.command else f"{one.text[:1].upper()}{one.text[1:]}."


@dataclass(frozen=True, eq=False)
class _Shown:
    """A measure, its name, and what follows its figure in a sentence: in full, and where it is said again."""

    measure: Measure
    name: str
    words: str
    again: str

    def say(self, domains: Sequence[str], words: str) -> str:
        return f"{self.measure.mean(domains):.0%}{words}"


def verdict_of(evidence: Evidence, sources: Sequence[str], targets: Sequence[str], seed: int = 0) -> list[str]:
    """A few sentences for each model, of several targets about the worst; nothing where only accuracy was measured."""
    paragraphs = []
    for model in evidence.distinct("model"):
        places = {*sources, *targets}
        measures = [one for one in measures_of(evidence.where(model=model), model) if places <= set(one.samples)]
        if any(one.kind != "clean" for one in measures):
            prefix = f"{model}: " if len(evidence.distinct("model")) > 1 else ""
            paragraphs.append(
                prefix + " ".join(_sentences(evidence.where(model=model), measures, sources, targets, seed))
            )
    return paragraphs


def score_verdict(table: ScoreTable) -> list[str]:
    """A few sentences for each model that predicts numbers, of several targets about the worst."""
    rows = [row for row in table.rows if row.kind == "pearson"]
    return [
        (f"{row.model}: " if len(rows) > 1 else "") + " ".join(_score_sentences(row, table.sources, table.targets))
        for row in rows
    ]


def _score_sentences(row: ScoreRow, sources: Sequence[str], targets: Sequence[str]) -> Iterator[str]:
    target = min(targets, key=lambda name: row.scores[name].value, default=None)
    there = list(sources) if target is None else [target]
    sentence = (
        f"On {_score_count(row, there):,} samples of {_place(there, targets)} what the model predicts and the true "
        f"numbers have a correlation of {_mean_score(row, there):.2f} (Pearson: 1 is best, 0 is none)"
        f"{_seen(row.seen_in(there))}"
    )
    if target is not None:
        sentence += (
            f"; on {_score_count(row, sources):,} samples of the training domains one of "
            f"{_mean_score(row, sources):.2f}{_seen(row.seen_in(sources))}"
        )
    yield f"{sentence}."
    if target is not None:
        yield _score_gap(row.gaps[target])
    yield "Attacks and guarantees are about classes, and do not apply to numbers."


def _score_count(row: ScoreRow, domains: Sequence[str]) -> int:
    return sum(row.scores[domain].n for domain in domains)


def _mean_score(row: ScoreRow, domains: Sequence[str]) -> float:
    return float(np.mean([row.scores[domain].value for domain in domains]))


def _score_gap(lost: Estimate) -> str:
    """A sentence on whether correlation is lost, with the interval."""
    if lost.low <= 0 <= lost.high:
        interval = f"{lost.low:+.2f} to {lost.high:+.2f}"
        sentence = "These samples can't tell whether any of it is lost"
        return f"{sentence}: the gap is {lost.value:+.2f} (95 % interval {interval})."
    low, high = sorted((abs(lost.low), abs(lost.high)))
    return f"It {'loses' if lost.value > 0 else 'gains'} {abs(lost.value):.2f} (95 % interval {low:.2f} to {high:.2f})."


def _sentences(
    evidence: Evidence, measures: Sequence[Measure], sources: Sequence[str], targets: Sequence[str], seed: int
) -> Iterator[str]:
    of_votes = list(dict.fromkeys(one.noise for one in measures if one.classifier == "smoothed"))
    for classifier, noise in [("base", ""), *(("smoothed", noise) for noise in of_votes)]:
        shown = _of(classifier, noise, measures)
        if not shown:
            continue
        first = shown[0].measure
        # the one place where least is right, so that all figures of a sentence are of the same samples
        target = min(targets, key=lambda name: first.mean([name]), default=None)
        there = list(sources) if target is None else [target]
        figures = ", ".join(one.say(there, one.words) for one in shown)
        who = "the model" if classifier == "base" else "the smoothed model"
        who += f" ({noise})" if len(of_votes) > 1 and noise else ""
        sentence = f"On {first.count(there):,} samples of {_place(there, targets)} {who} is right on {figures}"
        sentence += _seen(first.seen_in(there))
        if target is not None:
            figures = ", ".join(one.say(sources, one.again) for one in shown)
            sentence += f"; on {first.count(sources):,} samples of the training domains it is right on {figures}"
            sentence += _seen(first.seen_in(sources))
        yield f"{sentence}."
        if target is not None:
            yield from _compared(shown, sources, target, seed)
            yield from _elsewhere(shown[1:], target, targets)
    yield from _constant(evidence.where(probe="clean"), targets or sources)
    yield from _corruption(evidence, sources, targets)


def _seen(seen: str) -> str:
    """Behind the figures of some samples: whether the model may have been trained on them."""
    return f" ({note})" if (note := seen_note(seen)) else ""


def _place(there: Sequence[str], targets: Sequence[str]) -> str:
    """The domains that a sentence is about; of several targets it is about the worst, between commas."""
    names = ", ".join(there)
    return f"{names}, the worst of {len(targets)} targets," if len(targets) > 1 else names


def _elsewhere(shown: Sequence[_Shown], target: str, targets: Sequence[str]) -> Iterator[str]:
    """A sentence for what is even less on another target than on the one that the others are about."""
    for one in shown:
        least = min(targets, key=lambda name: one.measure.mean([name]))
        if one.measure.mean([least]) < one.measure.mean([target]):
            yield f"On {least} {one.say([least], one.words)}, which is the least of all targets."


def _constant(clean: Evidence, there: Sequence[str]) -> Iterator[str]:
    """A sentence for each domain on which the model gives the same answer to all samples."""
    for one in repeats_in(clean):
        answers = [len(np.unique(seed["prediction"])) for seed in one.measurements if "prediction" in seed]
        if answers and one.domain in there and max(answers) == 1 and len(np.unique(one.first["label"])) > 1:
            yield f"On {one.domain} it gives one and the same answer to all {len(one.first)} samples."


def _of(classifier: str, noise: str, measures: Sequence[Measure]) -> list[_Shown]:
    """What was measured of one classifier, from the weakest statement to the strongest; nothing without the first."""
    own = [one for one in measures if (one.classifier, one.noise) == (classifier, noise)]
    clean = [one for one in own if one.kind == "clean"]
    # without a vote on samples as they are, what is certified at all is known to be right
    right = clean or [one for one in own if one.kind == "certified" and not one.size]
    attacked = _middle([one for one in own if one.kind == "attacked"]) if clean else []
    certified = _middle(_surest([one for one in own if one.kind == "certified" and one.size]))
    if not right:
        return []
    several = len({one.alpha for one in measures if one.alpha}) > 1
    return [
        _Shown(right[0], "the accuracy", "", ""),
        *(
            _Shown(
                one,
                "what survives",
                f" survive an attack of {_size(one)}{f' ({one.relative})' if one.relative else ''}",
                f" survive{_which(' ', one, attacked)}",
            )
            for one in attacked
        ),
        *(
            _Shown(
                one,
                "the guarantee",
                f" {_held(one)} within {_size(one)}{_chance(one) if several else ''}",
                f" {_held(one)}{_which(' within ', one, certified)}",
            )
            for one in certified
        ),
    ]


def _held(one: Measure) -> str:
    """What is said of certificates; those that others have logged are not ours to give."""
    return "are certified by an imported log" if one.imported else "are guaranteed"


def _which(before: str, one: Measure, others: Sequence[Measure]) -> str:
    """The size, if there are several that it could be."""
    return f"{before}{_size(one)}" if len(others) > 1 else ""


def _surest(certified: Sequence[Measure]) -> list[Measure]:
    """Of several alphas the smallest: a sentence states the guarantee that is the least likely to be wrong."""
    least = min((one.alpha for one in certified), default=0.0)
    return [one for one in certified if one.alpha == least]


def _chance(one: Measure) -> str:
    return f" ({alpha_text(one.alpha)})" if one.alpha else ""


def _middle(measures: Sequence[Measure]) -> list[Measure]:
    """Of several sizes in one norm the middle one: a sentence is no table."""
    by_norm: dict[tuple[str, str], list[Measure]] = {}
    for one in measures:
        by_norm.setdefault((one.norm, one.units), []).append(one)
    return [sorted(some, key=lambda one: one.size)[len(some) // 2] for some in by_norm.values()]


def _size(one: Measure) -> str:
    if one.norm == "angle":
        return f"a rotation of {one.size:.3g} radians ({math.degrees(one.size):.0f} degrees)"
    return size_text(one.size, one.norm)


def _compared(shown: Sequence[_Shown], sources: Sequence[str], target: str, seed: int) -> Iterator[str]:
    """Whether what is left of the strongest statement is less than what is left of the accuracy."""
    first, last = shown[0], shown[-1]
    if first is last or not last.measure.mean(sources):
        return
    strong, weak = last.measure.samples, first.measure.samples
    kept = {name: float(strong[name].averaged.values.sum()) for name in (*sources, target)}
    few = min(sum(kept[name] for name in sources), kept[target])
    left = ratio_difference(
        ([strong[name] for name in sources], strong[target]),
        ([weak[name] for name in sources], weak[target]),
        seed,
        SURE,
    )
    name = f"{last.name[0].upper()}{last.name[1:]}"
    if left.high < 0 and few >= FEW:
        yield f"{name} shrinks more than {first.name}."
    elif left.low > 0 and few >= FEW:
        yield f"{name} shrinks less than {first.name}."
    else:
        yield f"These samples can't tell whether {last.name} shrinks more than {first.name}."


def _corruption(evidence: Evidence, sources: Sequence[str], targets: Sequence[str]) -> Iterator[str]:
    corrupted = [one for one in corrupted_of(evidence) if one.domain in (targets or sources)]
    corrupted = sorted(corrupted, key=lambda one: one.mean)[:1] if targets else corrupted
    if corrupted:
        where = _place([corrupted[0].domain] if targets else sources, targets).removesuffix(",")
        means = {name: float(np.mean([one.of(name) for one in corrupted])) for name in corrupted[0].names}
        worst = min(means, key=lambda name: means[name])
        mean = float(np.mean([one.mean for one in corrupted]))
        yield f"Corrupted, the model is right on {mean:.0%} of {where}, least by '{worst}' ({means[worst]:.0%})."
