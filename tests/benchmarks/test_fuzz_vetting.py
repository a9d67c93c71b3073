"""The fuzzer of the vetting: its candidates differ, its tripwires trip, and nothing gets through in a few seconds."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from benchmarks import fuzz_vetting
from benchmarks.fuzz_archives import Target
from benchmarks.fuzz_attacks import hostile
from benchmarks.fuzz_corpus import programs


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    return programs(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("kind", ["torchscript", "export"])
def test_candidates_differ_and_the_seed_decides(corpus: dict[str, list[bytes]], kind: str) -> None:
    target = Target("/nowhere/wire", 1)

    def made(seed: int) -> list[bytes]:
        rng = random.Random(seed)
        return [hostile(corpus[kind][0], target, rng, exported=kind == "export") for _ in range(30)]

    assert made(0) == made(0) != made(1)
    assert len({*made(0), *made(1)}) > 55


def test_tripwires_trip(tmp_path: Path) -> None:
    wires = fuzz_vetting.Tripwires(tmp_path / "wires")
    try:
        assert wires.tripped() == ""
        Path(wires.target.file).write_bytes(b"else")
        assert wires.tripped() == "the folder was changed"
        (tmp_path / "wires/new").mkdir()
        assert wires.tripped() == "the folder was changed"
        Path(wires.target.file).unlink()
        assert wires.tripped() == "the folder was changed"
        assert wires.tripped() == ""
    finally:
        wires.close()


@pytest.mark.slow
def test_a_few_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(fuzz_vetting.__file__).parents[1])]))
    tried = fuzz_vetting.fuzz(20.0, "first", 0, tmp_path / "trips")
    assert [kind.trips for kind in tried] == [0, 0]
    assert all(kind.counts.total() > 0 for kind in tried)
    assert not (tmp_path / "trips").exists()
