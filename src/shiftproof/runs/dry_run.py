"""A study that is tried and not run: weights are not fetched for it, because random ones take as long, and blank images
stand in for data that is not on this machine. Models are built, probes checked and timed.

Nothing of what is computed so says anything about data or models but how long it takes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from shiftproof.domains.outline import Outline, blank_domains
from shiftproof.domains.splits import most_samples
from shiftproof.errors import DataNotFound
from shiftproof.models.timm import fetches
from shiftproof.probes import Probe
from shiftproof.runs.data import StudyData
from shiftproof.runs.prepare import Prepared, prepare_study
from shiftproof.runs.sources import HandedOver
from shiftproof.runs.spec import Study

__all__ = ["DryRun", "prepare_blank", "unfetched", "without_fetching"]

HELD_OUT = 0.2
"""The part of a domain that our split keeps from training."""


@dataclass(frozen=True, eq=False)
class DryRun:
    """A study that is ready to be tried on blank images, and the outline of its data."""

    prepared: Prepared
    outline: Outline
    missing: DataNotFound

    def trained(self, domain: str) -> int:
        """How many samples of a source are trained on."""
        return self.outline.counts[domain] - self.held_out(domain)

    def measured(self, data: StudyData, domain: str, probe: Probe) -> int:
        """How many samples of a domain a probe measures."""
        whole = self.held_out(domain) if data.part(domain) == "held-out" else self.outline.counts[domain]
        most = [most_samples(data.limit), None if probe.cheap else most_samples(data.first(domain))]
        return min([whole, *(one for one in most if one is not None)])

    def held_out(self, domain: str) -> int:
        """How many samples of a source are not."""
        return round(HELD_OUT * self.outline.counts[domain])


def prepare_blank(study: Study, missing: DataNotFound) -> DryRun:
    """Build every model and check every probe of a study without its data; raises `missing` where nobody knows its
    shape.
    """
    outline = study.data.outline()
    if outline is None:
        raise missing
    blank = HandedOver(blank_domains(outline, study.data.source))
    # blank images are marked as no part of published rows; what training leaves out stands for a test set
    part = {"split": "held-out"} if study.split in ("validation", "test") else {}
    return DryRun(prepare_study(without_fetching(study).changed(data=blank, **part)), outline, missing)


def without_fetching(study: Study) -> Study:
    """The study with random weights in place of those that its models would fetch from the hub."""
    models = {
        name: spec.model_copy(update={"model": replace(spec.model, fetch=False)}) for name, spec in study.models.items()
    }
    return study.changed(models=models)


def unfetched(study: Study) -> tuple[str, ...]:
    """Models of the hub that are tried with random weights."""
    sources = [spec.model for spec in study.models.values() if not spec.model.fetch]
    return tuple(sorted({one.name for one in sources if fetches(one.name, one.options)}))
