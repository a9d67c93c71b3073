"""diffgen.data.loading: which source a word or a path means"""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen.data import is_word, load, loading
from tests.recording import Recording


def test_importing_is_cheap(repository: Path) -> None:
    heavy = "{'torch', 'sklearn', 'PIL', 'scipy'}"
    program = f"import sys, diffgen.data; sys.exit(str({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=repository, capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "set()"


def test_the_example_in_the_docstring() -> None:
    assert doctest.testmod(loading).failed == 0


@pytest.mark.parametrize(
    ("word", "meant"),
    [("digit", "digits"), ("Digits", "digits"), ("digits:tset", "digits:test"), ("digts:train", "digits:train")],
)
def test_a_misspelt_word(refused: Any, word: str, meant: str) -> None:
    assert refused(word, repr(word)).endswith(f"did you mean {meant!r}?")


def test_a_misspelt_path(tmp_path: Path, refused: Any) -> None:
    (tmp_path / "mnist").mkdir()
    refused(tmp_path / "mnsit", "mnsit", f"did you mean {str(tmp_path / 'mnist')!r}?")


@pytest.mark.parametrize("name", ["zzzzzz", "no/such/place", "~nobody-of-that-name/x", "a\0b", "x" * 5000, "zzz:train"])
def test_a_path_that_is_not_there(refused: Any, name: str) -> None:
    refused(name, "was found", "give a folder or zip")


@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_name(refused: Any, name: str) -> None:
    refused(name, "is empty")


def test_the_word_goes_before_a_folder_of_that_name(tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make.write_folder(tmp_path / "digits", make.classes())
    monkeypatch.chdir(tmp_path)
    assert len(load("digits")) == 1797
    assert len(load("./digits")) == 50
    assert len(load(Path("digits"))) == 50


@pytest.mark.parametrize(
    ("lowest", "highest", "words"),
    [
        (0, 1, "nearly black (no value is above 1 of 255)"),
        (0, 31, "nearly black (no value is above 31 of 255)"),
        (0, 32, None),
        (224, 255, "nearly white (no value is below 224 of 255)"),
        (223, 255, None),
        (100, 104, "of one shade (all values are from 100 to 104 of 255)"),
        (100, 105, None),
    ],
)
@pytest.mark.parametrize("kind", ["arrays", "npz"])
def test_images_of_one_shade_are_warned_of_once(
    tmp_path: Path, kind: str, lowest: int, highest: int, words: str | None
) -> None:
    images = np.full((200, 1, 16, 16), lowest, dtype=np.uint8)
    images[150, 0, 3, 4] = highest  # one value is enough, wherever it is
    np.savez(tmp_path / "set.npz", images=images)
    heard = Recording()
    load(images if kind == "arrays" else tmp_path / "set.npz", resize=20, progress=heard.progress)
    assert [words in warning for warning in heard.warnings if words] == ([] if words is None else [True])
    assert len(heard.warnings) == (words is not None)


def test_words() -> None:
    assert all(map(is_word, ("digits", "digits:train", "torchvision:MNIST", "torchvision:no such set")))
    assert not any(map(is_word, ("./digits", "mnist", "", Path("digits"), None)))


def test_home(tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make.write_folder(tmp_path / "set", make.classes())
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert len(load("~/set")) == 50


def test_a_path_with_a_colon(tmp_path: Path, make: Any) -> None:
    make.write_folder(tmp_path / "set:train", make.classes())
    assert len(load(tmp_path / "set:train")) == 50


@pytest.mark.parametrize("content", [b"", b"some text", b"\x89PNG\r\n\x1a\n", b"\x1f\x8b", b"PK"])
def test_a_file_of_another_kind(tmp_path: Path, refused: Any, content: bytes) -> None:
    (tmp_path / "file.bin").write_bytes(content)
    refused(tmp_path / "file.bin", "of no known kind")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="This system has no named pipes.")
def test_what_is_neither_file_nor_folder(tmp_path: Path, refused: Any) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "neither a file nor a folder")
    if Path("/proc/kmsg").exists():  # to stat a regular file, whose reading waits for the kernel's next message
        refused(Path("/proc/kmsg"), "view into the system")


def test_a_file_that_cannot_be_opened(tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "set.zip").write_bytes(b"PK\x03\x04")

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    refused(tmp_path / "set.zip", "Permission denied")
