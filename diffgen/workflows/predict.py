"""Predicts a folder of pictures with the models of a run, as its selector or another rule says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from diffgen.comparison.opened_run import OpenedRun
from diffgen.config import CompareConfig, ModelSpec
from diffgen.data.file_tree import MAX_FILE_BYTES, folder_tree
from diffgen.data.image_folder import pictures_of
from diffgen.data.picture_file import decode
from diffgen.data.picture_stack import Pictures, stack
from diffgen.data.reading import PictureNotes, Reading
from diffgen.data.resize import Resizer
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.numerics import own_numerics
from diffgen.runs.files import write_text
from diffgen.runs.folder import RunFolder
from diffgen.runs.opening import read_bytes
from diffgen.runs.outputs import output_file
from diffgen.selector.ensemble import SelectorEnsemble
from diffgen.selector.onnx_file import load_selector
from diffgen.selector.rules import Rule
from diffgen.tasks.classification import role_name
from diffgen.types import Result, UInt8Array
from diffgen.workflows.export import as_csv
from diffgen.workflows.select import SELECTOR_FILE


@dataclass(frozen=True)
class PredictResult(Result):
    """Predictions for N pictures.

    Attributes:
        files: N paths below the folder.
        labels: N classes.
        names: N names of these.
        chosen: N times "A", "B", ..., or "" where all were combined.
        asked: how many pictures each model was asked about.
    """

    files: tuple[str, ...]
    labels: tuple[int, ...]
    names: tuple[str, ...]
    chosen: tuple[str, ...]
    asked: tuple[int, ...]

    def as_csv(self) -> str:
        """A table with one line a picture."""
        columns = {"file": self.files, "label": self.labels, "name": self.names, "model": self.chosen}
        return as_csv(columns)


@own_numerics()
def predict(
    run: str | Path,
    pictures: str | Path,
    *,
    rule: Rule = "selector",
    output: str | Path | None = None,
    device: str | None = None,
    options: Sequence[ModelSpec] = (),
    force: bool = False,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> PredictResult:
    """Predict every picture in a folder and the folders below it.

    Args:
        run: a run folder with a selector.
        pictures: a folder, or one picture.
        rule: "selector", "soft-vote" or "confidence".
        output: CSV file to write, or None.
        device: or None for the run's own.
        options: allows again what runs code; see :func:`diffgen.replay`.
        force: replace the CSV file.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: no selector, no pictures, pictures of another shape than the run's, or the file exists.
    """
    progress = Progress(events, stop)
    if rule == "oracle":
        raise UserError(
            "The rule 'oracle' needs to know what the pictures show; use selector, soft-vote or confidence."
        )
    if not isinstance(pictures, str | Path):
        raise UserError(
            f"predict takes a folder or a file of pictures, not a {type(pictures).__name__}; of arrays "
            "diffgen.SelectorEnsemble(MODEL, MODEL, SELECTOR).predict(images) tells the classes."
        )
    target = None if output is None else output_file(Path(output), force=force)
    folder = RunFolder.open(run)
    opened = OpenedRun(folder, device)
    selector = load_selector(folder.file(SELECTOR_FILE), device=opened.device, batch_size=opened.batch_size)
    files, images = _read(Path(pictures), selector.image_shape, opened.config, progress)
    models = opened.models(options=options)
    ensemble = SelectorEnsemble(*models, selector, rule=rule)
    decision = ensemble.decide(images)
    class_names = selector.metadata.get("class_names") or range(max(decision.labels.tolist(), default=0) + 1)
    result = PredictResult(
        files=files,
        labels=tuple(decision.labels.tolist()),
        names=tuple(str(class_names[label]) for label in decision.labels.tolist()),
        chosen=tuple("" if choice < 0 else role_name(choice) for choice in decision.chosen.tolist()),
        asked=decision.asked,
    )
    if target is not None:
        write_text(target, result.as_csv())
    return result


def _read(
    place: Path, image_shape: tuple[int, int, int], config: CompareConfig, progress: Progress
) -> tuple[tuple[str, ...], UInt8Array]:
    if place.is_file():
        files, root = [place], place.parent
    elif place.is_dir():
        root = place
        files = [place.joinpath(*parts) for parts in pictures_of(folder_tree(place, str(place)))]
    else:
        raise UserError(f"There is no folder {place}; give one with pictures.")
    if not files:
        raise UserError(f"No pictures lie in {place}; give a folder with PNG or JPEG files.")
    names = tuple(str(file.relative_to(root)) for file in files)

    def each(notes: PictureNotes) -> Iterator[tuple[str, Callable[[], UInt8Array]]]:
        for name, file in zip(names, files, strict=True):
            content = read_bytes(file, longest=MAX_FILE_BYTES)
            yield name, partial(decode, content, name, str(place), notes)

    try:
        resizer = Resizer(config.resize, config.fit)
        reading = Reading(str(place), resizer, exif=config.exif, progress=progress)
        images = stack(Pictures(len(files), each), reading)
    except OSError as error:
        raise UserError(f"A picture in {place} cannot be read ({error.strerror}); check who owns it.") from error
    if images.shape[1] == 1 and image_shape[0] == 3:
        images = np.repeat(images, 3, axis=1)
    if images.shape[1:] != image_shape:
        wanted, given = ("x".join(map(str, shape)) for shape in (image_shape, images.shape[1:]))
        raise UserError(
            f"The pictures in {place} have the shape {given} (channels, height, width) but the run was made with "
            f"{wanted}; bring them to that."
        )
    return names, images
