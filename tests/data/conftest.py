"""Pictures, zips and idx files made in the test, and the shape that every message to a user must have."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from diffgen.data import load, picture_stack
from diffgen.errors import UserError

Refused = Callable[..., str]


@pytest.fixture
def refused(told: Callable[..., None]) -> Refused:
    """Loads a source, expects a UserError of one sentence that contains the given words, and returns its text.

    With ``case`` it goes onto the page of bad inputs.
    """

    def check(source: Any, *words: str, case: str | None = None) -> str:
        with pytest.raises(UserError) as caught:
            load(source)
        message = str(caught.value)
        assert caught.value.exit_code == 2
        assert message.endswith((".", "?")), message
        assert message[0].isupper(), message
        assert ". " not in message, message
        assert "\n" not in message, message
        for word in words:
            assert word in message, message
        if case is not None:
            told("Images", case, message)
        return message

    return check


def picture(value: int, mode: str = "L", size: tuple[int, int] = (8, 8), suffix: str = "png") -> bytes:
    """A picture file of one colour."""
    stream = io.BytesIO()
    image = Image.new("L", size, value).convert(mode)
    image.save(stream, format={"jpg": "JPEG", "pgm": "PPM"}.get(suffix, suffix.upper()))
    return stream.getvalue()


def classes(names: tuple[str, ...] = ("cat", "dog"), each: int = 25, **options: Any) -> dict[str, bytes]:
    """Path below the root -> picture, in class folders; the grey level tells the pictures apart."""
    return {
        f"{name}/{number:03}.png": picture(100 * label + number, **options)
        for label, name in enumerate(names)
        for number in range(each)
    }


def write_folder(root: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def write_zip(path: Path, files: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def idx_bytes(values: np.ndarray, *, compressed: bool = False) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    content = header + values.astype(np.uint8).tobytes()
    return gzip.compress(content, mtime=0) if compressed else content


@pytest.fixture
def make() -> Any:
    """The functions above under one name, because test modules cannot import each other."""

    class Make:
        picture = staticmethod(picture)
        classes = staticmethod(classes)
        write_folder = staticmethod(write_folder)
        write_zip = staticmethod(write_zip)
        idx_bytes = staticmethod(idx_bytes)

    return Make


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    monkeypatch.setenv("DIFFGEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets of pictures are large from 1,000 bytes on."""
    monkeypatch.setattr(picture_stack, "LARGE_BYTES", 1000)
