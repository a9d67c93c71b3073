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
        return Usage(*map(max, zip(self.as_tuple(), other.as_tuple(), strict=True)))  # type: ignore[arg-type]

    def as_tuple(self) -> tuple[float, float, float]:
        """All figures."""
        return self.total, self.anonymous, self.own


class ProcessTree:
    """Watches, from a thread, the process that makes it and all that this one starts.

    Attributes:
        peak: the highest of each figure since the last :meth:`reset`.
    """

    def __init__(self) -> None:
        self.peak = Usage()
        self._seconds: dict[int, float] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def reset(self) -> None:
        """Forget the peak."""
        self.peak = Usage()
        self.look()

    def look(self) -> None:
        """Look now."""
        total = anonymous = own = 0.0
        for process in self._processes():
            values = _rollup(process)
            total, anonymous = total + values.get("Pss", 0.0), anonymous + values.get("Pss_Anon", 0.0)
            if process == os.getpid():
                own = values.get("Rss", 0.0)
        self.peak = self.peak.highest(Usage(total, anonymous, own))

    def seconds(self) -> float:
        """Processor time of all so far; of one that has ended, as it was when it was last looked at."""
        self._processes()
        return sum(self._seconds.values())

    def _processes(self) -> list[int]:
        parents: dict[int, int] = {}
        seconds: dict[int, float] = {}
        for entry in _PROC.iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue  # it has ended
                parents[int(entry.name)] = int(fields[1])
                seconds[int(entry.name)] = (int(fields[11]) + int(fields[12])) / _TICKS
        found = [os.getpid()]
        for process in found:
            found += [child for child, parent in parents.items() if parent == process]
        self._seconds.update({each: seconds[each] for each in found if each in seconds})
        return found

    def _watch(self) -> None:
        while True:
            begun = time.thread_time()
            self.look()
            time.sleep(max(_LOOK, _REST * (time.thread_time() - begun)))


def _rollup(process: int) -> dict[str, float]:
    """MiB by name, of one process; nothing where it has ended."""
    try:
        lines = (_PROC / str(process) / "smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return {}
    pairs = [line.split() for line in lines]
    return {words[0].rstrip(":"): int(words[1]) / 1024 for words in pairs}
