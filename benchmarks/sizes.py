"""Memory and time of every stage of a comparison on more photographs than the memory holds.

    python -m benchmarks.sizes photographs/ --images 22000
    python -m benchmarks.sizes photographs/ --images 22000 --models a.tflite b.tflite --budget 60s

Photographs are made up: JPEG files of 224 to 500 pixels a side, in ten classes that differ in colour and pattern, each
a function of its number, so that a folder that was left unfinished is gone on with; from the 20,001st on they are
copies. Without ``--models`` two small networks with inputs of 224 and 192 pixels learn the classes on a few of them.
The same comparison is then run twice in processes of their own, the first with an empty cache beside the photographs,
the second with what the first left there.

Of each stage, and until the search begins: seconds by the clock and of the processor; of each stage the highest memory
while it lasted, all of it and what is anonymous, that is not a file that is mapped; of the command and of all processes
that it starts together, since models from files compute in processes of their own. The last line of stdout is one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.process_tree import ProcessTree, processor_seconds
from benchmarks.quick import add_quick, trained_as_asked

CLASSES = 10
_SIDES = (224, 501)
_SCENE, _SCENES = 900, 6  # pixels a side; of each class
_DIFFERENT = 20_000  # photographs; those beyond are copies, which take as long to read
_LEARNED = 400  # photographs that the small networks learn on
_STEPS = 150


def photograph(number: int) -> Image.Image:
    """A made-up photograph: a part of a scene of its class, darker or brighter."""
    rng = np.random.default_rng(number)
    scene = _scene(number % CLASSES, int(rng.integers(_SCENES)))
    height, width = rng.integers(*_SIDES, size=2).tolist()
    top, left = int(rng.integers(scene.height - height + 1)), int(rng.integers(scene.width - width + 1))
    factor = rng.uniform(0.7, 1.2)
    part = scene.crop((left, top, left + width, top + height))
    return part.point([min(255, int(factor * level)) for level in range(256)] * 3)


@cache
def _scene(kind: int, number: int) -> Image.Image:
    """Light and colour that change slowly, stripes of the class, some discs, and noise."""
    rng = np.random.default_rng((kind, number))
    small = rng.integers(40, 216, (6, 6, 3)).astype(np.uint8)
    base = np.asarray(Image.fromarray(small).resize((_SCENE, _SCENE), Image.Resampling.BICUBIC), dtype=np.float32)
    down, across = np.mgrid[:_SCENE, :_SCENE].astype(np.float32)
    angle, period = np.pi * kind / CLASSES + rng.normal(0, 0.05), rng.uniform(18, 30)
    base[..., kind % 3] += 45 * np.sin((down * np.sin(angle) + across * np.cos(angle)) * 2 * np.pi / period)
    for _ in range(12):
        y, x, radius = rng.uniform(0, _SCENE), rng.uniform(0, _SCENE), rng.uniform(10, 50)
        base[(down - y) ** 2 + (across - x) ** 2 < radius**2] = rng.uniform(0, 255, 3)
    base += rng.integers(-12, 13, (_SCENE, _SCENE, 1))
    return Image.fromarray(base.clip(0, 255).astype(np.uint8))


def make_photographs(folder: Path, count: int) -> float:
    """Write those that are missing; returns how many MiB all files take."""
    for number in range(count):
        path = folder / f"class{number % CLASSES}" / f"{number:06}.jpg"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(".part")
            if number < _DIFFERENT:
                photograph(number).save(temporary, format="JPEG", quality=85)
            else:
                shutil.copyfile(path.with_name(f"{number % _DIFFERENT:06}.jpg"), temporary)
            os.replace(temporary, path)
    return sum(path.stat().st_size for path in folder.glob("*/*.jpg")) / 2**20


def make_networks(folder: Path, steps: int = _STEPS) -> list[str]:
    """Two small ONNX networks with inputs of 224 and 192 pixels, which learn the classes a little."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    paths = [folder / f"small{side}.onnx" for side in (224, 192)]
    if all(path.exists() for path in paths):
        return [str(path) for path in paths]
    folder.mkdir(parents=True, exist_ok=True)
    images = [np.asarray(photograph(number).resize((224, 224))) for number in range(_LEARNED)]
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 255
    labels = torch.arange(_LEARNED) % CLASSES
    for seed, (side, path) in enumerate(zip((224, 192), paths, strict=True)):
        torch.manual_seed(seed)
        net = nn.Sequential(
            nn.Conv2d(3, 12, 9, stride=4, padding=4),
            nn.BatchNorm2d(12),
            nn.ReLU(),
            nn.Conv2d(12, 24, 5, stride=2, padding=2),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(96, CLASSES),
        )
        shown = F.interpolate(pixels, size=(side, side), mode="bilinear", antialias=True)
        optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
        for _ in range(steps):
            rows = torch.randint(_LEARNED, (32,))
            optimiser.zero_grad()
            F.cross_entropy(net(shown[rows]), labels[rows]).backward()
            optimiser.step()
        torch.onnx.export(
            net.eval(),
            (torch.zeros(1, 3, side, side),),
            str(path),
            dynamo=False,
            dynamic_axes={"x": {0: "n"}},
            input_names=["x"],
        )
    return [str(path) for path in paths]


