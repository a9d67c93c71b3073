"""diffgen.data.npz and diffgen.data.pixels"""

from __future__ import annotations

import io
import pickle
import struct
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diffgen.data import load
from diffgen.data.pixels import channels_first, to_grey_levels
from diffgen.errors import UserError
from diffgen.events import Progress
from tests.recording import Recording

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (60, 6, 5), dtype=np.uint8)
LABELS = RANDOM.integers(0, 3, 60)
NO_FIXTURE_RESET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=120)


def save(path: Path, **arrays: Any) -> Path:
    np.savez_compressed(path, **arrays)
    return path


def header(descr: str, shape: str, *, version: tuple[int, int] = (1, 0)) -> bytes:
    """What begins an array, with a shape that need not be true."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H", len(text)) + text


def write_members(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        ("images", "labels"),
        ("x", "y"),
        ("x_test", "y_test"),
        ("test_images", "test_labels"),
        ("data", "labels"),
        ("arr_0", "arr_1"),
        ("data", "y"),
        ("images", "arr_1"),
    ],
)
def test_names_of_arrays(tmp_path: Path, images: str, labels: str) -> None:
    found = load(save(tmp_path / "set.npz", **{images: IMAGES, labels: LABELS}))
    assert np.array_equal(found.images[:, 0], IMAGES)
    assert found.labels is not None
    assert np.array_equal(found.labels, LABELS)
    assert found.labels.dtype == np.int64
    assert found.source == str(tmp_path / "set.npz")


def test_no_compression_and_another_ending(tmp_path: Path) -> None:
    with (tmp_path / "set.data").open("wb") as file:
        np.savez(file, IMAGES, LABELS)
    assert np.array_equal(load(tmp_path / "set.data").images[:, 0], IMAGES)


def test_without_labels(tmp_path: Path) -> None:
    assert load(save(tmp_path / "set.npz", images=IMAGES)).labels is None


def test_splits(tmp_path: Path, refused: Any) -> None:
    path = save(tmp_path / "mnist.npz", x_train=IMAGES, y_train=LABELS, x_test=255 - IMAGES, y_test=2 - LABELS)
    for source, images, labels in (
        (path, 255 - IMAGES, 2 - LABELS),
        (f"{path}:test", 255 - IMAGES, 2 - LABELS),
        (f"{path}:train", IMAGES, LABELS),
    ):
        found = load(source)
        assert np.array_equal(found.images[:, 0], images)
        assert found.labels is not None
        assert np.array_equal(found.labels, labels)
    refused(f"{save(tmp_path / 'one.npz', images=IMAGES)}:train", "no train images", "x_train", "'images'")


def test_unknown_names_are_listed_with_the_known_ones(tmp_path: Path, refused: Any) -> None:
    path = save(tmp_path / "set.npz", pictures=IMAGES, klass=LABELS)
    refused(path, "'klass', 'pictures'", "images | x | x_test | test_images | data | arr_0", "labels | y | y_test")


@pytest.mark.parametrize("shape", [(60, 6, 5), (60, 1, 6, 5), (60, 3, 6, 5), (60, 6, 5, 1), (60, 6, 5, 3)])
def test_layouts(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = RANDOM.integers(0, 256, shape, dtype=np.uint8)
    found = load(save(tmp_path / "set.npz", images=values))
    channels = 3 if 3 in shape[1:] else 1
    assert found.images.shape == (60, channels, 6, 5)
    expected = values if shape[1] == 3 else np.moveaxis(values, 3, 1) if shape[-1] == 3 else values.reshape(60, 1, 6, 5)
    assert np.array_equal(found.images, expected)
    assert found.images.flags.c_contiguous


def test_arrays_that_run_column_by_column(tmp_path: Path) -> None:
    found = load(save(tmp_path / "set.npz", images=np.asfortranarray(IMAGES)))
    assert np.array_equal(found.images[:, 0], IMAGES)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
@pytest.mark.parametrize("highest", [1, 255])
def test_whole_grey_levels_in_fractions_are_read_exactly(tmp_path: Path, dtype: str, highest: int) -> None:
    levels = np.resize(np.arange(256, dtype=np.uint8), (64, 4, 8))
    values = (levels / (255 if highest == 1 else 1)).astype(dtype)
    listener = Recording()
    found = load(save(tmp_path / "set.npz", images=values), progress=listener.progress)
    assert np.array_equal(found.images[:, 0], levels)
    assert listener.warnings == []


def test_other_fractions_are_rounded_and_it_is_said(tmp_path: Path) -> None:
    values = RANDOM.random((60, 6, 5), dtype=np.float32)
    listener = Recording()
    found = load(save(tmp_path / "set.npz", images=values), progress=listener.progress)
    assert np.array_equal(found.images[:, 0], np.rint(values.astype(np.float64) * 255))
    (warning,) = listener.warnings
    assert "rounded" in warning
    assert "by up to 0.5" in warning


@pytest.mark.parametrize("dtype", ["int64", "uint16", "int8", ">i4"])
def test_whole_numbers_of_other_types(tmp_path: Path, dtype: str) -> None:
    found = load(save(tmp_path / "set.npz", images=(IMAGES // 2).astype(dtype)))
    assert np.array_equal(found.images[:, 0], IMAGES // 2)


@pytest.mark.parametrize("dtype", ["uint8", "int64"])
def test_zeros_and_ones_are_warned_about(tmp_path: Path, dtype: str) -> None:
    for values, warned in (((IMAGES > 99).astype(dtype), True), (IMAGES.astype(dtype), False)):
        listener = Recording()
        found = load(save(tmp_path / "set.npz", images=values), progress=listener.progress)
        assert np.array_equal(found.images[:, 0], values)
        assert ["nearly black" in line for line in listener.warnings] == [True] * warned


def test_truth_values_are_black_and_white(tmp_path: Path) -> None:
    found = load(save(tmp_path / "set.npz", images=IMAGES > 99))
    assert np.array_equal(found.images[:, 0], np.where(IMAGES > 99, 255, 0))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((IMAGES / 127.5 - 1).astype(np.float32), "-1 to 1"),
        (IMAGES.astype(np.int64) * 2, "0 to 5"),
        (np.where(IMAGES > 9, np.nan, 0.5), "not finite numbers"),
        (np.where(IMAGES > 9, np.inf, 0.5), "not finite numbers"),
        (IMAGES.astype(complex), "complex128"),
        (IMAGES.astype("U3"), "<U3"),
        (IMAGES.astype("M8[s]"), "datetime64"),
        (np.zeros((60, 6, 5), dtype=[("r", "u1"), ("g", "u1")]), "not numbers"),
        (IMAGES.reshape(60, 30), "shape (60, 30)"),
        (IMAGES[:10], "only 10 images"),
        (IMAGES[:0], "empty"),
        (np.float32(1), "float32"),
        (np.uint8(1), "shape ()"),
        (np.zeros((60, 4, 6, 5), np.uint8), "4 channels"),
    ],
)
def test_values_that_are_no_images(tmp_path: Path, refused: Any, values: Any, words: str) -> None:
    refused(save(tmp_path / "set.npz", images=values), words, case=f"`.npz`: images of {values.dtype} {values.shape}")


def test_labels_in_a_column(tmp_path: Path) -> None:
    found = load(save(tmp_path / "set.npz", images=IMAGES, labels=LABELS[:, None]))
    assert found.labels is not None
    assert np.array_equal(found.labels, LABELS)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (LABELS[:-1], "60 images but 59 labels"),
        (np.eye(3)[LABELS], "not whole numbers"),
        (np.eye(3, dtype=int)[LABELS], "argmax"),
        (LABELS - 1, "number the classes from 0"),
        (np.array([[str(n)] for n in LABELS]), "not a list of texts"),
    ],
)
def test_labels_that_do_not_fit(tmp_path: Path, refused: Any, labels: Any, words: str) -> None:
    refused(
        save(tmp_path / "set.npz", images=IMAGES, labels=labels),
        words,
        case=f"`.npz`: 60 images, labels of {labels.dtype} {labels.shape}",
    )


def test_class_names(tmp_path: Path, refused: Any) -> None:
    names = np.array(["ant", "bee", "cat"])
    found = load(save(tmp_path / "set.npz", images=IMAGES, labels=LABELS, class_names=names))
    assert found.class_names == ("ant", "bee", "cat")
    found = load(save(tmp_path / "bytes.npz", images=IMAGES, labels=LABELS, class_names=names.astype("S")))
    assert found.class_names == ("ant", "bee", "cat")
    refused(save(tmp_path / "x.npz", images=IMAGES, class_names=np.arange(3)), "np.array(['cat', 'dog'])")
    refused(save(tmp_path / "x.npz", images=IMAGES, class_names=np.array([b"\xff"])), "cannot be read as text")
    beyond = np.array([0x110000], dtype="<u4").view("<U1")
    refused(save(tmp_path / "x.npz", images=IMAGES, class_names=beyond), "cannot be read as text")
    refused(save(tmp_path / "x.npz", images=IMAGES, class_names=np.array(["a\x1b"])), "not printable")
    refused(save(tmp_path / "x.npz", images=IMAGES, labels=LABELS, class_names=names[:2]), "2 names")


def test_labels_that_are_texts_name_the_classes(tmp_path: Path, refused: Any) -> None:
    texts = np.array(["dog", "cat", "ant"])[LABELS]
    found = load(save(tmp_path / "set.npz", images=IMAGES, labels=texts))
    assert found.class_names == ("ant", "cat", "dog")
    assert found.labels is not None
    assert np.array_equal(np.array(found.class_names)[found.labels], texts)
    ordered = load(save(tmp_path / "set.npz", images=IMAGES, y=texts, class_names=np.array(["dog", "cat", "ant"])))
    assert ordered.labels is not None
    assert np.array_equal(ordered.labels, LABELS)
    refused(save(tmp_path / "x.npz", images=IMAGES, labels=texts, class_names=np.array(["dog", "cat"])), "'ant'")


def test_labels_that_are_numbers_as_texts_are_numbered_by_value(tmp_path: Path) -> None:
    heard = Recording()
    images, numbers = np.repeat(IMAGES[:5], 12, axis=0), np.arange(60) % 12
    found = load(save(tmp_path / "set.npz", images=images, labels=numbers.astype(str)), progress=heard.progress)
    assert found.class_names == tuple(str(number) for number in range(12))
    assert found.labels is not None
    assert np.array_equal(found.labels, numbers)
    assert "are numbered by value, 2 before 10" in heard.heard[0]


class Bomb:
    """A pickle that leaves a trace when it is opened."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return (Path.touch, (self.trace,))


