"""What a setting is: its type, range, choices, default, help text and option, written once at the field of its class.

A class of settings is a frozen pydantic dataclass made by :func:`settings`, and each field is a :func:`setting`. From
these come the checks of every value, wherever it was given, the sentences about values that cannot be, the TOML files,
and the options and help texts of the command line.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin

import pydantic
from annotated_types import Ge, Gt, Le, Lt
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, Strict, ValidationError

from diffgen.errors import UserError, did_you_mean

T = TypeVar("T")
_MISSING: Any = object()
NONE = "none"  # stands for None, which TOML has not
_NAMES = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a number",
    "string_type": 'text in quotation marks ("...")',
    "string_unicode": 'text in quotation marks ("...")',
}
_PLURALS = {int: "whole numbers", float: "numbers", str: "texts"}
_GIVEN = "__given__"  # attribute of every object of settings: the names of those that whoever made it gave
_PLAIN_KEY = re.compile(r"[\w-]+(\.[\w-]+)*")
_CONFIG = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class SettingError(UserError):
    """A setting that is not known, or has a value that it cannot have.

    Attributes:
        key: its full name, as in ``search.population``.
        problem: what is wrong and how to mend it, as the rest of a sentence that begins with the name.
    """

    def __init__(self, key: str, problem: str, option: str | None = None) -> None:
        super().__init__(f"The setting {key}{f' ({option})' if option else ''} {problem}")
        self.key, self.problem = key, problem

    def under(self, options: Mapping[str, str]) -> SettingError:
        """The same where the options of a verb have other names: full name of a setting -> option."""
        return SettingError(self.key, self.problem, options.get(self.key))


def _none_of_text(value: Any) -> Any:
    return None if isinstance(value, str) and value in (NONE, "auto") else value


# A value or None; TOML and options have no null, so that the texts "none" and "auto" stand for it.
Maybe = Annotated[T | None, BeforeValidator(_none_of_text)]
# The name of a file, or None; a path of pathlib is as good as text.
_PATH_AS_TEXT = BeforeValidator(lambda value: os.fspath(value) if isinstance(value, Path) else value)
FileName = Annotated[str | None, _PATH_AS_TEXT]
# Any number of values; a list is as good as a tuple.
Many = Annotated[tuple[T, ...], Strict(False)]


class _Tables(dict[str, Any]):
    """Names and plain values that are not changed, so that settings can be compared and looked up."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(repr(self))


# Tables whose classes are declared further up, beside what they are settings of: name -> plain values. In files they
# lie among the tables of the class that holds them, and :mod:`diffgen.config.plain` checks them.
OpenTables = Annotated[dict[str, dict[str, Any]], AfterValidator(_Tables)]


def setting(
    default: Any = _MISSING,
    about: str = "",
    *,
    factory: Callable[[], Any] | None = None,
    option: str | None = None,
    metavar: str | None = None,
    common: bool = False,
    brief: str = "",
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
) -> Any:
    """A field of a class of settings.

    Args:
        default: its value where nothing is said.
        about: one sentence on what it is; also its help text.
        factory: makes the default, where that is an object.
        option: the option of the command line that sets it directly; others are reached with ``--set``.
        metavar: what stands for its value in the help text of that option; where there are choices, the option then
            leaves it to the setting to refuse others.
        common: whether that option is shown by ``--help`` and not by ``--help-all`` alone.
        brief: what ``--help`` says of it, where ``about`` is too long for a line.
        ge, gt, le, lt: the range of a number: at least, above, at most, below.
    """
    given: dict[str, Any] = {"ge": ge, "gt": gt, "le": le, "lt": lt}
    given = {name: bound for name, bound in given.items() if bound is not None}
    given |= {"default": default} if factory is None else {"default_factory": factory}
    extra: dict[str, Any] = {"option": option, "metavar": metavar, "common": common, "brief": brief}
    return Field(**given, description=about, json_schema_extra=extra)


