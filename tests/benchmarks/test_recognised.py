"""The benchmark of recognised behaviours: cells as processes, resumed, judged, on a page, and as sheets for eyes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cifar_resnets import published
from benchmarks.judge import Judge
from benchmarks.process_tree import processor_seconds
from benchmarks.recognised import Measurement, _parser
from benchmarks.recognised_cells import Cell, counts, run
from benchmarks.recognised_page import best_other, page
from benchmarks.recognised_pairs import find_pairs
from benchmarks.recognised_sheet import count_names, draw
from diffgen.runs.folder import RunFolder
from tests.benchmarks.conftest import Bench

FEW = ("--shared", ".", "--pairs", "digits", "--queries", 200, "--seeds", 0)
HARDLY_TRAINED = (
    "--words",
    "--gan-steps 10 --set gan.width=16 --set gan.monitor_checks=1 --set filters.reconstruction.training_steps=20 "
    "--set filters.jury.shown=640 --set filters.reconstruction.threshold=-1e6 --set filters.ssim.threshold=-1",
)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_cells_are_made_judged_kept_and_drawn(bench: Bench, tmp_path: Path) -> None:
    words = (tmp_path / "out", *FEW, *HARDLY_TRAINED, "--ways", "default", "real_data")
    said = bench("recognised", *words)
    assert "| default | 1 |" in said and "| real_data | 1 |" in said
    assert "digits: accuracy" in said
    lines = (tmp_path / "out" / "judged.jsonl").read_text().splitlines()
    assert [json.loads(line)["queries"] for line in lines] == [200, 200]
    assert bench("recognised", *words) == said[said.index("# Recognised behaviours") :]  # nothing is made again
    kept = sorted(path.name for path in (tmp_path / "out" / "runs" / "digits" / "warm").iterdir() if path.is_dir())
    assert kept == ["default-0"]
    assert "1 runs" in bench("recognised", *words, "--sheet", tmp_path / "sheets")


def test_cells_of_another_budget_are_refused(tmp_path: Path) -> None:
    cell = {"pair": "digits", "condition": "warm", "way": "default", "seed": 0}
    (tmp_path / "cells.jsonl").write_text(json.dumps({"cell": cell, "exit_code": 0, "budget": "300q"}) + "\n")
    words = [str(tmp_path), "--pairs", "digits", "--ways", "default", "--seeds", "0", "--queries"]
    Measurement(_parser().parse_args([*words, "300"])).run()  # nothing is made again
    with pytest.raises(SystemExit, match="has it with a budget of 300q"):
        Measurement(_parser().parse_args([*words, "200"])).run()


@pytest.mark.slow
def test_a_cold_command_is_interrupted_in_its_training(bench: Bench, tmp_path: Path) -> None:
    words = (tmp_path / "out", "--shared", ".", "--pairs", "digits", "--seeds", 0, "--conditions", "cold")
    said = bench("recognised", *words, "--ways", "random_latent", "--cold-seconds", 6, "--only", "run")
    assert "digits, cold, random_latent, seed 0: exit code 130" in said
    made = tmp_path / "out" / "runs" / "digits" / "cold" / "random_latent-0"
    assert json.loads(made.with_name(f"{made.name}.curve.json").read_text())["curve"][-1][1] >= 5


def test_a_process_is_watched_and_interrupted(tmp_path: Path) -> None:
    spinning = [sys.executable, "-c", "while True: pass"]
    watched = run(spinning, tmp_path / "log", cache=None, stop_at=0.3)
    clock, spent = np.array(watched["curve"]).T
    assert (np.diff(clock) > 0).all() and (np.diff(spent) > 0).all() and spent[-1] >= 0.3
    assert watched["exit_code"] != 0
    assert "KeyboardInterrupt" in (tmp_path / "log").read_text()


def test_processor_time_is_that_of_the_children_too() -> None:
    inner = "while True: pass"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}], timeout=30)"
    process = subprocess.Popen([sys.executable, "-c", outer])
    try:
        until = time.monotonic() + 1200
        while processor_seconds(process.pid) < 0.5 and time.monotonic() < until:
            time.sleep(0.1)
        own = sum(map(int, Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
        assert processor_seconds(process.pid) >= 0.5 > own / os.sysconf("SC_CLK_TCK")
    finally:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for number in [*map(int, children), process.pid]:
            os.kill(number, 9)
        process.wait()


def test_recognised_behaviours_are_counted_without_near_duplicates(small_run: Path) -> None:
    table = RunFolder.open(small_run).read_judged()
    triggers = table[table.confirmed]
    everything = counts(triggers, np.ones(len(triggers), dtype=bool), threshold=0.95)
    assert everything["recognised"] == len(triggers) >= everything["distinct"] >= everything["behaviours"] > 0
    assert triggers.known.recognised is not None  # the digits have labels, so that there is a jury
    assert everything["counted"] == (triggers.valid & triggers.known.recognised).sum() <= triggers.valid.sum()
    twice = np.repeat(np.arange(len(triggers)), 2)
    doubled = counts(triggers[twice], np.ones(len(twice), dtype=bool), threshold=0.95)
    assert doubled["distinct"] == everything["distinct"] and doubled["behaviours"] == everything["behaviours"]
    nothing = counts(triggers, np.zeros(len(triggers), dtype=bool), threshold=0.95)
    assert nothing["behaviours"] == 0 and nothing["near_duplicates"] is None


def test_the_page_says_how_the_default_does_against_the_best_other() -> None:
    found = {"default": (30, 50, 40), "real_data": (10, 20, 30), "dflare": (5, 5, 5), "gan": (20, 20, 80)}
    judged = {
        Cell("digits", "warm", way, seed): {"behaviours": value, "counted_behaviours": value, "queries": 200}
        for way, values in found.items()
        for seed, value in enumerate(values)
    }
    assert best_other(judged, "digits", "behaviours") == (40, ("real_data", 20), 2)  # its own parts are no others
    text = page(judged, {"warm": 60.0, "cold": 180.0}, ["The judge is right."])
    assert "| digits | 40 | real_data 20 | 2.00 | 2.00 | 2.00 |  |" in text
    assert "| default | 3 | 40 (30 to 50) |" in text and "cold" not in text


def test_typed_names_are_counted(tmp_path: Path) -> None:
    def picture(jury: str | None, a: str, b: str) -> dict[str, object]:
        known = {"jury": jury, "models": [a, b], "judge": a, "judge_recognises": True}
        return {"run": "r", "trigger": 0, **known}

    pictures = [picture("cat", "cat", "dog"), picture("dog", "dog", "cat"), picture(None, "deer", "cat")]
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"class_names": ["cat", "deer", "dog"], "pictures": pictures}))
    (tmp_path / "names").write_text("cat\nca\n-\n")
    said = count_names(tmp_path / "names", key)
    assert "named: 2 of 3 (67%)" in said
    assert "the jury's name: 1 of 2 (50%) of those named, of all 33%" in said
    assert "B's name: 1 of 2 (50%)" in said
    for wrong in ("cat\n", "cat\nd\n-\n"):
        (tmp_path / "names").write_text(wrong)
        with pytest.raises(SystemExit, match=r"lines|no class"):
            count_names(tmp_path / "names", key)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_sheet_has_every_picture(channels: int) -> None:
    images = np.full((12, channels, 28, 28), 200, dtype=np.uint8)
    sheet = np.asarray(draw(images, ["a", "b"]).convert("L"))
    assert (sheet == 200).sum() >= 12 * 100 * 100


def test_published_networks_judge_others_quantized_one(shared_folder: Path, tmp_path: Path) -> None:
    pair = find_pairs(shared_folder, tmp_path, tmp_path)["resnet8-int8"]()
    assert pair.judged and pair.judges is not None and not any(str(pair.judges) in word for word in pair.models)
    rows = np.random.default_rng(0).permutation(len(pair.images()))[:300]
    judge, real = Judge(published(pair.judges), 10), pair.images().at(rows)
    judge.measure(real)
    assert judge.accuracies.keys() == {"ResNet-20", "ResNet-32", "together"} and min(judge.accuracies.values()) > 0.7
