"""Techniques, generators and filters that are not diffgen's own.

They come in two ways. A Python program gives them as objects (``diffgen.compare(..., technique=MyTechnique)``);
settings, run folder and report then know them by a name with a colon, ``package.module:Class``. Or an installed package
offers them as entry points of the group ``diffgen.techniques``, ``diffgen.generators`` or ``diffgen.filters``, and they
have the plain name that it gives them.

Nothing is ever imported by the name of an object: a run folder may come from a stranger. Whoever goes on with such a
run gives the objects again.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from diffgen.errors import UserError

Kind = Literal["technique", "generator", "filter"]
_PARAMETERS: dict[Kind, str] = {"technique": "technique=", "generator": "generator=", "filter": "filters=[...]"}


@dataclass(frozen=True)
class Extensions:
    """Objects that a Python program gave in place of names.

    Attributes:
        technique: a class derived from ``diffgen.Technique``, or a ``functools.partial`` of one; or None.
        generator: a source of images, or what makes one for (C, H, W); or None.
        filters: validity filters, or what makes one.
        offer: name under which an installed package offers the generator, where it is no object.
    """

    technique: Any = None
    generator: Any = None
    filters: tuple[Any, ...] = ()
    offer: str | None = None

    @classmethod
    def among(cls, technique: Any, generator: Any, filters: Sequence[Any] | None) -> Extensions:
        """Those of the arguments of a verb that are objects, not names; and a generator that a package offers.

        Raises:
            UserError: the package cannot be imported.
        """
        offer = None
        if isinstance(generator, str | Path):
            # a file of that name comes first
            offer = str(generator) if str(generator) in offered("generator") and not Path(generator).exists() else None
            generator = None if offer is None else load("generator", offer)
        return cls(
            technique=None if isinstance(technique, str) else technique,
            generator=generator,
            filters=tuple(each for each in filters or () if not isinstance(each, str)),
            offer=offer,
        )

    def names(self) -> dict[str, Any]:
        """What a manifest says of them: kind -> name."""
        found: dict[str, Any] = {"technique": self.technique, "generator": self.generator}
        named: dict[str, Any] = {kind: name_of(each) for kind, each in found.items() if each is not None}
        if self.offer is not None:
            named["generator"] = self.offer
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
        """Those that a run goes on with: these, and the generator of a package that it was made with.

        Args:
            manifest, run: of the run.
            verb: function of diffgen that takes them; empty: the one that resumes the run.

        Raises:
            UserError: they are not what the run was made with, or the package is gone.
        """
        before = manifest.get("extensions", {})
        offer = before.get("generator")
        if self.generator is None and offer is not None and not is_object(offer):
            return replace(self, generator=load("generator", offer), offer=offer).of_run(manifest, run, verb)
        now = self.names()
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


def missing_object(kind: Kind, name: str) -> UserError:
    """What is wrong where the name of an object is used and the object is not there."""
    return UserError(
        f"The {kind} {name} is an object of a Python program; give it to diffgen.compare or diffgen.resume with "
        f"{_PARAMETERS[kind]}."
    )


def offered(kind: Kind) -> dict[str, metadata.EntryPoint]:
    """What installed packages offer, by name; of one name the first."""
    found: dict[str, metadata.EntryPoint] = {}
    for each in metadata.entry_points(group=f"diffgen.{kind}s"):
        if not is_object(each.name):
            found.setdefault(each.name, each)
    return found


def load(kind: Kind, name: str) -> Any:
    """What an installed package offers under a name.

    Raises:
        UserError: no package does, or it cannot be imported.
    """
    entry = offered(kind).get(name)
    if entry is None:
        raise UserError(f"No installed package offers the {kind} {name}; install the one that did.")
    try:
        return entry.load()
    except Exception as error:  # whatever foreign code raises when it is imported
        package = "a package" if entry.dist is None else entry.dist.name
        raise UserError(
            f"The {kind} {name} of {package} cannot be loaded ({type(error).__name__}: {error}); repair or remove that "
            "package."
        ) from error


def _listed(names: str | Sequence[str]) -> str:
    return names if isinstance(names, str) else ", ".join(names)
