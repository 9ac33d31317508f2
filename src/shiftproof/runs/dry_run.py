"""A study whose data is not on this machine, on blank images of its shape: models are built, probes checked and timed.

Weights are not fetched for it: random ones take as long. Nothing of what is computed on blank images says anything
about the data but how long it takes.
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

__all__ = ["DryRun", "prepare_blank"]

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

    @property
    def unfetched(self) -> tuple[str, ...]:
        """Models of the hub that were tried with random weights."""
        specs = self.prepared.study.models.values()
        return tuple(sorted({one.model.name for one in specs if fetches(one.model.name, one.model.options)}))

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
    models = {
        name: spec.model_copy(update={"model": replace(spec.model, fetch=False)}) for name, spec in study.models.items()
    }
    return DryRun(prepare_study(study.changed(data=blank, models=models, **part)), outline, missing)
