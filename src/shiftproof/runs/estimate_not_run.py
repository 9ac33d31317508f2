"""What the methods of a run's published tables would take that it does not have."""

from __future__ import annotations

from collections.abc import Collection

from shiftproof.errors import DataNotFound
from shiftproof.execution import HERE, Compute, Mode
from shiftproof.report.claims import beside_published
from shiftproof.report.claims.published import Published, TableKey
from shiftproof.runs.dry_run import prepare_blank
from shiftproof.runs.estimate import StudyCost, estimate_study
from shiftproof.runs.not_run import NotRun, keep_not_run
from shiftproof.runs.run import Run
from shiftproof.runs.spec import Study
from shiftproof.runs.study_files import find_study

__all__ = ["estimate_not_run", "estimate_or_try_blank", "missing_methods"]


def missing_methods(run: Run) -> dict[TableKey, list[str]]:
    """The methods of published tables that a run does not have."""
    missing: dict[TableKey, list[str]] = {}
    for row in beside_published(run.evidence, run.study.published, run.study.only_target):
        methods = missing.setdefault((row.document, row.table, row.dataset), [])
        if row.ours is None and row.method not in methods:
            methods.append(row.method)
    return missing


def estimate_not_run(run: Run, compute: Compute = HERE, progress: Mode = "off") -> list[NotRun]:
    """Try what methods of published tables need that a run does not have, and keep in it what they would take.

    A table that another study has is estimated by that one, at its usual scale. Methods that neither has are left out.
    """
    missing, found = missing_methods(run), list[NotRun]()
    for table in run.study.published:
        study = run.study if table.study is None else find_study(table.study)
        found += _methods(study, table.key, missing.get(table.key, []), compute, progress)
    keep_not_run(run.folder, found)
    return found


def estimate_or_try_blank(
    study: Study, compute: Compute = HERE, progress: Mode = "off", models: Collection[str] | None = None
) -> StudyCost:
    """What a study takes, or some of its models; tried on blank images where its data is not here."""
    try:
        return estimate_study(study, compute, progress, models)
    except DataNotFound as error:
        return estimate_study(prepare_blank(study, error), compute, progress, models)


def _methods(study: Study, key: TableKey, missing: list[str], compute: Compute, progress: Mode) -> list[NotRun]:
    """What every missing method of a table takes in a study that has the table."""
    tables: list[Published] = [one for one in study.published if one.key == key]
    models = {name: one.model for table in tables for name, one in table.methods.items() if name in missing}
    if not models:
        return []
    costs = estimate_or_try_blank(study, compute, progress, set(models.values())).costs
    return [
        NotRun(
            *(*key, method, study.name),
            sum(one.seconds for one in costs if one.model == model),
            sum(one.most_seconds for one in costs if one.model == model),
        )
        for method, model in models.items()
    ]
