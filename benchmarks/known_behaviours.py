"""How many behaviours of one run are recognised when those of another were accepted, by several rules.

    python -m benchmarks.known_behaviours DATA STORED:FOUND [STORED:FOUND ...]

DATA are the real images of the runs; STORED and FOUND are run folders of ``diffgen compare`` on them. The second line
of each pair takes an encoder and cells that were trained anew on 80 % of the images, as on another machine or after the
data have changed a little. Figures: docs/decisions/012-known-behaviours.md.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import torch

from diffgen.config import CheckConfig
from diffgen.data import load
from diffgen.features import cells as cell_store
from diffgen.features.cells import Cells
from diffgen.gate.known import nearest_known, spread_out
from diffgen.runs.folder import RunFolder
from diffgen.sampling import random_rows
from diffgen.tasks.classification import behaviours
from diffgen.types import Float32Array, ImageSet, Int64Array

_REACHES = (1.0, 1.25, 1.5)


def distinct_valid(run: str) -> tuple[torch.Tensor, Int64Array]:
    """Images, uint8 (N, C, H, W), and labels, int64 (N, 2), of the distinct valid triggers of a run."""
    folder = RunFolder.open(run)
    triggers = folder.read_judged()
    found = triggers[triggers.distinct]
    return torch.from_numpy(found.images), found.labels


def rows_of(said: Int64Array, cells: Int64Array) -> list[Int64Array]:
    """The rows of each behaviour."""
    keys = behaviours(said, cells)
    return [np.flatnonzero((keys == key).all(axis=1)) for key in np.unique(keys, axis=0)]


def encoded(cells: Cells, images: torch.Tensor) -> Float32Array:
    """float32 (N, D) for uint8 (N, C, H, W)."""
    return np.asarray(cells.encoder.encode(images).cpu().numpy())


def measure(data: ImageSet, cells: Cells, others: Cells, stored_run: str, found_run: str, pictures: int) -> str:
    """One line: the share of behaviours recognised. The store is chosen by ``cells``, read by ``others``."""
    stored_images, stored_said = distinct_valid(stored_run)
    images, said = distinct_valid(found_run)
    features = encoded(cells, stored_images)
    chosen = np.concatenate(
        [rows[spread_out(features[rows], pictures)] for rows in rows_of(stored_said, cells.assign(stored_images))]
    )
    stored_images, stored_said = stored_images[torch.from_numpy(chosen)], stored_said[chosen]
    real = torch.from_numpy(encoded(others, torch.from_numpy(data.images)))
    unit = float(torch.cat([torch.cdist(part, others.centroids).min(1).values for part in real.split(4096)]).median())
    distance, _ = nearest_known(encoded(others, images), said, encoded(others, stored_images), stored_said)
    here = others.assign(images)
    behaviours = rows_of(said, here)
    kinds = set(map(tuple, np.column_stack([stored_said, others.assign(stored_images)]).tolist()))
    pairs = set(map(tuple, stored_said.tolist()))

    def share(known: np.ndarray) -> str:
        return f"{np.mean([known[rows].mean() >= 0.5 for rows in behaviours]):.0%}"

    same_cell = np.array([(*labels, cell) in kinds for labels, cell in zip(said.tolist(), here.tolist(), strict=True)])
    same_pair = np.array([tuple(labels) in pairs for labels in said.tolist()])
    near = ", ".join(f"near {reach:g} {share(distance <= reach * unit)}" for reach in _REACHES)
    return f"{len(behaviours)} behaviours: labels {share(same_pair)}, same cell {share(same_cell)}, {near}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("pairs", nargs="+", metavar="STORED:FOUND")
    parser.add_argument("--pictures", type=int, default=CheckConfig().pictures)
    arguments = parser.parse_args()
    data = load(arguments.data)
    rows = np.sort(random_rows(len(data), round(0.8 * len(data))))
    part = replace(data, images=data.images[rows], labels=None if data.labels is None else data.labels[rows])
    cells, others = cell_store.prepare(data), cell_store.prepare(part)
    for pair in arguments.pairs:
        stored, found = pair.split(":")
        for name, read_by in (("same encoder", cells), ("encoder trained anew", others)):
            print(f"{stored} -> {found}, {name}: {measure(data, cells, read_by, stored, found, arguments.pictures)}")


if __name__ == "__main__":
    main()
