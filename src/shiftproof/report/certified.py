"""What is guaranteed: certificates of a model on a domain as curves of certified accuracy and mean radii."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from shiftproof.certification import CERTIFIERS
from shiftproof.certification.curves import round_radii
from shiftproof.certification.imported import IMPORTED, NOT_STATED, alpha_text
from shiftproof.certification.sampling.stopping import Stop
from shiftproof.evidence import Evidence, Measurement, seen_note
from shiftproof.evidence.certified import NOTHING, curve, mean_credit
from shiftproof.evidence.titles import certificate_titles
from shiftproof.perturbations.edits import readable_radii
from shiftproof.perturbations.noise import NOISES, Noise, as_noise
from shiftproof.perturbations.threat import size_text
from shiftproof.report.estimates import Repeats, Values, estimate, repeats_in
from shiftproof.types import Estimate, FloatArray

__all__ = ["Series", "by_chart", "by_setting", "figures", "nice_radii", "series_of_evidence"]


@dataclass(frozen=True, eq=False)
class Series:
    """The certificates of one model on one domain under one setting, for each training seed.

    `label` is the name of its line in a chart: the model, unless told. `name` is what tells the certificate from the
    others of a run: its title, with alpha where these differ in it.
    """

    repeats: Repeats
    name: str
    label: str = ""
    _known: dict[float, Estimate] = field(default_factory=dict, repr=False)

    @property
    def model(self) -> str:
        """Model name."""
        return self.repeats.model

    @property
    def domain(self) -> str:
        """Domain name."""
        return self.repeats.domain

    @property
    def setting(self) -> str:
        """The certifier with its options."""
        return self.repeats.first.setting

    @property
    def title(self) -> str:
        """The certificate in a few words: its noise, or its kind."""
        return self.repeats.first.title

    @property
    def classifier(self) -> str:
        """The classifier that is certified: base | smoothed | adapted | latent | median."""
        return self.repeats.first.classifier

    @property
    def noise(self) -> str:
        """The noise of the smoothed classifier; nothing where there is none."""
        return str(self.repeats.fact("noise") or "")

    @property
    def norm(self) -> str:
        """The norm of the radius."""
        return str(self.repeats.fact("norm"))

    @property
    def units(self) -> str:
        """The units of the radius."""
        return str(self.repeats.fact("units"))

    @property
    def alpha(self) -> float:
        """The chance that a certificate is wrong, at most."""
        return float(self.repeats.fact("alpha"))

    @property
    def stated_alpha(self) -> float | None:
        """The same; None of an imported log that comes without it."""
        return None if self.alpha >= NOT_STATED else self.alpha

    @cached_property
    def imported(self) -> bool:
        """Whether others have logged the certificates, so that there is nothing to check them by."""
        return bool((self.repeats.column("bound") == IMPORTED).all())

    @property
    def scale(self) -> float:
        """A radius of interest that was fixed before anything was measured."""
        return float(self.repeats.fact("scale"))

    @property
    def guarantee(self) -> str:
        """The guarantee as a sentence, with all that it rests on."""
        return str(self.repeats.fact("guarantee"))

    @property
    def promise(self) -> str:
        """The same for a reader in a hurry: what keeps its class under what, of which classifier, and how surely."""
        if self.counts_edits:
            kept = "A text certified for k edits keeps its class whichever k words are inserted, deleted or replaced"
        elif self._known_noise is not None:
            kept = f"A certified sample keeps its class under {self._known_noise.claim}"
        else:
            change = f"every change of the input whose {self.norm} norm ({self.units}) is below the radius"
            kept = f"A certified sample keeps its class under {change}"
        under = f" (the vote under {self.noise})" if self.classifier == "smoothed" and self.noise else ""
        who = "model itself" if self.classifier == "base" else f"{self.classifier} classifier{under}"
        chance = f"for each sample, a certificate is wrong with probability at most {self.alpha:g}"
        return f"{kept}. This holds for the {who}; {chance if self.alpha else 'nothing is random'}."

    @property
    def seen(self) -> str:
        """no | unknown | yes: whether the model was trained on the samples."""
        return self.repeats.seen_in_training

    @property
    def note(self) -> str:
        """A note beside its figures, if the model may have been trained on the samples."""
        return seen_note(self.seen)

    @property
    def grouped(self) -> bool:
        """Whether samples belong to groups."""
        return self.repeats.grouped

    @property
    def images(self) -> int:
        """How many samples were certified."""
        return len(self.repeats.first)

    @property
    def counts_edits(self) -> bool:
        """Whether radii are numbers of edits: whole ones, and a little more so that the number itself is below it."""
        return self.norm == "edits"

    @property
    def cap(self) -> float:
        """What no radius exceeds under its noise, however many votes there are; infinite where nothing is known."""
        return np.inf if self._known_noise is None else self._known_noise.cap

    @cached_property
    def _known_noise(self) -> Noise | None:
        noise = self.repeats.fact("noise_options")
        # a noise of a plug-in that is not installed has no name here
        return as_noise(noise) if noise is not None and noise["name"] in NOISES else None

    @property
    def heading(self) -> str:
        """The certificate, the norm of its radius and its cap if it has one, and alpha."""
        most = f", {size_text(self.cap, self.norm)} at most whatever the votes" if np.isfinite(self.cap) else ""
        note = ": can't be checked here" if self.imported else ""
        return f"{self.title}, radius in {self.norm} ({self.units}){most}, {alpha_text(self.alpha)}{note}"

    @property
    def earned(self) -> FloatArray:
        """The radius of every sample that is certified and right, `NOTHING` for the others; seed after seed."""
        return np.concatenate([_earned(one) for one in self.repeats.measurements])

    @cached_property
    def abstained(self) -> float | None:
        """The part of samples on which no class is certified; None if wrong ones were skipped."""
        if self.repeats.column("skipped").any():
            return None
        return float((self.repeats.column("prediction") < 0).mean())

    @cached_property
    def biased(self) -> bool:
        """Whether sampling stopped early somewhere, so that mean radii are biased low."""
        return bool((self.repeats.column("bound") == "sequence").any())

    def values(self, radius: float) -> Values:
        """Whether each sample is right and certified within a radius."""
        return self.repeats.values(lambda one: _earned(one) >= radius)

    @cached_property
    def radii(self) -> Values:
        """The radius of each sample that is certified and right, 0 for the others: their mean is the average radius."""
        return self.repeats.values(lambda one: np.maximum(readable_radii(_earned(one), self.norm), 0.0))

    @cached_property
    def reachable_radii(self) -> Values | None:
        """What all votes could have given, at most, where sampling stopped early; else the radii that were certified.

        None where the measurement does not say by which rule it stopped, as those of earlier versions.
        """
        config = self.repeats.fact("certifier")
        known = isinstance(config, Mapping) and str(config.get("name")) in CERTIFIERS
        certifier = CERTIFIERS.make(config) if known else None
        stop = getattr(certifier, "stop", None)
        if not self.biased:
            return self.radii
        if certifier is None or not isinstance(stop, Stop):
            return None
        # with more classes it would be smaller
        largest = certifier.largest_radius(2)

        def most(one: Measurement) -> FloatArray:
            radii = _earned(one)
            # what abstained might have been certified; what was wrong stays so
            open_to_more = (one["bound"] == "sequence") & (one["correct"] | (one["prediction"] < 0)) & ~one["skipped"]
            return np.where(open_to_more, stop.reach(radii, largest), np.maximum(radii, 0.0))

        return self.repeats.values(most)

    def at(self, radius: float) -> Estimate:
        """Certified accuracy at a radius, with its interval over images."""
        if radius not in self._known:
            self._known[radius] = estimate(self.values(radius), exact=not self.grouped)
        return self._known[radius]

    def curve(self, radii: FloatArray) -> FloatArray:
        """Certified accuracy at each of the radii."""
        return curve(self.earned, radii)

    def mean_radius(self, over: str = "all") -> float:
        """The average certified radius, over all samples or over those that are certified and right."""
        return mean_credit(readable_radii(self.earned, self.norm), over)

    def radius_words(self, radius: float) -> str:
        """A radius as the head of a column."""
        if radius == 0:
            return "certified at all"
        return size_text(radius, self.norm) if self.counts_edits else f"radius {radius:.4g}"


def _earned(one: Measurement) -> FloatArray:
    earned: FloatArray = np.where(one["correct"] & ~one["skipped"], one["radius"], NOTHING)
    return earned


def series_of_evidence(evidence: Evidence) -> list[Series]:
    """From the measurements of `certify` probes, by model and setting."""
    # rules that prove nothing are never shown as certified
    certified = Evidence([one for one in evidence.where(probe="certify") if not one.fact("unsound")])
    names = certificate_titles(certified)
    return [
        Series(one, names[one.first.setting]) for part in certified.by("model", "setting") for one in repeats_in(part)
    ]


def by_setting(series: Sequence[Series]) -> list[list[Series]]:
    """The series of each setting: radii of different norms do not belong in one table."""
    return [[one for one in series if one.setting == setting] for setting in dict.fromkeys(s.setting for s in series)]


def by_chart(series: Sequence[Series], targets: Sequence[str]) -> list[list[Series]]:
    """The series that share a chart: those of a setting; of one model without a target, all with the same units.

    Lines of one model are named after what they differ in: the domain, or the certificate.
    """
    if targets or len({one.model for one in series}) != 1:
        return by_setting(series)
    domains, levels = len({one.domain for one in series}), len({one.alpha for one in series})
    named = [
        replace(
            one,
            label=f"{one.domain if domains > 1 else one.title}{f', {alpha_text(one.alpha)}' if levels > 1 else ''}",
        )
        for one in series
    ]
    units = dict.fromkeys((one.norm, one.units) for one in named)
    return [[one for one in named if (one.norm, one.units) == pair] for pair in units]


def nice_radii(series: Sequence[Series]) -> tuple[float, ...]:
    """A handful of round radii from 0 to where hardly anything is certified any more; of edits up to their cap."""
    if series and all(one.counts_edits for one in series):
        return round_radii(max(one.cap for one in series), edits=True)
    farthest = max((float(np.quantile(one.earned, 0.98)) for one in series), default=0.0)
    radii = set(round_radii(farthest))
    # the radius that findings speak of is in the table too
    return tuple(sorted(radii | {one.scale for one in series if 0 < one.scale <= 2 * farthest}))


def figures(one: Series, radii: Sequence[float]) -> dict[str, Any]:
    """All figures of a series, for JSON."""
    at = {f"{radius:g}": one.at(radius) for radius in radii}
    return {
        "model": one.model,
        "domain": one.domain,
        "certificate": one.title,
        "accuracy": one.at(0.0).value,
        "average_certified_radius": one.mean_radius(),
        "average_certified_radius_correct": one.mean_radius("correct"),
        "biased_low": one.biased,
        "certified_accuracy": {radius: e.value for radius, e in at.items()},
        "interval": {radius: [e.low, e.high] for radius, e in at.items()},
        "abstained": one.abstained,
        "alpha": one.stated_alpha,
        "norm": one.norm,
        "units": one.units,
        "guarantee": one.guarantee,
        "seen_in_training": one.seen,
        "imported": one.imported,
    }
