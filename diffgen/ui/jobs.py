"""The command line in processes of its own: started by the page, watched through files, and alive without it."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from diffgen.errors import UserError
from diffgen.runs.creation import UNREADABLE, read_json
from diffgen.runs.opening import open_regular
from diffgen.runs.schema import fields, names_to, number, or_none, rows, text, whole
from diffgen.ui.place import Place

_KEPT = 200  # folders of jobs; the oldest that are over are removed
INTERRUPTED = "interrupted"  # how the problem of a job that was stopped begins
_STOP = "stop"  # file of a job that somebody has stopped
_TAIL = 20_000  # bytes of what a job printed
# the folder of the runs, and with it what the page keeps there, may come from a stranger
_ABOUT = fields({"verb": text, "run": text, "words": rows(text), "pid": whole(1, 2**31 - 1)})
_STATE = fields(
    {},
    {"stage": or_none(text), "problem": text, "exit_code": or_none(whole(0, 255)), "figures": names_to(number())}
    | {"messages": rows(fields({"level": text, "text": text}))}
    | dict.fromkeys(("updated", "since", "done", "total"), or_none(number())),
)


@dataclass(frozen=True)
class Job:
    """One command that the page started.

    Attributes:
        folder: what it keeps: job.json, state.json, out, err, ``alive``, which its process holds locked, and ``stop``
            once somebody has stopped it.
        run: name of the run that it is about.
        words: the command line without "diffgen".
    """

    folder: Path
    verb: str
    run: str
    words: tuple[str, ...]
    pid: int

    @property
    def command(self) -> str:
        """To be copied into a terminal."""
        return shlex.join(["diffgen", *self.words])

    @property
    def alive(self) -> bool:
        """Whether its process still runs."""
        import fcntl

        try:
            with open_regular(self.folder / "alive", links=False) as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    @property
    def was_stopped(self) -> bool:
        """Whether somebody has stopped it from a page, whichever."""
        return (self.folder / _STOP).exists()

    @property
    def stopping(self) -> bool:
        """Whether it was stopped and still runs, as while it judges what it has found."""
        return self.was_stopped and self.alive

    @property
    def last_sign(self) -> str:
        """When it last wrote anything, as a run says when it was created: ISO 8601; empty of one that is forgotten."""
        try:
            written = max(each.stat().st_mtime for each in self.folder.iterdir())
        except FileNotFoundError:
            return ""
        return datetime.fromtimestamp(written, UTC).isoformat(timespec="seconds")

    def state(self) -> dict[str, Any]:
        """How far it is, as :mod:`diffgen.cli.progress` keeps it; empty at the very beginning."""
        try:
            found = read_json(self.folder, "state.json")
            _STATE(found)
        except (*UNREADABLE, UserError):
            return {}
        return found

    @property
    def problem(self) -> str:
        """Why it broke off, in a sentence, or nothing: it runs, or came to its end."""
        if self.alive:
            return ""
        state = self.state()
        if state.get("ended"):
            return str(state.get("problem", ""))
        said = [line for line in self.tail("err").splitlines() if line.startswith("diffgen: ")]
        if said:
            return said[0].removeprefix("diffgen: ")
        return INTERRUPTED if self.was_stopped else "The process ended before its work did."

    def result(self) -> dict[str, Any]:
        """What it printed as JSON at its end; empty: nothing."""
        last = self.tail("out").strip().rpartition("\n")[2]
        try:
            found = json.loads(last)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def tail(self, name: str) -> str:
        """The end of what it wrote to ``out`` or ``err``."""
        try:
            with open_regular(self.folder / name, links=False) as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def stop(self) -> None:
        """As Ctrl-C does: a search ends in good order, a second time it ends at once."""
        if self.alive:
            (self.folder / _STOP).touch()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGINT)


@dataclass
class Jobs:
    """The jobs of a place; several threads may ask."""

    place: Place
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))  # that they start with
    _own: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def start(self, verb: str, run: str, words: Sequence[str]) -> Job:
        """Start ``diffgen VERB WORDS``.

        Args:
            run: name of the run that it is about.

        Raises:
            UserError: a job about that run is going on.
        """
        with self._lock:  # two who click at once start one
            if (other := self.of(run)) is not None and other.alive:
                raise UserError(f"'diffgen {other.verb}' works on the run {run}; wait for it, or stop it first.")
            _remove(self.every()[_KEPT:])
            return self._started(verb, run, words)

    def _started(self, verb: str, run: str, words: Sequence[str]) -> Job:
        import fcntl

        folder = self.place.own("jobs", f"{time.time_ns():020d}")
        folder.mkdir(parents=True)
        said = (verb, *words)
        talk = ("--json", "--state-file", str(folder / "state.json"))
        with (
            (folder / "alive").open("wb") as alive,
            (folder / "out").open("wb") as out,
            (folder / "err").open("wb") as err,
        ):
            fcntl.flock(alive, fcntl.LOCK_EX)
            # the lock is held for as long as the process lives, whoever started it
            with _interrupts_wait():
                process = subprocess.Popen(
                    [sys.executable, "-m", "diffgen", *said, *talk],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env=self.environment,
                    pass_fds=[alive.fileno()],
                    start_new_session=True,
                )
        self._own.append(process)
        about = {"verb": verb, "run": run, "words": said, "pid": process.pid}
        (folder / "job.json").write_text(json.dumps(about), encoding="utf-8")
        return Job(folder, verb, run, said, process.pid)

    def every(self) -> list[Job]:
        """All that are remembered, the newest first."""
        with self._lock:
            self._own = [each for each in self._own if each.poll() is None]
        found = []
        for name in sorted((each.name for each in self.place.own("jobs").glob("*")), reverse=True):
            with contextlib.suppress(*UNREADABLE, UserError):
                folder = self.place.own("jobs", name)
                about = read_json(folder, "job.json")
                _ABOUT(about)
                found.append(Job(folder, about["verb"], about["run"], tuple(about["words"]), about["pid"]))
        return found

    def of(self, run: str, *verbs: str) -> Job | None:
        """The newest about a run, of some verbs, or of all."""
        return next((job for job in self.every() if job.run == run and (not verbs or job.verb in verbs)), None)

    def forget(self, run: str) -> None:
        """A run was deleted: what is over about it is remembered no longer."""
        with self._lock:
            _remove(job for job in self.every() if job.run == run)


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Start processes that hear SIGINT only once they allow it (:mod:`diffgen.cli.signals`), and lose none before.

    While Python starts, an interrupt ends it without a word, or is lost: some of what it imports catches every error.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # of this thread, which the child inherits
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _remove(jobs: Iterable[Job]) -> None:
    """Those that are over."""
    for job in jobs:
        if not job.alive:
            shutil.rmtree(job.folder)
