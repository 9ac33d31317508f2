"""Whether each sample withstood an attack, as AutoAttack keeps it or as an array, as evidence."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.errors import DataError, UsageError
from shiftproof.execution import parse_json
from shiftproof.perturbations.threat import Threat
from shiftproof.runs.imported import ImportedProbe
from shiftproof.runs.imports.parts import ImportedFile, Part, make_part, sampled_as
from shiftproof.types import Finding

__all__ = ["read_robust_flags"]

_KEYS = ("robust", "clean", "idx")
_HOW = "an array is one true or false a sample; .npz has 'robust' and, if known, 'clean' and 'idx'"


@dataclass(frozen=True, eq=False)
class _Flags:
    """What a file says: of every sample whether it withstood the attack, and whether it was right before."""

    robust: NDArray[np.bool_]
    clean: NDArray[np.bool_] | None = None
    ids: NDArray[np.object_] | None = None
    clean_accuracy: float | None = None
    attacks: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def read_robust_flags(file: ImportedFile) -> list[Part]:
    """Accuracy under the attack, and before it where the file says which samples were right."""
    flags, ball = _parse(file), file.told.ball
    if ball is None:
        raise UsageError(
            f"{file.name} holds robust flags, and does not say of which threat; tell it: --threat linf:8/255"
        )
    ids = np.array([str(one) for one in range(len(flags.robust))], object) if flags.ids is None else flags.ids
    sampled, _ = sampled_as(ids)
    known = {"id": ids, "seconds": np.zeros(len(ids))}
    attack = ", ".join(flags.attacks) or "an attack that is not named"
    facts: dict[str, Any] = {
        "sampled": sampled,
        "title": f"attack, {ball}",
        "threat": ball.kind,
        "norm": ball.norm,
        "units": ball.units,
        "eps": ball.eps,
        "how": f"imported, by {attack}",
        "attack": f"imported {ball.norm}, by {attack}",
    }
    probe = ImportedProbe("attack", norm=ball.norm, threat=ball.spec)
    findings = list(_findings(file, flags, ids, ball))
    parts = [make_part(file, probe, known | {"correct": flags.robust}, (), findings=findings, **facts)]
    if flags.clean is not None:
        clean = ImportedProbe("clean")
        parts.insert(0, make_part(file, clean, known | {"correct": flags.clean}, (), sampled=sampled, title="clean"))
    return parts


def _findings(file: ImportedFile, flags: _Flags, ids: NDArray[np.object_], ball: Threat) -> Iterator[Finding]:
    message = f"imported from {file.name}; the robust flags can't be checked, because no model is here to attack"
    yield Finding("warn", "cant-be-checked", message)
    if flags.left:
        message = (
            f"the evaluation had not finished: {', '.join(flags.left)} had not run, which may find more within {ball}"
        )
        yield Finding("warn", "attack-unfinished", message)
    accuracy = float(flags.robust.mean())
    if flags.clean is None:
        stated = (
            "" if flags.clean_accuracy is None else f"; the file states a clean accuracy of {flags.clean_accuracy:.1%}"
        )
        message = f"which samples were right before the attack is not in the file{stated}"
        yield Finding("warn", "clean-not-stated", message)
    if flags.clean_accuracy is not None and accuracy > flags.clean_accuracy + 1e-6:
        message = (
            f"{accuracy:.1%} of samples withstand the attack, more than the {flags.clean_accuracy:.1%} that the file "
            "says were right before it"
        )
        yield Finding("fail", "robust-above-clean", message)
    _, sentence = sampled_as(ids)
    if sentence:
        yield Finding("warn", "which-samples", sentence)
    if not file.told.held_out:
        message = "whether the samples served training or selection is not known (--held-out says that they did not)"
        yield Finding("warn", "seen-unknown", message)


def _parse(file: ImportedFile) -> _Flags:
    if file.content.startswith(b"\x93NUMPY"):
        return _Flags(_booleans(file.name, "", _numpy(file)))
    if file.content.startswith(b"PK"):
        return _from_arrays(file.name, _numpy(file))
    value = parse_json(file.content)
    if isinstance(value, list):
        return _Flags(_booleans(file.name, "", np.array(value)))
    return _from_state(file.name, value)


def _numpy(file: ImportedFile) -> Any:
    try:
        loaded = np.load(io.BytesIO(file.content), allow_pickle=False)
        return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except (ValueError, OSError, KeyError, EOFError) as error:
        raise DataError(f"{file.name} can't be read as arrays of numpy: {error}") from error


def _from_arrays(name: str, arrays: Mapping[str, Any]) -> _Flags:
    if "robust" not in arrays or set(arrays) - set(_KEYS):
        raise DataError(f"{name} has the arrays {', '.join(sorted(arrays)) or 'none'}; {_HOW}")
    robust = _booleans(name, "robust", arrays["robust"])
    clean = _booleans(name, "clean", arrays["clean"]) if "clean" in arrays else None
    ids = np.array([str(one) for one in np.ravel(arrays["idx"])], object) if "idx" in arrays else None
    for key, column in (("clean", clean), ("idx", ids)):
        if column is not None and len(column) != len(robust):
            raise DataError(f"{name}: 'robust' has {len(robust)} samples and {key!r} {len(column)}")
    if ids is not None and len(set(ids.tolist())) != len(ids):
        raise DataError(f"{name}: 'idx' names a sample twice")
    return _Flags(robust, clean, ids)


def _from_state(name: str, state: Mapping[str, Any]) -> _Flags:
    """What AutoAttack writes to its `state_path`."""
    flags = state.get("_robust_flags", state.get("robust_flags"))
    if flags is None:
        raise DataError(f"{name}: the evaluation had only begun, there are no robust flags in it")
    ran = _names(state.get("_run_attacks", state.get("_ran_attacks", ())))
    due = _names(state.get("_attacks_to_run", ()))
    accuracy = state.get("_clean_accuracy")
    known = isinstance(accuracy, int | float) and 0 <= accuracy <= 1
    return _Flags(
        _booleans(name, "_robust_flags", np.array(flags)),
        clean_accuracy=float(accuracy) if known else None,  # type: ignore[arg-type]
        attacks=tuple(sorted(ran)),
        left=tuple(sorted(due - ran)),
    )


def _names(value: Any) -> set[str]:
    """Names of attacks: a list, or a set as Python prints it, which is what is written of one."""
    return set(re.findall(r"'([\w-]+)'", value)) if isinstance(value, str) else {str(one) for one in value or ()}


def _booleans(name: str, key: str, values: Any) -> NDArray[np.bool_]:
    """One true or false a sample."""
    array, what = np.asarray(values), f"{name}, {key}" if key else name
    good = array.ndim == 1 and len(array) > 0 and (array.dtype == bool or np.issubdtype(array.dtype, np.number))
    if not good or not np.isin(array, (0, 1)).all():
        raise DataError(f"{what} has shape {array.shape} and type {array.dtype}; {_HOW}")
    return array.astype(bool)
