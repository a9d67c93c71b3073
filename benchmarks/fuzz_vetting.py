"""Opens and asks hostile TorchScript and torch.export files, and looks whether any of them reaches out.

    python -m benchmarks.fuzz_vetting --seconds 1800 --walls first

Sound archives are changed by benchmarks/fuzz_attacks.py: dangerous calls in many spellings, names of members, pickles,
operators and expressions of exported graphs, bytes. Each candidate is opened, prepared and asked as ``inspect`` would,
in a child process. Two things must not happen: a change in a folder of tripwires, and a call of a port on 127.0.0.1.
That the tripwires work is seen first: the same candidates, opened as trusted and without any wall, must trip them.
``--walls first`` looks through the files and opens them in the process itself; ``second`` opens them unseen, in
isolation; ``both`` does what diffgen does by default; ``none`` shows how many of the candidates are real. A run of more
than a minute adds a section to benchmarks/results/fuzz-vetting.md; a trip leaves the file under --output and ends with
exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from benchmarks.fuzz_archives import Target
from benchmarks.fuzz_attacks import hostile
from benchmarks.fuzz_doors import Child, reply

RESULT = Path(__file__).parent / "results" / "fuzz-vetting.md"
# walls -> how diffgen.models.load is told so
WALLS: dict[str, dict[str, Any]] = {
    "first": {"isolate": "off"},
    "second": {"isolate": "on", "allow_pickle": True},
    "both": {"isolate": "on"},
    "none": {"isolate": "off", "allow_pickle": True},
}
_PATIENCE = 20.0
_TRIALS = 400  # candidates, without any wall, that must trip the tripwires at least once for each kind
_SAFE = b"safe"
_NOTED = 60.0
_HEAD = """# Hostile model files against tripwires

What is changed, and what must not happen: [benchmarks/fuzz_vetting.py](../fuzz_vetting.py).
"""


# -- the child: opens and asks what it is told to -------------------------------------------------------------------


def child(replies: BinaryIO) -> None:
    """Answer each line ``[walls, path]`` on stdin with one line of JSON: outcome and words."""
    import warnings

    import torch

    from benchmarks import fuzz_corpus
    from diffgen import models
    from diffgen.errors import DiffgenError

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.chdir(os.environ["TRIPWIRES"])  # for attacks that name no folder
    reply(replies, "ready", "")
    for line in sys.stdin:
        walls, path = json.loads(line)
        try:
            model = models.load(Path(path), sidecar=False, model_timeout=_PATIENCE / 2, **WALLS[walls])
            model.prepare(fuzz_corpus.IMAGES[:4])
            model.predict(fuzz_corpus.IMAGES[:4])
        except DiffgenError as error:
            reply(replies, "refused unseen" if "is not opened because" in str(error) else "refused", "")
        except Exception as error:
            reply(replies, "failed", repr(error)[:300])
        else:
            reply(replies, "answered", "")


# -- the parent: makes candidates and watches -----------------------------------------------------------------------


class Tripwires:
    """A folder that must stay as it is, and a port that must not be called."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self._file = folder / "wire"
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.target = Target(str(self._file), self._socket.getsockname()[1])
        self._set()

    def _set(self) -> None:
        for each in self._folder.iterdir():
            each.rmdir() if each.is_dir() else each.unlink()
        self._file.write_bytes(_SAFE)
        self._stamp = self._state()

    def _state(self) -> tuple[Any, ...]:
        return sorted(os.listdir(self._folder)), self._file.stat().st_mtime_ns, self._file.read_bytes()

    def tripped(self) -> str:
        """What happened since the last call, or nothing."""
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            pass
        else:
            return "the port was called"
        if self._file.exists() and self._state() == self._stamp:
            return ""
        self._set()
        return "the folder was changed"

    def close(self) -> None:
        self._socket.close()


@dataclass
class Kind:
    """Files of one format.

    Attributes:
        counts: outcome -> candidates.
        trips: candidates that reached out.
    """

    name: str
    corpus: list[bytes]
    counts: Counter[str] = field(default_factory=Counter)
    trips: int = 0
    seconds: float = 0.0


def kinds(folder: Path) -> list[Kind]:
    """Both formats with their sound files."""
    from benchmarks import fuzz_corpus

    return [Kind(name, contents) for name, contents in fuzz_corpus.programs(folder).items()]