def compare_once(folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """One comparison in this process: the stages, and when the search began and had its first trigger."""
    begun, tree = time.monotonic(), ProcessTree()

    import diffgen
    from diffgen import events
    from diffgen.config import CompareConfig

    stages: list[dict[str, Any]] = []
    running: list[tuple[str, float, float]] = []
    found: dict[str, float] = {}

    def listen(event: events.Event) -> None:
        now = time.monotonic() - begun
        if isinstance(event, events.StageStarted):
            if not running:
                tree.reset()
            running.append((event.name, now, processor_seconds(os.getpid())))
            if event.name == "Searching for disagreements":
                found["search_begins_s"] = round(now, 1)
                found["search_begins_cpu"] = round(processor_seconds(os.getpid()), 1)
        elif isinstance(event, events.StageEnded):
            name, start, cpu = running.pop()
            tree.look()
            stages.append(
                {
                    "stage": name,
                    "seconds": round(now - start, 1),
                    "cpu": round(processor_seconds(os.getpid()) - cpu, 1),
                    "peak_mib": round(tree.peak.total),
                    "anonymous_mib": round(tree.peak.anonymous),
                    "own_mib": round(tree.peak.own),
                }
            )
        elif isinstance(event, events.TriggersFound) and event.count and "first_trigger_s" not in found:
            found["first_trigger_s"] = round(now, 1)
        elif isinstance(event, events.Message):
            print(f"  [{now:7.1f} s] {event.text}", file=sys.stderr)

    result = diffgen.compare(
        *asked.models,
        data=folder,
        config=trained_as_asked(CompareConfig(), quick=asked.quick),
        budget=asked.budget,
        resize=asked.resize,
        output=asked.only,
        force=True,
        events=listen,
    )
    return {
        **found,
        "seconds": round(time.monotonic() - begun, 1),
        "triggers": result.triggers,
        "behaviours": result.behaviours,
        "queries": result.queries,
        "peak_mib": max(each["peak_mib"] for each in stages),
        "anonymous_mib": max(each["anonymous_mib"] for each in stages),
        "cpu": round(processor_seconds(os.getpid()), 1),
        "stages": stages,
    }


def table(found: dict[str, Any]) -> str:
    """The stages of a comparison in Markdown."""
    lines = ["| stage | seconds | of the processor | peak MiB | of it anonymous |", "|---|---:|---:|---:|---:|"]
    for each in found["stages"]:
        row = (each["stage"], each["seconds"], each["cpu"], each["peak_mib"], each["anonymous_mib"])
        lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where photographs, networks, cache and runs lie")
    parser.add_argument("--images", type=int, default=22_000, help="photographs (default: 22,000)")
    parser.add_argument("--models", nargs=2, help="models to compare (default: two small networks that are made here)")
    parser.add_argument("--resize", help="what photographs are brought to (default: as the models say)")
    parser.add_argument("--budget", default="30s", help="of the search (default: 30s)")
    parser.add_argument("--steps", type=int, default=_STEPS, help="updates of the small networks")
    add_quick(parser)
    parser.add_argument("--only", type=Path, help=argparse.SUPPRESS)  # one comparison, in this process
    arguments = parser.parse_args()
    photographs = arguments.folder / "photographs"
    if arguments.only is not None:
        print(json.dumps(compare_once(photographs, arguments)))
        return
    begun = time.monotonic()
    files = make_photographs(photographs, arguments.images)
    print(f"{arguments.images:,} photographs, {files:,.0f} MiB of files ({time.monotonic() - begun:.0f} s).")
    models = arguments.models or make_networks(arguments.folder / "networks", arguments.steps)
    runs, me = {}, (sys.executable, "-m", "benchmarks.sizes")
    command = [*me, arguments.folder, "--models", *models, "--budget", arguments.budget]
    command += ["--resize", arguments.resize] if arguments.resize else []
    command += ["--quick"] if arguments.quick else []
    for name in ("first", "second"):
        done = subprocess.run(
            [*command, "--only", arguments.folder / f"run-{name}"],
            env={**os.environ, "DIFFGEN_CACHE": str(arguments.folder / "cache")},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        runs[name] = json.loads(done.stdout.splitlines()[-1])
        print(f"\n{name} run:\n\n{table(runs[name])}\n")
        print({key: value for key, value in runs[name].items() if key != "stages"})
    print(json.dumps({"images": arguments.images, "files_mib": round(files), **runs}))


if __name__ == "__main__":
    main()
