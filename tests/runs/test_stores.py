"""Files that are put into a store: fsspec's own in memory, folders by URL, and one that fails."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from diffgen.errors import RunError, UserError
from diffgen.runs.outputs import MARKER
from diffgen.runs.stores import StoreFolder, is_url, send, store_folder
from tests.recording import Recording

URL = "memory://bucket/finds/run=mine"


class Full(MemoryFileSystem):
    """Takes three files and no more: the mark and two others."""

    protocol = "full"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def put_file(self, lpath: str, rpath: str, *rest: Any, **how: Any) -> None:
        if len(self.store) == 3:
            raise OSError("the quota is used up")
        super().put_file(lpath, rpath, *rest, **how)


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    fsspec.register_implementation("full", Full, clobber=True)
    for kind in (MemoryFileSystem, Full):
        kind.store.clear()
    yield
    MemoryFileSystem.store.clear()


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder of three files."""
    (tmp_path / "made" / "images").mkdir(parents=True)
    for name in ("a.bin", "b.bin", "images/c.png"):
        (tmp_path / "made" / name).write_text(f"this is {name}")
    return tmp_path / "made"


NAMES = ["a.bin", "b.bin", "images/c.png"]


def put(made: Path, url: str, names: list[str], *, force: bool = False, kind: str = "dataset") -> StoreFolder:
    target = store_folder(url, kind=kind, force=force, option="--dataset")
    send(made, names, target, Recording().progress)
    return target


def there(url: str) -> dict[str, bytes]:
    """Path below the URL -> content, of everything but the mark."""
    store, place = fsspec.core.url_to_fs(url)
    found = {each.removeprefix(f"{place}/"): store.cat_file(each) for each in store.find(place)}
    assert json.loads(found.pop(MARKER))["files"] == sorted(found)
    return found


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_what_is_sent_is_there_and_is_replaced_whole(made: Path, tmp_path: Path, kind: str) -> None:
    url = URL if kind == "memory" else f"file://{tmp_path}/bucket/run=mine"
    put(made, url, NAMES)
    assert there(url) == {name: f"this is {name}".encode() for name in NAMES}
    (made / "a.bin").write_text("changed")
    put(made, url, ["a.bin"], force=True)
    assert there(url) == {"a.bin": b"changed"}


def test_what_may_not_be_replaced(made: Path, told: Callable[..., None]) -> None:
    put(made, URL, NAMES)
    with pytest.raises(UserError) as caught:
        put(made, URL, NAMES)
    told("Stores", "something is in the place", caught.value)
    with pytest.raises(UserError) as caught:
        put(made, URL, NAMES, force=True, kind="run")
    told("Stores", "`--force` where something else is", caught.value)
    with fsspec.open(f"{URL}/mine.txt", "w") as file:
        file.write("keep")
    with pytest.raises(UserError) as caught:
        put(made, URL, ["a.bin"], force=True)
    told("Stores", "`--force` where a file of somebody else is, too", caught.value)
    assert fsspec.core.url_to_fs(URL)[0].cat_file("/bucket/finds/run=mine/mine.txt") == b"keep"


def test_a_store_that_fails_can_be_tried_again(made: Path, told: Callable[..., None]) -> None:
    with pytest.raises(RunError) as caught:
        put(made, "full://bucket/run=mine", NAMES)
    told("Stores", "the store is full", caught.value)
    Full.store.pop(next(each for each in Full.store if each.endswith("/a.bin")))
    put(made, "full://bucket/run=mine", ["b.bin"], force=True)
    assert there("full://bucket/run=mine") == {"b.bin": b"this is b.bin"}


def test_places_that_no_package_knows(made: Path, monkeypatch: pytest.MonkeyPatch, told: Callable[..., None]) -> None:
    fsspec.register_implementation("lake", "no_such_package.Lake", errtxt="Install lakefs", clobber=True)
    for case, url in {"an unknown protocol": "nowhere://x", "a store without its package": "lake://x"}.items():
        with pytest.raises(UserError) as caught:
            put(made, url, NAMES)
        told("Stores", case, caught.value)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(UserError) as caught:
        put(made, URL, NAMES)
    told("Stores", "fsspec is missing", caught.value)


def test_what_is_a_url() -> None:
    assert is_url("s3://bucket/finds")
    assert not is_url("finds") and not is_url(Path("s3://bucket"))
