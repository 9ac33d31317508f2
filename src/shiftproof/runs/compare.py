"""Compare models of several runs on the same samples: which pair, whether their protocols agree, what is required."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shiftproof.errors import UnknownName, UsageError
from shiftproof.evidence import Evidence, Measurement
from shiftproof.execution import as_list
from shiftproof.report.comparison import ModelPair, judge_relative, lines_of, pair_evidence
from shiftproof.report.comparison.pairing import MEASURED, OtherSamples
from shiftproof.report.comparison.settings import differing_keys, options_in, told
from shiftproof.report.privacy import SampleNames
from shiftproof.report.requirements import CLAIMS, ComparedOutcome, Outcome, Requirement
from shiftproof.runs.comparison import Comparison
from shiftproof.runs.run import Run, open_run

__all__ = ["compare"]

_SAMPLES = ("data", "limit", "sample_seed", "split", "prefix", "budget")
"""Keys of a study that decide which samples are measured."""
_WAYS_OUT = "measure both alike, or compare the samples that both have (--shared-samples), or other domains (--domain)"


def compare(
    baseline: Run | Path | str,
    *others: Run | Path | str,
    model: str | Sequence[str] = (),
    domain: str | Sequence[str] = (),
    radii: Sequence[float] = (),
    require: Any = (),
    shared_samples: bool = False,
    any_certificate: bool = False,
    images: bool = True,
) -> Comparison:
    """Compare models of other runs with those of a baseline, sample by sample.

    Measurements pair if probe, options, domain and samples agree; what one run lacks is named in `left_out`. Where
    samples of a domain differ, or nothing pairs, a `UsageError` lists the keys that differ, with both values.

    Args:
        baseline: A run, or its folder.
        others: Runs that stand against it; none compares models of one run, which `model` names.
        model: Which models pair, as "A=B" (A of the baseline, B of the others), or "A" for one that is in both. Without
            it, two single models pair whatever they are called, and several by name.
        domain: Where to compare; all that were measured in both, unless told.
        radii: Where certified accuracy is compared.
        require: Requirements such as "certified@0.5>=baseline-0.02 with 95%", asked of every target.
        shared_samples: Compare the samples that both runs measured, where these are not all.
        any_certificate: Pair certificates in the same norm and units, whatever their noise, votes and alpha: what is
            guaranteed is guaranteed either way, but the difference is then not of the models alone.
        images: Whether samples are called by their ids; not if one of the runs was made without images.

    >>> sp.compare("runs/before", "runs/after", require=["clean>=baseline-0.02"]).rows  # doctest: +SKIP
    """
    runs = [one if isinstance(one, Run) else open_run(one) for one in (baseline, *others)]
    asked = as_list("model", model, "['before=after']")
    if len(runs) == 1:
        if not asked:
            raise UsageError(
                "a comparison needs two runs, the first of which is the baseline; two models of one run are compared "
                "by --model A=B"
            )
        runs.append(runs[0])
    names = _run_names(runs)
    required = Requirement.read(require)
    if any(one.metric == CLAIMS for one in required):
        raise UsageError("'claims' can't be required of a comparison: a study's own claims are judged by run")
    also = [(one.norm, one.size) for one in required if one.metric == "certified" and one.size is not None]
    chosen = as_list("domain", domain, "['sketch']")
    options = {"shared": shared_samples, "any_certificate": any_certificate}
    pairs: list[ModelPair] = []
    outcomes: list[ComparedOutcome | Outcome] = []
    compared: list[Run] = []
    for run, name in zip(runs[1:], names[1:], strict=True):
        _check_classes(runs[0], run)
        several = _model_pairs(runs[0], run, asked)
        alone = [] if asked else _models_alone(runs[0], run, several)
        for first, second in several:
            if run is runs[0] and first == second:
                raise UsageError(f"{first} would be compared with itself; name another with --model {first}=OTHER")
            pair = _compare_models(runs[0], run, (names[0], first, name, second), chosen, options, radii, also)
            # models that nobody paired are named once
            pairs.append(_without_ids(replace(pair, left_out=(*pair.left_out, *alone)), runs, images))
            alone = []
            compared.append(run)
    for pair, run in zip(pairs, compared, strict=True):
        title, evidence = pair.title if len(pairs) > 1 else "", run.evidence.where(model=pair.model)
        # a target that the baseline lacks is refused, not passed over
        places = chosen or run.study.targets or pair.domains
        for one in required:
            if one.relative:
                outcomes.append(judge_relative(one, pair.lines, places, title))
            else:
                outcomes.append(replace(one.judge(evidence, places), model=title))
    return Comparison(tuple(runs), tuple(pairs), tuple(outcomes))


def _without_ids(pair: ModelPair, runs: Sequence[Run], images: bool) -> ModelPair:
    """The pair with hashed ids, where samples are not to be named, by the key of the run that hides them."""
    private = [run for run in runs if not run.record.get("images", True)]
    if images and not private:
        return pair
    names = SampleNames(True, str((private or runs)[0].record.get("id_key") or ""))
    lines = [replace(one, ids=np.array([names.of(str(name)) for name in one.ids], object)) for one in pair.lines]
    return replace(pair, lines=lines)


def _compare_models(
    baseline: Run,
    run: Run,
    names: tuple[str, str, str, str],
    chosen: Sequence[str],
    options: dict[str, bool],
    radii: Sequence[float],
    also: Sequence[tuple[str | None, float]],
) -> ModelPair:
    here, there = baseline.evidence.where(model=names[1]), run.evidence.where(model=names[3])
    for side, folder in ((here, baseline.folder), (there, run.folder)):
        if any("correct" not in one for one in side if one.probe == "clean"):
            raise UsageError(f"labels of {folder} are numbers to predict, so that no answer is right or wrong")
    common = [name for name in here.distinct("domain") if name in there.distinct("domain")]
    for name in chosen:
        if name not in common:
            raise UnknownName("domain of both runs", name, common)
    kept = list(chosen or common)
    _check_data(baseline, run, kept)
    sides = [Evidence([one for one in side if one.domain in kept]) if kept else side for side in (here, there)]
    try:
        paired = pair_evidence(sides[0], sides[1], **options)
    except OtherSamples as error:
        keys = _sample_keys(baseline, run, error.domain)
        why = f" ({told(keys)})" if keys else ""
        raise UsageError(f"{baseline.folder} and {run.folder} can't be compared: {error}{why}; {_WAYS_OUT}") from error
    except UsageError as error:
        raise UsageError(f"{baseline.folder} and {run.folder} can't be compared: {error}") from error
    same = _same_weights(baseline, names[1], run, names[3])
    lines = lines_of(paired, radii=radii, also=also, apart=not same, seed=baseline.study.seed)
    targets = tuple(name for name in paired.domains if name in run.study.targets)
    domains = (*targets, *(name for name in paired.domains if name not in targets))
    notes = (
        *(["Both are the same weights: what differs is chance of votes and attacks."] if same else []),
        *(f"On {name}, the {count} samples that both measured are compared." for name, count in paired.fewer.items()),
        *_seed_notes(paired.baseline, paired.other),
        *(_certificate_notes(paired.baseline, paired.other) if options["any_certificate"] else ()),
        *_imported_notes(baseline, run),
    )
    alone = [] if chosen else _domains_alone(here, there, common)
    return ModelPair(*names, lines, domains, targets, notes, (*paired.left_out, *alone, *_not_compared(here, there)))


def _model_pairs(baseline: Run, run: Run, asked: Sequence[str]) -> list[tuple[str, str]]:
    """Models that are compared: as asked, the only ones, or those of the same name."""
    here, there = (list(map(str, one.evidence.distinct("model"))) for one in (baseline, run))
    if asked:
        return [_parse_pair(text, here, there) for text in asked]
    if len(here) == len(there) == 1:
        return [(here[0], there[0])]
    common = [(name, name) for name in here if name in there]
    if not common:
        raise UsageError(
            f"no model is called alike in {baseline.folder} ({_names(here)}) and {run.folder} ({_names(there)}); "
            f"say which pair: --model {_quoted(f'{here[0]}={there[0]}')}"
        )
    return common


def _models_alone(baseline: Run, run: Run, pairs: Sequence[tuple[str, str]]) -> list[str]:
    sides = [("the baseline", baseline, {first for first, _ in pairs}), ("the other run", run, {b for _, b in pairs})]
    alone = {
        side: [str(name) for name in one.evidence.distinct("model") if name not in paired]
        for side, one, paired in sides
    }
    return [f"models of {side} alone: {', '.join(names)}" for side, names in alone.items() if names]


def _parse_pair(text: str, here: Sequence[str], there: Sequence[str]) -> tuple[str, str]:
    """A=B, where names may hold equal signs themselves; A alone is A=A."""
    places = [place for place, sign in enumerate(text) if sign == "="]
    for place in places:
        first, second = text[:place].strip(), text[place + 1 :].strip()
        if first in here and second in there:
            return first, second
    if text.strip() in here and text.strip() in there:
        return text.strip(), text.strip()
    first, _, second = (part.strip() for part in text.partition("="))
    raise UnknownName("model", first, here) if first not in here else UnknownName("model", second or first, there)


def _names(models: Sequence[str]) -> str:
    return ", ".join(map(repr, models))


def _quoted(text: str) -> str:
    return f"'{text}'" if " " in text else text


def _run_names(runs: Sequence[Run]) -> list[str]:
    """What runs are called: their folders' names, or whole paths where these are alike."""
    names = {run.folder: run.folder.resolve().name for run in runs}
    alike = len(set(names.values())) < len(names)
    return [str(run.folder) if alike else names[run.folder] for run in runs]


