"""What each validity filter keeps and rejects, alone and together, and what it costs.

    python -m benchmarks.filters DATA OTHER [--run RUN] [--sheet PNG] [--hundred-thousand] > table.md

DATA and OTHER are folders with a training and a test split (MNIST, Fashion-MNIST; CIFAR-10 as folders of pictures). The
GAN and the filters know the *test* split of DATA only. Asked about are

* real images of the training split, which neither the GAN nor a filter has seen,
* those images wrecked in seven ways (benchmarks/wrecked.py; images of OTHER are brought to the size of DATA's),
* random pictures of the GAN,
* with --run: the triggers of a comparison on DATA:test.

The judge (benchmarks/judge.py) says which of them show something recognisable; no filter ever asks it. It was trained
on the training split, so that real images, and those derived from them, are no test of the judge.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace as fields_replaced
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from benchmarks.judge import judge_for
from benchmarks.quick import add_quick, trained_as_asked
from benchmarks.wrecked import KINDS, wrecked
from diffgen.comparison.filter_chain import make_pipeline
from diffgen.comparison.jury import RealLabels, prepare_jury
from diffgen.config import FILTER_PRESETS, CompareConfig, FilterConfig, replace
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features import cells
from diffgen.filters import FilterPipeline
from diffgen.runs.folder import RunFolder
from diffgen.sampling import random_rows
from diffgen.sources.base import FamilyContext, ImageSource
from diffgen.sources.gan import prepare_gan
from diffgen.sources.space import random_genes
from diffgen.types import ImageSet, UInt8Array

_CPU = torch.device("cpu")
_REAL, _WRECKED, _GENERATED, _TRIGGERS = 2000, 500, 2000, 2000
_SHEET = 100
_ALONE = ("discriminator", "reconstruction", "ssim", "neighbors", "jury")


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("other")
    parser.add_argument("--run", help="run folder of a comparison on DATA:test")
    parser.add_argument("--sheet", type=Path, help="draw 100 random triggers of the run that the filters accept")
    parser.add_argument("--hundred-thousand", action="store_true", help="also time 100,000 images against 10,000")
    add_quick(parser)
    arguments = parser.parse_args(argv)

    training, test = load(f"{arguments.data}:train"), load(f"{arguments.data}:test")
    config = trained_as_asked(CompareConfig(), quick=arguments.quick)
    encoder = cells.prepare(test).encoder
    context = FamilyContext(encoder, _CPU, Progress())
    domain = prepare_gan(DataSplit(test, config.split), config.gan, context)
    other = _like(load(f"{arguments.other}:test", resize=training.image_shape[1]).images, training)
    sets = _image_sets(training, other, domain, arguments.run, part=10 if arguments.quick else 1)
    judge = judge_for(training, None)
    recognised = {name: judge.recognised(images).numpy() for name, images in sets.items()}
    chains = {
        **{name: FilterConfig(names=(name,)) for name in _ALONE},
        "preset paper": FILTER_PRESETS["paper"],
        "preset default": FilterConfig(names=("neighbors", "jury", "ssim")),
        "default of version 0.1": FilterConfig(names=("discriminator", "reconstruction", "ssim"), false_alarm=0.05),
        "reconstruction, ssim, neighbors": FilterConfig(names=("reconstruction", "ssim", "neighbors")),
        "all": FilterConfig(names=_ALONE),
    }
    pipelines = {name: _pipeline(test, domain, config, settings) for name, settings in chains.items()}
    kept = {
        name: {kind: pipeline.apply(images).accepted for kind, images in sets.items()}
        for name, pipeline in pipelines.items()
    }
    _print_rejected(sets, kept)
    _print_judged(recognised, kept)
    _print_cost({name: pipelines[name] for name in (*_ALONE, "preset default")}, sets["random pictures of the GAN"])
    if arguments.hundred_thousand:
        _print_hundred_thousand(test, domain, config)
    if arguments.sheet and arguments.run:
        accepted = sets["triggers"][torch.from_numpy(kept["preset default"]["triggers"])].numpy()
        rows = random_rows(len(accepted), _SHEET)
        _draw_sheet(accepted[rows], arguments.sheet)


def _like(images: UInt8Array, data: ImageSet) -> UInt8Array:
    """Images with as many channels as those of ``data``."""
    channels = data.image_shape[0]
    if images.shape[1] == channels:
        return images
    grey = np.rint(images.mean(axis=1, keepdims=True)).astype(np.uint8)
    return np.repeat(grey, channels, axis=1)


def _image_sets(
    training: ImageSet, other: UInt8Array, domain: ImageSource, run: str | None, *, part: int = 1
) -> dict[str, torch.Tensor]:
    # at random: a folder of pictures is in order of class
    real = training.images[random_rows(len(training), _REAL // part)]
    assert domain.source is not None
    made = random_genes(domain.source.space, _GENERATED // part, torch.Generator().manual_seed(1))
    sets = {"real": real, **wrecked(real[: _WRECKED // part], other, seed=0)}
    found = {name: torch.from_numpy(images) for name, images in sets.items()}
    found["random pictures of the GAN"] = _generate(domain, made)
    if run is not None:
        images = RunFolder.open(run).read_triggers().images
        rows = random_rows(len(images), _TRIGGERS // part)
        found["triggers"] = torch.from_numpy(images[np.sort(rows)])
    return found


def _generate(domain: ImageSource, latents: torch.Tensor) -> torch.Tensor:
    assert domain.source is not None
    return torch.cat([domain.source.draw(batch) for batch in latents.split(500)])


def _pipeline(data: ImageSet, domain: ImageSource, config: CompareConfig, settings: FilterConfig) -> FilterPipeline:
    settings = fields_replaced(settings, filters={**config.filters.filters, **settings.filters})
    split, progress = DataSplit(data, config.split), Progress()
    assert data.labels is not None
    jury = prepare_jury(split, RealLabels(data.labels, "given"), config, device=_CPU, progress=progress)
    config = replace(config, filters=settings)
    return make_pipeline(
        split,
        domain.scorer,
        config,
        recogniser=jury.recogniser,
        batch_size=256,
        device=_CPU,
        progress=progress,
    )


def _print_rejected(sets: dict[str, torch.Tensor], kept: dict[str, dict[str, np.ndarray]]) -> None:
    print("Share rejected, with 2 % of held-out real images allowed to all filters of a row together:\n")
    spoilt = [kind for kind in KINDS if kind != "blend of two"]
    print("| filter | " + " | ".join(sets) + " | wrecked without blends |")
    print("|---|" + "---:|" * (len(sets) + 1))
    for name, by_kind in kept.items():
        shares = [by_kind[kind] for kind in sets] + [np.concatenate([by_kind[kind] for kind in spoilt])]
        print(f"| {name} | " + " | ".join(f"{(~accepted).mean():.1%}" for accepted in shares) + " |")
    print()


def _print_judged(recognised: dict[str, np.ndarray], kept: dict[str, dict[str, np.ndarray]]) -> None:
    kinds = [kind for kind in ("random pictures of the GAN", "triggers") if kind in recognised]
    mixed = [kind for kind in recognised if kind != "triggers"]
    print("By the judge: precision is the share of the accepted that it recognises, recall the share of the recognised")
    print("that is accepted.\n")
    for kind in kinds:
        print(f"{kind}: it recognises {recognised[kind].mean():.1%}\n")
        print("| filter | accepted | precision | recall | recognised among the rejected |\n|---|---:|---:|---:|---:|")
        for name, by_kind in kept.items():
            print(f"| {name} | {_judged(by_kind[kind], recognised[kind])} |")
        print()
    print("real, wrecked and generated images together:\n")
    print("| filter | accepted | precision | recall | recognised among the rejected |\n|---|---:|---:|---:|---:|")
    for name, by_kind in kept.items():
        accepted = np.concatenate([by_kind[kind] for kind in mixed])
        print(f"| {name} | {_judged(accepted, np.concatenate([recognised[kind] for kind in mixed]))} |")
    print("\nShare of each kind that the judge recognises: ", end="")
    print(", ".join(f"{kind} {flags.mean():.1%}" for kind, flags in recognised.items()) + ".\n")


def _judged(accepted: np.ndarray, recognised: np.ndarray) -> str:
    def share(flags: np.ndarray) -> str:
        return f"{flags.mean():.1%}" if len(flags) else "-"

    figures = [share(accepted), share(recognised[accepted]), share(accepted[recognised]), share(recognised[~accepted])]
    return " | ".join(figures)


def _print_cost(pipelines: dict[str, FilterPipeline], images: torch.Tensor) -> None:
    print("Seconds of processor time per 1,000 images that every filter of the row is asked about:\n")
    print("| filter | s |\n|---|---:|")
    for name, pipeline in pipelines.items():
        started = time.process_time()
        pipeline.scores(images[:1000])
        print(f"| {name} | {time.process_time() - started:.2f} |")
    print()


def _print_hundred_thousand(data: ImageSet, domain: ImageSource, config: CompareConfig) -> None:
    """As many generated pictures, against all real images of the test files."""
    assert domain.source is not None
    latents = random_genes(domain.source.space, 100_000, torch.Generator().manual_seed(2))
    images = _generate(domain, latents)
    pipeline, against = _pipeline(data, domain, config, FilterConfig()), len(DataSplit(data, config.split).reference)
    processor, wall = time.process_time(), time.monotonic()
    pipeline.apply(images)
    print(
        f"100,000 pictures of the GAN against {against:,} real images, preset default: "
        f"{time.process_time() - processor:.0f} s of processor time, {time.monotonic() - wall:.0f} s on the clock with "
        f"{torch.get_num_threads()} thread(s)."
    )


def _draw_sheet(images: UInt8Array, path: Path) -> None:
    """Ten a row, three times as large, with a line between them."""
    _, channels, height, width = images.shape
    sheet = np.full((channels, 10 * (height + 2), 10 * (width + 2)), 96, dtype=np.uint8)
    for index, image in enumerate(images):
        row, column = divmod(index, 10)
        top, left = row * (height + 2), column * (width + 2)
        sheet[:, top : top + height, left : left + width] = image
    picture = Image.fromarray(sheet[0] if channels == 1 else sheet.transpose(1, 2, 0))
    picture.resize((picture.width * 3, picture.height * 3), Image.Resampling.NEAREST).save(path)


if __name__ == "__main__":
    main()
