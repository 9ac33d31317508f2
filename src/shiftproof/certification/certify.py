"""`sp.certify`: certificates for a classifier on a domain."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

from torch import Tensor, nn

from shiftproof.certification.certificates import Certificates
from shiftproof.certification.certifier import Certifier, Job, Memory
from shiftproof.certification.checks import check_classifier
from shiftproof.domains import Domain, Domains, one_domain
from shiftproof.errors import UsageError
from shiftproof.execution import Backend, Compute, Journal, Mode, Precision, as_path, check_progress, ready
from shiftproof.models.behaviour import behaviour_of, difference
from shiftproof.models.identity import identity_of
from shiftproof.models.placement import CPU, on_device
from shiftproof.rng import checked_seed, fresh_seed

__all__ = ["certify"]

Data = Domain | Domains | tuple[Tensor, Tensor]


class _Options(TypedDict, total=False):
    seed: int | None
    workers: int
    device: str
    precision: Precision
    backend: Backend
    cluster: str | None
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
    seed: int | None = None,
    workers: int = 1,
    device: str = "auto",
    precision: Precision = "f32",
    backend: Backend = "torch",
    cluster: str | None = None,
    journal: Path | str | None = None,
    progress: Mode = "auto",
    label: str = "certifying",
    calibration: Domains | None = None,
) -> Certificates | list[Certificates]:
    """Certify every sample of `data`, a domain or a pair (inputs, labels), in its order.

    Without a `seed` the noise is keyed by one from the operating system, which `certificates.seed` records: a model
    could have been made for the noise of a seed that was known before. Give that one to get the same votes again.

    Several certifiers of one kind make one job, which shares what it can, and give a list. The result does not depend
    on `workers` or `cluster` (see `Compute`). With `journal` (a file), a run that was killed at any moment continues
    where it was, with its seed. The classifier that is certified is the one that is evaluated: `precision`, `backend`
    and the kind of `device` are part of it. Noise is drawn by the CPU whatever the device.
    `calibration` are samples that a certifier may shape the classifier with; none of them may be certified.

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
        if not isinstance(one, Certifier):
            raise UsageError(f"the certifier is {one!r}; it should be an object such as RandomizedSmoothing(noise)")
    if not certifiers:
        raise UsageError("there is no certifier in the list")
    compute = ready(Compute(device, precision, backend, workers, cluster))
    check_progress(progress)
    path = None if journal is None else as_path("journal", journal)
    if not (calibration is None or isinstance(calibration, Domains | Domain)):
        raise UsageError(f"calibration is {calibration!r}; it should be domains whose samples may adapt the model")
    known, domain = None if seed is None else checked_seed(seed), one_domain(data, "certify")
    domain.inputs.prepare()
    for one in certifiers:
        one.check_kind(domain)
    classes = check_classifier(model, domain)
    for one in certifiers:
        one.check_model(model, domain)
    with ExitStack() as stack:
        record: Journal | Memory = Memory()
        if path is None:
            drawn = fresh_seed() if known is None else known
        else:
            what = _identity(path, model, domain, certifiers, known, precision, backend, calibration)
            drawn, record = what["seed"], stack.enter_context(Journal(path, what))
        own = on_device(model, CPU)
        job = Job(own, domain, classes, drawn, record, compute, progress, label, calibration)
        kind = type(certifiers[0])
        if any(type(one) is not kind for one in certifiers):
            raise UsageError("certifiers of one job should be of one kind; certify with each in turn")
        stack.enter_context(compute.exact_products())
        results = kind.certify_together(job, certifiers) if len(certifiers) > 1 else [certifiers[0].certify(job)]
    return results if several else results[0]


def _identity(
    journal: Path,
    model: nn.Module,
    domain: Domain,
    certifiers: Sequence[Certifier],
    seed: int | None,
    precision: str,
    backend: str,
    calibration: Domains | None,
) -> dict[str, Any]:
    """That of the journal if it is of this very job, whatever its seed where none is asked for; else a new one."""
    how: dict[str, Any] = {"precision": precision, "backend": backend, "calibration": calibration}
    asked = [repr(one) for one in certifiers]
    what = identity_of(asked, model, domain, seed=seed, **how) | {"behaviour": behaviour_of(model, domain)}
    before = Journal.identity_at(journal) or {}
    seeds = [] if seed is None else ["seed"]
    compared = [*seeds, *(key for key in what if key not in ("seed", "behaviour"))]
    same = before.keys() == what.keys() and all(before[key] == what[key] for key in compared)
    if same and not difference(before["behaviour"], what["behaviour"]):
        return before
    return what | {"seed": fresh_seed() if seed is None else seed}
