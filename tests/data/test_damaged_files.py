"""Damage of every kind to data of every kind: what benchmarks/fuzz_doors.py does for minutes, some hundred times."""

from __future__ import annotations

import random
import struct
import warnings
import zipfile
from pathlib import Path

import pytest

from benchmarks import fuzz_corpus
from benchmarks.fuzz_mutations import mutate
from diffgen.data import load
from diffgen.data.picture_file import decode
from diffgen.errors import UserError

_FILES = 400


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    return fuzz_corpus.data_files(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("kind", ["idx", "picture", "zip", "npz", "parquet"])
def test_it_is_refused_in_a_sentence_or_harmless(tmp_path: Path, corpus: dict[str, list[bytes]], kind: str) -> None:
    if kind not in corpus:
        pytest.skip("pyarrow is not installed.")
    everything = [content for contents in corpus.values() for content in contents]
    rng = random.Random(kind)
    loaded = refused = 0
    path = tmp_path / "damaged"
    for _ in range(_FILES):
        content = mutate(rng.choice(corpus[kind]), rng.choice(everything), rng)
        path.write_bytes(content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Pillow's, of damaged metadata
                if kind == "picture":
                    decode(content, "picture", "set")
                else:
                    load(path, resize=28)
        except UserError as error:
            assert "\n" not in str(error)
            assert str(error).endswith((".", "?"))
            refused += 1
        else:
            loaded += 1
    assert refused > 50, "the damage was none"
    assert loaded > 5, "the damage was too much to get far"


@pytest.mark.parametrize("kind", ["idx", "zip", "npz", "parquet"])
def test_cut_off_anywhere_it_is_refused(tmp_path: Path, corpus: dict[str, list[bytes]], kind: str) -> None:
    rng, path = random.Random(kind), tmp_path / "cut"
    for content in corpus.get(kind, []):
        for length in {0, 1, 3, len(content) - 1, *(rng.randrange(len(content)) for _ in range(20))}:
            path.write_bytes(content[:length])
            with pytest.raises(UserError):
                load(path)


def test_the_same_seed_damages_in_the_same_way(corpus: dict[str, list[bytes]]) -> None:
    for contents in corpus.values():
        first, again = (mutate(contents[0], contents[-1], random.Random(7)) for _ in range(2))
        assert first == again


@pytest.mark.parametrize("newer", [False, True])
def test_the_end_of_one_zip_of_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newer: bool) -> None:
    if newer:  # releases of Python for which this is no zip
        monkeypatch.setattr(zipfile, "is_zipfile", lambda path: False)
    locator = b"PK\x06\x07" + struct.pack("<LQL", 0, 0, 2)  # a zip64's, with two disks
    end = b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, 0, 0, 0, 0, 0)
    path = tmp_path / "images"
    path.write_bytes(b"\x00" * 100 + locator + end)
    with pytest.raises(UserError, match=r"cannot be opened .* make it again\.$"):
        load(path)