def fuzz(seconds: float, walls: str, seed: int, output: Path) -> list[Kind]:
    """Try candidates for so long, and keep the books."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wires = Tripwires(folder / "tripwires")
        os.environ["TRIPWIRES"] = str(folder / "tripwires")
        opener = Child(folder, _PATIENCE, "benchmarks.fuzz_vetting")
        try:
            tried = kinds(folder)
            _check(tried, walls, opener, wires, folder, seed)
            rng = random.Random(seed)
            start = time.monotonic()
            while time.monotonic() - start < seconds:
                kind = min(tried, key=lambda kind: kind.seconds)
                began = time.monotonic()
                content, outcome, tripped = _one(kind, walls, opener, wires, folder, rng)
                kind.seconds += time.monotonic() - began
                kind.counts[outcome] += 1
                if tripped:
                    kind.trips += 1
                    output.mkdir(parents=True, exist_ok=True)
                    (output / f"{kind.name}-{kind.trips}").write_bytes(content)
                    print(f"{kind.name}: {tripped} ({outcome}); kept in {output}", flush=True)
        finally:
            opener.stop()
            wires.close()
    return tried


def _one(
    kind: Kind, walls: str, opener: Child, wires: Tripwires, folder: Path, rng: random.Random
) -> tuple[bytes, str, str]:
    """One candidate: its contents, what came of it, and what it reached, if anything."""
    content = hostile(rng.choice(kind.corpus), wires.target, rng, exported=kind.name == "export")
    path = folder / "candidate"
    path.write_bytes(content)
    outcome, words = opener.open(walls, path)
    if outcome == "finding":
        outcome = "no answer in time" if words.startswith("no answer") else "crash"
    return content, outcome, wires.tripped()


def _check(tried: list[Kind], walls: str, opener: Child, wires: Tripwires, folder: Path, seed: int) -> None:
    """Sound files must be answered for, and without any wall the tripwires must trip."""
    for kind in tried:
        for content in kind.corpus:
            (folder / "candidate").write_bytes(content)
            outcome, words = opener.open(walls, folder / "candidate")
            if outcome != "answered":
                raise RuntimeError(f"A sound file of the kind {kind.name} was {outcome}: {words}")
        rng = random.Random(seed)
        if not any(_one(kind, "none", opener, wires, folder, rng)[2] for _ in range(_TRIALS)):
            raise RuntimeError(f"No candidate of the kind {kind.name} trips the tripwires where there is no wall.")
        opener.stop()
        wires.tripped()


def _note(tried: list[Kind], walls: str, seconds: float) -> None:
    """A section of the page with the results, in the place of an earlier one for the same walls."""
    import torch

    command = shlex.join(["python", "-m", "benchmarks.fuzz_vetting", *sys.argv[1:]])
    text = RESULT.read_text(encoding="utf-8") if RESULT.is_file() else _HEAD
    first, *sections = text.split("\n## ")
    title = f"Walls: {walls}"
    kept = [section for section in sections if not section.startswith(f"{title}\n")]
    versions = f"Python {sys.version.split()[0]}, torch {torch.__version__}"
    kept.append(
        f"{title}\n\n    {command}\n\nMade on {datetime.now(UTC):%Y-%m-%d} with {versions}, one process "
        f"at low priority on a machine that other work shared, {seconds:.0f} seconds.\n\n{table(tried)}\n"
    )
    RESULT.write_text("\n## ".join([first, *(section.strip() + "\n" for section in sorted(kept))]), encoding="utf-8")


def table(tried: list[Kind]) -> str:
    """The counts as Markdown."""
    outcomes: list[tuple[str, Callable[[Kind], int]]] = [
        ("candidates", lambda kind: kind.counts.total()),
        ("refused before torch read them", lambda kind: kind.counts["refused unseen"]),
        ("refused by torch, or no images", lambda kind: kind.counts["refused"]),
        ("answered, harmless", lambda kind: kind.counts["answered"]),
        ("another exception", lambda kind: kind.counts["failed"]),
        ("crash", lambda kind: kind.counts["crash"]),
        ("no answer in time", lambda kind: kind.counts["no answer in time"]),
        ("**trips**", lambda kind: kind.trips),
    ]
    lines = [f"| format | {' | '.join(name for name, _ in outcomes)} |", "|---" + "|--:" * len(outcomes) + "|"]
    lines += [f"| {kind.name} | {' | '.join(f'{count(kind):,}' for _, count in outcomes)} |" for kind in tried]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--walls", choices=tuple(WALLS), default="first")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("fuzz-trips"), help="folder for files that tripped")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        with os.fdopen(arguments.child, "wb") as replies:
            child(replies)
        return 0
    tried = fuzz(arguments.seconds, arguments.walls, arguments.seed, arguments.output)
    print(table(tried))
    if arguments.seconds >= _NOTED:
        _note(tried, arguments.walls, arguments.seconds)
    return 1 if any(kind.trips for kind in tried) else 0


if __name__ == "__main__":
    sys.exit(main())
