"""Data sets that lie, hang, or are larger than they look."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.adversary.harness import Case

_DATA = "diffgen inspect a.pt --data d --device cpu"


def _arrays(**arrays: Any) -> Callable[[Path, Path], None]:
    def prepare(folder: Path, victim: Path) -> None:
        with (folder / "d").open("wb") as file:
            np.savez(file, **arrays)

    return prepare


def _pictures(**files: bytes) -> Callable[[Path, Path], None]:
    """An ImageFolder of two classes of ten sound pictures each, and more files in the first."""

    def prepare(folder: Path, victim: Path) -> None:
        random = np.random.default_rng(0)
        for label in ("one", "two"):
            (folder / "d" / label).mkdir(parents=True)
            for number in range(10):
                _png(random.integers(0, 256, (28, 28), dtype=np.uint8), folder / "d" / label / f"{number}.png")
        for name, content in files.items():
            (folder / "d" / "one" / name).write_bytes(content)

    return prepare


def _class_folders(names: Sequence[str], *, missing: int) -> Callable[[Path, Path], None]:
    """The good images in one folder for each class but one."""

    def prepare(folder: Path, victim: Path) -> None:
        with np.load(folder / "data.npz") as good:
            for number, (image, label) in enumerate(zip(good["images"], good["labels"].tolist(), strict=True)):
                if label != missing:
                    (folder / "d" / names[label]).mkdir(parents=True, exist_ok=True)
                    _png(image[0], folder / "d" / names[label] / f"{number}.png")
        (folder / "names.txt").write_text("\n".join(names), encoding="utf-8")

    return prepare


def _turned(exif: bytes | None = None) -> Callable[[Path, Path], None]:
    """The good images in class folders; 120 of 200 lie on their side, and their EXIF data say so, or what is given."""

    def prepare(folder: Path, victim: Path) -> None:
        from PIL import Image

        note = Image.Exif()
        note[0x0112] = 6
        with np.load(folder / "data.npz") as good:
            for number, (image, label) in enumerate(zip(good["images"], good["labels"].tolist(), strict=True)):
                place = folder / "d" / str(label) / "inner" / f"{number}.jpg"
                place.parent.mkdir(parents=True, exist_ok=True)
                turned = Image.fromarray(np.rot90(image[0]) if number < 120 else image[0])
                turned.save(place, quality=95, exif=exif or (note if number < 120 else b""))

    return prepare


def _png(pixels: np.ndarray, path: Path) -> None:
    from PIL import Image

    Image.fromarray(pixels).save(path)


def _png_of_size(width: int, height: int) -> bytes:
    """A picture that declares a size and holds next to nothing."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def _and(first: Callable[[Path, Path], object], then: Callable[[Path, Path], object]) -> Callable[[Path, Path], None]:
    def prepare(folder: Path, victim: Path) -> None:
        first(folder, victim)
        then(folder, victim)

    return prepare


def _archive(names: dict[str, bytes]) -> Callable[[Path, Path], None]:
    def prepare(folder: Path, victim: Path) -> None:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in names.items():
                archive.writestr(name, content)
        (folder / "d").write_bytes(buffer.getvalue())

    return prepare


