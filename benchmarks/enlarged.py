"""A run with as many triggers as one likes, made from one that is there; written by the storage of the program itself.

Its triggers are those of the other run again and again, each with noise of its own and therefore with a hash of its
own, in random cells; answers, filter scores and what the jury says are those of the picture that a copy is of. A near-
duplicate repeats the copy of its own picture that was made in the same round.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from diffgen.comparison.verdicts import choose_shown
from diffgen.features.cells import CELLS
from diffgen.metrics.counting import NOT_VALID
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import counted, read_finished, write_results
from diffgen.runs.triggers import TriggerTable, Verdicts
from diffgen.types import Int64Array

_PART = 2048
_NOISE = 9  # grey levels


def enlarged(source: Path, target: Path, count: int) -> Path:
    """A run of ``count`` triggers, each like one of the source."""
    shutil.copytree(source, target)
    for name in ("shrunk.npz", "labels.npz", "report.html"):
        (target / name).unlink(missing_ok=True)
    table, folder, random = RunFolder.open(source).read_judged(), RunFolder.open(target), np.random.default_rng(0)
    rows, queries = np.arange(count) % len(table), np.sort(random.integers(1, 4 * count, count))
    shutil.rmtree(target / "triggers")
    folder.make_folder("triggers")
    folder.save_manifest(parts=[])
    for start in range(0, count, _PART):
        part = table[rows[start : start + _PART]]
        noisy = part.images.astype(np.int16) + random.integers(-_NOISE, _NOISE + 1, part.images.shape, dtype=np.int16)
        made = TriggerTable.of(np.clip(noisy, 0, 255).astype(np.uint8), part.probabilities)
        kept = {name: getattr(part, name) for name in ("divergence", "diversity", "generation", "genes", "seeds")}
        kept |= {"recipes": part.recipes, "classes": part.classes, "query": queries[start : start + _PART]}
        folder.write_part(replace(made, **kept))
    verdicts = replace(
        table.known[rows],
        cells=random.integers(0, CELLS, count),
        near_duplicate_of=_repeated(table.known.near_duplicate_of, count),
    )
    folder.write_arrays("verdicts", verdicts.as_arrays())
    _describe(folder, verdicts)
    return target


def _repeated(near_duplicate_of: Int64Array, count: int) -> Int64Array:
    """int64 (count,): in each round through the source's triggers a copy repeats one of that round."""
    size = len(near_duplicate_of)
    again = near_duplicate_of[np.arange(count) % size]
    return np.where(again == NOT_VALID, NOT_VALID, again + np.arange(count) // size * size)


def _describe(folder: RunFolder, verdicts: Verdicts) -> None:
    """Count the figures anew, and choose anew what the report shows."""
    table, results = folder.read_triggers().judged(verdicts), read_finished(folder)
    found = counted(table, classes=len(results.class_names), queries=4 * len(table), history=results.history)
    write_results(folder, replace(results, queries=4 * len(table), triggers=int(table.confirmed.sum()), **found))
    arrays, shown = folder.read_arrays("report"), choose_shown(table)
    before = len(arrays["shown"])
    for name in ("nearest_real", "shown_scores"):
        beside = np.resize(np.arange(before), len(shown)) if before else np.empty(0, dtype=np.int64)
        arrays[name] = np.concatenate([arrays[name][:before][beside], arrays[name][before:]])
    folder.write_arrays("report", {**arrays, "shown": shown})
