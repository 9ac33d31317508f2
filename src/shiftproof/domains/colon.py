"""Colon histology patches, with patients gathered into five sites that stand in for hospitals."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Interval

from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.few_of_each import few_of_each
from shiftproof.domains.npz import read_npz
from shiftproof.domains.registry import DOMAINS, DataSet, find_file
from shiftproof.domains.stain import change_stain
from shiftproof.rng import numpy_generator
from shiftproof.types import IntArray, Positive

__all__ = ["Colon", "stain_of_site"]

SITES = 5
CONSTRUCTION_SEED = 0
LAYOUT = "arrays x (N x 27 x 27 x 3, uint8), is_cancerous, patient"


@DOMAINS.register("colon", content="20,280 RGB 27x27 patches of 98 patients in five sites")
@dataclass(frozen=True)
class Colon(DataSet):
    """Colon histology patches, cancerous or not; patients are groups, gathered into five sites of similar size.

    The sites are made, not real hospitals: the shift between them is that between patients.

    `stain` makes a shift between sites: every site has its own, always the same amounts of haematoxylin and eosin
    (`stain_of_site`), as laboratories differ. It is a number between 0, images as they are, and 2; at 1, a site has
    between a third and three times of each. Nothing else changes: labels, names, patients and sites are the same.

    `per_patient` takes at most so many patches of every patient, always the same, in place of all: intervals count
    patients, of whom a limit on samples, which takes whole groups, leaves few.
    """

    stain: Annotated[float, Interval(ge=0, le=2)] = 0.0
    per_patient: Positive | None = None

    files = ("colon.npz",)
    layout = LAYOUT

    def load(self) -> Domains:
        """Read the patches and deal the patients to sites, largest patient first to the smallest site."""
        arrays = read_npz(find_file("colon", self.files[0], self.layout), ("x", "is_cancerous", "patient"))
        patients = arrays["patient"].astype(np.int64)
        site_of = _deal(patients)
        sites = np.array([site_of[patient] for patient in patients.tolist()])
        kept = np.ones(len(patients), bool)
        if self.per_patient is not None:
            names = [f"patient-{patient}" for patient in patients.tolist()]
            kept[:] = False
            kept[few_of_each(self.name, names, [f"colon/{row}" for row in range(len(names))], self.per_patient)] = True
        domains = []
        for site in range(SITES):
            rows = np.flatnonzero((sites == site) & kept)
            images = arrays["x"].astype(np.uint8)[rows]
            if self.stain:
                images = change_stain(images, *stain_of_site(site + 1, self.stain))
            domains.append(
                Domain.from_arrays(
                    f"site-{site + 1}",
                    images.transpose(0, 3, 1, 2),
                    arrays["is_cancerous"].astype(np.int64)[rows],
                    ("benign", "cancerous"),
                    ids=[f"colon/{row}" for row in rows],
                    groups=[f"patient-{patient}" for patient in patients[rows]],
                )
            )
        return Domains("colon", domains)


def stain_of_site(number: int, stain: float) -> tuple[float, float]:
    """How many times as much haematoxylin and eosin a site has: exp(`stain` u), each u uniform in [-1, 1).

    >>> [round(factor, 2) for factor in stain_of_site(4, 1.0)]
    [1.71, 2.19]
    """
    drawn = numpy_generator(CONSTRUCTION_SEED, "colon-stain", f"site-{number}").uniform(-1, 1, 2)
    haematoxylin, eosin = np.exp(stain * drawn).tolist()
    return haematoxylin, eosin


def _deal(patients: IntArray) -> dict[int, int]:
    names, sizes = np.unique(patients, return_counts=True)
    filled = np.zeros(SITES, np.int64)
    site_of = {}
    for index in np.lexsort((names, -sizes)):
        site = int(filled.argmin())
        site_of[int(names[index])] = site
        filled[site] += sizes[index]
    return site_of
