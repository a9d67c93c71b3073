"""diffgen.runs.pictures"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diffgen.runs.pictures import read_png


def grey(path: Path, side: int = 28) -> None:
    Image.fromarray(np.arange(side * side, dtype=np.uint8).reshape(side, side)).save(path, format="PNG")


def head_of(path: Path, width: int, height: int) -> None:
    """A PNG whose head speaks of other sizes than its pixels have."""
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    content = path.read_bytes()
    path.write_bytes(content[:8] + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body)) + content[33:])


def test_the_bytes_come_back(tmp_path: Path) -> None:
    grey(tmp_path / "a.png")
    assert read_png(tmp_path / "a.png", (1, 28, 28)).ravel().tolist() == [each % 256 for each in range(784)]
    pixels = np.random.default_rng(0).integers(0, 256, (3, 32, 32)).astype(np.uint8)
    Image.fromarray(pixels.transpose(1, 2, 0)).save(tmp_path / "b.png", format="PNG")
    np.testing.assert_array_equal(read_png(tmp_path / "b.png", (3, 32, 32)), pixels)


@pytest.mark.parametrize("kind", ["GIF", "JPEG", "BMP", "TIFF", "PPM"])
def test_other_formats_are_not_decoded_whatever_they_are_called(tmp_path: Path, kind: str) -> None:
    Image.new("L", (28, 28)).save(tmp_path / "a.png", format=kind)
    with pytest.raises(ValueError, match="no PNG"):
        read_png(tmp_path / "a.png", (1, 28, 28))


def test_an_eps_is_not_handed_to_ghostscript(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 28 28\n%%EndComments\n%%EOF\n")
    with pytest.raises(ValueError, match="no PNG"):
        read_png(tmp_path / "a.png", (1, 28, 28))


@pytest.mark.parametrize("mode", ["RGBA", "RGB", "LA", "P", "1", "I;16"])
def test_other_kinds_of_colours(tmp_path: Path, mode: str) -> None:
    Image.new(mode, (28, 28)).save(tmp_path / "a.png", format="PNG")
    with pytest.raises(ValueError, match="kind"):
        read_png(tmp_path / "a.png", (1, 28, 28))


@pytest.mark.parametrize("size", [(27, 28), (60_000, 60_000), (13_000, 13_000), (2**31 - 1, 2**31 - 1)])
def test_other_sizes_are_refused_before_anything_is_decoded(tmp_path: Path, size: tuple[int, int]) -> None:
    grey(tmp_path / "a.png")
    head_of(tmp_path / "a.png", *size)
    with pytest.raises(ValueError):
        read_png(tmp_path / "a.png", (1, 28, 28))


def test_links_pipes_and_damage(tmp_path: Path) -> None:
    grey(tmp_path / "a.png")
    (tmp_path / "link.png").symlink_to(tmp_path / "a.png")
    os.mkfifo(tmp_path / "pipe.png")
    for name in ("link.png", "pipe.png", "missing.png"):
        with pytest.raises(OSError):
            read_png(tmp_path / name, (1, 28, 28))
    whole = (tmp_path / "a.png").read_bytes()
    for length in range(0, len(whole) - 20, 17):
        (tmp_path / "a.png").write_bytes(whole[:length])
        with pytest.raises(ValueError):
            read_png(tmp_path / "a.png", (1, 28, 28))
