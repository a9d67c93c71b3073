"""What the five transformations of the GAN's training images do: how much they change, and whether the label stays.

    python -m benchmarks.augmentation DATA [DATA ...] --out FOLDER

Each DATA is a folder or a zip with a training and a test split. Every test image is transformed once in each way; the
judge (benchmarks/judge.py), trained on the training split, names the class of all of them. Prints a table, and writes
a sheet of ten images and their transformations to FOLDER. The sheets show real images of the data: they stay out of the
repository.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torchvision.utils import save_image

from benchmarks.judge import Judge, judge_for
from diffgen.data import load
from diffgen.gan_training.augmentation import TRANSFORMATIONS, augment


def rows_of(judge: Judge, images: torch.Tensor, labels: torch.Tensor) -> list[str]:
    """A row for the originals and one for each transformation; ``images`` uint8 (N, C, H, W), ``labels`` int64 (N,)."""
    rows = []
    parts = augment(images, generator=torch.Generator().manual_seed(0)).split(len(images))
    for name, part in zip(("none", *TRANSFORMATIONS), parts, strict=True):
        answers = judge.probabilities(part)
        five = (answers.argmax(2) == labels).float().mean(1)
        together = (answers.mean(0).argmax(1) == labels).float().mean()
        difference = (part.float() - images.float()).abs().flatten(1)
        rows.append(
            f"| {name} | {together:.2%} | {five.min():.2%} to {five.max():.2%} | {difference.mean():.1f} "
            f"| {(difference.amax(1) > 0).float().mean():.1%} |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", help="folder or zip with a training and a test split")
    parser.add_argument("--out", type=Path, required=True, help="folder of the sheets")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for source in arguments.data:
        training, test = load(f"{source}:train"), load(f"{source}:test")
        assert test.labels is not None
        images, labels = torch.from_numpy(test.images), torch.from_numpy(test.labels)
        name = Path(source).stem
        print(f"\n{name}: {len(images):,} test images\n")
        print("| transformation | right, five together | right, each of five | mean change, grey levels | changed |")
        print("|---|--:|--:|--:|--:|")
        print("\n".join(rows_of(judge_for(training, test), images, labels)))
        few = torch.stack([images[labels == label][0] for label in labels.unique()[:10]])
        sheet = augment(few, generator=torch.Generator().manual_seed(0))
        save_image(sheet / 255.0, arguments.out / f"augmentation-{name}.png", nrow=len(few), padding=1, pad_value=0.5)


if __name__ == "__main__":
    main()
