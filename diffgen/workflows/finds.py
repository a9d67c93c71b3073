"""The valid triggers of a finished run, as labels and selector want them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffgen.errors import UserError
from diffgen.metrics.counting import behaviour_keys, is_valid
from diffgen.runs.folder import RunFolder
from diffgen.types import Float32Array, Int64Array, UInt8Array


@dataclass(frozen=True)
class Finds:
    """N valid triggers.

    Attributes:
        numbers: int64 (N,), rows among all triggers of the run.
        images: uint8 (N, C, H, W).
        hashes: uint8 (N, 16).
        said: int64 (N, 2), what A and B say.
        behaviours: int64 (N, 3): what A says, what B says, cell.
        latents: float32 (N, latent values), or None.
        class_names: K names.
    """

    numbers: Int64Array
    images: UInt8Array
    hashes: UInt8Array
    said: Int64Array
    behaviours: Int64Array
    latents: Float32Array | None
    class_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.numbers)


def read_finds(folder: RunFolder) -> Finds:
    """The confirmed triggers that no filter rejected.

    Raises:
        UserError: the run did not come to its end, is damaged, or has no valid trigger.
    """
    with folder.reading():
        return _finds(folder)


def _finds(folder: RunFolder) -> Finds:
    results, verdicts = folder.results(), folder.read_arrays("verdicts")
    triggers = folder.read_parts()
    numbers = np.flatnonzero(is_valid(verdicts["confirmed"], verdicts["rejected_by"]))
    if len(numbers) == 0:
        raise UserError(
            f"The run {folder.path} has no valid trigger, so there is nothing to label or to learn from; search longer "
            "or with other filters."
        )
    said = triggers["probabilities"][numbers].argmax(axis=2)
    if triggers["probabilities"].shape[2] != len(results["class_names"]):
        raise ValueError("the probabilities are of other classes than those that are named")
    return Finds(
        numbers=numbers,
        images=triggers["images"][numbers],
        hashes=triggers["hashes"][numbers],
        said=said,
        behaviours=behaviour_keys(said, verdicts["cells"][numbers]),
        latents=triggers["latents"][numbers] if "latents" in triggers else None,
        class_names=tuple(str(name) for name in results["class_names"]),
    )
