"""Techniques, sources of images, validity filters, causes of disagreement: all parts, diffgen's own or somebody else's.

A part says its name, the class of its settings, what it needs, and how it is made. Diffgen's own lie in the package of
their kind, one file each, and are found there by the names that they say. Others come in two ways. A Python program
gives them as classes or objects (``diffgen.compare(..., technique=MyTechnique)``); settings, run folder and report then
know them by a name with a colon, ``package.module:Class``. Or an installed package offers them as entry points of the
group ``diffgen.techniques``, ``diffgen.sources`` or ``diffgen.filters``, and they have the plain name that it gives.

Nothing is ever imported by the name of an object: a run folder may come from a stranger. Whoever goes on with such a
run gives the objects again.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from diffgen.config import CompareConfig, replace
from diffgen.config.plain import settings_among, table_name, with_table
from diffgen.config.schema import unknown
from diffgen.config.search import OWN
from diffgen.errors import UserError, did_you_mean

Need = Literal[
    "source",
    "encoder",
    "between",
    "operators",
    "discriminator",
    "labels",
    "jury",
    "auto_encoder",
    "answers",
]
Needs = frozenset[Need]
NOTHING: Needs = frozenset()


class Part:
    """What all parts have in common.

    Attributes:
        kind: "technique", "source", "filter" or "cause".
        name: by which settings name it; one of somebody else's has that of its object or entry point, whatever it says.
        Settings: class of its own settings, or None. One made by :func:`diffgen.config.schema.settings` has a table of
            its own, such as ``[search.drfuzz]``; any other dataclass has the table ``own``, such as ``[search.own]``.
        hints: need -> how it can be met or avoided, as a part of a sentence.
    """

    kind: ClassVar[Literal["technique", "source", "filter", "cause"]]
    name: ClassVar[str] = ""
    Settings: ClassVar[type[Any] | None] = None
    hints: ClassVar[Mapping[Need, str]] = {}

    @classmethod
    def table(cls) -> str:
        """Name of the table that its settings are in."""
        return table_name(cls.Settings) if hasattr(cls.Settings, "__table__") else OWN

    @classmethod
    def settings_among(cls, tables: Mapping[str, Mapping[str, Any]]) -> Any:
        """Its settings among the tables of its kind, with their defaults; None where it has no class of them.

        Raises:
            UserError: a key that it does not have, or a value that it cannot have.
        """
        if cls.Settings is None:
            return None
        if hasattr(cls.Settings, "__table__"):
            return settings_among(cls.Settings, tables)
        try:
            return cls.Settings(**tables.get(OWN, {}))
        except (TypeError, ValueError) as error:
            place = f"[{KINDS[cls.kind].table}.{OWN}]"
            raise UserError(
                f"The settings of the {cls.kind} {cls.__name__} cannot be ({error}); see {place}."
            ) from error


P = TypeVar("P", bound=Part)


@dataclass(frozen=True)
class _Place:
    """Where a kind of parts is found, and where its settings lie.

    Attributes:
        package: that holds diffgen's own; also the group of entry points.
        table, field: of the settings: ``config.search.techniques``, whose tables are ``[search.NAME]``.
        parameter: of the Python functions that takes objects.
    """

    package: str
    table: str
    field: str
    parameter: str


KINDS = {
    "technique": _Place("diffgen.techniques", "search", "techniques", "technique="),
    "source": _Place("diffgen.sources", "source", "families", "generator="),
    "filter": _Place("diffgen.filters", "filters", "filters", "filters=[...]"),
    "cause": _Place("diffgen.causes", "", "", "causes=[...]"),  # without settings
}


class Registry(Generic[P]):
    """The parts of one kind by name.

    Args:
        base: class that all of them are derived from.
    """

    def __init__(self, base: type[P]) -> None:
        self.base, self.kind, self.place = base, base.kind, KINDS[base.kind]

    def own(self) -> dict[str, type[P]]:
        """Diffgen's own, by name."""
        return _own(self.base, self.place.package)  # type: ignore[arg-type]

    def names(self) -> tuple[str, ...]:
        """All names that settings can give, sorted: diffgen's own, and those of installed packages."""
        return tuple(sorted({*self.own(), *self.offered()}))

    def lines(self) -> dict[str, str]:
        """What stands behind each of :meth:`names`: the first line of diffgen's own module, or whose package it is."""
        own = {name: str(sys.modules[each.__module__].__doc__) for name, each in self.own().items()}
        lines = {name: text.splitlines()[0].replace("``", "") for name, text in own.items()}
        others = {name: f"Of the package {_package(each)}." for name, each in self.offered().items()}
        return dict(sorted({**others, **lines}.items()))

    def offered(self) -> dict[str, metadata.EntryPoint]:
        """What installed packages offer, by name; of one name the first."""
        made: dict[str, metadata.EntryPoint] = {}
        for each in metadata.entry_points(group=self.place.package):
            if not is_object(each.name):
                made.setdefault(each.name, each)
        return made

    def find(self, name: str) -> Any:
        """What a name stands for: diffgen's own class, the object that was given, or what a package offers.

        Raises:
            UserError: there is none, the object was not given, or the package cannot be imported.
        """
        if is_object(name):
            given = in_use().of(self.kind)
            objects = dict(zip(names_of(given), given, strict=True))
            if name not in objects:
                raise UserError(
                    f"The {self.kind} {name} is an object of a Python program; give it to diffgen.compare or "
                    f"diffgen.resume with {self.place.parameter}."
                )
            return objects[name]
        if name in self.own():  # without a look at what all installed packages offer
            return self.own()[name]
        offered = self.offered()
        if name not in offered:
            known = sorted({*self.own(), *offered})
            raise UserError(f"There is no {self.kind} called {name!r}; {did_you_mean(name, known, quoted=True)}")
        entry = offered[name]
        try:
            return entry.load()
        except Exception as error:  # whatever foreign code raises when it is imported
            raise UserError(
                f"The {self.kind} {name} of {_package(entry)} cannot be loaded ({type(error).__name__}: {error}); "
                "repair or remove that package."
            ) from error

    def settings_classes(self) -> tuple[type[Any], ...]:
        """The classes of settings of diffgen's own."""
        kinds = (self.own()[name].Settings for name in sorted(self.own()))
        return tuple(dict.fromkeys(each for each in kinds if each is not None))

    def tables(self, config: CompareConfig) -> dict[str, dict[str, Any]]:
        """The tables of this kind among all settings."""
        tables: dict[str, dict[str, Any]] = getattr(getattr(config, self.place.table), self.place.field)
        return tables

    def check_tables(self, config: CompareConfig, in_use: Sequence[P | type[P]] | None) -> None:
        """See that the tables of single parts can be, those of parts that are not in use too.

        Args:
            config: holds them.
            in_use: those that run; None: not known yet, and tables that none of diffgen's own has are passed over.

        Raises:
            UserError: a table, a key or a value that cannot be.
        """
        tables = self.tables(config)
        known = {each.table(): each for each in (*self.own().values(), *(in_use or ())) if each.Settings is not None}
        for name in tables:
            if name in known:
                known[name].settings_among(tables)
            elif in_use is not None:
                place = f"[{self.place.table}.{OWN}]"
                if name != OWN:
                    raise unknown(f"{self.place.table}.{name}", [f"{self.place.table}.{each}" for each in known])
                classes = [each if isinstance(each, type) else type(each) for each in in_use]
                has = [f"[{self.place.table}.{each.table()}]" for each in classes if each.Settings is not None]
                where = f"its settings in {', '.join(has)}" if has else "no settings of its own"
                named = ", ".join(each.__name__ for each in classes) or "in use"
                raise UserError(f"The {self.kind} {named} has {where}; leave {place} out.")

    def written_out(self, config: CompareConfig, parts: Iterable[P | type[P]]) -> CompareConfig:
        """The same with every setting of these parts in the tables, also those that nobody named."""
        tables = self.tables(config)
        for each in parts:
            if hasattr(each.Settings, "__table__"):
                tables = with_table(tables, each.settings_among(tables))
        holder = replace(getattr(config, self.place.table), **{self.place.field: tables})
        return replace(config, **{self.place.table: holder})


