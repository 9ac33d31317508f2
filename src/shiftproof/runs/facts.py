"""How a run was made, in words: what the last part of its report says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shiftproof.catalogue import Method, options_of, to_plain
from shiftproof.models.heads import Head
from shiftproof.report.privacy import short_command, short_source
from shiftproof.runs.absent import Absent
from shiftproof.runs.imported import ImportedData, ImportedProbe, describe_imported
from shiftproof.runs.spec import Study

__all__ = ["describe", "describe_data", "facts_of", "facts_of_all"]


def facts_of(study: Study, record: dict[str, Any], samples: dict[str, dict[str, Any]], took: str) -> dict[str, str]:
    """Study, data, models, hashes, cost and machine by name; `samples` are what was measured of each domain."""
    environment = record["environment"]
    packages = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    machine = "{system}, {cores} cores, {threads} threads, accelerator {accelerator}".format(**environment)
    kept = {
        name: [record["selected"].get(member.key) for member in study.members if member.name == name]
        for name in record["config"]["models"]
    }
    return {
        # runs of before have no date
        **({"date": str(record["started"]).replace("T", " ")} if "started" in record else {}),
        "study": f"{study.name}, {_seeds(study)}{_noise(study, record)}, hash {record['hash']}",
        "data": f"{describe_data(study)}; {_roles(study, record['sources'])}",
        **_files(record),
        **{f"model {name}": _describe(config, kept[name]) for name, config in record["config"]["models"].items()},
        "weights": _hashes(record["fingerprints"]["weights"]),
        "samples": _hashes(record["fingerprints"]["data"]),
        "measured by": "; ".join(map(describe, study.all_probes)),
        "measured": _which(study, samples),
        "split": record["protocol"]["split"],
        "took": took,
        "run again": _again(study, record),
        "computed with": f"Python {environment['python']}, {packages}",
        "on": machine,
    }


def describe_data(study: Study) -> str:
    """The data by its name, and what was asked of it besides."""
    data = study.data
    usual = {} if isinstance(data, ImportedData) else options_of(type(data))
    told = [f"{key} {value}" for key, value in data.to_config().items() if key in usual and value != usual[key]]
    return f"{short_source(data.source)} ({', '.join(told)})" if told else short_source(data.source)


def facts_of_all(facts: Mapping[str, str], study: Study, targets: Sequence[str]) -> dict[str, str]:
    """What runs of one study that leave out one domain each have in common; `facts` are those of the first."""
    models = {key: told.partition("; kept step")[0] for key, told in facts.items() if key.startswith("model ")}
    data = {"data": f"{describe_data(study)}; left out in turn: {', '.join(targets)}", "trained with": _seeds(study)}
    alike = ("measured by", "split", "computed with", "on")
    return data | models | {key: facts[key] for key in alike if key in facts}


def describe(method: Method) -> str:
    """A method with its numbers and what it was told: how hard an attack tried, how many votes a certificate has."""
    if isinstance(method, ImportedProbe):
        return describe_imported(method)
    if isinstance(method, Absent):
        return f"{method.name} (the {method.missing} is not installed)"
    usual = options_of(type(method))
    told = {name: getattr(method, name) for name in usual}
    shown = {
        name: value
        for name, value in told.items()
        if value not in (None, (), "") and (isinstance(value, Method) or value != usual[name] or _is_count(value))
    }
    options = ", ".join(f"{name} {_short(value)}" for name, value in shown.items())
    return f"{method.name} ({options})" if options else method.name


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 1


def _roles(study: Study, sources: Sequence[str]) -> str:
    """What the domains were for: trained on and left out, or, where the run trains nothing, only measured."""
    names, targets = ", ".join(sources), ", ".join(study.targets)
    if isinstance(study.data, ImportedData):
        several = "; ".join(f"{role} {some}" for role, some in (("domains", names), ("targets", targets)) if some)
        return f"{several}; nothing was measured in this run"
    if study.trains:
        return f"trained on {names}; {f'left out: {targets}' if targets else 'no domain was left out'}"
    several = "targets" if len(study.targets) > 1 else "target"
    domains = f"the sources {names} and the {several} {targets}" if targets else names
    return f"measured on {domains}; nothing was trained in this run"


def _files(record: Mapping[str, Any]) -> dict[str, str]:
    """The files that a run was made of, with their hashes."""
    files = (record.get("imported") or {}).get("files", [])
    more = f"; and {len(files) - 12} more, which run.json lists" if len(files) > 12 else ""
    named = "; ".join(f"{one['name']} (sha256 {one['sha256'][:16]})" for one in files[:12])
    return {"files": f"{named}{more}"} if files else {}


def _seeds(study: Study) -> str:
    return f"seed {study.seed}" if study.seeds is None else f"seeds {', '.join(map(str, study.seeds))}"


def _again(study: Study, record: Mapping[str, Any]) -> str:
    """The command that makes the run again, with the seed that was drawn for its noise."""
    typed = str(record.get("command") or "")
    if not typed:
        return f"made in Python; run.json holds the study {study.name!r} with all that was asked"
    drawn = not study.trains and "seed" not in study.model_fields_set and "noise_seed" in record
    seed = f" --seed {record['noise_seed']}" if drawn and not isinstance(study.data, ImportedData) else ""
    return f"{short_command(typed)}{seed}"


def _noise(study: Study, record: dict[str, Any]) -> str:
    """The seed of noise, where it is not the study's."""
    own = any(not spec.train for spec in study.models.values()) and not isinstance(study.data, ImportedData)
    return f", seed of the noise {record['noise_seed']}" if own and "noise_seed" in record else ""


