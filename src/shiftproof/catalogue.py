"""Names for methods: a catalogue finds every class that registers itself in a folder, and plug-ins by entry point.

To add a method, write one file in the folder with the registration line on top of the class; nothing else changes.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

from shiftproof.errors import UnknownName, UsageError
from shiftproof.types import Range, TextValue

__all__ = [
    "Catalogue",
    "Entry",
    "Method",
    "checked_options",
    "choices_of",
    "optional",
    "options_of",
    "ranges_of",
    "to_plain",
]

T = TypeVar("T")
C = TypeVar("C", bound=type)


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A registered class with its name and metadata (paper, content, cost)."""

    name: str
    cls: type[T]
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The first line of the class's docstring."""
        return (self.cls.__doc__ or "").strip().split("\n")[0]

    @property
    def options(self) -> dict[str, Any]:
        """Option names and defaults; a required one has the value `...`."""
        return options_of(self.cls)


class Catalogue(Generic[T]):
    """The methods of one kind, by name: `OBJECTIVES.create("erm")`, or from whatever names one: `NOISES.make(...)`.

    Modules of `package` are imported at the first look-up; entry points of `group`, unless told
    ``shiftproof.<package's last part>``, are loaded then too, so that an installed plug-in needs no configuration.

    Args:
        base: The class that every method of this kind derives from.
        default: The method that is meant by options without a name.
        example: How one is written in a study file, for errors.
    """

    def __init__(
        self, kind: str, package: str, *, group: str = "", base: type = object, default: str = "", example: str = ""
    ) -> None:
        self.kind = kind
        self.base = base
        self._package, self._default, self._example = package, default, example
        self.group = group or f"shiftproof.{package.rsplit('.', 1)[-1]}"
        self._entries: dict[str, Entry[T]] = {}
        self._complete = False

    def register(self, name: str, **metadata: str) -> Callable[[C], C]:
        """Class decorator that enters a frozen dataclass under `name`."""

        def enter(cls: C) -> C:
            known = self._entries.get(name)
            # the same class defined again (a notebook's cell run twice) replaces itself
            if known is not None and _home(known.cls) != _home(cls):
                raise UsageError(f"two {self.kind}s are called {name!r}: {known.cls.__module__} and {cls.__module__}")
            if not issubclass(cls, self.base):
                home = f"{self.base.__module__}.{self.base.__qualname__}"
                raise UsageError(f"the {self.kind} {name!r} should derive from {home}")
            if missing := sorted(getattr(cls, "__abstractmethods__", ())):
                lacks = ", ".join(map(repr, missing))
                raise UsageError(
                    f"the {self.kind} {name!r} lacks {lacks}: {cls.__qualname__} should define what is abstract"
                )
            if issubclass(cls, Method):
                cls.registered_as = name
            self._entries[name] = Entry(name, cls, metadata)  # type: ignore[arg-type]
            return cls

        return enter

    def __getitem__(self, name: str) -> Entry[T]:
        self._discover()
        if name not in self._entries:
            raise UnknownName(self.kind, name, self._entries)
        return self._entries[name]

    def __contains__(self, name: str) -> bool:
        self._discover()
        return name in self._entries

    def __iter__(self) -> Iterator[Entry[T]]:
        self._discover()
        return iter(sorted(self._entries.values(), key=lambda entry: entry.name))

    def loaded(self) -> list[Entry[T]]:
        """What is registered so far, in that order; nothing more is imported for it."""
        return list(self._entries.values())

    def create(self, name: str, options: Mapping[str, Any] | None = None) -> T:
        """Build the method called `name`; unknown and missing options get a sentence."""
        entry = self[name]
        return entry.cls(**checked_options(entry.cls, options or {}, f"{self.kind} {name!r}"))

    def make(self, value: Any) -> T:
        """The method that is meant by a method, its name, `name:first option`, or a mapping with a name and options."""
        if isinstance(value, str):
            name, colon, first = value.partition(":")
            return self.create(name, {next(iter(self[name].options), "value"): first} if colon else {})
        if isinstance(value, Mapping):
            options = {"name": self._default, **value}
            name = options.pop("name")
            if name and isinstance(name, str):
                return self.create(name, options)
        elif self.base is not object and isinstance(value, self.base):
            return value  # type: ignore[return-value]
        seen = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
        hint = (
            f"; write one as {self._example}" if self._example else f"; see: shiftproof ls {self.group.split('.')[-1]}"
        )
        raise UsageError(f"{seen} is no {self.kind}{hint}")

    def name_of(self, method: object) -> str:
        """The name under which the class of `method` is registered, or its class name if it is not."""
        self._discover()
        return next((e.name for e in self._entries.values() if e.cls is type(method)), type(method).__name__)

    def class_named(self, attribute: str) -> type[T]:
        """The registered class called `attribute` in Python (`sp.objectives.ERM`); AttributeError if there is none."""
        if not attribute.startswith("_"):
            for entry in self:
                if entry.cls.__name__ == attribute:
                    return entry.cls
        raise AttributeError(f"module {self.group!r} has no attribute {attribute!r}")

    def _discover(self) -> None:
        if self._complete:
            return
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")
        for point in entry_points(group=self.group):
            try:
                point.load()
            except Exception as error:
                raise UsageError(
                    f"the plug-in {point.name!r} can't be loaded: {type(error).__name__}: {error}"
                ) from error
        self._complete = True


