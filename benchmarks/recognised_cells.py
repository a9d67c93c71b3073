"""One cell of benchmarks/recognised.py: a run of the command line, watched, and what the judge says of its triggers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.judge import Judge
from benchmarks.process_tree import processor_seconds
from benchmarks.recognised_pairs import Pair
from diffgen.config import FilterConfig
from diffgen.metrics.near_duplicates import near_duplicate_of
from diffgen.metrics.richness import chao1
from diffgen.runs.cache import ENVIRONMENT
from diffgen.runs.files import write_json
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import TriggerTable
from diffgen.tasks.classification import behaviours
from diffgen.types import Int64Array, UInt8Array

_EVERY = 0.2  # seconds between two looks at a process
_ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    "OMP_WAIT_POLICY": "PASSIVE",
}
REFUSED = 2  # exit code of a wrong command line


@dataclass(frozen=True)
class Cell:
    """One run.

    Attributes:
        pair: its name.
        condition: "warm": everything trained is in the cache, and the search has the seconds; "cold": the cache is
            empty, and the command has them from its start to the end of its search, in processor time.
    """

    pair: str
    condition: str
    way: str
    seed: int

    def folder(self, out: Path) -> Path:
        """Where the run lies."""
        return out / "runs" / self.pair / self.condition / f"{self.way}-{self.seed}"


def command(pair: Pair, words: Sequence[str], *, budget: str, seed: int, output: Path) -> list[str]:
    """The command line of a run."""
    start = [
        sys.executable,
        "-m",
        "benchmarks.altered",
        "compare",
        *pair.models,
        "--data",
        pair.data,
        "--device",
        "cpu",
    ]
    return [*start, "--seed", str(seed), "--budget", budget, "--output", str(output), "--force", "--quiet", *words]


def run(arguments: Sequence[str], log: Path, *, cache: Path | None, stop_at: float | None = None) -> dict[str, Any]:
    """Run a command with one thread and watch it.

    Args:
        log: gets what it says.
        cache: its cache folder; None: the user's.
        stop_at: seconds of processor time, of it and of the processes that it starts, after which it is interrupted.

    Returns:
        its exit code, and "curve": pairs of clock time and processor seconds spent until then.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    repository = str(Path(__file__).parents[1])
    environment = {**os.environ, **_ONE_THREAD, "PYTHONPATH": repository}
    if cache is not None:
        environment[ENVIRONMENT] = str(cache)
    curve: list[tuple[float, float]] = [(time.time(), 0.0)]
    stopped = False
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(arguments, stdout=file, stderr=subprocess.STDOUT, env=environment)
        while process.poll() is None:
            spent = max(processor_seconds(process.pid), curve[-1][1])
            if spent > curve[-1][1]:
                curve.append((time.time(), spent))
            if stop_at is not None and spent >= stop_at and not stopped:
                process.send_signal(signal.SIGINT)
                stopped = True
            time.sleep(_EVERY)
    return {"exit_code": process.returncode, "curve": curve}


def make(cell: Cell, pair: Pair, words: Sequence[str], out: Path, *, budget: str, seconds: float) -> int:
    """Make the run of a cell; gives its exit code, and leaves the curve beside the run."""
    folder = cell.folder(out)
    shutil.rmtree(folder, ignore_errors=True)  # of a measurement that broke off
    arguments = command(pair, words, budget=budget, seed=cell.seed, output=folder)
    log = folder.with_suffix(".log")
    if cell.condition == "cold":
        with tempfile.TemporaryDirectory(prefix="diffgen-cold-") as cache:
            watched = run(arguments, log, cache=Path(cache), stop_at=seconds)
    else:
        watched = run(arguments, log, cache=None)
    write_json(folder.with_suffix(".curve.json"), watched)
    return int(watched["exit_code"])


