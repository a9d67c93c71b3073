"""Labels that people give on the page: a sheet of a run as ``diffgen label`` writes it, and one CSV for each person."""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock

from diffgen import api
from diffgen.config import LabelConfig
from diffgen.errors import UserError
from diffgen.labels.reading import INVALID_WORD, label_values
from diffgen.runs.creation import UNREADABLE
from diffgen.runs.files import write_text
from diffgen.runs.opening import read_text
from diffgen.ui.place import Place

_PERSON = re.compile(r"[\w][\w .@+-]{0,39}")
_VOTES = re.compile(rf"by-({_PERSON.pattern})\.csv")
_IDENTIFIER = re.compile(r"t[0-9a-f]{12}")


class WrongLabel(UserError):
    """What somebody says a picture shows is no class of the run."""


@dataclass
class Sheets:
    """The label sheets of the runs of a place.

    Whoever writes one holds a lock, since a vote reads a file and writes it again: the threads of this page, and other
    pages over the same runs. Files are replaced whole, so that whoever reads needs none.
    """

    place: Place
    _known: dict[Path, Collection[str]] = field(default_factory=dict)
    _lock: FileLock = field(init=False)

    def __post_init__(self) -> None:
        self._lock = FileLock(self.place.own("labels.lock"))

    @contextmanager
    def _held(self) -> Iterator[None]:
        self.place.own("labels.lock")  # as it is now: taking the lock would follow a link
        with self._lock:
            yield

    def folder(self, run: str, *names: str) -> Path:
        """Where the sheet of a run lies, or something of it: of a later run of the same name it is another place.

        Raises:
            UserError: there is no such run; or see :meth:`Place.own`.
        """
        begun = re.sub(r"\W", "", api.describe_run(self.place.known(run)).created)
        return self.place.own("labels", run, f"of-{begun}", *names)

    def ids(self, run: str) -> tuple[str, ...]:
        """The pictures of the sheet, in their order; none: there is no sheet."""
        return tuple(_read(self.folder(run, "labels.csv")))

    def make(self, run: str, count: int | None) -> int:
        """Draw a sheet, in place of one that nobody has labelled; how many pictures it has.

        Raises:
            UserError: see :func:`diffgen.label_export`; or somebody has begun to label.
        """
        folder = self.folder(run)
        with self._held():
            if self.people(run):
                raise UserError("Somebody has begun with the present sheet; label its pictures, or clear its labels.")
            self.clear(run)
            folder.parent.mkdir(parents=True, exist_ok=True)
            return api.label_export(self.place.known(run), folder, config=LabelConfig(count=count)).pictures

    def clear(self, run: str) -> None:
        """Forget the sheet and what was said on it; labels that were put into the run stay there."""
        with self._held():
            _remove(self.folder(run))

    def forget(self, run: str) -> None:
        """A run was deleted: nobody can ask for its sheet any more."""
        with self._held():
            _remove(self.place.own("labels", self.place.run(run).name))

    def people(self, run: str) -> dict[str, int]:
        """Who has labelled, and how many pictures."""
        folder = self.folder(run)
        people = sorted(match[1] for each in folder.glob("by-*.csv") if (match := _VOTES.fullmatch(each.name)))
        return {person: len(self.said(run, person)) for person in people}

    def said(self, run: str, person: str) -> dict[str, str]:
        """What a person said: picture -> name of a class, or "invalid"."""
        return {name: label for name, label in _read(self._file(run, person)).items() if label}

    def drawn(self, run: str) -> int:
        """When the sheet was drawn, in milliseconds: tells it from another one of the run."""
        return _written(self.folder(run, "labels.csv"))

    def version(self, run: str, person: str) -> int:
        """When a person's votes were last written, in milliseconds; 0: never."""
        return _written(self._file(run, person))

    def vote(self, run: str, person: str, identifier: str, label: str) -> int:
        """Note what a person says of a picture; an empty label takes it back. Returns the version of the votes.

        Raises:
            WrongLabel: it is no class of the run.
            UserError: there is no such picture, or the name of the person is none.
        """
        with self._held():
            rows = dict.fromkeys(self.ids(run), "")
            if identifier not in rows:
                raise UserError("There is no such picture on the sheet.")
            if label and label.strip() not in self._labels(run):
                raise WrongLabel(f"The run {run} has no such class; say one that it has, or '{INVALID_WORD}'.")
            rows.update(_read(self._file(run, person)))
            rows[identifier] = label
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(("id", "label"))
            writer.writerows(rows.items())
            write_text(self._file(run, person), text.getvalue())  # whole or not at all: it is the only copy
            return self.version(run, person)

    def _labels(self, run: str) -> Collection[str]:
        """What can be said of a picture, as a sheet is read that is put into the run."""
        folder = self.folder(run)  # of another run of that name another one
        if folder not in self._known:
            self._known[folder] = label_values(api.browse(self.place.known(run)).class_names).keys()
        return self._known[folder]

    def put(self, run: str) -> api.LabelResult:
        """Put what all people say into the run, in place of what they said before.

        Raises:
            UserError: nobody has labelled, or see :func:`diffgen.label_import`.
        """
        with self._held():
            files = [self._file(run, person) for person, count in self.people(run).items() if count]
            if not files:
                raise UserError(
                    "Nobody has labelled a picture yet; draw a sheet under 'The sheet' and label some of it first."
                )
            return api.label_import(self.place.known(run), files, partial=True, force=True, withdrawn=True)

    def picture(self, run: str, identifier: str) -> Path:
        """The file of a picture on the sheet. UserError if there is none."""
        file = self.folder(run, "pictures", f"{identifier}.png")
        if not _IDENTIFIER.fullmatch(identifier) or not file.is_file():
            raise UserError("There is no such picture on the sheet.")
        return file

    def _file(self, run: str, person: str) -> Path:
        if not _PERSON.fullmatch(person or ""):
            raise UserError("Who labels? Write a short name of letters and digits.")
        return self.folder(run, f"by-{person}.csv")


def _written(file: Path) -> int:
    return file.stat().st_mtime_ns // 1_000_000 if file.is_file() else 0


def _read(file: Path) -> dict[str, str]:
    try:
        rows = csv.DictReader(read_text(file, links=False).splitlines())
        return {row["id"]: row["label"] or "" for row in rows}
    except FileNotFoundError:
        return {}
    except (*UNREADABLE, csv.Error) as error:
        raise UserError(f"The labels {file} cannot be read ({error}); remove them.") from error


def _remove(folder: Path) -> None:
    if folder.is_dir():
        shutil.rmtree(folder)
