"""Memory and time of every stage of a comparison on more photographs than the memory holds.

    python -m benchmarks.sizes photographs/ --images 22000
    python -m benchmarks.sizes photographs/ --images 22000 --models a.tflite b.tflite --budget 60s

Photographs are made up: JPEG files of 224 to 500 pixels a side, in ten classes that differ in colour and pattern, each
a function of its number, so that a folder that was left unfinished is gone on with. Without ``--models`` two small
networks with inputs of 224 and 192 pixels learn the classes on a few of them. The same comparison is then run twice in
processes of their own, the first with an empty cache beside the photographs, the second with what the first left there.

Of each stage: seconds by the clock and of the processor of the process (models from files compute in others), and the
highest memory of the process while it lasted, all of it and what is anonymous, that is not a file that is mapped. The
last line of stdout is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CLASSES = 10
_SIDES = (224, 501)
_LOOK = 0.05  # seconds between two looks at the memory
_LEARNED = 400  # photographs that the small networks learn on
_STEPS = 150


def photograph(number: int) -> Image.Image:
    """A made-up photograph: light and colour that change slowly, stripes of the class, some discs, and noise."""
    rng = np.random.default_rng(number)
    kind = number % CLASSES
    height, width = rng.integers(*_SIDES, size=2).tolist()
    small = rng.integers(40, 216, (4, 4, 3)).astype(np.uint8)
    base = np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC), dtype=np.float32)
    down, across = np.mgrid[:height, :width].astype(np.float32)
    angle = np.pi * kind / CLASSES + rng.normal(0, 0.05)
    waves = np.sin((down * np.sin(angle) + across * np.cos(angle)) * 2 * np.pi / rng.uniform(18, 30))
    base[..., kind % 3] += 45 * waves
    for _ in range(3):
        y, x, radius = rng.uniform(0, height), rng.uniform(0, width), rng.uniform(10, 50)
        base[(down - y) ** 2 + (across - x) ** 2 < radius**2] = rng.uniform(0, 255, 3)
    base += rng.integers(-12, 13, (height, width, 1))
    return Image.fromarray(base.clip(0, 255).astype(np.uint8))


def make_photographs(folder: Path, count: int) -> float:
    """Write those that are missing; returns how many MiB all files take."""
    for number in range(count):
        path = folder / f"class{number % CLASSES}" / f"{number:06}.jpg"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(".part")
            photograph(number).save(temporary, format="JPEG", quality=85)
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


class Memory:
    """Watches the memory of this process from another thread.

    Attributes:
        peak: highest since the last :meth:`reset`: all, and anonymous memory, in MiB.
    """

    def __init__(self) -> None:
        self.peak = [0.0, 0.0]
        threading.Thread(target=self._watch, daemon=True).start()

    def reset(self) -> None:
        self.peak = [0.0, 0.0]
        self.look()

    def look(self) -> None:
        values = dict.fromkeys(("VmRSS", "RssAnon"), 0.0)
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name in values:
                    values[name] = int(rest.split()[0]) / 1024
        self.peak = [max(old, new) for old, new in zip(self.peak, values.values(), strict=True)]

    def _watch(self) -> None:
        while True:
            self.look()
            time.sleep(_LOOK)


def compare_once(folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """One comparison in this process: the stages, and when the search began and had its first trigger."""
    begun, memory = time.monotonic(), Memory()

    import diffgen
    from diffgen import events

    stages: list[dict[str, Any]] = []
    running: list[tuple[str, float, float]] = []
    found: dict[str, float] = {}

    def listen(event: events.Event) -> None:
        now = time.monotonic() - begun
        if isinstance(event, events.StageStarted):
            if not running:
                memory.reset()
            running.append((event.name, now, time.process_time()))
            if event.name == "Searching for disagreements":
                found["search_begins_s"] = round(now, 1)
        elif isinstance(event, events.StageEnded):
            name, start, cpu = running.pop()
            memory.look()
            stages.append(
                {
                    "stage": name,
                    "seconds": round(now - start, 1),
                    "cpu": round(time.process_time() - cpu, 1),
                    "peak_mib": round(memory.peak[0]),
                    "anonymous_mib": round(memory.peak[1]),
                }
            )
        elif isinstance(event, events.TriggersFound) and event.count and "first_trigger_s" not in found:
            found["first_trigger_s"] = round(now, 1)
        elif isinstance(event, events.Message):
            print(f"  [{now:7.1f} s] {event.text}", file=sys.stderr)

    result = diffgen.compare(
        *asked.models,
        data=folder,
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
        "stages": stages,
    }


def table(found: dict[str, Any]) -> str:
    """The stages of a comparison in Markdown."""
    lines = ["| stage | seconds | of the processor | peak MiB | of it anonymous |", "|---|---|---|---|---|"]
    for each in found["stages"]:
        row = (each["stage"], each["seconds"], each["cpu"], each["peak_mib"], each["anonymous_mib"])
        lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join(lines)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where photographs, networks, cache and runs lie")
    parser.add_argument("--images", type=int, default=22_000, help="photographs (default: 22,000)")
    parser.add_argument("--models", nargs=2, help="models to compare (default: two small networks that are made here)")
    parser.add_argument("--resize", help="what photographs are brought to (default: as the models say)")
    parser.add_argument("--budget", default="30s", help="of the search (default: 30s)")
    parser.add_argument("--steps", type=int, default=_STEPS, help="updates of the small networks")
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
