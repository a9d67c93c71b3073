"""diffgen.data.decoded, mapped and piles: sets that are decoded once into the cache."""

from __future__ import annotations

import gzip
import resource
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.config import SplitConfig
from diffgen.data import load, picture_stack
from diffgen.data.loading import load_with
from diffgen.data.mapped import ImageFile, ImageMap, map_images
from diffgen.data.piles import FilePile
from diffgen.data.resize import Resizer, Usual
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.runs.cache import cache_folder
from diffgen.runs.cache_limit import is_mapped, trim
from diffgen.sampling import affordable_rows
from diffgen.types import ImageSet, pixels_digest
from tests.recording import Recording

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DIFFGEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_stack, "LARGE_BYTES", 1000)


def in_both_ways(source: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[ImageSet, ImageSet]:
    """The set as it is in memory, and as it is in the cache."""
    in_memory = load(source, **options)
    with monkeypatch.context() as patched:
        patched.setattr(picture_stack, "LARGE_BYTES", 1000)
        return in_memory, load(source, **options)


def check_alike(one: ImageSet, other: ImageSet) -> None:
    assert not isinstance(one.images, np.memmap)
    assert isinstance(other.images, ImageMap)
    assert not other.images.flags.writeable
    assert np.array_equal(one.images, other.images)
    assert one.digest == other.digest
    assert one.class_names == other.class_names
    assert (one.labels is None) == (other.labels is None)
    if one.labels is not None and other.labels is not None:
        assert np.array_equal(one.labels, other.labels)


def grey_then_colour(make: Any, count: int = 60) -> dict[str, bytes]:
    """Pictures of two sizes, grey ones first."""
    return {
        f"{'ab'[n >= 30]}/{n:03}.png": make.picture(
            n * 4, mode="RGB" if n > 40 else "L", size=(20, 30) if n % 2 else (33, 21)
        )
        for n in range(count)
    }


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


@pytest.mark.parametrize("ending", [".npy", ".safetensors"])
def test_damage_is_mended(tmp_path: Path, make: Any, small_limit: None, cache: Path, ending: str) -> None:
    folder = make.write_folder(tmp_path / "set", grey_then_colour(make))
    before = load(folder, resize=32).digest
    (damaged,) = (cache / "images").glob(f"*{ending}")
    damaged.write_bytes(damaged.read_bytes()[:200])
    listener = Recording()
    found = load(folder, resize=32, progress=listener.progress)
    assert found.digest == before == pixels_digest(np.array(found.images), found.labels)
    assert any("made anew" in line for line in listener.warnings)


def test_a_full_disk(tmp_path: Path, make: Any, small_limit: None, cache: Path, told: Any) -> None:
    """The system ends the writing of a file at a size, as a full disk would."""
    folder = make.write_folder(tmp_path / "set", grey_then_colour(make))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(UserError) as caught:
            load(folder, resize=64)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "do not fit into the cache" in str(caught.value)
    assert "DIFFGEN_CACHE" in str(caught.value)
    assert [file.suffix for file in (cache / "images").iterdir()] in ([], [".lock"])
    assert load(folder, resize=64).image_shape == (3, 64, 64)


def test_nothing_is_left_of_a_file_that_was_written_twice_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are halved, then a coloured one comes, and then the disk is full."""
    with pytest.raises(OSError, match="full"), FilePile(tmp_path / "pile", "mine") as pile:
        for level in range(3):
            pile.add(np.full((8, 8), level, dtype=np.uint8))
        pile.again(lambda picture: picture[:4, :4])

        def full(file: ImageFile, images: Any) -> None:
            raise OSError("full")

        monkeypatch.setattr(ImageFile, "add", full)
        pile.add(np.zeros((4, 4, 3), dtype=np.uint8))
    assert [file.name for file in tmp_path.iterdir()] in ([], ["pile"])


def test_what_a_killed_process_left_is_removed(tmp_path: Path, make: Any, small_limit: None, cache: Path) -> None:
    folder = make.write_folder(tmp_path / "set", grey_then_colour(make))
    load(folder, resize=32)
    (pixels,) = (cache / "images").glob("*.npy")
    pixels.unlink()
    for ending in ("", ".again"):
        (cache / "images" / f".{pixels.name}.77.{'0a' * 8}.tmp{ending}").write_bytes(b"half")
    load(folder, resize=32)
    assert not list((cache / "images").glob(".*"))


def test_what_becomes_small_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = RANDOM.integers(0, 256, (60, 3, 40, 40), dtype=np.uint8)
    np.savez(tmp_path / "set.npz", images=images)
    wanted = load(tmp_path / "set.npz", resize=16)
    monkeypatch.setattr("diffgen.data.array_rows.LARGE_BYTES", 100_000)
    for _ in range(2):
        found = load(tmp_path / "set.npz", resize=16)
        assert not isinstance(found.images, np.memmap) and found.images.flags.writeable
        assert np.array_equal(found.images, wanted.images) and found.digest == wanted.digest


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


def test_all_are_broken(tmp_path: Path, make: Any) -> None:
    folder = make.write_folder(tmp_path / "set", {f"{n}.png": b"nothing" for n in range(60)})
    with pytest.raises(UserError, match="and 54 more, or leave all 60"):
        load(folder)
    with pytest.raises(UserError, match="is empty"):
        load(folder, skip_broken=True)


def test_the_map_lets_go_of_what_was_read(tmp_path: Path) -> None:
    """A pass over a map of 600 MB in a process of its own takes nothing like that much memory."""
    program = f"""
import numpy as np, resource, sys
from pathlib import Path
from diffgen.data.mapped import ImageFile, map_images
path = Path({str(tmp_path / "large.npy")!r})
file = ImageFile(path, (3, 200, 1000))
block = np.arange(10 * 600_000, dtype=np.uint8).reshape(10, 3, 200, 1000)
for _ in range(100):
    file.add(block)
file.finish()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
images = map_images(path, (1000, 3, 200, 1000))
total = sum(int(images[start : start + 20].sum()) for start in range(0, 1000, 20))
total += sum(int(images[np.arange(start, 1000, 50)].sum()) for start in range(50))
assert total == 2 * 100 * int(block.sum()), total
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 300_000  # KiB


def test_views_stay_valid(tmp_path: Path) -> None:
    pixels = RANDOM.integers(0, 256, (60, 3, 20, 20), dtype=np.uint8)
    file = ImageFile(tmp_path / "set.npy", (3, 20, 20))
    file.add(pixels)
    file.finish()
    images = map_images(tmp_path / "set.npy", pixels.shape)
    view = images[10:20]
    images.let_go()
    assert np.array_equal(view, pixels[10:20])
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 0
    assert [np.array_equal(one, other) for one, other in zip(images, pixels, strict=True)] == [True] * 60


def test_the_cache_is_kept_below_a_size(tmp_path: Path, make: Any, small_limit: None, cache: Path) -> None:
    folder = make.write_folder(tmp_path / "set", grey_then_colour(make))
    sizes = (32, 40, 48)
    for side in sizes:
        load(folder, resize=side)
    kept = load(folder, resize=32)  # used last, though made first
    assert all(is_mapped(path) == (path.stat().st_size < 60 * 3 * 33 * 33) for path in (cache / "images").glob("*.npy"))
    done = trim(cache_folder(), 60 * 3 * 49 * 49)
    assert done.freed == {"images": pytest.approx(60 * 3 * 40 * 40 + 60 * 3 * 48 * 48, rel=0.1)}
    assert done.in_use == 0
    done = trim(cache_folder(), 0)
    assert done.freed == {}
    assert done.in_use == done.left
    assert kept.images[59].max() == 236
    del kept
    assert trim(cache_folder(), 0).left == 0
    assert [path.suffix for path in (cache / "images").iterdir()] == [".lock"] * 3


def test_networks_learn_from_a_bounded_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    images = RANDOM.integers(0, 256, (900, 3, 16, 16), dtype=np.uint8)
    data = ImageSet(images, np.arange(900) % 7, None, "mine")
    everything = DataSplit(data, SplitConfig())
    assert len(everything.reference) == 810
    for module in ("diffgen.sampling", "diffgen.data.split"):
        monkeypatch.setattr(f"{module}.LARGE_BYTES", 300 * 768)
    split, again = DataSplit(data, SplitConfig()), DataSplit(data, SplitConfig())
    assert len(split.reference) == 300
    assert len(split.held_out) == 90  # fewer than a third of 300
    assert split.labels is not None
    assert torch.equal(split.reference, again.reference)
    assert set(split.rows[0].tolist()) < set(everything.rows[0].tolist())
    assert np.array_equal(split.labels[0], data.labels[split.rows[0]])  # type: ignore[index]
    assert len(affordable_rows(images)) == 300
    monkeypatch.undo()
    assert np.array_equal(affordable_rows(images), np.arange(900))


@pytest.mark.parametrize("kind", ["uint8", "uint16", "float32", "bool"])
@pytest.mark.parametrize("shape", [(60, 20, 30), (60, 20, 30, 3), (60, 3, 20, 30)])
@pytest.mark.parametrize("size", [None, (18, 16)])
def test_npz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, shape: Any, size: Any) -> None:
    values = RANDOM.integers(0, 256, shape)
    images = {"float32": values / 255, "bool": values > 99}.get(kind, values).astype(kind)
    labels = np.array(["ab"[n % 2] for n in range(60)])
    np.savez_compressed(tmp_path / "set.npz", images=images, labels=labels)
    in_memory = load(tmp_path / "set.npz", resize=size)
    for module in ("array_rows", "npz"):
        monkeypatch.setattr(f"diffgen.data.{module}.LARGE_BYTES", 1000)
    monkeypatch.setattr("diffgen.data.array_rows._BATCH", 9000)
    check_alike(in_memory, load(tmp_path / "set.npz", resize=size))


