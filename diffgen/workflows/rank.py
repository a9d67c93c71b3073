"""Puts the models of a run in order, by recognised faults or by a few labels of real images on which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffgen.comparison.black_boxes import match_classes
from diffgen.comparison.opened_run import OpenedRun
from diffgen.comparison.preflight import prepare_models
from diffgen.comparison.real_data import load_stored
from diffgen.config import ModelSpec, roles
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.features.jury import Jury
from diffgen.labels.agreement import merge
from diffgen.labels.reading import read_labels
from diffgen.labels.sheet import Sheet, image_id, write_sheet
from diffgen.labels.store import UNLABELLED
from diffgen.metrics.ranking import (
    Standing,
    chances,
    doubt,
    draw,
    guessed_right,
    standing_by_clusters,
    standing_by_labels,
)
from diffgen.models import BlackBox
from diffgen.models.wording import shape_text
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import RunLock
from diffgen.runs.outputs import filled, output_folder
from diffgen.runs.results import read_finished
from diffgen.runs.triggers import HASH_BYTES, image_hashes
from diffgen.tasks.classification import differ
from diffgen.types import Float32Array, ImageSet, Int64Array
from diffgen.wording import count_of

COUNT = 100
_BATCH = 1024
_SHOWN = 10  # pictures that decide, named for each two neighbours


@dataclass(frozen=True)
class RankedModel:
    """One model in the order.

    Attributes:
        role: its letter.
        name: its file's name.
        right: share of the pictures on which it is right, 0..1.
        low, high: ends of a 95 % interval; 0 and 1 where one label or one kind of picture is all there is.
    """

    role: str
    name: str
    right: float
    low: float
    high: float


@dataclass(frozen=True)
class Neighbours:
    """Two models that follow each other in the order.

    Attributes:
        above, below: their letters.
        sure: share of the draws in which they keep this order, 0.5..1 or so.
        only_above, only_below: pictures on which that one alone of the two is right; these decide.
        pictures: some of those for the upper one, then of those for the lower one: numbers of triggers, or names on the
            sheet.
    """

    above: str
    below: str
    sure: float
    only_above: int
    only_below: int
    pictures: tuple[str, ...]


@dataclass(frozen=True)
class RankResult:
    """Models in order, the best first.

    Attributes:
        run: the run folder.
        basis: "faults": what the search found and the jury recognised, or "labels": real images that people labelled.
        pictures: that the order rests on.
        of: real images on which models differ, of which ``pictures`` were labelled; 0 for "faults".
        images: real images that were asked about; 0 for "faults".
        models: the best first.
        neighbours: how sure each step of the order is.
    """

    run: str
    basis: str
    pictures: int
    of: int
    images: int
    models: tuple[RankedModel, ...]
    neighbours: tuple[Neighbours, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class ShortList:
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

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def rank(run: str | Path, *, sheets: Sequence[str | Path] = (), partial: bool = False, seed: int = 0) -> RankResult:
    """The models of a run in order.

    Without sheets by their faults among what the search found and the jury recognised: an order of what was met, for
    nobody drew these pictures at random. With sheets by the labels of the real images that :func:`rank_export` chose:
    an estimate for all real images that it was given.

    Args:
        run: the run folder.
        sheets: filled-in sheets of one :func:`rank_export`; several are several people's, merged by majority.
        partial: pictures without a label are allowed.
        seed: of the intervals.

    Raises:
        UserError: no finished run there; without sheets, it has no jury or nothing recognised; with sheets, nothing was
            exported or they are of another export.
    """
    folder = RunFolder.open(run)
    names = tuple(str(entry["name"]) for _, entry in sorted(folder.manifest["files"].items()))
    return _by_labels(folder, names, sheets, partial, seed) if sheets else _by_faults(folder, names, seed)


def _by_faults(folder: RunFolder, names: Sequence[str], seed: int) -> RankResult:
    with folder.reading():
        results, triggers = read_finished(folder), folder.read_judged()
        kept = triggers[triggers.recognised_distinct]
    if len(kept) == 0:
        why = results.no_jury or "The jury recognises none of its pictures."
        raise UserError(
            f"The models of {folder.path} cannot be ranked by their faults: {why} Rank them by labels instead: "
            "diffgen rank RUN --export FOLDER."
        )
    wrong = kept.faults
    standing = standing_by_clusters(wrong, kept.known.cells, seed=seed)
    identifiers = [str(number) for number in kept.numbers.tolist()]
    return _result(folder, "faults", names, standing, ~wrong, identifiers, of=0, images=0)


def _by_labels(
    folder: RunFolder, names: Sequence[str], sheets: Sequence[str | Path], partial: bool, seed: int
) -> RankResult:
    if not folder.has_arrays("rank"):
        raise UserError(
            f"No short list of {folder.path} was exported, so there is nothing that these labels are of; write one "
            "with diffgen rank RUN --export FOLDER."
        )
    with folder.reading():
        stored, classes = folder.read_arrays("rank"), read_finished(folder).class_names
    ids = [image_id(each) for each in stored["hashes"]]
    said = [read_labels(Path(sheet), ids, classes, partial=partial) for sheet in sheets]
    labels = merge(
        np.array([[each.get(identifier, UNLABELLED) for identifier in ids] for each in said], dtype=np.int64)
    ).labels
    known, about = labels != UNLABELLED, stored["about"]
    if not known.any():
        raise UserError("No picture of the sheets has a label on which most agree; label more.")
    right = stored["said"] == labels[:, None]
    # what is left out, or not agreed on, is taken to be like the rest of the sheet
    chance = stored["chance"][known] * known.mean()
    standing = standing_by_labels(
        right[known],
        stored["guessed"][known].astype(np.float32),
        chance,
        guessed_sum=np.asarray(about["guessed"], dtype=np.float64),
        pictures=about["disagreements"],
        seed=seed,
    )
    chosen = [identifier for identifier, there in zip(ids, known.tolist(), strict=True) if there]
    return _result(
        folder,
        "labels",
        names,
        standing,
        right[known],
        chosen,
        of=about["disagreements"],
        images=about["images"],
    )


def _result(
    folder: RunFolder,
    basis: str,
    names: Sequence[str],
    standing: Standing,
    right: np.ndarray[Any, np.dtype[np.bool_]],
    identifiers: Sequence[str],
    *,
    of: int,
    images: int,
) -> RankResult:
    letters = roles(names)
    order, shares = np.argsort(-standing.values, kind="stable").tolist(), standing.as_shares()
    neighbours = []
    for above, below in pairwise(order):
        for_it = np.flatnonzero(right[:, above] & ~right[:, below]).tolist()
        against = np.flatnonzero(right[:, below] & ~right[:, above]).tolist()
        shown = (*for_it[:_SHOWN], *against[:_SHOWN])
        neighbours.append(
            Neighbours(
                letters[above],
                letters[below],
                float(standing.above[above, below]),
                len(for_it),
                len(against),
                tuple(identifiers[row] for row in shown),
            )
        )
    return RankResult(
        run=str(folder.path),
        basis=basis,
        pictures=len(right),
        of=of,
        images=images,
        models=tuple(
            RankedModel(
                letters[index],
                names[index],
                float(shares.values[index]),
                float(shares.low[index]),
                float(shares.high[index]),
            )
            for index in order
        ),
        neighbours=tuple(neighbours),
    )


# -- the short list --------------------------------------------------------------------------------------------------


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
    :func:`rank` needs neither models nor images.

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


def jury_of(opened: OpenedRun, own: ImageSet | None, progress: Progress) -> Jury | None:
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
    models: Sequence[BlackBox], pool: ImageSet, jury: Jury | None, progress: Progress
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
