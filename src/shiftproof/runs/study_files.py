"""Study files: found by name or path, read with line numbers, answered with a sentence when they are wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from shiftproof.catalogue import options_of
from shiftproof.errors import StudyError, UnknownName, UsageError, suggestion
from shiftproof.models.heads import Head
from shiftproof.models.networks.architecture import Front
from shiftproof.objectives import Recipe
from shiftproof.report.claims.form import DIRECTIONS, Claim, Comparing, Other
from shiftproof.report.claims.published import Published, PublishedMethod
from shiftproof.report.privacy import short_source
from shiftproof.runs.absent import Recorded
from shiftproof.runs.model_spec import ModelSpec, Pretrain
from shiftproof.runs.scales import choose_scale
from shiftproof.runs.spec import Study
from shiftproof.runs.sweeps import put
from shiftproof.runs.yaml_files import Refused, parse_yaml

__all__ = ["apply_override", "find_study", "list_studies", "parse_study", "validated"]

Location = tuple[str | int, ...]
_MOST_KEYS = 8
"""Keys with dots between them that --set takes; no option lies deeper."""


def list_studies() -> dict[str, Path]:
    """The studies that come with shiftproof, by name."""
    folder = Path(str(files("shiftproof.runs"))) / "library"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_study(name: str, overrides: Iterable[str] = (), scale: str | None = None) -> Study:
    """A study by name, or from a YAML file, at one of its scales; without a name, the first.

    `overrides` are texts such as `models.erm.training.steps=50`.
    """
    known = list_studies()
    path = known.get(name, Path(name))
    if name not in known and path.suffix not in (".yaml", ".yml"):
        raise UnknownName("study", name, [*known, "path/to/study.yaml"])
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"can't read the study {path}: {getattr(error, 'strerror', None) or error}") from error
    if name in known:
        return parse_study(text, f"study {name}", path.stem, overrides, scale=scale)
    return parse_study(text, str(path), path.stem, overrides, path.parent, scale)


def parse_study(
    text: str,
    shown: str,
    name: str,
    overrides: Iterable[str] = (),
    base: Path | None = None,
    scale: str | None = None,
) -> Study:
    """A study from YAML; `shown` is what errors call the file, and paths in it start at `base`."""
    try:
        root, document = parse_yaml(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        what = "can't be read" if isinstance(error, Refused) else "not valid YAML"
        raise StudyError(f"{shown}{line}: {what}: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(document, dict):
        raise StudyError(f"{shown}: a study is a mapping of keys to values; see 'shiftproof ls studies' for examples")
    lines = _lines(root, shown)
    try:
        document = choose_scale(document, scale)
    except UsageError as error:
        raise StudyError(f"{_place(('scales',), shown, lines)}: {error}") from error
    if base is not None:
        _start_paths_at(base, document)
    _check_other_studies(document, shown, lines)
    written, changes = _data_name(document), list(overrides)
    for override in changes:
        _override_all_models(document, override)
    document.setdefault("name", name)
    if changes:
        _tell_changes(document, changes, written)
    return validated(document, shown, lines)


def _data_name(document: Mapping[str, Any]) -> str:
    data = document.get("data")
    return str(data.get("name") if isinstance(data, Mapping) else data)


def _tell_changes(document: dict[str, Any], changes: Sequence[str], data: str) -> None:
    """Say first what differs from the file, whose description stays as it is. Of other data, nothing was published."""
    # what names a folder of this machine is told in short, as everywhere in a report
    told = [f"{key}={short_source(value)}" for key, _, value in (one.partition("=") for one in changes)]
    first = f"Changed from the study as it is written, and as the rest of this describes it: {', '.join(told)}."
    if _data_name(document) != data and document.get("published"):
        document.pop("published")
        first += f" Published figures are of {data}, and are left out."
    about = document.get("about")
    document["about"] = f"{first} {about.strip()}" if isinstance(about, str) and about.strip() else first


def validated(
    document: dict[str, Any], shown: str, lines: dict[Location, int] | None = None, recorded: Recorded | None = None
) -> Study:
    """The study that `document` says, or one sentence about the first thing that is wrong with it.

    Of a study that a run has `recorded`, what is not installed is kept as it is written there.
    """
    lines = lines or {}
    try:
        study = Study.model_validate(document, context=recorded)
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        raise StudyError(_sentence(details["loc"], details, shown, lines)) from error
    return study


def apply_override(document: dict[str, Any], override: str) -> None:
    """Put `a.b.c=value` into a nested mapping; the value is read as YAML. A plain text on the way becomes its name."""
    path, equals, text = override.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or not all(keys):
        raise UsageError(f"--set {_short(override)} should read key.key=value, such as --set training.steps=200")
    if len(keys) > _MOST_KEYS:
        raise UsageError(f"--set {_short(override)} names {len(keys)} keys inside each other; no option lies so deep")
    value = _read_value(override, text)
    put(document, keys, value)


def _read_value(override: str, text: str) -> Any:
    """The value behind --set key=, read as YAML."""
    try:
        return parse_yaml(text)[1]
    except Refused as error:
        raise UsageError(f"--set {_short(override)}: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"--set {_short(override)}: not a value that YAML can read") from error


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def _override_all_models(document: dict[str, Any], override: str) -> None:
    """`training.steps=50` is for every model; anything else says from the top where it goes.

    Of a study in which some models are pre-trained, `pretrain.training.steps=50` is for those.
    """
    models = document.get("models")
    before, key = _swept_values(document), override.split("=")[0].split(".")[0]
    if key in set(ModelSpec.model_fields) - set(Study.model_fields) and isinstance(models, dict):
        # what is measured as it is has no training to change
        specs = [spec for spec in models.values() if isinstance(spec, dict) and spec.get("train", True)]
        having = [spec for spec in specs if key in spec] if key == "pretrain" else []
        for spec in having or specs:
            apply_override(spec, override)
    else:
        apply_override(document, override)
    after = _swept_values(document)
    for place, value in before.items():
        if place in after and after[place] != value:
            raise UsageError(
                f"--set {_short(override)} would have no effect on {place[0]!r}, which is trained with several values "
                f"of {place[1]} (vary); change that in a copy of the study"
            )


def _swept_values(document: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """What a study says of options that a sweep sets again, by model and option."""
    models, shared = document.get("models"), document.get("vary")
    found: dict[tuple[str, str], Any] = {}
    for name, spec in models.items() if isinstance(models, dict) else ():
        own = spec.get("vary") if isinstance(spec, dict) else None
        for option in {**(shared if isinstance(shared, dict) else {}), **(own if isinstance(own, dict) else {})}:
            value: Any = spec
            for key in str(option).split("."):
                value = value.get(key) if isinstance(value, dict) else None
            found[str(name), str(option)] = value
    return found


def _start_paths_at(base: Path, document: dict[str, Any]) -> None:
    """Relative paths of folder:, table:, file: and hf: mean a place beside the study, from wherever it is used."""

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {**value, "name": moved(value.get("name"))} if "name" in value else value
        for kind in ("folder:", "table:", "file:"):
            if isinstance(value, str) and value.startswith(kind):
                return f"{kind}{(base / value.removeprefix(kind)).resolve()}"
        if isinstance(value, str) and value.startswith("hf:") and (base / value[3:]).is_dir():
            return f"hf:{(base / value[3:]).resolve()}"
        return value

    if "data" in document:
        document["data"] = moved(document["data"])
    for table in _other_studies(document).values():
        if table["study"].endswith((".yaml", ".yml")):
            table["study"] = str((base / table["study"]).resolve())
    models = document.get("models")
    models = models if isinstance(models, dict) else {}
    for name, spec in models.items():
        if isinstance(spec, dict):
            # not in place: what YAML aliases share would move twice
            models[name] = spec = {key: moved(value) if key == "model" else value for key, value in spec.items()}
            phase = spec.get("pretrain")
            if isinstance(phase, dict) and "data" in phase:
                spec["pretrain"] = {**phase, "data": moved(phase["data"])}


def _other_studies(document: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Published tables that another study has, by their place."""
    tables = document.get("published")
    named = enumerate(tables) if isinstance(tables, list) else ()
    return {place: one for place, one in named if isinstance(one, dict) and isinstance(one.get("study"), str)}


