"""Pictures whose objects are known by boxes or masks, as files beside them say: COCO, YOLO, Pascal VOC, or PNG masks.

* COCO: a JSON file with ``images``, ``annotations`` and ``categories``. An image without annotations has no objects;
  pictures that the file does not name are left out, and so are boxes of crowds.
* YOLO: ``labels/NAME.txt`` for ``images/NAME.jpg``, or beside it, with a line for each object: class, middle, width and
  height as shares (or the points of an outline). An empty file means no objects, a missing one that nobody knows.
  Names stand in a YAML file (``names``) or, one a line, in ``classes.txt`` or ``obj.names``.
* Pascal VOC: an XML file for each picture, by its name. A picture without one is one of which nobody knows.

* Masks: ``masks/NAME.png`` for ``images/NAME.jpg``, or VOC's ``SegmentationClass`` for ``JPEGImages``; a level of grey,
  or the number of a colour in its palette, is that of a class, and 255 stands for none. A picture without one is one of
  which nobody knows. Names stand in files as YOLO's; without them the numbers are the models' own.

Corners are taken as they are written: a box from 10 to 20 is ten pixels wide. Where folders or files are named after
the parts of a divided set (train, val, test), one part is read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias
from xml.etree import ElementTree

import numpy as np

from diffgen.data.file_tree import SPLIT_NAMES, FileTree, Parts
from diffgen.data.reading import sorted_names
from diffgen.errors import UserError

Split: TypeAlias = Literal["train", "test"]
Pictures: TypeAlias = Sequence[Parts]
_MOST_JSON = 32  # files that may be COCO's; with more of them there is one for each picture
_LONGEST_XML = 1 << 22
_LONGEST_TEXT = 1 << 22
_NAME_FILES = ("classes.txt", "obj.names", "_darknet.labels")
_VALUES = 5  # of a line: class, middle, width and height
_SPLITS = {name: word for word, names in SPLIT_NAMES.items() for name in names}
_ORDER = [name for names in SPLIT_NAMES.values() for name in names]


@dataclass(frozen=True)
class Annotated:
    """A picture and what is known of the objects in it.

    Attributes:
        picture: where it lies.
        boxes: float64 (n, 4), x1, y1, x2, y2, or None: nobody knows.
        size: height and width of the picture that they belong to, or None: nobody says.
        shares: coordinates are shares of the sides.
        fault: what is wrong with its annotation, or None.
        near: words beside its path that may name a part of a divided set.
        mask: the file that says of each pixel what is there, or None: nobody knows.
    """

    picture: Parts
    boxes: Any = None
    classes: tuple[str, ...] = ()
    size: tuple[int, int] | None = None
    shares: bool = False
    fault: UserError | None = None
    near: tuple[str, ...] = ()
    mask: Parts | None = None


@dataclass(frozen=True)
class Annotations:
    """What the files beside the pictures of a set say.

    Attributes:
        kind: of files, for people.
        pictures: in the order of their paths.
        names: of the classes of boxes, in the order of their numbers.
        mask_names: of those of masks, or none: nobody names them.
        remarks: sentences for whoever reads them.
    """

    kind: str
    pictures: tuple[Annotated, ...]
    names: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    mask_names: tuple[str, ...] = ()


def find_annotations(tree: FileTree, pictures: Pictures, split: Split | None, source: str) -> Annotations | None:
    """What files in a tree say of the objects in its pictures, or None: there are no such files.

    Args:
        split: the part of a divided set; None: the one that the models under test have not seen.
        source: the data set, for messages.

    Raises:
        UserError: such a file cannot be read, none of its pictures is there, or there is no such part. What is wrong
            with the annotation of one picture is in its ``fault``.
    """
    there = set(tree.files)
    masks = {picture: path for picture in pictures if (path := _mask_file(picture, there)) is not None}
    if masks:
        pictures = [each for each in pictures if not _MASK_FOLDERS & set(each[:-1])]
    readers: tuple[Callable[[], Annotations | None], ...] = (
        lambda: _coco(tree, pictures, source),
        lambda: _yolo(tree, pictures, source),
        lambda: _voc(tree, pictures, source),
    )
    found = next((each for reader in readers if (each := reader()) is not None), None)
    if found is None and not masks:
        return None
    found = found or Annotations("masks", tuple(map(Annotated, pictures)), ())
    chosen = [replace(each, mask=masks.get(each.picture)) for each in _part_of(found.pictures, split, source)]
    named = _yolo_names(tree, _name_files(tree), source) if masks else ()
    return replace(found, pictures=tuple(sorted(chosen, key=lambda each: each.picture)), mask_names=named)


def _part_of(pictures: Sequence[Annotated], split: Split | None, source: str) -> Sequence[Annotated]:
    """The pictures of one part of a divided set; all of one that is not divided."""
    parts = [_part_named(each) for each in pictures]
    there = {part for part in parts if part is not None}
    if split is None and (None in parts or len(there) < 2):
        return pictures
    wanted = [name for name in _ORDER if name in there and (split is None or _SPLITS[name] == split)]
    if not wanted:
        raise UserError(f"The data set {source!r} has no part {split!r}; leave out ':{split}'.")
    return [each for each, part in zip(pictures, parts, strict=True) if part == wanted[0]]


def _part_named(picture: Annotated) -> str | None:
    words = [*picture.picture[:-1], *picture.near]
    # val2017, as COCO names the folders of its pictures
    bare = (re.sub(r"\d{4}$", "", word.lower()) for word in words)
    return next((word for word in bare if word in _SPLITS), None)


def _nearest(candidates: Iterable[Parts], path: Parts) -> Parts | None:
    """Of several files the one that shares most folders with a path."""

    def shared(each: Parts) -> int:
        return next((i for i, (a, b) in enumerate(zip(each, path, strict=False)) if a != b), min(len(each), len(path)))

    return max(candidates, key=shared, default=None)


def _text(tree: FileTree, path: Parts, longest: int) -> str:
    """The text in a file.

    Raises:
        ValueError: it is none, or longer.
        UserError: it cannot be read.
    """
    content = tree.read(path)
    if len(content) > longest:
        raise ValueError(f"it has {len(content):,} bytes")
    return content.decode("utf-8-sig")


def _stem(name: str) -> str:
    return name.rpartition(".")[0] or name


# -- COCO ------------------------------------------------------------------------------------------------------------


def _coco(tree: FileTree, pictures: Pictures, source: str) -> Annotations | None:
    tables = [path for path in tree.files if path[-1].lower().endswith(".json")]
    if not 0 < len(tables) <= _MOST_JSON:
        return None
    found = [(path, content) for path in tables if (content := _coco_content(tree, path)) is not None]
    if not found:
        return None
    by_name: dict[str, list[Parts]] = {}
    for each in pictures:
        by_name.setdefault(each[-1], []).append(each)
    names: dict[int, str] = {}
    made: dict[Parts, Annotated] = {}
    missing = crowds = 0
    for path, content in found:
        where = f"{'/'.join(path)!r} in {source!r}"
        try:
            categories = {int(each["id"]): str(each["name"]) for each in content["categories"]}
            if any(names.get(number, name) != name for number, name in categories.items()):
                raise UserError(f"The COCO files of {source!r} number their categories differently; give one of them.")
            names |= categories
            rows: dict[Any, list[Any]] = {each["id"]: [] for each in content["images"]}
            for each in content["annotations"]:
                rows.setdefault(each["image_id"], []).append(each)
            for image in content["images"]:
                place = _coco_picture(str(image["file_name"]), by_name, path)
                if place is None:
                    missing += 1
                    continue
                known = [each for each in rows[image["id"]] if not each.get("iscrowd")]
                crowds += len(rows[image["id"]]) - len(known)
                made[place] = _of_coco(place, image, known, names, path, where)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"The file {where} has no COCO annotations ({type(error).__name__}: {error}); repair it."
            ) from error
    if not made:
        raise UserError(
            f"None of the images that the COCO files of {source!r} name lies there; put them into that folder."
        )
    unnamed = len(pictures) - len(made)
    numbered = dict(sorted(names.items()))
    remarks = [
        f"{missing:,} images that the COCO files of {source!r} name are not there." if missing else "",
        f"{unnamed:,} images of {source!r} are left out, since no COCO file names them." if unnamed else "",
        f"{crowds:,} boxes of crowds are left out." if crowds else "",
    ]
    return Annotations("COCO JSON", tuple(made.values()), tuple(numbered.values()), tuple(filter(None, remarks)))


def _coco_content(tree: FileTree, path: Parts) -> dict[str, Any] | None:
    """The object in a JSON file, if it is one of COCO's."""
    if not tree.head(path).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return None
    content = tree.read(path)
    if not all(key in content for key in (b'"images"', b'"annotations"', b'"categories"')):
        return None
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"The file {'/'.join(path)!r} is no JSON ({error}); write it again.") from error
    return value if isinstance(value, dict) else None


