"""The form of a claim in a study: what is compared with what, the smallest effect that matters, and how sure to be."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from shiftproof.errors import ShiftproofError
from shiftproof.report.claims.sides import By, Comparison, Metric, Side, parse_metric, parse_metrics

__all__ = ["DIRECTIONS", "ByOption", "Claim", "Comparing", "MetricOption", "Other", "refuse"]

DIRECTIONS = ("above", "below", "near")
_NEEDS = re.compile(r"paper scale|data: \S.*")


def refuse(sentence: str, *path: str | int) -> PydanticCustomError:
    """An error of ours for pydantic, which knows where in the study it happened; `path` leads further in."""
    return PydanticCustomError("shiftproof", "{sentence}", {"sentence": sentence, "path": path})


def _made(make: Callable[[Any], Any]) -> PlainValidator:
    def checked(value: Any) -> Any:
        try:
            return make(value)
        except ShiftproofError as error:
            raise refuse(str(error)) from error

    return PlainValidator(checked)


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _written(names: tuple[str, ...] | None) -> str | list[str] | None:
    return None if names is None else names[0] if len(names) == 1 else list(names)


def _metrics_text(metrics: tuple[Metric, ...]) -> str:
    first = metrics[0]
    if len(metrics) == 1:
        return first.text
    norm = "" if first.norm is None else f"{first.norm}:"
    return f"{first.kind}@{norm}[{', '.join(one.asked for one in metrics)}]"


ByOption = Annotated[By, _made(By.make), PlainSerializer(By.to_config)]
MetricOption = Annotated[Metric, _made(parse_metric), PlainSerializer(lambda metric: metric.text)]
_Metrics = Annotated[tuple[Metric, ...], _made(parse_metrics), PlainSerializer(_metrics_text)]
_Names = Annotated[tuple[str, ...], BeforeValidator(_several), PlainSerializer(_written), Field(min_length=1)]
_Effect = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class _Form(BaseModel):
    """Written without what was not given."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @model_serializer(mode="wrap")
    def _without_gaps(self, write: SerializerFunctionWrapHandler) -> Any:
        return {key: value for key, value in write(self).items() if value not in (None, [])}


class Other(_Form):
    """What a claim compares with: a number, a model by its name, or what differs from the claim's own side.

    Of several models or domains, the claim is made about each.
    """

    model: _Names | None = None
    domain: _Names | None = None
    by: ByOption | None = None
    number: Annotated[float, Field(allow_inf_nan=False)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_short_forms(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"model": value}
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"number": value}
        return value

    @model_serializer(mode="wrap")
    def _short(self, write: SerializerFunctionWrapHandler) -> Any:
        if self.number is not None:
            return self.number
        return {key: value for key, value in write(self).items() if value is not None}

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        named = [key for key in ("model", "domain", "by") if getattr(self, key) is not None]
        if not named and self.number is None:
            raise refuse("it says nothing to compare with: name a number, a model, a domain or a certifier ('by')")
        if named and self.number is not None:
            raise refuse(f"it names a number and a {named[0]}; leave one of them out")
        for key in ("model", "domain"):
            names = getattr(self, key) or ()
            if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
                raise refuse(f"it names the {key} {twice[0]!r} twice", key)
        return self