def _check_classes(baseline: Run, run: Run) -> None:
    if baseline.imported or run.imported or baseline.record["classes"] == run.record["classes"]:
        return
    one, other = (", ".join(each.record["classes"]) or "none" for each in (baseline, run))
    raise UsageError(f"{baseline.folder} and {run.folder} can't be compared: their classes are {one} and {other}")


def _check_data(baseline: Run, run: Run, domains: Sequence[str]) -> None:
    """Refuse domains of one name that hold other data; of imports only ids and labels are known, which pairs check."""
    if baseline.imported or run.imported:
        return
    here, there = (one.record["fingerprints"]["data"] for one in (baseline, run))
    other = {name: (here.get(name, "none"), there.get(name, "none")) for name in domains}
    changed = {f"fingerprint of {name}": both for name, both in other.items() if both[0] != both[1]}
    if changed:
        keys = differing_keys({"data": _config(baseline).get("data")}, {"data": _config(run).get("data")})
        raise UsageError(
            f"{baseline.folder} and {run.folder} can't be compared: they hold other data under one name "
            f"({told({**keys, **changed})})"
        )


def _config(run: Run) -> dict[str, Any]:
    config: dict[str, Any] = run.study.to_config()
    return config


def _sample_keys(baseline: Run, run: Run, domain: str) -> dict[str, tuple[str, str]]:
    """Keys that decide which samples of a domain are measured, where they differ."""
    sides = []
    for one in (baseline, run):
        asked = {key: value for key, value in _config(one).items() if key in _SAMPLES and value is not None}
        sides.append({**asked, "split": one.record["parts"].get(domain)})
    return differing_keys(sides[0], sides[1])


