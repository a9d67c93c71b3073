"""Runs that were opened lately, so that no page reads the same files again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from diffgen import api
from diffgen.types import UInt8Array
from diffgen.ui.place import Place

_OPEN = 3  # runs that are kept in memory at once


@dataclass
class Seen:
    """What was read of the runs of a place; several threads may ask."""

    place: Place
    _finds: OrderedDict[str, tuple[tuple[int, ...], api.Finds]] = field(default_factory=OrderedDict)
    _watchers: OrderedDict[str, api.Watcher] = field(default_factory=OrderedDict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def finds(self, name: str) -> api.Finds:
        """The triggers of a finished run.

        Raises:
            UserError: see :func:`diffgen.browse`; or there is no such run.
        """
        folder = self.place.known(name)
        stamp = _stamp(folder, "manifest.json", "results.json", "verdicts.npz", "shrunk.npz")
        with self._lock:
            known = self._finds.get(name)
            found = known[1] if known is not None and known[0] == stamp else api.browse(folder)
            self._finds[name] = (stamp, found)
            self._finds.move_to_end(name)
            while len(self._finds) > _OPEN:
                self._finds.popitem(last=False)
            return found

    def sight(self, name: str) -> api.Sight:
        """What a search has found until now.

        Raises:
            UserError: there is no such run, or it is damaged.
        """
        with self._lock:
            return self._watcher(name).look()

    def pictures(self, name: str, numbers: Sequence[int]) -> UInt8Array:
        """uint8 (len(numbers), C, H, W): some triggers, of a run that goes on too.

        Raises:
            UserError: there is no such run or trigger.
        """
        with self._lock:
            watcher = self._watcher(name)
            watcher.look()
            return watcher.images(numbers)

    def find(self, name: str, number: int) -> api.Find:
        """One trigger: with all that is known where the run came to its end, else with what the search wrote.

        Raises:
            UserError: there is no such run or trigger.
        """
        if (self.place.known(name) / "results.json").is_file():
            return self.finds(name).find(number)
        with self._lock:
            watcher = self._watcher(name)
            watcher.look()
            return watcher.find(number)

    def forget(self, name: str) -> None:
        """A run was deleted."""
        with self._lock:
            self._finds.pop(name, None)
            self._watchers.pop(name, None)

    def _watcher(self, name: str) -> api.Watcher:
        folder = self.place.known(name)
        if name not in self._watchers:
            self._watchers[name] = api.Watcher(folder)
        self._watchers.move_to_end(name)
        while len(self._watchers) > _OPEN:
            self._watchers.popitem(last=False)
        return self._watchers[name]


def _stamp(folder: Path, *names: str) -> tuple[int, ...]:
    return tuple((folder / name).stat().st_mtime_ns if (folder / name).exists() else 0 for name in names)
