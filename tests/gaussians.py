"""Normal samples whose distance is known: W1 of N(0, I) and N(m, I) is the length of m."""

import numpy as np

from shiftproof.theory import Points


def gaussians(generator: np.random.Generator, count: int, numbers: int, shift: float) -> tuple[Points, Points]:
    """A sample of N(0, I) and one whose first number is `shift` more on average."""
    inputs = generator.standard_normal((2, count, numbers)).astype(np.float32)
    inputs[1, :, 0] += shift
    return Points.of("p", inputs[0]), Points.of("q", inputs[1])
