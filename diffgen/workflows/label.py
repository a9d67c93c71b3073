"""Labels for the triggers of a run: a sheet for people, sheets taken back, and labels from machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from diffgen.comparison.named_settings import stored_settings
from diffgen.config import LabelConfig
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.labels.automatic import intended_labels
from diffgen.labels.reading import merge, read_labels
from diffgen.labels.sheet import Sheet, image_id, sample_size, write_sheet
from diffgen.labels.store import INVALID, SOURCES, UNLABELLED, LabelStore, outcomes
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import RunLock
from diffgen.runs.outputs import filled, output_folder
from diffgen.runs.results import read_finished
from diffgen.runs.triggers import TriggerTable
from diffgen.sampling import random_rows
from diffgen.sources.space import LatentLayout
from diffgen.types import Int64Array, Result, several


@dataclass(frozen=True)
class SheetResult(Result):
    """A label sheet that was written.

    Attributes:
        run: the run folder.
        folder: where it is.
        pictures: on it.
        distinct_valid_triggers: from which they were drawn: valid ones without near-duplicates.
    """

    run: str
    folder: str
    pictures: int
    distinct_valid_triggers: int


@dataclass(frozen=True)
class LabelResult(Result):
    """Labels that were put into a run.

    Attributes:
        run: the run folder.
        source: where they come from.
        labelled: pictures that have a class from this source now, those of earlier times included.
        invalid: pictures that show none, likewise.
        undecided: pictures asked about this time that got no label: annotators or reference models differ, or said
            nothing.
        annotators: sheets that were merged, or reference models; 0 for intended classes.
        kappa: mean of Cohen's kappa over the pairs of annotators, or None.
        contradicted: pictures to which the reference models gave another label than the known one of the real image
            that each was made from.
        outcomes: of all labelled pictures of the run, whatever the source: "only A right", "only B right", "both
            wrong", "invalid" -> pictures. Of three models or more "A right", "B right", ..., "all wrong", "invalid":
            several may be right of one picture.
    """

    run: str
    source: str
    labelled: int
    invalid: int
    undecided: int
    outcomes: dict[str, int]
    annotators: int = 0
    kappa: float | None = None
    contradicted: int = 0


def label_export(
    run: str | Path,
    output: str | Path,
    *,
    config: LabelConfig | None = None,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> SheetResult:
    """Write a blind label sheet of distinct valid triggers: labels.csv, label.html and pictures/. Whole or not at all.

    Args:
        run: the run folder.
        output: the folder to make; it must not hold anything.
        config: how many pictures, and which.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: no finished run there, it has no valid trigger, or the folder cannot be used.
        RunError: the disk is full.
    """
    config, progress = config or LabelConfig(), Progress(events, stop)
    folder = RunFolder.open(run)
    place = output_folder(Path(output), kind="label sheet", option="--export")
    finds = read_valid_triggers(folder)
    # nobody is to look at one picture twice, and the run counts these alone
    finds = finds[finds.distinct]
    wanted = config.count or sample_size(len(finds), confidence=config.confidence, margin=config.margin)
    rows = random_rows(len(finds), wanted, seed=config.seed)
    sheet = Sheet(finds.hashes[rows], finds.images_of(rows), finds.class_names)
    if len(set(sheet.ids)) < len(sheet.ids):
        raise UserError("Two pictures would have one name on the sheet; draw others with --seed.")
    with filled(place) as unfinished:
        write_sheet(unfinished, sheet)
    if len(rows) < wanted:
        progress.say(
            f"The run has {len(finds):,} valid triggers without near-duplicates; all of them are on the sheet."
        )
    return SheetResult(str(folder.path), str(place.path), len(rows), len(finds))


def label_import(
    run: str | Path,
    sheets: str | Path | Sequence[str | Path],
    *,
    partial: bool = False,
    force: bool = False,
    withdrawn: bool = False,
) -> LabelResult:
    """Take filled-in sheets back; several are taken for several people's and merged by majority.

    Args:
        run: the run folder.
        sheets: CSV files, or one; all must hold the same pictures.
        partial: pictures without a label are allowed.
        force: replace labels by people that the run has.
        withdrawn: these are all sheets that people have: what nobody labels on them any more loses the label by people
            that the run has. Without it a sheet may be a part of the work, and what it leaves open stays as it is.

    Raises:
        UserError: a sheet cannot be used (see :func:`diffgen.labels.reading.read_labels`), two of them do not hold the
            same pictures, or other labels would be replaced. Nothing is written then.
    """
    folder = RunFolder.open(run)
    finds = read_valid_triggers(folder)
    rows = {image_id(digest): row for row, digest in enumerate(finds.hashes)}
    paths = [Path(sheet) for sheet in several(sheets)]
    if len({path.resolve() for path in paths}) < len(paths):
        raise UserError("The same sheet is named twice; give each annotator's own.")
    said = [read_labels(path, rows, finds.class_names, partial=partial) for path in paths]
    for path, each in zip(paths[1:], said[1:], strict=True):
        alone = sorted(set(each) ^ set(said[0]))
        if alone:
            raise UserError(
                f"The sheets {paths[0]} and {path} do not hold the same pictures ({len(alone):,} are in one of them "
                f"only, first {alone[0]}); import sheets of one export together."
            )
    ids = list(said[0])
    votes = np.array([[each[identifier] for identifier in ids] for each in said], dtype=np.int64)
    merged, heard = merge(votes), (votes != UNLABELLED).any(axis=0)
    about = {
        "annotators": [path.name for path in paths],
        "pictures": len(ids),
        "ties": merged.ties,
        "unanimous": merged.unanimous,
        "kappa": merged.kappa,
        "kappas": list(merged.kappas),
    }
    chosen = np.array([rows[identifier] for identifier in ids], dtype=np.int64)
    if withdrawn:
        heard = np.ones_like(heard)
    silent = len(ids) - int(heard.sum())
    return put(
        folder,
        finds,
        "human",
        merged.labels[heard],
        about,
        force=force,
        rows=chosen[heard],
        silent=silent,
        annotators=len(paths),
        kappa=merged.kappa,
    )


def label_intended(run: str | Path, *, force: bool = False) -> LabelResult:
    """Label every valid trigger with the class that a conditional generator was asked for.

    Raises:
        UserError: the run's generator was not asked for a class, or other labels would be replaced.
    """
    folder = RunFolder.open(run)
    finds = read_valid_triggers(folder)
    if folder.manifest["data"].get("label_order") and stored_settings(folder).gan_file is not None:
        raise UserError(
            f"The run {folder.path} counts classes as its models do, and a GAN that was trained before may count them "
            "as the folders of its images; let people label (--export), or a reference model (--oracle)."
        )
    layout = folder.manifest.get("latents")
    try:
        layout = None if layout is None else LatentLayout.read(layout)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"The manifest of the run {folder.path} does not say what its latent vectors are; the run folder is "
            "damaged."
        ) from error
    labels = intended_labels(finds.genes, layout, len(finds.class_names))
    return put(folder, finds, "intended", labels, {}, force=force)


def label_counts(run: str | Path) -> tuple[dict[str, int], dict[str, int]]:
    """What is labelled in a run.

    Returns:
        outcome -> pictures, as in :class:`LabelResult`, and source -> pictures.

    Raises:
        UserError: no finished run with valid triggers there.
    """
    folder = RunFolder.open(run)
    finds = read_valid_triggers(folder)
    store = read_store(folder, finds)
    return outcomes(store.of(finds.hashes)[0], finds.labels), {
        name: int((store.sources == name).sum()) for name in SOURCES
    }


def read_valid_triggers(folder: RunFolder, triggers: TriggerTable | None = None) -> TriggerTable:
    """The confirmed triggers that no filter rejected, with the names of the K classes.

    Their images are those of ``triggers``, so that these are read once for both.

    Args:
        triggers: all of the run with verdicts where they were read before, or None.

    Raises:
        UserError: the run did not come to its end, is damaged, or has no valid trigger.
    """
    with folder.reading():
        names = read_finished(folder).class_names
        triggers = folder.read_judged() if triggers is None else triggers
        found = triggers[triggers.valid]
        if len(found) == 0:
            raise UserError(
                f"The run {folder.path} has no valid trigger, so there is nothing to label or to learn from; search "
                "longer or with other filters."
            )
        if found.probabilities.shape[2] != len(names) if found.classes is None else found.classes.max() >= len(names):
            raise ValueError("the probabilities are of other classes than those that are named")
        return replace(found, class_names=names)


def read_store(folder: RunFolder, finds: TriggerTable) -> LabelStore:
    """The labels of a run; empty when it has none. UserError if the file is damaged."""
    if not folder.has_arrays("labels"):
        return LabelStore.empty(finds.hashes.shape[1])
    try:
        store = LabelStore.from_arrays(folder.read_arrays("labels"))
        if len(store) and not INVALID <= store.labels.min() <= store.labels.max() < len(finds.class_names):
            raise ValueError("it has labels of classes that the run does not have")
        return store
    except ValueError as error:
        raise UserError(
            f"The labels {folder.file('labels.npz')} cannot be read ({error}); import them again."
        ) from error


def put_labels(
    folder: RunFolder,
    finds: TriggerTable,
    source: str,
    labels: Int64Array,
    about: Mapping[str, Any],
    *,
    force: bool,
    rows: Int64Array | None = None,
) -> LabelStore:
    """Put labels of one source into a run whose lock the caller holds; see :func:`put`."""
    about = {**about, "made": datetime.now(UTC).isoformat(timespec="seconds")}
    hashes = finds.hashes if rows is None else finds.hashes[rows]
    store = read_store(folder, finds).added(source, hashes, labels, about, replace=force)
    folder.write_arrays("labels", store.as_arrays())
    return store


def put(
    folder: RunFolder,
    finds: TriggerTable,
    source: str,
    labels: Int64Array,
    about: dict[str, Any],
    *,
    force: bool,
    rows: Int64Array | None = None,
    silent: int = 0,
    **counts: Any,
) -> LabelResult:
    """Put labels of one source into a run.

    Args:
        finds: its valid triggers.
        source: one of ``SOURCES``.
        labels: int64 (n,), ``UNLABELLED`` where those who were asked differ.
        about: how the labels came about, JSON values.
        force: replace other labels of that source.
        rows: int64 (n,), the finds that are labelled; None: all.
        silent: finds more that were asked about, of which nobody said anything.
        counts: of :class:`LabelResult`.
    """
    with RunLock(folder.path):
        store = put_labels(folder, finds, source, labels, about, force=force, rows=rows)
    of_source = store.labels[store.sources == source]
    return LabelResult(
        run=str(folder.path),
        source=source,
        labelled=int((of_source >= 0).sum()),
        invalid=int((of_source == INVALID).sum()),
        undecided=int((labels == UNLABELLED).sum()) + silent,
        outcomes=outcomes(store.of(finds.hashes)[0], finds.labels),
        **counts,
    )