@pytest.mark.parametrize("array", ["images", "labels", "class_names"])
def test_pickles_are_not_opened(tmp_path: Path, refused: Any, array: str) -> None:
    trace = tmp_path / "trace"
    hostile = np.array([Bomb(trace)] * 60, dtype=object)
    refused(
        save(tmp_path / "set.npz", **({"images": IMAGES, "labels": LABELS} | {array: hostile})),
        "Python objects",
        case=f"`.npz`: a pickle in `{array}`",
    )
    assert not trace.exists()
    np.load(tmp_path / "set.npz", allow_pickle=True)[array]
    assert trace.exists(), "the pickle would have worked"


def test_a_pickle_under_the_name_of_an_array(tmp_path: Path, refused: Any) -> None:
    trace = tmp_path / "trace"
    refused(write_members(tmp_path / "set.npz", {"images": pickle.dumps(Bomb(trace))}), "cannot be read", "damaged")
    assert not trace.exists()


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("(1000000, 28, 28)", "holds only"),
        ("(1000000, 4000, 4000)", "holds only"),
        ("(9223372036854775807, 9223372036854775807)", "holds only"),
        ("(60, 6, -5)", "declares the shape"),
        ("(60, 6, 5.0)", "cannot be read"),
        ("(0, 9223372036854775807, 9223372036854775807)", "not as long as its header says"),
        ("(60, 6, 4)", "not as long as its header says"),
        ("(" + "9" * 5000 + ",)", "cannot be read"),
        ("(" * 3000 + ")" * 3000, "cannot be read"),
    ],
)
def test_headers_that_lie(tmp_path: Path, refused: Any, shape: str, words: str) -> None:
    path = write_members(tmp_path / "set.npz", {"images": header("'|u1'", shape) + IMAGES.tobytes()})
    tracemalloc.start()
    refused(path, words, case=f"`.npz`: a header of shape `{shape}`" if len(shape) < 60 else None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * 2**20


@pytest.mark.parametrize(
    "descr", ["'|O'", "'|u1x'", "'<U0'", "'|V0'", "[('a', '|O')]", "__import__('os')", "'|u1', 1", "3"]
)
def test_types_that_lie(tmp_path: Path, refused: Any, descr: str) -> None:
    refused(write_members(tmp_path / "set.npz", {"images": header(descr, "(60, 6, 5)") + IMAGES.tobytes()}), "images")


@pytest.mark.parametrize("version", [(2, 0), (3, 0), (9, 9)])
def test_other_versions_of_the_format(tmp_path: Path, refused: Any, version: tuple[int, int]) -> None:
    content = header("'|u1'", "(60, 6, 5)", version=version) + IMAGES.tobytes()
    refused(write_members(tmp_path / "set.npz", {"images": content}), "cannot be read")


def test_a_bomb(tmp_path: Path, refused: Any) -> None:
    """Terabytes of zeros, compressed: refused by its header; a header that lies: read no further than declared."""
    zeros = bytes(64 * 2**20)
    path = write_members(tmp_path / "set.npz", {"images": header("'|u1'", "(60, 6, 5)") + zeros})
    assert path.stat().st_size < 2**20
    tracemalloc.start()
    refused(path, "not as long as its header says")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * 2**20


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions(tmp_path: Path, refused: Any, method: int) -> None:
    stream = io.BytesIO()
    np.save(stream, IMAGES)
    with zipfile.ZipFile(tmp_path / "set.npz", "w", method) as archive:
        archive.writestr("images.npy", stream.getvalue())
    refused(tmp_path / "set.npz", "numpy.savez")


def test_encrypted(tmp_path: Path, refused: Any) -> None:
    content = bytearray(save(tmp_path / "set.npz", images=IMAGES).read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(signature) + offset] |= 1
    (tmp_path / "set.npz").write_bytes(content)
    refused(tmp_path / "set.npz", "password")


def test_a_single_array(tmp_path: Path, refused: Any) -> None:
    np.save(tmp_path / "set.npy", IMAGES)
    refused(tmp_path / "set.npy", "single array", "numpy.savez")


@NO_FIXTURE_RESET
@given(data=st.data())
def test_damage_with_a_true_checksum(tmp_path: Path, data: Any) -> None:
    """What a zip's checksum would catch before the array is looked at."""
    stream = io.BytesIO()
    np.save(stream, IMAGES)
    content = bytearray(stream.getvalue())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, 140))] = data.draw(st.integers(0, 255))
    with suppress(UserError):
        load(write_members(tmp_path / "set.npz", {"images": bytes(content)}))


@NO_FIXTURE_RESET
@given(descr=st.text(max_size=30), shape=st.text(max_size=30))
def test_any_header_is_a_user_error(tmp_path: Path, refused: Any, descr: str, shape: str) -> None:
    refused(write_members(tmp_path / "set.npz", {"images": header(descr, shape) + IMAGES.tobytes()[:-1]}))


def test_channels_first_leaves_the_rest_alone() -> None:
    for shape in ((5,), (5, 4), (5, 2, 4, 4), (5, 3, 4, 3), (5, 1, 4, 4)):
        assert channels_first(np.zeros(shape, np.uint8)).shape == shape


def test_uint8_is_not_copied() -> None:
    assert to_grey_levels(IMAGES, "x", Progress()) is IMAGES