def _which(study: Study, samples: dict[str, dict[str, Any]]) -> str:
    """Which samples of each domain were measured, in words."""
    if isinstance(study.data, ImportedData):
        return "; ".join(f"{domain}: {one['n']:,} rows, {one['sampled']}" for domain, one in samples.items())
    drawn = f"at random by sample seed {study.sample_seed}"
    chosen = {"all": "", "balanced": f", as many of every class as there are, {drawn}"}
    return "; ".join(
        f"{domain}: {one['n']:,} of {one['split']}{chosen.get(one['sampled'], f', {drawn}')}"
        for domain, one in samples.items()
    )


def _hashes(known: Mapping[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in known.items()) or "-"


def _short(value: Any) -> str:
    if isinstance(value, Method):
        return describe(value)
    return ", ".join(map(_short, value)) if isinstance(value, list | tuple) else str(to_plain(value))


def _describe(config: dict[str, Any], selected: Sequence[dict[str, Any] | None]) -> str:
    kept = [one for one in selected if one is not None]
    if not config.get("train", True) or not kept:
        return f"{short_source(config['model']['name'])}, as it is"
    usual = options_of(Head)
    options = {k: v for k, v in config["model"].items() if k != "name" and (k not in usual or v != usual[k])}
    network = ", ".join([short_source(config["model"]["name"]), *(f"{k}={v}" for k, v in options.items())])
    first = config.get("pretrain")
    steps = ", ".join(str(one["step"]) for one in kept)
    before = f"; pre-trained on {short_source(first['data']['name'])}: {_describe_training(first)}" if first else ""
    return f"{network}{before}; {_describe_training(config)}; kept step {steps} by {kept[0]['rule']}"


def _describe_training(config: dict[str, Any]) -> str:
    recipe, objective = config["recipe"], config["objective"]
    # a temperature of 1 is none
    told = {
        name: value for name, value in objective.items() if name != "name" and (name, value) != ("temperature", 1.0)
    }
    options = ", ".join(f"{name} {_short(value)}" for name, value in told.items())
    method = f"{objective['name']} ({options})" if options else objective["name"]
    part = " of the head alone" if recipe.get("part") == "head" else ""
    ends = {"plateau": "until a plateau", "patience": "until the validation loss no longer falls"}
    until = ends.get(recipe.get("until", "steps"))
    length = f"at most {recipe['epochs']} epochs {until}, steps" if until else f"{recipe['steps']} steps"
    return f"{method}, {recipe['optimiser']} lr {recipe['lr']:g}, {length}{part} of {recipe['batch']} samples a domain"
