"""The regression store: what is put in comes out, nothing is half-written, and damage is said in a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diffgen.data import load
from diffgen.errors import UserError
from diffgen.runs.store import Store, StoredBehaviour, add_to_store, read_store
from diffgen.types import UInt8Array


def behaviour(images: UInt8Array, said: tuple[int, int] = (4, 9)) -> StoredBehaviour:
    return StoredBehaviour(said, (str(said[0]), str(said[1])), images, {"accepted": "2026-11-21"})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    digits = load("digits:test").images
    add_to_store(tmp_path / "store", [behaviour(digits[:3]), behaviour(digits[3:4], (2, 1))])
    return tmp_path / "store"


def test_what_is_put_in_comes_out(store: Path) -> None:
    digits = load("digits:test").images
    found = read_store(store)
    assert found.image_shape == (1, 28, 28)
    assert [each.said for each in found.behaviours] == [(2, 1), (4, 9)]
    assert np.array_equal(found.behaviours[1].images, digits[:3])
    assert found.behaviours[1].about == {"accepted": "2026-11-21"}


def test_colour_pictures_come_out_too(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(256, size=(2, 3, 8, 6), dtype=np.uint8)
    add_to_store(tmp_path / "s", [behaviour(images)])
    assert np.array_equal(read_store(tmp_path / "s").behaviours[0].images, images)


def test_the_same_is_added_once_and_others_beside_it(store: Path) -> None:
    digits = load("digits:test").images
    before = {file: file.stat().st_mtime_ns for file in store.rglob("*") if file.is_file()}
    assert add_to_store(store, [behaviour(digits[:3]), behaviour(digits[5:6])]) == 1
    # what a branch adds touches no file that is there
    assert all(file.stat().st_mtime_ns == time for file, time in before.items())
    assert len(read_store(store).behaviours) == 3


def test_only_pngs_and_json_are_in_it(store: Path) -> None:
    assert {file.suffix for file in store.rglob("*") if file.is_file()} == {".json", ".png"}
    assert not list(store.rglob(".*"))


def test_a_removed_folder_is_forgotten(store: Path) -> None:
    folder = next((store / "behaviours").glob("A-2_B-1_*"))
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert [each.said for each in read_store(store).behaviours] == [(4, 9)]


def test_a_store_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert read_store(tmp_path / "none") == read_store(tmp_path) == Store()
    (tmp_path / "gan.safetensors").touch()  # kept beside it
    assert read_store(tmp_path) == Store()


def _damage(store: Path, how: str) -> None:
    folder = next((store / "behaviours").glob("A-4_B-9_*"))
    about = json.loads((folder / "behaviour.json").read_text())
    picture = next(folder.glob("*.png"))
    if how == "a picture was painted over":
        Image.fromarray(np.zeros((28, 28), np.uint8)).save(picture)
    elif how == "a picture is larger":
        Image.fromarray(np.zeros((4000, 4000), np.uint8)).save(picture)
    elif how == "a picture is cut short":
        picture.write_bytes(picture.read_bytes()[:60])
    elif how == "a picture is gone":
        picture.unlink()
    elif how == "a picture outside of the store":
        (folder / "behaviour.json").write_text(json.dumps({**about, "pictures": ["../../../secret.png"]}))
    elif how == "no picture is named":
        (folder / "behaviour.json").write_text(json.dumps({**about, "pictures": []}))
    elif how == "a merge left its marks":
        (folder / "behaviour.json").write_text("<<<<<<< ours\n{}\n")
    elif how == "another format":
        (store / "store.json").write_text(json.dumps({"format": "diffgen-store-9"}))
    else:
        (store / "store.json").unlink()


@pytest.mark.parametrize(
    "how",
    [
        "a picture was painted over",
        "a picture is larger",
        "a picture is cut short",
        "a picture is gone",
        "a picture outside of the store",
        "no picture is named",
        "a merge left its marks",
        "another format",
        "no store.json",
    ],
)
def test_damage_is_said_in_a_sentence(store: Path, how: str, told: Callable[[str, str, object], None]) -> None:
    _damage(store, how)
    with pytest.raises(UserError) as caught:
        read_store(store)
    assert str(store) in str(caught.value)
    told("Regression stores", how, caught.value)


def test_pictures_of_another_shape_are_refused(store: Path, told: Callable[[str, str, object], None]) -> None:
    with pytest.raises(UserError, match="28") as caught:
        add_to_store(store, [behaviour(np.zeros((1, 3, 32, 32), np.uint8))])
    told("Regression stores", "pictures of another shape", caught.value)