def _coco_picture(name: str, by_name: dict[str, list[Parts]], beside: Parts) -> Parts | None:
    wanted = tuple(part for part in name.replace("\\", "/").split("/") if part not in ("", "."))
    candidates = by_name.get(wanted[-1], []) if wanted else []
    exact = [each for each in candidates if each[-len(wanted) :] == wanted]
    # instances_val2017.json lies beside val2017 and train2017, which may have pictures of one name
    part = _part_named(Annotated(beside, near=_words(beside)))
    fitting = [each for each in exact or candidates if part in (None, _part_named(Annotated(each)))]
    return _nearest(fitting or exact or candidates, beside)


def _words(path: Parts) -> tuple[str, ...]:
    return tuple(re.split(r"[^A-Za-z0-9]+", _stem(path[-1])))


def _of_coco(
    place: Parts, image: dict[str, Any], known: list[Any], names: dict[int, str], path: Parts, where: str
) -> Annotated:
    fault, boxes, classes = None, np.zeros((len(known), 4)), []
    for row, each in enumerate(known):
        values = [float(value) for value in each["bbox"]]
        if len(values) != 4 or not all(map(math.isfinite, values)):
            fault = fault or UserError(
                f"The box {each['bbox']} of {'/'.join(place)!r} in {where} cannot be; repair it."
            )
            continue
        if int(each["category_id"]) not in names:
            fault = fault or UserError(
                f"A box of {'/'.join(place)!r} in {where} has the category {each['category_id']}, which is none of its "
                "categories; add it there."
            )
            continue
        x, y, width, height = values
        boxes[row] = x, y, x + width, y + height
        classes.append(names[int(each["category_id"])])
    sides = int(image.get("height") or 0), int(image.get("width") or 0)
    size = sides if all(sides) else None
    return Annotated(place, boxes, tuple(classes), size, fault=fault, near=_words(path))


