"""Which folders the page may look into, the runs that it shows, and those of them that were opened lately."""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from diffgen import api
from diffgen.config import is_address
from diffgen.errors import UserError
from diffgen.runs.opening import inside
from diffgen.types import UInt8Array

_WORD = re.compile(r"digits(:train|:test)?|torchvision:[A-Za-z0-9]+(:train|:test)?")
_NAME = re.compile(r"[\w][\w.+@ -]{0,119}")
_MARKS = frozenset("<>")  # what HTML begins with, and a shell writes to
HIDDEN = ".ui"  # in the folder of the runs: what the page itself keeps


@dataclass(frozen=True)
class Place:
    """Where the page reads and writes.

    Attributes:
        runs: the folder of run folders; whole, and resolved.
        files: folders from which models and images may be picked; whole, and resolved.
    """

    runs: Path
    files: tuple[Path, ...]

    @classmethod
    def of(cls, runs: str, files: Sequence[str]) -> tuple[Place, str]:
        """The place, and the run named in place of a folder of runs, or nothing. UserError if a folder is missing."""
        folder, first = Path(runs).resolve(), ""
        if (folder / "manifest.json").is_file():
            folder, first = folder.parent, folder.name
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{runs} is a file; name the folder that holds the runs.")
        found = tuple(Path(each).resolve() for each in files)
        for each, name in zip(found, files, strict=True):
            if not each.is_dir():
                raise UserError(f"The folder {name} is missing; name one that models or images can be picked from.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"The folder {runs} cannot be made ({error.strerror}); name another.") from error
        return cls(folder, found), first

    def own(self, *names: str) -> Path:
        """Where the page keeps something of its own; it need not exist.

        Raises:
            UserError: a link or a special file is on the way: the runs may come from a stranger.
        """
        return inside(self.runs, HIDDEN, *names)

    def run(self, name: str) -> Path:
        """The folder of a run, by its name. UserError if it is no name of a folder here."""
        if not _NAME.fullmatch(name or "") or ".." in name:
            raise UserError(f"{name[:60]!r} is no name of a run; use letters, digits, dots, dashes and underscores.")
        return self.runs / name

    def known(self, name: str) -> Path:
        """As :meth:`run`, of a run that exists. UserError if there is none of that name."""
        folder = self.run(name)
        if folder.is_symlink() or not os.path.isfile(folder / "manifest.json"):
            raise UserError(f"There is no run {name!r} in {self.runs}.")
        return folder

    def given(self, text: str, what: str) -> str:
        """A model or real images as the command line takes them: an address, a name of data, or a whole path.

        Args:
            what: it is, for messages.

        Raises:
            UserError: it is none of these, missing, or outside the folders that were named.
        """
        text = text.strip()
        if is_address(text) or (what == "data" and _WORD.fullmatch(text)):
            return text
        if not text or "\0" in text or len(text) > 4096:
            raise UserError(f"The {what} is missing; pick a file, drop one, or write an address.")
        place, colon, half = text.rpartition(":")
        if what != "data" or half not in ("train", "test"):
            place, colon, half = text, "", ""
        path = self._found(place)
        if path is None:
            folders = ", ".join(map(str, self.files))
            raise UserError(
                f"The {what} {text} is not in the folders that this page may read ({folders}); copy it there, or start "
                "the page with --files FOLDER."
            )
        if not _is_there(path):
            raise UserError(f"The {what} {text} is missing; pick one that is there.")
        return f"{path}{colon}{half}"

    def folder(self, text: str, what: str) -> str:
        """A folder that may be made: beside the runs, or in the folders that were named.

        Raises:
            UserError: it lies elsewhere, or cannot be shown as it is called.
        """
        text = text.strip()
        if not text or len(text) > 4096:
            raise UserError(f"The {what} is missing; name a folder.")
        name = text.removeprefix(str(self.runs))  # which is as it is
        if not name.isprintable() or _MARKS & {*name}:
            raise UserError(f"The {what} {name[:60]!r} has <, > or signs nobody sees in its name; leave them out.")
        path = (self.runs / text).resolve()
        if not self._may(path):
            raise UserError(f"The {what} {text} is not in a folder that this page may use; name one below {self.runs}.")
        return str(path)

    def _found(self, text: str) -> Path | None:
        """Where a path leads that may be read: in the first folder that has it, else in the first where it may be."""
        paths = [path for base in self.files if self._may(path := (base / text).resolve())]
        return next(filter(_is_there, paths), next(iter(paths), None))

    def _may(self, path: Path) -> bool:
        """Whether a resolved path lies in a folder that was named."""
        return self.may_pick(path) or path == self.runs or path.is_relative_to(self.runs)

    def may_pick(self, path: Path) -> bool:
        """Whether a resolved path lies in a folder from which models and images may be picked."""
        return any(path == each or path.is_relative_to(each) for each in self.files)

    def free_name(self, wanted: str, begun: Collection[str] = ()) -> str:
        """A name for a new run that no run has: the wanted one, or with a number behind it.

        Args:
            begun: names of runs that have no folder yet.
        """
        stem = re.sub(r"[^\w.+@-]+|\.{2,}", "-", wanted)
        stem = re.sub(r"^\W+|\W+$", "", stem)[:100] or "run"
        taken = {*begun, *(each.name for each in self.runs.iterdir())}
        numbers = (f"{stem}-{number}" for number in range(2, len(taken) + 3))
        return next(name for name in (stem, *numbers) if name not in taken)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # no such file can be, as where a name is too long
        return False


def lines(place: Place) -> tuple[api.RunLine, ...]:
    """The runs of a place, the newest first; a page has no letters for some names that a stranger may give."""
    return tuple(line for line in api.list_runs(place.runs) if line.name.isprintable())


_OPEN = 3  # runs that are kept in memory at once


@dataclass
class Seen:
    """What was read of the runs of a place; several threads may ask."""

    place: Place
    _finds: OrderedDict[str, tuple[tuple[int, ...], api.RunTriggers]] = field(default_factory=OrderedDict)
    _watchers: OrderedDict[str, api.Watcher] = field(default_factory=OrderedDict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def finds(self, name: str) -> api.RunTriggers:
        """The triggers of a finished run.

        Raises:
            UserError: see :func:`diffgen.browse`; or there is no such run.
        """
        folder = self.place.known(name)
        files = [folder / name for name in ("manifest.json", "results.json", "verdicts.npz", "shrunk.npz")]
        stamp = tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in files)
        with self._lock:
            known = self._finds.get(name)
            found = known[1] if known is not None and known[0] == stamp else api.browse(folder)
            self._finds[name] = (stamp, found)
            self._finds.move_to_end(name)
            while len(self._finds) > _OPEN:
                self._finds.popitem(last=False)
            return found

    def sight(self, name: str) -> api.SearchSnapshot:
        """What a search has found until now. UserError if there is no such run, or it is damaged."""
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

    def find(self, name: str, number: int) -> api.TriggerDetails:
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
