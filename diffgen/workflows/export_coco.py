"""Writes the finds of detectors as a COCO data set: pictures, known boxes, and what each model says.

The layout is that of FiftyOne's COCODetectionDataset, and of pycocotools: docs/howto/detectors.md reads it with both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diffgen.comparison.known_boxes import batches, moved_truth
from diffgen.comparison.opened_run import OpenedRun
from diffgen.comparison.preflight import prepare_models
from diffgen.config import ModelSpec, roles
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.models.panel import panel_of, seated
from diffgen.origins import recipe_text
from diffgen.runs.files import json_text
from diffgen.runs.folder import RunFolder
from diffgen.runs.outputs import filled, output_folder, write_new
from diffgen.runs.pictures import png_bytes
from diffgen.runs.results import FinishedRun
from diffgen.tasks.detection import VALUES, Detection
from diffgen.types import Float32Array, Result, several


@dataclass(frozen=True)
class CocoResult(Result):
    """What was written.

    Attributes:
        run: the run folder.
        folder: where to.
        pictures: how many.
        known: how many of them have known boxes.
        boxes: of each model, those that it reports in all pictures.
    """

    run: str
    folder: str
    pictures: int
    known: int
    boxes: tuple[int, ...]


def export_coco(
    run: str | Path,
    output: str | Path,
    *,
    models: Any = (),
    data: Any = None,
    options: Sequence[ModelSpec] = (),
    force: bool = False,
    device: str | None = None,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> CocoResult:
    """Write the distinct valid finds of detectors as programs for COCO's data sets read them.

    ``data/*.png`` are the pictures. ``labels.json`` names them, and has the known boxes where the picture has brought
    them; the entry of a picture says in ``known`` whether its boxes are known, and what each model says of what is
    contested. ``A.json``, ``B.json`` and so on are what the models say now, in the form of COCO's results: every box
    down to the score floor, also those below the threshold from which on a box is reported. The clearest finds come
    first. The number of an image is that of the find; annotations and categories count from 1. The folder appears whole
    or not at all.

    Args:
        run: the run folder.
        output: the folder to make.
        models: those of the run where it was given objects, or none: the run's.
        data: the real images, where the run was given them in memory or they have moved; None for the run's own.
        options: allows again what runs code, for each model in turn; or none: nothing of the kind.
        force: replace a folder that an earlier call made, with nothing else in it.
        device: where to compute, or None for the run's own device.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: no finished run of detectors there, its models or data are gone or have changed, or the folder cannot
            be written.
    """
    progress, folder = Progress(events, stop), RunFolder.open(run)
    hint = ", or add --force to replace an export"
    place = output_folder(Path(output), kind="coco", force=force, option="--coco", hint=hint)
    opened, found = OpenedRun(folder, device), FinishedRun.open(folder)
    if opened.config.task.name != "detection":
        raise UserError(f"The run {folder.path} compares no detectors; export its finds without --coco.")
    images = opened.data(data, purpose="know the boxes in them", progress=progress)
    boxes = opened.models(several(models), options=options)
    prepare_models(boxes, images, progress)
    panel = panel_of(seated(boxes, opened.config.task))
    assert panel is not None
    assert isinstance(panel.task, Detection)
    triggers = found.triggers[found.triggers.distinct]
    triggers = triggers[np.argsort(-triggers.clearness, kind="stable")]
    truth = moved_truth(panel.task, images, triggers)
    height, width = images.image_shape[1:]
    entries, known = list[dict[str, Any]](), list[dict[str, Any]]()
    said: list[list[dict[str, Any]]] = [[] for _ in panel.boxes]
    reported = np.zeros(len(panel.boxes), dtype=np.int64)
    with filled(place) as unfinished, progress.stage("Writing pictures", total=len(triggers)) as task:
        (unfinished / "data").mkdir()
        for rows in batches(np.arange(len(triggers))):
            pictures = triggers.images_of(rows)
            answers = panel.answers(pictures).reshape(len(rows), len(panel.boxes), -1, VALUES)
            for row, picture, each in zip(rows.tolist(), pictures, answers, strict=True):
                number, labels = int(triggers.numbers[row]), triggers.labels[row].tolist()
                name = f"{number:06d}.png"
                write_new(unfinished / "data" / name, png_bytes(picture))
                entries.append(
                    {
                        "id": number,
                        "file_name": name,
                        "height": height,
                        "width": width,
                        "known": truth[row] is not None,
                        "contested": {
                            role: panel.words[label] for role, label in zip(roles(labels), labels, strict=True)
                        },
                        "made_by": recipe_text(triggers.origin(row).recipe),
                    }
                )
                known += _annotations(number, truth[row])
                for own, there in zip(said, each, strict=True):
                    kept = there[there[:, 5] >= 0]
                    named = _annotations(number, kept[:, [0, 1, 2, 3, 5]])
                    own += [{**box, "score": score} for box, score in zip(named, kept[:, 4].tolist(), strict=True)]
                reported += panel.task.reported(each).sum(axis=1)
                task.advance()
        numbered = [{"id": number, "iscrowd": 0, **each} for number, each in enumerate(known, start=1)]
        categories = [{"id": number, "name": name} for number, name in enumerate(panel.task.classes, start=1)]
        info = {"description": f"finds of {folder.path.absolute().name}", "score_threshold": panel.task.threshold}
        whole = {"info": info, "images": entries, "annotations": numbered, "categories": categories}
        for name, content in (("labels", whole), *zip(roles(said), said, strict=True)):
            write_new(unfinished / f"{name}.json", json_text(content).encode())
    shown = sum(each is not None for each in truth)
    return CocoResult(str(folder.path), str(place.path), len(triggers), shown, tuple(reported.tolist()))


def _annotations(image: int, boxes: Float32Array | None) -> list[dict[str, Any]]:
    """Boxes of an image, float32 (n, 5), corners and class, as COCO has them; None: nobody knows them."""
    return [
        {
            "image_id": image,
            "category_id": int(label) + 1,
            "bbox": [x1, y1, x2 - x1, y2 - y1],
            "area": (x2 - x1) * (y2 - y1),
        }
        for x1, y1, x2, y2, label in (() if boxes is None else boxes.tolist())
    ]
