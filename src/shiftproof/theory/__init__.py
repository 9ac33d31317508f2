"""What may be promised about a shifted domain. `sp.theory`.

Which guarantee speaks of what::

    shift_certificate      the certified classifier, on every distribution within W1, W2 or W-infinity of a domain
    draw_certificate       one noisy draw of the model, on the same distributions
    screening_share        the same from one pass a sample, if every sample moves by at most a radius
    hellinger_share, ...   any share that was measured, on other mixes of the same samples
    radius_gap             why a mean radius is smaller on another domain
    lower_distance         how far a target without labels lies from a domain at least
    Alarm, Profile         the same over a stream, with an alarm, and in a file without images
"""

from shiftproof.theory.alarm import Alarm
from shiftproof.theory.distance import Distance, lower_distance
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
from shiftproof.theory.points import Points
from shiftproof.theory.profile import Profile, profile_of, read_profile, write_profile
from shiftproof.theory.shift_certificate import ShiftCertificate, shift_certificate
from shiftproof.theory.stream import Evidence, Limit, log_evidence
from shiftproof.theory.transport import worst_share

__all__ = [
    "DIVERGENCES",
    "Alarm",
    "Distance",
    "DrawCertificate",
    "Evidence",
    "Limit",
    "Points",
    "Profile",
    "RadiusGap",
    "ShiftCertificate",
    "chi_square_share",
    "draw_certificate",
    "draw_share",
    "hellinger_share",
    "kl_share",
    "kumar_share",
    "log_evidence",
    "lower_distance",
    "profile_of",
    "radius_gap",
    "read_profile",
    "screening_share",
    "shift_certificate",
    "total_variation_share",
    "worst_share",
    "write_profile",
]
