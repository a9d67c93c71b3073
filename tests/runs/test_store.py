"""The regression store: what is put in comes out, nothing is half-written, and damage is said in a sentence."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from diffgen.data import load
from diffgen.errors import UserError
from diffgen.runs.lock import RunLock
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
    elif how == "a picture of 60,000 x 60,000 pixels":
        head = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
        picture.write_bytes(b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head)))
    elif how == "a side without end":
        (store / "store.json").write_text('{"format": "diffgen-store-1", "image_shape": [1, 28, 1e999]}')
    elif how == "a side of half a pixel":
        (store / "store.json").write_text('{"format": "diffgen-store-1", "image_shape": [1, 28, 28.5]}')
    elif how == "a name that a terminal obeys":
        (folder / "behaviour.json").write_text(json.dumps({**about, "names": ["\x1b]0;evil\x07", "9"]}))
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
        "a picture of 60,000 x 60,000 pixels",
        "a side without end",
        "a side of half a pixel",
        "a name that a terminal obeys",
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
    assert str(store) in str(caught.value) and str(caught.value).isprintable()
    told("Regression stores", how, caught.value)


_PROCESS = """
import json, sys, time
from pathlib import Path
import numpy as np
from diffgen.runs.store import StoredBehaviour, add_to_store
store, go, number = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
shared = [StoredBehaviour((n, 9), (str(n), "9"), rng.integers(256, size=(3, 1, 28, 28), dtype=np.uint8), {})
          for n in range(8)]
own = np.random.default_rng(1 + number).integers(256, size=(2, 1, 28, 28), dtype=np.uint8)
print("ready", flush=True)
while not go.exists():
    time.sleep(0.001)
