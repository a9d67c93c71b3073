"""What a remote model was sent, what it may still be sent, and its answers, so that no image is paid for twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from diffgen.errors import ServiceError
from diffgen.models.answer_store import AnswerStore
from diffgen.models.remote.answers import AnswerTable, Key, keys_of
from diffgen.models.wording import counted
from diffgen.types import Float32Array


class RemoteStore(AnswerStore):
    """Counts images as they are sent, and keeps the answers once it is told to.

    Args:
        name: of the model, for messages.
        budget: images that may be sent, or None: any number.
        retried: says how many requests were made again so far.
        fixed_batch: says the only batch size that the model takes, or None.
    """

    def __init__(
        self, name: str, budget: int | None, *, retried: Callable[[], int], fixed_batch: Callable[[], int | None]
    ) -> None:
        self._name = name
        self._budget = budget
        self._retried = retried
        self._fixed_batch = fixed_batch
        self._answers: AnswerTable | None = None
        self._sent = 0
        self.occasion = ""

    @property
    def images_left(self) -> int | None:
        if self._budget is None:
            return None
        left, fixed = self._budget - self.images_sent, self._fixed_batch()
        return max(left - left % fixed if fixed else left, 0)

    @property
    def images_sent(self) -> int:
        """Images that were sent so far, repeated and padding ones counted each time."""
        return self._sent if self._answers is None else self._answers.images_sent

    @property
    def cost_summary(self) -> str:
        budget = "" if self._budget is None else f" of the {self._budget:,} allowed"
        again = counted(self._retried(), "request")
        return f"Model {self._name}: {self.images_sent:,} images{budget} sent, {again} made again."

    def attach(self, file: Path | None) -> None:
        if self._answers is None:
            self._answers = AnswerTable()
            self._answers.count_sent(self._sent)
        if file is not None:
            self._answers.move_to(file)

    def detach(self) -> None:
        if self._answers is not None:
            self._sent = self._answers.images_sent
            self._answers.close()
            self._answers = None

    @contextmanager
    def bypass(self, occasion: str) -> Iterator[None]:
        before, self.occasion = self.occasion, occasion
        try:
            yield
        finally:
            self.occasion = before

    def asked(self, pixels: np.ndarray, about: str, ask: Callable[[np.ndarray], object]) -> object:
        """The answers to images, of which only those that are not remembered are asked about.

        Args:
            pixels: (N, ...), as they are sent.
            about: whatever else the answer depends on.
            ask: sends some of them.

        Returns:
            float32 (N, K), or what ``ask`` gave where that is something else.
        """
        if self._answers is None:
            return ask(pixels)
        keys = keys_of(pixels, f"{about}\n{self.occasion}")
        known = self._answers.find(keys)
        rows = {key: row for row, key in enumerate(keys) if key not in known}
        if rows:
            given = ask(pixels[list(rows.values())])
            if not _are_rows(given, len(rows)):
                return given
            assert isinstance(given, torch.Tensor)
            new = dict(zip(rows, given.to(torch.float32).numpy(), strict=True))
            # NaN may be the fault of a moment; a resumed run asks again
            self._answers.keep({key: row for key, row in new.items() if np.isfinite(row).all()})
            known |= new
        return _stacked(known, keys)

    def spend(self, images: int) -> None:
        """Count images before they are sent.

        Raises:
            ServiceError: they are more than may be sent.
        """
        if self._budget is not None and self.images_sent + images > self._budget:
            raise ServiceError(
                f"The query budget of {self._budget:,} images of model {self._name} is spent ({self.images_sent:,} "
                f"were sent, and {counted(images, 'image')} more would be needed now); give a larger --query-budget."
            )
        self.count(images)

    def count(self, images: int) -> None:
        """Count images that were sent, or fewer than none for those that were not after all."""
        if self._answers is None:
            self._sent += images
        else:
            self._answers.count_sent(images)


def _are_rows(answer: object, count: int) -> bool:
    return isinstance(answer, torch.Tensor) and answer.ndim == 2 and len(answer) == count and answer.is_floating_point()


def _stacked(known: dict[Key, Float32Array], keys: list[Key]) -> torch.Tensor:
    rows = [known[key] for key in keys]
    if len({len(row) for row in rows}) > 1:
        raise ServiceError("The server gives rows of different lengths for different images; see its log.")
    return torch.from_numpy(np.stack(rows))
