"""What a requirement can be about: what the probes of a study will have measured."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.certification import Certifier
from shiftproof.domains import Domain
from shiftproof.perturbations.noise import label
from shiftproof.probes import Probe
from shiftproof.probes.attack import Attack
from shiftproof.probes.certify import Certify
from shiftproof.probes.clean import Clean
from shiftproof.probes.corrupt import Corrupt
from shiftproof.report.requirements import Certifiable, Measurable

__all__ = ["measurable"]


def measurable(probes: Sequence[Probe], domains: Sequence[Domain], classes: int) -> Measurable:
    """What there will be numbers of."""
    attacks = [one for one in probes if isinstance(one, Attack)]
    sizes = [(one.attack.threat.norm, eps) for one in attacks if one.smoothed is None for eps in one.budgets]
    return Measurable(
        domains=tuple(domain.name for domain in domains),
        attacks=tuple(dict.fromkeys(sizes)),
        votes=tuple(label(one.smoothed) for one in attacks if one.smoothed is not None),
        certificates=tuple(
            _certifiable(certifier, classes)
            for one in probes
            if isinstance(one, Certify)
            for certifier in one.settings.values()
            # what an unsound rule claims is never judged as certified
            if not certifier.unsound
        ),
        clean=any(isinstance(one, Clean) for one in probes),
        corrupted=any(isinstance(one, Corrupt) for one in probes),
        regression=any(domain.is_regression for domain in domains),
    )


def _certifiable(certifier: Certifier, classes: int) -> Certifiable:
    return Certifiable(certifier.norm, certifier.title, certifier.largest_radius(classes), certifier.asked_radii)