# -- YOLO ------------------------------------------------------------------------------------------------------------


def _yolo(tree: FileTree, pictures: Pictures, source: str) -> Annotations | None:
    there = set(tree.files)
    listed = _name_files(tree)
    beside = [_yolo_file(each, there, beside=bool(listed)) for each in pictures]
    used = [path for path in beside if path is not None]
    # beside pictures of classes there may be texts that describe them
    if not any(_are_boxes(tree, path) for path in used[:_MOST_JSON]):
        return None
    names = _yolo_names(tree, listed, source)
    made = [
        Annotated(picture) if path is None else _of_yolo(tree, picture, path, names, source)
        for picture, path in zip(pictures, beside, strict=True)
    ]
    if not names:
        names = tuple(map(str, range(1 + max((int(name) for each in made for name in each.classes), default=0))))
    return Annotations("YOLO text", tuple(made), names)


def _name_files(tree: FileTree) -> list[Parts]:
    return [
        path for path in tree.files if path[-1].lower() in _NAME_FILES or path[-1].lower().endswith((".yaml", ".yml"))
    ]


def _yolo_file(picture: Parts, there: set[Parts], *, beside: bool) -> Parts | None:
    """Where the objects of a picture stand; beside it only where some file names classes."""
    name = f"{_stem(picture[-1])}.txt"
    for place in reversed(range(len(picture) - 1)):
        if picture[place].lower() == "images":
            path = (*picture[:place], "labels", *picture[place + 1 : -1], name)
            if path in there:
                return path
    path = (*picture[:-1], name)
    return path if beside and path in there and name.lower() not in _NAME_FILES else None


def _are_boxes(tree: FileTree, path: Parts) -> bool:
    """Whether a file begins as a text of boxes does, or lies where these lie."""
    head = tree.head(path).decode(errors="replace")
    return "labels" in path or re.match(r"\s*\d+(\s+[-+.\deE]+){4}", head) is not None


def _yolo_names(tree: FileTree, listed: Sequence[Parts], source: str) -> tuple[str, ...]:
    """Class names in the first file that has some, or none. UserError if such a file cannot be read."""
    for path in sorted(listed, key=lambda each: (each[-1].lower() in _NAME_FILES, len(each))):
        where = f"{'/'.join(path)!r} in {source!r}"
        try:
            text = _text(tree, path, _LONGEST_TEXT)
            if path[-1].lower() in _NAME_FILES:
                return tuple(line.strip() for line in text.splitlines() if line.strip())
            import yaml

            value = yaml.safe_load(text)
            named = value.get("names") if isinstance(value, dict) else None
            if isinstance(named, dict):
                numbers = sorted(map(int, named))
                if numbers != list(range(len(numbers))):
                    raise ValueError("its names are not numbered 0, 1, 2, ...")
                named = [{int(key): name for key, name in named.items()}[number] for number in numbers]
            if isinstance(named, list):
                return tuple(str(name) for name in named)
        except UserError:
            raise
        except Exception as error:  # PyYAML's errors and those of what is not text have no common class
            raise UserError(f"The class names in {where} cannot be read ({error}); repair the file.") from error
    return ()


