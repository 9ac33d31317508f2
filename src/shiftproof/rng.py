"""Random generators derived from (seed, purpose, names or indices); nothing reads global random state.

Two draws with different purposes or keys are independent; a draw with the same ones is the same on every machine, in
any order, in any worker. Purposes keep apart what must not touch: noise that certifies never meets noise that trains.

>>> numpy_generator(0, "bootstrap", "e=0.9").integers(100, size=3)
array([69, 95, 62])
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from shiftproof.errors import UsageError

if TYPE_CHECKING:
    import torch

__all__ = ["checked_seed", "derive", "fresh_key", "fresh_seed", "numpy_generator", "seeded_globals", "torch_generator"]

# torch's CPU generator keeps its 624 words of Mersenne Twister state as 64-bit integers behind a header of 24 bytes.
_TORCH_HEADER_BYTES, _TWISTER_WORDS = 24, 624


def derive(seed: int, purpose: str, *keys: str | int) -> int:
    """A 128-bit integer that depends on every argument and on their types and order."""
    digest = hashlib.blake2b(digest_size=16, person=b"shiftproof-rng")
    for part in (int(seed), purpose, *keys):
        kind, text = ("s", part) if isinstance(part, str) else ("i", str(int(part)))
        encoded = text.encode()
        digest.update(f"{kind}{len(encoded)}:".encode() + encoded)
    return int.from_bytes(digest.digest(), "little")


def checked_seed(seed: object) -> int:
    """The seed as an int; UsageError unless it is a whole number of at least 0."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError(f"the seed is {seed!r}; it should be a whole number of at least 0")
    return int(seed)


def fresh_seed() -> int:
    """A seed from the operating system that nobody could know before: 52 bits, so that JSON keeps it exact everywhere.

    A guarantee over random noise is worth nothing to a model that was made for a known seed's noise.
    """
    return secrets.randbits(52)


def fresh_key() -> str:
    """A key of 128 bits from the operating system, as text, for hashes that nobody else can repeat."""
    return secrets.token_hex(16)


def numpy_generator(seed: int, purpose: str, *keys: str | int) -> np.random.Generator:
    """A numpy generator for one purpose."""
    return np.random.Generator(np.random.PCG64DXSM(derive(seed, purpose, *keys)))


def torch_generator(seed: int, purpose: str, *keys: str | int) -> torch.Generator:
    """A torch CPU generator for one purpose.

    `Generator.manual_seed` uses 32 bits of its seed, so ten thousand streams would collide once in a hundred runs;
    here the whole state is filled from the 128-bit key.
    """
    import torch

    generator = torch.Generator().manual_seed(0)
    words = np.random.SeedSequence(derive(seed, purpose, *keys)).generate_state(_TWISTER_WORDS, np.uint32)
    state = generator.get_state()
    end = _TORCH_HEADER_BYTES + 8 * _TWISTER_WORDS
    state[_TORCH_HEADER_BYTES:end] = torch.from_numpy(words.astype(np.uint64).view(np.uint8))
    generator.set_state(state)
    return generator


@contextmanager
def seeded_globals(seed: int, purpose: str, *keys: str | int) -> Iterator[None]:
    """Make torch's global state a derived one inside the block, and what it was before after it.

    For code that can't be handed a generator: the initialisation of torch's layers, dropout in a user's model.
    """
    import torch

    with torch.random.fork_rng():
        torch.default_generator.set_state(torch_generator(seed, purpose, *keys).get_state())
        yield
