"""What the source ``seeds`` brings before anything is searched for: its ranges, the order of its seeds, each operator.

    python -m benchmarks.seeds DATA MODEL_A MODEL_B [--codes vae]

DATA is a folder with a training and a test split; the comparison's real images are the test split, the judge
(benchmarks/judge.py) is trained on the training split. Pictures are drawn at random from the source, none is searched
for:

* with the usual ranges of the operators, and with those that the jury calibrated;
* seeds drawn evenly, and those near a margin or on which the models differ first;
* one operator alone, calibrated, such seeds first.

With --codes, instead: the operators that step among codes (``towards``, ``code_noise``), as they are and with the
codes of a source trained on the data, as Argus and Latte (towards) and SINVAD (noise) step, each calibrated by itself.

Per 1,000 queries: triggers; those that the judge recognises, and of them those that it names as the seed's label;
behaviours (what A and B say, and the cell) among the recognised. Prints Markdown.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from benchmarks.judge import Judge, judge_for
from benchmarks.quick import add_quick, trained_as_asked
from diffgen.comparison.auto_encoder import prepare_auto_encoder
from diffgen.comparison.jury import RealLabels, prepare_jury
from diffgen.comparison.preflight import inspect_real_images, prepare_models
from diffgen.config import CompareConfig
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features import cells as cell_store
from diffgen.features.auto_encoder import AutoEncoder
from diffgen.features.cells import Cells
from diffgen.gan_training.augmentation import plain_background
from diffgen.models import BlackBox
from diffgen.models import load as load_model
from diffgen.models.loading import file_digest
from diffgen.sampling import random_rows
from diffgen.sources.base import EncodingSource, FamilyContext
from diffgen.sources.calibration import prepare_ranges
from diffgen.sources.draws import NumpyDraws
from diffgen.sources.energy import seed_weights
from diffgen.sources.operators import OPERATORS, Scene
from diffgen.sources.operators.base import is_grey
from diffgen.sources.registry import FAMILIES
from diffgen.sources.seeds import SeedsSettings, SeedsSource
from diffgen.tasks.classification import behaviours, disagree, labels_of

_CPU = torch.device("cpu")
_STEPS = ("towards", "code_noise")


class SourceCodes(AutoEncoder):
    """A source that encodes, in place of the auto-encoder of the operators.

    Args:
        source: encodes and draws grey levels as bytes.
        digest: of what it was trained to.
        real: see the base class.
    """

    def __init__(self, source: EncodingSource, digest: str, real: torch.Tensor) -> None:
        self.digest = digest
        self._source = source
        self.spread = self.encode(real[random_rows(len(real), 2_000)].to(torch.float64)).std(dim=0)

    def encode(self, images: torch.Tensor) -> torch.Tensor:
        return self._source.encode(images.round().clamp(0, 255).to(torch.uint8)).to(torch.float64)

    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        return self._source.draw(codes.to(torch.float32)).to(torch.float64)


@dataclass(frozen=True)
class Bench:
    """What all rows have in common."""

    models: tuple[BlackBox, BlackBox]
    labels: np.ndarray
    margin: float
    cells: Cells
    judge: Judge

    def row(self, name: str, source: SeedsSource, queries: int) -> str:
        """One row of the table: random pictures of a source."""
        sampled = source.space.sample(queries, NumpyDraws(np.random.default_rng(0)))
        genes = torch.from_numpy(sampled.astype(np.float32))
        before = time.process_time()
        images = source.draw(genes)
        seconds = time.process_time() - before
        answers = np.stack([model.predict(images.numpy()) for model in self.models], axis=1)
        trigger = disagree(torch.from_numpy(answers), self.margin).numpy()
        recognised, named = (each.numpy() for each in self.judge.verdict(images))
        kept = named == self.labels[source.origins(genes).seeds]
        rows = np.flatnonzero(trigger & recognised)
        met = behaviours(labels_of(answers[rows]), self.cells.assign(images[torch.from_numpy(rows)]))
        counts = [trigger.sum(), len(rows), (trigger & recognised & kept).sum(), len(np.unique(met, axis=0))]
        figures = [f"{1000 * count / queries:.0f}" for count in counts]
        return f"| {name} | {' | '.join(figures)} | {recognised.mean():.1%} | {1000 * seconds / queries:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="folder with a training and a test split")
    parser.add_argument("models", nargs=2, metavar="MODEL")
    parser.add_argument("--codes", choices=("vae", "vq"), help="measure steps among codes alone, also this source's")
    parser.add_argument("--queries", type=int, default=1000, help="random pictures of each row (default: %(default)s)")
    add_quick(parser)
    arguments = parser.parse_args()
    config, progress = trained_as_asked(CompareConfig(), quick=arguments.quick), Progress()
    training, data = load(f"{arguments.data}:train"), load(f"{arguments.data}:test")
    assert data.labels is not None
    first, second = (load_model(path, batch_size=256) for path in arguments.models)
    prepare_models((first, second), data)
    real = inspect_real_images((first, second), data, progress=progress)
    split = DataSplit(data, config.split)
    jury = prepare_jury(split, RealLabels.of(data, real), config, device=_CPU, progress=progress).recogniser
    assert jury is not None
    images = torch.from_numpy(data.images)
    network = AutoEncoder(prepare_auto_encoder(split, config, device=_CPU, progress=progress), split.reference)
    scene = Scene(images, plain_background(images), network, is_grey(data.images))
    every = SeedsSettings(operators=tuple(OPERATORS))
    names = _STEPS if arguments.codes else every.fitting(scene)
    before = time.process_time()
    ranges = prepare_ranges(split, scene, names, jury, progress)
    print(f"Ranges: {time.process_time() - before:.1f} s of processor time where they are not in the cache.\n")
    sides = (data.image_shape[1], data.image_shape[2])
    print("| operator | usual | calibrated |\n|---|---|---|")
    for name in names if ranges else ():
        usual = OPERATORS[name].usual(sides)
        own = [(axis, axis.name) for axis in OPERATORS[name].axes]
        texts = ("; ".join(axis.text(each[key]) for axis, key in own) for each in (usual, (ranges or {})[name]))
        print(f"| {name} | {' | '.join(texts)} |")
    cells = cell_store.prepare(data, device=_CPU, progress=progress)
    bench = Bench((first, second), data.labels, real.summary.margin, cells, judge_for(training, data))
    weights = seed_weights(real.answers.probabilities)
    print(
        "\n| drawn at random | triggers | recognised | named as the seed | behaviours | recognised, of all | ms each |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|")

    def drawn(name: str, settings: SeedsSettings, scene: Scene, **given: Any) -> None:
        source = SeedsSource(scene, settings, device=_CPU, **given)
        print(bench.row(name, source, arguments.queries), flush=True)

    if not arguments.codes:
        drawn("usual ranges, all seeds alike", every, scene)
        drawn("calibrated, all seeds alike", every, scene, ranges=ranges)
        drawn("calibrated, unsure seeds first", every, scene, ranges=ranges, weights=weights)
    for name in names:
        alone = SeedsSettings(operators=(name,), steps=1)
        drawn(f"{name} alone", alone, scene, ranges=ranges, weights=weights)
    if arguments.codes:
        context = FamilyContext(cells.encoder, _CPU, progress, encoding=True)
        made = FAMILIES[arguments.codes].prepare(split, config, context)
        assert isinstance(made.source, EncodingSource)
        assert made.artifact is not None
        theirs = replace(scene, auto_encoder=SourceCodes(made.source, file_digest(made.artifact), split.reference))
        ranges = prepare_ranges(split, theirs, names, jury, progress)
        for name in names:
            alone = SeedsSettings(operators=(name,), steps=1)
            (axis,) = OPERATORS[name].axes
            said = axis.text((ranges or {name: OPERATORS[name].usual(sides)})[name][axis.name])
            drawn(f"{name} alone, codes of {arguments.codes}, {said}", alone, theirs, ranges=ranges, weights=weights)


if __name__ == "__main__":
    main()
