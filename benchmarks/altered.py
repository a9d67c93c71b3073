"""diffgen on the command line, but for one thing: what a setting cannot change, for measurements alone.

    python -m benchmarks.altered [--slow MS] [--unordered] VERB ...

--slow MS: every model takes MS milliseconds longer for an image, without computing, as one on a server does.
--unordered: a search draws all real images alike, whatever models and jury say of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from unittest import mock

import numpy as np
import torch

from diffgen.cli import main as diffgen
from diffgen.models.base import BlackBox


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb; returns its exit code."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--unordered", action="store_true")
    own, words = parser.parse_known_args(argv)
    answer = BlackBox._raw_outputs

    def slowly(model: BlackBox, chunk: torch.Tensor | np.ndarray) -> torch.Tensor:
        time.sleep(own.slow / 1000 * len(chunk))
        return answer(model, chunk)

    def alike(answers: np.ndarray, clearness: np.ndarray | None = None) -> np.ndarray:
        return np.ones(len(answers))

    with ExitStack() as patched:
        patched.enter_context(mock.patch.object(BlackBox, "_raw_outputs", slowly))
        if own.unordered:
            patched.enter_context(mock.patch("diffgen.sources.seeds.seed_weights", alike))
        return diffgen(words)


if __name__ == "__main__":
    sys.exit(main())