def _home(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


def checked_options(cls: type, options: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Options brought to the types that the fields of the dataclass `cls` declare; `owner` is what errors call it.

    "3" is good enough for a whole number and [6, 4] for a pair: values come from YAML and command lines.
    """
    # pydantic takes a tenth of a second to import, which --help should not pay
    from pydantic import ValidationError

    known, hints = options_of(cls), _hints(cls)
    for option in options:
        if option not in known:
            raise UnknownName(f"option of {owner}:", option, known)
    checked = {}
    for option, default in known.items():
        if option in options:
            value = options[option]
            try:
                if isinstance(value, bool) and bool not in (hints[option], *get_args(hints[option])):
                    raise UsageError(f"{option} of {owner} is {value}; it takes no true or false")
                checked[option] = _adapter(cls, option).validate_python(value)
            except ValidationError as error:
                # "Input should be a valid integer, unable to parse ..."
                message = error.errors(include_url=False)[0]["msg"].split(", unable")[0]
                wanted = message.replace("Input should", "it should").replace("Value error, ", "")
                if "less than inf" in wanted or (isinstance(value, float) and not math.isfinite(value)):
                    wanted = "it should be a finite number"
                raise UsageError(f"{option} of {owner} is {value!r}; {wanted}") from error
        elif default is ...:
            raise UsageError(f"{owner} needs a value for {option!r}")
    return checked


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


@cache
def _adapter(cls: type, option: str) -> Any:
    """What checks an option; building one takes a thousand times as long as using it."""
    from pydantic import TypeAdapter

    return TypeAdapter(_hints(cls)[option])


class Method:
    """Base of everything that can be configured: a frozen dataclass whose options are checked by their annotations,
    wherever they come from, and that can be written down and made again.

    A rule between several options goes into `__post_init__`, after that of this class.
    """

    registered_as: ClassVar[str] = ""
    """The name in its catalogue; set by the registration."""

    def __post_init__(self) -> None:
        cls = type(self)
        given = {name: getattr(self, name) for name in options_of(cls)}
        for name, value in checked_options(cls, given, cls.__name__).items():
            object.__setattr__(self, name, value)

    @property
    def name(self) -> str:
        """Its name in the catalogue; that of its class, for one that is in none."""
        return str(vars(type(self)).get("registered_as") or type(self).__name__)

    def to_config(self) -> dict[str, Any]:
        """Name and options in a form that fits into JSON, from which `Catalogue.make` makes it again."""
        return {"name": self.name, **{name: to_plain(getattr(self, name)) for name in options_of(type(self))}}


if TYPE_CHECKING:
    optional = property
else:

    class optional:  # noqa: N801 - used like `property`
        """A member of a contract that has a default: like `property`, but whoever implements the contract may write
        an option (a field, with or without a default), a constant or a property of that name instead."""

        def __init__(self, default: Callable[[Any], Any]) -> None:
            self.default = default
            self.__doc__ = default.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type) -> Any:
            if instance is None:
                # or a dataclass would take it for the default of an option of that name
                raise AttributeError(f"{owner.__name__}.{self.name} is known of an instance, not of the class")
            return self.default(instance)


def to_plain(value: Any) -> Any:
    """A value of an option in a form that fits into JSON; what does not fit is written out."""
    if isinstance(value, Method):
        return value.to_config()
    if isinstance(value, TextValue):
        return value.spec
    if isinstance(value, list | tuple):
        return [to_plain(part) for part in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return f"{value.__module__}.{value.__qualname__}" if callable(value) else repr(value)


def options_of(cls: type) -> dict[str, Any]:
    """The fields of a dataclass and their defaults; a required one has the value `...`."""
    if not is_dataclass(cls):
        return {}
    defaults = {}
    for item in fields(cls):
        if item.default_factory is not MISSING:
            defaults[item.name] = item.default_factory()
        else:
            defaults[item.name] = ... if item.default is MISSING else item.default
    return defaults


def ranges_of(cls: type) -> dict[str, Range]:
    """Where to search for those options of a dataclass that say so beside their type.

    >>> from shiftproof.objectives.gaussian import Gaussian
    >>> str(ranges_of(Gaussian)["sigma"])
    '0.12..1 log'
    """
    hints = get_type_hints(cls, include_extras=True)
    found = {name: [one for one in get_args(hints[name]) if isinstance(one, Range)] for name in options_of(cls)}
    return {name: ranges[0] for name, ranges in found.items() if ranges}


def choices_of(cls: type) -> dict[str, tuple[str, ...]]:
    """The values of those options of a dataclass that take one of a few names."""
    hints = get_type_hints(cls)
    found = {name: get_args(hints[name]) for name in options_of(cls) if get_origin(hints[name]) is Literal}
    return {name: some for name, some in found.items() if all(isinstance(one, str) for one in some)}
