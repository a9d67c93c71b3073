"""Runs one case: a command in a folder of its own, beside a folder of somebody else's that must stay as it is."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
REFUSED, WORKS, BROKE_OFF, FAILED, INTERRUPTED = 2, 0, 3, 1, 130
_SHOWN = 150  # letters of an outcome in the table
_TRACES = ("Traceback (most recent call last)", "Segmentation fault", "core dumped", "Exception ignored in")


@dataclass
class Case:
    """One use.

    Attributes:
        kind: models, data, runs, stores, outputs, streams, signals, concurrency, servers or settings.
        command: of the shell; ``diffgen`` is this checkout's, ``$V`` the victim's folder. Its own folder holds
            copies of the good files: data.npz, a.pt, b.onnx, c.pt2, g.pt (a generator), run/ (a finished comparison).
        prepare: makes the odd files in the case's folder; also handed the victim's folder.
        codes: exit codes that are right.
        says: what the output has to hold, a regular expression.
        check: looks at the folder afterwards; returns what is wrong.
        may_add: new files in the victim's folder are what was asked for; those that were there must stay as they are.
    """

    kind: str
    name: str
    command: str
    prepare: Callable[[Path, Path], object] = lambda folder, victim: None
    codes: tuple[int, ...] = (REFUSED,)
    says: str = ""
    seconds: float = 60.0
    check: Callable[[Path], str] = lambda folder: ""
    may_add: bool = False
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What came of a case; ``problem`` is empty where all is as it should be."""

    case: Case
    code: int
    text: str
    problem: str

    @property
    def sentence(self) -> str:
        """The last line that was printed, without folders, cut off."""
        lines = [line for line in self.text.splitlines() if line.strip()]
        told = [line for line in lines if line.startswith("diffgen: ")] or lines
        plain = re.sub(r"/[^\s'\"]*/(?=[^\s/'\"])", "", told[-1] if told else "").removeprefix("diffgen: ")
        shown = "".join(each if each.isprintable() else "?" for each in plain)
        return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


def run(case: Case, good: Path, folder: Path, *, slowness: float) -> Outcome:
    """Copy the good files, prepare, run, and look.

    Args:
        folder: to be made; removed afterwards.
        slowness: times as long as on an idle machine that a case may take.
    """
    shutil.copytree(good, folder / "here")
    victim = folder / "victim"
    victim.mkdir()
    (victim / "thesis.txt").write_text("ten years of work")
    (victim / "photos").mkdir()
    (victim / "photos" / "a.png").write_bytes(b"a photograph")
    home = folder / "home"  # libraries keep caches here; what an attack leaves is called PWNED
    home.mkdir()
    case.prepare(folder / "here", victim)
    before = _print_of(victim)
    theirs = None if not case.may_add else {path.relative_to(victim) for path in victim.rglob("*")}
    shell = f'diffgen() {{ "{sys.executable}" -m diffgen "$@"; }}; {case.command}'
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(REPOSITORY),
        "DIFFGEN_CACHE": str(good.parent / "cache"),
        "OMP_NUM_THREADS": "1",
        "V": str(victim),
        **case.environment,
    }
    process = subprocess.Popen(
        ["bash", "-c", shell],
        cwd=folder / "here",
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    started = time.monotonic()
    hung = False
    try:
        output, _ = process.communicate(timeout=case.seconds * slowness)
    except subprocess.TimeoutExpired:
        hung = True
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    text = output.decode("utf-8", errors="replace")
    problems = [
        f"no end within {time.monotonic() - started:.0f} s" if hung else "",
        "" if hung or process.returncode in case.codes else f"exit code {process.returncode}",
        next((f"{trace!r} in the output" for trace in _TRACES if trace in text), ""),
        "" if re.search(case.says, text) else f"nothing said of {case.says!r}",
        "" if _print_of(victim, theirs) == before else "a foreign file changed",
        "a command of the file's ran" if (home / "PWNED").exists() else "",
        case.check(folder / "here"),
    ]
    outcome = Outcome(case, process.returncode, text, "; ".join(filter(None, problems)))
    shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _print_of(folder: Path, only: set[Path] | None = None) -> str:
    """A digest of everything in a folder, or of some of it."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if only is not None and path.relative_to(folder) not in only:
            continue
        digest.update(str(path.relative_to(folder)).encode("utf-8", "surrogateescape"))
        mode = path.lstat().st_mode
        digest.update(str(stat.S_IFMT(mode)).encode())
        if stat.S_ISREG(mode):
            digest.update(path.read_bytes())
        elif stat.S_ISLNK(mode):
            digest.update(os.readlink(path).encode())
    return digest.hexdigest()


def quoted(*words: object) -> str:
    """Words for a command."""
    return shlex.join(map(str, words))
