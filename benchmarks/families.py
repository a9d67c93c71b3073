"""What the families of sources are worth to the judge: images drawn again, and images drawn at random.

    python -m benchmarks.families TRAINING OUT [--test TEST] [--family NAME ...] [--set NAME=VALUE ...] [--redrawn]

TRAINING is a folder with a training and a test split, such as that of MNIST, or a file of the training images. Each
family is trained on the test images but for those that the split holds out, as in benchmarks/gan.py, so that the judge
(benchmarks/judge.py), which knows the training images alone, has seen none of them. Then the held-out images are
encoded and drawn again: how near each comes to itself, and what share of them the judge still recognises as the class
that they were labelled with, beside that share of the images themselves. 10,000 random images are measured as those of
a GAN. OUT gets a line in training.jsonl and one in families.jsonl, and a sheet: in each row a held-out image, what is
drawn from its genes, neighbours of these genes, the way to the next row's, and a random image. What is in there already
is not done again; with --train-only no judge is needed, with --redrawn random images are left out: most of the work.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

import torch
from torchvision.utils import save_image

from benchmarks.judge import GENERATED_IMAGES, Judge, judge_for, measure
from diffgen.cli.progress import TerminalListener
from diffgen.config import CompareConfig, SplitConfig, applied
from diffgen.config.layers import nested
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features import cells
from diffgen.metrics.ssim import structural_similarity
from diffgen.sources.base import EncodingSource, FamilyContext, ImageSource
from diffgen.sources.registry import SOURCES, family_named
from diffgen.sources.space import random_genes
from diffgen.types import ImageSet

ENCODING = [name for name, each in SOURCES.own().items() if "encoder" in each().gives(CompareConfig())]
_OF_RANDOM = ("recognised_fraction", "coverage_trained_fraction", "coverage_held_out_fraction")
_ROWS = 10  # of a sheet
_NEAR = 0.1  # of the spread of random genes: how far neighbours on a sheet are from what they are neighbours of


def prepared(family: str, config: CompareConfig, test: ImageSet) -> tuple[ImageSource, dict[str, object]]:
    """The source of a family, trained now or found in the cache, and what that cost."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    progress = Progress(TerminalListener())
    # the GAN alone is watched with it; what it costs is not the GAN's
    encoder = cells.prepare(test, device=device, progress=progress).encoder if family == "gan" else _Unused()
    wall, processor = time.monotonic(), time.process_time()
    context = FamilyContext(encoder, device, progress, encoding=True)
    made = family_named(family).prepare(DataSplit(test, SplitConfig()), config, context)
    wall, processor = time.monotonic() - wall, time.process_time() - processor
    return made, {"wall_s": wall, "processor_s": processor, "threads": torch.get_num_threads()}


class _Unused:
    """In place of the encoder, for families that look at none."""

    name = "none"

    def encode(self, images: torch.Tensor, *, batch_size: int = 64) -> torch.Tensor:
        raise AssertionError("this family has no use for the encoder")


def run(
    family: str,
    config: CompareConfig,
    judge: Judge,
    test: ImageSet,
    out: Path,
    *,
    redrawn_alone: bool = False,
) -> dict[str, object]:
    """Measure a family, and leave a sheet in ``out``."""
    made, _ = prepared(family, config, test)
    source, split = made.source, DataSplit(test, SplitConfig())
    assert isinstance(source, EncodingSource) and split.labels is not None
    labels = split.labels[1]
    started = time.process_time()
    genes = torch.cat(
        [source.encode(images, own) for images, own in zip(split.held_out.split(500), labels.split(500), strict=True)]
    )
    encoding = time.process_time() - started
    started = time.process_time()
    again = source.draw(genes).cpu()
    drawing = time.process_time() - started
    random = random_genes(source.space, GENERATED_IMAGES, torch.Generator().manual_seed(1))
    save_image(sheet(source, split.held_out, genes, random) / 255, out / f"{family}.png", nrow=9)
    return {
        "family": family,
        "settings": config.source.families.get(family, {}),
        "facts": made.facts,
        "ms_to_encode": 1000 * encoding / len(labels),
        "ms_to_draw": 1000 * drawing / len(labels),
        "genes": source.space.length,
        **redrawn(judge, split.held_out, again, labels),
        **({} if redrawn_alone else _random(judge, test, source, random, split.config)),
    }


def _random(
    judge: Judge, test: ImageSet, source: EncodingSource, genes: torch.Tensor, config: SplitConfig
) -> dict[str, object]:
    drawn = torch.cat([source.draw(part).cpu() for part in genes.split(500)])
    return asdict(measure(judge, test, drawn, config))


