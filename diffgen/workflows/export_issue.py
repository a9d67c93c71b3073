"""Writes one find of two detectors as a folder that somebody else can run: pictures, what both say, and ten lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diffgen.comparison.opened_run import OpenedRun
from diffgen.config import ModelSpec, roles, to_dict
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.models.panel import Panel, panel_of, seated
from diffgen.origins import NO_SEED, recipe_text
from diffgen.runs.folder import RunFolder
from diffgen.runs.outputs import filled, output_folder, write_new
from diffgen.runs.pictures import png_bytes
from diffgen.runs.results import FinishedRun
from diffgen.tasks.detection import VALUES, Detection
from diffgen.types import Float32Array, Result, UInt8Array, several
from diffgen.workflows.replay import rows_of

_SCRIPT = '''\
"""{sentence} Run: python reproduce.py {models} (needs diffgen {version})"""
import json, sys
import numpy as np
from PIL import Image
from diffgen.config import Preprocessing
from diffgen.models import load

for name in {names}:
    said = json.load(open(f"{{name}}.json"))
    image = np.asarray(Image.open(f"{{name}}.png").convert("RGB")).transpose(2, 0, 1)[None]
    for role, path in zip("AB", sys.argv[1:]):
        model = load(path, preprocessing=Preprocessing(**said[role]["preprocessing"]))
        model.prepare(image)
        boxes = model.predict(image).reshape(-1, {values})
        print(name, role, np.round(boxes[boxes[:, 4] >= said["score_threshold"]], 2).tolist())
'''


@dataclass(frozen=True)
class IssueResult(Result):
    """What was written.

    Attributes:
        run: the run folder.
        folder: where to.
        files: their names.
        sentence: what the two models say of the find.
    """

    run: str
    folder: str
    files: tuple[str, ...]
    sentence: str


def export_issue(
    run: str | Path,
    trigger: int,
    output: str | Path | None = None,
    *,
    models: Any = (),
    data: Any = None,
    options: Sequence[ModelSpec] = (),
    force: bool = False,
    device: str | None = None,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> IssueResult:
    """Write a find of two detectors such that it can be attached to an issue about one of them.

    ``differing.png`` is the picture on which they differ and ``agreeing.png`` one like it on which they agree: those of
    ``diffgen shrink`` where that has found such a pair, else the find and the real image that it was made from. The
    files ``.json`` beside them say what each model reports, and ``reproduce.py`` asks the models again.

    Args:
        run: the run folder.
        trigger: number of the find.
        output: the folder to make, or None for ``RUN-issue-NUMBER`` beside the run.
        models: those of the run where it was given objects, or none: the run's.
        data: the real images, where the run was given them in memory or they have moved; None for the run's own.
        options: allows again what runs code, for each model in turn; or none: nothing of the kind.
        force: replace a folder that an earlier call made, with nothing else in it.
        device: where to compute, or None for the run's own device.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: no finished run of two detectors there, its models or data are gone or have changed, it reported no
            such find, or the folder cannot be written.
    """
    progress, folder = Progress(events, stop), RunFolder.open(run)
    target = folder.path.with_name(f"{folder.path.absolute().name}-issue-{trigger}") if output is None else Path(output)
    place = output_folder(target, kind="issue", force=force, hint=", or add --force to replace an issue")
    opened, found = OpenedRun(folder, device), FinishedRun.open(folder)
    if opened.config.task.name != "detection" or len(opened.config.models) != 2:
        raise UserError(f"The run {folder.path} does not compare two detectors; export its finds without --issue.")
    row = int(rows_of([trigger], found.triggers.numbers[found.triggers.confirmed], folder.path)[0])
    row = int(np.flatnonzero(found.triggers.confirmed)[row])
    pictures = _shrunk(folder, trigger)
    origin = found.triggers.origin(row)
    if not pictures:
        pictures = {"differing": found.triggers.images_of(np.array([row]))[0]}
        if origin.seed not in (None, NO_SEED):
            images = opened.data(data, purpose="show the image that it was made from", progress=progress)
            pictures["original"] = images.images[origin.seed]
    boxes = opened.models(several(models), options=options)
    stack = np.stack(list(pictures.values()))
    for each in boxes:
        each.prepare(stack)
    panel = panel_of(seated(boxes, opened.config.task))
    assert panel is not None
    said = panel.answers(stack)
    sentence = _sentence(panel, said[:1])
    with filled(place) as unfinished:
        for name, image, answers in zip(pictures, stack, said, strict=True):
            write_new(unfinished / f"{name}.png", png_bytes(image))
            write_new(unfinished / f"{name}.json", _json(panel, answers, recipe_text(origin.recipe)).encode())
        script = _SCRIPT.format(
            sentence=sentence,
            models=" ".join(Path(each.name).name for each in panel.boxes),
            version=folder.manifest["version"],
            names=tuple(pictures),
            values=VALUES,
        )
        write_new(unfinished / "reproduce.py", script.encode())
    files = tuple(f"{name}.{kind}" for name in pictures for kind in ("png", "json"))
    return IssueResult(str(folder.path), str(place.path), (*files, "reproduce.py"), sentence)


def _shrunk(folder: RunFolder, trigger: int) -> dict[str, UInt8Array]:
    """The pair that was found for a trigger, the differing picture first, or nothing."""
    if not folder.has_arrays("shrunk"):
        return {}
    arrays = folder.read_arrays("shrunk")
    rows = np.flatnonzero(arrays["numbers"] == trigger)
    return {"differing": arrays["triggers"][rows[0]], "agreeing": arrays["agreeing"][rows[0]]} if len(rows) else {}


def _sentence(panel: Panel, answers: Float32Array) -> str:
    """What two detectors say of the contested object of a picture, float32 (1, 2, D)."""
    assert isinstance(panel.task, Detection)
    found = panel.task.differences(answers)
    words = [panel.words[label] for label in found.vectors[0].argmax(axis=1)]
    where = "" if np.isnan(found.boxes[0]).any() else f" at {found.boxes[0].round(1).tolist()}"
    return f"A says {words[0]}, B says {words[1]}{where}."


def _json(panel: Panel, answers: Float32Array, recipe: str) -> str:
    """What each model reports in a picture, float32 (2, D), boxes as COCO has them, and how it is fed."""
    assert isinstance(panel.task, Detection)
    entries: dict[str, Any] = {"score_threshold": panel.task.threshold, "made_by": recipe}
    for role, model, boxes in zip(
        roles(panel.boxes), panel.boxes, answers.reshape(len(answers), -1, VALUES), strict=True
    ):
        kept = boxes[panel.task.reported(boxes)].astype(float).round(3)
        entries[role] = {
            "model": model.name,
            "sha256": model.digest,
            "preprocessing": to_dict(model.preprocessing),
            "boxes": [
                {"bbox": [x1, y1, x2 - x1, y2 - y1], "score": score, "category": panel.task.classes[int(label)]}
                for x1, y1, x2, y2, score, label in kept.tolist()
            ],
        }
    return json.dumps(entries, indent=1) + "\n"
