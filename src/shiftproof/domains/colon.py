"""Colon histology patches, with patients gathered into five sites that stand in for hospitals."""

from dataclasses import dataclass

import numpy as np

from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.npz import read_npz
from shiftproof.domains.registry import DOMAINS, DataSet, find_file
from shiftproof.types import IntArray

__all__ = ["Colon"]

SITES = 5
LAYOUT = "arrays x (N x 27 x 27 x 3, uint8), is_cancerous, patient"


@DOMAINS.register("colon", content="20,280 RGB 27x27 patches of 98 patients in five sites")
@dataclass(frozen=True)
class Colon(DataSet):
    """Colon histology patches, cancerous or not; patients are groups, gathered into five sites of similar size.

    The sites are made, not real hospitals: the shift between them is that between patients.
    """

    files = ("colon.npz",)
    layout = LAYOUT

    def load(self) -> Domains:
        """Read the patches and deal the patients to sites, largest patient first to the smallest site."""
        arrays = read_npz(find_file("colon", self.files[0], self.layout), ("x", "is_cancerous", "patient"))
        patients = arrays["patient"].astype(np.int64)
        site_of = _deal(patients)
        sites = np.array([site_of[patient] for patient in patients.tolist()])
        domains = []
        for site in range(SITES):
            rows = np.flatnonzero(sites == site)
            domains.append(
                Domain.from_arrays(
                    f"site-{site + 1}",
                    arrays["x"].astype(np.uint8)[rows].transpose(0, 3, 1, 2),
                    arrays["is_cancerous"].astype(np.int64)[rows],
                    ("benign", "cancerous"),
                    ids=[f"colon/{row}" for row in rows],
                    groups=[f"patient-{patient}" for patient in patients[rows]],
                )
            )
        return Domains("colon", domains)


def _deal(patients: IntArray) -> dict[int, int]:
    names, sizes = np.unique(patients, return_counts=True)
    filled = np.zeros(SITES, np.int64)
    site_of = {}
    for index in np.lexsort((names, -sizes)):
        site = int(filled.argmin())
        site_of[int(names[index])] = site
        filled[site] += sizes[index]
    return site_of
