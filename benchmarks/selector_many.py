"""What a selector among several models is worth, beside the best single model, soft vote and stacking.

    python -m benchmarks.selector_many DATA OUT MODEL MODEL MODEL ... [--queries 20000] [--quick]

DATA is a folder of idx files (or ``digits``). One run of all models on the first half of the test images is made in
OUT, or found there. Its valid triggers are labelled by the judge (``benchmarks/judge.py``), which was trained on the
training images, and so were the features. Selector and stacking learn from 700 labelled triggers; the rules are judged
on 200 held apart, at random and by behaviour, and on the second half of the test images, where the models differ: no
part of the run has seen these. Mean, lowest and highest of five seeds.

Balanced accuracy, of any rule: the mean, over the models, of the share of right answers among the pictures on which
that model is right and another is wrong. The best single model is the one that is right most often of the 700.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.judge import Judge, judge_for
from benchmarks.quick import add_quick, trained_as_asked
from benchmarks.ranking import half
from benchmarks.selector import CPU, SEEDS, divisions
from diffgen.comparison.black_boxes import load_models
from diffgen.config import Budget, CompareConfig, ModelSpec, SelectorConfig, roles
from diffgen.data import load
from diffgen.features.encoder import train as train_encoder
from diffgen.labels.store import UNLABELLED
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import TriggerTable
from diffgen.selector.examples import Examples, make_examples
from diffgen.selector.forest import fit_forest
from diffgen.selector.onnx_file import PixelNetwork, extract
from diffgen.selector.rules import Stacking, most_confident, soft_vote, who_is_right
from diffgen.tasks.classification import differ, labels_of, majority
from diffgen.types import BoolArray, Float32Array, Int64Array, UInt8Array
from diffgen.workflows.compare import compare
from diffgen.workflows.label import read_valid_triggers

ON_REAL = "real disagreements"


@dataclass(frozen=True)
class Pictures:
    """Pictures of which is known what they show: uint8 (N, C, H, W), float32 (N, M, K) answers, int64 (N,) labels."""

    images: UInt8Array
    answers: Float32Array
    labels: Int64Array

    def __getitem__(self, rows: Int64Array) -> Pictures:
        return Pictures(self.images[rows], self.answers[rows], self.labels[rows])

    @property
    def said(self) -> Int64Array:
        """int64 (N, M)."""
        return labels_of(self.answers)

    @property
    def right(self) -> BoolArray:
        """bool (N, M)."""
        return np.asarray(self.said == self.labels[:, None])


def balanced(well: BoolArray, right: BoolArray) -> float:
    """Mean of the shares of right answers among the pictures that each model is right on; of those that are on some.

    Args:
        well: bool (N,), the rule's answer is right.
        right: bool (N, M).
    """
    decisive = right.any(axis=1) & ~right.all(axis=1)
    rows = [decisive & right[:, model] for model in range(right.shape[1])]
    return float(np.mean([well[each].mean() for each in rows if each.any()]))


def answered(training: Pictures, asked: Pictures, forests: Mapping[str, Int64Array]) -> dict[str, BoolArray]:
    """Rule -> bool (N,), whether its answer to each picture asked about is right.

    Args:
        training: what is learnt from.
        asked: what is asked about.
        forests: name of the features -> int64 (N,), the model that a forest chooses for each.
    """
    said, rows = asked.said, np.arange(len(asked.labels))
    best = int(training.right.mean(axis=0).argmax())
    labels = {f"best single model ({roles(said.shape[1])[best]})": said[:, best], "soft vote": soft_vote(asked.answers)}
    stacking = Stacking.fit(training.answers, training.labels)
    if stacking is not None:
        labels["stacking"] = stacking.labels(asked.answers)
    labels["the surest"] = said[rows, most_confident(asked.answers)]
    labels |= {f"selector, {name}": said[rows, chosen] for name, chosen in forests.items()}
    labels["any is right"] = said[rows, who_is_right(said, asked.labels)]
    return {rule: each == asked.labels for rule, each in labels.items()}


def labelled(finds: TriggerTable, judge: Judge) -> Int64Array:
    """int64 (N,): what the judge says that the triggers show, ``UNLABELLED`` where it cannot tell."""
    recognised, label = judge.verdict(torch.from_numpy(finds.images))
    return np.where(recognised.numpy(), label.numpy(), UNLABELLED)


Figures = dict[tuple[str, str], list[tuple[float, float]]]


def judged(found: Pictures, examples: Examples, real: Pictures, networks: Mapping[str, nn.Module]) -> Figures:
    """(division, rule) -> of each seed share of right answers and balanced accuracy."""
    figures: Figures = {}
    features = {name: extract(network, found.images, device=CPU) for name, network in networks.items()}
    of_real = {name: extract(network, real.images, device=CPU) for name, network in networks.items()}
    for seed in SEEDS:
        config = replace(SelectorConfig(), seed=seed)
        for division, training, held in divisions(examples, seed):
            forests = {
                name: fit_forest(each[training], examples.targets[training], config) for name, each in features.items()
            }
            subjects = {division: (found[held], {name: features[name][held] for name in features})}
            if division == "random":
                subjects[ON_REAL] = (real, of_real)
            for subject, (pictures, looks) in subjects.items():
                chosen = {name: forest.predict(looks[name]) for name, forest in forests.items()}
                for rule, well in answered(found[training], pictures, chosen).items():
                    value = (float(well.mean()), balanced(well, pictures.right))
                    figures.setdefault((subject, rule), []).append(value)
    return figures


def table(figures: Figures) -> str:
    """The figures as Markdown."""

    def spread(values: list[float]) -> str:
        return f"{np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"

    lines = ["| judged on | rule | right answers | balanced accuracy |", "|---|---|---|---|"]
    for (subject, rule), values in sorted(figures.items(), key=lambda each: each[0][0]):
        shares, balances = (list(each) for each in zip(*values, strict=True))
        lines.append(f"| {subject} | {rule} | {spread(shares)} | {spread(balances)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("out", type=Path)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--queries", type=int, default=20_000)
    add_quick(parser)
    arguments = parser.parse_args()
    training, test = load(f"{arguments.data}:train"), load(f"{arguments.data}:test")
    searched, unseen = half(test, 0), half(test, 1)
    assert training.labels is not None and unseen.labels is not None
    # asked again in batches: one by one takes longer than the search
    config = CompareConfig(budget=Budget(queries=arguments.queries), seed=0, device="cpu", verify_limit=0)
    run = arguments.out / "run"
    if not (run / "results.json").is_file():
        quick = trained_as_asked(config, quick=arguments.quick)
        compare(*arguments.models, data=searched, config=quick, output=run, force=True)
    finds = read_valid_triggers(RunFolder.open(run))
    # quick: what more than half of the models say, instead of a judge's word
    labels = majority(finds.labels) if arguments.quick else labelled(finds, judge_for(training, test))
    examples = make_examples(labels, finds.labels, finds.behaviours)
    found = Pictures(finds.images, finds.answers(np.arange(len(finds)), len(finds.class_names)), labels)[examples.rows]
    boxes = load_models(arguments.models, (ModelSpec(),) * len(arguments.models), device=CPU, batch_size=256)
    for box in boxes:
        box.prepare(unseen.images)
    answers = np.stack([box.predict(unseen.images) for box in boxes], axis=1)
    apart = np.flatnonzero(differ(labels_of(answers)))
    real = Pictures(np.array(unseen.images), answers, unseen.labels)[apart]
    images, of_them = torch.from_numpy(np.array(training.images)), torch.from_numpy(training.labels)
    networks: dict[str, nn.Module] = {"pixels": PixelNetwork()}
    if not arguments.quick:
        networks["domain"] = train_encoder(images, of_them, seed=0)
    kinds = np.bincount(examples.targets, minlength=len(boxes))
    told = ", ".join(f"{role} {count:,}" for role, count in zip(roles(boxes), kinds.tolist(), strict=False))
    print(
        f"{len(finds):,} valid triggers, {int((labels != UNLABELLED).sum()):,} labelled; all wrong on "
        f"{examples.both_wrong:,}; {len(examples):,} to learn from, of each model: {told}. The models differ on "
        f"{len(apart):,} of {len(unseen):,} unseen images.\n"
    )
    print(table(judged(found, examples, real, networks)))


if __name__ == "__main__":
    main()
