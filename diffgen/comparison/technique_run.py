"""Runs a technique and keeps what it finds: parts, checkpoints, the curves of the search."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

import numpy as np
import torch

from diffgen.comparison.announcements import Announcements
from diffgen.comparison.checkpoints import Checkpointer, History, newest_usable, read_state
from diffgen.comparison.machine import search_batch_size
from diffgen.comparison.plan import Learned, Prepared
from diffgen.comparison.preflight import RealAnswers
from diffgen.comparison.requirements import asks_filters_in_search
from diffgen.comparison.verdicts import seed_labels
from diffgen.config import CompareConfig, roles
from diffgen.errors import RunError
from diffgen.features.jury import Recogniser
from diffgen.filters import RecognitionFilter
from diffgen.models.patience import impatient
from diffgen.numerics import all_threads, torch_threads
from diffgen.runs.folder import RunFolder
from diffgen.runs.images import ImageColumn
from diffgen.runs.triggers import TriggerTable
from diffgen.search.archive import Archive
from diffgen.search.behaviours import Behaviours
from diffgen.search.divergence import DIVERGENCES
from diffgen.search.evaluator import Evaluator, Examined
from diffgen.search.loop import SearchLoop
from diffgen.search.memory import BatchHalver
from diffgen.search.proposal_check import check_proposal
from diffgen.search.screen import Accepts
from diffgen.search.staging import Stages, most_apart
from diffgen.sources.base import ImageSource
from diffgen.sources.space import random_genes
from diffgen.techniques import TECHNIQUES, RealImages, TechniqueContext, make, technique_class
from diffgen.types import BoolArray, ImageSet, Int64Array

_PROBES = 8
_SMALL = 3 * 32 * 32  # values of a picture; docs/decisions/055
_TIMED = 64  # pictures
# Times that drawing and recognising a picture takes, from which on models are worth screening for: it costs some ten of
# these a query, and finds in one query what five or six find without it (docs/decisions/059).
_PAYS = 2.5


@dataclass
class SearchOutcome:
    """What a search cost and how it went; all else about the triggers is in the run folder.

    Attributes:
        begun: there was a search, and the run did not end before it.
        saturated: it ended because nothing new was found any more.
        images: those of the triggers, which need not be read again.
        history: equally long lists "seconds", "queries", "triggers", one entry a generation.
        spared: how many times a model was not asked about a picture that two others were asked about.
    """

    queries: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    begun: bool = True
    saturated: bool = False
    images: ImageColumn | None = None
    history: History = field(default_factory=lambda: {"seconds": [], "queries": [], "triggers": []})
    spared: int = 0


def real_images(data: ImageSet, answers: RealAnswers) -> RealImages:
    """The real images as a technique begins with them."""
    return RealImages(data.images, data.labels, answers.answers)


def run_search(prepared: Prepared) -> SearchOutcome:
    """Search until the budget is used up or the user stops it; resume from the folder's checkpoint if there is one.

    The filters are asked in the search where they guide it, and where a search until nothing new is found has to know
    what will be counted at its end; where there are none, every verdict is known.

    Raises:
        RunError: a model failed or the disk is full; what was found until then is in the folder.
        UserError: another version of diffgen wrote the checkpoint.
    """
    folder, config, progress = prepared.folder, prepared.config, prepared.progress
    archive = Archive(prepared.images.image_shape, sink=folder.write_part)
    found = newest_usable(folder, progress)
    state: Mapping[str, Any] = {} if found is None else found[0]
    if found is not None and state.get("finished", False):
        return finished_before(prepared, *found)
    # what counts as a trigger must not change within a run
    loop = make_loop(prepared, archive, margin=state.get("margin", prepared.real.summary.margin))
    outcome = SearchOutcome()
    if found is not None:
        archive.restore(found[1])
        restore_loop(loop, state, folder)
        outcome.history = state["history"]
        progress.say(f"Going on after {state['queries']:,} queries and {len(archive):,} triggers.")
    checkpointer = Checkpointer(folder, loop.technique, loop, outcome.history)
    by_time = config.budget.seconds is not None
    total = config.budget.seconds if by_time else config.budget.queries
    with progress.stage("Searching for disagreements", total=total) as stage, impatient(progress.stop):
        announce = Announcements(progress, stage, loop, folder.path, by_time=by_time)
        loop.start(queries=state.get("queries", 0), seconds=state.get("seconds", 0.0))
        loop.evaluator.spared = state.get("spared", 0)

        try:
            with torch_threads(search_threads(prepared.source, prepared.images.image_shape)):
                loop.run(on_generation=checkpointer.after_generation, on_answer=announce)
            write_outcomes(prepared, loop.technique.outcomes())
        except BaseException as error:
            _keep_what_was_found(archive, error)
            raise
        outcome.queries, outcome.seconds = loop.evaluator.queries, loop.seconds
        outcome.spared = loop.evaluator.spared
        outcome.interrupted = progress.stop.stopped
        outcome.saturated = loop.saturated
        _say_why_it_ended(prepared, loop)
        checkpointer.record()
        if outcome.interrupted:
            # the unfinished generation is reported, and played again when the run is resumed
            archive.flush(everything=True)
        else:
            checkpointer.finish()
        announce()
    outcome.images = archive.image_column()
    return outcome


def write_outcomes(prepared: Prepared, counted: Mapping[str, Any]) -> None:
    """Keep what a technique has counted, if anything, and say what is remarkable about it."""
    if counted:
        prepared.folder.write_arrays("outcomes", counted)
        if remark := technique_class(prepared.config.technique).remark(counted):
            prepared.progress.warn(remark)


def finished_before(prepared: Prepared, state: Mapping[str, Any], triggers: TriggerTable) -> SearchOutcome:
    """How a search went that was finished before; see :func:`diffgen.comparison.checkpoints.newest_usable`."""
    prepared.progress.say(f"The search is finished ({state['queries']:,} queries); going on with what comes after it.")
    nothing = Archive(prepared.images.image_shape).image_column()
    return SearchOutcome(
        state["queries"],
        state["seconds"],
        saturated=state.get("saturated", False),
        spared=state.get("spared", 0),
        images=triggers.image_column if len(triggers) else nothing,
        history=state["history"],
    )


def count_of_behaviours(prepared: Prepared) -> Behaviours:
    """Counts what a search meets."""
    return Behaviours(prepared.cells.assign, prepared.config.filters.near_duplicate)


def filters_are_asked(prepared: Prepared) -> bool:
    """Whether every verdict of the filters is known in the search."""
    until_saturated = prepared.config.until == "saturated"
    return asks_filters_in_search(prepared.config) or until_saturated or not prepared.pipeline.filters


def stages_of(prepared: Prepared) -> Stages | None:
    """Which models are asked first, where not all are asked about everything; said aloud."""
    config, models = prepared.config, prepared.models
    if config.ask == "all":
        return None
    first = most_apart(prepared.real.answers.labels)
    letters = roles(models)
    prepared.progress.say(
        f"{letters[first[0]]} and {letters[first[1]]} differ on most real images and are asked first; the others are "
        f"asked about what these two differ on, and about {config.ask_share:.0%} of the rest (--ask all asks all)."
    )
    return Stages(first, config.ask_share, config.seed)


def search_threads(source: ImageSource, image_shape: tuple[int, int, int]) -> int:
    """With how many threads torch draws and judges pictures in a search; models that it asks have all there are.

    One is faster than two where small pictures are made from real ones. Nobody has measured more than two, nor pictures
    that a network draws.
    """
    networks = not source.real or source.artifact is not None
    return all_threads() if networks or prod(image_shape) > _SMALL else 1


def make_loop(prepared: Prepared, archive: Archive, *, margin: float) -> SearchLoop:
    """The loop with its technique and its evaluator, as the settings say."""
    config, progress = prepared.config, prepared.progress
    memory = BatchHalver(
        lambda size: progress.warn(
            f"There is too little memory for the batch; from now on {size:,} image(s) are handed over at once."
        )
    )
    examination = _Examination(prepared) if filters_are_asked(prepared) else None
    accepts = _Acceptance(examination) if examination is not None and asks_filters_in_search(config) else None
    context = _context(prepared, archive, memory, accepts)
    evaluator = Evaluator(
        prepared.models,
        archive=archive,
        margin=margin,
        memory=memory,
        divergence=DIVERGENCES[config.search.divergence],
        behaviours=count_of_behaviours(prepared),
        examine=examination,
        stages=stages_of(prepared),
        real_images=prepared.images.images,
        unchanged_count=technique_class(config.technique).asks_known_images,
    )
    technique = make(config.technique, context)
    # whoever starts the loop has not started its clock yet
    with progress.stage("Importing and compiling what the search needs"):
        technique.warm_up()
    return SearchLoop(
        technique,
        evaluator,
        budget=config.budget,
        batch_size=context.batch_size,
        saturation_queries=config.saturation_queries if config.until == "saturated" else None,
        stop=progress.stop,
    )


class _Examination:
    """Filters and jury, the jury once for both; see :class:`diffgen.search.evaluator.Examine`."""

    def __init__(self, prepared: Prepared) -> None:
        self.pipeline, self.recogniser = prepared.pipeline, prepared.recogniser
        self.labels = prepared.images.labels if prepared.jury.labels is None else prepared.jury.labels

    def __call__(self, images: torch.Tensor, seeds: Int64Array | None) -> Examined:
        if self.recogniser is None:
            return Examined(self.pipeline.violation(images))
        reading = self.recogniser.read(images, seed_labels(seeds, self.labels))
        return Examined(
            self.pipeline.violation(images, {RecognitionFilter.name: reading.certainty}), reading.recognised
        )


class _Acceptance:
    """See :class:`diffgen.search.screen.Accepts`; the filters are asked about what the jury recognises.

    Args:
        examination: what filters and jury are asked by.
    """

    def __init__(self, examination: _Examination) -> None:
        self._of = examination
        known = examination.recogniser is None or examination.recogniser.jury.small
        self.any_size = known and all(each.any_size for each in examination.pipeline.filters)

    def __call__(self, images: torch.Tensor, seeds: Int64Array) -> BoolArray:
        rows, known = np.arange(len(images)), {}
        if self._of.recogniser is not None:
            reading = self._of.recogniser.read(images, seed_labels(seeds, self._of.labels))
            rows = np.flatnonzero(reading.recognised)
            known = {RecognitionFilter.name: reading.certainty[rows]}
        accepted = np.zeros(len(images), dtype=np.bool_)
        if len(rows) == 0:
            return accepted
        accepted[rows] = self._of.pipeline.violation(images[torch.from_numpy(rows).to(images.device)], known) == 0
        return accepted


def screen_that_pays(
    config: CompareConfig, real: RealAnswers, made: ImageSource, recogniser: Recogniser | None
) -> Literal["auto", "both", "pictures", "none"]:
    """What a search looks at before the models are asked, where nobody has said it.

    In equal queries screening always pays. In equal seconds it does where the models take long enough; how long it
    takes itself is measured on a batch of pictures that is drawn and shown to the jury.

    Returns:
        "auto" where nothing is screened, whatever is said: pictures are not made from real images.
    """
    source, times = made.source, real.milliseconds
    if config.search.screen != "auto" or source is None or not source.space.real:
        return config.search.screen
    if config.budget.seconds is None or times is None or None in times:
        return "both"
    genes = random_genes(source.space, _TIMED, torch.Generator().manual_seed(0))
    took = 0.0
    for _ in range(2):  # the first one warms up
        start = time.perf_counter()
        pictures = source.draw(genes)
        if recogniser is not None:
            recogniser.read(pictures)
        took = (time.perf_counter() - start) * 1000 / _TIMED
    return "both" if sum(each or 0.0 for each in times) >= _PAYS * took else "none"


def try_out_technique(learned: Learned) -> None:
    """See, before there is a run folder, that a technique that is not diffgen's own proposes what models can be asked.

    It is made for this alone, so that the one that searches proposes what it would have.

    Raises:
        UserError: its first proposal cannot be.
    """
    if learned.config.technique in TECHNIQUES.own():
        return
    shape, count = learned.images.image_shape, len(learned.images)
    technique = make(learned.config.technique, _context(learned, Archive(shape), BatchHalver()))
    technique.warm_up()
    proposal = technique.propose(_PROBES)
    check_proposal(proposal, type(technique).__name__, room=_PROBES, image_shape=shape, real_images=count)
    proposal.origins_of(np.arange(len(proposal)))


def _context(
    learned: Learned, archive: Archive, memory: BatchHalver, accepts: Accepts | None = None
) -> TechniqueContext:
    """What a technique works with."""
    config = learned.config
    return TechniqueContext(
        archive=archive,
        source=learned.source.source,
        config=config.search,
        seed=config.seed,
        device=learned.device,
        batch_size=search_batch_size(learned.batch_size),
        memory=memory,
        has_cells=True,
        guided=asks_filters_in_search(config),
        encoder=learned.cells.encoder,
        real=real_images(learned.images, learned.real),
        scorer=learned.source.scorer,
        accepts=accepts,
        near_duplicate=config.filters.near_duplicate,
    )


def _say_why_it_ended(prepared: Prepared, loop: SearchLoop) -> None:
    if loop.exhausted_model is not None:
        prepared.progress.warn(
            f"The query budget of model {loop.exhausted_model.name} ended the search after {loop.evaluator.queries:,} "
            "queries; what is left of it is for asking again about the triggers."
        )
    if loop.saturated:
        prepared.progress.say(
            f"The search ends here: no new behaviour in the last {prepared.config.saturation_queries:,} queries."
        )


def restore_loop(loop: SearchLoop, state: Mapping[str, Any], folder: RunFolder) -> None:
    """Let a search go on from a checkpoint; its archive must be as it was then.

    Raises:
        UserError: another version of diffgen wrote the checkpoint.
    """
    evaluator = loop.evaluator
    with read_state(folder):
        loop.technique.restore(state)
        if evaluator.behaviours is not None:
            evaluator.behaviours.restore(state, evaluator.archive)


def _keep_what_was_found(archive: Archive, error: BaseException) -> None:
    """Write what waits, also what an unfinished generation found; another error on the way must not hide the first."""
    try:
        archive.flush(everything=True)
    except RunError as second:
        error.add_note(str(second))
