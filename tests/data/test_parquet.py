"""diffgen.data.parquet"""

from __future__ import annotations

import builtins
import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from diffgen.data import load, parquet
from diffgen.errors import UserError
from tests.recording import Recording

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 256, (60, 6, 5), dtype=np.uint8)
LABELS = [int(label) for label in RANDOM.integers(0, 3, 60)]
NAMES = ["ant", "bee", "cat"]


def png(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    return stream.getvalue()


ENCODED = [png(pixels) for pixels in PIXELS]


def hugging_face(**features: Any) -> dict[str, str]:
    return {"huggingface": json.dumps({"info": {"features": features}})}


FEATURES = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": NAMES}}


def write(path: Path, metadata: dict[str, str] | None = None, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    made = {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()}
    pq.write_table(pa.table(made).replace_schema_metadata(metadata), path, row_group_size=25)
    return path


def structs(encoded: list[bytes] = ENCODED) -> list[dict[str, Any]]:
    return [{"bytes": content, "path": f"{n}.png"} for n, content in enumerate(encoded)]


def check(found: Any, names: tuple[str, ...] | None = tuple(NAMES)) -> None:
    assert np.array_equal(found.images[:, 0], PIXELS)
    assert found.labels.tolist() == LABELS
    assert found.labels.dtype == np.int64
    assert found.class_names == names


def test_the_layout_of_hugging_face(tmp_path: Path) -> None:
    path = write(tmp_path / "set.parquet", hugging_face(**FEATURES), image=structs(), label=LABELS)
    check(load(path))
    assert load(path).source == str(path)


def test_plain_bytes_without_metadata(tmp_path: Path) -> None:
    check(load(write(tmp_path / "set.parquet", image=ENCODED, label=LABELS)), None)


def test_another_ending_is_no_matter(tmp_path: Path) -> None:
    check(load(write(tmp_path / "set.bin", image=ENCODED, label=LABELS)), None)


@pytest.mark.parametrize("names", [("img", "fine_label"), ("picture", "target"), ("images", "y"), ("photo", "label")])
def test_names_of_columns(tmp_path: Path, names: tuple[str, str]) -> None:
    check(load(write(tmp_path / "set.parquet", **{names[0]: ENCODED, names[1]: LABELS, "id": range(60)})), None)


def test_metadata_choose_among_columns(tmp_path: Path) -> None:
    features = {"photo": {"_type": "Image"}, "kind": {"_type": "ClassLabel", "names": NAMES}, "n": {"_type": "Value"}}
    columns = {"mask": [b""] * 60, "photo": ENCODED, "n": [0] * 60, "kind": LABELS}
    check(load(write(tmp_path / "set.parquet", hugging_face(**features), **columns)))


def test_several_columns_of_classes(tmp_path: Path) -> None:
    classes = {"_type": "ClassLabel", "names": NAMES}
    columns = {"image": ENCODED, "size": LABELS, "kind": LABELS}
    path = write(tmp_path / "set.parquet", hugging_face(size=classes, kind=classes), **columns)
    listener = Recording()
    assert load(path, progress=listener.progress).labels is None
    assert "size, kind" in listener.warnings[0]


def test_labels_that_are_texts(tmp_path: Path) -> None:
    texts = [NAMES[label] for label in LABELS]
    check(load(write(tmp_path / "a.parquet", image=ENCODED, label=texts)))
    check(load(write(tmp_path / "b.parquet", image=ENCODED, label=pa.array(texts).dictionary_encode())))


def test_labels_that_are_numbers_as_texts_are_numbered_by_value(tmp_path: Path) -> None:
    heard = Recording()
    numbers = [row % 12 for row in range(60)]
    path = write(tmp_path / "a.parquet", image=ENCODED, label=[str(number) for number in numbers])
    found = load(path, progress=heard.progress)
    assert found.class_names == tuple(str(number) for number in range(12))
    assert found.labels is not None
    assert found.labels.tolist() == numbers
    assert "are numbered by value, 2 before 10" in heard.heard[0]


def test_without_labels(tmp_path: Path) -> None:
    found = load(write(tmp_path / "set.parquet", image=ENCODED, weight=[0.5] * 60))
    assert (found.labels, found.class_names) == (None, None)


def test_unknown_labels_of_a_test_set(tmp_path: Path) -> None:
    listener = Recording()
    path = write(tmp_path / "set.parquet", hugging_face(**FEATURES), image=ENCODED, label=[-1] * 60)
    assert load(path, progress=listener.progress).labels is None
    assert "-1" in listener.warnings[0]


def test_colours_and_modes(tmp_path: Path) -> None:
    colours = [png(np.stack([pixels, pixels // 2, 255 - pixels], axis=2)) for pixels in PIXELS[:30]]
    listener = Recording()
    found = load(write(tmp_path / "set.parquet", image=colours + ENCODED[30:]), progress=listener.progress)
    assert found.images.shape == (60, 3, 6, 5)
    assert np.array_equal(found.images[3, 2], 255 - PIXELS[3])
    assert np.array_equal(found.images[40, 2], PIXELS[40])
    assert "are grey" in listener.warnings[0]


def test_mixed_sizes(tmp_path: Path, refused: Any) -> None:
    mixed = [png(np.resize(pixels, (20 + n, 40 - n))) for n, pixels in enumerate(PIXELS[:30])] + ENCODED[30:]
    path = write(tmp_path / "set.parquet", image=mixed)
    refused(path, "differ in size", "set.parquet row 1", "--resize")
    assert load(path, resize=28).images.shape == (60, 1, 28, 28)


def sharded(folder: Path, split: str, shards: int = 3, metadata: Any = None, start: int = 0) -> Path:
    rows = np.array_split(np.arange(60), shards)
    for number, part in enumerate(rows):
        write(
            folder / f"{split}-{number:05d}-of-{shards:05d}.parquet",
            hugging_face(**FEATURES) if metadata is None else metadata,
            image=structs([ENCODED[(row + start) % 60] for row in part]),
            label=[LABELS[(row + start) % 60] for row in part],
        )
    return folder


def test_shards_are_joined_in_order(tmp_path: Path) -> None:
    check(load(sharded(tmp_path, "test")))


@pytest.mark.parametrize("inside", ["", "data", "mnist/test"])
def test_splits(tmp_path: Path, refused: Any, inside: str) -> None:
    sharded(tmp_path / inside, "test", 2)
    sharded(tmp_path / inside.replace("test", "train"), "train", 2, start=7)
    (tmp_path / "README.md").write_text("about")
    check(load(tmp_path))
    check(load(f"{tmp_path}:test"))
    assert np.array_equal(load(f"{tmp_path}:train").images[0, 0], PIXELS[7])
    refused(f"{tmp_path}:tset", "':train' or ':test'")


def test_the_layout_of_converted_sets(tmp_path: Path) -> None:
    write(tmp_path / "default" / "validation" / "0000.parquet", image=ENCODED, label=LABELS)
    write(tmp_path / "default" / "train" / "0000.parquet", image=ENCODED[::-1], label=LABELS)
    check(load(f"{tmp_path}:test"), None)


def test_no_such_split(tmp_path: Path, refused: Any) -> None:
    refused(f"{sharded(tmp_path, 'train')}:test", "no test tables", "train-00000-of-00003.parquet")
    refused(f"{tmp_path}/train-00000-of-00003.parquet:test", "is not divided")


def test_training_tables_when_there_is_nothing_else(tmp_path: Path) -> None:
    check(load(sharded(tmp_path, "train")))


def test_a_shard_is_missing(tmp_path: Path, refused: Any) -> None:
    (sharded(tmp_path, "test") / "test-00001-of-00003.parquet").unlink()
    refused(tmp_path, "00001-of-00003 is missing")


def test_several_data_sets(tmp_path: Path, refused: Any) -> None:
    sharded(tmp_path / "fine", "test")
    sharded(tmp_path / "coarse", "test")
    refused(tmp_path, "several data sets", "coarse, fine")
    check(load(tmp_path / "fine"))


def test_shards_that_differ(tmp_path: Path, refused: Any) -> None:
    sharded(tmp_path, "test", 2)
    write(tmp_path / "test-00001-of-00002.parquet", image=ENCODED, label=LABELS)
    refused(tmp_path, "differ in their columns or class names")


def test_pictures_beside_tables(tmp_path: Path, make: Any) -> None:
    make.write_folder(tmp_path, {"example.png": make.picture(0)})
    check(load(sharded(tmp_path, "test")))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"text": ["a"] * 60, "label": LABELS}, "no column of encoded images"),
        ({"image": ["a.png"] * 60, "label": LABELS}, "'image' (string)"),
        ({"image": [[1, 2]] * 60}, "no column of encoded images"),
        ({"image": [{"path": "a"}] * 60}, "no column of encoded images"),
        ({"image": [{"bytes": "a"}] * 60}, "no column of encoded images"),
        ({"image": [{"bytes": None, "path": "a/b.png"}] * 60}, "no column of encoded images"),
        ({"image": pa.array([None] * 60, pa.binary())}, "has no bytes"),
        ({"image": [{"bytes": ENCODED[0], "path": ""}] * 59 + [{"bytes": None, "path": "a/b.png"}]}, "'a/b.png'"),
        ({"image": [*ENCODED[:59], None]}, "row 59"),
        ({"image": [*ENCODED[:59], b"GIF89a"]}, "damaged"),
        ({"image": [*ENCODED[:59], b""]}, "row 59"),
        ({"image": ENCODED[:9]}, "only 9 images"),
        ({"image": pa.array([], pa.binary())}, "empty"),
        ({"image": ENCODED, "label": [*LABELS[:59], None]}, "1 are missing"),
        ({"image": ENCODED, "label": [*LABELS[:59], -1]}, "contain -1"),
        ({"image": ENCODED, "label": [*LABELS[:59], 2**40]}, "room for"),
        ({"image": ENCODED, "label": ["a\x00"] * 60}, "not printable"),
    ],
)
def test_tables_that_do_not_fit(tmp_path: Path, refused: Any, columns: Any, words: str) -> None:
    refused(write(tmp_path / "set.parquet", **columns), words)


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "{",
        "[]",
        "null",
        '{"info": 3}',
        '{"info": {"features": []}}',
        '{"info": {"features": {"label": 3, "image": []}}}',
        '{"info": {"features": {"label": {"_type": "ClassLabel", "names": 7}}}}',
        '{"info": {"features": {"label": {"_type": ["ClassLabel"]}}}}',
        "[" * 100_000,
    ],
)
def test_damaged_metadata_say_nothing(tmp_path: Path, metadata: str) -> None:
    check(load(write(tmp_path / "set.parquet", {"huggingface": metadata}, image=ENCODED, label=LABELS)), None)


