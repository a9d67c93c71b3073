"""Brings damaged files to every door of diffgen and looks whether each is refused in a sentence.

    python -m benchmarks.fuzz_doors --seconds 600

Small valid files of every format (models, sidecars, data sets) are damaged at random (benchmarks/fuzz_mutations.py)
and opened as diffgen would open them; a model that still opens is also prepared and asked. All doors get the same share
of the time. Files are opened in a child process with bounded memory, so that a crash in native code, an endless loop or
a bomb is found too. Whatever happens besides loading and a DiffgenError is a finding: the file and what happened are
kept under --output, and the exit code is 1. The same seed damages the same files in the same way. A run of all doors
writes benchmarks/results/fuzz.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from benchmarks.fuzz_mutations import mutate

RESULT = Path(__file__).parent / "results" / "fuzz.md"
_MEMORY = 6 * 2**30  # more than a child takes after its imports
_FILES_PER_CHILD = 3000
_START_SECONDS = 180.0
_BUSY = 20  # times as long by the clock, for machines that are shared
_KINDS_KEPT = 5  # files of one and the same finding


@dataclass
class Door:
    """One way in.

    Attributes:
        corpus: valid files.
        seconds, counts: so far.
    """

    name: str
    corpus: list[bytes]
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)


# -- the child: opens what it is told to ---------------------------------------------------------------------------


def child(replies: BinaryIO) -> None:
    """Answer each line ``[door, path]`` on stdin with one line of JSON: outcome and words."""
    import warnings

    import numpy as np

    from diffgen.errors import DiffgenError, UserError

    warnings.simplefilter("ignore")
    openers = _openers()
    resource.setrlimit(resource.RLIMIT_AS, (_virtual_bytes() + _MEMORY,) * 2)
    np.seterr(all="ignore")
    reply(replies, "ready", "")
    for line in sys.stdin:
        door, path = json.loads(line)
        try:
            openers[door](Path(path))
        except DiffgenError as error:
            message = str(error)
            # torch's reasons have several lines; the first one must do
            several = isinstance(error, UserError) and "\n" in message.strip()
            reply(
                replies,
                "finding" if several else "refused",
                f"a message of several lines: {message}" if several else "",
            )
        except Exception:
            reply(replies, "finding", traceback.format_exc())
        else:
            reply(replies, "loaded", "")


def reply(replies: BinaryIO, outcome: str, words: str) -> None:
    replies.write(json.dumps([outcome, words]).encode() + b"\n")
    replies.flush()


def _openers() -> dict[str, Any]:
    """Door -> function of a path. Everything is imported and tried once, so that the first file is no special case."""
    import shutil

    from benchmarks import fuzz_corpus
    from diffgen import data, models
    from diffgen.data.picture_file import decode
    from diffgen.data.resize import Resizer
    from diffgen.models.sniffing import sniff

    def ask(path: Path, **options: Any) -> None:
        model = models.load(path, **options)
        model.prepare(fuzz_corpus.IMAGES[:8])
        model.predict(fuzz_corpus.IMAGES[:9])

    def beside(path: Path) -> None:
        """The damaged file as the sidecar of a sound model."""
        sound = path.with_name("sound")
        shutil.copyfile(path, path.with_name("sound.toml"))
        ask(sound)

    def one_picture(path: Path) -> None:
        Resizer(32)(decode(path.read_bytes(), "picture", "set"))

    def read(path: Path) -> None:
        data.load(path, resize=28)

    return {
        "sniff": sniff,
        "torchscript": ask,
        "export": ask,
        "onnx": ask,
        "weights": lambda path: ask(path, arch=fuzz_corpus.ARCH),
        "module": ask,
        "tflite": ask,
        "keras": ask,
        "h5": ask,
        "sidecar": beside,
        "idx": read,
        "picture": one_picture,
        "zip": read,
        "npz": read,
        "parquet": read,
    }


def _processor_seconds(process: int) -> float:
    """What a process has worked so far; a dead one has worked for ever, so that nobody waits for it."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("inf")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _virtual_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


