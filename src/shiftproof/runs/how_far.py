"""How far apart domains are: `shiftproof shift --distances`, and the same from Python."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.domains import Domain, Domains
from shiftproof.domains.splits import part_of
from shiftproof.domains.unlabelled import Unlabelled, unlabelled_folder
from shiftproof.errors import DataError, UnknownName, UsageError
from shiftproof.execution import Mode, progress_bar
from shiftproof.models.features import Extractor, extract_features, extractor_of
from shiftproof.models.load import card_of, model_path
from shiftproof.report.how_far import Gap, KnownPair, RelatedGap, gaps_of, mixture_name, related_gaps
from shiftproof.rng import checked_seed
from shiftproof.runs.absent import AbsentData
from shiftproof.runs.run import Run, open_run
from shiftproof.runs.seen import was_trained_on
from shiftproof.runs.shift_inputs import resizes, to_gray
from shiftproof.runs.sources import as_data
from shiftproof.runs.trust import Trust
from shiftproof.theory.distances.measures import MEASURES, check_measures, measure_distance
from shiftproof.theory.distances.pair import DomainDistance, mixture
from shiftproof.theory.points import Points, deal

__all__ = ["Distances", "measure_distances"]

NOTHING = Trust()


@dataclass(frozen=True, eq=False)
class Distances:
    """How far apart domains are, by every measure; with runs, what their models lose on the way.

    `pairs` are all pairs of domains, the two halves of each, and mixtures of sources against targets. `skipped` says
    which measures could not be computed, and why.
    """

    domains: tuple[str, ...]
    features: str
    pairs: tuple[KnownPair, ...]
    gaps: tuple[Gap, ...] = ()
    skipped: Mapping[str, str] | None = None

    @cached_property
    def related(self) -> list[RelatedGap]:
        """Whether a distance goes with a gap: rank correlations with exact p-values."""
        return related_gaps(self.pairs, self.gaps)

    def matrix(self, measure: str) -> NDArray[np.float64]:
        """The distances of one measure between all domains, in their order; on the diagonal those of two halves."""
        check_measures([measure])
        place = {name: number for number, name in enumerate(self.domains)}
        table = np.full((len(place), len(place)), np.nan)
        for one in self.pairs:
            if one.measure == measure and one.kind != "mixture":
                i, j = place[one.reference], place[one.target]
                table[i, j] = table[j, i] = one.value
        return table

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        related = [
            {
                **{key: getattr(one, key) for key in ("measure", "model", "figure", "targets", "distances", "gaps")},
                **{
                    kind: {**asdict(getattr(one, kind)), "undecidable": getattr(one, kind).undecidable}
                    for kind in ("spearman", "kendall")
                },
            }
            for one in self.related
        ]
        return {
            "domains": list(self.domains),
            "features": self.features,
            "distances": [asdict(one) for one in self.pairs],
            "gaps": [asdict(one) for one in self.gaps],
            "related": related,
            "skipped": dict(self.skipped or {}),
        }

    def __repr__(self) -> str:
        return f"Distances({', '.join(self.domains)}; {self.features}; {len(self.pairs)} distances)"


def measure_distances(
    data: str | Domains | None = None,
    runs: Run | Path | str | Sequence[Run | Path | str] = (),
    *,
    target: str | Path | Domain | None = None,
    source: Sequence[str] | None = None,
    domain: Sequence[str] | None = None,
    weights: Sequence[float] | None = None,
    features: str = "auto",
    measures: Sequence[str] | None = None,
    limit: int | None = 1_000,
    seed: int = 0,
    trust: Trust = NOTHING,
    progress: Mode = "auto",
) -> Distances:
    """How far apart the domains of a data set, or of finished runs, are, from features without labels.

    Every pair of domains is measured, and the two halves of each domain, which say what chance alone gives. With
    `source` and `target`, the mixture of the sources is measured against the target; with runs, the sources of every
    model against its targets, and the gap of the model beside it.

    Args:
        data: A data set's name, folder:PATH, or `Domains`.
        runs: Finished runs, whose data are measured: several with another target each are a leave-one-out.
        target: A domain of the data, folder:PATH with images (labels are not looked at), or a `Domain`.
        source: Domains that are measured against the target as one mixture.
        domain: Which domains are compared; all, unless told.
        weights: Of the sources in a mixture; equal unless told.
        features: pixels, efficientnet-lite0, minilm (texts), file:MODEL or any other model with an encoder; auto is the
            pre-trained network that is installed, else pixels.
        measures: Names of `shiftproof.theory.distances.measures.MEASURES`; all, unless told.
        limit: Samples of a domain, at most, at random.
        seed: Chooses samples, folds and orders of permutation tests.
        trust: What of the things that a run's folder names may be fetched or run.
    """
    opened = [one if isinstance(one, Run) else open_run(one) for one in _listed(runs)]
    loaded = _load(data, opened, trust)
    chosen, skipped = _measures(measures)
    samples = _samples(loaded, domain, source, target, opened)
    asked = _mixtures(samples, source, target, opened)
    first = next(iter(samples.values()))
    extractor = extractor_of(features, first.inputs.shape, first.kind)
    seed = checked_seed(seed)
    samples = _held_out(samples, loaded, extractor)
    points = {name: _points(one.first(limit, seed), extractor, progress) for name, one in samples.items()}
    pairs = _measure(points, asked, weights, extractor.name, chosen, seed, progress)
    gaps = [gap for run in opened for gap in _gaps(run)]
    return Distances(tuple(points), extractor.name, tuple(pairs), tuple(gaps), skipped)


def _listed(runs: Run | Path | str | Sequence[Run | Path | str]) -> list[Run | Path | str]:
    return [runs] if isinstance(runs, Run | Path | str) else list(runs)


def _load(data: str | Domains | None, runs: Sequence[Run], trust: Trust) -> tuple[Domains, Run | None]:
    """The domains, and the run whose data they are, if any."""
    if (data is None) == (not runs):
        raise UsageError("distances are of a data set (--data) or of runs (--run): give one of the two")
    if data is not None:
        return as_data(data).load(), None
    first = runs[0]
    for run in runs:
        trust.check(run.folder, run.study.data.source, [])
        if isinstance(run.study.data, AbsentData):
            raise UsageError(run.absent)
        if run.imported:
            raise UsageError(f"{run.folder} was made of others' results, and has no samples to measure")
        if run.study.data != first.study.data:
            raise UsageError(
                f"{run.folder} and {first.folder} are of other data: distances compare runs on one data set"
            )
    return first.study.data.load(), first


def _measures(names: Sequence[str] | None) -> tuple[tuple[str, ...], dict[str, str]]:
    chosen = check_measures(list(MEASURES) if names is None else names)
    if names is None and importlib.util.find_spec("ot") is None:
        reason = "the exact Wasserstein distance needs pip install 'shiftproof[transport]'"
        return tuple(name for name in chosen if name != "wasserstein"), {"wasserstein": reason}
    return chosen, {}


def _samples(
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
            raise UnknownName(f"domain of {domains.name!r}:", text, [*domains.names, "folder:PATH"])
        if domains.kind != "image":
            raise UsageError(f"{domains.name!r} holds {domains.kind}s, and {text} is a folder of images")
        sizes = {"resize": run is None or resizes(run.study), "to_gray": run is None or to_gray(run.study)}
        found = unlabelled_folder(Path(path), domains.shape, **sizes)
    ids = np.empty(len(found), object)
    # a file of the same name elsewhere is another sample
    ids[:] = [f"{found.name}: {one}" for one in found.ids]
    return replace(found, ids=ids)


def _mixtures(
    samples: Mapping[str, Unlabelled],
    source: Sequence[str] | None,
    target: str | Path | Domain | None,
    runs: Sequence[Run],
) -> list[tuple[tuple[str, ...], str]]:
    """Sources that are measured together against a target."""
    asked = [(gap.sources, gap.target) for run in runs for gap in _gaps(run)]
    if source is not None:
        last = list(samples)[-1] if target is not None and target not in samples else str(target)
        if target is None:
            raise UsageError("--source is measured against a target: give --target")
        if last in source:
            raise UsageError(f"{last!r} is both source and target")
        asked.append((tuple(dict.fromkeys(source)), last))
    known = [(sources, one) for sources, one in asked if one in samples and set(sources) <= set(samples)]
    return list(dict.fromkeys(known))


def _gaps(run: Run) -> list[Gap]:
    return gaps_of(run.evidence, tuple(run.record["sources"]), run.study.targets, run.study.seed)


def _held_out(
    samples: dict[str, Unlabelled], loaded: tuple[Domains, Run | None], extractor: Extractor
) -> dict[str, Unlabelled]:
    """Of domains that the extractor was trained on, the part that it was not: it represents the rest as no others."""
    if not extractor.name.startswith("file:"):
        return samples
    domains, _ = loaded
    card = card_of(model_path(extractor.name))
    if not card:
        warnings.warn(
            f"{extractor.name} does not say what it was trained on: of samples that it was, distances mean nothing",
            stacklevel=3,
        )
    seen = [name for name in samples if name in domains.names and was_trained_on(card, domains.name, domains[name])]
    return samples | {name: Unlabelled.of(part_of(domains[name], "held-out")) for name in seen}


def _points(samples: Unlabelled, extractor: Extractor, progress: Mode) -> Points:
    units = samples.ids if samples.groups is None else samples.groups
    return Points(samples.name, extract_features(extractor, samples.inputs, samples.name, progress=progress), units)


def _measure(
    points: Mapping[str, Points],
    asked: Sequence[tuple[tuple[str, ...], str]],
    weights: Sequence[float] | None,
    features: str,
    measures: Sequence[str],
    seed: int,
    progress: Mode,
) -> list[KnownPair]:
    names, found = list(points), list[KnownPair]()
    several = [one for one in asked if len(one[0]) > 1]
    jobs: list[tuple[str, str, Any, Points, Points, tuple[float, ...]]] = []
    for place, name in enumerate(names):
        jobs += [(name, other, "pair", points[name], points[other], ()) for other in names[place + 1 :]]
    for name in names:
        first, second = deal(points[name], points[name], seed, "halves of a domain")
        jobs.append((name, name, "halves", first.reference, second.reference, ()))
    for sources, target in several:
        share = _shares(sources, weights)
        mixed = mixture([points[name] for name in sources], share, seed)
        jobs.append((mixture_name(sources), target, "mixture", mixed, points[target], share))
    with progress_bar("distances", len(jobs) * len(measures), progress) as bar:
        for reference, target, kind, x, y, share in jobs:
            for measure in measures:
                one = measure_distance(measure, x, y, seed)
                found.append(_known(one, features, reference, target, kind, share))
                bar.advance(1, f"{reference}, {target}: {MEASURES[measure].title}")
    return found


def _shares(sources: Sequence[str], weights: Sequence[float] | None) -> tuple[float, ...]:
    if weights is None:
        return tuple(1 / len(sources) for _ in sources)
    if len(weights) != len(sources):
        raise UsageError(f"{len(weights)} weights were given for {len(sources)} sources ({', '.join(sources)})")
    total = sum(weights)
    return tuple(float(one) / total if total > 0 else float(one) for one in weights)


def _known(
    one: DomainDistance, features: str, reference: str, target: str, kind: Any, weights: tuple[float, ...]
) -> KnownPair:
    return KnownPair(
        one.measure,
        features,
        reference,
        target,
        kind,
        one.value,
        one.n,
        one.standard_error,
        one.low if one.low is None or np.isfinite(one.low) else None,
        one.high if one.high is None or np.isfinite(one.high) else None,
        one.level,
        weights,
    )