@pytest.mark.parametrize("names", [["a", 3, "c"], ["a", "b\n", "c"], ["a"], [None] * 3, [["a"]] * 3])
def test_class_names_that_do_not_fit(tmp_path: Path, refused: Any, names: Any) -> None:
    features = {"label": {"_type": "ClassLabel", "names": names}}
    refused(write(tmp_path / "set.parquet", hugging_face(**features), image=ENCODED, label=LABELS))


def test_two_columns_of_one_name(tmp_path: Path, refused: Any) -> None:
    table = pa.Table.from_arrays([pa.array(ENCODED), pa.array(ENCODED)], names=["image", "image"])
    pq.write_table(table, tmp_path / "set.parquet")
    refused(tmp_path / "set.parquet", "no column of encoded images")


def test_a_large_picture(tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "MAX_FILE_BYTES", 2**20)
    refused(write(tmp_path / "set.parquet", image=[*ENCODED, bytes(2**20 + 1)]), "row 60", "larger than")


def test_one_large_value_in_every_row_is_in_memory_once(tmp_path: Path, refused: Any) -> None:
    """It is written down once: a file of some thousand bytes would fill the memory."""
    cell = bytes(8 * 2**20)
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 60, pa.int32()), pa.array([cell]))
    pq.write_table(pa.table({"image": column}), tmp_path / "set.parquet", compression="zstd", store_schema=False)
    assert (tmp_path / "set.parquet").stat().st_size < 10_000
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)  # counts for itself
    pa.set_memory_pool(pool)
    try:
        refused(tmp_path / "set.parquet", "damaged or not an image")
    finally:
        pa.set_memory_pool(before)
    assert 0 < pool.max_memory() < 10 * len(cell)


def test_a_table_that_unpacks_to_much(tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "MAX_ZIP_BYTES", 1000)
    refused(write(tmp_path / "set.parquet", image=ENCODED), "unpacks to more than")


def test_pickled_extension_types_are_not_opened(tmp_path: Path, refused: Any) -> None:
    """Before pyarrow 14.0.1 a column of this type was unpickled on sight (CVE-2023-47248)."""
    pickled = b"cos\nmkdir\n(S'" + str(tmp_path / "trace").encode() + b"'\ntR."
    extension = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": pickled}
    field = pa.field("image", pa.binary(), metadata=extension)
    table = pa.Table.from_arrays([pa.array(ENCODED, pa.binary())], schema=pa.schema([field]))
    pq.write_table(table, tmp_path / "set.parquet")
    with suppress(UserError):
        load(tmp_path / "set.parquet")
    assert not (tmp_path / "trace").exists()


def test_pyarrow_is_missing(tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "set.parquet", image=ENCODED)
    imported = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "pyarrow":
            raise ImportError(f"No module named {name!r}")
        return imported(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    refused(path, "pip install 'diffgen[parquet]'")
