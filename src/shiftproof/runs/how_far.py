"""How far apart domains are: `shiftproof shift --distances`, and the same from Python."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.domains import Domain, Domains
from shiftproof.domains.splits import part_of
from shiftproof.domains.unlabelled import Unlabelled
from shiftproof.errors import UsageError
from shiftproof.execution import Mode, progress_bar
from shiftproof.models.features import Extractor, extract_features, extractor_of
from shiftproof.models.load import card_of, model_path
from shiftproof.report.how_far import Gap, KnownPair, RelatedGap, mixture_name, related_gaps
from shiftproof.rng import checked_seed
from shiftproof.runs.absent import AbsentData
from shiftproof.runs.how_far_inputs import Mixture, asked_mixtures, collect_samples, gaps_of_runs
from shiftproof.runs.run import Run, open_run
from shiftproof.runs.seen import was_trained_on
from shiftproof.runs.sources import as_data
from shiftproof.runs.trust import Trust
from shiftproof.theory.distances.measures import MEASURES, check_measures, measure_distance
from shiftproof.theory.distances.pair import DomainDistance, mixture
from shiftproof.theory.points import FEWEST, Points, deal

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
        (measure,) = check_measures([measure])
        if all(one.measure != measure for one in self.pairs):
            raise UsageError(f"{measure} was not measured: name it in `measures`")
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
    data: str | Mapping[str, Any] | Domains | None = None,
    runs: Run | Path | str | Sequence[Run | Path | str] = (),
    *,
    target: str | Path | Domain | None = None,
    source: Sequence[str] | str | None = None,
    domain: Sequence[str] | str | None = None,
    weights: Sequence[float] | None = None,
    features: str = "auto",
    measures: Sequence[str] | str | None = None,
    limit: int | None = 1_000,
    seed: int = 0,
    trust: Trust = NOTHING,
    progress: Mode = "auto",
) -> Distances:
    """How far apart the domains of a data set, or of finished runs, are, from features without labels.

    Every pair of domains is measured, and the two halves of each domain, which say what chance alone gives. With
    `source` and `target`, the mixture of the sources is measured against the target; with a target alone, the mixture
    of all other domains; with runs, the sources of every model against its targets, and the gap of the model beside it.

    Args:
        data: A data set's name, folder:PATH, a mapping with the name and options (size), or `Domains`.
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
    opened = _open(runs)
    loaded = _load(data, opened, trust)
    chosen, skipped = _measures(_names(measures))
    source, domain = _names(source), _names(domain)
    _check_weights(weights, source)
    samples = collect_samples(loaded, domain, source, target, opened)
    gaps = gaps_of_runs(opened)
    asked = asked_mixtures(samples, source, target, weights, gaps)
    first = next(iter(samples.values()))
    extractor = extractor_of(features, first.inputs.shape, first.kind)
    if features == "auto" and extractor.name == "pixels":
        skipped["features"] = (
            "distances are between pixels; features of a network need pip install 'shiftproof[efficientnet]'"
        )
    seed = checked_seed(seed)
    samples = _held_out(samples, loaded, extractor)
    points = {name: _points(one.first(limit, seed), extractor, progress) for name, one in samples.items()}
    pairs, too_few = _measure(points, asked, extractor.label, chosen, seed, progress)
    return Distances(tuple(points), extractor.label, tuple(pairs), tuple(gaps), skipped | too_few)


def _open(runs: Run | Path | str | Sequence[Run | Path | str]) -> list[Run]:
    """Every run once."""
    listed = [runs] if isinstance(runs, Run | Path | str) else list(runs)
    opened = [one if isinstance(one, Run) else open_run(one) for one in listed]
    return list({run.folder.resolve(): run for run in opened}.values())


def _names(names: Sequence[str] | str | None) -> list[str] | None:
    """Names in a list, or in a text with commas."""
    return [one.strip() for one in names.split(",")] if isinstance(names, str) else None if names is None else [*names]


def _check_weights(weights: Sequence[float] | None, source: Sequence[str] | None) -> None:
    if source is not None and len(set(source)) != len(source):
        raise UsageError(f"sources are {', '.join(source)}: each should be named once")
    if weights is None:
        return
    if source is None:
        raise UsageError("weights are those of sources: name these, too (--source a,b)")
    if len(weights) != len(source):
        raise UsageError(f"{len(weights)} weights were given for {len(source)} sources ({', '.join(source)})")
    if not all(np.isfinite(one) and one > 0 for one in weights):
        raise UsageError(f"weights are {', '.join(map(str, weights))}; they should be finite numbers above 0")


def _load(
    data: str | Mapping[str, Any] | Domains | None, runs: Sequence[Run], trust: Trust
) -> tuple[Domains, Run | None]:
    """The domains, and the run whose data they are, if any."""
    if (data is None) == (not runs):
        raise UsageError("distances are of a data set (data, --data) or of runs (runs, --run): give one of the two")
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
    mixtures: Sequence[Mixture],
    features: str,
    measures: Sequence[str],
    seed: int,
    progress: Mode,
) -> tuple[list[KnownPair], dict[str, str]]:
    """Every measure of every pair, and what could not be computed."""
    names, found, skipped = list(points), list[KnownPair](), dict[str, str]()
    jobs: list[tuple[str, str, Any, Points, Points, tuple[float, ...]]] = []
    for place, name in enumerate(names):
        jobs += [(name, other, "pair", points[name], points[other], ()) for other in names[place + 1 :]]
    for name in names:
        if points[name].different < 2 * FEWEST:
            skipped["halves"] = f"two halves of a domain are compared from {2 * FEWEST} samples (or groups) on"
            continue
        first, second = deal(points[name], points[name], seed, "halves of a domain")
        jobs.append((name, name, "halves", first.reference, second.reference, ()))
    for one in mixtures:
        sides = [points[name] for name in one.sources]
        # as many as of a domain, so that distances of other pairs compare
        mixed = mixture(sides, one.shares, seed, most=max(side.count for side in sides))
        jobs.append((mixture_name(one.sources), one.target, "mixture", mixed, points[one.target], one.shares))
    with progress_bar("distances", len(jobs) * len(measures), progress) as bar:
        for reference, target, kind, x, y, share in jobs:
            for measure in measures:
                if measure == "frechet-extrapolated" and min(len(x), len(y)) <= (size := _size(x)):
                    skipped[measure] = (
                        f"{measure} needs more samples than there are features ({size:,}), of halves and mixtures too: "
                        f"raise --limit, or take kernel"
                    )
                else:
                    known = measure_distance(measure, x, y, seed)
                    found.append(_known(known, features, reference, target, kind, share))
                bar.advance(1, f"{reference}, {target}: {MEASURES[measure].title}")
    return found, skipped


def _size(points: Points) -> int:
    return int(np.prod(points.shape))


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
