"""Random variations of the real images that keep their label: pictures that no search has chosen.

A rate on such pictures speaks of the models; one on what a search found speaks of the search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from diffgen.comparison.plan import Plan, Prepared
from diffgen.comparison.preflight import RealAnswers, differing
from diffgen.comparison.results import class_names
from diffgen.config import roles
from diffgen.errors import RunError
from diffgen.features.jury import NO_LABEL
from diffgen.gan_training.augmentation import plain_background
from diffgen.models.panel import panel_of
from diffgen.sampling import random_rows
from diffgen.sources.draws import UnsearchedDraws
from diffgen.sources.operators import Scene, is_grey
from diffgen.sources.seeds import SeedsFamily, SeedsSettings, SeedsSource
from diffgen.tasks.classification import disagree, widest_gap
from diffgen.types import Float32Array, Int64Array, UInt8Array
from diffgen.wording import percent

_BATCH = 1024


@dataclass(frozen=True, eq=False)
class Variations:
    """One variation each of N real images, as far as the jury still gives it the label of the image.

    Attributes:
        images: uint8 (N, C, H, W).
        labels: int64 (N,), those of the real images that they were made from.
        drawn: how many were made; the jury did not recognise the rest.
    """

    images: UInt8Array
    labels: Int64Array
    drawn: int


_PLAIN = 256  # real images that one operator changes, each another one
_OF_SEARCH = 0.25  # as many as this share of a search's queries, at most


def look_at_variations(plan: Plan, real: RealAnswers) -> None:
    """Ask the models about plain variations of some real images, and say on how many they differ.

    Each is another real image under one operator, as strong as is usual. Nothing is asked where a model is a table of
    answers or may only be asked so often.
    """
    count = min(_PLAIN, len(plan.images), int(_OF_SEARCH * (plan.config.budget.queries or _PLAIN / _OF_SEARCH)))
    if count == 0 or any(each.is_table or each.answers.images_left is not None for each in plan.models):
        return
    rows = np.sort(random_rows(len(plan.images), count, seed=plan.config.seed))
    seeds = plan.images.images[rows]
    scene = Scene(torch.from_numpy(seeds), plain_background(torch.from_numpy(seeds)), None, is_grey(seeds))
    source = SeedsSource(scene, SeedsSettings(steps=1), device=torch.device("cpu"))
    genes = source.space.sample(count, UnsearchedDraws(plan.config.seed))
    genes[:, source.space.continuous] = np.arange(count)
    parts = list[Float32Array]()
    with plan.progress.stage("Asking about plain variations of real images", total=count) as task:
        for part in torch.from_numpy(genes).split(min(_BATCH, plan.batch_size)):
            pictures = source.draw(part).numpy()
            parts.append(np.stack([model.predict(pictures) for model in plan.models], axis=1))
            task.advance(len(part))
    answers, before = np.concatenate(parts), np.isin(rows, real.disagreements)
    apart = disagree(torch.from_numpy(answers), real.summary.margin).numpy()
    new, first = np.flatnonzero(apart & ~before), ""
    if len(new) and panel_of(plan.models) is None:
        clearest = new[widest_gap(answers[new]).argmax()]
        recipe = source.origins(torch.from_numpy(genes[[clearest]])).recipes[0]
        names, labels = class_names(plan.models, plan.images), plan.images.labels
        shows = "" if labels is None else f" shows {names[labels[rows[clearest]]]}, and"
        labelled = zip(roles(plan.models), answers[clearest].argmax(axis=1), strict=True)
        said = [f"{role} says {names[each]}" for role, each in labelled]
        first = f" The clearest new one: real image {rows[clearest]:,}{shows} after {recipe} {', '.join(said)}."
    plan.progress.answer(
        "variations",
        f"Plain variations of {count:,} real images (each turned, moved, blurred or lit a little): "
        f"{differing(apart)}, and on {percent(before.mean())} of the same images as they are.{first}",
    )


def vary(prepared: Prepared, count: int) -> Variations:
    """Up to ``count`` random variations: the operators of the source ``seeds``, with strengths in their ranges.

    Each is made from another real image, so that no two depend on each other. Neither images nor strengths are those
    that a search draws, whatever its seed.

    Args:
        prepared: has a jury. Without labels, an image has the name that the jury gives it, if it recognises it.
    """
    recogniser, images = prepared.recogniser, prepared.images.images
    assert recogniser is not None
    labels = prepared.images.labels
    if labels is None:
        parts = [recogniser.read(torch.from_numpy(batch)) for batch in _batches(images)]
        labels = np.concatenate([np.where(part.recognised, part.named, NO_LABEL) for part in parts])
    source = SeedsFamily().prepare(prepared.split, prepared.config, prepared.context).source
    if not isinstance(source, SeedsSource):
        raise RunError("There are no real images to be varied.")
    rows = np.random.default_rng(np.random.SeedSequence([prepared.config.seed, 1])).permutation(len(labels))
    rows, draws = rows[labels[rows] != NO_LABEL], UnsearchedDraws(prepared.config.seed)
    kept_images: list[UInt8Array] = []
    kept_labels: list[Int64Array] = []
    kept = drawn = 0
    wanted = min(count, len(rows))
    with prepared.progress.stage("Making variations of real images", total=wanted) as task:
        while kept < count and drawn < len(rows):
            seeds = rows[drawn : drawn + _BATCH]
            genes = source.space.sample(len(seeds), draws)
            genes[:, source.space.continuous] = seeds  # the column of the seed
            for part in torch.from_numpy(genes).split(prepared.batch_size):
                made, of = source.draw(part).cpu(), labels[rows[drawn : drawn + len(part)]]
                recognised = np.flatnonzero(recogniser.read(made, of).recognised)[: count - kept]
                kept_images.append(made[torch.from_numpy(recognised)].numpy())
                kept_labels.append(of[recognised])
                # of a part that was not needed to its end only what came before the last one kept
                drawn += len(part) if len(recognised) < count - kept else int(recognised[-1]) + 1
                kept += len(recognised)
                task.reach(wanted * max(kept / count, drawn / len(rows)))
                if kept == count:
                    break
    shape = prepared.images.images.shape[1:]
    return Variations(
        np.concatenate(kept_images) if kept_images else np.empty((0, *shape), dtype=np.uint8),
        np.concatenate(kept_labels) if kept_labels else np.empty(0, dtype=np.int64),
        drawn,
    )


def _batches(images: UInt8Array) -> Iterator[UInt8Array]:
    """Consecutive images, of a map in memory of their own; those in memory all at once."""
    if not isinstance(images, np.memmap):
        yield images
        return
    for start in range(0, len(images), _BATCH):
        yield np.array(images[start : start + _BATCH])
