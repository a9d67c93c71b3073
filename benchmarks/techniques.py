"""Techniques side by side: pairs of models x techniques x seeds, in equal seconds and, apart, in equal queries.

    python -m benchmarks.techniques run --pair mnist-1 a.onnx b.onnx TEST --training TRAIN --out OUT \\
        --seconds 60 --queries 20000 --seeds 3
    python -m benchmarks.techniques table --out OUT

Each cell is a comparison (:func:`diffgen.compare`) in a process of its own, so that a crash costs one cell; what came
to its end is left out the next time, and a run that broke off is gone on with. The order is by seed, so that what is
there at any time is balanced. GAN, filters, cells and judge are made before the first cell, and what a search imports
and compiles (UMAP, HDBSCAN) is imported and compiled before its clock starts; no cell pays for them.

Counted are triggers that disagreed again when they were asked again. ``valid``: every filter accepts them;
``distinct``: of these, without near-duplicates; ``judge-valid``: the judge (:mod:`benchmarks.judge`), which nothing was
tuned against, recognises a class in them: counted in up to 3,000 random ones and taken as their share of all; it needs
the training split (``--training``). Behaviours, label pairs and diversity are those of valid triggers. Geometric
diversity and Shannon's are over equally large random subsets (see :mod:`diffgen.metrics`).

The judge's class is the label of a valid trigger. From it come who is right (Table 12 of the paper) and the selector: a
random forest on 700 of the triggers on which exactly one model is right, tested on 200 others, mean of five divisions
at random; fewer in the same proportion where there are fewer, none below 90 or without 5 of each kind.

``table`` writes techniques.csv (one row a cell), techniques.md and techniques.png into OUT: means with 95 % intervals
(Student's t), coefficients of variation, and ``diffgan`` against every other technique: Mann-Whitney and A12.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.judge import Judge, judge_for
from benchmarks.quick import add_quick, trained_as_asked
from benchmarks.significance import coefficient_of_variation, mann_whitney, mean_over_runs
from diffgen.comparison.filter_chain import make_pipeline
from diffgen.comparison.image_source import prepare_source
from diffgen.comparison.jury import RealLabels, prepare_jury
from diffgen.config import Budget, CompareConfig, FilterConfig, SelectorConfig, replace
from diffgen.data import load as load_data
from diffgen.data.split import DataSplit
from diffgen.events import Listener, Progress
from diffgen.features import cells as cell_store
from diffgen.features.cells import Cells
from diffgen.labels.store import UNLABELLED
from diffgen.metrics.geometric_diversity import equal_subsets
from diffgen.metrics.intervals import exact_interval
from diffgen.metrics.pixel_entropy import pixel_entropy
from diffgen.pool.calls import Ended, Function
from diffgen.pool.processes import Processes
from diffgen.runs.files import write_json, write_text, write_whole
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import TriggerTable
from diffgen.selector.evaluation import evaluate
from diffgen.selector.examples import MIN_OF_A_KIND, make_examples
from diffgen.selector.forest import fit_forest
from diffgen.sources.base import FamilyContext
from diffgen.sources.registry import SOURCES
from diffgen.techniques import TECHNIQUES, technique_class
from diffgen.types import Int64Array
from diffgen.workflows.compare import compare
from diffgen.workflows.label import read_valid_triggers
from diffgen.workflows.resume import resume

CPU = torch.device("cpu")
SUBSET = 200  # pictures whose Shannon entropy is taken
JUDGED = 3000  # triggers, and as many valid ones, that the judge is shown at most
TRAINING, TEST = 700, 200  # triggers of the selector
MIN_TRIGGERS = 90  # triggers on which one model is right; a selector of fewer is not looked at
# all ways are judged by the same filters, also those that train no GAN
_SETTINGS = CompareConfig(verify_limit=0, filters=FilterConfig(names=("discriminator", "reconstruction", "ssim")))
# name of a way -> technique and preset
WAYS = {
    "diffgan": ("diffgan", "default"),
    "diffgan-paper": ("diffgan", "paper"),
    # as_is asks about the given images alone, whatever the budget
    **{name: (name, "default") for name in TECHNIQUES.names() if name not in ("diffgan", "as_is")},
}
FIGURES = {
    "queries": "queries",
    "triggers": "triggers",
    "valid": "valid",
    "distinct": "distinct",
    "judge_valid": "judge-valid",
    "behaviours": "behaviours",
    "label_pairs": "label pairs",
    "effective_pairs": "effective pairs",
    "geometric_diversity": "geometric diversity",
    "shannon": "Shannon",
    "triggers_per_1000": "triggers / 1,000 queries",
    "seconds_to_half": "seconds to half of the pairs",
    "selector": "selector, balanced accuracy",
    "selector_plain": "selector, accuracy",
}


def figures(run: Path, data: str, training: str | None) -> dict[str, Any]:
    """What one finished run found."""
    folder = RunFolder.open(run)
    results, triggers = folder.results(), folder.read_judged()
    found: dict[str, Any] = {name: results[name] for name in ("queries", "triggers", "behaviours", "label_pairs")}
    found |= {
        "seconds": results["seconds"],
        "valid": results["valid_triggers"],
        "distinct": results["distinct_valid_triggers"],
        "effective_pairs": results["effective_label_pairs"],
        "triggers_per_1000": 1000 * results["triggers"] / max(results["queries"], 1),
        "validity": results["validity"] and results["validity"]["ratio"],
        "real_disagreements": results["real_disagreements"],
        "first_seconds": {},
        **dict.fromkeys(("judge_valid", "judge_validity", "geometric_diversity", "shannon", "seconds_to_half")),
        **dict.fromkeys(("who_is_right", "selector", "selector_plain", "selector_majority")),
    }
    if len(triggers) == 0:
        return found | {"judge_valid": None if training is None else 0}
    test = load_data(data)
    cells = cell_store.prepare(test, device=CPU)
    if training is not None:
        judge = judge_for(load_data(training), test)
        found |= _judged(judge, triggers)
        if triggers.valid.any():
            found |= _put_to_use(judge, cells, read_valid_triggers(folder))
    if results["geometric_diversity"] is not None:
        found["geometric_diversity"] = results["geometric_diversity"]["found"]["mean"]
    images = triggers[triggers.valid].images
    if len(images) >= SUBSET:
        entropies = [pixel_entropy(images[rows]) for rows in equal_subsets(len(images), SUBSET)]
        found["shannon"] = round(float(np.mean(entropies)), 4)
    history = results["history"]
    seconds = np.interp(triggers.query, history["queries"], history["seconds"])
    pairs, first = np.unique(triggers.labels[triggers.valid], axis=0, return_index=True)
    at = seconds[triggers.valid][first]
    found["first_seconds"] = {f"{a}-{b}": round(float(s), 2) for (a, b), s in zip(pairs.tolist(), at, strict=True)}
    # half of all ordered pairs of classes, so that techniques can be compared; None where fewer were found
    classes = len(results["class_names"])
    half = classes * (classes - 1) // 2
    found["seconds_to_half"] = round(float(np.sort(at)[half - 1]), 2) if len(at) >= half else None
    return found


def _sample(rows: Int64Array) -> Int64Array:
    """At most ``JUDGED`` of them, at random."""
    return rows if len(rows) <= JUDGED else np.random.default_rng(0).choice(rows, JUDGED, replace=False)


def _judged(judge: Judge, triggers: TriggerTable) -> dict[str, Any]:
    rows = _sample(np.flatnonzero(triggers.confirmed))
    if len(rows) == 0:
        return {"judge_valid": 0}
    recognised = int(judge.recognised(torch.from_numpy(triggers.images_of(rows))).sum())
    share, total = recognised / len(rows), int(triggers.confirmed.sum())
    # of a sample of a run's triggers; of all of them the share is no estimate
    interval = exact_interval(recognised, len(rows)) if len(rows) < total else None
    return {
        "judge_valid": round(share * total),
        "judge_validity": share,
        "judge_sample": {"recognised": recognised, "of": len(rows), "interval": interval},
    }


def _put_to_use(judge: Judge, cells: Cells, finds: TriggerTable) -> dict[str, Any]:
    """Who is right on valid triggers, by the judge, and what a selector learns from them."""
    rows = _sample(np.arange(len(finds)))
    images, said = torch.from_numpy(finds.images[rows]), finds.labels[rows]
    recognised, label = (each.numpy() for each in judge.verdict(images))
    labels = np.where(recognised, label, UNLABELLED)
    only_a, only_b = (int((said[:, model] == labels).sum()) for model in (0, 1))
    found: dict[str, Any] = {"who_is_right": [only_a, only_b, int(recognised.sum()) - only_a - only_b]}
    if only_a + only_b < MIN_TRIGGERS or min(only_a, only_b) < MIN_OF_A_KIND:
        return found
    examples = make_examples(labels, said, finds.behaviours[rows])
    features = cells.encoder.encode(images[torch.from_numpy(examples.rows)]).numpy()
    scores = []
    share = min(1.0, len(examples) / (TRAINING + TEST))  # of a run with too few labelled triggers
    training, test = int(TRAINING * share), int(TEST * share)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(examples))
        learnt, held = order[:training], order[training : training + test]
        forest = fit_forest(features[learnt], examples.targets[learnt], SelectorConfig(seed=seed))
        scores.append(evaluate("random", forest.predict(features[held]), examples.right[held]))
    balanced = [each.balanced_accuracy for each in scores if each.balanced_accuracy is not None]
    return found | {
        "selector": round(float(np.mean(balanced)), 4) if balanced else None,
        "selector_plain": round(float(np.mean([each.accuracy for each in scores])), 4),
        "selector_majority": round(float(np.mean([each.majority for each in scores])), 4),
    }


def cell(events: Listener, file: Path, way: str, *about: Any) -> None:
    """One comparison and its figures."""
    technique, preset = WAYS[way]
    a, b, data, budget, seed, training, quick, family = about
    settings = _SETTINGS
    if "encoder" in technique_class(technique).needs(settings.search):
        settings = replace(settings, source=replace(settings.source, family=family))
    run = file.with_suffix("")
    if (run / "manifest.json").is_file():
        resume(run)
    else:
        compare(
            a,
            b,
            data=data,
            budget=budget,
            technique=technique,
            preset=preset,
            seed=seed,
            device="cpu",
            output=run,
            # asked again in batches: one by one takes longer than the search
            config=trained_as_asked(settings, quick=quick),
        )
    write_json(file, figures(run, data, training))


def prepare(data: str, training: str | None, *, quick: bool) -> None:
    """GAN, filters, cells and judge of a data set, into the cache."""
    images, config = load_data(data), trained_as_asked(_SETTINGS, quick=quick)
    cells = cell_store.prepare(images, device=CPU)
    split = DataSplit(images, config.split)
    made = prepare_source(split, config, FamilyContext(cells.encoder, CPU, Progress()))
    jury = None
    if images.labels is not None:
        known = RealLabels(images.labels, "given")
        jury = prepare_jury(split, known, config, device=CPU, progress=Progress()).recogniser
    make_pipeline(split, made.scorer, config, recogniser=jury, batch_size=128, device=CPU, progress=Progress())
    if training is not None:
        judge_for(load_data(training), images)


def run(arguments: argparse.Namespace) -> None:
    """All cells that are not there yet."""
    budgets = [Budget(seconds=arguments.seconds)] if arguments.seconds else []
    budgets += [Budget(queries=arguments.queries)] if arguments.queries else []
    ready: set[str] = set()
    for seed in range(arguments.seeds):
        for budget in budgets:
            for name, a, b, data in arguments.pair:
                for way in arguments.techniques:
                    file = arguments.out / name / str(budget) / f"{way}-{seed}.json"
                    if file.is_file():
                        continue
                    if data not in ready:
                        prepare(data, arguments.training, quick=arguments.quick)
                        ready.add(data)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    about = a, b, data, str(budget), seed, arguments.training, arguments.quick, arguments.source
                    said = _called(cell, file, way, *about) or file.read_text(encoding="utf-8")
                    print(f"{file.relative_to(arguments.out)}: {' '.join(said.split())[:300]}", flush=True)


def _called(function: Function, *arguments: Any) -> str:
    """Call it in a process of its own; what it failed of, or nothing."""
    pool = Processes()
    try:
        pool.start(0, function, *arguments)
        while not (ends := [each for _, each in pool.events(60) if isinstance(each, Ended)]):
            continue
        return "" if ends[0].failure is None else f"failed: {ends[0].failure.text}"
    finally:
        pool.close()


def read(out: Path) -> list[dict[str, Any]]:
    """Every cell that came to its end."""
    rows = []
    for file in sorted(out.glob("*/*/*.json")):
        way, _, seed = file.stem.rpartition("-")
        about = {"pair": file.parent.parent.name, "budget": file.parent.name, "technique": way, "seed": int(seed)}
        if way in WAYS:
            rows.append(about | json.loads(file.read_text(encoding="utf-8")))
    return rows


def _values(rows: Sequence[dict[str, Any]], name: str) -> list[float]:
    return [float(row[name]) for row in rows if row.get(name) is not None]


def _mean(values: Sequence[float]) -> str:
    if not values:
        return ""
    mean = float(np.mean(values))
    shown: Callable[[float], str] = (lambda x: f"{x:,.0f}") if abs(mean) >= 100 else (lambda x: f"{x:.2f}")
    interval = mean_over_runs(values)
    if interval is None:
        return shown(mean)
    half = (interval[1] - interval[0]) / 2
    return f"{shown(mean)} ± {shown(half)} ({coefficient_of_variation(values):.0%})"


def table(out: Path) -> None:
    """CSV, Markdown and plot of all cells that are there."""
    rows = read(out)
    names = ["pair", "budget", "technique", "seed", "seconds", *FIGURES]

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, names, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)

    write_whole(out / "techniques.csv", write)
    lines = [
        "Mean over the runs ± half of its 95 % interval, Student's (coefficient of variation). Each p (Mann-Whitney) "
        "is that of its row alone: among twenty rows without a difference one is below 0.05."
    ]
    groups = sorted({(row["pair"], row["budget"]) for row in rows})
    for pair, budget in groups:
        here = {
            way: cells
            for way in WAYS
            if (cells := [r for r in rows if (r["pair"], r["budget"], r["technique"]) == (pair, budget, way)])
        }
        lines += ["", f"## {pair}, {budget}", ""]
        lines += ["| technique | seeds | " + " | ".join(FIGURES.values()) + " |"]
        lines += ["|---|" + "---:|" * (len(FIGURES) + 1)]
        for way, cells in here.items():
            shown = [_mean(_values(cells, name)) for name in FIGURES]
            lines.append(f"| {way} | {len(cells)} | " + " | ".join(shown) + " |")
        others = [way for way in here if way != "diffgan" and len(here[way]) > 1]
        if len(here.get("diffgan", ())) > 1 and others:
            lines += ["", "| `diffgan` against | figure | ratio of means | A12 | p |", "|---|---|---:|---:|---:|"]
            for way in others:
                for name in ("valid", "judge_valid", "behaviours"):
                    x, y = _values(here["diffgan"], name), _values(here[way], name)
                    if x and y:
                        found = mann_whitney(x, y)
                        ratio = np.mean(x) / np.mean(y) if np.mean(y) else math.inf
                        lines.append(
                            f"| {way} | {FIGURES[name]} | {ratio:.2f} | {found.a12:.2f} | {found.p_value:.3f} |"
                        )
    write_text(out / "techniques.md", "\n".join(lines) + "\n")
    _plot(rows, groups, out / "techniques.png")


def _plot(rows: Sequence[dict[str, Any]], groups: Sequence[tuple[str, str]], path: Path) -> None:
    """Every cell as a point: valid, judge-valid, behaviours."""
    from matplotlib.figure import Figure

    shown = ("valid", "judge_valid", "behaviours")
    figure = Figure(figsize=(4 * len(shown), 0.6 + 2.2 * max(len(groups), 1)), layout="constrained")
    axes = figure.subplots(max(len(groups), 1), len(shown), squeeze=False)
    for line, (pair, budget) in zip(axes, groups, strict=False):
        for place, name in zip(line, shown, strict=True):
            for height, way in enumerate(WAYS):
                here = [r for r in rows if (r["pair"], r["budget"], r["technique"]) == (pair, budget, way)]
                values = _values(here, name)
                place.plot(values, [height] * len(values), "o", alpha=0.7)
            place.set_yticks(range(len(WAYS)), list(WAYS) if name == shown[0] else [""] * len(WAYS))
            place.set_ylim(len(WAYS) - 0.5, -0.5)
            place.set_xlim(left=0)
            place.grid(axis="x", alpha=0.3)
            place.set_title(f"{pair}, {budget}: {FIGURES[name]}", fontsize=9)
    write_whole(path, lambda temporary: figure.savefig(temporary, format="png", dpi=120))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    running = verbs.add_parser("run")
    running.add_argument("--pair", nargs=4, action="append", required=True, metavar=("NAME", "A", "B", "DATA"))
    running.add_argument("--techniques", nargs="+", choices=WAYS, default=list(WAYS))
    running.add_argument("--training", help="training split of the data, for the judge")
    encoding = [name for name, each in SOURCES.own().items() if "encoder" in each().gives(CompareConfig())]
    running.add_argument("--source", choices=encoding, help="of the techniques that encode images; default: their own")
    running.add_argument("--seconds", type=float)
    running.add_argument("--queries", type=int)
    running.add_argument("--seeds", type=int, default=3)
    add_quick(running)
    running.add_argument("--out", type=Path, required=True)
    tabulating = verbs.add_parser("table")
    tabulating.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.verb == "run":
        run(arguments)
    else:
        table(arguments.out)


if __name__ == "__main__":
    main()