def _check_other_studies(document: dict[str, Any], shown: str, lines: dict[Location, int]) -> None:
    """Refuse a published table of a study that there is not: it would be looked for when all else is done."""
    for place, table in _other_studies(document).items():
        known, name = list_studies(), table["study"]
        if name not in known and not (name.endswith((".yaml", ".yml")) and Path(name).is_file()):
            where = _place(("published", place, "study"), shown, lines)
            raise StudyError(f"{where}: {UnknownName('study', name, [*known, 'path/to/study.yaml'])}")


def _lines(root: yaml.Node | None, shown: str) -> dict[Location, int]:
    """The line of every key; a key given twice is an error, because YAML would forget the first in silence."""
    lines: dict[Location, int] = {}

    def walk(node: yaml.Node | None, location: Location) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                place = (*location, str(key.value))
                if place in lines:
                    raise StudyError(f"{shown}, line {key.start_mark.line + 1}: the key {key.value!r} is given twice")
                lines[place] = key.start_mark.line + 1
                walk(value, place)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                lines[*location, index] = item.start_mark.line + 1
                walk(item, (*location, index))

    walk(root, ())
    return lines


def _written(location: Location, lines: dict[Location, int]) -> Location:
    """Where in the file something stands; a model of a sweep stands where the sweep does."""
    if location[:1] != ("models",) or len(location) < 2 or location[:2] in lines:
        return location
    names = [place[1] for place in lines if place[:1] == ("models",) and len(place) == 2]
    swept = [name for name in names if str(location[1]).startswith(f"{name}, ")]
    return ("models", max(swept, key=lambda name: len(str(name))), *location[2:]) if swept else location


