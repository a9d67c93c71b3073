"""What faults of a pipeline change in the maps of a model that gives each pixel a class.

    python -m benchmarks.segmentation MODEL --data SHARED/data/photographs/images

Base and candidate are the same model; the candidate is handed pictures with one fault. Measured and judged as in a
check, by the limits that hold where nobody sets any, on all pictures of the data, stretched to 513x513.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from diffgen.config import Limits, TaskConfig
from diffgen.data import load as load_data
from diffgen.gate.conditions import UNMEASURED, evaluate
from diffgen.gate.maps import MapAnswers
from diffgen.gate.measurements import Share
from diffgen.gate.values import GateValues, SearchState
from diffgen.models import load
from diffgen.models.panel import panel_of, seated
from diffgen.tasks.segmentation import Segmentation
from diffgen.types import UInt8Array

_SIDE = 513
_AT_ONCE = 25


def _half(pictures: UInt8Array) -> UInt8Array:
    """Brought to half of the size, and back."""
    small = torch.nn.functional.interpolate(
        torch.from_numpy(pictures).float(), scale_factor=0.5, mode="bilinear", antialias=True
    )
    large = torch.nn.functional.interpolate(small, size=pictures.shape[2:], mode="bilinear")
    return np.asarray(large.round().clamp(0, 255).byte().numpy())


FAULTS: dict[str, Callable[[UInt8Array], UInt8Array]] = {
    "none": lambda pictures: pictures,
    "red and blue exchanged": lambda pictures: np.ascontiguousarray(pictures[:, ::-1]),
    "pictures of half the size, enlarged": _half,
    "an eighth darker": lambda pictures: (pictures * 0.875).astype(np.uint8),
    "inverted": lambda pictures: 255 - pictures,
    "8 pixels further left": lambda pictures: np.concatenate([pictures[..., 8:], pictures[..., -8:]], axis=3),
    "one grey level brighter": lambda pictures: np.minimum(pictures, 254) + 1,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    arguments = parser.parse_args()
    images = load_data(arguments.data, resize=_SIDE, fit="stretch").images
    box = load(arguments.model, batch_size=_AT_ONCE)
    box.prepare(images)
    panel = panel_of(seated((box, box), TaskConfig()))
    assert panel is not None
    task = panel.task
    assert isinstance(task, Segmentation)
    lots = [images[start : start + _AT_ONCE] for start in range(0, len(images), _AT_ONCE)]
    base = [box.predict(lot) for lot in lots]
    print("| fault | pixels | classes lost | classes gained | mean IoU | judged |\n|---|---|---|---|---|---|")
    for name, fault in FAULTS.items():
        candidate = [box.predict(fault(lot)) for lot in lots]
        parts = [task.differences(task.maps_of(np.stack(both, axis=1))) for both in zip(base, candidate, strict=True)]
        found = MapAnswers.of(parts, task.sides[0] * task.sides[1])
        measured = {
            "changed_pixels": found.pixels(),
            "lost_classes": found.lost_classes(),
            "gained_classes": found.gained_classes(),
        }
        values = GateValues(UNMEASURED, search=SearchState(1)).with_measured(measured)
        judged = [f"{each.name} {each.status}" for each in evaluate(values, Limits()) if each.name in measured]
        print(
            f"| {name} | {' | '.join(map(_cell, measured.values()))} | {found.distance().text} | {', '.join(judged)} |"
        )


def _cell(value: Share) -> str:
    low, high = value.interval
    return f"{100 * value.share:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


if __name__ == "__main__":
    main()
