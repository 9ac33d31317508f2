"""Names for methods: a catalogue finds every class that registers itself in a folder, and plug-ins by entry point.

To add a method, write one file in the folder with the registration line on top of the class; nothing else changes.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from importlib.metadata import entry_points
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

from shiftproof.errors import UnknownName, UsageError
from shiftproof.types import Range

__all__ = ["Catalogue", "Checked", "Entry", "checked_options", "choices_of", "options_of", "plain_options", "ranges_of"]

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
    """The methods of one kind, by name: `OBJECTIVES.create("erm")`.

    Modules of `package` are imported at the first look-up; entry points of `group`, unless told
    ``shiftproof.<package's last part>``, are loaded then too, so that an installed plug-in needs no configuration.
    """

    def __init__(self, kind: str, package: str, *, group: str = "") -> None:
        self.kind = kind
        self._package = package
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
            self._entries[name] = Entry(name, cls, metadata)
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

    def create(self, name: str, options: Mapping[str, Any] | None = None) -> T:
        """Build the method called `name`; unknown and missing options get a sentence."""
        entry = self[name]
        return entry.cls(**checked_options(entry.cls, options or {}, f"{self.kind} {name!r}"))

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
    from pydantic import TypeAdapter, ValidationError

    known, hints = options_of(cls), get_type_hints(cls, include_extras=True)
    for option in options:
        if option not in known:
            raise UnknownName(f"option of {owner}:", option, known)
    checked = {}
    for option, default in known.items():
        if option in options:
            try:
                if isinstance(options[option], bool) and bool not in (hints[option], *get_args(hints[option])):
                    raise UsageError(f"{option} of {owner} is {options[option]}; it takes no true or false")
                checked[option] = TypeAdapter(hints[option]).validate_python(options[option])
            except ValidationError as error:
                # "Input should be a valid integer, unable to parse ..."
                said = error.errors(include_url=False)[0]["msg"].split(", unable")[0]
                wanted = said.replace("Input should", "it should").replace("Value error, ", "")
                if isinstance(options[option], float) and not math.isfinite(options[option]):
                    wanted = "it should be a finite number"
                raise UsageError(f"{option} of {owner} is {options[option]!r}; {wanted}") from error
        elif default is ...:
            raise UsageError(f"{owner} needs a value for {option!r}")
    return checked


class Checked:
    """A frozen dataclass whose options are checked by their types wherever they come from, not only from files."""

    def __post_init__(self) -> None:
        cls = type(self)
        given = {name: getattr(self, name) for name in options_of(cls)}
        for name, value in checked_options(cls, given, cls.__name__).items():
            object.__setattr__(self, name, value)


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


def plain_options(method: object) -> dict[str, Any]:
    """The options of a method as they are set, in a form that fits into JSON: what does not fit is written out."""
    values = {name: getattr(method, name) for name in options_of(type(method))}
    return {name: value if _is_plain(value) else getattr(value, "spec", repr(value)) for name, value in values.items()}


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float)