def _place(location: Location, shown: str, lines: dict[Location, int]) -> str:
    location = _written(location, lines)
    while location and location not in lines:
        location = location[:-1]
    return f"{shown}, line {lines[location]}" if location else shown


def _sentence(location: Location, details: Any, shown: str, lines: dict[Location, int]) -> str:
    if details["type"] == "shiftproof":
        problem = details["ctx"]
        return f"{_place((*location, *problem['path']), shown, lines)}: {problem['sentence']}"
    place, key = _place(location, shown, lines), str(location[-1]) if location else ""
    dotted = ".".join(str(part) for part in location)
    if details["type"] == "extra_forbidden":
        of_model = [*options_of(Front), *options_of(Head)]
        inner = {**dict.fromkeys(options_of(Recipe), "training"), **dict.fromkeys(of_model, "model")}
        hint = f"Did you mean '{inner[key]}.{key}'?" if key in inner else suggestion(key, _keys_at(location[:-1]))
        return f"{place}: unknown key {key!r}. {hint}"
    if details["type"] in ("model_type", "model_attributes_type"):
        return f"{place}: {dotted} should be a name, or a mapping with its keys, not {details['input']!r}"
    if details["type"] == "missing":
        return f"{place}: the key {dotted!r} is missing"
    return f"{place}: {dotted}: {details['msg'][0].lower() + details['msg'][1:]}, not {details['input']!r}"


def _keys_at(location: Location) -> list[str]:
    if location[:1] == ("claims",):
        side = Other if location[-1] in DIRECTIONS else Comparing if "parts" in location else Claim
        return [name.rstrip("_") for name in side.model_fields]
    if location[:1] == ("published",):
        return list((PublishedMethod if "methods" in location else Published).model_fields)
    schema: type[BaseModel] = ModelSpec if location[:1] == ("models",) else Study
    return list((Pretrain if location[2:3] == ("pretrain",) else schema).model_fields)
