"""A study: what is trained, what is measured, and on which samples. It holds objects that are built and checked once,
whether they come from YAML, from the options of a verb or from Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from shiftproof.errors import ShiftproofError, UsageError
from shiftproof.evidence import slug
from shiftproof.execution.progress import parse_duration
from shiftproof.probes import Probe
from shiftproof.probes.clean import Clean
from shiftproof.report.claims import Claim, Published, check_claims
from shiftproof.report.claims.form import DIRECTIONS
from shiftproof.report.claims.sides import SOURCES
from shiftproof.runs.absent import Recorded
from shiftproof.runs.limits import LimitOption, PrefixOption
from shiftproof.runs.model_spec import DataOption, Member, ModelSpec, ProbeOption, Seed, refuse
from shiftproof.runs.names import Names, TargetNames
from shiftproof.runs.sources import HandedOver
from shiftproof.runs.sweeps import SweepError, expand_sweeps

__all__ = ["Study"]


class Study(BaseModel):
    """Train every model on the sources, run every probe on sources and targets, write one report.

    Args:
        target: The domain that training leaves out, or several: a name, names with commas, or a list.
        leave_out: Domains that are the target one after the other, each of a run of its own: names, or `each` for all.
        seed: Trains, and keys the draws of probes; the noise of certificates of a model that is not trained here has a
            seed of its own unless this one is given.
        seeds: Several seeds in place of one: every model is trained and measured with each.
        sample_seed: Chooses the samples that a limit takes.
        split: Which part of each domain is measured.
        limit: Samples of a domain that are measured, at most, at random; {balanced: 100} takes the same number from
            every class, 100 in all.
        budget: How much time there is ("20m"); decides how many samples all but the cheap probes measure.
        cap: How long all of it should take at most ("60m"), as `estimate` says beside what it expects; changes nothing.
        scale: Which of the scales of its file it has ("cpu", "paper"); changes nothing.
        prefix: Samples of a domain for all but the cheap probes, or how many of each domain, by name (0: none of it); a
            budget is resolved to this. Of a balanced limit they are balanced, too.
        calibration: Domains whose training samples may shape a classifier; without it, those of all sources may.
        at_top: Whether the one model lies at the top of the run's folder, as model.safetensors and model.json.
        claims: What the study says will be found, judged when all is measured; a run keeps those that it began with.
        published: Published tables that its figures are shown beside.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    name: str
    title: str = ""
    about: str = ""
    data: DataOption
    source: Names | None = None
    target: TargetNames = None
    leave_out: TargetNames = None
    seed: Seed = 0
    seeds: tuple[Seed, ...] | None = None
    sample_seed: Seed = 0
    split: Literal["all", "train", "validation", "test", "held-out"] | None = None
    limit: LimitOption = None
    budget: str | None = None
    cap: str | None = None
    scale: str | None = None
    prefix: PrefixOption = None
    calibration: Names | None = None
    at_top: bool = False
    models: dict[str, ModelSpec] = Field(min_length=1)
    probes: tuple[ProbeOption, ...] = Field(default_factory=lambda: (Clean(),), min_length=1)
    claims: tuple[Claim, ...] = ()
    published: tuple[Published, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _expand_sweeps(cls, document: Any) -> Any:
        try:
            return expand_sweeps(document)
        except SweepError as error:
            raise refuse(error, *error.path) from error

    @model_validator(mode="after")
    def _check_probes(self) -> Self:
        for name, spec in self.models.items():
            asked = self.probes_of(name)
            if len(set(map(repr, asked))) != len(asked):
                place = ("models", name, "probes") if spec.probes else ("probes",)
                raise refuse(UsageError("the same probe is listed twice"), *place)
            if spec.probes and self.budget is not None:
                why = "a budget chooses probes for all models, and this one has its own"
                raise refuse(UsageError(f"{why}; leave one of them out"), "models", name, "probes")
        return self

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        for name, spec in self.models.items():
            if both := set(spec.source or ()) & set(self.targets):
                message = f"{min(both)!r} is both source and target; a target is what training leaves out"
                raise refuse(UsageError(message), "models", name, "source")
        return self

    @model_validator(mode="after")
    def _check_leave_out(self) -> Self:
        other = next((key for key in ("target", "source") if key in self.model_fields_set and getattr(self, key)), None)
        if self.leave_out is not None and other is not None:
            why = "leave_out makes every domain that it names the target of a run, whose sources are all others"
            raise refuse(UsageError(f"{why}; leave {other} out"), "leave_out")
        if twice := [name for name in self.leave_out or () if self.leave_out and self.leave_out.count(name) > 1]:
            raise refuse(UsageError(f"{twice[0]!r} is named twice; name each domain once"), "leave_out")
        if self.leave_out is not None and (key := self._key_with_a_domain):
            why = "with leave_out, claims and published tables are about the domain that is left out"
            raise refuse(UsageError(f"{why}; leave domain out"), *key)
        return self

    @field_validator("budget", "cap")
    @classmethod
    def _a_time(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None:
            try:
                parse_duration(value, str(info.field_name))
            except ShiftproofError as error:
                raise refuse(error) from error
        return value

    @model_validator(mode="after")
    def _check_seeds(self) -> Self:
        if self.seeds is None:
            return self
        own = next((name for name, spec in self.models.items() if spec.seed is not None), None)
        problem = ""
        if len(set(self.seeds)) != len(self.seeds) or not self.seeds:
            problem = "should name at least one seed, each once"
        elif "seed" in self.model_fields_set:
            problem = "stand in place of seed; leave one of them out"
        elif own is not None:
            problem = f"train every model with each seed, but {own!r} has a seed of its own; leave one of them out"
        elif not self.trains:
            problem = "are for models that are trained, and this study trains none"
        elif self.at_top and len(self.seeds) > 1:
            problem = "make several models, and only one can lie at the top of a folder"
        if problem:
            raise refuse(UsageError(f"seeds {problem}"), "seeds")
        return self

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        """Refuse names under which two models, or a model and a network before its second phase, would share a file."""
        if self.at_top and len(self.models) > 1:
            raise refuse(UsageError("only one model can lie at the top of a folder; this study has several"), "at_top")
        files: dict[str, str] = {}
        for member in self.members:
            if (other := files.setdefault(slug(member.key), member.title)) != member.title:
                message = f"{member.title!r} would be kept where the model {other!r} goes; rename one of them"
                raise refuse(UsageError(message), "models", member.name)
        for member in self.members:
            other = files.get(slug(f"{member.key}-pretrained"), "")
            if self.models[member.name].pretrain is not None and other:
                message = f"what {member.title!r} is pre-trained to would be kept where the model {other!r} goes"
                raise refuse(UsageError(f"{message}; rename that"), "models", member.name, "pretrain")
        return self

    @model_validator(mode="after")
    def _check_claims(self, info: ValidationInfo) -> Self:
        # those of a record were checked when the run began
        if not isinstance(info.context, Recorded):
            probes = {name: self.probes_of(name) for name in self.models}
            # which domain a run leaves out is known when its data is
            target = self.leave_out[0] if self.leave_out is not None else self.only_target
            check_claims(self.claims, self.published, probes, target)
        return self

    @property
    def targets(self) -> tuple[str, ...]:
        """The domains that training leaves out, in the order in which they were named."""
        return self.target or ()

    def probes_of(self, name: str) -> tuple[Probe, ...]:
        """What is measured of a model: what the study measures of all, then what the model has besides."""
        return (*self.probes, *self.models[name].probes)

    @property
    def all_probes(self) -> tuple[Probe, ...]:
        """Every probe of the study or of a model, each once."""
        every = [*self.probes, *(probe for spec in self.models.values() for probe in spec.probes)]
        return tuple({repr(probe): probe for probe in every}.values())

    @property
    def _key_with_a_domain(self) -> tuple[str | int, ...]:
        """Where a claim or a published table names a domain, `sources` aside; nothing if none does."""
        for place, claim in enumerate(self.claims):
            for part in claim.completed_parts if claim.needs is None else ():
                others = [getattr(part, way) for way in DIRECTIONS]
                if any(side is not None and _names_domain(side.domain) for side in (part, *others)):
                    return ("claims", place)
        return next((("published", place) for place, one in enumerate(self.published) if one.domain is not None), ())

    @property
    def only_target(self) -> str | None:
        """The target, if there is one alone: what claims are about that name no domain."""
        return self.targets[0] if len(self.targets) == 1 else None

    @property
    def trains(self) -> bool:
        """Whether any model is trained."""
        return any(spec.train for spec in self.models.values())

    @property
    def members(self) -> list[Member]:
        """Every model with every seed that trains it, in order."""
        return [
            Member(name, seed)
            for name, spec in self.models.items()
            for seed in (self.seeds if spec.train and self.seeds is not None else (None,))
        ]

    def seed_of(self, member: Member) -> int:
        """The seed that trains a model."""
        own = self.models[member.name].seed
        return member.seed if member.seed is not None else self.seed if own is None else own

    @property
    def handed_over(self) -> bool:
        """Whether data or a model was handed over in Python, so that no name finds it again."""
        return isinstance(self.data, HandedOver) or any(one.model.module is not None for one in self.models.values())

    def leaving_out(self, target: str) -> Study:
        """The study of one run of a leave-one-out: this domain is the target, and all others are the sources."""
        # published figures are means over all targets
        given = {name: getattr(self, name) for name in self.model_fields_set - {"leave_out", "published"}}
        return Study.model_validate({**given, "name": f"{self.name}-without-{target}", "target": [target]})

    def with_probes(self, make: Callable[[Probe], Probe]) -> Study:
        """The same study with every probe replaced by what `make` makes of it."""
        changed = {name: tuple(map(make, spec.probes)) for name, spec in self.models.items()}
        probes = tuple(map(make, self.probes))
        if probes == self.probes and all(changed[name] == spec.probes for name, spec in self.models.items()):
            return self
        models = {name: spec.model_copy(update={"probes": changed[name]}) for name, spec in self.models.items()}
        return self.changed(probes=probes, models=models)

    def changed(self, **changes: Any) -> Study:
        """The same study with some fields changed; a field that was not given stays so."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return Study.model_validate({**given, **changes})

    def to_config(self) -> dict[str, Any]:
        """All of it with every default written out, in a form that fits into JSON and that makes it again.

        What stands in place of something else is written only where it was given.
        """
        config: Mapping[str, Any] = self.model_dump(mode="json")
        optional = {"seed", "seeds", "split", "limit", "budget", "cap", "scale", "prefix", "calibration"}
        optional |= {"source", "target", "leave_out", "claims", "published"}
        return {key: value for key, value in config.items() if key not in optional or key in self.model_fields_set}


def _names_domain(named: str | Sequence[str] | None) -> bool:
    """Whether a side of a claim is about a domain of its own; all sources of a run are none."""
    return named is not None and set([named] if isinstance(named, str) else named) != {SOURCES}
