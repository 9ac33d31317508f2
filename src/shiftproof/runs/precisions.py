"""Whether votes in bf16 would come faster, said beside what a command costs; nothing is chosen by it."""

from __future__ import annotations

from collections.abc import Iterable

from shiftproof.certification.checks import reference_inputs
from shiftproof.certification.sampling.setting import Setting
from shiftproof.errors import ModelError
from shiftproof.execution import bf16_problem, single_threaded
from shiftproof.models import NetworkBlueprint
from shiftproof.models.prepared.precisions import compare_precisions
from shiftproof.models.reference import Reference
from shiftproof.probes import Probe
from shiftproof.probes.certify import Certify
from shiftproof.runs.prepare import Prepared
from shiftproof.runs.trial import trial_domain

__all__ = ["describe_bf16", "describe_precisions"]

TRIED_MODEL, TRIED_SHAPE, TRIED_CLASSES = "cnn", (3, 32, 32), 10


def describe_bf16() -> str:
    """How fast bf16 is on this machine, by a small network; it has to work here."""
    model = NetworkBlueprint(TRIED_MODEL, TRIED_SHAPE, TRIED_CLASSES).build().eval()
    speeds = compare_precisions(model, TRIED_SHAPE)
    return f"bfloat16 (--precision bf16) works, and runs {TRIED_MODEL} {speeds.verdict}"


def describe_precisions(prepared: Prepared, probes: Iterable[Probe]) -> str:
    """The same of the one model of a study, if `probes` certify it by votes; "" of any other study."""
    settings = [
        certifier
        for probe in probes
        if isinstance(probe, Certify)
        for certifier in probe.certifiers
        if isinstance(certifier, Setting)
    ]
    if not settings or len(prepared.models) != 1 or len(prepared.study.models) != 1:
        return ""
    if bf16_problem() is not None:
        return "bf16 does not work on this machine; shiftproof doctor says why."
    ((name, model),) = prepared.models.items()
    few = trial_domain(prepared.data.measured)
    try:
        with single_threaded():
            reference = Reference.of(model.eval(), reference_inputs(few, settings[0].noise.scale))
        speeds = compare_precisions(model, few.shape, reference)
    except (RuntimeError, ModelError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        return f"{name} does not run in bf16: {reason}"
    return f"In bf16 (certify --precision bf16) {name} runs {speeds.verdict}. Nothing is chosen by that."
