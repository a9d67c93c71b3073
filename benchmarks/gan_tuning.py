"""What tuning does for the GAN: scores before and after, the best settings, the share of trials that were pruned.

    python -m benchmarks.gan_tuning DATA [--trials 12] [--steps N] [--storage FILE] [--out FILE]

Every trial runs the quick schedule; trial 1 has the default settings and is "before". Then both settings are trained
again with seeds that the study has not seen, since the best of twelve is also the luckiest of twelve. Scores are those
of the paper (10,000 generated against 10,000 real images, ten draws, features of the domain encoder); the objective of
the study sees 5,000 against the held-out ones only. Writes benchmarks/results/gan-tuning.md; a run that was broken off
goes on with the same command.
"""

from __future__ import annotations

import argparse
import platform
import shlex
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.quick import add_quick, hardly_trained
from diffgen.comparison.machine import resolve_device
from diffgen.config import GanConfig, SplitConfig, TrainGanConfig, TuningConfig, replace
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.events import Event, Message, Progress
from diffgen.features import cells
from diffgen.gan_training.checkpoint import read_header
from diffgen.sources import gan as gan_loader
from diffgen.sources.base import FamilyContext
from diffgen.sources.gan import train_and_save
from diffgen.types import ImageSet
from diffgen.workflows.gan_tuning import score
from diffgen.workflows.train_gan import train_gan

RESULTS = Path(__file__).parent / "results" / "gan-tuning.md"
FRESH_SEEDS = (101, 102, 103)
_SCORES = ("fid", "kid", "precision", "recall", "coverage")


def _print(event: Event) -> None:
    if isinstance(event, Message) and event.level != "detail":
        print(f"{'warning: ' if event.level == 'warning' else ''}{event.text}", flush=True)


def fresh_scores(
    data: ImageSet, config: GanConfig, seeds: tuple[int, ...], arguments: argparse.Namespace
) -> list[dict[str, float]]:
    """Train with each seed, and score."""
    device = resolve_device("auto")
    encoder = cells.prepare(data, device=device).encoder
    found = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "gan.safetensors"
            context = FamilyContext(encoder, device, Progress())
            train_and_save(DataSplit(data, SplitConfig()), replace(config, seed=seed), context, path)
            generator, _, _ = gan_loader.load(path, device=device)
            scores = score(generator, data, None, encoder, draws=arguments.draws, images=arguments.images).as_dict()
        found.append({name: scores[name]["mean"] for name in _SCORES})
        print(f"seed {seed}: " + ", ".join(f"{name} {value:.4f}" for name, value in found[-1].items()), flush=True)
    return found


def table(before: list[dict[str, float]], after: list[dict[str, float]]) -> list[str]:
    """Means and ranges over the seeds."""

    def cell(values: list[float]) -> str:
        return f"{sum(values) / len(values):.4f} ({min(values):.4f} to {max(values):.4f})"

    lines = ["| score | before | after |", "|---|---|---|"]
    for name in _SCORES:
        lines.append(f"| {name} | {cell([each[name] for each in before])} | {cell([each[name] for each in after])} |")
    return lines


def page(
    header: dict[str, Any],
    before: list[dict[str, float]],
    after: list[dict[str, float]],
    *,
    data: ImageSet,
    minutes: float,
    arguments: argparse.Namespace,
) -> str:
    """The page of results."""
    study = header["tuning"]
    trials = study["trials"]
    states = [trial["state"] for trial in trials]
    best = next(trial for trial in trials if trial["number"] == study["best"])
    own = next((trial for trial in trials if trial["number"] == 0), None)
    own_kid = f"{own['scores']['kid']:.5f}" if own is not None and own["scores"] else "not complete"
    usual = asdict(GanConfig())
    lines = [
        "# Tuning the GAN",
        "",
        f"    python -m benchmarks.gan_tuning {shlex.join(sys.argv[1:])}",
        "",
        f"{platform.machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads, {header['device']}; "
        f"{minutes:.0f} minutes for what this command had to do. Data: {len(data):,} images.",
        "",
        f"{len(trials)} trials: {states.count('complete')} complete, {states.count('pruned')} pruned "
        f"({states.count('pruned') / len(trials):.0%}), {states.count('failed')} failed. KID of the first trial, which "
        f"has the default settings: {own_kid}; of the best, trial {best['number'] + 1}: {best['scores']['kid']:.5f}.",
        "",
        f"## Scores on fresh seeds ({', '.join(map(str, FRESH_SEEDS[: arguments.seeds]))})",
        "",
        f"Mean and range over the seeds; {arguments.images:,} generated images, {arguments.draws} draws each.",
        "",
        *table(before, after),
        "",
        "## Settings of the best trial",
        "",
        "| setting | default | best |",
        "|---|---|---|",
        *(f"| {name} | {usual[name]} | {value} |" for name, value in study["settings"].items()),
        "",
        "## Trials",
        "",
        "| trial | outcome | KID | FID | seconds | readings |",
        "|---|---|---|---|---|---|",
    ]
    for trial in trials:
        scores = trial["scores"]
        kid, fid = (f"{scores['kid']:.5f}", f"{scores['fid']:.3f}") if scores else ("", "")
        seconds, readings = f"{trial['seconds']:.0f}", len(trial["readings"])
        lines.append(f"| {trial['number'] + 1} | {trial['state']} | {kid} | {fid} | {seconds} | {readings} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--steps", type=int, help="updates of a trial (default: the quick schedule)")
    parser.add_argument("--storage")
    add_quick(parser)
    parser.add_argument("--seeds", type=int, default=len(FRESH_SEEDS), help="fresh seeds, at most %(default)s")
    parser.add_argument("--draws", type=int, default=TrainGanConfig().draws)
    parser.add_argument("--images", type=int, default=TrainGanConfig().images)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    started = time.monotonic()
    data = load(arguments.data)
    gan = replace(GanConfig(), schedule="quick", steps=arguments.steps)
    if arguments.quick:
        gan = hardly_trained(gan)
    config = TrainGanConfig(
        gan=gan,
        tuning=replace(TuningConfig(), trials=arguments.trials, storage=arguments.storage),
        draws=arguments.draws,
        images=arguments.images,
    )
    result = train_gan(data, config=config, events=_print)
    header = read_header(Path(result.gan))
    seeds = FRESH_SEEDS[: arguments.seeds]
    print("before", flush=True)
    before = fresh_scores(data, gan, seeds, arguments)
    print("after", flush=True)
    after = fresh_scores(data, replace(gan, **header["tuning"]["settings"]), seeds, arguments)
    minutes = (time.monotonic() - started) / 60
    arguments.out.write_text(page(header, before, after, data=data, minutes=minutes, arguments=arguments))
    print(f"written: {arguments.out}\nreport: {result.report}")


if __name__ == "__main__":
    main()
