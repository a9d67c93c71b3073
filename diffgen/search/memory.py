"""Halves a batch that does not fit into memory."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

from diffgen.errors import RunError

# torch on the CPU, onnxruntime and others say it in a plain RuntimeError
_SAYINGS = ("out of memory", "can't allocate memory", "not enough memory", "failed to allocate memory", "bad_alloc")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, or what caused it, is a lack of memory."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError | torch.OutOfMemoryError):
            return True
        if isinstance(cause, RuntimeError | RunError) and any(words in str(cause).lower() for words in _SAYINGS):
            return True
        cause = cause.__cause__
    return False


class BatchHalver:
    """Calls a function on a batch, in as many pieces as memory asks for.

    A size that was too large once is not tried again, also where several threads call it. The images asked about do not
    depend on it, so that a search draws the same ones with little memory as with much.

    Args:
        on_smaller: told the new size whenever it was halved.
        size: most rows handed over at once; None: all.
    """

    def __init__(self, on_smaller: Callable[[int], None] | None = None, *, size: int | None = None) -> None:
        self.size = size
        self._on_smaller = on_smaller
        self._halving = threading.Lock()
        self._untold = False

    def call(self, function: Callable[[torch.Tensor], torch.Tensor], batch: torch.Tensor) -> torch.Tensor:
        """What ``function`` gives for the rows of ``batch``; whoever wants to know is told of a smaller size at once.

        Raises:
            RunError: there is not memory enough for a single one.
        """
        return self._call(function, batch, tell=True)

    def pieces(self, function: Callable[[torch.Tensor], torch.Tensor], batch: torch.Tensor) -> torch.Tensor:
        """The same, in a thread at the side: of a smaller size :meth:`tell` tells, in the thread that calls it."""
        return self._call(function, batch, tell=False)

    def tell(self) -> None:
        """Tell of a smaller size that nobody was told of yet."""
        with self._halving:
            untold, self._untold = self._untold, False
        if untold and self._on_smaller is not None and self.size is not None:
            self._on_smaller(self.size)

    def _call(
        self, function: Callable[[torch.Tensor], torch.Tensor], batch: torch.Tensor, *, tell: bool
    ) -> torch.Tensor:
        parts: list[torch.Tensor] = []
        row = 0
        while row < len(batch) or not parts:
            piece = batch if self.size is None and row == 0 else batch[row : row + (self.size or len(batch))]
            try:
                parts.append(function(piece))
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                if len(piece) <= 1:
                    raise RunError("There is not enough memory for a single image; use a smaller model.") from error
                smaller = len(piece) // 2
            else:
                row += len(piece)
                continue
            # only here, since the exception held on to the memory of the call that failed
            self._halve(smaller)
            if tell:
                self.tell()
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _halve(self, size: int) -> None:
        with self._halving:
            if self.size is None or size < self.size:  # another thread may have gone further
                self.size, self._untold = size, True
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
