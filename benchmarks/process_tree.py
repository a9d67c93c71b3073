"""Memory and processor time of this process and of those that it started, as Linux counts them."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

_LOOK = 0.1  # seconds between two looks, at least
_REST = 30  # times as long as a look takes is the rest after it: looking stops the process that is looked at
_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True)
class Usage:
    """What the processes of a tree take at one moment, or at most.

    Attributes:
        total: MiB of all; a page that several of them share is counted once.
        anonymous: MiB of it that are no file that is mapped.
        own: MiB of the first process alone, mapped files included.
    """

    total: float = 0.0
    anonymous: float = 0.0
    own: float = 0.0

    def highest(self, other: Usage) -> Usage:
        """The larger of each figure."""
        return Usage(max(self.total, other.total), max(self.anonymous, other.anonymous), max(self.own, other.own))


def processor_seconds(root: int) -> float:
    """Of a process and of all that it has started, in user and system time; 0 when it is gone."""
    table = _table()
    return sum(table[each][1] for each in _below(root, table))


def peaks(root: int) -> tuple[float, float]:
    """MiB at most since the last call: of a process, resident, and of all that it has started.

    Linux keeps the peak and is told to begin anew. Of those that it has started a page that they share is counted once,
    so that both can be added.
    """
    own = others = 0.0
    for process in _below(root, _table()):
        try:
            status = (_PROC / str(process) / "status").read_text(encoding="utf-8", errors="replace")
            (_PROC / str(process) / "clear_refs").write_text("5")
        except OSError:
            continue  # it has ended since
        size = _mebibytes(status.splitlines())
        if process == root:
            own = size["VmHWM"]
        elif "VmHWM" in size:  # it has not ended
            others += _rollup(process).get("Pss", 0.0) + size["VmHWM"] - size["VmRSS"]
    return own, others


def started_by(process: int) -> dict[int, str]:
    """The processes that one has started and that still run, each with its command."""
    found = {}
    for each in [child for child, (parent, _) in _table().items() if parent == process]:
        try:
            command = (_PROC / str(each) / "cmdline").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has ended since
        found[each] = command.replace("\0", " ")
    return found


class ProcessTree:
    """Watches, from a thread, the process that makes it and all that this one starts.

    Attributes:
        peak: the highest of each figure since the last :meth:`reset`.
    """

    def __init__(self) -> None:
        self.peak = Usage()
        threading.Thread(target=self._watch, daemon=True).start()

    def reset(self) -> None:
        """Forget the peak."""
        self.peak = Usage()
        self.look()

    def look(self) -> None:
        """Look now."""
        total = anonymous = own = 0.0
        for process in _below(os.getpid(), _table()):
            values = _rollup(process)
            total, anonymous = total + values.get("Pss", 0.0), anonymous + values.get("Pss_Anon", 0.0)
            if process == os.getpid():
                own = values.get("Rss", 0.0)
        self.peak = self.peak.highest(Usage(total, anonymous, own))

    def _watch(self) -> None:
        while True:
            begun = time.thread_time()
            self.look()
            time.sleep(max(_LOOK, _REST * (time.thread_time() - begun)))


def _table() -> dict[int, tuple[int, float]]:
    """Of every process the one that started it, and its processor time with that of the ended ones that it started."""
    found = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            try:
                # the name in brackets may hold anything, brackets too
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            except OSError:
                continue  # it has ended since the folder was listed
            found[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15])) / _TICKS
    return found


def _below(root: int, table: dict[int, tuple[int, float]]) -> list[int]:
    """A process and all that it has started."""
    found = [root] if root in table else []
    for process in found:
        found += [child for child, (parent, _) in table.items() if parent == process]
    return found


def _rollup(process: int) -> dict[str, float]:
    """MiB by name, of one process; nothing where it has ended."""
    try:
        lines = (_PROC / str(process) / "smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return {}
    return _mebibytes(lines)


def _mebibytes(lines: list[str]) -> dict[str, float]:
    """Of lines such as ``VmRSS:  1024 kB``."""
    pairs = [line.split() for line in lines if line.endswith(" kB")]
    return {words[0].rstrip(":"): int(words[1]) / 1024 for words in pairs}
