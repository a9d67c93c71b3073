"""Arrays of npz and idx files that are read a piece at a time into the cache."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen.data import load
from diffgen.errors import UserError
from tests.data.decoded_once import check_alike

pytestmark = pytest.mark.usefixtures("cache")
RANDOM = np.random.default_rng(0)


def test_what_becomes_small_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = RANDOM.integers(0, 256, (60, 3, 40, 40), dtype=np.uint8)
    np.savez(tmp_path / "set.npz", images=images)
    wanted = load(tmp_path / "set.npz", resize=16)
    monkeypatch.setattr("diffgen.data.pixels.LARGE_BYTES", 100_000)
    for _ in range(2):
        found = load(tmp_path / "set.npz", resize=16)
        assert not isinstance(found.images, np.memmap) and found.images.flags.writeable
        assert np.array_equal(found.images, wanted.images) and found.digest == wanted.digest


@pytest.mark.parametrize("kind", ["uint8", "uint16", "float32", "bool"])
@pytest.mark.parametrize("shape", [(60, 20, 30), (60, 20, 30, 3), (60, 3, 20, 30)])
@pytest.mark.parametrize("size", [None, (18, 16)])
def test_npz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, shape: Any, size: Any) -> None:
    values = RANDOM.integers(0, 256, shape)
    images = {"float32": values / 255, "bool": values > 99}.get(kind, values).astype(kind)
    labels = np.array(["ab"[n % 2] for n in range(60)])
    np.savez_compressed(tmp_path / "set.npz", images=images, labels=labels)
    in_memory = load(tmp_path / "set.npz", resize=size)
    for module in ("pixels", "npz"):
        monkeypatch.setattr(f"diffgen.data.{module}.LARGE_BYTES", 1000)
    monkeypatch.setattr("diffgen.data.pixels._BATCH", 9000)
    check_alike(in_memory, load(tmp_path / "set.npz", resize=size))


@pytest.mark.parametrize("compressed", [False, True])
def test_idx(tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch, compressed: bool) -> None:
    values, ending = RANDOM.integers(0, 256, (60, 20, 30)), ".gz" if compressed else ""
    (tmp_path / f"t10k-images-idx3-ubyte{ending}").write_bytes(make.idx_bytes(values, compressed=compressed))
    (tmp_path / f"t10k-labels-idx1-ubyte{ending}").write_bytes(make.idx_bytes(np.arange(60) % 5, compressed=compressed))
    in_memory = load(tmp_path)
    monkeypatch.setattr("diffgen.data.pixels.LARGE_BYTES", 1000)
    check_alike(in_memory, load(tmp_path))


@pytest.mark.parametrize("change", [-7, 7])
def test_arrays_of_another_length_than_they_say(
    tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch, cache: Path, change: int
) -> None:
    monkeypatch.setattr("diffgen.data.pixels.LARGE_BYTES", 1000)
    content = make.idx_bytes(RANDOM.integers(0, 256, (60, 20, 30)))
    path = tmp_path / "t10k-images-idx3-ubyte"
    path.write_bytes(content[:change] if change < 0 else content + bytes(change))
    with pytest.raises(UserError, match="cut off"):
        load(path)
    assert not list(cache.rglob("*.npy*"))


def test_a_header_that_lies_fills_no_memory(tmp_path: Path) -> None:
    for shape, words in (((52, 2**31, 2**31), "values each"), ((2**31, 8000, 8000), "take")):
        header = bytes([0, 0, 8, 3]) + struct.pack(">3I", *shape)
        (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + bytes(5000)))
        with pytest.raises(UserError, match=words):
            load(tmp_path)


def test_columns_cannot_be_turned_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "set.npz", images=np.asfortranarray(RANDOM.integers(0, 256, (60, 20, 30)).astype(np.uint8)))
    assert load(tmp_path / "set.npz").image_shape == (1, 20, 30)
    for module in ("npz", "pixels"):
        monkeypatch.setattr(f"diffgen.data.{module}.LARGE_BYTES", 1000)
    with pytest.raises(UserError, match="column by column"):
        load(tmp_path / "set.npz")


def test_columns_that_are_large_only_when_they_are_enlarged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = RANDOM.integers(0, 256, (60, 20, 30)).astype(np.uint8)
    np.savez(tmp_path / "rows.npz", images=images)
    np.savez(tmp_path / "columns.npz", images=np.asfortranarray(images))
    wanted = load(tmp_path / "rows.npz", resize=64)
    for module in ("npz", "pixels"):
        monkeypatch.setattr(f"diffgen.data.{module}.LARGE_BYTES", images.nbytes)
    assert np.array_equal(load(tmp_path / "columns.npz", resize=64).images, wanted.images)
    # fractions take more room in the file than what is made of them
    np.savez(tmp_path / "fractions.npz", images=np.asfortranarray((images / 255).astype(np.float32)))
    assert np.array_equal(load(tmp_path / "fractions.npz").images[:, 0], images)
