"""diffgen.data.idx"""

from __future__ import annotations

import gzip
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from diffgen.data import load
from diffgen.data.idx import read_idx
from tests.recording import Recording

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (60, 6, 5), dtype=np.uint8)
LABELS = RANDOM.integers(0, 10, 60, dtype=np.uint8)
NO_FIXTURE_RESET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def mnist_like(make: Any, root: Path, split: str = "t10k", *, images: np.ndarray = IMAGES, end: str = "") -> Path:
    packed = end == ".gz"
    return make.write_folder(
        root,
        {
            f"{split}-images-idx3-ubyte{end}": make.idx_bytes(images, compressed=packed),
            f"{split}-labels-idx1-ubyte{end}": make.idx_bytes(LABELS, compressed=packed),
        },
    )


@pytest.mark.parametrize("end", ["", ".gz"])
def test_folder_gives_images_and_labels(tmp_path: Path, make: Any, end: str) -> None:
    found = load(mnist_like(make, tmp_path, end=end))
    assert found.images.shape == (60, 1, 6, 5)
    assert found.images.dtype == np.uint8
    assert np.array_equal(found.images[:, 0], IMAGES)
    assert found.labels is not None
    assert found.labels.dtype == np.int64
    assert np.array_equal(found.labels, LABELS)
    assert found.class_names is None
    assert found.source == str(tmp_path)


@settings(max_examples=40)
@given(
    shape=st.tuples(st.integers(50, 70), st.integers(1, 9), st.integers(1, 9)),
    seed=st.integers(0, 2**32 - 1),
    compressed=st.booleans(),
)
def test_round_trip(shape: tuple[int, ...], seed: int, compressed: bool) -> None:
    values = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    header = bytes([0, 0, 8, 3]) + struct.pack(">3I", *shape)
    content = header + values.tobytes()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(gzip.compress(content) if compressed else content)
        assert np.array_equal(read_idx(path, axes=(3,)), values)
        assert np.array_equal(load(path).images[:, 0], values)


@NO_FIXTURE_RESET
@given(content=st.binary(max_size=64))
@example(content=b"\0\0\x08\x03" + struct.pack(">3I", 0, 2**32 - 1, 2**32 - 1))
@example(content=b"\0\0\x08\x03" + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1))
@example(content=b"\x1f\x8b")
def test_any_bytes_are_a_user_error(tmp_path: Path, refused: Any, content: bytes) -> None:
    path = tmp_path / "train-images.idx3-ubyte"
    path.write_bytes(content)
    refused(path)


def test_a_header_that_lies_reads_no_more_than_there_is(tmp_path: Path, refused: Any) -> None:
    path = tmp_path / "t10k-images-idx3-ubyte"
    path.write_bytes(b"\0\0\x08\x03" + struct.pack(">3I", 2**20, 28, 28) + bytes(100))
    refused(path, "1048576 x 28 x 28", "holds 100 bytes", case="an idx file that is shorter than it says")


def test_more_bytes_than_declared(tmp_path: Path, make: Any, refused: Any) -> None:
    path = tmp_path / "t10k-images-idx3-ubyte"
    path.write_bytes(make.idx_bytes(IMAGES) + b"x")
    refused(path, "longer than it says")


@pytest.mark.parametrize(
    ("code", "words"), [(0x0D, "float32"), (0x0C, "int32"), (0x07, "not an idx file"), (0x09, "int8")]
)
def test_other_types_of_values(tmp_path: Path, make: Any, refused: Any, code: int, words: str) -> None:
    content = bytearray(make.idx_bytes(IMAGES))
    content[2] = code
    path = tmp_path / "t10k-images-idx3-ubyte"
    path.write_bytes(content)
    refused(path, words)


def test_number_of_labels_must_fit(tmp_path: Path, make: Any, refused: Any) -> None:
    folder = mnist_like(make, tmp_path)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(make.idx_bytes(LABELS[:-1]))
    refused(folder, "60 images but 59 labels", case="idx files with one label too few")


def test_labels_file_with_images_in_it(tmp_path: Path, make: Any, refused: Any) -> None:
    folder = mnist_like(make, tmp_path)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(make.idx_bytes(IMAGES))
    refused(folder, "3 axes where 1 are needed")


def test_without_labels(tmp_path: Path, make: Any) -> None:
    folder = mnist_like(make, tmp_path)
    (folder / "t10k-labels-idx1-ubyte").unlink()
    assert load(folder).labels is None


