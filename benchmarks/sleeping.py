"""A model that takes its time without computing, as one on a server does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch


class Sleeping:
    """A model that sleeps for every picture while a file is there.

    Args:
        file: TorchScript.
        milliseconds: for one picture.
    """

    def __init__(self, file: Path, milliseconds: float, flag: Path) -> None:
        self.file, self.milliseconds, self.flag = file, milliseconds, flag
        self._network: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_network": None}

    def __call__(self, images: np.ndarray) -> np.ndarray:
        if self._network is None:
            self._network = torch.jit.load(str(self.file))
        if self.milliseconds and self.flag.exists():
            time.sleep(self.milliseconds / 1000 * len(images))
        with torch.inference_mode():
            return np.asarray(self._network(torch.from_numpy(images)))
