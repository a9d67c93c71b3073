"""Folders, zips and tables of pictures that are decoded once into the cache are what they would be in memory."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from diffgen.data import load, picture_stack
from diffgen.data.loading import load_with
from diffgen.data.resize import Resizer, Usual
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.types import ImageSet
from tests.data.decoded_once import check_alike, grey_then_colour, in_both_ways
from tests.recording import Recording

pytestmark = pytest.mark.usefixtures("cache")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("fit", ["crop", "pad", "stretch"])
def test_it_is_what_it_would_be_in_memory(
    tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch, packed: bool, fit: str
) -> None:
    files = grey_then_colour(make)
    source = make.write_zip(tmp_path / "set.zip", files) if packed else make.write_folder(tmp_path / "set", files)
    check_alike(*in_both_ways(source, monkeypatch, resize=(24, 18), fit=fit))


def test_parquet(tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table(
        {"image": list(grey_then_colour(make).values()), "label": [f"kind {n % 3}" for n in range(60)]}
    )
    parquet.write_table(table, tmp_path / "set.parquet")
    check_alike(*in_both_ways(tmp_path / "set.parquet", monkeypatch, resize=20))


def test_what_a_whole_set_tells_of_its_pictures(
    tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    """Pictures of 12 bits and transparent ones, for which those before have to be written again, in colour."""
    make.write_folder(tmp_path / "set", {f"{n:02}.png": make.picture(n) for n in range(20)})
    for n in range(20, 60):
        deep, clear = Image.new("I;16", (8, 8), 60 * n), Image.new("RGBA", (8, 8), (9, 99, 9, 4 * n))
        (deep if n < 40 else clear).save(tmp_path / "set" / f"{n:02}.png")
    one, other = in_both_ways(tmp_path / "set", monkeypatch, resize=16)
    check_alike(one, other)
    assert one.images[39, :, 0, 0].tolist() == [39 * 60 >> 4] * 3
    heard = Recording()
    monkeypatch.setattr(picture_stack, "LARGE_BYTES", 1000)
    load(tmp_path / "set", resize=16, progress=heard.progress)
    assert "decoded before" in heard.lines[0]
    assert heard.lines[-1].endswith("they are read as 12 bits, of which 4,095 is white.")
    assert heard.warnings[0].startswith("20 of the 60 images")


def test_the_usual_size_is_decided_on_the_way(tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of one size, until one comes that has another: those before are resized too."""
    files = {f"{n:03}.png": make.picture(n, size=(30, 20) if n < 55 else (18, 40)) for n in range(60)}
    folder = make.write_folder(tmp_path / "set", files)
    found = []
    for limit in (2**30, 1000):
        monkeypatch.setattr(picture_stack, "LARGE_BYTES", limit)
        resizer = Resizer(usual=Usual((32, 32), shrinks=True))
        found.append(load_with(folder, resizer, skip_broken=False, progress=Progress()))
        assert resizer.size == (32, 32)
    check_alike(*found)
    again = Resizer(usual=Usual((32, 32), shrinks=True))
    load_with(folder, again, skip_broken=False, progress=Progress())
    assert again.size == (32, 32)


def test_the_second_time_nothing_is_decoded(tmp_path: Path, make: Any, small_limit: None, cache: Path) -> None:
    folder = make.write_folder(tmp_path / "set", grey_then_colour(make))
    first, second = Recording(), Recording()
    one = load(folder, resize=32, progress=first.progress)
    other = load(folder, resize=32, progress=second.progress)
    assert np.array_equal(one.images, other.images)
    assert any("are decoded once, into" in line for line in first.lines)
    assert any("decoded before" in line for line in second.lines)
    assert any(line.startswith("Resized 60 of 60 images") for line in second.lines)
    assert len(list((cache / "images").glob("*.npy"))) == 1
    # a plain array for others
    (pixels,) = (cache / "images").glob("*.npy")
    assert np.array_equal(np.load(pixels), one.images)


def test_what_changes_is_decoded_anew(tmp_path: Path, make: Any, small_limit: None, cache: Path) -> None:
    folder = make.write_folder(tmp_path / "set", grey_then_colour(make))
    before = load(folder, resize=32)
    (folder / "a" / "007.png").write_bytes(make.picture(255, size=(20, 30)))
    after = load(folder, resize=32)
    assert before.digest != after.digest
    assert after.images[7].min() == 255
    load(folder, resize=32, fit="pad")
    load(folder, resize=33)
    assert len(list((cache / "images").glob("*.npy"))) == 4


