"""Writes one find of two detectors, or of two models that give maps, as a folder that somebody else can run.

In it are two pictures, what both models say of them, and ten lines that ask them again.
"""

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
from diffgen.models.outputs import TASKS
from diffgen.models.panel import Panel, panel_of, seated
from diffgen.origins import NO_SEED, recipe_text
from diffgen.runs.folder import RunFolder
from diffgen.runs.outputs import filled, output_folder, write_new
from diffgen.runs.pictures import png_bytes
from diffgen.runs.results import FinishedRun
from diffgen.tasks.detection import VALUES, Detection
from diffgen.tasks.segmentation import Segmentation
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
    image = np.atleast_3d(Image.open(f"{{name}}.png")).transpose(2, 0, 1)[None]
    for role, path in zip("AB", sys.argv[1:]):
        model = load(path, preprocessing=Preprocessing(**said[role]["preprocessing"]))
        model.prepare(image)
{answers}'''
_BOXES = f"""\
        boxes = model.predict(image).reshape(-1, {VALUES})
        print(name, role, np.round(boxes[boxes[:, 4] >= said["score_threshold"]], 2).tolist())
"""
_MAPS = """\
        cells = np.array(said[role]["numbers"])[model.predict(image)[0].astype(int)]
        shares = np.bincount(cells, minlength=len(said["classes"])) / len(cells)
        same = (cells == np.asarray(Image.open(f"{name}-{role}.png")).ravel()).mean()
        print(name, role, dict(zip(said["classes"], shares.round(4).tolist())), f"{same:.2%} as in {name}-{role}.png")
"""


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
    """Write a find of two detectors, or models that give maps, such that it can be attached to an issue about one.

    ``differing.png`` is the picture on which they differ and ``agreeing.png`` one like it on which they agree: those of
    ``diffgen shrink`` where that has found such a pair, else the find and the real image that it was made from. The
    files ``.json`` beside them say what each model reports, and ``reproduce.py`` asks the models again. Of a map they
    say which share of it each class has; the map itself is in ``differing-A.png`` and so on, a grey level being the
    number of a class among ``classes``.

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
        UserError: no finished run of two such models there, its models or data are gone or have changed, it reported no
            such find, or the folder cannot be written.
    """
    progress, folder = Progress(events, stop), RunFolder.open(run)
    target = folder.path.with_name(f"{folder.path.absolute().name}-issue-{trigger}") if output is None else Path(output)
    place = output_folder(target, kind="issue", force=force, hint=", or add --force to replace an issue")
    opened, found = OpenedRun(folder, device), FinishedRun.open(folder)
    if opened.config.task.name not in TASKS.values() or len(opened.config.models) != 2:
        raise UserError(
            f"The run {folder.path} does not compare two detectors, or two models that give maps; export its finds "
            "without --issue."
        )
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
    sentence, files = _sentence(panel, said[:1], stack.shape[2:]), dict[str, bytes]()
    for name, image, answers in zip(pictures, stack, said, strict=True):
        files[f"{name}.png"] = png_bytes(image)
        told = {"made_by": recipe_text(origin.recipe), **_answered(panel, answers)}
        files[f"{name}.json"] = (json.dumps(told, indent=1) + "\n").encode()
        if isinstance(panel.task, Segmentation):
            levels = np.uint8 if len(panel.task.classes) <= 256 else np.uint16
            maps = panel.task.maps_of(answers[None])[0].astype(levels)
            files |= {f"{name}-{role}.png": png_bytes(each[None]) for role, each in zip("AB", maps, strict=True)}
    script = _SCRIPT.format(
        sentence=sentence,
        models=" ".join(Path(each.name).name for each in panel.boxes),
        version=folder.manifest["version"],
        names=tuple(pictures),
        answers=_BOXES if isinstance(panel.task, Detection) else _MAPS,
    )
    files["reproduce.py"] = script.encode()
    with filled(place) as unfinished:
        for name, content in files.items():
            write_new(unfinished / name, content)
    return IssueResult(str(folder.path), str(place.path), tuple(files), sentence)


def _shrunk(folder: RunFolder, trigger: int) -> dict[str, UInt8Array]:
    """The pair that was found for a trigger, the differing picture first, or nothing."""
    if not folder.has_arrays("shrunk"):
        return {}
    arrays = folder.read_arrays("shrunk")
    rows = np.flatnonzero(arrays["numbers"] == trigger)
    return {"differing": arrays["triggers"][rows[0]], "agreeing": arrays["agreeing"][rows[0]]} if len(rows) else {}


def _sentence(panel: Panel, answers: Float32Array, sides: tuple[int, ...]) -> str:
    """What two models say of the contested thing in a picture of a height and width, float32 (1, 2, D)."""
    words = [panel.words[label] for label in panel.task.contested(answers)[0].argmax(axis=1)]
    if isinstance(panel.task, Detection):
        corners = panel.task.differences(answers).boxes[0]
    else:
        assert isinstance(panel.task, Segmentation)
        region = np.argwhere(panel.task.regions(answers).regions[0])
        cells = np.concatenate([region.min(axis=0), region.max(axis=0) + 1]) if len(region) else np.full(4, np.nan)
        corners = (cells * np.tile(np.array(sides) / panel.task.sides, 2))[[1, 0, 3, 2]]
    where = "" if np.isnan(corners).any() else f" at {corners.round(1).tolist()}"
    return f"A says {words[0]}, B says {words[1]}{where}."


def _answered(panel: Panel, answers: Float32Array) -> dict[str, Any]:
    """What each model says of a picture, float32 (2, D), and how it is fed."""
    task, entries = panel.task, dict[str, Any]()
    for role, model, own, places in zip(roles(panel.boxes), panel.boxes, answers, panel.places, strict=True):
        fed = {"model": model.name, "sha256": model.digest, "preprocessing": to_dict(model.preprocessing)}
        if isinstance(task, Detection):
            boxes = own.reshape(-1, VALUES)
            kept = boxes[task.reported(boxes)].astype(float).round(3).tolist()
            said = [
                {"bbox": [x1, y1, x2 - x1, y2 - y1], "score": score, "category": task.classes[int(label)]}
                for x1, y1, x2, y2, score, label in kept
            ]
            entries[role] = {**fed, "boxes": said}
        else:
            shares = [float((own == number).mean()) for number in range(len(task.classes))]
            named = {name: round(share, 4) for name, share in zip(task.classes, shares, strict=True) if share}
            entries[role] = {**fed, "numbers": places.tolist(), "shares": named}
    beside = {"score_threshold": task.threshold} if isinstance(task, Detection) else {"classes": task.classes}
    return {**beside, **entries}
