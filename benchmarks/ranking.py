"""How well the order of several models is known after 50, 100 and 200 labels: `diffgen rank` against other choices.

    python -m benchmarks.ranking DATA OUT [--models 8] [--draws 50] [--search 60s] [--quick]

DATA is a folder of idx files (or ``digits``). LeNet-5 that differ in seed, passes and training data are trained on the
first half of the test images. The true order is that of their accuracy on all training images, which none of them has
seen; the pictures to label are drawn from these too. Kendall's tau (b), its mean over the draws:

* random images: the order of the models' accuracy on images drawn at random;
* random, where models differ: the same, of images that not all models call alike;
* SDS: the sample discrimination of Meng et al. 2021: labels guessed by majority, how much better the best 27 % of the
  models are on a picture than the worst 27 %, and a random draw from the quarter of the images that discriminate most;
* short list: what `diffgen rank` does, by the models' answers alone and with the jury of a run.

Beside it the order by recognised faults, with no label at all, of a search on the second half of the test images.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import kendalltau

from benchmarks.lenet_pair import train
from benchmarks.quick import add_quick, trained_as_asked
from diffgen.comparison.opened_run import OpenedRun
from diffgen.config import Budget, CompareConfig
from diffgen.data import load
from diffgen.events import Progress
from diffgen.metrics.ranking import chances, doubt, draw, guessed_right, standing_by_labels
from diffgen.models import load as load_model
from diffgen.runs.folder import RunFolder
from diffgen.tasks.classification import differ
from diffgen.types import Float32Array, ImageSet, Int64Array
from diffgen.workflows.compare import compare
from diffgen.workflows.demo import save_onnx
from diffgen.workflows.rank import rank
from diffgen.workflows.rank_export import asked_apart, jury_of

_COUNTS = (50, 100, 200)
_TOP = 0.27  # share of the models that SDS takes for the best, and for the worst
_QUARTER = 0.25


def sds_rows(said: Int64Array, count: int, rng: np.random.Generator) -> Int64Array:
    """Rows of int64 (N, M) that SDS has labelled."""
    models = said.shape[1]
    votes = (said[:, :, None] == said[:, None, :]).sum(axis=2)
    guess = said[np.arange(len(said)), votes.argmax(axis=1)]
    right = said == guess[:, None]
    order = np.argsort(-right.mean(axis=0), kind="stable")
    few = max(1, round(_TOP * models))
    discrimination = right[:, order[:few]].mean(axis=1) - right[:, order[-few:]].mean(axis=1)
    most = np.argsort(-discrimination, kind="stable")[: round(_QUARTER * len(said))]
    return rng.choice(most, min(count, len(most)), replace=False)


def short_list(
    said: Int64Array, right: np.ndarray, posterior: Float32Array, count: int, seed: int
) -> NDArray[np.float64]:
    """What `diffgen rank` makes of ``count`` labels, of images on which models differ."""
    guessed = guessed_right(posterior, said)
    chance = chances(doubt(guessed, said), count)
    rows = draw(chance, seed)
    return standing_by_labels(
        right[rows], guessed[rows], chance[rows], guessed_sum=guessed.sum(axis=0), pictures=len(said), seed=seed
    ).values


def trained(data: ImageSet, models: int, out: Path) -> list[Path]:
    """LeNet-5 of nearly the same accuracy, in files."""
    assert data.labels is not None
    images, labels = torch.from_numpy(np.array(data.images)), torch.from_numpy(data.labels)
    paths = []
    for number in range(models):
        path = out / f"net-{number}.onnx"
        if not path.exists():
            rng = torch.Generator().manual_seed(number)
            rows = torch.randperm(len(images), generator=rng)[: round(len(images) * (0.6 + 0.05 * number))]
            save_onnx(train(images[rows], labels[rows], seed=number, epochs=4 + number % 3), path)
        paths.append(path)
    return paths


def half(data: ImageSet, which: int) -> ImageSet:
    """The first or the second half of images, labels and all."""
    assert data.labels is not None
    rows = slice(0, len(data) // 2) if which == 0 else slice(len(data) // 2, None)
    return ImageSet(np.array(data.images[rows]), data.labels[rows], data.class_names, data.source)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", type=int, default=8)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--search", default="60s", help="budget of the search")
    add_quick(parser)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    test, unseen = load(f"{arguments.data}:test"), load(f"{arguments.data}:train")
    paths = trained(half(test, 0), arguments.models, arguments.out)
    boxes = [load_model(path, device="cpu") for path in paths]
    for box in boxes:
        box.prepare(torch.from_numpy(np.array(unseen.images[:64])))
    assert unseen.labels is not None
    labels = unseen.labels
    config = trained_as_asked(
        CompareConfig(budget=Budget.parse(arguments.search), seed=1, device="cpu"), quick=arguments.quick
    )
    run = compare(*paths, data=half(test, 1), config=config, output=arguments.out / "run", force=True)
    opened = OpenedRun(RunFolder.open(run.run))
    jury = jury_of(opened, half(test, 1), Progress())
    rows, said, alone = asked_apart(boxes, unseen, None, Progress())
    _, _, juried = asked_apart(boxes, unseen, jury, Progress())
    everything = np.concatenate(
        [np.stack([box.predict(batch).argmax(axis=1) for box in boxes], axis=1) for batch in batches(unseen)]
    )
    truth = (everything == unseen.labels[:, None]).mean(axis=0)
    right = said == unseen.labels[rows, None]
    apart = np.flatnonzero(differ(everything))
    print(
        f"{len(paths)} models, accuracy on {len(unseen):,} unseen images {truth.min():.2%} to {truth.max():.2%}; they "
        f"differ on {len(rows):,}.\n"
    )
    ways: dict[str, Callable[[int, int], np.ndarray]] = {
        "random images": lambda count, seed: accuracy(
            everything, labels, np.random.default_rng(seed).choice(len(unseen), count, replace=False)
        ),
        "random, where models differ": lambda count, seed: accuracy(
            everything, labels, np.random.default_rng(seed).choice(apart, min(count, len(apart)), replace=False)
        ),
        "SDS": lambda count, seed: accuracy(
            everything, labels, sds_rows(everything, count, np.random.default_rng(seed))
        ),
        "short list, models alone": lambda count, seed: short_list(said, right, alone, count, seed),
        "short list, with the jury": lambda count, seed: short_list(said, right, juried, count, seed),
    }
    print(f"| labels of | {' | '.join(f'{count} labels' for count in _COUNTS)} |")
    print("|---|" + "---:|" * len(_COUNTS))
    for name, way in ways.items():
        cells = []
        for count in _COUNTS:
            taus = [kendalltau(way(count, seed), truth).statistic for seed in range(arguments.draws)]
            known = np.nan_to_num(np.array(taus, dtype=float))  # all alike: nothing is known of the order
            cells.append(f"{known.mean():.2f} ± {known.std():.2f}")
        print(f"| {name} | {' | '.join(cells)} |")
    faults = rank(run.run)
    order = {model.role: model.right for model in faults.models}
    by_faults = kendalltau([order[role] for role in sorted(order)], truth).statistic
    guess = kendalltau(guessed_right(juried, said).mean(axis=0), truth).statistic
    print(
        f"\nWith no label: {by_faults:.2f} by recognised faults of a search of {arguments.search} "
        f"({faults.pictures:,} pictures), {guess:.2f} by the guess that the labels correct."
    )


def batches(data: ImageSet) -> list[np.ndarray]:
    """Images in parts."""
    return [np.array(data.images[start : start + 1024]) for start in range(0, len(data), 1024)]


def accuracy(said: Int64Array, labels: Int64Array, rows: Int64Array) -> np.ndarray:
    """float64 (M,): share of some images on which each model is right."""
    return np.asarray((said[rows] == labels[rows, None]).mean(axis=0))


if __name__ == "__main__":
    main()