@dataclass_transform(frozen_default=True)
def settings(table: str = "") -> Callable[[type[T]], type[T]]:
    """Makes a class one of settings: frozen, with every value checked when an object is made.

    Args:
        table: name of its table among all settings, as in ``[search.drfuzz]``; "" for those at the top.

    Raises (the class, when an object is made):
        SettingError: a value that cannot be.
    """

    def make(kind: type[T]) -> type[T]:
        made: Any = pydantic.dataclasses.dataclass(frozen=True, config=_CONFIG)(kind)
        checked = made.__init__

        @functools.wraps(checked)
        def __init__(self: Any, *args: Any, **values: Any) -> None:
            placed = dict(zip(fields_of(made), args, strict=False))
            if len(placed) < len(args) or placed.keys() & values.keys():
                raise TypeError(f"{kind.__name__} takes each of its {len(fields_of(made))} settings once")
            values.update(placed)  # by name, so that an error can say which
            try:
                checked(self, **{name: _plain(value) for name, value in values.items()})
            except ValidationError as error:
                raise _said(made, error) from None
            if len(values) == len(fields_of(made)):  # a copy by dataclasses.replace, which hands on every value
                usual = {name: info.get_default(call_default_factory=True) for name, info in fields_of(made).items()}
                values = {name: value for name, value in values.items() if getattr(self, name) != usual[name]}
            object.__setattr__(self, _GIVEN, frozenset(values))

        made.__init__ = __init__
        made.__table__ = table
        return made

    return make


def replace(config: T, /, **changes: Any) -> T:
    """A settings object with other values, which count as given from then on beside those that were before.

    :func:`dataclasses.replace` loses which were given; of its copies, those that are not the default are taken to be.

    Raises:
        SettingError: a value that cannot be.
    """
    made = dataclasses.replace(config, **changes)  # type: ignore[type-var]
    if hasattr(config, _GIVEN):  # other dataclasses are copied, too
        object.__setattr__(made, _GIVEN, getattr(config, _GIVEN) | changes.keys())
    return made


def given(config: Any) -> dict[str, Any]:
    """The settings that were given when an object was made, as tables that can be put over others; not the defaults."""
    kind, made = type(config), dict[str, Any]()
    for name in fields_of(kind):
        value = getattr(config, name)
        if name == open_tables(kind):
            made |= value
        elif table_class(kind, name) is None:
            made |= {name: value} if name in getattr(config, _GIVEN) else {}
        elif inner := given(value):
            made[name] = inner
    return made


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python's; numpy itself is not imported for that."""
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () else value


@dataclass(frozen=True)
class Setting:
    """One setting as forms, files and the command line see it.

    Attributes:
        key: its full name, ``search.population``.
        kind: the type of its value without None: bool, int, float, str, a tuple, or a class with a ``parse``.
        optional: whether None is a value.
        default: where nothing is said.
        about: one sentence.
        choices: the texts that it may be, or empty: no such list.
        bounds: the range of a number, or None.
        option, metavar, common, brief: see :func:`setting`.
        is_path: whether it names a file or a folder.
    """

    key: str
    kind: Any
    optional: bool
    default: Any
    about: str
    choices: tuple[str, ...] = ()
    bounds: Bounds | None = None
    option: str | None = None
    metavar: str | None = None
    common: bool = False
    brief: str = ""
    is_path: bool = False


@dataclass(frozen=True)
class Bounds:
    """The range of a number; None for no end."""

    low: float | None = None
    high: float | None = None
    open_low: bool = False
    open_high: bool = False

    def __str__(self) -> str:
        if self.high is None or self.low is None:
            end, beyond = (self.low, "more") if self.high is None else (self.high, "less")
            text, is_open = _text(end or 0), self.open_low or self.open_high
            return f"{beyond} than {text}" if is_open else f"{text} or {beyond}"
        low, high = _text(self.low), _text(self.high)
        if self.open_low:
            return f"a number above {low} and {'below' if self.open_high else 'up to'} {high}"
        return f"a number from {low} to {'below ' if self.open_high else ''}{high}"


