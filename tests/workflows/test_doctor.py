"""diffgen doctor says what is there, and clears what is diffgen's alone."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest
import torch

from diffgen.errors import UserError
from diffgen.runs.cache import ENVIRONMENT, cache_file, cache_kind
from diffgen.workflows import doctor
from diffgen.workflows.doctor import clear_cache


def test_the_examination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    (tmp_path / "gan").mkdir()
    (tmp_path / "gan" / "x.safetensors").write_bytes(bytes(1000))
    found = doctor.doctor()
    assert found.versions["torch"] == metadata.version("torch")
    assert found.devices[0] == "cpu"
    assert any(device.startswith("cuda") for device in found.devices) == torch.cuda.is_available()
    assert found.cores >= 1
    assert found.free_disk is not None and found.free_disk > 0
    assert found.cache_sizes == {"gan": 1000}
    assert found.problems == ()
    assert json.loads(json.dumps(found.as_dict()))["cache"] == str(tmp_path)


def test_a_cache_that_cannot_be_looked_at_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    monkeypatch.setenv(ENVIRONMENT, str(file))
    monkeypatch.setattr(doctor, "_torch", lambda problems: (("cpu",), 1))  # in a process of its own
    found = doctor.doctor()
    (sentence,) = (each for each in found.problems if "cache folder" in each)
    assert f"{file} is a file" in sentence
    assert found.cache_sizes == {}
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / ("x" * 300)))
    problems: list[str] = []
    assert doctor._sizes(tmp_path / ("x" * 300), problems) == {}
    assert "(File name too long)" in problems[0]
    with pytest.raises(UserError, match="cannot be cleared"):
        doctor.clear_cache()


def test_a_missing_part_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    version = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: "missing" if name == "pyarrow" else version(name))
    (part,) = [part for part in doctor._missing() if part.extra == "parquet"]
    assert part.packages == ("pyarrow",)
    assert part.command == "pip install 'diffgen[parquet]'"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("RuntimeError: operator torchvision::nms does not exist", "built for another torch"),
        ("ImportError: libcudart.so.13: cannot open", "libcudart"),
    ],
)
def test_a_torchvision_that_does_not_fit(error: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said_before = 'a notice\n{"devices": ["cpu"], "threads": 3}\n'
    monkeypatch.setattr(doctor, "_in_new_process", lambda program: (said_before, error))
    problems: list[str] = []
    assert doctor._torch(problems) == (("cpu",), 3)
    assert len(problems) == 1
    assert said in problems[0]
    assert "pip install --force-reinstall torch torchvision" in problems[0]


@pytest.mark.parametrize("torchvision", ["0.29.1", "missing"])
def test_a_torch_that_cannot_be_imported_is_one_problem(torchvision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = '{"devices": ["cpu"], "threads": 3}' if torchvision == "missing" else ""  # it fails at its end
    monkeypatch.setattr(doctor, "_version", lambda name: torchvision if name == "torchvision" else "2.14.1")
    monkeypatch.setattr(doctor, "_in_new_process", lambda program: (said, "ImportError: libcudart.so.13"))
    problems: list[str] = []
    assert doctor._torch(problems) == ((), None)
    assert [each.startswith("torch cannot be imported (ImportError: libcudart.so.13)") for each in problems] == [True]


def test_a_process_that_fails_is_told_about(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor._in_new_process("print(5)") == ("5\n", None)
    assert doctor._in_new_process("raise ValueError('no')")[1] == "ValueError: no"
    assert doctor._in_new_process("import os; os._exit(7)")[1] == "it ended with code 7"
    assert doctor._in_new_process("print(5, flush=True); raise ValueError('no')") == ("5\n", "ValueError: no")
    monkeypatch.setattr(doctor, "_IMPORT_SECONDS", 2)
    loops = "print(5, flush=True)\nwhile True: pass"
    assert doctor._in_new_process(loops) == ("5\n", "it takes longer than 2 s")


def test_the_limit_of_a_container(tmp_path: Path) -> None:
    if not Path("/proc/self/cgroup").is_file():
        pytest.skip("this system has no control groups")
    assert doctor._memory_limit(tmp_path) is None
    for version_2, version_1 in ((tmp_path / "memory.max", tmp_path / "memory" / "memory.limit_in_bytes"),):
        version_1.parent.mkdir()
        version_2.write_text("5000\n")
        version_1.write_text("5000\n")
    assert doctor._memory_limit(tmp_path) == 5000
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text(f"{2**63 - 4096}\n")
    assert doctor._memory_limit(tmp_path) is None


def test_the_cache_is_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "cache"))
    assert clear_cache() == {}
    for kind in ("gan", "cells"):
        (tmp_path / "cache" / kind).mkdir(parents=True)
        (tmp_path / "cache" / kind / f"{'0a' * 16}.safetensors").write_bytes(bytes(10))
    assert clear_cache() == {"cells": 10, "gan": 10}
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_folder_with_other_things_is_not_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DIFFGEN_CACHE may name a home folder, whose ``datasets`` are somebody's own."""
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "mine.csv").write_text("mine")
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="datasets"):
        clear_cache()
    assert (tmp_path / "datasets" / "mine.csv").read_text() == "mine"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv(ENVIRONMENT, str(elsewhere))
    (elsewhere / "gan").symlink_to(tmp_path / "datasets")
    with pytest.raises(UserError, match="gan"):
        clear_cache()
    assert (tmp_path / "datasets" / "mine.csv").read_text() == "mine"


@pytest.mark.parametrize(
    "name", ["notes.txt", "0a.safetensors", f"{'0a' * 16}.trials/mine", f"{'0a' * 16}.trials/x-1/mine"]
)
@pytest.mark.parametrize("kind", ["gan", "cells", "filters"])
def test_what_lies_beside_our_own_files_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    ours, mine = cache_file(kind, {"made": "from"}), tmp_path / kind / name
    for file in (ours, mine):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("content")
    with pytest.raises(UserError, match=f"also holds {kind}/"):
        clear_cache()
    assert ours.exists()
    assert mine.exists()
    mine.unlink()
    clear_cache()
    assert list(tmp_path.iterdir()) == []


def test_published_data_sets_count_only_where_diffgen_made_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DIFFGEN_CACHE may name a folder in which somebody keeps the same data sets for torchvision."""
    for place in (tmp_path / "own", tmp_path / "theirs"):
        monkeypatch.setenv(ENVIRONMENT, str(place))
        if place.name == "own":
            cache_kind("datasets")
        file = place / "datasets" / "MNIST" / "raw" / "t10k-images-idx3-ubyte.gz"
        file.parent.mkdir(parents=True)
        file.write_bytes(bytes(5))
        if place.name == "own":
            assert clear_cache() == {"datasets": 5}
            assert list(place.iterdir()) == []
        else:
            with pytest.raises(UserError, match="also holds datasets"):
                clear_cache()
            assert file.exists()
