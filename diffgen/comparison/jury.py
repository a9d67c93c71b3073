"""The jury of a comparison: trained once for a data set, calibrated on the held-out real images, kept in the cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffgen.comparison.black_boxes import load_spec
from diffgen.comparison.machine import resolve_batch_size
from diffgen.comparison.preflight import RealAnswers
from diffgen.comparison.reference import GivenJury
from diffgen.config import CompareConfig, ModelSpec
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.features import jury as juries
from diffgen.features.jury import NO_LABEL, Names, Recogniser, best_names
from diffgen.features.shrinking import lesson_rows, lessons
from diffgen.filters.calibration import calibrate
from diffgen.filters.recognition import JurySettings, RecognitionFilter
from diffgen.labels.automatic import whose_answers
from diffgen.models.base import PREPARED
from diffgen.models.loading import file_digest
from diffgen.runs.artifacts import Artifact
from diffgen.runs.figures import JuryFigures
from diffgen.runs.folder import RunFolder
from diffgen.sampling import random_rows
from diffgen.tasks.classification import differ, role_name
from diffgen.types import Float32Array, ImageSet, Int64Array
from diffgen.wording import percent, why_no_jury_of

_SEED = 0  # never the run's seed: all runs on a data set share its networks
_GIVEN = "given"
# Of grey images a third of that teaches as much: benchmarks/results/jury.md.
_SHOWN_GREY, _SHOWN_COLOUR = 15_000, 45_000
# With fewer images the members learn them by heart: certainty then tells the images they know from all others.
_FEWEST, _FEWEST_A_LABEL = 100, 10
_RELIABLE = 0.95  # share of the held-out real images that the jury recognises unaided of which the name must be right
_CHECKED = 2000  # real images that a classifier of the user's own is asked about, at most
_FEWEST_CHECKED = 20  # held-out real images that such a share is measured on


@dataclass(frozen=True)
class RealLabels:
    """Labels of the real images, as a jury learns them.

    Attributes:
        values: int64 (N,), ``NO_LABEL`` where none is known.
        origin: "given", or a digest of what the models agree on; part of the jury's key.
    """

    values: Int64Array
    origin: str

    @classmethod
    def of(cls, images: ImageSet, real: RealAnswers) -> RealLabels:
        """Those that the user gave; else, where all models agree, what they say."""
        if images.labels is not None:
            return cls(images.labels, _GIVEN)
        said = real.answers.labels
        agreed = np.where(differ(said), NO_LABEL, said[:, 0]).astype(np.int64)
        return cls(agreed, blake2b(agreed.tobytes(), digest_size=16).hexdigest())

    @property
    def given(self) -> bool:
        """Whether the user gave them."""
        return self.origin == _GIVEN


@dataclass(frozen=True)
class PreparedJury:
    """The jury of a comparison, or why there is none.

    Attributes:
        recogniser: the jury with its thresholds, or None.
        figures: what the report says of it, or None.
        missing: why there is none, as one sentence; empty where there is one.
        labels: int64 (N,) of all real images, from which it learned, or which say in its place what pictures show that
            were made of these; ``NO_LABEL`` where none is known. None: neither.
        note: what the manifest keeps, so that the run can be resumed with the same jury.
    """

    recogniser: Recogniser | None = None
    figures: JuryFigures | None = None
    missing: str = ""
    labels: Int64Array | None = None
    note: dict[str, Any] | None = None

    @property
    def reason(self) -> str:
        """Why there is none, as part of a sentence."""
        return why_no_jury_of(self.missing)

    def by_real_images(self, known: RealLabels) -> PreparedJury:
        """Where there is none: what real images show says what pictures show that were made of them by mild changes."""
        whose = "labels of the real images" if known.given else "labels on which the models agree on the real images"
        missing = f"No jury: {self.reason}; verdicts rest on the {whose}, which mild changes keep."
        return replace(self, missing=missing, labels=known.values)


def prepare_jury(
    split: DataSplit,
    known: RealLabels,
    config: CompareConfig,
    *,
    device: torch.device,
    progress: Progress,
) -> PreparedJury:
    """The jury of a data set: from the cache, or newly trained.

    There is none where the labels are all alike, where the images are too few, or where it names too many of the
    held-out real images wrongly to be of use. The threshold is that at which it does not recognise as many of these as
    its settings allow; of pictures that it has to name with no help it is to be surer, where that is needed for
    19 of 20 names to be right.
    """
    rows, held_out = _known_rows(split, known)
    missing = _why_none(known, rows)
    if not missing and len(held_out) == 0:
        missing = "No jury: the models agree on none of the held-out real images, and there are no labels."
    if missing:
        return PreparedJury(missing=missing)
    jury, path = _obtain(split, rows, known, config, device=device, progress=progress)
    return _calibrated(jury, file_digest(path), split, (len(rows), held_out), known, config)


def check_given(
    jury: GivenJury, split: DataSplit, known: RealLabels, real: RealAnswers, config: CompareConfig
) -> PreparedJury:
    """The jury that the user gave, with the thresholds that its names of the labelled real images allow.

    Raises:
        UserError: it gives the answers of a model under test.
    """
    said = jury.answers(torch.from_numpy(split.data.images[:PREPARED])).numpy()
    if (own := whose_answers(said, real.answers)) is not None:
        raise UserError(
            f"The jury {config.jury} gives the very answers of model {role_name(own)} to {len(said):,} real images, "
            "and would be its own judge; give another one."
        )
    labelled = np.flatnonzero(known.values != NO_LABEL)
    if len(labelled) == 0:
        return PreparedJury(missing="No jury: the models agree on none of the real images, and there are no labels.")
    return _calibrated(jury, jury.digest, split, (0, labelled[random_rows(len(labelled), _CHECKED)]), known, config)


def why_no_jury(split: DataSplit) -> str:
    """Why the labels that were given teach no jury, as one sentence; empty where they do, or there are none.

    It takes no model, so that nobody waits for it.
    """
    if split.data.labels is None:
        return ""
    known = RealLabels(split.data.labels, _GIVEN)
    return _why_none(known, _known_rows(split, known)[0])


def stored_jury(
    folder: RunFolder, split: DataSplit, config: CompareConfig, *, device: torch.device, progress: Progress
) -> Recogniser | None:
    """The jury that a run was made with, or None: it had none.

    Raises:
        UserError: the models' agreement taught it, and it is no longer in the cache; or the one there is another.
    """
    note = folder.manifest.get("jury")
    if note is None:
        return None
    if config.jury is not None:
        model = load_spec(config.jury, ModelSpec(), device=device, batch_size=resolve_batch_size(None, device))
        if model.digest != note["sha256"]:
            raise UserError(
                f"The jury {config.jury} has changed since the run {folder.path} was made; put the old one back."
            )
        model.prepare(split.data.images)
        if note["order"]:
            model.map_classes(tuple(note["order"]))
        return Recogniser(GivenJury(model), note["threshold"], note["unaided"])
    if note["labels"] == _GIVEN and split.data.labels is not None:
        known = RealLabels(split.data.labels, _GIVEN)
        jury, path = _obtain(split, _learned_rows(split), known, config, device=device, progress=progress)
    else:
        path = _artifact(split, note["labels"], config, device).path
        if not path.is_file():
            raise UserError(
                f"The jury that the run {folder.path} was made with is no longer in the cache; run the comparison "
                "again."
            )
        jury = juries.load(path, split.data.image_shape, device=device)
    if file_digest(path) != note["sha256"]:
        raise UserError(
            f"The jury that the run {folder.path} was made with is no longer in the cache, and the one there now is "
            "another, which recognises other pictures; run the comparison again."
        )
    return Recogniser(jury, note["threshold"], note["unaided"])


def announce(made: PreparedJury, folder: RunFolder, progress: Progress) -> None:
    """Say that a resumed run has another jury than it was started with; UserError if the user gave it."""
    before = folder.manifest.get("jury", made.note)
    if before != made.note:
        if before is not None and "order" in before:
            raise UserError(f"The jury has changed since the run {folder.path} was started; put the old one back.")
        progress.warn(
            "The jury that the run was started with is no longer in the cache, and the one that was trained now "
            "differs; what it recognises may differ from what it would have without the break."
        )


def _known_rows(split: DataSplit, known: RealLabels) -> tuple[Int64Array, Int64Array]:
    """The images to learn from whose labels are known, and those held out."""
    rows, held_out = _learned_rows(split), split.rows[1].numpy()
    return rows[known.values[rows] != NO_LABEL], held_out[known.values[held_out] != NO_LABEL]


def _why_none(known: RealLabels, rows: Int64Array) -> str:
    """Why no jury can be trained on the labels of these images, as one sentence; empty where one can."""
    present = np.unique(known.values[rows])
    whose = "the real images" if known.given else "the real images on which the models agree"
    if len(rows) == 0:
        return (
            "No jury: there are no labels, and the models agree on none of the real images; nothing says who is wrong."
        )
    if len(present) < 2:
        return f"No jury: {whose} have one label only, so that there is nothing to tell apart."
    fewest = max(_FEWEST, _FEWEST_A_LABEL * len(present))
    if len(rows) < fewest:
        return (
            f"No jury: {len(present):,} classes take {fewest:,} images to learn from, and {whose} are {len(rows):,} "
            "without those held out; nothing says who is wrong until you give more images, those of fewer classes, or "
            "a classifier that names them (--jury)."
        )
    return ""


def _learned_rows(split: DataSplit) -> Int64Array:
    return lesson_rows(split.data.images, split.all_rows[0].numpy())


def _artifact(split: DataSplit, origin: str, config: CompareConfig, device: torch.device) -> Artifact:
    made_from = {
        "data": split.data.digest,
        "held out": split.key,
        "device": device.type,
        "labels": origin,
        "jury": juries.FORMAT,
        "shown": _shown(split, config),
    }
    return Artifact("filters", made_from)


def _shown(split: DataSplit, config: CompareConfig) -> int:
    """How many images each member of a jury is shown."""
    given = _settings(config).shown
    return (_SHOWN_GREY if split.data.image_shape[0] == 1 else _SHOWN_COLOUR) if given is None else given


def _settings(config: CompareConfig) -> JurySettings:
    own: JurySettings = RecognitionFilter.settings_among(config.filters.filters)
    return own


def _obtain(
    split: DataSplit,
    rows: Int64Array,
    known: RealLabels,
    config: CompareConfig,
    *,
    device: torch.device,
    progress: Progress,
) -> tuple[juries.Jury, Path]:
    def make(path: Path) -> juries.Jury:
        images, labels = lessons(split.data.images, rows), torch.from_numpy(known.values[rows])
        trained = juries.train(
            images,
            labels,
            image_shape=split.data.image_shape,
            shown=_shown(split, config),
            seed=_SEED,
            device=device,
            progress=progress,
        )
        juries.save(trained, path)
        return trained

    artifact = _artifact(split, known.origin, config, device)
    shape = split.data.image_shape
    return artifact.obtain(lambda file: juries.load(file, shape, device=device), make, progress), artifact.path


def _calibrated(
    jury: Names,
    digest: str,
    split: DataSplit,
    counts: tuple[int, Int64Array],
    known: RealLabels,
    config: CompareConfig,
) -> PreparedJury:
    trained_on, held_out = counts
    answers = jury.answers(torch.from_numpy(split.data.images[held_out]))
    sure, right = juries.certainty(answers), best_names(jury, answers) == known.values[held_out]
    own = _settings(config)
    given = own.threshold
    found = calibrate(sure[:, None], [np.nan if given is None else given], own.false_alarm)
    threshold = float(found.thresholds[0])
    unaided = reliable_from(sure, right, at_least=threshold) if given is None else threshold
    if unaided is None:
        asked = f"{len(right):,} {'held-out ' if trained_on else ''}real images"
        return PreparedJury(
            missing=f"No jury: it names {percent(right.mean(), 0)} of {asked} right, and is wrong too often where it "
            "is sure; nothing says who is wrong."
        )
    figures = JuryFigures(
        members=len(jury.members) if isinstance(jury, juries.Jury) else 1,
        trained_on=trained_on,
        agreed=not known.given,
        held_out=len(held_out),
        accuracy=float(right.mean()),
        threshold=threshold,
        unaided=unaided,
        recognised=float((sure >= np.float32(unaided)).mean()),
        helped=float((right & (sure >= np.float32(threshold))).mean()),
        helped_right=float(right[sure >= np.float32(threshold)].mean()),
        reliable=float(right[sure >= np.float32(unaided)].mean()) if (sure >= np.float32(unaided)).any() else None,
    )
    note = {"labels": known.origin, "sha256": digest, "threshold": threshold, "unaided": unaided}
    if isinstance(jury, GivenJury):
        note["order"] = list(jury.order)
    return PreparedJury(Recogniser(jury, threshold, unaided), figures, labels=known.values, note=note)


def reliable_from(
    certainty: Float32Array, right: np.ndarray[Any, np.dtype[np.bool_]], *, at_least: float
) -> float | None:
    """The lowest threshold from which on the names of real images are reliable, or None: there is none.

    Args:
        certainty: float32 (n,), of held-out real images.
        right: bool (n,), whether the jury names them right.
        at_least: no threshold below it.
    """
    order = np.argsort(-certainty, kind="stable")
    values, share = certainty[order], np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    # a threshold lets in all that are equally sure: only the last of these is a place to cut
    ends = np.append(values[1:] != values[:-1], True)
    enough = np.arange(1, len(order) + 1) >= min(_FEWEST_CHECKED, len(order))
    usable = np.flatnonzero(ends & enough & (share >= _RELIABLE) & (values >= np.float32(at_least)))
    return float(values[usable[-1]]) if len(usable) else None
