"""Kills a real comparison with SIGKILL at random moments, resumes it each time, and looks whether anything is lost.

    python -m benchmarks.kill_and_resume --times 30

Two classifiers of the digits that ship with scikit-learn are compared once without interruption. Then the same
comparison is started again, killed, resumed, killed, ... until it ends, and again from the start, until there were as
many kills as asked for. Three of five kills fall into the first seconds of the search, as many as the uninterrupted one
takes; one anywhere between the beginning of the search and the end of the run; one anywhere from the start of the
process on, imports included.

After every kill the newest checkpoint is read: its triggers must be the first of the uninterrupted run's, in every
column, and no fewer than before the kill. A run that came to its end must have the archive and the verdicts of the
uninterrupted one. Writes benchmarks/results/kill-and-resume.md.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from diffgen.data import load
from diffgen.runs.files import read_arrays
from diffgen.runs.folder import RunFolder
from diffgen.workflows.demo import (
    convolutional_classifier,
    dense_classifier,
    save_onnx,
    save_torchscript,
    train_classifier,
)

RESULT = Path(__file__).parent / "results" / "kill-and-resume.md"
_POLL_SECONDS = 0.005
_PATIENCE = 600


@dataclass(frozen=True)
class Kill:
    """One kill, and what was found in the folder after it.

    Attributes:
        run: number of the run.
        moment: seconds since the start of the process.
        phase: where the kill was aimed, or "after the search" where the folder says that this was over.
        queries: of the newest usable checkpoint.
        triggers: of the newest usable checkpoint.
        half_written: files under a temporary name.
        previous: whether the newest checkpoint was not usable, and the one before was.
        fault: what was wrong, or "".
    """

    run: int
    moment: float
    phase: str
    queries: int
    triggers: int
    half_written: int
    previous: bool
    fault: str


class Comparison:
    """The command line's comparison of two small classifiers, in a folder of its own."""

    def __init__(self, folder: Path, *, queries: int, gan_steps: int, seed: int) -> None:
        self.folder = folder
        training = load("digits:train")
        save_torchscript(train_classifier(convolutional_classifier(10), training, seed=0), folder / "a.pt")
        save_onnx(train_classifier(dense_classifier(10), training, seed=0), folder / "b.onnx")
        # most of the run shall be search, not asking again one image at a time
        (folder / "settings.toml").write_text("verify_limit = 200\n", encoding="utf-8")
        self.words = (
            *("compare", "a.pt", "b.onnx", "--data", "digits:test", "--budget", f"{queries}q"),
            *("--seed", str(seed), "--gan-steps", str(gan_steps), "--config", "settings.toml", "-q"),
        )
        checkout = str(Path(__file__).resolve().parent.parent)
        self.environment = {**os.environ, "PYTHONPATH": checkout, "DIFFGEN_CACHE": str(folder / "cache")}

    def start(self, run: Path) -> subprocess.Popen[bytes]:
        """A new run, or the resumption of the one that is there."""
        words = ("compare", "--resume", run.name, "-q") if run.exists() else (*self.words, "-o", run.name)
        return subprocess.Popen(
            [sys.executable, "-m", "diffgen", *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )


def wait_for_search(process: subprocess.Popen[bytes], run: Path) -> None:
    """Return when the process has come to the search (it writes the manifest then) or has ended."""
    before = manifest_time(run)
    deadline = time.monotonic() + _PATIENCE
    while process.poll() is None and manifest_time(run) == before:
        if time.monotonic() > deadline:
            raise TimeoutError("the process does not come to its search")
        time.sleep(_POLL_SECONDS)


def manifest_time(run: Path) -> int:
    """When the manifest was written, 0 for never."""
    try:
        return (run / "manifest.json").stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def finish(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end, which must be a good one."""
    _, complaint = process.communicate(timeout=_PATIENCE)
    if process.returncode != 0:
        raise RuntimeError(f"diffgen ended with {process.returncode}: {complaint.decode()}")


def look(run: Path, reference: dict[str, np.ndarray], *, number: int, moment: float, phase: str, least: int) -> Kill:
    """What is in the folder after a kill; ``least`` triggers were in a finished checkpoint before."""
    half_written = len(list(run.rglob(".*.tmp")))
    found, previous, fault = None, False, ""
    for name in ("checkpoint.npz", "checkpoint.previous.npz"):
        try:
            found = read_arrays(run / name)
            break
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            previous = True
    if found is None:
        return Kill(number, moment, phase, 0, 0, half_written, previous, "checkpoint lost" if least else "")
    columns = RunFolder.open(run).read_parts(found["parts"])
    count = len(columns.get("query", ()))
    if count < least:
        fault = f"{least - count} triggers lost"
    elif any(not same(values, reference[name][:count]) for name, values in columns.items()):
        fault = "other triggers"
    elif found.get("finished"):
        phase = "after the search"
    return Kill(number, moment, phase, found["queries"], count, half_written, previous, fault)


def same(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Equal, NaN included, which stands for "not asked"."""
    return bool(np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f"))


def differences(run: Path, reference: Path) -> list[str]:
    """Columns of the archive and verdicts in which two runs differ."""
    folders = RunFolder.open(run), RunFolder.open(reference)
    differing = []
    for read in (RunFolder.read_parts, lambda folder: folder.read_arrays("verdicts")):
        ours, theirs = (read(folder) for folder in folders)
        names = ours.keys() | theirs.keys()
        differing += [
            name
            for name in sorted(names)
            if name not in ours or name not in theirs or not same(ours[name], theirs[name])
        ]
    return differing


def kill_after(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """SIGKILL after some seconds; False when the process had ended by itself."""
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return True
    finish(process)
    return False


def kill_and_resume(
    comparison: Comparison, reference: Path, durations: tuple[float, float, float], *, times: int, rng: random.Random
) -> tuple[list[Kill], list[list[str]]]:
    """All kills, and for each run that came to its end in what it differs from the uninterrupted one.

    ``durations``: seconds from the start of a process to its search, of the search, and from there to the end.
    """
    archive = RunFolder.open(reference).read_parts()
    kills: list[Kill] = []
    ends: list[list[str]] = []
    least, run = 0, comparison.folder / "run-1"
    while len(kills) < times or run.exists():
        started = time.monotonic()
        process = comparison.start(run)
        killed, phase = False, "any moment"
        draw = rng.random()
        if len(kills) < times and draw < 0.2:
            killed = kill_after(process, rng.uniform(0, sum(durations)))
        elif len(kills) < times:
            wait_for_search(process, run)
            phase = "search"
            killed = kill_after(process, rng.uniform(0, durations[1] + (durations[2] if draw < 0.4 else 0)))
        else:
            finish(process)
        if killed:
            moment = time.monotonic() - started
            kill = look(run, archive, number=len(ends) + 1, moment=moment, phase=phase, least=least)
            kills.append(kill)
            least = max(least, kill.triggers)
            print(kill, flush=True)
        else:
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
    before_search = sum(kill.triggers == 0 for kill in kills)
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
        f"| kills before the first checkpoint | {before_search} |",
        f"| kills that left a half-written file | {sum(kill.half_written > 0 for kill in kills)} |",
        f"| kills after which a finished checkpoint, or one of its triggers, was lost or differed | {len(faults)} |",
        f"| runs whose archive and verdicts equal the uninterrupted run's, in every column | {equal} of {len(ends)} |",
        f"| triggers of the uninterrupted run | {results['triggers']:,} in {results['queries']:,} queries |",
        f"| median moment of a kill, seconds since the start | {statistics.median(k.moment for k in kills):.1f} |",
        "",
        "| kill | run | moment, s | aimed at | queries kept | triggers kept | half-written files | fault |",
        "|---:|---:|---:|---|---:|---:|---:|---|",
    ]
    lines += [
        f"| {number} | {kill.run} | {kill.moment:.2f} | {kill.phase} | {kill.queries:,} | {kill.triggers:,} "
        f"| {kill.half_written} | {kill.fault or 'none'} |"
        for number, kill in enumerate(kills, start=1)
    ]
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Kill, resume, compare; ends with 1 when anything was lost."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--times", type=int, default=30, help="kills (default: %(default)s)")
    parser.add_argument("--queries", type=int, default=30_000, help="budget of the search (default: %(default)s)")
    parser.add_argument("--gan-steps", type=int, default=1200, help="the GAN is trained once (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kill-and-resume-") as name:
        folder = Path(name)
        comparison = Comparison(folder, queries=arguments.queries, gan_steps=arguments.gan_steps, seed=7)
        finish(comparison.start(folder / "warm-up"))  # trains the GAN, once for all
        reference = folder / "reference"
        started = time.monotonic()
        process = comparison.start(reference)
        wait_for_search(process, reference)
        searching = time.monotonic()
        finish(process)
        seconds = float(RunFolder.open(reference).results()["seconds"])
        durations = (searching - started, seconds, time.monotonic() - searching - seconds)
        print("uninterrupted: {:.1f} s to the search, {:.1f} s of it, {:.1f} s after it".format(*durations), flush=True)
        kills, ends = kill_and_resume(
            comparison, reference, durations, times=arguments.times, rng=random.Random(arguments.seed)
        )
        write(arguments, kills, ends, reference)
    return int(any(kill.fault for kill in kills) or any(ends))


if __name__ == "__main__":
    sys.exit(main())