def _of_yolo(tree: FileTree, picture: Parts, path: Parts, names: tuple[str, ...], source: str) -> Annotated:
    rows, classes = [], []
    try:
        for number, line in enumerate(_text(tree, path, _LONGEST_TEXT).splitlines(), start=1):
            words = line.split()
            if not words:
                continue
            problem = f"line {number} of {'/'.join(path)!r} in {source!r} "
            try:
                kind, values = float(words[0]), [float(word) for word in words[1:]]
            except ValueError:
                raise _Malformed(problem + "is not made of numbers; write class, middle, width and height.") from None
            outline = len(values) >= 6 and len(values) % 2 == 0
            if (len(words) != _VALUES and not outline) or not all(map(math.isfinite, values)):
                raise _Malformed(f"{problem}has {len(words)} values; write class, middle, width and height.")
            if kind != int(kind) or not 0 <= kind < (len(names) or math.inf):
                known = f"one of the {len(names)} classes that are named" if names else "a class"
                raise _Malformed(f"{problem}has the class {words[0]}, which is not {known}; repair it.")
            if not outline and max(values) > 1.5:
                raise _Malformed(f"{problem}has values beyond 1; write shares of the picture's width and height.")
            classes.append(names[int(kind)] if names else str(int(kind)))
            x, y, width, height = (
                (*_middle(values[0::2], values[1::2]),) if outline else (values[0], values[1], values[2], values[3])
            )
            rows.append((x - width / 2, y - height / 2, x + width / 2, y + height / 2))
    except (_Malformed, UnicodeDecodeError, ValueError) as error:
        text = (
            str(error) if isinstance(error, _Malformed) else f"{'/'.join(path)!r} in {source!r} is no text ({error})."
        )
        return Annotated(picture, fault=UserError(f"Of the boxes of {'/'.join(picture)!r}, {text}"))
    return Annotated(picture, np.array(rows).reshape(-1, 4), tuple(classes), shares=True)


class _Malformed(Exception):
    """What is wrong with a line."""


def _middle(xs: list[float], ys: list[float]) -> tuple[float, float, float, float]:
    """Middle, width and height of what encloses an outline."""
    left, right, top, bottom = min(xs), max(xs), min(ys), max(ys)
    return (left + right) / 2, (top + bottom) / 2, right - left, bottom - top


# -- masks -----------------------------------------------------------------------------------------------------------

_MASKS_OF = {"jpegimages": "SegmentationClass", "images": "masks"}
_MASK_FOLDERS = frozenset({*_MASKS_OF.values(), "SegmentationObject"})


def _mask_file(picture: Parts, there: set[Parts]) -> Parts | None:
    """Where it stands what each pixel of a picture shows."""
    for place in reversed(range(len(picture) - 1)):
        folder = _MASKS_OF.get(picture[place].lower())
        if folder is not None:
            path = (*picture[:place], folder, *picture[place + 1 : -1], f"{_stem(picture[-1])}.png")
            if path in there:
                return path
    return None


# -- Pascal VOC ------------------------------------------------------------------------------------------------------


def _voc(tree: FileTree, pictures: Pictures, source: str) -> Annotations | None:
    files = [path for path in tree.files if path[-1].lower().endswith(".xml")]
    if not any(b"<annotation" in tree.head(path) for path in files[:_MOST_JSON]):
        return None
    by_stem: dict[str, list[Parts]] = {}
    for path in files:
        by_stem.setdefault(_stem(path[-1]), []).append(path)
    made = [_of_voc(tree, each, _nearest(by_stem.get(_stem(each[-1]), []), each), source) for each in pictures]
    if all(each.boxes is None and each.fault is None for each in made):
        raise UserError(f"No XML file of {source!r} is called as one of its images; put them together.")
    return Annotations("Pascal VOC XML", tuple(made), sorted_names({name for each in made for name in each.classes}))


def _of_voc(tree: FileTree, picture: Parts, path: Parts | None, source: str) -> Annotated:
    if path is None:
        return Annotated(picture)
    where = f"{'/'.join(path)!r} in {source!r}"
    try:
        text = _text(tree, path, _LONGEST_XML)
        if "<!" in re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL):
            raise ValueError("it declares entities")
        root = ElementTree.fromstring(text)
        rows, classes = [], []
        for each in root.iter("object"):
            corners = [float(each.findtext(f"bndbox/{side}", "")) for side in ("xmin", "ymin", "xmax", "ymax")]
            if not all(map(math.isfinite, corners)):
                raise ValueError("a corner is not finite")
            rows.append(corners)
            classes.append(str(each.findtext("name", "")).strip())
        if not all(name.isprintable() and name for name in classes):
            raise ValueError("an object has no name")
        height, width = (int(float(root.findtext(f"size/{side}", "0") or 0)) for side in ("height", "width"))
    except (ElementTree.ParseError, ValueError) as error:
        fault = UserError(f"The boxes of {'/'.join(picture)!r} in {where} cannot be read ({error}); repair the file.")
        return Annotated(picture, fault=fault)
    size = (height, width) if height > 0 and width > 0 else None
    return Annotated(picture, np.array(rows).reshape(-1, 4), tuple(classes), size)
