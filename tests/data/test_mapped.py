"""The files of pixels in the cache: memory, damage, a full disk, their limit, and samples of large sets."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.config import SplitConfig
from diffgen.data import load
from diffgen.data.decoded import ImageFile, map_images
from diffgen.data.picture_stack import FilePile
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.runs.cache import cache_folder, is_mapped, trim
from diffgen.sampling import affordable_rows
from diffgen.types import ImageSet, pixels_digest
from tests.data.decoded_once import grey_then_colour
from tests.recording import Recording

pytestmark = pytest.mark.usefixtures("cache")
RANDOM = np.random.default_rng(0)


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


def test_the_map_lets_go_of_what_was_read(tmp_path: Path) -> None:
    """A pass over a map of 400 MB in a process of its own takes nothing like that much memory."""
    program = f"""
import numpy as np, resource, sys
from pathlib import Path
from diffgen.data.decoded import ImageFile, map_images
path = Path({str(tmp_path / "large.npy")!r})
file = ImageFile(path, (3, 200, 1000))
block = np.arange(10 * 600_000, dtype=np.uint8).reshape(10, 3, 200, 1000)
for _ in range(66):
    file.add(block)
file.finish()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
images = map_images(path, (660, 3, 200, 1000))
total = sum(int(images[start : start + 20].sum()) for start in range(0, 660, 20))
total += sum(int(images[np.arange(start, 660, 50)].sum()) for start in range(50))
assert total == 2 * 66 * int(block.sum()), total
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