def _package(entry: metadata.EntryPoint) -> str:
    return "a package" if entry.dist is None else entry.dist.name


@functools.cache
def _own(base: type[P], package: str) -> dict[str, type[P]]:
    """The classes of a package that are derived from ``base`` and say a name of their own."""
    made: dict[str, type[P]] = {}
    for file in pkgutil.iter_modules(importlib.import_module(package).__path__):
        module = importlib.import_module(f"{package}.{file.name}")
        for each in vars(module).values():
            if inspect.isclass(each) and issubclass(each, base) and vars(each).get("name"):
                made[each.name] = each
    return made


@dataclass(frozen=True)
class Extensions:
    """Objects that a Python program gave in place of names.

    Attributes:
        technique: a class derived from ``diffgen.Technique``, or a ``functools.partial`` of one; or None.
        generator: a family of sources, a source, or what makes one for (C, H, W); or None.
        filters: validity filters, or classes of them.
    """

    technique: Any = None
    generator: Any = None
    filters: tuple[Any, ...] = ()

    @classmethod
    def among(cls, technique: Any, generator: Any, filters: Sequence[Any] | None) -> Extensions:
        """Those of the arguments of a verb that are objects, neither names nor files."""
        return cls(
            technique=None if isinstance(technique, str) else technique,
            generator=None if isinstance(generator, str | Path) else generator,
            filters=tuple(each for each in filters or () if not isinstance(each, str)),
        )

    def of(self, kind: str) -> tuple[Any, ...]:
        """The objects of a kind of parts."""
        one = {"technique": self.technique, "source": self.generator}
        return self.filters if kind == "filter" else () if one[kind] is None else (one[kind],)

    def names(self) -> dict[str, Any]:
        """What a manifest says of them: parameter -> name."""
        given: dict[str, Any] = {"technique": self.technique, "generator": self.generator}
        named: dict[str, Any] = {kind: name_of(each) for kind, each in given.items() if each is not None}
        return {**named, **({"filters": list(names_of(self.filters))} if self.filters else {})}

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """While the block runs, names of these objects lead to them, in this thread alone."""
        before = _in_use.set(self)
        try:
            yield
        finally:
            _in_use.reset(before)

    def of_run(self, manifest: Mapping[str, Any], run: Path, verb: str = "") -> Extensions:
        """These, where a run that is gone on with was made with them.

        Args:
            manifest, run: of the run.
            verb: function of diffgen that takes them; empty: the one that resumes the run.

        Raises:
            UserError: they are not what the run was made with.
        """
        before, now = manifest.get("extensions", {}), self.names()
        for kind, parameter in (("technique", "technique="), ("generator", "generator="), ("filters", "filters=[...]")):
            if before.get(kind) == now.get(kind):
                continue
            given = "none was given" if now.get(kind) is None else f"{_listed(now[kind])} was given"
            if before.get(kind) is None:
                raise UserError(f"The run {run} was made without objects, and {given}; leave {parameter} out.")
            verb = verb or ("resume_check" if "check" in manifest else "resume")
            raise UserError(
                f"The run {run} was made with the object {_listed(before[kind])}, and {given}; give it again with "
                f"{parameter} to diffgen.{verb}."
            )
        return self


_NONE = Extensions()
_in_use: ContextVar[Extensions] = ContextVar("extensions")


def in_use() -> Extensions:
    """The objects that the verb that runs in this thread was given."""
    return _in_use.get(_NONE)


def name_of(thing: Any) -> str:
    """``package.module:Class`` of an object, or the name itself where it is one; the same in every process."""
    if isinstance(thing, str):
        return thing
    if isinstance(thing, functools.partial):
        return name_of(thing.func)
    kind = thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)
    # a spawned worker knows the script by its second name
    module = "__main__" if kind.__module__ == "__mp_main__" else kind.__module__
    return f"{module}:{kind.__qualname__}"


def names_of(things: Sequence[Any]) -> tuple[str, ...]:
    """:func:`name_of` each; of several objects of one class, with the ``name`` that each has behind it."""
    names = [name_of(each) for each in things]
    return tuple(
        f"{name}:{each.name}" if names.count(name) > 1 and is_object(name) and hasattr(each, "name") else name
        for name, each in zip(names, things, strict=True)
    )


def is_object(name: str) -> bool:
    """Whether a name stands for an object that was given."""
    return ":" in name


def _listed(names: str | Sequence[str]) -> str:
    return names if isinstance(names, str) else ", ".join(names)
