"""Which certificates apply to a classifier, and why others do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import nn

from shiftproof.certification.certifier import CERTIFIERS, Certifier, Job, Memory
from shiftproof.certification.checks import check_classifier
from shiftproof.certification.usual import applicable_noises
from shiftproof.domains import Domain, Domains
from shiftproof.errors import ShiftproofError
from shiftproof.models.records import record_of
from shiftproof.perturbations.noise import Noise

__all__ = ["Explanation", "explain"]

_USUAL = {"sigma": 0.25, "sigmas": (0.25, 0.5)}
"""For certifiers that can't be made without a scale."""


@dataclass(frozen=True)
class Explanation:
    """Whether a certifier can be used on a classifier, and why, in a sentence."""

    certifier: str
    title: str
    options: str
    applies: bool
    why: str


def explain(
    model: nn.Module,
    domain: Domain,
    certifiers: Sequence[Certifier] | None = None,
    *,
    calibration: Domains | None = None,
) -> list[Explanation]:
    """For each certifier of the catalogue, or those given, whether it applies to `model` on samples like `domain`'s.

    A vote is tried under the noise that the model was trained with, if it carries a record that says so.

    >>> import numpy as np
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).eval()
    >>> domain = Domain.from_arrays("d", np.zeros((2, 1, 2, 2), np.uint8), [0, 1], ["a", "b"])
    >>> [one.certifier for one in explain(model, domain) if one.applies]
    ['lipschitz-margin', 'median-smoothing', 'randomized-smoothing']
    """
    tried = list(_usual(applicable_noises(domain.kind, record_of(model)))) if certifiers is None else list(certifiers)
    return [_explain_one(one, model, domain, calibration) for one in tried]


def _explain_one(certifier: Certifier, model: nn.Module, domain: Domain, calibration: Domains | None) -> Explanation:
    name = CERTIFIERS.name_of(certifier)
    try:
        certifier.check_kind(domain)
        # a train mode is the classifier's fault, not the certifier's, and is said of each
        classes = check_classifier(model, domain)
        job = Job(model, domain, classes, 0, Memory(), progress="off")
        why, applies = certifier.applies(replace(job, calibration=calibration)), True
    except ShiftproofError as error:
        why, applies = str(error), False
    return Explanation(name, certifier.title, repr(certifier), applies, why)


def _usual(tried: Sequence[Noise]) -> Iterator[Certifier]:
    for entry in CERTIFIERS:
        options = {key: value for key, value in _USUAL.items() if entry.options.get(key) is ...}
        noises = [{"noise": one} for one in tried] if entry.options.get("noise") is ... else [{}]
        # representations need an encoder, logits do not
        levels = [{}, {"level": "logits"}] if "level" in entry.options else [{}]
        for changes in ({**noise, **level} for noise in noises for level in levels):
            yield CERTIFIERS.create(entry.name, {**options, **changes})
