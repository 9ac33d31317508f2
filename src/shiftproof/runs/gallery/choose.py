"""Which samples, corruptions and attacks a gallery shows: fixed rules that look at no outcome."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shiftproof.domains import Domain
from shiftproof.domains.splits import random_order
from shiftproof.probes import Probe
from shiftproof.probes.attack import Attack
from shiftproof.probes.certify import Certify
from shiftproof.probes.corrupt import Corrupt
from shiftproof.report.gallery.pictures import stored_numbers
from shiftproof.runs.data import StudyData

__all__ = ["CORRUPTED", "attacks_shown", "corruptions_shown", "count_shown", "samples_shown"]

EACH, IN_ALL = 12, 48
"""Samples of a domain and of a run, at most."""
FEWEST = 3
CORRUPTED = 3
"""Corruptions of a sample that are shown."""
_BYTES = 1_200_000
"""What all pictures of a run may take, about."""


def count_shown(data: StudyData, probes: Sequence[Probe], models: int) -> int:
    """How many samples of each domain: a dozen, fewer of many domains and where pictures are large or many."""
    domains = len(data.measured)
    each = max(1, min(EACH, IN_ALL // domains))
    if data.sources.kind != "image" or len(data.sources.shape) != 3:
        return each
    certified, corrupted = (any(isinstance(one, kind) for one in probes) for kind in (Certify, Corrupt))
    own = certified + 2 * len(attacks_shown(probes))
    pictures = 1 + certified + CORRUPTED * corrupted + models * own
    fitting = _BYTES // (pictures * stored_numbers(data.sources.shape) * domains)
    return max(min(each, FEWEST), min(each, fitting))


def samples_shown(data: StudyData, probes: Sequence[Probe], domain: Domain, count: int) -> Domain:
    """The first samples of a domain in the run's random order, of those that all probes measure; in that order."""
    parts = [one for probe in probes for one in data.measured_by(probe) if one.name == domain.name]
    fewest = min(parts, key=len, default=domain)
    return fewest.subset(random_order(fewest, data.sample_seed)[:count])


def corruptions_shown(probe: Corrupt, place: int) -> list[tuple[str, int]]:
    """Corruptions and severities of the sample at a place of the gallery: three, spread over all that were measured,
    each a step farther than at the place before, so that a gallery shows many.
    """
    settings = probe.settings
    few = min(CORRUPTED, len(settings))
    steps = np.unique((place + np.arange(few) * len(settings) // few) % len(settings))
    return [settings[one] for one in steps.tolist()]


def attacks_shown(probes: Sequence[Probe]) -> list[Attack]:
    """The first attack on the model itself, and the first on a vote under noise."""
    attacks = [one for one in probes if isinstance(one, Attack)]
    return [
        next(one for one in attacks if one.classifier == kind)
        for kind in dict.fromkeys(one.classifier for one in attacks)
    ]