def test_test_images_are_preferred_and_both_can_be_named(tmp_path: Path, make: Any, refused: Any) -> None:
    mnist_like(make, tmp_path, "t10k")
    mnist_like(make, tmp_path, "train", images=255 - IMAGES, end=".gz")
    test, train = IMAGES[:, None], 255 - IMAGES[:, None]
    assert np.array_equal(load(tmp_path).images, test)
    assert np.array_equal(load(f"{tmp_path}:test").images, test)
    assert np.array_equal(load(f"{tmp_path}:train").images, train)
    by_file = load(tmp_path / "train-images-idx3-ubyte.gz")
    assert np.array_equal(by_file.images, train)
    assert by_file.labels is not None
    refused(f"{tmp_path}/train-images-idx3-ubyte.gz:test", "is not divided")
    refused(f"{tmp_path}:tset", "':train' or ':test'")


def test_only_the_training_images(tmp_path: Path, make: Any, refused: Any) -> None:
    mnist_like(make, tmp_path, "train")
    assert len(load(tmp_path)) == 60
    refused(f"{tmp_path}:test", "holds no test images")


def test_several_data_sets_in_one_folder(tmp_path: Path, make: Any, refused: Any) -> None:
    mnist_like(make, tmp_path, "emnist-letters-test")
    mnist_like(make, tmp_path, "emnist-digits-test")
    refused(tmp_path, "several", "emnist-letters-test-images-idx3-ubyte")
    assert len(load(tmp_path / "emnist-letters-test-images-idx3-ubyte")) == 60


def test_labels_file_instead_of_images(tmp_path: Path, make: Any, refused: Any) -> None:
    refused(mnist_like(make, tmp_path) / "t10k-labels-idx1-ubyte", "holds labels")


@pytest.mark.parametrize("given_folder", [".", "MNIST", "MNIST/raw"])
def test_the_layout_of_torchvision(tmp_path: Path, make: Any, given_folder: str) -> None:
    raw = tmp_path / "MNIST" / "raw"
    mnist_like(make, raw)
    mnist_like(make, raw, end=".gz")  # torchvision keeps the download beside the unpacked file
    assert load(tmp_path / given_folder).labels is not None


def test_two_data_sets_of_torchvision(tmp_path: Path, make: Any, refused: Any) -> None:
    mnist_like(make, tmp_path / "MNIST" / "raw")
    mnist_like(make, tmp_path / "FashionMNIST" / "raw")
    refused(tmp_path, "several", "FashionMNIST/raw/t10k-images-idx3-ubyte")


def test_names_with_a_dot(tmp_path: Path, make: Any) -> None:
    make.write_folder(
        tmp_path,
        {"t10k-images.idx3-ubyte": make.idx_bytes(IMAGES), "t10k-labels.idx1-ubyte": make.idx_bytes(LABELS)},
    )
    assert load(tmp_path).labels is not None


@pytest.mark.parametrize("shape", [(60, 3, 6, 5), (60, 6, 5, 3), (60, 6, 5, 1)])
def test_four_axes_with_channels_first_or_last(tmp_path: Path, make: Any, shape: tuple[int, ...]) -> None:
    values = RANDOM.integers(0, 256, shape, dtype=np.uint8)
    path = tmp_path / "test-images-idx4-ubyte"
    path.write_bytes(make.idx_bytes(values))
    expected = values if shape[1] == 3 else np.moveaxis(values, 3, 1)
    found = load(path)
    assert np.array_equal(found.images, expected)
    assert found.images.flags.c_contiguous


def test_four_axes_without_channels(tmp_path: Path, make: Any, refused: Any) -> None:
    path = tmp_path / "test-images-idx4-ubyte"
    path.write_bytes(make.idx_bytes(np.zeros((60, 6, 5, 2))))
    refused(path, "channels")


def test_progress_reaches_its_total(tmp_path: Path, make: Any) -> None:
    recorder = Recording()
    load(mnist_like(make, tmp_path), progress=recorder.progress)
    assert recorder.totals
    assert {name: recorder.reached(name)[-1] for name in recorder.totals} == recorder.totals


@pytest.mark.parametrize(("method", "ending"), [("open", "ubyte"), ("iterdir", "set")])
def test_no_permission(
    tmp_path: Path, make: Any, refused: Any, monkeypatch: pytest.MonkeyPatch, method: str, ending: str
) -> None:
    folder = mnist_like(make, tmp_path / "set")
    allowed = getattr(Path, method)

    def refuse(path: Path, *arguments: Any) -> Any:
        if path.name.endswith(ending):
            raise PermissionError(13, "Permission denied")
        return allowed(path, *arguments)

    monkeypatch.setattr(Path, method, refuse)
    refused(folder, "Permission denied", "permissions")
    refused(folder / "t10k-images-idx3-ubyte", "Permission denied", "permissions")


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_real_files(shared_folder: Path, name: str) -> None:
    folder = shared_folder / "data" / name
    if not folder.is_dir():
        pytest.skip(f"There is no folder {folder}.")
    found = load(folder)
    assert found.images.shape == (10_000, 1, 28, 28)
    assert found.labels is not None
    assert sorted(set(found.labels.tolist())) == list(range(10))
    assert 10 < found.images.mean() < 100
