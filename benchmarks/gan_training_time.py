"""How the time of a GAN's training grows with the number of its images: figure 6 of the paper.

    python -m benchmarks.gan_training_time DATA [--sizes 60000 70000 80000 90000 100000]

DATA is a folder or a zip with a training split of at least a sixth of the largest size: n images are n / 6 real ones
and their five transformations. Each size is trained for one pass over its images, the collapse guard switched off,
transformation included. Prints the seconds and the line fitted to them, and draws benchmarks/results/gan-time.png.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.stats import linregress

from diffgen.config import GanConfig, replace
from diffgen.data import load
from diffgen.gan_training.trainer import train
from diffgen.sampling import random_rows

RESULTS = Path(__file__).parent / "results"


def seconds_for(images: torch.Tensor, labels: torch.Tensor) -> tuple[float, float, int]:
    """Wall-clock and processor seconds of one pass, and its updates."""
    config = GanConfig()
    config = replace(config, steps=math.ceil(6 * len(images) / config.batch_size), monitor_checks=0)
    wall, processor = time.monotonic(), time.process_time()
    trained = train(images, config, labels=labels)
    return time.monotonic() - wall, time.process_time() - processor, trained.steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for gan-time.png (default: %(default)s)")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(range(60_000, 100_001, 10_000)))
    arguments = parser.parse_args()
    data = load(f"{arguments.data}:train")
    assert data.labels is not None
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    print("| images | updates | wall s | CPU s |\n|--:|--:|--:|--:|")
    sizes, seconds = [], []
    for size in arguments.sizes:
        rows = random_rows(len(data), size // 6)
        images, labels = torch.from_numpy(data.images[rows]), torch.from_numpy(data.labels[rows])
        wall, processor, steps = seconds_for(images, labels)
        sizes.append(6 * len(rows))
        seconds.append(processor)
        print(f"| {sizes[-1]:,} | {steps:,} | {wall:.1f} | {processor:.1f} |", flush=True)
    line = linregress(sizes, seconds)
    each = 1000 * line.slope
    print(f"\nCPU seconds = {line.intercept:.1f} + {each:.3f} for each 1,000 images; R² = {line.rvalue**2:.4f}")
    figure, axes = plt.subplots(figsize=(6, 4))
    axes.plot(sizes, seconds, "o", label="measured")
    axes.plot(sizes, line.intercept + line.slope * np.array(sizes), label=f"fitted, R² = {line.rvalue**2:.4f}")
    axes.set(xlabel="training images", ylabel="CPU seconds of one pass", xlim=(0, None), ylim=(0, None))
    axes.legend()
    arguments.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(arguments.out / "gan-time.png", dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
