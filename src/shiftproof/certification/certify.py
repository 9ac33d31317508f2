"""`sp.certify`: certificates for a classifier on a domain."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

import torch
from torch import Tensor, nn

from shiftproof.certification.certificates import Certificates
from shiftproof.certification.certifier import Certifier, Job, Memory
from shiftproof.certification.checks import check_classifier, examples
from shiftproof.domains import Domain, Domains, as_domains
from shiftproof.errors import UsageError
from shiftproof.execution import Journal, Mode
from shiftproof.models.files import behaviour, fingerprint
from shiftproof.models.prepare import Backend, Precision, check_compute
from shiftproof.rng import checked_seed

__all__ = ["certify", "identity"]

Data = Domain | Domains | tuple[Tensor, Tensor]


class _Options(TypedDict, total=False):
    seed: int
    workers: int
    precision: Precision
    backend: Backend
    journal: Path | str | None
    progress: Mode
    label: str
    calibration: Domains | None


@overload
def certify(model: nn.Module, data: Data, certifier: Certifier, **options: Unpack[_Options]) -> Certificates: ...
@overload
def certify(
    model: nn.Module, data: Data, certifier: Sequence[Certifier], **options: Unpack[_Options]
) -> list[Certificates]: ...
def certify(
    model: nn.Module,
    data: Data,
    certifier: Certifier | Sequence[Certifier],
    *,
    seed: int = 0,
    workers: int = 1,
    precision: Precision = "f32",
    backend: Backend = "torch",
    journal: Path | str | None = None,
    progress: Mode = "auto",
    label: str = "certifying",
    calibration: Domains | None = None,
) -> Certificates | list[Certificates]:
    """Certify every sample of `data`, a domain or a pair (inputs, labels), in its order.

    Several certifiers of one kind make one job, which shares what it can, and give a list. The result does not depend
    on `workers`. With `journal` (a file), a run that was killed at any moment continues where it was. The classifier
    that is certified is the one that is evaluated: `precision` and `backend` are part of it. `calibration` are samples
    that a certifier may shape the classifier with; none of them may be certified.

    >>> import shiftproof as sp, torch
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)).eval()
    >>> inputs, labels = torch.rand(3, 1, 2, 2), torch.tensor([0, 1, 0])
    >>> smoothing = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=200)
    >>> len(sp.certify(model, (inputs, labels), smoothing))
    3
    """
    several = isinstance(certifier, Sequence) and not isinstance(certifier, str)
    certifiers: list[Certifier] = list(certifier) if several else [certifier]  # type: ignore[list-item,arg-type]
    for one in certifiers:
        if isinstance(one, type | str) or not hasattr(one, "certify"):
            raise UsageError(f"the certifier is {one!r}; it should be an object such as RandomizedSmoothing(noise)")
    if not certifiers:
        raise UsageError("there is no certifier in the list")
    check_compute(precision, backend)
    if workers < 1:
        raise UsageError(f"workers is {workers}; it should be at least 1")
    seed, domain = checked_seed(seed), _one_domain(data)
    domain.inputs.prepare()
    classes = check_classifier(model, domain)
    with ExitStack() as stack:
        record: Journal | Memory = Memory()
        if journal is not None:
            what = identity(model, domain, certifiers, seed, precision, backend, calibration)
            record = stack.enter_context(Journal(Path(journal), what))
        job = Job(model, domain, classes, seed, record, workers, precision, backend, progress, label, calibration)
        together = getattr(certifiers[0], "together", None)
        if together is not None and all(type(one) is type(certifiers[0]) for one in certifiers):
            results: list[Certificates] = together(job, certifiers)
        elif len(certifiers) == 1:
            results = [certifiers[0].certify(job)]
        else:
            raise UsageError("certifiers of one job should be of one kind; certify with each in turn")
    return results if several else results[0]


def identity(
    model: nn.Module,
    domain: Domain,
    certifiers: Sequence[Certifier],
    seed: int,
    precision: str,
    backend: str,
    calibration: Domains | None = None,
) -> dict[str, Any]:
    """What makes two certifications the same one; votes of another are not taken over."""
    return {
        "calibration": None if calibration is None else [one.fingerprint for one in calibration],
        "certifiers": [repr(one) for one in certifiers],
        "weights": fingerprint(model),
        "behaviour": behaviour(model, examples(domain)),
        "data": domain.fingerprint,
        "seed": seed,
        "precision": precision,
        "backend": backend,
        "torch": torch.__version__,
        "format": 1,
    }


def _one_domain(data: Any) -> Domain:
    if isinstance(data, Domain):
        return data
    if isinstance(data, Domains) and len(data) > 1:
        raise UsageError(f"certify one domain at a time: {', '.join(data.names)}")
    if not isinstance(data, Domains) and isinstance(data, tuple | list) and len(data) == 2 and len(data[0]) == 0:
        raise UsageError("there are no samples to certify")
    return next(iter(as_domains(data)))
