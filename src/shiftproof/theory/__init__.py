"""What may be promised about a shifted domain. `sp.theory`.

Which guarantee speaks of what::

    shift_certificate      the certified classifier, on every distribution within W1, W2 or W-infinity of a domain
    draw_certificate       one noisy draw of the model, on the same distributions
    screening_share        the same from one pass a sample, if every sample moves by at most a radius
    hellinger_share, ...   any share that was measured, on other mixes of the same samples
    radius_gap             why a mean radius is smaller on another domain
    lower_distance         how far a target without labels lies from a domain at least
    Alarm, Profile         the same over a stream, with an alarm, and in a file without images

What is estimated of two samples of features, and no guarantee::

    frechet_distance, kernel_distance, sliced_wasserstein, exact_wasserstein, proxy_a_distance, same_law_test

`total_variation_bound` is one again: a lower bound with a probability. `mixture` makes one sample of several.

Bounds of document 002 in corrected form, vacuous for images (docs/ood-bounds.md)::

    ood_bound, adversarial_risk_bound, transfer_bound, training_rate, worst_mean, demonstrate_bound
"""

from shiftproof.theory.alarm import Alarm
from shiftproof.theory.distances.domain_classifier import proxy_a_distance, total_variation_bound
from shiftproof.theory.distances.frechet import extrapolated_frechet_distance, frechet_distance
from shiftproof.theory.distances.kernel import kernel_distance, same_law_test
from shiftproof.theory.distances.lower_bound import Distance, lower_distance
from shiftproof.theory.distances.pair import DomainDistance, mixture
from shiftproof.theory.distances.wasserstein import exact_wasserstein, sliced_wasserstein
from shiftproof.theory.divergence import (
    DIVERGENCES,
    chi_square_share,
    hellinger_share,
    kl_share,
    total_variation_share,
)
from shiftproof.theory.draw_certificate import DrawCertificate, draw_certificate
from shiftproof.theory.mean_radius import RadiusGap, radius_gap
from shiftproof.theory.one_draw import draw_share, kumar_share, screening_share
from shiftproof.theory.ood.bounds import OODBound, adversarial_risk_bound, ood_bound
from shiftproof.theory.ood.cells import log10_cells
from shiftproof.theory.ood.demonstration import demonstrate_bound
from shiftproof.theory.ood.rate import MinimaxConstants, TrainingRate, training_rate
from shiftproof.theory.ood.toy import ToyMinimax
from shiftproof.theory.ood.transfer import TransferBound, transfer_bound
from shiftproof.theory.ood.worst import worst_mean, worst_mean_linear
from shiftproof.theory.points import Points
from shiftproof.theory.profile import Profile, profile_of, read_profile, write_profile
from shiftproof.theory.shift_certificate import ShiftCertificate, shift_certificate
from shiftproof.theory.stream import Evidence, Limit, log_evidence
from shiftproof.theory.transport import worst_share

__all__ = [
    "DIVERGENCES",
    "Alarm",
    "Distance",
    "DomainDistance",
    "DrawCertificate",
    "Evidence",
    "Limit",
    "MinimaxConstants",
    "OODBound",
    "Points",
    "Profile",
    "RadiusGap",
    "ShiftCertificate",
    "ToyMinimax",
    "TrainingRate",
    "TransferBound",
    "adversarial_risk_bound",
    "chi_square_share",
    "demonstrate_bound",
    "draw_certificate",
    "draw_share",
    "exact_wasserstein",
    "extrapolated_frechet_distance",
    "frechet_distance",
    "hellinger_share",
    "kernel_distance",
    "kl_share",
    "kumar_share",
    "log10_cells",
    "log_evidence",
    "lower_distance",
    "mixture",
    "ood_bound",
    "profile_of",
    "proxy_a_distance",
    "radius_gap",
    "read_profile",
    "same_law_test",
    "screening_share",
    "shift_certificate",
    "sliced_wasserstein",
    "total_variation_bound",
    "total_variation_share",
    "training_rate",
    "transfer_bound",
    "worst_mean",
    "worst_mean_linear",
    "worst_share",
    "write_profile",
]
