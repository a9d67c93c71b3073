"""Runs a technique and keeps what it finds: parts, checkpoints, the curves of the search."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from diffgen.config import CompareConfig
from diffgen.models import BlackBox
from diffgen.runs.folder import RunFolder
from diffgen.search.archive import Archive
from diffgen.search.evaluator import Evaluator
from diffgen.techniques import TechniqueContext, make
from diffgen.types import Generator, Progress, Task
from diffgen.workflows.interruption import graceful_stop

_CHECKPOINT_SECONDS = 10.0


@dataclass
class SearchOutcome:
    """What a search cost and how it went; the triggers themselves are in the run folder.

    Attributes:
        history: equally long lists "seconds", "queries", "triggers", "label_pairs", one entry a generation.
    """

    queries: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    history: dict[str, list[float]] = field(
        default_factory=lambda: {"seconds": [], "queries": [], "triggers": [], "label_pairs": []}
    )


def run_search(
    models: Sequence[BlackBox],
    generator: Generator,
    folder: RunFolder,
    config: CompareConfig,
    *,
    margin: float,
    batch_size: int,
    device: torch.device,
    progress: Progress,
) -> SearchOutcome:
    """Search until the budget is used up or the user stops it; a checkpoint in the folder is gone on from.

    Raises:
        RunError: a model failed; what was found until then is in the folder.
    """
    archive = Archive(generator.image_shape, sink=folder.write_part)
    evaluator = Evaluator(models, budget=config.budget, archive=archive, margin=margin, batch_size=batch_size)
    technique = make(
        config.technique,
        TechniqueContext(
            evaluator=evaluator, generator=generator, config=config.search, seed=config.seed, device=device
        ),
    )
    outcome = SearchOutcome()
    state = folder.read_checkpoint()
    if state is not None:
        # parts that were written after the checkpoint belong to generations that are played again
        folder.save_manifest(parts=folder.manifest["parts"][: state["parts"]])
        archive.restore(folder.read_parts())
        technique.restore(state)
        outcome.history = state["history"]
        progress.say(f"Going on after {state['queries']:,} queries and {len(archive):,} triggers.")
    elif folder.manifest["parts"]:
        folder.save_manifest(parts=[])
    last_checkpoint = time.monotonic()

    def record() -> None:
        for name, value in (
            ("seconds", round(evaluator.seconds, 3)),
            ("queries", evaluator.queries),
            ("triggers", len(archive)),
            ("label_pairs", archive.label_pairs()),
        ):
            outcome.history[name].append(value)

    def on_generation() -> None:
        nonlocal last_checkpoint
        record()
        if time.monotonic() - last_checkpoint >= _CHECKPOINT_SECONDS:
            archive.flush(everything=True)
            folder.write_checkpoint(
                {
                    **technique.checkpoint(),
                    "queries": evaluator.queries,
                    "seconds": evaluator.seconds,
                    "parts": len(folder.manifest["parts"]),
                    "history": outcome.history,
                }
            )
            last_checkpoint = time.monotonic()

    by_time = config.budget.seconds is not None
    total = config.budget.seconds if by_time else config.budget.queries
    with progress.task("Searching for disagreements", total=total) as task, graceful_stop(evaluator.stop, progress):

        def show() -> None:
            _show(task, evaluator, by_time=by_time)

        evaluator.start(
            on_answer=show,
            queries=0 if state is None else state["queries"],
            seconds=0.0 if state is None else state["seconds"],
        )
        try:
            technique.run(on_generation)
        finally:
            # also when a model failed: never lose what was found
            outcome.queries, outcome.seconds = evaluator.queries, evaluator.seconds
            outcome.interrupted = evaluator.stopped
            record()
            archive.flush(everything=True)
    return outcome


def _show(task: Task, evaluator: Evaluator, *, by_time: bool) -> None:
    seconds = max(evaluator.seconds, 1e-3)
    task.reach(
        seconds if by_time else evaluator.queries,
        queries_per_s=f"{evaluator.queries / seconds:,.0f}",
        triggers=f"{len(evaluator.archive):,}",
        label_pairs=evaluator.archive.label_pairs(),
    )