def figures(folder: Path, judge: Judge) -> dict[str, Any]:
    """What the judge says of a run; of one that was interrupted before its search, that it found nothing.

    "regressions" are behaviours on valid pictures that the first model names as the judge does, and another one not.
    "recognised" to "near_duplicates" are of all triggers on which the models disagreed again, whatever filters and jury
    say of them; "counted_..." of those that the run counts itself.
    """
    watched = json.loads(folder.with_suffix(".curve.json").read_text(encoding="utf-8"))
    curve = np.array(watched["curve"])
    found: dict[str, Any] = {"exit_code": watched["exit_code"], "processor_seconds": float(curve[-1, 1])}
    if not (folder / "results.json").is_file():
        zeros = ("queries", "triggers", "recognised", "distinct", "behaviours", "counted", "counted_behaviours")
        return {**found, **dict.fromkeys(zeros, 0), "searched": False}
    run_folder = RunFolder.open(folder)
    results, table = run_folder.results(), run_folder.read_judged()
    triggers = table[table.confirmed]
    sure, named = (each.numpy() for each in judge.verdict(torch.from_numpy(triggers.images)))
    found |= {"searched": True, "queries": results["queries"], "triggers": len(triggers)}
    threshold = results["near_duplicate"] or FilterConfig().near_duplicate
    found |= counts(triggers, sure, threshold=threshold)
    right = triggers.labels == named[:, None]
    found["regressions"] = _distinct(triggers, sure & triggers.valid & right[:, 0] & ~right[:, 1:].all(1), threshold)[2]
    said = right[sure]
    found["right"] = {name: int((said == wanted).all(1).sum()) for name, wanted in _WHO.items()}
    found |= _of_jury(triggers, sure, named)
    # when: the last checkpoint is written when the search ends
    ended = (folder / "checkpoint.npz").stat().st_mtime
    started = ended - results["seconds"]
    spent = np.interp([started, ended], curve[:, 0], curve[:, 1])
    found |= {
        "search_seconds": results["seconds"],
        "search_processor_seconds": float(spent[1] - spent[0]),
        "preparation_processor_seconds": float(spent[0]),
    }
    history = results["history"]
    at = started + np.interp(triggers.query, history["queries"], history["seconds"])
    for name, rows in (("first_trigger", np.arange(len(at))), ("first_recognised", np.flatnonzero(sure))):
        found[name] = float(np.interp(at[rows].min(), curve[:, 0], curve[:, 1])) if len(rows) else None
    return found


_WHO = {"A": (True, False), "B": (False, True), "neither": (False, False)}


def counts(triggers: TriggerTable, sure: np.ndarray, *, threshold: float) -> dict[str, Any]:
    """Recognised triggers, those of them that repeat no earlier one, and their behaviours.

    Args:
        sure: bool (N,): the judge recognises them.
        threshold: correlation of thumbnails from which on two pictures count as one.
    """
    recognised, distinct, kinds, at_least = _distinct(triggers, sure, threshold)
    valid, by_jury = sure & triggers.valid, jury_says(triggers)
    shown, shown_distinct, shown_kinds, _ = _distinct(
        triggers, valid if by_jury is None else valid & by_jury, threshold
    )
    return {
        "recognised": recognised,
        "distinct": distinct,
        "behaviours": kinds,
        "at_least": at_least,
        "near_duplicates": 1 - distinct / recognised if recognised else None,
        "behaviours_of_agreement": _of_agreement(triggers, sure, threshold),
        "valid_behaviours": _distinct(triggers, valid, threshold)[2],
        "counted": shown,
        "counted_behaviours": shown_kinds,
        "counted_near_duplicates": 1 - shown_distinct / shown if shown else None,
    }


def _of_agreement(triggers: TriggerTable, sure: np.ndarray, threshold: float) -> int | None:
    """Behaviours without pictures that begin with a real image on which the models disagree; None: not known."""
    differs = getattr(triggers.known, "seed_differs", None)
    return None if differs is None else _distinct(triggers, sure & ~differs, threshold)[2]


def _distinct(triggers: TriggerTable, which: np.ndarray, threshold: float) -> tuple[int, int, int, float]:
    """How many there are, how many repeat no earlier one, how many behaviours these are, and a lower bound of all."""
    rows = np.flatnonzero(which)
    images: UInt8Array = triggers.images_of(rows)
    labels: Int64Array = triggers.labels[rows]
    kept = near_duplicate_of(images, labels, threshold=threshold) == np.arange(len(rows))
    kinds = behaviours(labels[kept], triggers.known.cells[rows][kept])
    met = np.unique(kinds, axis=0, return_counts=True)[1].astype(np.int64)
    return len(rows), int(kept.sum()), len(met), chao1(met)


def jury_says(triggers: TriggerTable) -> np.ndarray | None:
    """bool (N,): the run's own jury recognises them; None where the run had no jury."""
    found: np.ndarray | None = getattr(triggers.known, "recognised", None)
    return found


def jury_names(triggers: TriggerTable) -> Int64Array | None:
    """int64 (N,): what the run's own jury calls them; None where the run had no jury."""
    found: Int64Array | None = getattr(triggers.known, "named", None)
    return found


def _of_jury(triggers: TriggerTable, sure: np.ndarray, named: Int64Array) -> dict[str, Any]:
    """Of what filters accept, and of what the jury recognises of it, the share that the judge does, and as the same."""
    by_jury, names = jury_says(triggers), jury_names(triggers)
    valid = triggers.valid
    found = {"valid": int(valid.sum()), "valid_precision": float(sure[valid].mean()) if valid.any() else None}
    if by_jury is None or names is None or not (by_jury & valid).any():
        return {**found, "jury_recognised": None, "jury_precision": None, "jury_same_name": None}
    by_jury = by_jury & valid
    both = by_jury & sure
    same = float((names == named)[both].mean()) if both.any() else None
    return {
        **found,
        "jury_recognised": int(by_jury.sum()),
        "jury_precision": float(sure[by_jury].mean()),
        "jury_same_name": same,
    }
