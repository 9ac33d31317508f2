"""The 1,797 real handwritten digits that scikit-learn carries: data without a download."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.registry import DOMAINS, DataSet
from shiftproof.types import IntArray

__all__ = ["Digits", "embedded_digits"]


def embedded_digits() -> tuple[NDArray[np.float32], IntArray]:
    """Images (1797 x 8 x 8 in [0, 1], steps of 1/16) and digits 0 to 9."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return (bunch.images / 16).astype(np.float32), bunch.target.astype(np.int64)


@DOMAINS.register("digits", content="1,797 real 8x8 gray digits, one domain", source="scikit-learn, embedded")
@dataclass(frozen=True)
class Digits(DataSet):
    """Handwritten digits, 8x8, one domain."""

    def load(self) -> Domains:
        """Read them from scikit-learn."""
        images, digits = embedded_digits()
        classes = [str(digit) for digit in range(10)]
        return Domains("digits", [Domain.from_arrays("digits", images[:, None], digits, classes)])
