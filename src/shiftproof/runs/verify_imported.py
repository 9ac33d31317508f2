"""What can be checked of a run that was imported: that it says what its files say. Of those nothing can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from shiftproof.errors import ShiftproofError
from shiftproof.evidence import EvidenceStore
from shiftproof.execution.tables import hash_table
from shiftproof.runs.identity import digest
from shiftproof.runs.imports.collect import Imports, collect
from shiftproof.runs.imports.parts import ImportedFile
from shiftproof.runs.imports.told import Told
from shiftproof.runs.run import Run
from shiftproof.types import Finding

__all__ = ["check_imported"]


def check_imported(run: Run) -> Iterator[Finding]:
    """Whether the files that were imported are as they were, and give the evidence and findings of the run.

    Fails whatever comes of it: what can't be checked may not pass for verified.
    """
    files, faults = _files(run)
    yield from faults
    if not faults:
        try:
            imports = collect(files)
        except (ShiftproofError, TypeError) as error:
            yield Finding("fail", "imported-unreadable", f"the files that were imported can't be read again: {error}")
        else:
            wrong = list(_evidence(run, imports))
            yield from wrong
            if not wrong:
                message = f"evidence and findings are those that {len(files)} imported files give"
                yield Finding("pass", "imported-same", message)
    yield Finding("fail", "cant-be-checked", _sentence(run))


def _sentence(run: Run) -> str:
    certified, others = len(run.evidence.where(probe="certify")), len(run.evidence.where(probe="attack"))
    what = [
        *(
            [f"the certificates of {certified} logs can't be checked: the model and its votes are not here"]
            * bool(certified)
        ),
        *([f"the robust flags of {others} files can't be checked: no model is here to attack"] * bool(others)),
    ]
    if not what:
        what = ["the accuracies can't be checked: neither models nor samples are here"]
    return f"{'; '.join(what)}. Whoever wrote them answers for them"


def _files(run: Run) -> tuple[list[ImportedFile], list[Finding]]:
    """The files that the run keeps, and what is wrong with them."""
    files, faults = [], []
    for one in run.record["imported"]["files"]:
        path = run.folder / one["copy"]
        if path.resolve().parent != (run.folder / "imported").resolve() or not path.is_file():
            faults.append(Finding("fail", "imported-missing", f"{one['copy']} was imported, and is not there"))
            continue
        try:
            file = ImportedFile(one["name"], path.read_bytes(), Told.of(one["told"]))
        except (ShiftproofError, TypeError) as error:
            faults.append(Finding("fail", "imported-unreadable", f"run.json tells {one['name']} wrongly: {error}"))
            continue
        if file.sha256 != one["sha256"]:
            faults.append(Finding("fail", "imported-changed", f"{one['copy']} was changed after it was imported"))
        files.append(file)
    return files, faults


def _evidence(run: Run, imports: Imports) -> Iterator[Finding]:
    store = EvidenceStore(run.folder / "evidence")
    due = {store.path(*part.key[:2], part.probe.name, part.key[2]): part for part in imports.parts}
    there = {file.path: file for file in store.files()}
    for path in sorted({*due, *there}):
        name = "/".join(path.parts[-3:])
        if path not in there:
            yield Finding("fail", "rows-missing", f"{name}: a file that was imported gives it, and it is not there")
        elif path not in due:
            yield Finding("fail", "evidence-unexpected", f"{name}: no file that was imported gives such rows")
        else:
            found, wanted = there[path].evidence, due[path].measurement
            same = len(found) == 1 and dict(found[0].facts) == dict(wanted.facts)
            # what is not a number equals nothing, but has a hash
            if not same or hash_table(found[0].rows, b"") != hash_table(wanted.rows, b""):
                yield Finding("fail", "evidence-of-other", f"{name}: rows are not those that the imported file gives")
    known = run.record
    said = Counter((one["level"], one["code"]) for one in known["findings"])
    if said != Counter((one.level, one.code) for one in imports.findings):
        yield Finding("fail", "findings-differ", "run.json does not say what was found of the imported files")
    wanted_entries = {
        "labels": imports.class_counts,
        "classes": imports.classes,
        "fingerprints.data": imports.fingerprints,
        "hash": digest(known["config"]),
    }
    entries = {**known, "fingerprints.data": known["fingerprints"]["data"]}
    if differs := [name for name, value in wanted_entries.items() if entries[name] != value]:
        message = f"run.json does not say what follows from the imported files: {', '.join(differs)}"
        yield Finding("fail", "record-differs", message)
