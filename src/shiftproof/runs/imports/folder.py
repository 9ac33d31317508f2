"""From files that others wrote to the folder of a run, like any other run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shiftproof.errors import UnknownName, UsageError
from shiftproof.evidence import Evidence, EvidenceStore, slug
from shiftproof.execution import as_path, check_writable, only_one, write_atomically
from shiftproof.runs.environment import environment
from shiftproof.runs.identity import digest
from shiftproof.runs.imported import IMPORTED
from shiftproof.runs.imports.collect import Imports, collect
from shiftproof.runs.imports.parts import ImportedFile
from shiftproof.runs.imports.recognise import read_bytes
from shiftproof.runs.imports.told import Told, one_for_each
from shiftproof.runs.record import FORMAT, continue_record, read_record, write_record
from shiftproof.runs.run import Run, open_run
from shiftproof.runs.spec import Study

__all__ = ["import_results"]

PROTOCOL = {"split": "as whoever wrote the files has chosen"}
"""How samples are chosen, in every run that was imported."""


def import_results(
    paths: Sequence[Path | str] | Path | str,
    *,
    model: str | Sequence[str] | None = None,
    domain: str | Sequence[str] | None = None,
    target: str | Sequence[str] | None = None,
    norm: str | Sequence[str] = "l2",
    alpha: float | str | Sequence[float] | None = None,
    sigma: float | str | Sequence[float] | None = None,
    n: int | str | Sequence[int] | None = None,
    threat: str | Sequence[str] | None = None,
    held_out: bool = False,
    out: Path | str | None = None,
    command: str = "",
) -> Run:
    """A run of others' results: logs of certificates, flags that say which samples withstood an attack, or sweeps of
    DomainBed (results.jsonl), whose algorithms are the models and whose data sets name the domains.

    What is told of the files is one value for all of them, or one for each: names of `model` (the file's name unless
    told) and `domain` ("imported"), the `norm` of radii, and what a log does not say, `alpha`, `sigma` and `n` (votes);
    with these, radii are checked against what so many votes can certify. Robust flags, a state of AutoAttack or an
    array of numpy, are within a `threat` such as "linf:8/255". `held_out` says that the samples served
    neither training nor selection, `target` which domains training left out. Nothing of a certificate can be checked
    here, which the report and `verify` say. The same files and options are the same run, in the same folder.

    >>> import_results(["gaussian.tsv", "macer.tsv"], domain="cifar10", sigma=0.5, n=100_000)  # doctest: +SKIP
    """
    named = [as_path("the path of a file", one) for one in ([paths] if isinstance(paths, str | Path) else paths)]
    if not named:
        raise UsageError("there is no file to import; name some, such as logs/*.tsv")
    names = [path.name for path in named]
    columns = {
        "model": one_for_each("model", model, names, str),
        "domain": one_for_each("domain", domain, names, str),
        "norm": one_for_each("norm", norm, names, str, "l2"),
        "alpha": one_for_each("alpha", alpha, names, float),
        "sigma": one_for_each("sigma", sigma, names, float),
        "n": one_for_each("n", n, names, int),
        "threat": one_for_each("threat", threat, names, str),
        "held_out": [held_out] * len(names),
    }
    told = [Told(**dict(zip(columns, values, strict=True))) for values in zip(*columns.values(), strict=True)]
    files = [ImportedFile(path.name, read_bytes(path), one) for path, one in zip(named, told, strict=True)]
    imports = collect(files)
    # in a sweep of DomainBed every domain was left out by some training
    swept = all(part.probe.name == "trials" for part in imports.parts)
    study = _study(imports, imports.domains if swept else _targets(target, imports.domains))
    identity = _identity(imports, study)
    folder = as_path("out", out) if out else Path("runs") / f"import-{digest(identity)}"
    check_writable(folder)
    with only_one(folder):
        _fill_folder(folder, imports, study, identity, command)
    return open_run(folder)


def _targets(target: str | Sequence[str] | None, domains: Sequence[str]) -> list[str]:
    """Names of targets, each of which must be a domain of a file."""
    names = [] if target is None else [one.strip() for one in target.split(",")] if isinstance(target, str) else target
    for name in names:
        if name not in domains:
            raise UnknownName("domain", name, domains)
    return list(dict.fromkeys(names))


def _study(imports: Imports, targets: Sequence[str]) -> Study:
    """What a run of these files would have asked."""
    models = {part.measurement.model: {"model": IMPORTED, "train": False} for part in imports.parts}
    count = len(imports.files)
    document = {
        "name": "import",
        "title": f"Imported results of {count} file{'s' if count > 1 else ''}",
        "about": "Made of files that others wrote: nothing of it was measured here, or can be checked.",
        "data": IMPORTED,
        **({"target": list(targets)} if targets else {}),
        "models": models,
        "probes": [probe.to_config() for probe in dict.fromkeys(part.probe for part in imports.parts)],
    }
    return Study.model_validate(document)


def _identity(imports: Imports, study: Study) -> dict[str, Any]:
    """What makes two imports the same one: the content of files and what was told, in any order."""
    files = [{"sha256": file.sha256, **file.told.to_config(), "model": file.model} for file in imports.files]
    config = study.to_config()
    return {
        "models": {name: {"model": {"name": IMPORTED}, "train": False} for name in sorted(study.models)},
        "imported": sorted(files, key=lambda one: digest(one, 64)),
        "target": sorted(study.targets),
        "probes": sorted(config["probes"], key=lambda one: digest(one, 64)),
    }


def _fill_folder(folder: Path, imports: Imports, study: Study, identity: Mapping[str, Any], command: str) -> None:
    """Write what is not there yet: run.json first, so that a call that was killed is continued by the next one."""
    record = _open_record(folder, imports, study, identity, command)
    for file, path in zip(imports.files, _copies_in(folder, imports.files), strict=True):
        if not path.is_file() or path.read_bytes() != file.content:
            write_atomically(path, file.content)
    store = EvidenceStore(folder / "evidence")
    for part in imports.parts:
        model, domain, setting = part.key
        path = store.path(model, domain, part.probe.name, setting)
        asked = {"imported": list(part.sha256), "probe": repr(part.probe)}
        if store.finished(path, asked) is None:
            store.finish(path, Evidence([part.measurement]), asked)
    if "finished" not in record:
        # from now on, what is missing was removed
        write_record(folder, {**record, "finished": _now()})


def _open_record(
    folder: Path, imports: Imports, study: Study, identity: Mapping[str, Any], command: str
) -> dict[str, Any]:
    if (folder / "run.json").exists():
        if read_record(folder)["hash"] != digest(identity):
            raise UsageError(f"{folder} holds a run of something else, or other files or options; choose another --out")
        return continue_record(folder)
    if foreign := [name for name in ("models", "evidence", "model.safetensors") if (folder / name).exists()]:
        raise UsageError(f"{folder} holds {foreign[0]}, but no run.json; choose another --out")
    record = _new_record(imports, study, identity, command)
    write_record(folder, record)
    return record


def _new_record(imports: Imports, study: Study, identity: Mapping[str, Any], command: str) -> dict[str, Any]:
    known = {
        model: {
            one.domain: {name: one.fact(name) for name in ("sampled", "seen_in_training", "chose_weights")}
            for one in imports.evidence.where(model=model)
        }
        for model in study.models
    }
    return {
        "format": FORMAT,
        "hash": digest(identity),
        "command": command,
        "study": study.to_config(),
        "settings": [repr(probe) for probe in study.all_probes],
        "config": dict(identity),
        "imported": {
            "files": [
                {"name": file.name, "copy": path.as_posix(), "sha256": file.sha256, "told": file.told.to_config()}
                for file, path in zip(imports.files, _copies_in(Path(), imports.files), strict=True)
            ],
            "measurements": [list(part.key) for part in imports.parts],
        },
        "sources": [name for name in imports.domains if name not in study.targets],
        "classes": imports.classes,
        "labels": imports.class_counts,
        "selected": {},
        "findings": [asdict(one) for one in imports.findings],
        "protocol": PROTOCOL,
        "parts": dict.fromkeys(imports.domains, IMPORTED),
        "measured": known,
        "noise_seed": 0,
        "fingerprints": {"data": imports.fingerprints, "weights": {}},
        "started": _now(),
        "environment": environment(),
        "later_environments": [],
    }


def _copies_in(folder: Path, files: Sequence[ImportedFile]) -> list[Path]:
    """Where a run keeps the files that it was made of, unchanged."""
    return [folder / "imported" / f"{file.sha256[:8]}-{slug(file.name)}" for file in files]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
