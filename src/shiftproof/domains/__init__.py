"""Where data comes from: embedded digits, constructions on them, data sets on disk, folders; splits and checks."""

from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.handed_over import as_domains, one_domain
from shiftproof.domains.registry import DOMAINS, DataSet, load_domains
from shiftproof.domains.splits import held_out, train_part, validation_part
from shiftproof.domains.validate import Validation, validate

__all__ = [
    "DOMAINS",
    "DataSet",
    "Domain",
    "Domains",
    "Validation",
    "as_domains",
    "held_out",
    "load_domains",
    "one_domain",
    "train_part",
    "validate",
    "validation_part",
]
