"""Golden runs: whether a change of the code leaves every trigger, verdict and figure as it was.

    python -m benchmarks.golden make FOLDER
    python -m benchmarks.golden compare FOLDER [--killed]

``make`` runs every technique on two pairs of small classifiers and writes digests of what came out to
FOLDER/golden.json. ``compare`` runs the same again with the code as it is now and says what differs; it ends with 1
when anything does. With ``--killed`` each run ends by SIGKILL after half of its queries and is resumed. Each run, and
each resumption, has a process of its own.

The pairs: two classifiers of the digits that ship with scikit-learn; and, where ``DIFFGEN_SHARED`` names a folder with
``data/mnist``, two LeNet-5 on 2,000 MNIST images. Models, data, GANs and encoders stay in FOLDER, so that both commands
use the same ones. Triggers depend on the machine and on the versions of the libraries; compare on the machine that made
the golden runs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import diffgen
from benchmarks.lenet_pair import train
from diffgen.comparison import checkpoints
from diffgen.config import Budget, CompareConfig, GanConfig, SourceConfig
from diffgen.data import load
from diffgen.events import Event, Listener, StageAdvanced
from diffgen.runs.files import write_json
from diffgen.runs.folder import RunFolder
from diffgen.techniques.registry import TECHNIQUES
from diffgen.workflows.demo import (
    convolutional_classifier,
    dense_classifier,
    save_onnx,
    save_torchscript,
    train_classifier,
)
from diffgen.workflows.resume import resume

_GAN_STEPS = 300
_SEED = 7
_TRAINED_ON, _COMPARED_ON = 5_000, 2_000  # MNIST images


@dataclass(frozen=True)
class Golden:
    """One run: a pair, a technique with a preset and the family that it draws from (None: its own), and queries."""

    pair: str
    technique: str
    preset: str
    source: str | None
    queries: int

    @property
    def name(self) -> str:
        """Also the name of its folder."""
        return "-".join(filter(None, (self.pair, self.technique, self.preset, self.source)))


def golden_runs(pairs: tuple[str, ...], *, most: int = 3_000) -> list[Golden]:
    """All runs on these pairs, of so many queries each: every preset of every technique, and the search in a GAN."""
    searches: list[tuple[str, str, str | None]] = [
        (technique, preset, None) for technique, kind in sorted(TECHNIQUES.own().items()) for preset in kind.presets
    ]
    return [Golden(pair, *search, most) for pair in pairs for search in [*searches, ("diffgan", "default", "gan")]]


def _mnist() -> Path | None:
    shared = os.environ.get("DIFFGEN_SHARED")
    folder = None if shared is None else Path(shared) / "data" / "mnist"
    return folder if folder is not None and folder.is_dir() else None


def inputs(folder: Path, pair: str) -> tuple[Path, Path, str]:
    """Files of the two models, and the data; made where they are missing."""
    place = folder / "inputs" / pair
    place.mkdir(parents=True, exist_ok=True)
    if pair == "digits":
        first, second = place / "a.pt", place / "b.onnx"
        if not second.exists():
            training = load("digits:train")
            save_torchscript(train_classifier(convolutional_classifier(10), training, seed=0), first)
            save_onnx(train_classifier(dense_classifier(10), training, seed=0), second)
        return first, second, "digits:test"
    first, second, data = place / "a.onnx", place / "b.onnx", place / "data.npz"
    if not data.exists():
        training, test = load(f"{_mnist()}:train"), load(f"{_mnist()}:test")
        assert training.labels is not None
        assert test.labels is not None
        images, labels = torch.from_numpy(training.images), torch.from_numpy(training.labels)
        for number, path in enumerate((first, second)):
            rows = slice(number * _TRAINED_ON, (number + 1) * _TRAINED_ON)
            save_onnx(train(images[rows], labels[rows], seed=number, epochs=2), path)
        np.savez_compressed(data, images=test.images[:_COMPARED_ON], labels=test.labels[:_COMPARED_ON])
    return first, second, str(data)


def run_golden(golden: Golden, folder: Path, output: Path, *, events: Listener | None = None) -> None:
    """Make a run folder at ``output``."""
    first, second, data = inputs(folder, golden.pair)
    diffgen.compare(
        first,
        second,
        data=data,
        technique=golden.technique,
        preset=golden.preset,
        config=CompareConfig(
            budget=Budget(queries=golden.queries),
            seed=_SEED,
            device="cpu",
            gan=GanConfig(steps=_GAN_STEPS),
            source=SourceConfig(family=golden.source),
            verify_limit=200,
        ),
        output=output,
        force=True,
        events=events,
    )


def killer(queries: int) -> Listener:
    """A listener that ends its own process by SIGKILL when a search has asked so many queries."""

    def listen(event: Event) -> None:
        if not isinstance(event, StageAdvanced) or event.name != "Searching for disagreements":
            return
        if event.done >= queries:
            os.kill(os.getpid(), signal.SIGKILL)

    return listen


def run_and_die(golden: Golden, folder: Path, output: Path) -> None:
    """Do half of a run, with a checkpoint after every generation, and be killed."""
    checkpoints.SECONDS, checkpoints.SHARE = 0.0, 1e9
    run_golden(golden, folder, output, events=killer(golden.queries // 2))


def apart(target: Callable[..., object], *arguments: object) -> int:
    """Call a function of this module in a process of its own; returns how that ended.

    What an earlier run imported can change the last digits of a later one: each run has a process for itself.
    """
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def run_whole(golden: Golden, folder: Path, output: Path) -> None:
    """Make a run folder at ``output``, without a break. RuntimeError if the run failed."""
    if apart(run_golden, golden, folder, output) != 0:
        raise RuntimeError(f"{golden.name} failed.")


def run_killed(golden: Golden, folder: Path, output: Path) -> None:
    """Make a run folder at ``output`` by a run that is killed and its resumption.

    Raises:
        RuntimeError: the run was not killed, or its resumption failed.
    """
    code = apart(run_and_die, golden, folder, output)
    if code != -signal.SIGKILL:
        raise RuntimeError(f"{golden.name} was to be killed, but ended with {code}.")
    if apart(resume, output) != 0:
        raise RuntimeError(f"{golden.name} could not be resumed.")


def digests(output: Path) -> dict[str, Any]:
    """What a run found, as JSON values: a digest of every column, and the figures without times."""
    run = RunFolder.open(output)
    results = run.results()
    del results["seconds"], results["history"]["seconds"]
    results.pop("milliseconds", None)
    triggers = run.read_triggers()
    columns = triggers.columns() if len(triggers) else {}
    return {
        "triggers": len(triggers),
        "columns": {name: _digest(values) for name, values in columns.items()},
        "verdicts": {name: _digest(values) for name, values in run.read_arrays("verdicts").items()},
        "report": {name: _digest(values) for name, values in run.read_arrays("report").items()},
        "results": results,
    }


def _digest(values: np.ndarray[Any, Any]) -> str:
    kind = f"{values.dtype.str} {values.shape} "
    return kind + hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:32]


def differences(before: Any, now: Any, path: str = "") -> list[str]:
    """Where two such values differ, a line each."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        names = [*before, *(name for name in now if name not in before)]
        return [line for name in names for line in differences(before.get(name), now.get(name), f"{path}/{name}")]
    return [] if before == now else [f"{path[1:]}: {_short(before)} before, {_short(now)} now"]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:60]} ... ({len(text)} characters)"


