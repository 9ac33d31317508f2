"""Fashion-MNIST with colour as a shortcut: the construction of coloured digits on other images."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from shiftproof.domains.colored import in_colour, other_colour
from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.npz import LAYOUT, read_images
from shiftproof.domains.outline import Outline
from shiftproof.domains.registry import DOMAINS, find_file
from shiftproof.domains.shortcuts import ShortcutSet, deal
from shiftproof.errors import DataError

__all__ = ["ColoredFashionMNIST"]

CLASSES = ("other", "upper body")
UPPER_BODY = (0, 2, 3, 4, 6)
"""t-shirt, pullover, dress, coat, shirt; the others are trouser, sandal, sneaker, bag, ankle boot."""
SIZES = (10_000, 10_000, 5_000)


@DOMAINS.register(
    "colored-fashion-mnist",
    content="agrees = 0.9, 0.8, 0.1: 10,000 + 10,000 + 5,000 images 2x14x14",
    paper="Arjovsky et al., Invariant Risk Minimization, 2019 (construction)",
)
@dataclass(frozen=True)
class ColoredFashionMNIST(ShortcutSet):
    """Clothes, coloured so that colour predicts the label in two domains and betrays it in the third.

    The label says whether a piece is worn on the upper body: five classes against five, so that a constant answer is
    right half of the time, and about as easy to see as whether a digit is below 5. The first 20,000 training images,
    shuffled, make the sources, the first 5,000 test images the target: files with a part of the data give the same
    domains as the whole. `size` is 14 (every second pixel, as for digits) or 28.
    """

    size: Literal[14, 28] = 14

    files = ("fashion_mnist.npz",)
    layout = LAYOUT

    def load(self) -> Domains:
        """Build the three domains; always the same."""
        path = find_file(self.name, self.files[0], self.layout)
        images, clothes, splits = read_images(path)
        trained, tested = splits.count("train"), splits.count("test")
        if trained < sum(SIZES[:2]) or tested < SIZES[2]:
            raise DataError(f"{path} has {trained:,} + {tested:,} images; {self.name!r} takes 20,000 + 5,000")
        step = 28 // self.size
        rows = np.concatenate([np.arange(sum(SIZES[:2])), trained + np.arange(SIZES[2])])
        ids = [f"fashion-mnist/{row}" for row in rows[: -SIZES[2]]]
        ids += [f"fashion-mnist/test/{row}" for row in range(SIZES[2])]
        labels = self.noisy(np.isin(clothes[rows], UPPER_BODY).astype(np.int64), ids)
        pixels = images[rows, 0, ::step, ::step]
        first, second = deal(self.name, ids[: -SIZES[2]], SIZES[:2])
        domains = []
        for number, chosen in enumerate((first, second, np.arange(len(rows) - SIZES[2], len(rows)))):
            names = [ids[i] for i in chosen]
            inputs = in_colour(pixels[chosen], self.painted(labels[chosen], names, number))
            domain = Domain.from_arrays(self.domain_names[number], inputs, labels[chosen], CLASSES, ids=names)
            domains.append(replace(domain, counterfactual=other_colour))
        return Domains(self.name, domains)

    def outline(self) -> Outline:
        """Two channels, two classes."""
        names = self.domain_names
        counts = dict(zip(names, SIZES, strict=True))
        return Outline((2, self.size, self.size), CLASSES, counts, dict.fromkeys(names, other_colour))
