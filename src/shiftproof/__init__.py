"""Robustness you can prove, on the domain you ship to.

>>> import shiftproof as sp
>>> sources, target = sp.load_domains("colored-digits").leave_out("e=0.9")
>>> fit = sp.train(sp.build_model("mlp", sources), sources, sp.objectives.ERM(), recipe={"steps": 50})
>>> fit.selected.step
50
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shiftproof import attacks, errors, objectives, statistics, testing, theory
    from shiftproof.attacks import attack
    from shiftproof.certification import Certificates, certifiers, certify
    from shiftproof.domains import Domain, Domains, held_out, load_domains, validate
    from shiftproof.evidence import metrics
    from shiftproof.models import Normalized, SplitModel, build_model, load_model, save_model
    from shiftproof.perturbations import Threat, corrupt, noise
    from shiftproof.runs import Run, audit, compare, open_run, run_study, shift
    from shiftproof.training import train
    from shiftproof.types import Batch, Loss

__all__ = [
    "Batch",
    "Certificates",
    "Domain",
    "Domains",
    "Loss",
    "Normalized",
    "Run",
    "SplitModel",
    "Threat",
    "attack",
    "attacks",
    "audit",
    "build_model",
    "certifiers",
    "certify",
    "compare",
    "corrupt",
    "errors",
    "held_out",
    "load_domains",
    "load_model",
    "metrics",
    "noise",
    "objectives",
    "open_run",
    "run_study",
    "save_model",
    "shift",
    "statistics",
    "testing",
    "theory",
    "train",
    "validate",
]

# torch takes seconds to import; a name is looked up where it lives when it is first used
_HOMES = {
    "Batch": "types",
    "Certificates": "certification",
    "Domain": "domains",
    "Domains": "domains",
    "Loss": "types",
    "Normalized": "models",
    "Run": "runs",
    "SplitModel": "models",
    "Threat": "perturbations",
    "attack": "attacks",
    "audit": "runs",
    "build_model": "models",
    "certify": "certification",
    "compare": "runs",
    "corrupt": "perturbations",
    "held_out": "domains",
    "load_domains": "domains",
    "load_model": "models",
    "open_run": "runs",
    "run_study": "runs",
    "save_model": "models",
    "shift": "runs",
    "train": "training",
    "validate": "domains",
}


# modules that users know under a shorter name
_MODULES = {"certifiers": "certification.certifiers", "metrics": "evidence.metrics", "noise": "perturbations.noise"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"shiftproof.{_HOMES[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"shiftproof.{_MODULES.get(name, name)}")
    raise AttributeError(f"module 'shiftproof' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
