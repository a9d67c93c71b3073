"""What families of sources find, as pictures: the seed, the seed drawn again, and what was found from it.

    python -m benchmarks.family_sheets OUT RUN [RUN ...]

RUN is the folder of a run over a family that encodes: of a technique that searches from encoded images (``--technique
latte``, ``argus``, ``giftbench``, ``sinvad``) or, over the source ``denoiser``, of the default one. OUT gets a sheet
for each run, named after its folder: ten distinct valid finds at random, of those that the jury recognises where the
run has one, each in a column, under its seed and what the run's source draws of that seed's genes. The seeds are real
images, so that sheets of data that are not one's own are to be looked at and not published. Prints how many finds each
sheet was drawn from.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torchvision.utils import save_image

from benchmarks.recognised_cells import jury_says
from diffgen.comparison.machine import resolve_device
from diffgen.comparison.opened_run import OpenedRun
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features import cells
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import TriggerTable
from diffgen.sources.base import EncodingSource, FamilyContext
from diffgen.types import Int64Array

_COLUMNS = 10
_SIDE = 96  # pixels that a picture has at least


def chosen(table: TriggerTable) -> tuple[Int64Array, int]:
    """int64 (n,), at most ten rows, and of how many: of what the jury recognises, where there is one."""
    says = jury_says(table)
    rows = np.flatnonzero(table.distinct if says is None else table.distinct & says)
    return np.random.default_rng(0).permutation(rows)[:_COLUMNS], len(rows)


def sheet(run: OpenedRun, finds: TriggerTable) -> torch.Tensor:
    """uint8 (3 n, C, H, W): the seeds of n finds, what is drawn of their genes, and the finds."""
    assert finds.seeds is not None
    data, device = run.data(None, purpose="draw its seeds", progress=Progress()), resolve_device("cpu")
    split = DataSplit(data, run.config.split)
    encoder = cells.prepare(data, device=device, progress=Progress()).encoder
    source = run.source(split, FamilyContext(encoder, device, Progress(), encoding=True)).source
    assert isinstance(source, EncodingSource)
    images = torch.from_numpy(data.images[finds.seeds])
    labels = None if data.labels is None else torch.from_numpy(data.labels[finds.seeds])
    again = source.draw(source.encode(images, labels)).cpu()
    return torch.cat([images, again, torch.from_numpy(finds.images)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("run", type=Path, nargs="+")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in arguments.run:
        folder = RunFolder.open(path)
        triggers = folder.read_judged()
        rows, among = chosen(triggers)
        if len(rows):
            pictures = sheet(OpenedRun(folder, "cpu"), triggers[rows])
            times = max(1, _SIDE // pictures.shape[-1])
            large = pictures.repeat_interleave(times, dim=2).repeat_interleave(times, dim=3)
            save_image(large / 255, arguments.out / f"{path.name}.png", nrow=len(rows))
        print(f"{path.name}: {len(rows)} of {among:,}")


if __name__ == "__main__":
    main()
