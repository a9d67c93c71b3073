"""Kills a real comparison with SIGKILL at random moments, resumes it each time, and looks whether anything is lost.

    python -m benchmarks.kill_and_resume --times 30

Two classifiers of the digits that ship with scikit-learn are compared once without interruption. Then the same
comparison is started again, killed, resumed, killed, ... until it ends, and again from the start, until there were as
many kills as asked for. Eight of ten are aimed at the search: at a random moment within the time that the rest of it
takes without interruption. One of ten falls into the training of the GAN, whose cache is emptied first, and one into
what comes after the search: asking again, filters, report.

After every kill the newest checkpoint is read: its triggers must be the first of the uninterrupted run's, in every
column, and no fewer than before the kill. A run that came to its end must have the archive and the verdicts of the
uninterrupted one. Writes benchmarks/results/kill-and-resume.md.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffgen.data import load
from diffgen.runs.arrays import read_arrays
from diffgen.runs.folder import RunFolder
from diffgen.workflows.demo import (
    convolutional_classifier,
    dense_classifier,
    save_onnx,
    save_torchscript,
    train_classifier,
)

RESULT = Path(__file__).parent / "results" / "kill-and-resume.md"
_POLL_SECONDS = 0.02
_PATIENCE = 1200
_TRAINING, _SEARCH, _AFTER = "training of the GAN", "search", "after the search"
_AIMS = (*[_SEARCH] * 3, _AFTER, *[_SEARCH] * 5, _TRAINING)


@dataclass(frozen=True)
class Kill:
    """One kill, and what was found in the folder after it.

    Attributes:
        run: number of the run.
        moment: seconds since the start of the process.
        phase: where the process was, judged by the folder that it left.
        queries: of the newest usable checkpoint.
        triggers: of the newest usable checkpoint.
        half_written: files under a temporary name.
        fault: what was wrong, or "".
    """

    run: int
    moment: float
    phase: str
    queries: int
    triggers: int
    half_written: int
    fault: str


@dataclass
class Durations:
    """Seconds of an uninterrupted run: to the search with the training of the GAN, of the search, from there on."""

    before: float
    search: float
    after: float

    def shorten(self, aim: str) -> None:
        """The moment came after the end of the process: the machine has become quicker since this was measured."""
        name = {_TRAINING: "before", _SEARCH: "search", _AFTER: "after"}[aim]
        setattr(self, name, 0.7 * getattr(self, name))


class Comparison:
    """The command line's comparison of two small classifiers, in a folder of its own."""

    def __init__(self, folder: Path, *, queries: int, gan_steps: int, seed: int) -> None:
        self.folder = folder
        training = load("digits:train")
        save_torchscript(train_classifier(convolutional_classifier(10), training, seed=0), folder / "a.pt")
        save_onnx(train_classifier(dense_classifier(10), training, seed=0), folder / "b.onnx")
        # most of the run shall be search, not asking again one image at a time
        settings = "verify_limit = 200\n[search]\npopulation = 100\n"
        (folder / "settings.toml").write_text(settings, encoding="utf-8")
        self.words = (
            *("compare", "a.pt", "b.onnx", "--data", "digits:test", "--budget", f"{queries}q"),
            *("--seed", str(seed), "--gan-steps", str(gan_steps), "--config", "settings.toml", "-q"),
        )
        checkout = str(Path(__file__).resolve().parent.parent)
        self.environment = {**os.environ, "PYTHONPATH": checkout, "DIFFGEN_CACHE": str(folder / "cache")}

    def start(self, run: Path) -> subprocess.Popen[bytes]:
        """A new run, or the resumption of the one that is there."""
        begun = (run / "config.toml").is_file()
        words = ("compare", "--resume", run.name, "-q") if begun else (*self.words, "-o", run.name, "--force")
        return subprocess.Popen(
            [sys.executable, "-m", "diffgen", *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )


def wait_for(process: subprocess.Popen[bytes], what: Callable[[], bool]) -> None:
    """Return when something has happened or the process has ended."""
    deadline = time.monotonic() + _PATIENCE
    while process.poll() is None and not what():
        if time.monotonic() > deadline:
            raise TimeoutError("the process does not come to what is waited for")
        time.sleep(_POLL_SECONDS)


def manifest_time(run: Path) -> int:
    """When the manifest was written (the search begins with it), 0 for never."""
    try:
        return (run / "manifest.json").stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def newest_checkpoint(run: Path) -> dict[str, Any]:
    """What the newest readable checkpoint holds, or nothing."""
    for name in ("checkpoint.npz", "checkpoint.previous.npz"):
        try:
            return read_arrays(run / name)
        except (OSError, ValueError):
            continue
    return {}


def finish(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end, which must be a good one."""
    _, complaint = process.communicate(timeout=_PATIENCE)
    if process.returncode != 0:
        raise RuntimeError(f"diffgen ended with {process.returncode}: {complaint.decode()}")


def look(run: Path, reference: dict[str, np.ndarray], *, number: int, moment: float, least: int) -> Kill:
    """What is in the folder after a kill; ``least`` triggers were in a finished checkpoint before."""
    half_written = len(list(run.rglob(".*.tmp")))
    found = newest_checkpoint(run)
    if not found:
        phase = _SEARCH if manifest_time(run) else _TRAINING
        return Kill(number, moment, phase, 0, 0, half_written, "checkpoint lost" if least else "")
    columns = RunFolder.open(run).read_triggers(found["parts"]).columns()
    count = len(columns["query"])
    fault = ""
    if count < least:
        fault = f"{least - count} triggers lost"
    elif any(not same(values, reference[name][:count]) for name, values in columns.items()):
        fault = "other triggers"
    phase = _AFTER if found.get("finished") else _SEARCH
    return Kill(number, moment, phase, found["queries"], count, half_written, fault)


def same(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Equal, NaN included, which stands for "not asked"."""
    return bool(np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f"))


def differences(run: Path, reference: Path) -> list[str]:
    """Columns of the archive and verdicts in which two runs differ."""
    folders = RunFolder.open(run), RunFolder.open(reference)
    differing = []
    reads: tuple[Callable[[RunFolder], Mapping[str, Any]], ...] = (
        lambda folder: folder.read_triggers().columns(),
        lambda folder: folder.read_arrays("verdicts"),
    )
    for read in reads:
        ours, theirs = (read(folder) for folder in folders)
        names = ours.keys() | theirs.keys()
        differing += [
            name
            for name in sorted(names)
            if name not in ours or name not in theirs or not same(ours[name], theirs[name])
        ]
    return differing


def kill(process: subprocess.Popen[bytes]) -> bool:
    """SIGKILL; False when the process had ended by itself."""
    if process.poll() is None:
        process.kill()
        process.communicate()
        return True
    finish(process)
    return False


def wait_for_moment(
    process: subprocess.Popen[bytes], run: Path, aim: str, durations: Durations, queries: int, rng: random.Random
) -> None:
    """Wait until it is time to kill."""
    if aim == _TRAINING:
        time.sleep(rng.uniform(0, durations.before))
        return
    before = manifest_time(run)
    wait_for(process, lambda: manifest_time(run) != before)
    if aim == _AFTER:
        wait_for(process, lambda: bool(newest_checkpoint(run).get("finished")))
        time.sleep(rng.uniform(0, durations.after))
    else:
        left = 1 - newest_checkpoint(run).get("queries", 0) / queries
        time.sleep(rng.uniform(0, durations.search * left))


def kill_and_resume(
    comparison: Comparison, reference: Path, durations: Durations, *, times: int, rng: random.Random
) -> tuple[list[Kill], list[list[str]]]:
    """All kills, and for each run that came to its end in what it differs from the uninterrupted one."""
    archive = RunFolder.open(reference).read_triggers().columns()
    queries = int(RunFolder.open(reference).results()["queries"])
    kills: list[Kill] = []
    ends: list[list[str]] = []
    least, run = 0, comparison.folder / "run-1"
    while len(kills) < times or run.exists():
        aim = _AIMS[len(kills) % len(_AIMS)] if len(kills) < times else ""
        over = bool(newest_checkpoint(run).get("finished"))
        if aim == _TRAINING and run.exists():
            aim = ""  # first this run is to come to its end: where there is something to resume, nothing is trained
        elif aim == _TRAINING:
            shutil.rmtree(comparison.folder / "cache")
        elif over and aim == _SEARCH:
            aim = ""
        started = time.monotonic()
        process = comparison.start(run)
        if aim:
            wait_for_moment(process, run, aim, durations, queries, rng)
        else:
            process.wait(timeout=_PATIENCE)
        if kill(process):
            found = look(run, archive, number=len(ends) + 1, moment=time.monotonic() - started, least=least)
            kills.append(found)
            least = max(least, found.triggers)
            print(found, flush=True)
        else:
            if aim:
                durations.shorten(aim)
            ends.append(differences(run, reference))
            print(f"run {len(ends)} has ended; differences: {ends[-1] or 'none'}", flush=True)
            least, run = 0, comparison.folder / f"run-{len(ends) + 1}"
    return kills, ends


def write(arguments: argparse.Namespace, kills: list[Kill], ends: list[list[str]], reference: Path) -> None:
    """The table."""
    faults = [kill for kill in kills if kill.fault]
    equal = sum(not differing for differing in ends)
    results = RunFolder.open(reference).results()
    command = shlex.join(["python", "-m", "benchmarks.kill_and_resume", *sys.argv[1:]])
    phases = ", ".join(
        f"{sum(kill.phase == phase for kill in kills)} {phase}" for phase in (_TRAINING, _SEARCH, _AFTER)
    )
    lines = [
        "# Killed at random moments and resumed",
        "",
        f"    {command}",
        "",
        f"Made on {datetime.now(UTC):%Y-%m-%d} with Python {sys.version.split()[0]}, torch {torch.__version__}, "
        f"{os.cpu_count()} cores. What is compared, and how it is killed: "
        "[benchmarks/kill_and_resume.py](../kill_and_resume.py).",
        "",
        "| | |",
        "|---|---:|",
        f"| kills (SIGKILL) | {len(kills)} |",
        f"| runs that these were dealt on, each resumed until its end | {len(ends)} |",
        f"| where they fell | {phases} |",
        f"| kills that left a half-written file | {sum(kill.half_written > 0 for kill in kills)} |",
        f"| kills after which a finished checkpoint, or one of its triggers, was lost or differed | {len(faults)} |",
        f"| runs whose archive and verdicts equal the uninterrupted run's, in every column | {equal} of {len(ends)} |",
        f"| triggers of the uninterrupted run | {results['triggers']:,} in {results['queries']:,} queries |",
        f"| median moment of a kill, seconds since the start | {statistics.median(k.moment for k in kills):.1f} |",
        "",
        "| kill | run | moment, s | where it fell | queries kept | triggers kept | half-written files | fault |",
        "|---:|---:|---:|---|---:|---:|---:|---|",
    ]
    lines += [
        f"| {number} | {kill.run} | {kill.moment:.2f} | {kill.phase} | {kill.queries:,} | {kill.triggers:,} "
        f"| {kill.half_written} | {kill.fault or 'none'} |"
        for number, kill in enumerate(kills, start=1)
    ]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Kill, resume, compare; ends with 1 when anything was lost."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--times", type=int, default=30, help="kills (default: %(default)s)")
    parser.add_argument("--queries", type=int, default=20_000, help="budget of the search (default: %(default)s)")
    parser.add_argument("--gan-steps", type=int, default=300, help="of the GAN (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=RESULT, help="page to write (default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kill-and-resume-") as name:
        folder = Path(name)
        comparison = Comparison(folder, queries=arguments.queries, gan_steps=arguments.gan_steps, seed=7)
        reference = folder / "reference"
        started = time.monotonic()
        process = comparison.start(reference)
        wait_for(process, lambda: manifest_time(reference) > 0)
        searching = time.monotonic()
        finish(process)
        seconds = float(RunFolder.open(reference).results()["seconds"])
        durations = Durations(searching - started, seconds, time.monotonic() - searching - seconds)
        print(durations, flush=True)
        kills, ends = kill_and_resume(
            comparison, reference, durations, times=arguments.times, rng=random.Random(arguments.seed)
        )
        write(arguments, kills, ends, reference)
    return int(any(kill.fault for kill in kills) or any(ends))


if __name__ == "__main__":
    sys.exit(main())
