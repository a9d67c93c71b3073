"""How clearly each real image shows its label, as the jury sees it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features.jury import Jury
from diffgen.runs.artifacts import Artifact, read_tensors, tensors_digest, unreadable, write_tensors
from diffgen.types import Float32Array, Int64Array, UInt8Array

FORMAT = "diffgen-clearness-1"
_AT_ONCE = 1024  # images, between two steps of the bar


def prepare_clearness(split: DataSplit, jury: Jury, progress: Progress) -> Float32Array:
    """The clearness of every real image of a data set, float32 (N,), from the cache or asked for now."""
    data = split.data

    def make(path: Path) -> Float32Array:
        found = clearness(data.images, data.labels, jury, progress)
        write_tensors(path, {"clearness": torch.from_numpy(found)})
        return found

    made_from = {
        "clearness": FORMAT,
        "data": data.digest,
        "jury": tensors_digest(jury.state_dict()),
    }
    return Artifact("filters", made_from).obtain(_read, make, progress)


def clearness(images: UInt8Array, labels: Int64Array | None, jury: Jury, progress: Progress) -> Float32Array:
    """What the jury gives the label of each image.

    Args:
        images: uint8 (N, C, H, W).
        labels: int64 (N,); None: what it gives its own name of the image counts.
        jury: says what they show.
        progress: draws the bar.

    Returns:
        float32 (N,), from 0 (it sees something else, or has never seen that label) to 1.
    """
    found = np.zeros(len(images), dtype=np.float32)
    with progress.stage("Asking the jury about the real images", total=len(images)) as task:
        for start in range(0, len(images), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            said = jury.answers(torch.from_numpy(images[some])).numpy()
            if labels is None:
                found[some] = said.max(axis=1)
            else:
                found[some] = (said * (jury.labels == labels[some, None])).sum(axis=1)
            task.advance(len(said))
    return found


def _read(path: Path) -> Float32Array:
    try:
        return np.asarray(read_tensors(path)[1]["clearness"].numpy(), dtype=np.float32)
    except (OSError, ValueError, KeyError) as error:
        raise unreadable("The file of the images' clearness", path, error) from error
