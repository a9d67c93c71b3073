"""What the classes are called: names in a file's metadata, and the map between the classes of two models."""

from __future__ import annotations

import ast
import csv
import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from diffgen.errors import UserError
from diffgen.home import expanded
from diffgen.models.wording import counted, spoken_list
from diffgen.runs.opening import read_text

# Ultralytics writes "names", others the rest.
_KEYS = ("names", "class_names", "classes", "labels", "class_labels")
_LONGEST = 1 << 20
_SHOWN = 3
_FEWEST = 1  # of a detector
_BACKGROUND = "background"

Background = Literal["none", "first", "last"]  # which of a model's values is for none of the classes


def is_name(text: str) -> bool:
    """Whether a text can stand for a class on the screen, in a table and in a report."""
    return bool(text.strip()) and text.isprintable()


def names_from_metadata(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """Class names in the metadata of an ONNX file, or none; a single one, of a detector, only as Ultralytics writes it.

    They may be a list or a dict from numbers to names, as JSON or as Python prints it, or text between commas.
    """
    for key in _KEYS:
        text = metadata.get(key, "").strip()
        if not text or len(text) > _LONGEST:
            continue
        parsed = _parsed(text)
        names = _as_names(parsed)
        if len(names) > (not isinstance(parsed, Mapping)):
            return names
    return ()


def names_in_config(config: Mapping[str, object]) -> tuple[str, ...]:
    """Class names in the ``config.json`` of Hugging Face's transformers or of timm, or none.

    What stands there twice (ImageNet has two cranes) is told apart; LABEL_0, LABEL_1, ... are no names.
    """
    given = config.get("id2label") or config.get("label_names")
    try:
        names = told_apart(_listed(given))
    except (TypeError, ValueError):
        return ()
    unnamed = all(name == f"LABEL_{number}" for number, name in enumerate(names))
    return () if unnamed or not all(map(is_name, names)) else names


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return [part.strip() for part in text.replace("\n", ",").split(",") if part.strip()]


def _as_names(value: object) -> tuple[str, ...]:
    """The names in what a file holds that somebody else wrote, or none where it holds no different, printable ones."""
    try:
        names = tuple(_listed(value))
    except (TypeError, ValueError):
        return ()
    return names if len(set(names)) == len(names) and all(map(is_name, names)) else ()


def read_class_names(path: str | Path) -> tuple[str, ...]:
    """The names in a file of classes, in its order.

    Names that stand there twice (ImageNet has two cranes) are told apart by the numbers of their lines.

    Args:
        path: one name a line; or, called .json, a list of names, or an object from numbers to names, as Keras has them
            with an identifier before each name.

    Raises:
        UserError: the file cannot be read, names no class, or a name is empty or not printable.
    """
    path = expanded(path)
    try:
        text = read_text(path, encoding="utf-8-sig")
        names = _listed(json.loads(text)) if path.suffix.lower() == ".json" else _lines(text)
    except OSError as error:
        raise UserError(f"The class names {path} cannot be read ({error.strerror}); check the path.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"The class names {path} cannot be read ({error}); write one name a line.") from error
    if len(names) < _FEWEST:
        raise UserError(f"The class names {path} are empty; give one name a line.")
    strange = next((number for number, name in enumerate(names, start=1) if not is_name(name)), None)
    if strange is not None:
        raise UserError(f"Name {strange} of the class names {path} is empty or not printable text; rename the class.")
    return told_apart(names)


def told_apart(names: Sequence[str]) -> tuple[str, ...]:
    """The names, those that occur twice with their place behind them, counted from 0."""
    often = Counter(names)
    made = [f"{name} ({place})" if often[name] > 1 else name for place, name in enumerate(names)]
    # a name may look like one that was made
    return tuple(made) if len(set(made)) == len(made) else tuple(f"{name} ({i})" for i, name in enumerate(names))


def background_in(names: Sequence[str]) -> Background:
    """Where the names have one for the background."""
    ends = [name.strip("_ ").casefold() == _BACKGROUND for name in (*names[:1], *names[-1:])]
    if not any(ends):
        return "none"
    return "first" if ends[0] else "last"


def names_without(names: Sequence[str], classes: int, where: Background) -> tuple[str, ...]:
    """The names of the classes alone: a file for several models may name a background that this one does not have."""
    if len(names) != classes + 1:
        return tuple(names)
    place = background_in(names) if where == "none" else where
    return {"none": tuple(names), "first": tuple(names[1:]), "last": tuple(names[:-1])}[place]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.rstrip().splitlines()]


def _listed(value: object) -> list[str]:
    """Names in a list, or in a map from numbers, of which each may stand behind an identifier.

    Raises:
        TypeError, ValueError: there are none.
    """
    if isinstance(value, Mapping):
        numbered = {int(number): name for number, name in value.items()}
        if sorted(numbered) != list(range(len(numbered))):
            raise ValueError("its numbers are not 0, 1, 2, ...")
        value = [numbered[number] for number in range(len(numbered))]
    if not isinstance(value, list | tuple):
        raise ValueError("it is not a list of names")
    last = [each[-1] if isinstance(each, list) and each else each for each in value]
    if not all(isinstance(each, str | int) for each in last):
        raise ValueError("it is not a list of names")
    return [str(each).strip() for each in last]


def read_label_map(path: str | Path, classes: int, names_a: Sequence[str], names_b: Sequence[str]) -> tuple[int, ...]:
    """The order that puts the classes of B into those of A.

    Args:
        path: TOML (``"theirs" = "ours"``), JSON (an object) or CSV (two columns, B's class and A's); a class is
            named by its name or by its number.
        names_a, names_b: their names, or none.

    Returns:
        For each class of B the class of A, each exactly once.

    Raises:
        UserError: the file cannot be read, or is not such a map.
    """
    path = Path(path)
    order: dict[int, int] = {}
    for left, right in _read_pairs(path):
        b, a = _class_of(left, classes, names_b, "B", path), _class_of(right, classes, names_a, "A", path)
        if b in order:
            raise UserError(f"The label map {path} names the class {left!r} of B twice; give each class once.")
        if a in order.values():
            raise UserError(f"The label map {path} gives two classes of B the class {right!r} of A; give each once.")
        order[b] = a
    missing = [names_b[i] if len(names_b) == classes else str(i) for i in range(classes) if i not in order]
    if missing:
        listed = ", ".join(missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
        number = f"{len(missing)} class{'' if len(missing) == 1 else 'es'}"
        raise UserError(
            f"The label map {path} leaves out {number} of B ({listed}); give each of the {classes} classes once."
        )
    return tuple(order[i] for i in range(classes))


def _read_pairs(path: Path) -> list[tuple[str, str]]:
    kind = path.suffix.lower()
    if kind not in (".toml", ".json", ".csv"):
        raise UserError(f"The label map {path} is neither .toml, .json nor .csv; give one of these.")
    try:
        text = read_text(path, encoding="utf-8-sig")
        if kind == ".csv":
            return _csv_pairs(text, path)
        value: Any = tomllib.loads(text) if kind == ".toml" else json.loads(text)
    except OSError as error:
        raise UserError(f"The label map {path} cannot be read ({error.strerror}); check its name.") from error
    except (ValueError, RecursionError, csv.Error) as error:
        raise UserError(f"The label map {path} cannot be read ({error}); repair it.") from error
    if not isinstance(value, dict) or not all(isinstance(a, (str, int)) for a in value.values()):
        example = '"theirs" = "ours"' if kind == ".toml" else '{"theirs": "ours"}'
        raise UserError(f"The label map {path} is not a map from classes of B to classes of A; write {example}.")
    return [(str(b), str(a)) for b, a in value.items()]


def _csv_pairs(text: str, path: Path) -> list[tuple[str, str]]:
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if any(row)]
    for number, row in enumerate(rows, start=1):
        if len(row) != 2:
            raise UserError(
                f"Line {number} of the label map {path} has {counted(len(row), 'column')}; give two, B's class and A's."
            )
    if rows and [cell.lower() for cell in rows[0]] == ["b", "a"]:
        rows = rows[1:]
    return [(row[0], row[1]) for row in rows]


def _class_of(text: str, classes: int, names: Sequence[str], role: str, path: Path) -> int:
    if len(names) == classes and text in names:
        return list(names).index(text)
    if text.isascii() and text.isdigit() and int(text) < classes:
        return int(text)
    known = f" or {spoken_list([repr(name) for name in names[:_SHOWN]])}" if len(names) == classes else ""
    more = ", ..." if known and classes > _SHOWN else ""
    raise UserError(
        f"The label map {path} names {text!r}, which is not a class of {role}; give a number from 0 to {classes - 1}"
        f"{known}{more}."
    )


# -- the classes of a model in an order that is not its own ----------------------------------------------------------


def inverse(order: tuple[int, ...]) -> list[int]:
    """Where each number of a permutation stands."""
    return sorted(range(len(order)), key=order.__getitem__)


def in_order(names: tuple[str, ...], order: tuple[int, ...]) -> tuple[str, ...]:
    """The names of a model's own classes in the order of the classes that these are counted as."""
    return tuple(names[i] for i in inverse(order)) if len(names) == len(order) else names


def own_order(names: tuple[str, ...], order: tuple[int, ...]) -> tuple[str, ...]:
    """What :func:`in_order` was made from."""
    return tuple(names[i] for i in order) if len(names) == len(order) else names