def _same_weights(baseline: Run, first: str, run: Run, second: str) -> bool:
    """Whether both are the same trained models, seed by seed."""
    known = []
    for one, name in ((baseline, first), (run, second)):
        weights = one.record["fingerprints"]["weights"]
        known.append([weights.get(member.key) for member in one.study.members if member.name == name])
    return known[0] == known[1] and bool(known[0]) and None not in known[0]


def _certificate_notes(here: Evidence, there: Evidence) -> list[str]:
    """In which options certificates differ that were compared all the same."""
    found = dict[str, None]()
    for one, other in zip(here.where(probe="certify"), there.where(probe="certify"), strict=False):
        if keys := differing_keys(_options_of(one), _options_of(other)):
            found[f"Certificates differ in more than the model, in the baseline and the other: {told(keys)}."] = None
    return list(found)


def _options_of(one: Measurement) -> dict[str, Any]:
    return {**options_in(one.setting), "alpha": one.fact("alpha")}


def _seed_notes(here: Evidence, there: Evidence) -> list[str]:
    counts = [len(side.distinct("train_seed")) for side in (here, there)]
    if counts == [1, 1]:
        return []
    each = " and ".join(f"{count} seed{'s' if count > 1 else ''}" for count in counts)
    few = " One training says nothing of others: its interval counts samples alone." if 1 in counts else ""
    return [f"The baseline and the other were trained with {each}; figures are means over them.{few}"]


def _imported_notes(baseline: Run, run: Run) -> list[str]:
    names = [str(one.folder) for one in (baseline, run) if one.imported]
    return [f"Imported, and can't be checked here: {', '.join(dict.fromkeys(names))}."] if names else []


def _domains_alone(here: Evidence, there: Evidence, common: Sequence[str]) -> list[str]:
    sides = (("the baseline", here), ("the other run", there))
    alone = {side: [str(name) for name in part.distinct("domain") if name not in common] for side, part in sides}
    return [f"measured in {side} alone: {', '.join(names)}" for side, names in alone.items() if names]


def _not_compared(here: Evidence, there: Evidence) -> list[str]:
    others = [str(name) for name in Evidence.concat([here, there]).distinct("probe") if name not in MEASURED]
    return [f"what these probes say is not compared: {', '.join(others)}"] if others else []