def redrawn(judge: Judge, images: torch.Tensor, again: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    """How like themselves images uint8 (N, C, H, W) are when drawn again.

    An image counts as recognised where the judge recognises it as the class of its label, int64 (N,).
    """
    error = (images.float() - again.float()).square().flatten(1).mean(dim=1)
    shares = []
    for each in (images, again):
        recognised, named = judge.verdict(each)
        shares.append(float((recognised & (named == labels)).float().mean()))
    return {
        "psnr": float(10 * torch.log10(255**2 / error.clamp(min=1e-3)).mean()),
        "ssim": float(structural_similarity(images, again).mean()),
        "named": shares[0],
        "named_again": shares[1],
        "named_fraction": shares[1] / max(shares[0], 1e-9),
    }


def sheet(source: EncodingSource, images: torch.Tensor, genes: torch.Tensor, random: torch.Tensor) -> torch.Tensor:
    """uint8 (90, C, H, W), 9 a row: image, drawn again, 3 neighbours, 3 on the way to the next row's, a random one."""
    rows = torch.linspace(0, len(images) - 2, _ROWS).long()
    continuous = source.space.continuous
    spread = random[:, :continuous].std(dim=0)
    rng = torch.Generator().manual_seed(3)
    shown = []
    for number, row in enumerate(rows.tolist()):
        near = genes[row].repeat(3, 1)
        near[:, :continuous] += _NEAR * spread * torch.randn(3, continuous, generator=rng)
        share = torch.tensor([[0.25], [0.5], [0.75]])
        way = source.space.interpolate(genes[row].expand(3, -1), genes[row + 1].expand(3, -1), share)
        parts = torch.cat([genes[row][None], near, way, random[number][None]])
        shown += [images[row][None], source.draw(parts).cpu()]
    return torch.cat(shown)


class Lines:
    """A file of JSON lines, one for each family with its settings.

    Args:
        path: may not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def has(self, line: dict[str, object]) -> bool:
        """Whether there is one of the same family and settings."""
        return _key(line) in map(_key, self.lines)

    def add(self, line: dict[str, object]) -> None:
        """Write one at the end."""
        self.lines.append(line)
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def _key(line: dict[str, object]) -> str:
    return json.dumps([line["family"], line["settings"]], sort_keys=True)


def table(lines: list[dict[str, object]], trainings: list[dict[str, object]]) -> str:
    """One row for each family."""
    # the first: later ones found it there
    cost = {_key(each): f"{each['processor_s']:.0f}" for each in reversed(trainings)}
    rows = [
        "| family | genes | training, CPU s | to encode, ms | to draw, ms | PSNR | SSIM | real recognised "
        "| drawn again recognised | of real | random recognised, of real | covered, of real "
        "| held out covered, of real |",
        "|---" * 13 + "|",
    ]
    for line in lines:
        changed = ", ".join(f"{name} {value}" for name, value in line["settings"].items())  # type: ignore[attr-defined]
        rows.append(
            f"| {line['family']}{f' ({changed})' if changed else ''} | {line['genes']} | {cost.get(_key(line), '')} "
            f"| {line['ms_to_encode']:.2f} | {line['ms_to_draw']:.2f} | {line['psnr']:.1f} | {line['ssim']:.3f} "
            f"| {line['named']:.3f} | {line['named_again']:.3f} | **{line['named_fraction']:.3f}** "
            f"| {' | '.join(f'{line[name]:.3f}' if name in line else '' for name in _OF_RANDOM)} |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("training", help="folder with a training and a test split, or the training images alone")
    parser.add_argument("out", type=Path)
    parser.add_argument("--test", help="the test images, where TRAINING is a file of the training images alone")
    parser.add_argument("--family", action="append", choices=ENCODING, help="may be given several times; all")
    parser.add_argument("--train-only", action="store_true", help="train what is missing, and measure nothing")
    parser.add_argument("--redrawn", action="store_true", help="measure no random images")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="source.vae.steps=100")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    alone = arguments.test is not None
    training = load(arguments.training if alone else f"{arguments.training}:train")
    test = load(arguments.test if alone else f"{arguments.training}:test")
    given = nested({name: json.loads(value) for name, _, value in (each.partition("=") for each in arguments.set)})
    config = applied(CompareConfig(), given)
    measured, trained = (Lines(arguments.out / f"{name}.jsonl") for name in ("families", "training"))
    for family in arguments.family or ENCODING:
        settings = config.source.families.get(family, {})
        wanted = {"family": family, "settings": settings}
        if not trained.has(wanted):
            trained.add({**wanted, **prepared(family, config, test)[1]})
        if not arguments.train_only and not measured.has(wanted):
            judge = judge_for(training, None if arguments.redrawn else test)
            figures = run(family, config, judge, test, arguments.out, redrawn_alone=arguments.redrawn)
            measured.add({**figures, "settings": settings})
    print(table(measured.lines, trained.lines))


if __name__ == "__main__":
    main()