# -- the parent: damages files and keeps the books -----------------------------------------------------------------


class Child:
    """The child process, started anew after it died, hung or opened many files.

    Args:
        folder: for what it prints.
        patience: seconds of its own time that it gets for one file.
        module: that is run with ``--child FD`` and answers there.
    """

    def __init__(self, folder: Path, patience: float, module: str = "benchmarks.fuzz_doors") -> None:
        self._folder = folder
        self._patience = patience
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._replies = -1
        self._opened = 0

    def open(self, door: str, path: Path) -> tuple[str, str]:
        """What came of it: "loaded", "refused" or "finding", and words."""
        if self._process is None or self._opened >= _FILES_PER_CHILD:
            self.stop()
            self._start()
        assert self._process is not None and self._process.stdin is not None
        self._opened += 1
        self._process.stdin.write(json.dumps([door, str(path)]).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._answer(self._patience)
        if answer is not None:
            return answer
        ended = self._process.poll()
        if ended is None:
            words = f"no answer within {self._patience:.0f} seconds of its own time"
        else:
            name = signal.Signals(-ended).name if ended < 0 else f"exit code {ended}"
            words = f"the process died ({name}): {self._last_words()}"
        self.stop()
        return "finding", words

    def _start(self) -> None:
        reading, writing = os.pipe()
        with (self._folder / "stderr").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", self._module, "--child", str(writing)],
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
                pass_fds=[writing],
            )
        os.close(writing)
        self._replies = reading
        self._opened = 0
        if self._answer(_START_SECONDS) is None:
            raise RuntimeError(f"The child process did not start: {self._last_words()}")

    def _answer(self, seconds: float) -> tuple[str, str] | None:
        """The next line of the child; None when it has died, or has worked for so long."""
        assert self._process is not None
        line = b""
        deadline, used = time.monotonic() + _BUSY * seconds, _processor_seconds(self._process.pid) + seconds
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self._replies], [], [], 1.0)
            if not ready and _processor_seconds(self._process.pid) < used and time.monotonic() < deadline:
                continue
            piece = os.read(self._replies, 65536) if ready else b""
            if not piece:
                if ready:
                    self._process.wait(timeout=10)  # the pipe has closed, so it is ending
                return None
            line += piece
        outcome, words = json.loads(line)
        return outcome, words

    def _last_words(self) -> str:
        return (self._folder / "stderr").read_bytes()[-3000:].decode("utf-8", "replace")

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        os.close(self._replies)
        self._process = None


