"""What a selector is worth: trained on 700 labelled triggers, tested on 200 held apart, five seeds.

    python -m benchmarks.pairs DATA PAIRS
    python -m benchmarks.selector DATA PAIRS OUT [--only NAME ...] [--cifar MODELS CIFAR] [--queries N]

For each pair of PAIRS, and with --cifar for resnet20 and resnet32 of MODELS (the published weights of
``benchmarks/cifar_resnets.py``) on the folder CIFAR, a run of 20,000 queries is made in OUT, or found there. The valid
triggers are labelled by the judge (``benchmarks/judge.py``): five classifiers trained on the training split, which all
have to say the same with a mean confidence of 0.9. The encoder of the features is trained on the training split too, so
that the real test images, on which the selector is judged as well, are unknown to everything but the GAN, which was
trained on nine tenths of them. Where finds are made from these images, as they are by default, a random half of the
images is for judging, and no find that is made from that half teaches anything.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks import cifar_resnets
from benchmarks.judge import Judge, judge_for
from benchmarks.pairs import PAIRS
from benchmarks.quick import add_quick, trained_as_asked
from diffgen.comparison.black_boxes import load_models
from diffgen.config import Budget, CompareConfig, ModelSpec, Opening, Preprocessing, SelectorConfig
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.features.encoder import train as train_encoder
from diffgen.labels.store import UNLABELLED
from diffgen.models import BlackBox
from diffgen.runs.files import write_json
from diffgen.runs.folder import RunFolder
from diffgen.sampling import random_rows
from diffgen.selector.evaluation import evaluate
from diffgen.selector.examples import Examples, make_examples
from diffgen.selector.forest import fit_forest
from diffgen.selector.onnx_file import PixelNetwork, extract
from diffgen.selector.rules import most_confident, soft_vote, who_is_right
from diffgen.tasks.classification import differ, labels_of
from diffgen.techniques import TECHNIQUES
from diffgen.types import ImageSet, Int64Array
from diffgen.workflows.compare import compare
from diffgen.workflows.label import read_valid_triggers

QUERIES = 20_000
TRAINING, TEST = 700, 200
SEEDS = range(5)
CPU = torch.device("cpu")
RESNETS = ("resnet20", "resnet32")


def resnets(config: CompareConfig) -> CompareConfig:
    """The same settings for the two published networks."""
    said = Preprocessing(mean=cifar_resnets.MEAN, std=cifar_resnets.STD)
    models = (ModelSpec(None, said, Opening(arch=f"benchmarks.cifar_resnets:{name}")) for name in RESNETS)
    return replace(config, models=tuple(models))


def labelled(run: RunFolder, judge: Judge) -> tuple[Any, Int64Array]:
    """The valid triggers of a run and what the judge says that they show, ``UNLABELLED`` where it cannot tell."""
    finds = read_valid_triggers(run)
    recognised, label = judge.verdict(torch.from_numpy(finds.images))
    return finds, np.where(recognised.numpy(), label.numpy(), UNLABELLED)


def divisions(examples: Examples, seed: int) -> Iterator[tuple[str, Int64Array, Int64Array]]:
    """(name, training rows, test rows): at random, and with behaviours in the test that the training has none of."""
    rng = np.random.default_rng(seed)
    share = min(1.0, len(examples) / (TRAINING + TEST))  # of a run with too few labelled triggers
    training, test = int(TRAINING * share), int(TEST * share)
    order = rng.permutation(len(examples))
    yield "random", order[:training], order[training : training + test]
    apart: set[int] = set()
    counts = np.bincount(examples.groups)
    for group in rng.permutation(len(counts)).tolist():
        if sum(counts[list(apart)]) >= test:
            break
        apart.add(group)
    held = np.isin(examples.groups[order], list(apart))
    yield "by behaviour", order[~held][:training], order[held][:test]


def judge_pair(
    boxes: Sequence[BlackBox], run: RunFolder, judge: Judge, test: ImageSet, networks: dict[str, nn.Module]
) -> dict[str, Any]:
    """All figures of one pair."""
    finds, labels = labelled(run, judge)
    examples = make_examples(labels, finds.labels, finds.behaviours)
    for box in boxes:
        box.prepare(test.images)
    every = np.stack([box.predict(test.images) for box in boxes], axis=1)
    apart = np.flatnonzero(differ(labels_of(every)))
    if finds.seeds is not None:
        for_judging = random_rows(len(test), len(test) // 2)
        examples = examples.only(~np.isin(finds.seeds[examples.rows], for_judging))
        apart = np.intersect1d(apart, for_judging)
    assert test.labels is not None
    truth, answers = test.labels[apart], every[apart]
    said, rows = labels_of(answers), np.arange(len(apart))
    right = said == truth[:, None]
    rules = {
        "A": right[:, 0],
        "B": right[:, 1],
        "soft-vote": soft_vote(answers) == truth,
        "confidence": right[rows, most_confident(answers)],
        "oracle": right[rows, who_is_right(said, truth)],
    }
    kinds = np.bincount(examples.targets, minlength=2)
    entry: dict[str, Any] = {
        "valid_triggers": len(finds),
        "labelled": int((labels != UNLABELLED).sum()),
        "only_a_right": int(kinds[0]),
        "only_b_right": int(kinds[1]),
        "both_wrong": examples.both_wrong,
        "behaviours": len(np.unique(examples.groups)),
        "real_disagreements": len(apart),
        "real": {rule: float(each.mean()) for rule, each in rules.items()},
        "results": [],
    }
    for name, network in networks.items():
        features = extract(network, finds.images[examples.rows], device=CPU)
        real_features = extract(network, test.images[apart], device=CPU)
        for seed in SEEDS:
            config = replace(SelectorConfig(), seed=seed)
            for division, training, held in divisions(examples, seed):
                forest = fit_forest(features[training], examples.targets[training], config)
                figures = evaluate(division, forest.predict(features[held]), examples.right[held])
                on_real = evaluate("real", forest.predict(real_features), right)
                entry["results"].append(
                    {
                        "features": name,
                        "division": division,
                        "seed": seed,
                        "training": len(training),
                        "test": len(held),
                        "accuracy": figures.accuracy,
                        "balanced_accuracy": figures.balanced_accuracy,
                        "majority": figures.majority,
                        "real": on_real.ensemble,
                    }
                )
    return entry


def table(entries: dict[str, Any]) -> str:
    """The figures as Markdown: mean and, in brackets, lowest and highest of the seeds."""

    def spread(values: list[float]) -> str:
        return f"{np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"

    lines = ["| pair | valid triggers | labelled by it | only A right | only B right | both wrong | behaviours |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|")
    for name, entry in entries.items():
        keys = ("valid_triggers", "labelled", "only_a_right", "only_b_right", "both_wrong", "behaviours")
        lines.append(f"| {name} | " + " | ".join(f"{entry[key]:,}" for key in keys) + " |")
    lines += ["", "| pair | features | division | trained on | tested on | balanced accuracy | accuracy | majority |"]
    lines.append("|---|---|---|---:|---:|---|---|---:|")
    for name, entry in entries.items():
        for features in dict.fromkeys(each["features"] for each in entry["results"]):
            for division in ("random", "by behaviour"):
                own = [r for r in entry["results"] if (r["features"], r["division"]) == (features, division)]
                balanced = [r["balanced_accuracy"] for r in own if r["balanced_accuracy"] is not None]
                lines.append(
                    f"| {name} | {features} | {division} | {own[0]['training']} | {own[0]['test']} | "
                    f"{spread(balanced)} | {spread([r['accuracy'] for r in own])} | "
                    f"{np.mean([r['majority'] for r in own]):.3f} |"
                )
    lines += ["", "| pair | real test images where A and B differ | A | B | soft vote | surer one | either right |"]
    lines[-1] += " selector, domain | selector, pixels |"
    lines.append("|---|---:|---:|---:|---:|---:|---:|---|---|")
    for name, entry in entries.items():
        rules = " | ".join(f"{entry['real'][rule]:.3f}" for rule in ("A", "B", "soft-vote", "confidence", "oracle"))
        selectors = []
        for features in ("domain", "pixels"):
            own = [r["real"] for r in entry["results"] if (r["features"], r["division"]) == (features, "random")]
            selectors.append(spread(own))
        lines.append(f"| {name} | {entry['real_disagreements']} | {rules} | {' | '.join(selectors)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="*", choices=PAIRS, default=list(PAIRS))
    parser.add_argument("--cifar", nargs=2, type=Path, metavar=("MODELS", "CIFAR"))
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--technique", choices=TECHNIQUES.names(), default="diffgan", help="default: %(default)s")
    add_quick(parser)
    arguments = parser.parse_args()
    # asked again in batches: one by one takes longer than the search
    plain = CompareConfig(
        budget=Budget(queries=arguments.queries),
        seed=0,
        device="cpu",
        verify_limit=0,
        technique=arguments.technique,
    )
    plain = trained_as_asked(plain, quick=arguments.quick)
    subjects = {
        name: (arguments.data / PAIRS[name].data, [arguments.pairs / name / f"{role}.onnx" for role in "ab"], plain)
        for name in arguments.only
    }
    if arguments.cifar:
        published, cifar = arguments.cifar
        subjects["cifar"] = (cifar, [published / f"{name}.state_dict.th" for name in RESNETS], resnets(plain))
    entries: dict[str, Any] = {}
    for name, (data, models, config) in subjects.items():
        run = arguments.out / name
        if not (run / "results.json").is_file():
            compare(*models, data=data, config=config, output=run, force=True)
        training, test = load(f"{data}:train"), load(f"{data}:test")
        assert training.labels is not None
        images, labels = torch.from_numpy(training.images), torch.from_numpy(training.labels)
        networks = {"domain": train_encoder(images, labels, seed=0), "pixels": PixelNetwork()}
        boxes = load_models(models, config.models or (ModelSpec(),) * 2, device=CPU, batch_size=256)
        try:
            entries[name] = judge_pair(boxes, RunFolder.open(run), judge_for(training, test), test, networks)
        except UserError as error:  # the judge recognises too few of its triggers; the other pairs are not to suffer
            print(f"{name}: not judged: {error}", flush=True)
            continue
        write_json(arguments.out / "selector.json", entries)
        print(table(entries), flush=True)


if __name__ == "__main__":
    main()
