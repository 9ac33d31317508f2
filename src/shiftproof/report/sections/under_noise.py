"""Accuracy under noise of models as they were trained, and with BatchNorm adapted to the noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from shiftproof.display.axes import numbers_axis, share_axis
from shiftproof.display.chart import SOURCE_DASH, WIDTH, Chart, Key, Panel, style_of
from shiftproof.display.marks import Dots, Line, Mark, Style, Whiskers
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table
from shiftproof.report.under_noise import CLEAN, Asked, NoiseAccuracy, noise_accuracies, split_sweeps

__all__ = ["UnderNoise"]

_COLUMNS = (
    *("model", "domain", "role", "noise", "sigma", "adapted", "momentum", "images", "draws"),
    *("value", "low", "high", "two_sd", "n", "method", "seen_in_training"),
)
_SIDE, _LOW = 410, 240


@SECTIONS.register("under-noise")
class UnderNoise(Section):
    """Accuracy under noise of models as they were trained, and with BatchNorm adapted to the noise."""

    title = "Under noise, with BatchNorm as trained and adapted"
    order = 1080

    def applies(self) -> bool:
        """Whether predictions under noise were measured, with a record of what was asked."""
        return bool(self._found)

    def tables(self) -> list[Table]:
        """By noise; where they were swept over, by momentum and by the number of calibration images."""
        main, by_momentum, by_images = self._settings
        tables = [self._table("under-noise", main, "Accuracy by noise")]
        for name, option, groups in (
            ("under-noise-by-momentum", "momentum", by_momentum),
            ("under-noise-by-images", "images", by_images),
        ):
            for group in groups:
                other = (
                    f"{group[0].images} calibration images" if option == "momentum" else f"momentum {group[0].momentum}"
                )
                what = "momentum" if option == "momentum" else "number of calibration images"
                trained = [one for one in main if not one.adapted and one.noise == group[0].noise]
                tables.append(self._table(name, [*trained, *group], f"By {what}: {group[0].noise}, {other}", option))
        return tables

    def charts(self) -> list[Chart]:
        """Accuracy by the size of the noise on targets, or without one on sources; where a family has two sizes or
        more.
        """
        main = self._settings[0]
        families = dict.fromkeys(one.family for one in main if one.family)
        several = [name for name in families if len({one.sigma for one in main if one.family in ("", name)}) > 1]
        return [
            self._chart("under-noise" if place == 0 else f"under-noise-{place + 1}", name)
            for place, name in enumerate(several)
        ]

    def cards(self) -> list[Card]:
        """The main table with its chart, then a card for each option that was swept over."""
        first, *others = self.tables()
        return [Card([first, *self.charts()], self.words()), *(Card([one], (), one.caption) for one in others)]

    def words(self) -> list[str]:
        """What was drawn, and what it says of which classifier."""
        counts = sorted({one.draws for one in self._found if one.draws})
        words = [
            "Measured, not guaranteed: plain answers to noisy samples, without a vote. Below each figure is its 95 % "
            "interval over samples."
        ]
        if self._adapted:
            words.append(
                "As trained is the model itself; adapted is a copy whose BatchNorm statistics were measured again on "
                "noisy calibration images, and what is said of one is not said of the other."
            )
        if counts != [1]:
            drawn = " or ".join(map(str, counts))
            seeds = " of one trained model, pooled over training seeds" if self.report.seed_words else ""
            words.append(
                f"Figures are means over {drawn} draws of noise of each sample; behind ± are 2 standard deviations "
                f"over draws{seeds}, which say how much another draw would change, and nothing of other samples."
            )
        return [*words, *self.report.seed_words]

    @cached_property
    def _found(self) -> list[NoiseAccuracy]:
        found = noise_accuracies(self.report.evidence)
        return found if any(one.draws for one in found) else []

    @property
    def _adapted(self) -> bool:
        return any(one.asked.adapted for one in self._found)

    @cached_property
    def _settings(self) -> tuple[list[Asked], list[list[Asked]], list[list[Asked]]]:
        return split_sweeps(one.asked for one in self._found)

    @property
    def _rows(self) -> list[tuple[str, str]]:
        """Models on targets, then on sources."""
        places = dict.fromkeys((one.repeats.model, one.repeats.domain) for one in self._found)
        return [one for domain in (*self.report.targets, *self.report.sources) for one in places if one[1] == domain]

    def _at(self, model: str, domain: str, asked: Asked) -> NoiseAccuracy | None:
        return next(
            (
                one
                for one in self._found
                if (one.repeats.model, one.repeats.domain, one.asked) == (model, domain, asked)
            ),
            None,
        )

    def _table(self, name: str, settings: Sequence[Asked], caption: str, option: str = "") -> Table:
        rows, records = [], []
        for model, domain in self._rows:
            figures = [self._at(model, domain, one) for one in settings]
            if not any(figures):
                continue
            cells = [_cell(one) for one in figures]
            rows.append(Row([self.report.row_name(model, domain), *cells], tint=domain in self.report.targets))
            records += [self._record(one) for one in figures if one is not None]
        heads = [_sweep_heading(one, option) if option else _heading(one, settings) for one in settings]
        return Table(name, [Heading("model, domain"), *heads], rows, Records(_COLUMNS, records), caption)

    def _record(self, one: NoiseAccuracy) -> list[Any]:
        asked, e, repeats = one.asked, one.estimate, one.repeats
        role = "target" if repeats.domain in self.report.targets else "source"
        how = [asked.noise, asked.sigma, asked.adapted, asked.momentum, asked.images, one.draws]
        figures = [e.value, e.low, e.high, None if one.spread is None else 2 * one.spread, e.n, e.method]
        return [repeats.model, repeats.domain, role, *how, *figures, repeats.seen_in_training]

    def _chart(self, name: str, family: str) -> Chart:
        settings = [one for one in self._settings[0] if one.family in ("", family)]
        shown = self.report.targets or self.report.sources
        models, domains = (dict.fromkeys(row[place] for row in self._rows if row[1] in shown) for place in (0, 1))
        styles = style_of(models)
        x = numbers_axis(f"size of {family} noise", {one.sigma for one in settings})
        panels = []
        for domain in domains:
            marks = [mark for model in models for mark in self._marks(model, domain, settings, styles[model])]
            title = f"{domain}, {self.report.role_of(domain)}" if self.report.targets else domain
            width = WIDTH if len(domains) == 1 else _SIDE
            panels.append(Panel(marks, x, share_axis("right, of all samples"), title, width, _LOW))
        keys = [Key(model, style, "both") for model, style in styles.items()]
        adapted = [Key("adapted", Style(None))] if self._adapted else []
        keys += [*adapted, Key("as trained", Style(None, SOURCE_DASH))]
        return Chart(name, panels, keys, f"accuracy under {family} noise", "Bars are 95 % intervals.", columns=2)

    def _marks(self, model: str, domain: str, settings: Sequence[Asked], style: Style) -> Iterator[Mark]:
        """A line of the model itself, and one for each way of adapting it."""
        found = [one for asked in settings if (one := self._at(model, domain, asked)) is not None]
        lines: dict[tuple[Any, ...], list[NoiseAccuracy]] = {}
        for one in found:
            lines.setdefault((one.asked.adapted, one.asked.momentum, one.asked.images), []).append(one)
        for some in lines.values():
            adapted = some[0].asked.adapted
            of = (model, "adapted" if adapted else "as trained")
            points = [(one.asked.sigma, one.estimate.value) for one in some]
            bars = [(one.asked.sigma, one.estimate.low, one.estimate.high) for one in some]
            hints = [f"{model} on {domain}, {_words(one.asked)}: {one.estimate.format()}" for one in some]
            yield Whiskers(bars, replace(style, opacity=0.5, width=1.5), of)
            yield Line(points, replace(style, dash=() if adapted else SOURCE_DASH), of)
            yield Dots(points, style, of, hints)


def _words(asked: Asked) -> str:
    return asked.noise if asked.noise == CLEAN else f"{asked.noise}, {', '.join(_how(asked, True, True))}"


def _how(asked: Asked, momentum: bool, images: bool) -> tuple[str, ...]:
    """As trained or adapted, with what is to be said of it."""
    if not asked.adapted:
        return ("as trained",)
    more = [
        *([f"momentum {asked.momentum:g}"] if momentum else []),
        *([f"{asked.images} images"] if images else []),
    ]
    return ("adapted", *more)


def _heading(asked: Asked, settings: Sequence[Asked]) -> Heading:
    """The noise and how BatchNorm was adapted to it, with those options in which settings differ."""
    adapted = [one for one in settings if one.adapted]
    momentum, images = (len({getattr(one, name) for one in adapted}) > 1 for name in ("momentum", "images"))
    below = _how(asked, momentum, images)
    return Heading(asked.noise, below, f"{asked.noise}, {', '.join(below)}")


def _sweep_heading(asked: Asked, option: str) -> Heading:
    if not asked.adapted:
        return Heading("as trained")
    return Heading(f"{asked.momentum:g}" if option == "momentum" else f"{asked.images}")


def _cell(one: NoiseAccuracy | None) -> Cell:
    if one is None:
        return Cell("-")
    e = one.estimate
    text = f"{e.value:.1%}" if one.spread is None else f"{e.value:.1%} ± {200 * one.spread:.1f}"
    interval = f"{100 * e.low:.1f} to {100 * e.high:.1f}"
    return Cell(text, (interval,), f"{text} ({interval})")