def main(words: list[str] | None = None) -> int:
    """Make or compare; 1 when anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--killed", action="store_true", help="compare: kill each run half-way and resume it")
    parser.add_argument(
        "--queries", type=int, default=3_000, help="at most so many in each run; for make and compare alike"
    )
    parser.add_argument("--only", nargs="+", metavar="RUN", help="runs whose name holds one of these words")
    arguments = parser.parse_args(words)
    folder = arguments.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["DIFFGEN_CACHE"] = str(folder / "cache")
    record = folder / "golden.json"
    known: dict[str, Any] = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    wrong = 0
    for golden in golden_runs(("digits",) if _mnist() is None else ("digits", "mnist"), most=arguments.queries):
        if arguments.only and not any(word in golden.name for word in arguments.only):
            continue
        if arguments.what == "make":
            run_whole(golden, folder, folder / "runs" / golden.name)
            known[golden.name] = digests(folder / "runs" / golden.name)
            write_json(record, known)
            print(f"{golden.name}: {known[golden.name]['triggers']:,} triggers", flush=True)
            continue
        output = folder / "again" / golden.name
        (run_killed if arguments.killed else run_whole)(golden, folder, output)
        # through JSON, as what it is compared with
        found = differences(known.get(golden.name), json.loads(json.dumps(digests(output))))
        print(f"{golden.name}: {'equal' if not found else ''}", *found, sep="\n    " if found else "", flush=True)
        wrong += bool(found)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
