"""Files that others wrote, read together: the measurements that they give, and whether they go together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from shiftproof.errors import DataError, UsageError
from shiftproof.evidence import Evidence
from shiftproof.runs.identity import digest
from shiftproof.runs.imports.certificate_log import read_certificate_log
from shiftproof.runs.imports.domainbed import read_sweep
from shiftproof.runs.imports.parts import ImportedFile, Part
from shiftproof.runs.imports.recognise import kind_of
from shiftproof.runs.imports.robust_flags import read_robust_flags
from shiftproof.types import Finding

__all__ = ["Imports", "collect"]


@dataclass(frozen=True, eq=False)
class Imports:
    """What several files give together."""

    files: tuple[ImportedFile, ...]
    parts: tuple[Part, ...]

    @cached_property
    def evidence(self) -> Evidence:
        """The measurements of all of them."""
        return Evidence([part.measurement for part in self.parts])

    @property
    def domains(self) -> list[str]:
        """Names, in order of appearance."""
        return [str(name) for name in self.evidence.distinct("domain")]

    @cached_property
    def labels(self) -> dict[str, dict[str, int]]:
        """The label of every sample of each domain, as far as files tell."""
        known: dict[str, dict[str, int]] = {name: {} for name in self.domains}
        for one in self.evidence:
            if "label" in one:
                known[one.domain] |= dict(zip(one["id"].tolist(), one["label"].tolist(), strict=True))
        return known

    @cached_property
    def classes(self) -> list[str]:
        """Numbers of classes, up to the largest that is named."""
        named = [int(one[column].max()) for one in self.evidence for column in ("label", "prediction") if column in one]
        return [str(number) for number in range(max(named, default=-1) + 1)]

    @cached_property
    def class_counts(self) -> dict[str, dict[str, int]]:
        """How many samples of each class every domain has."""
        counts = {domain: Counter(labels.values()) for domain, labels in self.labels.items()}
        return {domain: {one: counts[domain][int(one)] for one in self.classes} for domain in self.domains}

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """A hash of what is known of each domain: ids and labels."""
        ids = {
            domain: sorted({one for part in self.evidence.where(domain=domain) for one in part["id"].tolist()})
            for domain in self.domains
        }
        return {domain: digest({"ids": ids[domain], "labels": self.labels[domain]}, 16) for domain in self.domains}

    @property
    def findings(self) -> list[Finding]:
        """About every file, and about files together; what is said of several in the same words is said once."""
        said: dict[tuple[str, str, str], list[tuple[str, Finding]]] = {}
        for part in self.parts:
            name = f"{part.measurement.model} on {part.measurement.domain}"
            for finding in part.findings:
                said.setdefault((finding.level, finding.code, finding.message), []).append((name, finding))
        merged = []
        for (level, code, message), named in said.items():
            names = ", ".join(dict.fromkeys(name for name, _ in named))
            who = "all that was imported" if len({n for n, _ in named}) == len(self._names) > 1 else names
            merged.append(Finding(level, code, f"{who}: {message}", named[0][1].evidence))  # type: ignore[arg-type]
        return [*merged, *self._unpaired()]

    @property
    def _names(self) -> set[tuple[str, str]]:
        return {(one.model, one.domain) for one in self.evidence}

    def _unpaired(self) -> Iterator[Finding]:
        for domain in self.domains:
            sets = [frozenset(one["id"].tolist()) for one in self.evidence.where(domain=domain)]
            if len(set(sets)) > 1:
                shared = len(frozenset.intersection(*sets))
                message = (
                    f"{domain}: files are of {min(map(len, sets)):,} to {max(map(len, sets)):,} samples, of which all "
                    f"have {shared:,}: their figures are not of the same samples"
                )
                yield Finding("warn", "not-paired", message)


def collect(files: Sequence[ImportedFile]) -> Imports:
    """The measurements of all files; refuses what can't be of one run."""
    sweep = [file for file in files if kind_of(file.name, file.content) == "domainbed"]
    if sweep and len(sweep) < len(files):
        other = next(file for file in files if file not in sweep)
        raise UsageError(f"{sweep[0].name} is of DomainBed and {other.name} is not; import each kind by itself")
    parts = read_sweep(sweep) if sweep else [part for file in files for part in _parts(file)]
    names: dict[tuple[str, str, str], str] = {}
    for part in parts:
        file = str(part.measurement.fact("imported"))
        if part.key in names:
            raise UsageError(
                f"{names[part.key]} and {file} are both called {part.key[0]!r} on {part.key[1]!r}; name each: --model "
                "a,b or --domain a,b, in the order of the files"
            )
        names[part.key] = file
    imports = Imports(tuple(files), tuple(parts))
    _check_labels(imports.evidence)
    return imports


def _parts(file: ImportedFile) -> list[Part]:
    if kind_of(file.name, file.content) == "robust-flags":
        return read_robust_flags(file)
    return [read_certificate_log(file)]


def _check_labels(evidence: Evidence) -> None:
    """Refuse files of one domain that call one sample differently: they are not of the same data."""
    known: dict[tuple[str, str], tuple[int, str]] = {}
    for one in evidence:
        if "label" not in one:
            continue
        file = str(one.fact("imported"))
        for sample, label in zip(one["id"].tolist(), one["label"].tolist(), strict=True):
            before, other = known.setdefault((one.domain, sample), (label, file))
            if before != label:
                raise DataError(
                    f"{other} and {file} are both of the domain {one.domain!r}, but sample {sample} has label {before} "
                    f"in one and {label} in the other: they are of different data. Name a domain for each file, in "
                    "their order: --domain a,b"
                )