print(add_to_store(store, [*shared, StoredBehaviour((number, 8), (str(number), "8"), own, {})], {"number": number}))
"""


def test_four_processes_put_things_into_a_new_store_at_once(tmp_path: Path, repository: Path) -> None:
    """Each waits for the others, and the store has what each of them put there, once."""
    store, go = tmp_path / "new" / "store", tmp_path / "go"
    command = [sys.executable, "-c", _PROCESS, str(store), str(go)]
    processes = [
        subprocess.Popen(
            [*command, str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(repository)},
        )
        for number in range(4)
    ]
    for each in processes:
        assert each.stdout is not None and each.stdout.readline() == "ready\n"
    go.touch()
    said = [each.communicate(timeout=1200) for each in processes]
    assert [each.returncode for each in processes] == [0, 0, 0, 0], said
    assert sum(int(out) for out, _ in said) == 8 + 4
    found = read_store(store)
    assert sorted(each.said for each in found.behaviours) == sorted(
        [*((n, 9) for n in range(8)), *((n, 8) for n in range(4))]
    )
    assert sorted(entry["number"] for _, entry in found.accepted) == [0, 1, 2, 3]
    assert sorted(each.name for each in store.iterdir()) == ["accepted", "behaviours", "store.json"]
    assert not list(store.rglob(".*"))


def test_who_holds_a_store_is_said_when_the_patience_ends(
    store: Path, monkeypatch: pytest.MonkeyPatch, told: Callable[[str, str, object], None]
) -> None:
    monkeypatch.setattr("diffgen.runs.store._PATIENCE", 0.1)
    digits = load("digits:test").images
    with RunLock(store), pytest.raises(UserError, match=f"The store {store} is in use by process") as caught:
        add_to_store(store, [behaviour(digits[9:10])])
    said = str(caught.value).replace(f"{os.getpid()} on {socket.gethostname()}", "4711 on this machine")
    told("Regression stores", "another process puts things into it for a minute", said)
    assert add_to_store(store, [behaviour(digits[9:10])]) == 1


def test_the_reason_why_a_store_cannot_be_written_is_the_true_one(tmp_path: Path, repository: Path) -> None:
    """No file may be longer than 100 bytes: the lock is not, a picture is."""
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))" + _PROCESS.replace(
        "import json", "\nimport json"
    )
    (tmp_path / "go").touch()
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store"), str(tmp_path / "go"), "0"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(repository)},
        check=False,
    )
    assert f"RunError: The store {tmp_path / 'store'} cannot be written (File too large)" in found.stderr
    assert read_store(tmp_path / "store").behaviours == ()
    assert not list((tmp_path / "store").rglob(".*"))


@pytest.mark.parametrize("name", ["notes.txt", "manifest.json", ".bashrc", "behaviour", "photo.png", "index.html"])
def test_a_folder_that_is_no_store_is_left_alone(
    name: str, tmp_path: Path, told: Callable[[str, str, object], None]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text("mine")
    for attempt in (
        lambda: read_store(tmp_path / "mine"),
        lambda: add_to_store(tmp_path / "mine", [behaviour(load("digits:test").images[:2])]),
    ):
        with pytest.raises(UserError, match="is not a store, and other things are in it") as caught:
            attempt()
    assert [each.name for each in (tmp_path / "mine").iterdir()] == [name]
    if name == "index.html":  # one for all of them
        told("Regression stores", "a folder with other things in it", caught.value)


def test_a_name_that_no_folder_can_have(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be looked at \(File name too long\); name another"):
        read_store(tmp_path / ("x" * 300))


def test_a_gan_and_version_control_may_lie_beside(tmp_path: Path) -> None:
    names = ("gan.safetensors", "gan.html", "README.md", ".gitattributes")
    for name in names:
        (tmp_path / name).write_text("mine")
    assert read_store(tmp_path) == Store()
    assert add_to_store(tmp_path, [behaviour(load("digits:test").images[:2])]) == 1
    assert all((tmp_path / name).read_text() == "mine" for name in names)


@pytest.mark.parametrize(
    "said", [("x/../../evil", 3), (4, "9"), (-1, 3), (1.0, 2), (True, 2), (10**12, 1), (1, 2, 3), (None, 1)], ids=str
)
def test_labels_that_are_no_numbers_name_nothing(said: Any, store: Path) -> None:
    with pytest.raises(ValueError, match="no two labels"):
        StoredBehaviour(said, ("a", "b"), np.zeros((1, 1, 28, 28), np.uint8), {})
    file = next((store / "behaviours").glob("A-4_B-9_*")) / "behaviour.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "said": said}))
    with pytest.raises(UserError, match="cannot be read"):
        read_store(store)


@pytest.mark.parametrize(
    "name",
    ["store.json", "behaviours", "behaviours/A", "behaviours/A/behaviour.json", "behaviours/A/picture", "accepted"],
)
def test_nothing_is_opened_or_written_through_a_link(name: str, store: Path, tmp_path: Path) -> None:
    """What the link leads to is sound, and a stranger could have put the link there."""
    folder = next((store / "behaviours").glob("A-4_B-9_*"))
    picture = next(folder.glob("*.png"))
    places = {"behaviours/A": folder, "behaviours/A/behaviour.json": folder / "behaviour.json"}
    inner = {**places, "behaviours/A/picture": picture}.get(name, store / name)
    target = tmp_path / "elsewhere"
    if name == "accepted":
        target.mkdir()
    else:
        inner.rename(target)
    inner.symlink_to(target)
    before = sorted(tmp_path.joinpath("elsewhere").rglob("*"))
    for attempt in (
        lambda: read_store(store),
        lambda: add_to_store(store, [behaviour(load("digits:test").images[7:8])], {"queries": 1}),
    ):
        with pytest.raises(UserError, match="symbolic link"):
            attempt()
    assert sorted(tmp_path.joinpath("elsewhere").rglob("*")) == before


def test_what_a_killed_process_left_is_removed_and_nothing_else(store: Path, tmp_path: Path) -> None:
    place = store / "behaviours"
    left = [place / f".A-{label}_B-2_01234567.0123456789abcdef.unfinished" for label in (1, 3)]
    mine = [place / ".mine.unfinished", place / "mine"]
    for each in (*left, *mine):
        each.mkdir()
        (each / "file").write_text("mine")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("mine")
    link = place / ".A-4_B-2_01234567.0123456789abcdef.unfinished"
    link.symlink_to(elsewhere)
    assert add_to_store(store, [behaviour(load("digits:test").images[7:8])]) == 1
    assert not any(each.exists() for each in left)
    assert all((each / "file").read_text() == "mine" for each in (*mine, elsewhere)) and link.is_symlink()


def test_accepted_values_come_out_and_are_written_once(store: Path) -> None:
    for _ in range(2):
        assert add_to_store(store, [], {"queries": 5}, image_shape=(1, 28, 28)) == 0
    assert [entry for _, entry in read_store(store).accepted] == [{"queries": 5}]
    file = read_store(store).accepted[0][0]
    file.write_text("<<<<<<< ours\n")
    with pytest.raises(UserError, match="cannot be read"):
        read_store(store)


def test_pictures_of_another_shape_are_refused(store: Path, told: Callable[[str, str, object], None]) -> None:
    with pytest.raises(UserError, match="28") as caught:
        add_to_store(store, [behaviour(np.zeros((1, 3, 32, 32), np.uint8))])
    told("Regression stores", "pictures of another shape", caught.value)
