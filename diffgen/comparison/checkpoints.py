"""Decides when a search writes a checkpoint, and which checkpoint a resumed run starts from."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import TriggerTable, digest_of
from diffgen.search.loop import Proposer, SearchLoop

if TYPE_CHECKING:
    from diffgen.comparison.islands.collector import Collector
    from diffgen.comparison.islands.driver import Driver

SECONDS = 5.0  # between two checkpoints at least
SHARE = 0.01  # of the time that checkpoints may take
_MAX_POINTS = 4000  # of the curves; they are part of every checkpoint

History = dict[str, list[float]]


class Checkpointer:
    """Writes parts and checkpoints, never so often that it costs more than ``SHARE`` of the time.

    The first generation is followed by a checkpoint, and so is the first that ends after the interval.

    Args:
        folder: where to.
        loop: what is kept of it: its clock, and queries, archive and behaviours of its evaluator.
        history: the curves of the search, kept too.
    """

    def __init__(
        self, folder: RunFolder, technique: Proposer | Collector, loop: SearchLoop | Driver, history: History
    ) -> None:
        self._folder = folder
        self._technique = technique
        self._loop = loop
        self._history = history
        self._next = -float("inf")

    def record(self) -> None:
        """Add a point to the curves; from ``_MAX_POINTS`` on every second of the older ones is given up."""
        evaluator = self._loop.evaluator
        for name, value in (
            ("seconds", round(self._loop.seconds, 3)),
            ("queries", evaluator.queries),
            ("triggers", len(evaluator.archive)),
        ):
            points = self._history[name]
            points.append(value)
            if len(points) > _MAX_POINTS:
                del points[-3::-2]

    def after_generation(self) -> None:
        """Write a checkpoint if one is due.

        Raises:
            RunError: the disk is full.
            UserError: the technique's state is neither arrays nor JSON values.
        """
        self.record()
        started = time.monotonic()
        if started < self._next:
            self._loop.evaluator.archive.flush()  # what no checkpoint speaks of is dropped at a resume
            return
        self._write(self._technique.checkpoint())
        ended = time.monotonic()
        self._next = ended + max(SECONDS, (ended - started) / SHARE)

    def finish(self) -> None:
        """Write that the search is finished: what is resumed from here searches no more."""
        self._write({"finished": True, "saturated": self._loop.saturated})

    def _write(self, state: Mapping[str, Any]) -> None:
        evaluator = self._loop.evaluator
        # the parts first: a checkpoint speaks only of what is on the disk
        evaluator.archive.flush(everything=True)
        kept = {
            **({} if evaluator.behaviours is None else evaluator.behaviours.checkpoint()),
            "queries": evaluator.queries,
            **({"spared": evaluator.spared} if evaluator.spared else {}),
            "seconds": self._loop.seconds,
            "margin": evaluator.margin,
            "parts": len(self._folder.manifest["parts"]),
            "triggers": evaluator.archive.digest(),
            "history": self._history,
        }
        try:
            if shared := state.keys() & kept.keys():
                raise ValueError(f"names that are taken: {', '.join(sorted(shared))}")
            self._folder.write_checkpoint({**state, **kept})
        except (AttributeError, TypeError, ValueError) as error:  # no mapping, or no array and no JSON value in it
            raise UserError(
                f"The state of the technique {type(self._technique).__name__} cannot be kept ({error}); its "
                "checkpoint() must give arrays of numbers, and values that JSON knows, by name."
            ) from error


def newest_usable(folder: RunFolder, progress: Progress) -> tuple[dict[str, Any], TriggerTable] | None:
    """The checkpoint to go on from and the triggers that belong to it, or None for the beginning.

    A checkpoint that is damaged, or whose parts are, is dropped in favour of the one before. The folder is left as it
    was when that checkpoint was written.
    """
    while True:
        there = folder.has_checkpoint()
        state = folder.read_checkpoint()
        table = None if state is None else _triggers_of(state, folder)
        if state is not None and table is not None:
            # a finished search keeps its verdicts and its report until there are new ones
            if not state.get("finished", False) or len(folder.manifest["parts"]) > state["parts"]:
                folder.rewind(state["parts"])
            return state, table
        is_one_before = folder.drop_checkpoint()
        if there:
            progress.warn(
                f"The newest checkpoint of {folder.path} is damaged; "
                + ("going on from the one before." if is_one_before else "the search starts from its beginning.")
            )
        if not is_one_before:
            folder.rewind(0)
            return None


@contextmanager
def read_state(folder: RunFolder) -> Iterator[None]:
    """Where something goes on from what a checkpoint says. UserError if it does not say what this version keeps."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UserError(
            f"This diffgen cannot go on from the checkpoint of {folder.path}, which version "
            f"{folder.manifest.get('version', 'unknown')} wrote; resume it with that version or start a new run."
        ) from error


def _triggers_of(state: Mapping[str, Any], folder: RunFolder) -> TriggerTable | None:
    """The triggers that a checkpoint speaks of; None when it or they are not what was written."""
    try:
        parts = int(state["parts"])
        if not 0 <= parts <= len(folder.manifest["parts"]):
            return None
        table = folder.read_triggers(parts)
        if "triggers" in state and digest_of(table.hashes) != state["triggers"]:
            return None
        # whether they can be read is to be known before the search goes on from them
        for _ in table.image_column.batches():
            pass
    except (UserError, KeyError, TypeError, ValueError):
        return None
    return table
