"""Counts what asking a model costs, and remembers its answers where asking costs more than remembering."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class AnswerStore:
    """Of a model on this machine: asking it costs nothing, so that nothing is counted and nothing is remembered."""

    @property
    def images_left(self) -> int | None:
        """How many images the model may still be asked about; None: as many as one likes."""
        return None

    def reserve(self, images: int) -> None:
        """Count so many of the images that are left as used, until they are asked about: 0 sets them free again."""

    @property
    def cost_summary(self) -> str:
        """What asking the model has cost so far, in a sentence; nothing for a model that costs nothing."""
        return ""

    def attach(self, file: Path | None) -> None:
        """From now on remember the answers, in memory or in a file, if asking costs more than remembering.

        Raises:
            UserError: the file is damaged.
            RunError: the disk is full.
        """

    def detach(self) -> None:
        """Remember answers no longer; a file with them stays."""

    @contextmanager
    def bypass(self, occasion: str) -> Iterator[None]:
        """While the block runs, answers from before it do not count: the model itself is asked.

        Args:
            occasion: what for; answers given under the same name before, in the same run, do count.
        """
        yield