@pytest.mark.parametrize("compressed", [False, True])
def test_idx(tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch, compressed: bool) -> None:
    values, ending = RANDOM.integers(0, 256, (60, 20, 30)), ".gz" if compressed else ""
    (tmp_path / f"t10k-images-idx3-ubyte{ending}").write_bytes(make.idx_bytes(values, compressed=compressed))
    (tmp_path / f"t10k-labels-idx1-ubyte{ending}").write_bytes(make.idx_bytes(np.arange(60) % 5, compressed=compressed))
    in_memory = load(tmp_path)
    monkeypatch.setattr("diffgen.data.array_rows.LARGE_BYTES", 1000)
    check_alike(in_memory, load(tmp_path))


@pytest.mark.parametrize("change", [-7, 7])
def test_arrays_of_another_length_than_they_say(
    tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch, cache: Path, change: int
) -> None:
    monkeypatch.setattr("diffgen.data.array_rows.LARGE_BYTES", 1000)
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
    for module in ("npz", "array_rows"):
        monkeypatch.setattr(f"diffgen.data.{module}.LARGE_BYTES", 1000)
    with pytest.raises(UserError, match="column by column"):
        load(tmp_path / "set.npz")


def test_columns_that_are_large_only_when_they_are_enlarged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = RANDOM.integers(0, 256, (60, 20, 30)).astype(np.uint8)
    np.savez(tmp_path / "rows.npz", images=images)
    np.savez(tmp_path / "columns.npz", images=np.asfortranarray(images))
    wanted = load(tmp_path / "rows.npz", resize=64)
    for module in ("npz", "array_rows"):
        monkeypatch.setattr(f"diffgen.data.{module}.LARGE_BYTES", images.nbytes)
    assert np.array_equal(load(tmp_path / "columns.npz", resize=64).images, wanted.images)
    # fractions take more room in the file than what is made of them
    np.savez(tmp_path / "fractions.npz", images=np.asfortranarray((images / 255).astype(np.float32)))
    assert np.array_equal(load(tmp_path / "fractions.npz").images[:, 0], images)


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
    assert not [each for each in threading.enumerate() if each.name.startswith("ThreadPoolExecutor")]
