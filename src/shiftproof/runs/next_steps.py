"""What to do after a run, by what was found: commands that can be typed, or nothing."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from shiftproof.domains.splits import Balanced
from shiftproof.report.story import Step
from shiftproof.runs.limits import limit_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from shiftproof.attacks import Attack
    from shiftproof.runs.run import Run

__all__ = ["next_steps"]

MOST = 2
"""Steps that are told."""
STEPS = 100
"""Steps of an attack that is no longer called short."""
VOTES = 10_000
"""Votes of a certificate from which more hardly lengthen its radius."""


def next_steps(run: Run, takes_target: bool = True, folder: Path | None = None) -> list[Step]:
    """At most two: what would settle a finding first, then what would check the certificates.

    `takes_target` says whether the command that made the run has the option --target; `folder` is what the run's is
    called in commands.
    """
    where = folder or run.folder
    checking = list(_checking(run, where))
    return [*list(_settling(run, takes_target, where))[: MOST - len(checking)], *checking]


def _settling(run: Run, takes_target: bool, folder: Path) -> Iterator[Step]:
    codes = {one.code for one in run.findings if one.level != "pass"}
    if {"sandwich-broken", "shift-order-broken"} & codes:
        yield Step("names the certificates that are contradicted", _verify(folder))
    if "no-target" in codes and takes_target and len(run.record["sources"]) > 1 and not run.imported:
        yield Step("say with --target which domain the model is shipped to: without one nothing is unseen")
    if {"guarantee-none", "out-of-reach"} & codes:
        yield from _more_votes(run)
    if {"undecided", "guarantee-undecided"} & codes:
        yield from _more_samples(run)
    if "short-attack" in codes:
        yield from _longer_attack(run, folder)


def _checking(run: Run, folder: Path) -> Iterator[Step]:
    certified = [one for one in run.evidence.where(probe="certify") if not one.fact("unsound")]
    if certified and not run.imported and not run.absent:
        yield Step("tries to disprove what is certified", _verify(folder))


def _more_samples(run: Run) -> Iterator[Step]:
    """Only where some were left out: a data set that was measured as a whole has no more."""
    few = [name for name, facts in run.samples.items() if facts["sampled"] != "all"]
    if few and run.study.limit is not None:
        # of several trainings, intervals also count these
        narrower = "" if len(run.study.seeds or ()) > 1 else ", intervals about half as wide"
        yield Step(f"--limit {_larger(run.study.limit)} and another --out: up to four times the samples{narrower}")


def _larger(limit: int | Balanced) -> str:
    return limit_text(Balanced(4 * limit.balanced) if isinstance(limit, Balanced) else 4 * limit)


def _more_votes(run: Run) -> Iterator[Step]:
    votes = [int(one.fact("votes") or 0) for one in run.evidence.where(probe="certify")]
    if votes and 0 < max(votes) < VOTES:
        yield Step(f"--n {VOTES} and another --out: with more noise samples than {max(votes):,} radii are larger")


def _longer_attack(run: Run, folder: Path) -> Iterator[Step]:
    """The run's own attack with more steps, on the model that withstood most; none if no file or name finds that."""
    from shiftproof.runs.models import model_file

    rows = {row.model: row.figures["attacked"] for row in run.content().overview.rows if "attacked" in row.figures}
    if not rows or run.imported or run.study.handed_over:
        return
    name = max(rows, key=lambda model: rows[model].there.value)
    measure, spec = rows[name].measure, run.study.models[name]
    attack = _attack_of(run, name, "" if measure is None else measure.norm)
    if measure is None or attack is None:
        return
    member = next(one for one in run.study.members if one.name == name)
    data = run.record["config"]["data"]
    path = f"file:{model_file(folder, run.study, member)}" if spec.train else spec.model.name
    asked = ["--data", str(data["name"]), *_set("data", data), "--model", path]
    asked += ["--threat", f"{measure.norm}:{measure.size:g}", "--attack", attack.name, "--steps", str(STEPS)]
    told = {key: value for key, value in attack.to_config().items() if value != _usual_options(attack).get(key)}
    chosen = {key: value for key, value in told.items() if key not in ("threat", "steps")}
    yield Step(f"attacks {name} for longer", shlex.join(["shiftproof", "attack", *asked, *_set("attack", chosen)]))


def _attack_of(run: Run, model: str, norm: str) -> Attack | None:
    """The attack on the model itself, in a norm of pixels, that has a number of steps."""
    from shiftproof.probes.attack import Attack as Probe

    found = [one.attack for one in run.study.probes_of(model) if isinstance(one, Probe) and one.smoothed is None]
    able = [one for one in found if "steps" in _usual_options(one)]
    return next((one for one in able if one.threat.norm == norm and norm in ("l1", "l2", "linf")), None)


def _usual_options(attack: Attack) -> dict[str, Any]:
    """Its usual options, as they are written down."""
    from shiftproof.catalogue import options_of, to_plain

    return {key: to_plain(value) for key, value in options_of(type(attack)).items()}


def _set(kind: str, options: Mapping[str, Any]) -> list[str]:
    told = {key: value for key, value in options.items() if key != "name"}
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in told.items()}
    return [part for key, text in texts.items() for part in ("--set", f"{kind}.{key}={text}")]


def _verify(folder: Path) -> str:
    return shlex.join(["shiftproof", "verify", str(folder)])