class Comparing(_Form):
    """One comparison of a claim; a part takes from its claim what it does not say itself."""

    metric: _Metrics | None = None
    model: str | None = None
    domain: str | None = None
    by: ByOption | None = None
    above: Other | None = None
    below: Other | None = None
    near: Other | None = None
    effect: _Effect | None = None

    @property
    def direction(self) -> str | None:
        """above | below | near; None if it is not said."""
        return next((name for name in DIRECTIONS if getattr(self, name) is not None), None)

    @model_validator(mode="after")
    def _one_direction(self) -> Self:
        said = [name for name in DIRECTIONS if getattr(self, name) is not None]
        if len(said) > 1:
            raise refuse(f"it says both {said[0]!r} and {said[1]!r}; leave one of them out", said[1])
        return self

    def completed(self, claim: Comparing) -> Comparing:
        """With what the claim says for all its parts."""
        own = {key: getattr(self, key) for key in Comparing.model_fields if getattr(self, key) is not None}
        left = [key for key in Comparing.model_fields if key not in own]
        # a part that has a direction of its own does not take the claim's as a second one
        left = [key for key in left if self.direction is None or key not in DIRECTIONS]
        return Comparing.model_construct(**{key: getattr(claim, key) for key in left}, **own)

    def comparisons(self, domain: str | None) -> Iterator[Comparison]:
        """One for each size of the metric and each model and domain on the other side; `domain` is where none is named.

        All that is needed must have been said.
        """
        here = self.domain or domain
        assert self.metric is not None
        assert self.model is not None
        assert here is not None
        assert self.direction is not None
        assert self.effect is not None
        other: Other = getattr(self, self.direction)
        this = Side(self.model, here, self.by)
        sides: list[Side | float] = [other.number] if other.number is not None else []
        if other.number is None:
            pairs = product(other.model or (self.model,), other.domain or (here,))
            sides = [Side(*pair, other.by or self.by) for pair in pairs]
        for metric, that in product(self.metric, sides):
            yield Comparison(metric, this, self.direction, that, self.effect)


class Claim(Comparing):
    """A claim of a study, written before it runs.

    Args:
        id: Its name, such as K1.2.
        says: The claim in a sentence.
        confidence: The level of the interval that must lie beyond the effect.
        needs: Why it can't be tested here: "paper scale", or "data: CelebA"; then nothing is compared.
        for_: What that is needed for (`for` in a study).
        parts: Several comparisons, all of which must hold; each takes from the claim what it does not say itself.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, populate_by_name=True)

    id: Annotated[str, Field(min_length=1)]
    says: Annotated[str, Field(min_length=1)]
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    needs: str | None = None
    for_: str | None = Field(default=None, alias="for")
    parts: tuple[Comparing, ...] = ()

    @model_serializer(mode="wrap")
    def _as_in_a_study(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key.rstrip("_"): value for key, value in write(self).items() if value not in (None, [])}

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.needs is not None:
            self._check_needs()
            return self
        if self.for_ is not None:
            raise refuse(f"claim {self.id}: 'for' says what 'needs' is needed for, but there is no 'needs'", "for")
        for index, part in enumerate(self.completed_parts):
            place = ("parts", index) if self.parts else ()
            lacking = [key for key in ("metric", "model", "effect") if getattr(part, key) is None]
            if part.direction is None:
                lacking.append("above, below or near")
            if lacking:
                more = ": the smallest difference that matters" if lacking[0] == "effect" else ""
                raise refuse(f"claim {self.id} does not say its {lacking[0]}{more}", *place)
            if part.direction == "near" and not part.effect:
                message = f"claim {self.id}: 'near' needs an effect above 0, within which a difference does not matter"
                raise refuse(message, *place, "effect")
        return self

    def _check_needs(self) -> None:
        assert self.needs is not None
        if not _NEEDS.fullmatch(self.needs):
            message = f"it should be 'paper scale', or name data: \"data: CelebA\", not {self.needs!r}"
            raise refuse(f"claim {self.id}: needs: {message}", "needs")
        said = [key for key in (*Comparing.model_fields, "parts") if getattr(self, key)]
        if said:
            raise refuse(f"claim {self.id} can't be tested here by its 'needs'; leave that or {said[0]!r} out", said[0])

    @property
    def completed_parts(self) -> tuple[Comparing, ...]:
        """Its parts, or itself, with nothing left to be taken from the claim."""
        return tuple(part.completed(self) for part in self.parts) or (self,)

    def all_comparisons(self, domain: str | None) -> list[Comparison]:
        """All that must hold; none if it can't be tested here. `domain` is where none is named."""
        if self.needs is not None:
            return []
        return [one for part in self.completed_parts for one in part.comparisons(domain)]
