"""What `shift --distances` compares: samples of domains, mixtures of sources, and gaps of runs' models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from shiftproof.domains import Domain, Domains
from shiftproof.domains.unlabelled import Unlabelled, unlabelled_folder
from shiftproof.errors import DataError, UnknownName, UsageError
from shiftproof.report.how_far import Gap, gaps_of
from shiftproof.runs.run import Run
from shiftproof.runs.shift_inputs import resizes, to_gray

__all__ = ["Mixture", "asked_mixtures", "collect_samples", "gaps_of_runs"]


@dataclass(frozen=True)
class Mixture:
    """Sources that are measured against a target as one; equal weights unless told."""

    sources: tuple[str, ...]
    target: str
    weights: tuple[float, ...] | None = None

    @property
    def shares(self) -> tuple[float, ...]:
        """Of the sources, of sum 1."""
        given = self.weights or (1.0,) * len(self.sources)
        return tuple(one / sum(given) for one in given)


def collect_samples(
    loaded: tuple[Domains, Run | None],
    names: Sequence[str] | None,
    source: Sequence[str] | None,
    target: str | Path | Domain | None,
    runs: Sequence[Run],
) -> dict[str, Unlabelled]:
    """What is compared, by name."""
    domains, first = loaded
    wanted = list(domains.names)
    if names is not None:
        wanted = [*names, *(source or ()), *([target] if isinstance(target, str) and target in domains.names else [])]
    elif runs:
        used = {name for run in runs for name in (*run.record["sources"], *run.study.targets)}
        wanted = [name for name in wanted if name in used]
    samples = {name: Unlabelled.of(domains[name]) for name in dict.fromkeys(wanted)}
    for name in source or ():
        if name not in samples:
            raise UnknownName(f"domain of {domains.name!r}:", name, domains.names)
    if target is not None and not (isinstance(target, str) and target in samples):
        other = _target(target, domains, first)
        if other.name in samples:
            other = replace(other, name=f"the target {other.name}")
        samples[other.name] = other
    if len(samples) < 2:
        raise UsageError(
            f"{domains.name!r} gives {', '.join(samples) or 'no domain'} to compare, and a distance is between two: "
            "give another domain, or --target folder:PATH"
        )
    return samples


def _target(target: str | Path | Domain, domains: Domains, run: Run | None) -> Unlabelled:
    if isinstance(target, Domain):
        if target.kind != domains.kind or target.shape != domains.shape:
            raise DataError(
                f"inputs of {target.name!r} are {target.shape}, and those of {domains.name!r} {domains.shape}"
            )
        found = Unlabelled.of(target)
    else:
        text = f"folder:{target}" if isinstance(target, Path) else target
        kind, colon, path = text.partition(":")
        if kind != "folder" or not colon:
            more = ["folder:PATH"] if domains.kind == "image" else []
            raise UnknownName(f"domain of {domains.name!r}:", text, [*domains.names, *more])
        if domains.kind != "image":
            raise UsageError(f"{domains.name!r} holds {domains.kind}s, and {text} is a folder of images")
        sizes = {"resize": run is None or resizes(run.study), "to_gray": run is None or to_gray(run.study)}
        found = unlabelled_folder(Path(path), domains.shape, **sizes)
    ids = np.empty(len(found), object)
    # a file of the same name elsewhere is another sample
    ids[:] = [f"{found.name}: {one}" for one in found.ids]
    return replace(found, ids=ids)


def asked_mixtures(
    samples: Mapping[str, Unlabelled],
    source: Sequence[str] | None,
    target: str | Path | Domain | None,
    weights: Sequence[float] | None,
    gaps: Sequence[Gap],
) -> list[Mixture]:
    """Sources that are measured together against a target: those of models, and those that were asked for."""
    asked = [Mixture(gap.sources, gap.target) for gap in gaps]
    if target is not None:
        last = list(samples)[-1] if not (isinstance(target, str) and target in samples) else target
        if source is not None and last in source:
            raise UsageError(f"{last!r} is both source and target")
        if source is not None:
            asked.append(Mixture(tuple(source), last, None if weights is None else tuple(weights)))
        elif gaps:
            asked += [Mixture(gap.sources, last) for gap in gaps if last not in gap.sources]
        else:
            asked.append(Mixture(tuple(name for name in samples if name != last), last))
    elif source is not None:
        raise UsageError("--source is measured against a target: give --target")
    known = [one for one in asked if one.target in samples and set(one.sources) <= set(samples)]
    # the last one has the weights that were asked for
    return list({(one.sources, one.target): one for one in known if len(one.sources) > 1}.values())


def gaps_of_runs(runs: Sequence[Run]) -> list[Gap]:
    """What models of all runs lose; models of one name that are not the same are told apart by their run."""
    specs: dict[str, list[Any]] = {}
    found = []
    for run in runs:
        for gap in gaps_of(run.evidence, tuple(run.record["sources"]), run.study.targets, run.study.seed):
            spec = run.study.models[gap.model].model_dump(mode="json", exclude={"seed", "about", "probes"})
            known = specs.setdefault(gap.model, [])
            if spec not in known:
                known.append(spec)
            name = gap.model if known.index(spec) == 0 else f"{gap.model} ({run.folder.name})"
            found.append(replace(gap, model=name, run=run.folder.name))
    return found
