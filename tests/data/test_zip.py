"""Image folders in a zip: the same set as from the folder, and nothing that a hostile zip could do."""

from __future__ import annotations

import struct
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen.data import file_tree, load


@pytest.fixture(autouse=True)
def nothing_is_extracted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("A zip must not be extracted.")

    monkeypatch.setattr(zipfile.ZipFile, "extract", fail)
    monkeypatch.setattr(zipfile.ZipFile, "extractall", fail)


@pytest.mark.parametrize("top", ["", "test/", "a/b/", "./"])
def test_same_as_the_folder(tmp_path: Path, make: Any, top: str) -> None:
    files = make.classes()
    extra = {"__MACOSX/cat/._000.png": b"", ".DS_Store": b"", f"{top}cat/.hidden.png": b""}
    archive = make.write_zip(tmp_path / "set.zip", {f"{top}{n}": c for n, c in files.items()} | extra)
    found = load(archive)
    folder = load(make.write_folder(tmp_path / "set", files))
    assert np.array_equal(found.images, folder.images)
    assert found.class_names == folder.class_names
    assert found.digest == folder.digest
    assert found.source == str(archive)


def test_order_does_not_depend_on_the_order_in_the_zip(tmp_path: Path, make: Any) -> None:
    files = make.classes()
    backwards = make.write_zip(tmp_path / "b.zip", dict(reversed(files.items())), zipfile.ZIP_STORED)
    assert load(make.write_zip(tmp_path / "a.zip", files)).digest == load(backwards).digest


def test_without_class_folders(tmp_path: Path, make: Any) -> None:
    archive = make.write_zip(tmp_path / "set", {f"{n}.png": make.picture(n) for n in range(50)})
    assert load(archive).labels is None


def test_splits(tmp_path: Path, make: Any) -> None:
    files = {f"{split}/{name}": content for split in ("train", "test") for name, content in make.classes().items()}
    del files["test/cat/000.png"]
    archive = make.write_zip(tmp_path / "set.zip", files | {"test/dog/099.png": make.picture(0)})
    assert np.bincount(load(archive).labels).tolist() == [24, 26]  # type: ignore[arg-type]
    assert np.bincount(load(f"{archive}:train").labels).tolist() == [25, 25]  # type: ignore[arg-type]


def test_folder_entries_count_as_class_folders(tmp_path: Path, make: Any) -> None:
    archive = make.write_zip(tmp_path / "set.zip", {"bee/": b""} | make.classes())
    assert load(archive).class_names == ("bee", "cat", "dog")


def test_backslashes_divide_folders(tmp_path: Path, make: Any) -> None:
    files = {name.replace("/", "\\"): content for name, content in make.classes().items()}
    assert load(make.write_zip(tmp_path / "set.zip", files)).class_names == ("cat", "dog")


@pytest.mark.parametrize(
    "name",
    [
        "../x.png",
        "cat/../../x.png",
        "..\\x.png",
        "/etc/x.png",
        "\\\\host\\x.png",
        "C:/x.png",
        "c:x.png",
        "../notes.txt",
    ],
)
def test_paths_that_lead_out(tmp_path: Path, make: Any, refused: Any, name: str) -> None:
    archive = make.write_zip(tmp_path / "set.zip", make.classes() | {name: make.picture(0)})
    refused(archive, "leads out of the zip", case=f"a zip with the file `{name}`")
    assert [path.name for path in tmp_path.iterdir()] == ["set.zip"]


def test_folders_too_deep(tmp_path: Path, make: Any, refused: Any) -> None:
    archive = make.write_zip(tmp_path / "set.zip", make.classes() | {"a/" * 10_000 + "x.png": b""})
    refused(archive, "deep", case="a zip with 10,000 folders in each other")


def test_the_same_name_twice(tmp_path: Path, make: Any, refused: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile's own, on writing
        archive = make.write_zip(tmp_path / "set.zip", make.classes() | {"./cat/000.png": make.picture(9)})
    refused(archive, "'cat/000.png' twice", case="a zip with one name twice")


def test_a_bomb_that_says_so(tmp_path: Path, make: Any, refused: Any) -> None:
    archive = make.write_zip(tmp_path / "set.zip", make.classes() | {"cat/000.png": bytes(65 * 2**20)})
    refused(archive, "'cat/000.png'", "larger than 64 MiB", case="a zip bomb")


def test_many_members_that_add_up(tmp_path: Path, make: Any, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_tree, "MAX_ZIP_BYTES", 1000)
    refused(
        make.write_zip(tmp_path / "set.zip", make.classes()), "unpacks to more than", case="a zip of very many files"
    )


def test_a_bomb_that_lies_about_its_size(tmp_path: Path, make: Any, refused: Any) -> None:
    size, claimed = 64 * 2**20, 1000
    archive = make.write_zip(tmp_path / "set.zip", {"cat/000.png": bytes(size)} | make.classes(("dog",), each=60))
    content = archive.read_bytes()
    true, lie = struct.pack("<I", size), struct.pack("<I", claimed)
    assert content.count(true) == 2  # in the member's own header and in the directory
    archive.write_bytes(content.replace(true, lie))
    tracemalloc.start()
    refused(archive, "'cat/000.png'", "cannot be read", case="a zip bomb that lies about its size")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * 2**20


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions(tmp_path: Path, make: Any, refused: Any, method: int) -> None:
    refused(make.write_zip(tmp_path / "set.zip", make.classes(), method), "deflate")


def test_encrypted(tmp_path: Path, make: Any, refused: Any) -> None:
    archive = make.write_zip(tmp_path / "set.zip", make.classes())
    content = bytearray(archive.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(signature)
        while at >= 0:
            content[at + offset] |= 1
            at = content.find(signature, at + 1)
    archive.write_bytes(content)
    refused(archive, "encrypted", case="an encrypted zip")


def test_empty(tmp_path: Path, make: Any, refused: Any) -> None:
    refused(make.write_zip(tmp_path / "set.zip", {}), "There are no images in", case="an empty zip")


def test_a_zip_of_something_else(tmp_path: Path, make: Any, refused: Any) -> None:
    refused(make.write_zip(tmp_path / "model.pt", {"archive/data.pkl": b"", "archive/version": b""}), "No images")


def test_real_photographs(shared_folder: Path) -> None:
    archive = shared_folder / "data" / "cifar10" / "test.zip"
    if not archive.is_file():
        pytest.skip(f"There is no file {archive}.")
    found = load(archive)
    assert found.images.shape == (10_000, 3, 32, 32)
    assert found.class_names is not None
    assert found.class_names[:3] == ("airplane", "automobile", "bird")
    assert np.bincount(found.labels).tolist() == [1000] * 10  # type: ignore[arg-type]
    assert 110 < found.images.mean() < 130
