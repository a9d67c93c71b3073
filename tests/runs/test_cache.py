"""diffgen.runs.cache"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from pathlib import Path

import platformdirs
import pytest

from diffgen.config import GanConfig
from diffgen.errors import UserError
from diffgen.runs.cache import ENVIRONMENT, cache_file, cache_folder

MADE_FROM = {"data": "0" * 64, "gan": asdict(GanConfig()), "device": "cpu"}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_same_things_same_file() -> None:
    assert cache_file("gan", MADE_FROM) == cache_file("gan", MADE_FROM)
    assert cache_file("gan", dict(reversed(MADE_FROM.items()))) == cache_file("gan", MADE_FROM)


def test_other_things_other_file() -> None:
    others = [
        {**MADE_FROM, "data": "1" * 64},
        {**MADE_FROM, "device": "cuda"},
        {**MADE_FROM, "gan": asdict(replace(GanConfig(), seed=1))},
        {**MADE_FROM, "gan": asdict(replace(GanConfig(), steps=1))},
        {**MADE_FROM, "gan": asdict(replace(GanConfig(), augment=False))},
        {},
        [],
    ]
    paths = {cache_file("gan", each) for each in [MADE_FROM, *others]} | {cache_file("cells", MADE_FROM)}
    assert len(paths) == 2 + len(others)


def test_the_name_is_the_same_in_every_process() -> None:
    """A key that was made with Python's own hash would change from run to run."""
    expected = hashlib.sha256(b'{"a": "x", "b": [1, null]}').hexdigest()[:32]
    assert cache_file("gan", {"b": [1, None], "a": "x"}).name == f"{expected}.safetensors"


def test_the_folder_exists_and_the_file_does_not(own_folder: Path) -> None:
    path = cache_file("gan", MADE_FROM)
    assert path.parent == own_folder / "gan"
    assert path.parent.is_dir()
    assert not path.exists()


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "other"))
    assert cache_folder() == tmp_path / "other"
    assert cache_file("gan", MADE_FROM).is_relative_to(tmp_path / "other")


@pytest.mark.parametrize("value", [None, ""])
def test_without_it_the_folder_is_the_user_s(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT)
    if value is not None:
        monkeypatch.setenv(ENVIRONMENT, value)
    assert cache_folder() == Path(platformdirs.user_cache_dir("diffgen", appauthor=False))


def test_asking_for_the_folder_makes_nothing(own_folder: Path) -> None:
    cache_folder()
    assert not own_folder.exists()


def test_a_folder_that_cannot_be_made(own_folder: Path) -> None:
    own_folder.write_text("a file is in the way")
    with pytest.raises(UserError) as caught:
        cache_file("gan", MADE_FROM)
    assert str(own_folder) in str(caught.value)
    assert ENVIRONMENT in str(caught.value)