class Findings:
    """Keeps files that led to something else than a DiffgenError; of one and the same finding a few."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: Counter[str] = Counter()

    def keep(self, door: str, content: bytes, words: str) -> None:
        lines = [line.strip() for line in words.strip().splitlines()]
        places = [line for line in lines if line.startswith("File ")]
        same = hashlib.sha256("".join([door, *places[-4:], lines[-1].partition(":")[0]]).encode()).hexdigest()[:8]
        self._seen[same] += 1
        if self._seen[same] > _KINDS_KEPT:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"{door}-{same}-{self._seen[same]}"
        (self._folder / name).write_bytes(content)
        (self._folder / f"{name}.txt").write_text(words, encoding="utf-8")
        if self._seen[same] == 1:
            print(f"finding at {door}, kept as {self._folder / name}: {lines[-1][:300]}", flush=True)

    @property
    def kinds(self) -> int:
        return len(self._seen)


def doors(folder: Path) -> list[Door]:
    """Every door with its valid files."""
    from benchmarks import fuzz_corpus

    model_files, data_files = fuzz_corpus.model_files(folder), fuzz_corpus.data_files(folder)
    (folder / "sound").write_bytes(model_files["torchscript"][0])
    everything = [content for files in (model_files, data_files) for contents in files.values() for content in contents]
    made = {"sniff": everything, **model_files, "sidecar": fuzz_corpus.sidecars(), **data_files}
    return [Door(name, corpus) for name, corpus in made.items()]


def fuzz(seconds: float, seed: int, output: Path, only: list[str], patience: float, page: Path) -> int:
    """Run, print the table, and give the number of different findings."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        open_doors = [door for door in doors(folder) if not only or door.name in only]
        everything = [content for door in open_doors for content in door.corpus]
        findings = Findings(output)
        opener = Child(folder, patience)
        try:
            _check_corpus(open_doors, opener, folder)
            rng = random.Random(seed)
            start = time.monotonic()
            while time.monotonic() - start < seconds:
                door = min(open_doors, key=lambda door: door.seconds)
                content = mutate(rng.choice(door.corpus), rng.choice(everything), rng)
                path = folder / "damaged"
                path.write_bytes(content)
                began = time.monotonic()
                outcome, words = opener.open(door.name, path)
                door.seconds += time.monotonic() - began
                door.counts[outcome] += 1
                if outcome == "finding":
                    findings.keep(door.name, content, words)
        finally:
            opener.stop()
    table = _table(open_doors)
    print(table)
    print(f"\n{findings.kinds} different findings; seed {seed}, {seconds:.0f} seconds.")
    if not only:
        _write(page, table, findings.kinds)
    return findings.kinds


def _write(page: Path, table: str, kinds: int) -> None:
    """The page with the results."""
    import torch

    command = shlex.join(["python", "-m", "benchmarks.fuzz_doors", *sys.argv[1:]])
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        f"""# Damaged files at every door

    {command}

Made on {datetime.now(UTC):%Y-%m-%d} with Python {sys.version.split()[0]}, torch {torch.__version__}, \
{os.cpu_count()} cores that other work shared. What is damaged, and how: \
[benchmarks/fuzz_doors.py](../fuzz_doors.py). A finding is anything but loading or one sentence: another exception, a
crash of the process, no answer in time.

Different findings: **{kinds}**.

{table}
""",
        encoding="utf-8",
    )


def _check_corpus(open_doors: list[Door], opener: Child, folder: Path) -> None:
    """What is not damaged must open, or else damage finds nothing; only pickled modules are refused always."""
    for door in open_doors:
        for number, content in enumerate(door.corpus):
            (folder / "valid").write_bytes(content)
            outcome, words = opener.open(door.name, folder / "valid")
            if outcome != ("refused" if door.name == "module" else "loaded"):
                raise RuntimeError(f"The valid file {number} at {door.name} was {outcome}: {words}")


def _table(open_doors: list[Door]) -> str:
    lines = [
        "| door | files | still opened | refused in a sentence | findings | files/s |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    total: Counter[str] = Counter()
    for door in open_doors:
        total += door.counts
        lines.append(_row(door.name, door.counts, door.seconds))
    lines.append(_row("all", total, sum(door.seconds for door in open_doors)))
    return "\n".join(lines)


def _row(name: str, counts: Counter[str], seconds: float) -> str:
    files = counts.total()
    figures = [files, counts["loaded"], counts["refused"], counts["finding"], round(files / max(seconds, 1e-9))]
    return f"| {name} | " + " | ".join(f"{figure:,}" for figure in figures) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--output", type=Path, default=Path("fuzz-findings"), help="folder for files that found something"
    )
    parser.add_argument("--only", nargs="*", default=[], metavar="DOOR", help="these doors alone")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds of work for one file")
    parser.add_argument(
        "--page", type=Path, default=RESULT, help="written by a run of all doors (default: %(default)s)"
    )
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        with os.fdopen(arguments.child, "wb") as replies:
            child(replies)
        return 0
    found = fuzz(
        arguments.seconds, arguments.seed, arguments.output, arguments.only, arguments.patience, arguments.page
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
