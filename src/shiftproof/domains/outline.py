"""What a data set looks like without its files, and blank samples of that look to try costs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from shiftproof.domains.domain import Domain, Domains
from shiftproof.rng import numpy_generator

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Outline", "blank_domains"]


@dataclass(frozen=True)
class Outline:
    """Shape of one image, class names, and how many samples each domain has: enough to build models and scale costs.

    `counterfactuals` are those of the domains that have one, by the domain's name.
    """

    shape: tuple[int, ...]
    classes: tuple[str, ...]
    counts: Mapping[str, int]
    counterfactuals: Mapping[str, Callable[[Tensor], Tensor]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, domains: Domains) -> Outline:
        """That of data which is here."""
        return cls(
            domains.shape,
            domains.classes,
            {domain.name: len(domain) for domain in domains},
            {domain.name: domain.counterfactual for domain in domains if domain.counterfactual is not None},
        )


def blank_domains(outline: Outline, name: str, each: int = 64) -> Domains:
    """Random images and labels in the shape of a data set that is not here, at most `each` of a domain.

    To build models, to check that probes apply and to time them. Whatever is measured on them means nothing: they are
    called '<name> (blank)', and ids start with 'blank/'.
    """
    domains = []
    for domain, count in outline.counts.items():
        generator = numpy_generator(0, "blank", name, domain)
        n = min(each, count)
        inputs = generator.random((n, *outline.shape), np.float32)
        # every class occurs, as far as there are samples enough
        labels = generator.permutation(np.arange(n) % len(outline.classes))
        ids = [f"blank/{domain}/{index}" for index in range(n)]
        blank = Domain.from_arrays(domain, inputs, labels, outline.classes, ids=ids)
        domains.append(replace(blank, counterfactual=outline.counterfactuals.get(domain)))
    return Domains(f"{name} (blank)", domains)