BROKEN = {"a/005.png": b"no picture", "a/031.png": b"", "b/000.png": b"\x89PNG\r\n\x1a\n"}


@pytest.mark.parametrize("limit", [1000, 2**30])
def test_three_broken_files_of_many(
    tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch, limit: int, told: Any
) -> None:
    monkeypatch.setattr(picture_stack, "LARGE_BYTES", limit)
    good = grey_then_colour(make)
    folder = make.write_folder(tmp_path / "set", good | BROKEN)
    with pytest.raises(UserError) as caught:
        load(folder, resize=32)
    message = str(caught.value)
    assert all(repr(name) in message for name in BROKEN)
    assert "leave all 3 of the 62 images out with --skip-broken" in message
    assert ". " not in message
    listener = Recording()
    found = load(folder, resize=32, skip_broken=True, progress=listener.progress)
    assert any(line.startswith("Left out 3 of the 62 images") for line in listener.lines)
    expected = load(make.write_folder(tmp_path / "good", {n: c for n, c in good.items() if n not in BROKEN}), resize=32)
    assert np.array_equal(found.images, expected.images)
    assert np.array_equal(found.labels, expected.labels)
    assert found.names == expected.names


def test_all_are_broken(tmp_path: Path, make: Any) -> None:
    folder = make.write_folder(tmp_path / "set", {f"{n}.png": b"nothing" for n in range(60)})
    with pytest.raises(UserError, match="and 54 more, or leave all 60"):
        load(folder)
    with pytest.raises(UserError, match="is empty"):
        load(folder, skip_broken=True)


def test_large_photographs_count_as_what_they_become(
    tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    files = {f"{n:03}.png": make.picture(n, mode="RGB", size=(90, 60)) for n in range(50)}
    source = str(make.write_folder(tmp_path / "set", files))

    def read(resizer: Resizer) -> ImageSet:
        return load_with(source, resizer, skip_broken=False, progress=Progress())

    monkeypatch.setattr(picture_stack, "LARGE_BYTES", 50 * 3 * 32 * 32)
    in_memory = read(Resizer(usual=Usual((32, 32), shrinks=True)))
    assert not isinstance(in_memory.images, np.memmap)
    # beyond the limit they are decoded once, whether the size was found or, when a run is resumed, is known
    monkeypatch.setattr(picture_stack, "LARGE_BYTES", 1000)
    for resizer in (Resizer(usual=Usual((32, 32), shrinks=True)), Resizer(32)):
        check_alike(in_memory, read(resizer))
        assert resizer.size == (32, 32)
    assert len(list(cache.rglob("*.npy"))) == 1


@pytest.mark.parametrize("kind", ["folder", "zip"])
@pytest.mark.parametrize("resize", [None, 40])
def test_large_pictures_are_decoded_in_threads_and_come_out_in_order(
    tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch, kind: str, resize: int | None
) -> None:
    """With and without threads: the same pictures, sentences and broken files, in the same order."""
    files = {f"{n:03}.png": make.picture(n, mode="RGB", size=(60 + n % 3, 50)) for n in range(80)}
    for name in ("007.png", "040.png", "041.png"):
        files[name] = files[name][:90]
    write = make.write_folder if kind == "folder" else make.write_zip
    source = write(tmp_path / ("set" if kind == "folder" else "set.zip"), files)
    found = []
    for worth in (10**9, 1):
        monkeypatch.setattr(picture_stack, "_WORTH_A_THREAD", worth)
        listener = Recording()
        resizer = Resizer(resize, usual=None if resize else Usual((30, 40), shrinks=False))
        images = load_with(str(source), resizer, skip_broken=True, progress=listener.progress)
        with pytest.raises(UserError) as refused:
            load(source, resize=32)
        found.append((images.images.tobytes(), images.images.shape, listener.heard, str(refused.value)))
    assert found[0] == found[1]
    assert found[0][1] == ((77, 3, 40, 40) if resize else (77, 3, 30, 40))
    assert "'007.png'" in found[0][3] and "'040.png', '041.png'" in found[0][3]


def test_a_reader_that_is_left_leaves_no_thread(tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_stack, "_WORTH_A_THREAD", 1)
    files = {f"{n:03}.png": make.picture(n, size=(30 + n % 2, 30)) for n in range(60)}
    with pytest.raises(UserError, match="differ in size"):
        load(make.write_folder(tmp_path / "set", files))
    assert not [each for each in threading.enumerate() if each.name.startswith(picture_stack.THREAD)]
