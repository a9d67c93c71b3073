"""Writes the short list of real images whose labels tell most of the order of a run's models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffgen.comparison.black_boxes import match_classes
from diffgen.comparison.opened_run import OpenedRun
from diffgen.comparison.preflight import prepare_models
from diffgen.comparison.real_data import load_stored
from diffgen.comparison.seats import only_classifiers
from diffgen.config import ModelSpec
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.features.jury import Names
from diffgen.labels.sheet import Sheet, write_sheet
from diffgen.metrics.ranking import chances, doubt, draw, guessed_right
from diffgen.models import BlackBox
from diffgen.models.wording import shape_text
from diffgen.numerics import own_numerics
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import RunLock
from diffgen.runs.outputs import filled, output_folder
from diffgen.runs.results import read_finished
from diffgen.runs.triggers import HASH_BYTES, image_hashes
from diffgen.tasks.classification import differ
from diffgen.types import Float32Array, ImageSet, Int64Array, Result
from diffgen.wording import count_of

COUNT = 100
_BATCH = 1024


@dataclass(frozen=True)
class ShortList(Result):
    """A label sheet that was written.

    Attributes:
        run: the run folder.
        folder: where it is.
        pictures: on it.
        disagreements: real images on which models differ, of which they were drawn.
        images: real images that were asked about.
    """

    run: str
    folder: str
    pictures: int
    disagreements: int
    images: int


@own_numerics()
def rank_export(
    run: str | Path,
    output: str | Path,
    *,
    count: int = COUNT,
    data: Any = None,
    models: Sequence[Any] = (),
    options: Sequence[ModelSpec] = (),
    device: str | None = None,
    seed: int = 0,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> ShortList:
    """Write a blind label sheet of the real images whose labels tell most of the order of the models.

    Labels that the images have are not looked at. The run keeps what the models said of them (rank.npz), so that
    :func:`diffgen.rank` needs neither models nor images.

    Args:
        run: the run folder.
        output: the folder to make; it must not hold anything.
        count: most pictures on the sheet.
        data: real images to rank on, of the run's shape; None: the run's own.
        models: the run's models where it was given objects, or none.
        options: allows again what runs code; see :func:`diffgen.replay`.
        device: or None for the run's own.
        seed: which pictures are drawn.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: no finished run there, its models or images are gone, the images have another shape, or the
            models say the same of all of them.
    """
    progress = Progress(events, stop)
    if count < 2:
        raise UserError(f"The sheet is to have {count_of(count, 'picture')}; give a number from 2.")
    folder = RunFolder.open(run)
    place = output_folder(Path(output), kind="label sheet", option="--export")
    with folder.reading():
        classes = read_finished(folder).class_names
        shape = folder.read_arrays("report")["real_images"].shape[1:]
    opened = OpenedRun(folder, device)
    boxes = opened.models(models, options=options)
    images = opened.data(None, purpose="rank its models", progress=progress) if data is None else None
    pool = images if images is not None else load_stored(data, opened.config, progress)
    if pool.image_shape != tuple(shape):
        raise UserError(
            f"The images {pool.source} are {shape_text(pool.image_shape)}, but the run's are "
            f"{shape_text(tuple(shape))}; give images of the same shape."
        )
    prepare_models(boxes, pool, progress)
    only_classifiers(boxes, "diffgen rank")
    match_classes(boxes, (), pool.class_names)
    if boxes[0].num_classes != len(classes):
        raise UserError(f"The models answer with {boxes[0].num_classes} classes, but the run has {len(classes)}.")
    rows, said, posterior = asked_apart(boxes, pool, jury_of(opened, images, progress), progress)
    if len(rows) == 0:
        raise UserError(
            f"The models say the same of all {len(pool):,} images of {pool.source}, so that no label tells them apart; "
            "give others with --data."
        )
    guessed = guessed_right(posterior, said)
    chance = chances(doubt(guessed, said), count)
    chosen = draw(chance, seed)
    order = np.random.default_rng(seed).permutation(len(chosen))
    drawn = rows[chosen][order]
    pictures = pool.images[drawn]
    hashes = np.frombuffer(b"".join(image_hashes(pictures)), np.uint8).reshape(-1, HASH_BYTES)
    if len(np.unique(hashes, axis=0)) < len(hashes):
        raise UserError("Two pictures of the sheet are alike; draw others with --seed.")
    with RunLock(folder.path), filled(place) as unfinished:
        write_sheet(unfinished, Sheet(hashes, pictures, classes))
        folder.write_arrays(
            "rank",
            {
                "hashes": hashes,
                "said": said[chosen][order],
                "guessed": guessed[chosen][order],
                "chance": chance[chosen][order],
                "about": {
                    "images": len(pool),
                    "disagreements": len(rows),
                    "guessed": guessed.sum(axis=0, dtype=np.float64).tolist(),
                    "source": pool.source,
                },
            },
        )
    return ShortList(str(folder.path), str(place.path), len(chosen), len(rows), len(pool))


def jury_of(opened: OpenedRun, own: ImageSet | None, progress: Progress) -> Names | None:
    """The run's jury, or None: it has none, or its images are gone; ``own`` are these where they are in memory."""
    if "jury" not in opened.folder.manifest:
        return None
    try:
        images = opened.data(own, purpose="ask its jury", progress=progress)
        recogniser = opened.recogniser(DataSplit(images, opened.config.split), progress)
    except UserError as error:
        progress.warn(f"The jury of the run has no say in which pictures are chosen: {error}")
        return None
    return None if recogniser is None else recogniser.jury


def asked_apart(
    models: Sequence[BlackBox], pool: ImageSet, jury: Names | None, progress: Progress
) -> tuple[Int64Array, Int64Array, Float32Array]:
    """The rows on which models differ, what each says there, and what the picture may show, float32 (n, K)."""
    rows, said, posterior = [], [], []
    with progress.stage("Asking the models about the real images", total=len(pool)) as task:
        for start in range(0, len(pool), _BATCH):
            batch = pool.images[start : start + _BATCH]
            answers = np.stack([model.predict(batch) for model in models], axis=1)
            labels = answers.argmax(axis=2)
            apart = np.flatnonzero(differ(labels))
            guess = answers[apart].mean(axis=1)
            if jury is not None and len(apart):
                named = jury.answers(torch.from_numpy(np.ascontiguousarray(batch[apart]))).numpy()
                whole = np.zeros_like(guess)
                whole[:, jury.labels] = named
                guess = (guess + whole) / 2
            rows.append(apart + start)
            said.append(labels[apart])
            posterior.append(guess)
            task.advance(len(batch))
    return np.concatenate(rows), np.concatenate(said), np.concatenate(posterior)