def cases() -> Iterator[Case]:
    """About fifty data sets."""
    sound = np.zeros((40, 28, 28), np.uint8)
    for name, prepare in {
        "objects in place of images": _arrays(images=np.asarray([{}] * 3, dtype=object)),
        "images of NaN": _arrays(images=np.full((40, 28, 28), np.nan, np.float32)),
        "images of infinity": _arrays(images=np.full((40, 28, 28), np.inf)),
        "images of text": _arrays(images=np.asarray([["a"]])),
        "images of one axis": _arrays(images=np.zeros(9, np.uint8)),
        "no images at all": _arrays(images=np.zeros((0, 28, 28), np.uint8)),
        "one label too few": _arrays(images=sound, labels=np.zeros(39, np.int64)),
        "a label below zero": _arrays(images=sound, labels=np.full(40, -1)),
        "a label of 2**63": _arrays(images=sound, labels=np.full(40, 2**63, np.uint64)),
        "labels of NaN": _arrays(images=sound, labels=np.full(40, np.nan)),
        "class names that are alike": _arrays(
            images=sound, labels=np.arange(40) % 2, class_names=np.asarray(["a", "a"])
        ),
        "a class name that is empty": _arrays(
            images=sound, labels=np.arange(40) % 2, class_names=np.asarray(["a", ""])
        ),
        "a class name with escape sequences": _arrays(
            images=sound, labels=np.arange(40) % 2, class_names=np.asarray(["a", "\x1b[2J"])
        ),
        "a zip with a way out": _archive({"../one/a.png": b"", "two/b.png": b""}),
        "a zip of nothing": _archive({}),
        "a zip of an array that declares a terabyte": _archive(
            {
                "images.npy": b"\x93NUMPY\x01\0v\0"
                b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000, 1000, 1000), }" + b" " * 40 + b"\n"
            }
        ),
        "noise": lambda folder, victim: (folder / "d").write_bytes(np.random.default_rng(0).bytes(9999)),
        "an empty folder": lambda folder, victim: (folder / "d").mkdir(),
        "a folder of text files": lambda folder, victim: (
            (folder / "d/a").mkdir(parents=True),
            (folder / "d/a/x.txt").write_text("x"),
        ),
        "nothing": lambda folder, victim: None,
        "a FIFO": lambda folder, victim: os.mkfifo(folder / "d"),
        "a link to itself": lambda folder, victim: (folder / "d").symlink_to("d"),
    }.items():
        yield Case("data", f"data that are {name}", _DATA, prepare, seconds=40)
    for name, content in {
        "is empty": b"",
        "is cut off": b"\x89PNG\r\n\x1a\n",
        "declares 60,000 x 60,000 pixels": _png_of_size(60_000, 60_000),
        "declares 2**31 pixels a side": _png_of_size(2**31 - 1, 2**31 - 1),
        "has no side": _png_of_size(0, 5),
        "is a PostScript program": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 28 28\nshowpage\n",
        "is a web page": b"<html>",
        "is a script": b"#!/bin/sh\ntouch ~/PWNED\n",
    }.items():
        yield Case("data", f"a picture among others that {name}", _DATA, _pictures(**{"x.png": content}))
    fifo = _and(_pictures(), lambda folder, victim: os.mkfifo(folder / "d/one/x.png"))
    yield Case("data", "a FIFO among the pictures", _DATA, fifo, seconds=40)
    device = _and(_pictures(), lambda folder, victim: (folder / "d/one/x.png").symlink_to("/dev/zero"))
    yield Case("data", "a link to a device among the pictures", _DATA, device, seconds=40)
    odd = _and(_pictures(), lambda folder, victim: os.rename(folder / "d/one", os.fsencode(folder) + b"/d/o\xff"))
    yield Case("data", "a class whose name is not text", _DATA, odd, codes=(0, 2))
    large = _arrays(images=np.zeros((60, 2000, 2000), np.uint8))
    yield Case("data", "images of 2,000 x 2,000 pixels", _DATA, large, codes=(0, 2), seconds=120)
    yield Case("data", "images of 1 x 1 pixel", _DATA, _arrays(images=np.zeros((60, 1, 1), np.uint8)), codes=(0, 2))
    alike = _arrays(images=sound, labels=np.arange(40) % 10)
    run = "diffgen compare a.pt b.onnx --data d --technique real_data --filters none --budget 200q -q -o out"
    yield Case("data", "images that are all alike", run, alike, codes=(0, 2))
    yield Case("data", "two images", run, _arrays(images=sound[:2], labels=np.arange(2)), codes=(0, 2))
    one = _arrays(
        images=np.random.default_rng(0).integers(0, 256, (60, 28, 28), np.uint8), labels=np.zeros(60, np.int64)
    )
    yield Case("data", "one class only", run, one, codes=(0, 2))

    words, numbers = [f"class {letter}" for letter in "abcdefghij"], [str(number) for number in range(10)]
    check = "diffgen check a.pt b.onnx --data d --filters none --budget 200q --variations 0 -q -o out"
    for missing in (0, 4, 9):
        prepare = _class_folders(words, missing=missing)
        for verb, command in (("check", check), ("compare", run)):
            name = f"class folder {missing} is missing ({verb})"
            yield Case("data", name, command, prepare, says="name 9 classes and not the 10 of.*--class-names")
    prepare = _class_folders(words, missing=4)
    named = f"{run} --class-names names.txt"
    yield Case("data", "class folder 4 is missing, and the models' names tell", named, prepare, codes=(0,))
    prepare = _class_folders([*numbers[1:], "10"], missing=4)
    yield Case("data", "of folders called 1 to 10 the fifth is missing", check, prepare, says="--class-names")
    told = run.replace(" -q", "")
    prepare = _class_folders(numbers, missing=4)
    yield Case(
        "data", "of folders called 0 to 9 the fifth is missing", told, prepare, codes=(0,), says="'5' is class 5"
    )
    for name, options, says in (
        ("EXIF orientations, of which nobody says anything", "", "120 of the 200 images.*not followed.*--exif apply"),
        ("EXIF orientations that are followed", " --exif apply", "120 of the 200 images.*are turned as it says"),
    ):
        yield Case("data", name, _DATA + options, _turned(), codes=(0,), says=says)
    damaged = _turned(b"Exif\0\0MM\0*\0")
    yield Case("data", "EXIF data that are damaged", f"{_DATA} --exif apply", damaged, codes=(0,))
    part = "count as part of their class"
    yield Case("data", "folders within class folders", _DATA, _turned(), codes=(0,), says=part)
