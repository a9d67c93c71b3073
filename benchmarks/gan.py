"""What the GANs of the three schedules, and single parts of them, are worth to the judge.

    python -m benchmarks.gan DATA OUT [--variant NAME ...] [--seeds N]

DATA is a folder or a zip with a training and a test split, such as that of MNIST. Trains a GAN on the test images for
each variant and seed, measures 10,000 of its images with benchmarks/judge.py, and adds a line to OUT/gan.jsonl. What is
in there already is not done again. The variants "quick", "default" and "thorough" are the schedules; the others change
one thing each in the quick one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torchvision.utils import save_image

from benchmarks.judge import GENERATED_IMAGES, judge_for, measure
from benchmarks.quick import add_quick, hardly_trained
from diffgen.cli.progress import TerminalListener
from diffgen.config import GanConfig, SplitConfig, replace
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features import cells
from diffgen.gan_training import networks, trainer
from diffgen.sources import gan as gan_loader
from diffgen.sources.base import FamilyContext, Source
from diffgen.sources.gan import train_and_save
from diffgen.sources.space import random_genes
from diffgen.types import ImageSet

QUICK = GanConfig(schedule="quick")
VARIANTS = {
    "default": GanConfig(),
    "quick": QUICK,
    "thorough": GanConfig(schedule="thorough"),
    "not conditional": replace(QUICK, conditional=False),
    "no transformations": replace(QUICK, augment=False),
    # without them the images are fewer, and so are the updates of a schedule; as many as "quick" has for MNIST
    "no transformations, 1,055 updates": replace(QUICK, augment=False, steps=1_055),
    "no moving average": replace(QUICK, ema_decay=0.0),
    "slower generator": replace(QUICK, learning_rate_generator=2e-4),
    "float32": replace(QUICK, bfloat16=False),
    "last step, not the best": replace(QUICK, monitor_checks=0),
    "no spectral norm": QUICK,
    "logistic loss": QUICK,
    "rates that fall over the second half": QUICK,
}
# variant -> what it puts in the place of what: no user needs these parts to be settings
REPLACED: dict[str, list[tuple[ModuleType, str, object]]] = {
    "no spectral norm": [(networks, "spectral_norm", lambda layer: layer)],
    "logistic loss": [
        (trainer, "discriminator_loss", lambda real, fake: F.softplus(-real).mean() + F.softplus(fake).mean()),
        (trainer, "generator_loss", lambda fake: F.softplus(-fake).mean()),
    ],
    "rates that fall over the second half": [(trainer, "_DECAY_AFTER", 0)],
}


def draw(generator: Source, count: int, seed: int) -> torch.Tensor:
    """Random images, uint8 (count, C, H, W)."""
    latents = random_genes(generator.space, count, torch.Generator().manual_seed(seed))
    return torch.cat([generator.draw(part).cpu() for part in latents.split(500)])


def run(name: str, config: GanConfig, training: ImageSet, test: ImageSet, out: Path) -> dict[str, Any]:
    """Train, measure, keep the GAN and a sheet of its images in ``out``."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    judge = judge_for(training, test)
    file = out / f"{name.replace(' ', '-').replace(',', '')}-{config.seed}.safetensors"
    progress = Progress(TerminalListener())
    encoder = cells.prepare(test, device=device, progress=progress).encoder
    split = DataSplit(test, SplitConfig())
    wall, processor = time.monotonic(), time.process_time()
    with ExitStack() as changed:
        for module, attribute, instead in REPLACED.get(name, []):
            changed.enter_context(mock.patch.object(module, attribute, instead))
        trained = train_and_save(split, config, FamilyContext(encoder, device, progress), file)
        generator, _, _ = gan_loader.load(file, device=device)
    wall, processor = time.monotonic() - wall, time.process_time() - processor
    verdict = measure(judge, test, draw(generator, GENERATED_IMAGES, seed=1), split.config)
    save_image(_sheet(generator) / 255.0, file.with_suffix(".png"), nrow=10)
    return {
        "variant": name,
        "seed": config.seed,
        "wall_s": wall,
        "processor_s": processor,
        "threads": torch.get_num_threads(),
        "updates": trained.steps,
        "kept_after": trained.kept_step,
        "readings": [reading.as_dict() for reading in trained.readings],
        **asdict(verdict),
    }


def _sheet(generator: Source) -> torch.Tensor:
    latents = random_genes(generator.space, 100, torch.Generator().manual_seed(2))
    if generator.space.categories:
        latents[:, -1] = torch.arange(100) // 10 % generator.space.categories[0]
    return generator.draw(latents).cpu()


def table(lines: list[dict[str, Any]]) -> str:
    """One row for each variant: means over the seeds, and the smallest and largest of the two fractions."""
    rows = [
        "| variant | seeds | updates | kept after | recognised | coverage, trained on | coverage, held out "
        "| of real images: recognised | coverage, trained on | coverage, held out "
        "| worst class covered | classes' shares | wall s | CPU s |",
        "|---" * 14 + "|",
    ]
    for name in dict.fromkeys(str(line["variant"]) for line in lines):
        some = [line for line in lines if line["variant"] == name]

        def mean(key: str, some: list[dict[str, Any]] = some) -> float:
            return statistics.fmean(float(line[key]) for line in some)

        def span(key: str, some: list[dict[str, Any]] = some) -> str:
            values = [float(line[key]) for line in some]
            return f"{statistics.fmean(values):.3f}" + (
                f" ({min(values):.3f} to {max(values):.3f})" if values[1:] else ""
            )

        worst = statistics.fmean(min(line["class_coverage"]) for line in some)
        shares = [share for line in some for share in line["class_shares"]]
        rows.append(
            f"| {name} | {len(some)} | {mean('updates'):,.0f} | {mean('kept_after'):,.0f} | {mean('recognised'):.3f} "
            f"| {mean('coverage_trained'):.3f} | {mean('coverage_held_out'):.3f} | {span('recognised_fraction')} "
            f"| {span('coverage_trained_fraction')} | {span('coverage_held_out_fraction')} | {worst:.3f} "
            f"| {min(shares):.1%} to {max(shares):.1%} | {mean('wall_s'):.0f} | {mean('processor_s'):.0f} |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="folder with a training and a test split")
    parser.add_argument("out", type=Path)
    parser.add_argument("--variant", action="append", choices=list(VARIANTS), help="may be given several times; all")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--resize", type=int)
    add_quick(parser)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    log = arguments.out / "gan.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    # what an older version measured, on the images that the GAN was trained on, is measured anew
    lines = [line for line in lines if "coverage_held_out" in line]
    done = {(line["variant"], line["seed"]) for line in lines}
    training = load(f"{arguments.data}:train", resize=arguments.resize)
    test = load(f"{arguments.data}:test", resize=arguments.resize)
    for name in arguments.variant or VARIANTS:
        for seed in range(arguments.seeds):
            if (name, seed) not in done:
                config = replace(VARIANTS[name], seed=seed)
                if arguments.quick:
                    config = hardly_trained(config)
                lines.append(run(name, config, training, test, arguments.out))
                with log.open("a") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    print(table(lines))


if __name__ == "__main__":
    main()