def _text(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"


def fields_of(kind: Any) -> dict[str, Any]:
    """The fields of a class of settings by name, as pydantic describes them."""
    found: dict[str, Any] = kind.__pydantic_fields__
    return found


def table_class(kind: Any, name: str) -> Any:
    """The class of the settings in the table ``name`` of ``kind``, or None: it is a value."""
    annotation = fields_of(kind)[name].annotation
    return annotation if is_dataclass(annotation) and hasattr(annotation, "__table__") else None


def list_class(kind: Any, name: str) -> Any:
    """The class of the settings that the list ``name`` of ``kind`` holds, or None: it is no list of tables."""
    annotation = fields_of(kind)[name].annotation
    inner = get_args(annotation)[:1] if get_origin(annotation) is tuple else ()
    return inner[0] if inner and hasattr(inner[0], "__table__") else None


def open_tables(kind: Any) -> str | None:
    """The field of ``kind`` that holds tables of other classes (:data:`OpenTables`), or None: it takes none."""
    return next((name for name, info in fields_of(kind).items() if get_origin(info.annotation) is dict), None)


def describe(kind: Any, name: str) -> Setting:
    """One setting of a class."""
    info = fields_of(kind)[name]
    annotation, optional = info.annotation, False
    if get_origin(annotation) in (Union, UnionType):
        kinds = [each for each in get_args(annotation) if each is not NoneType]
        optional, annotation = len(kinds) < len(get_args(annotation)), kinds[0]
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    choices = get_args(annotation) if get_origin(annotation) is Literal else ()
    extra = info.json_schema_extra or {}
    return Setting(
        key=_key(kind, name),
        kind=str if choices else annotation,
        optional=optional,
        default=info.get_default(call_default_factory=True),
        about=info.description or "",
        choices=choices,
        bounds=_bounds(info),
        option=extra.get("option"),
        metavar=extra.get("metavar"),
        common=bool(extra.get("common")),
        brief=str(extra.get("brief", "")),
        is_path=_PATH_AS_TEXT in info.metadata,
    )


def every_setting(kind: Any) -> Iterator[Setting]:
    """All settings of a class and of the tables in it; lists of tables and tables of other classes are left out."""
    for name in fields_of(kind):
        inner = table_class(kind, name)
        if inner is not None:
            yield from every_setting(inner)
        elif list_class(kind, name) is None and name != open_tables(kind):
            yield describe(kind, name)


def unknown(key: str, known: list[str]) -> SettingError:
    """The error about a name that no setting has."""
    shown = key if _PLAIN_KEY.fullmatch(key) else repr(key)
    return SettingError(shown, f"is not known; {did_you_mean(key.replace('-', '_'), known)}")


def _key(kind: Any, name: str) -> str:
    return f"{kind.__table__}.{name}" if kind.__table__ else name


def _bounds(info: Any) -> Bounds | None:
    low: Any = None
    high: Any = None
    open_low = open_high = False
    for each in info.metadata:
        if isinstance(each, Ge):
            low = each.ge
        elif isinstance(each, Gt):
            low, open_low = each.gt, True
        elif isinstance(each, Le):
            high = each.le
        elif isinstance(each, Lt):
            high, open_high = each.lt, True
    return None if low is None and high is None else Bounds(low, high, open_low, open_high)


def _said(kind: Any, error: ValidationError) -> SettingError:
    """The first of pydantic's errors as a sentence."""
    first = error.errors(include_url=False)[0]
    place, value, what = first["loc"], first["input"], first["type"]
    name = str(place[0]) if place else ""
    if what == "unexpected_keyword_argument" or name not in fields_of(kind):
        return unknown(_key(kind, name), [_key(kind, known) for known in fields_of(kind)])
    about = describe(kind, name)
    is_ = f"is {reprlib.repr(value)};"
    if what == "value_error":
        return SettingError(about.key, str(first["ctx"]["error"]), about.option)
    if what in ("greater_than", "greater_than_equal", "less_than", "less_than_equal"):
        example = "or leave it out" if about.default is None else f"such as {about.default:g}"
        return SettingError(about.key, f"is {value}; give {about.bounds}, {example}.", about.option)
    if what == "literal_error":
        return SettingError(about.key, f"{is_} {did_you_mean(value, about.choices, quoted=True)}", about.option)
    if what.startswith("dataclass") or (what == "tuple_type" and list_class(kind, name)):
        table = f"[[{name}]]" if list_class(kind, name) else f"[{about.key}]"
        problem = f"is {reprlib.repr(value)}, but it has settings of its own; write them in a table {table}."
        return SettingError(about.key, problem, about.option)
    wanted = _NAMES.get(what)
    if what == "tuple_type":
        wanted = f"a list of {_PLURALS[get_args(about.kind)[0]]}"
    if about.optional and len(place) == 1 and wanted in ("true or false", "a whole number", "a number"):
        wanted += ", or auto" if "auto" in (about.metavar or "") else ", or none"
    return SettingError(about.key, f"{is_} " + (f"give {wanted}." if wanted else f"{first['msg']}."), about.option)
