"""What it costs to ask models in processes of their own.

    python -m benchmarks.isolation
    python -m benchmarks.isolation --format export

The fixed networks of benchmarks.throughput, saved as TorchScript or by torch.export, are opened with and without
``--isolate``. Seconds to open two files are those of a process that has imported torch; with isolation the first file
waits for the server to start, and later ones do not. Then generations of the default search are timed in turn, one
without and one with isolation, in one sitting: ``isolated_over_own`` is the median over the rounds of images a second
with isolation over those without. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from pathlib import Path

# as the command line does; before torch is imported
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch

from benchmarks.fixed_networks import SHAPE, FixedNetworks, make_networks
from benchmarks.measured_search import MeasuredSearch, median
from diffgen.comparison.machine import resolve_batch_size
from diffgen.config import Isolate, replace
from diffgen.models import BlackBox
from diffgen.models import load as load_model
from diffgen.techniques import preset

_CPU = torch.device("cpu")


def save(networks: FixedNetworks, kind: str, form: str, folder: Path) -> list[Path]:
    """Both classifiers as files of a format."""
    files = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, network in zip("ab", networks.classifiers, strict=True):
            example = torch.zeros(2, *SHAPE[kind])
            files.append(folder / f"{name}.{'pt2' if form == 'export' else 'pt'}")
            if form == "export":
                shapes = ({0: torch.export.Dim("n")},)
                torch.export.save(torch.export.export(network, (example,), dynamic_shapes=shapes), files[-1])
            else:
                torch.jit.save(torch.jit.trace(network, example), str(files[-1]))
    return files


def opened(files: list[Path], isolate: Isolate) -> tuple[tuple[BlackBox, BlackBox], float]:
    """Both files as black boxes, prepared, and how many seconds that took."""
    started = time.perf_counter()
    boxes = [load_model(file, isolate=isolate, batch_size=resolve_batch_size(None, _CPU)) for file in files]
    seconds = time.perf_counter() - started
    return (boxes[0], boxes[1]), seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", choices=("lenet5", "resnet20"), default="lenet5")
    parser.add_argument("--format", choices=("torchscript", "export"), default="torchscript")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--archive", type=int, default=5_000, help="triggers in the archive")
    arguments = parser.parse_args()
    networks = make_networks(arguments.models, _CPU)
    config = preset("diffgan", "default").search
    result: dict[str, object] = {
        "models": arguments.models,
        "format": arguments.format,
        "threads": torch.get_num_threads(),
    }
    searches = {}
    with tempfile.TemporaryDirectory() as folder:
        files = save(networks, arguments.models, arguments.format, Path(folder))
        _, result["open_own_s"] = opened(files, "off")
        _, result["open_isolated_first_s"] = opened(files, "on")
        _, result["open_isolated_later_s"] = opened(files, "on")
        for isolate in ("off", "on"):
            boxes, _ = opened(files, "on" if isolate == "on" else "off")
            for box in boxes:
                box.prepare(networks.generator.draw(torch.randn(64, 100)).numpy())
            searches[isolate] = MeasuredSearch(
                replace(networks, black_boxes=boxes),
                config,
                archived=arguments.archive,
                batch_size=resolve_batch_size(None, _CPU),
                device=_CPU,
            )
            searches[isolate].generation()
        rates: dict[str, list[float]] = {"off": [], "on": []}
        for _ in range(arguments.rounds):
            for isolate, search in searches.items():
                cost, queries, _ = search.generation()
                rates[isolate].append(queries / cost.wall)
    result["own_per_s"] = round(median(rates["off"]), 1)
    result["isolated_per_s"] = round(median(rates["on"]), 1)
    shares = [on / off for on, off in zip(rates["on"], rates["off"], strict=True)]
    result["isolated_over_own"] = round(median(shares), 4)
    print(json.dumps({key: round(value, 4) if isinstance(value, float) else value for key, value in result.items()}))


if __name__ == "__main__":
    main()
