"""What a search finds: presets, the baseline, the published loop, ablations, in equal time and in equal queries.

    python -m benchmarks.search run --pair mnist a.pt b.onnx DATA --out OUT --seconds 120 --queries 40000 --seeds 5
    python -m benchmarks.search table --out OUT > benchmarks/results/search.md

``run`` makes one JSON file for each pair, budget, variant and seed, and leaves out those that are there: it can be
broken off and started again, and ``--pair`` may be given several times. The order is by seed, so that what is there at
any time is balanced. ``table`` makes Markdown of all that is there: medians over the seeds, and for each variant
against ``default`` the Mann-Whitney test and the effect size A12 (Vargha and Delaney 2000: how often a run of
``default`` finds more than one of the variant, ties half).

Behaviours and label pairs are counted among valid triggers, near-duplicates once (version 0.1 counted each).
``effective`` is exp of the entropy of their label pairs. ``geometric diversity`` is the mean log-determinant of the
Gram matrix of 50 of their domain features at length 1 (after Aghababaeyan et al. 2023), over 20 draws.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

# as the command line does; before torch is imported
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch

from benchmarks.published_loop import PublishedLoop
from benchmarks.quick import add_quick, trained_as_asked
from benchmarks.significance import mann_whitney
from diffgen.comparison.filter_chain import make_pipeline
from diffgen.comparison.image_source import prepare_source
from diffgen.comparison.machine import resolve_batch_size, search_batch_size
from diffgen.comparison.preflight import inspect_real_images, prepare_models
from diffgen.config import Budget, CompareConfig, FilterConfig, SearchConfig, SourceConfig
from diffgen.data import load as load_data
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features import cells as cell_store
from diffgen.features.cells import Cells
from diffgen.filters import FilterPipeline
from diffgen.judging.verdicts import judge_triggers
from diffgen.metrics.figures import effective_number
from diffgen.models import BlackBox
from diffgen.models import load as load_model
from diffgen.runs.files import write_json
from diffgen.runs.triggers import TriggerTable
from diffgen.search.archive import Archive
from diffgen.search.behaviours import Behaviours
from diffgen.search.divergence import DIVERGENCES
from diffgen.search.diversity import warm_up
from diffgen.search.evaluator import Evaluator, by_filters
from diffgen.search.loop import SearchLoop
from diffgen.search.memory import BatchHalver
from diffgen.sources.base import FamilyContext, ImageSource
from diffgen.techniques import Technique, TechniqueContext, make, preset

_CPU = torch.device("cpu")
_DEFAULT = preset("diffgan", "default").search
_SAMPLE, _DRAWS = 50, 20

# what each variant searches with; the published loop and random latent vectors are techniques of their own
VARIANTS: dict[str, SearchConfig] = {
    "default": _DEFAULT,
    "paper": preset("diffgan", "paper").search,
    "random_latent": _DEFAULT,
    "published_loop": PublishedLoop.config,
    "plain": replace(_DEFAULT, niches="none", population=100),
    # a remedy against one label pair that takes all
    "no_niches_500": replace(_DEFAULT, niches="none"),
    # the filters asked in the search, or only after it
    "post": replace(_DEFAULT, validity="post"),
    # Table 3 of the paper
    "divergence_only": replace(_DEFAULT, objectives="divergence"),
    "diversity_only": replace(_DEFAULT, objectives="diversity"),
    "paper_divergence_only": replace(preset("diffgan", "paper").search, objectives="divergence"),
    "paper_diversity_only": replace(preset("diffgan", "paper").search, objectives="diversity"),
    # objectives
    "jensen_shannon": replace(_DEFAULT, divergence="jensen-shannon"),
    "top2_margin": replace(_DEFAULT, divergence="top2-margin"),
    "features": replace(_DEFAULT, diversity="features"),
    # clustering: reducer, sample, schedule
    "umap": replace(_DEFAULT, reducer="umap", reducer_dim=10),
    "sample_300": replace(_DEFAULT, cluster_sample=300),
    "sample_3000": replace(_DEFAULT, cluster_sample=3000),
    "growth_5": replace(_DEFAULT, cluster_growth=0.05),
    "growth_100": replace(_DEFAULT, cluster_growth=1.0),
}
METRICS = {
    "queries": "queries",
    "processor_seconds": "processor s",
    "triggers": "triggers",
    "valid": "valid",
    "behaviours": "behaviours",
    "label_pairs": "label pairs",
    "effective_pairs": "effective",
    "largest_share": "largest pair",
    "geometric_diversity": "geometric diversity",
}


@dataclass(frozen=True)
class Pair:
    """Two models, the generator of their data, and what judges the pictures."""

    name: str
    models: tuple[BlackBox, BlackBox]
    domain: ImageSource
    cells: Cells
    pipeline: FilterPipeline
    margin: float


def prepare(name: str, paths: Sequence[str], data: str, config: CompareConfig, progress: Progress) -> Pair:
    """Everything that comes before a search, as ``diffgen compare`` does it."""
    images = load_data(data, progress=progress)
    batch = resolve_batch_size(None, _CPU)
    first, second = (load_model(path, batch_size=batch) for path in paths)
    prepare_models((first, second), images)
    real = inspect_real_images((first, second), images, progress=progress)
    cells = cell_store.prepare(images, device=_CPU, progress=progress)
    split = DataSplit(images, config.split)
    domain = prepare_source(split, config, FamilyContext(cells.encoder, _CPU, progress))
    pipeline = make_pipeline(split, domain.scorer, config, batch_size=batch, device=_CPU, progress=progress)
    return Pair(name, (first, second), domain, cells, pipeline, real.summary.margin)


def search(pair: Pair, variant: str, budget: Budget, seed: int) -> dict[str, Any]:
    """One run and its figures."""
    config = VARIANTS[variant]
    parts: list[TriggerTable] = []
    assert pair.domain.source is not None
    archive = Archive(pair.domain.source.image_shape, sink=parts.append)
    guided = config.validity != "post" and variant not in ("published_loop", "random_latent")
    batch = resolve_batch_size(None, _CPU)
    memory = BatchHalver(size=batch)
    evaluator = Evaluator(
        pair.models,
        archive=archive,
        margin=pair.margin,
        memory=memory,
        divergence=DIVERGENCES[config.divergence],
        behaviours=Behaviours(pair.cells.assign, FilterConfig().near_duplicate),
        examine=by_filters(pair.pipeline.violation) if guided else None,
    )
    context = TechniqueContext(
        archive=archive,
        source=pair.domain.source,
        config=config,
        seed=seed,
        device=_CPU,
        batch_size=search_batch_size(batch),
        memory=memory,
        has_cells=True,
        guided=guided,
        encoder=pair.cells.encoder,
    )
    if variant == "published_loop":
        technique: Technique = PublishedLoop(context)
    else:
        technique = make("random_latent" if variant == "random_latent" else "diffgan", context)
    generations = [0]

    def count() -> None:
        generations[0] += 1

    warm_up(config)  # not on the clock of a search
    loop = SearchLoop(technique, evaluator, budget=budget, batch_size=search_batch_size(batch))
    loop.start()
    before = time.process_time()
    loop.run(on_generation=count)
    processor, seconds = time.process_time() - before, loop.seconds
    archive.flush(everything=True)
    figures = {
        "queries": evaluator.queries,
        "seconds": round(seconds, 2),
        "processor_seconds": round(processor, 2),
        "generations": generations[0],
    }
    return figures | _judged(pair, parts)


def _judged(pair: Pair, parts: list[TriggerTable]) -> dict[str, Any]:
    if not parts:
        return dict.fromkeys(("triggers", "valid", "behaviours", "label_pairs", "effective_pairs"), 0)
    judged = judge_triggers(
        pair.models,
        TriggerTable.joined(parts),
        pair.pipeline,
        pair.cells,
        near_duplicate=FilterConfig().near_duplicate,
        verify_limit=0,
        progress=Progress(),
    )
    found = judged[judged.distinct]
    labels, images = found.labels, found.images
    _, counts = np.unique(labels, axis=0, return_counts=True)
    return {
        "triggers": int(judged.confirmed.sum()),
        "valid": int(judged.valid.sum()),
        "behaviours": len(np.unique(found.behaviours, axis=0)),
        "label_pairs": len(counts),
        "effective_pairs": round(effective_number(labels), 2),
        "largest_share": round(float(counts.max() / counts.sum()), 4) if len(counts) else None,
        "geometric_diversity": geometric_diversity(pair.cells, torch.from_numpy(images)),
    }


def geometric_diversity(cells: Cells, images: torch.Tensor) -> float | None:
    """See the module; None for fewer images than one sample needs."""
    if len(images) < _SAMPLE:
        return None
    rng = np.random.default_rng(0)
    values = []
    for _ in range(_DRAWS):
        rows = torch.from_numpy(rng.choice(len(images), _SAMPLE, replace=False))
        features = torch.nn.functional.normalize(cells.encoder.encode(images[rows]), dim=1).double()
        # a small ridge: two pictures that are nearly alike must not decide alone
        values.append(float(torch.logdet(features @ features.T + 1e-4 * torch.eye(_SAMPLE))))
    return round(float(np.mean(values)), 3)


def run(arguments: argparse.Namespace) -> None:
    """All runs that are not there yet."""
    config = trained_as_asked(CompareConfig(source=SourceConfig(family="seeds")), quick=arguments.quick)
    budgets = []
    if arguments.seconds:
        budgets.append(Budget(seconds=arguments.seconds))
    if arguments.queries:
        budgets.append(Budget(queries=arguments.queries))
    prepared: dict[str, Pair] = {}
    for seed in range(arguments.seeds):
        for budget in budgets:
            for name, a, b, data in arguments.pair:
                for variant in arguments.variants:
                    path = arguments.out / name / str(budget) / f"{variant}-{seed}.json"
                    if path.is_file():
                        continue
                    if name not in prepared:
                        prepared[name] = prepare(name, (a, b), data, config, Progress())
                    figures = search(prepared[name], variant, budget, seed)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    write_json(path, figures)
                    print(f"{path.relative_to(arguments.out)}: {json.dumps(figures)}", flush=True)


def table(out: Path) -> list[str]:
    """Markdown of all runs in a folder."""
    lines = []
    for folder in sorted(path for path in out.glob("*/*") if path.is_dir()):
        runs = _read(folder)
        if not runs:
            continue
        most = max(map(len, runs.values()))
        alone = "Each p (Mann-Whitney) is that of its row alone."
        lines += [f"## {folder.parent.name}, {folder.name}", "", f"Medians of up to {most} seeds. {alone}", ""]
        lines += ["| search | seeds | " + " | ".join(METRICS.values()) + " |", "|---|" + "---:|" * (len(METRICS) + 1)]
        for variant, found in runs.items():
            cells = [_median(found, metric) for metric in METRICS]
            lines.append(f"| {variant} | {len(found)} | " + " | ".join(cells) + " |")
        lines.append("")
        base = runs.get("default", [])
        others = [name for name in runs if name != "default"]
        if len(base) > 1 and others:
            lines += ["| `default` against | valid: ratio, A12, p | behaviours: ratio, A12, p |", "|---|---|---|"]
            for variant in others:
                compared = []
                for metric in ("valid", "behaviours"):
                    x, y = [r[metric] for r in base], [r[metric] for r in runs[variant]]
                    against = mann_whitney(x, y)
                    ratio = np.median(x) / np.median(y) if np.median(y) else math.inf
                    compared.append(f"{ratio:.2f}, {against.a12:.2f}, {against.p_value:.3f}")
                lines.append(f"| {variant} | {compared[0]} | {compared[1]} |")
            lines.append("")
    return lines


def _read(folder: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for variant in VARIANTS:
        paths = sorted(folder.glob(f"{variant}-[0-9]*.json"), key=lambda path: int(path.stem.rsplit("-", 1)[1]))
        if paths:
            found[variant] = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return found


def _median(runs: Iterable[dict[str, Any]], metric: str) -> str:
    values = [run[metric] for run in runs if run.get(metric) is not None]
    if not values:
        return ""
    value = float(np.median(values))
    if metric == "largest_share":
        return f"{value:.0%}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def main() -> None:
    """Run or tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    running = verbs.add_parser("run")
    running.add_argument("--pair", nargs=4, action="append", required=True, metavar=("NAME", "A", "B", "DATA"))
    running.add_argument("--variants", nargs="+", choices=VARIANTS, default=("default", "paper", "random_latent"))
    running.add_argument("--seconds", type=float)
    running.add_argument("--queries", type=int)
    running.add_argument("--seeds", type=int, default=5)
    add_quick(running)
    running.add_argument("--out", type=Path, required=True)
    tabulating = verbs.add_parser("table")
    tabulating.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.verb == "run":
        run(arguments)
    else:
        print("\n".join(table(arguments.out)))


if __name__ == "__main__":
    main()
