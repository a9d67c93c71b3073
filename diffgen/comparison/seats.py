"""Models that are not classifiers take their seats: what they do is found out and said, and what that rules out."""

from __future__ import annotations

from collections.abc import Sequence

from diffgen.config import CompareConfig, replace
from diffgen.data.checks import check_classes
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.models import BlackBox
from diffgen.models.panel import panel_of, seated, task_of
from diffgen.tasks.classification import listed, some_of
from diffgen.tasks.segmentation import Segmentation
from diffgen.types import ImageSet


def take_seats(
    models: Sequence[BlackBox], images: ImageSet, config: CompareConfig, progress: Progress
) -> tuple[tuple[BlackBox, ...], CompareConfig]:
    """What is asked from now on, and the settings of that task; classifiers and theirs stay as they are.

    Args:
        images: the real ones; labels of whole pictures are for classifiers alone.

    Raises:
        UserError: the models do not all do the same, or the settings ask for what this task has not.
    """
    members = seated(models, config.task)
    panel = panel_of(members)
    if panel is None:
        return members, config
    task = panel.task
    own = {
        "--select": config.select,
        "--oracle": config.oracle is not None,
        "--jury": config.jury is not None,
        "--ask staged": config.ask == "staged",
        "--data-labels use": config.data_labels == "use",
        "--filters jury": "jury" in (config.filters.names or ()),
    }
    if refused := [option for option, asked in own.items() if asked]:
        raise UserError(
            f"{listed(refused)} {'is' if len(refused) == 1 else 'are'} for classifiers, and the models are for "
            f"{task.name}; leave {'it' if len(refused) == 1 else 'them'} out."
        )
    names, known = task.classes, images.class_names or ()
    if images.boxes is not None and known and not set(known) & set(names):
        raise UserError(
            f"The boxes of {images.source} are of {some_of(known)}, and the models have none of these classes ("
            f"{some_of(names)}); name the models' classes with --class-names, or give the pictures without their "
            "boxes."
        )
    if images.masks is not None and isinstance(task, Segmentation):
        _check_masks(task, images)
    shown = some_of(names)
    progress.say(
        f"Task: {task.name}, as the models' outputs show (--task); {len(names):,} "
        f"{'class' if len(names) == 1 else 'classes'} ({shown}); {task.rule}."
    )
    labels = config.data_labels if images.labels is None else "ignore"
    return members, replace(config, task=replace(config.task, name=task.name), data_labels=labels)


def _check_masks(task: Segmentation, images: ImageSet) -> None:
    if images.mask_names is not None and not set(images.mask_names) & set(task.classes):
        raise UserError(
            f"The masks of {images.source} are of {some_of(images.mask_names)}, and the models have none of these "
            f"classes ({some_of(task.classes)}); name the models' classes with --class-names, or give the pictures "
            "without their masks."
        )
    if images.mask_names is None:
        for number, mask in enumerate(images.masks or ()):
            if mask is not None:
                name = images.names[number] if images.names else f"image {number}"
                check_classes(mask, len(task.classes), f"The mask of {name} in {images.source}")


def only_classifiers(models: Sequence[BlackBox], what: str) -> None:
    """See that prepared models are classifiers.

    Raises:
        UserError: one is not; ``what`` is for classifiers, as the subject of a sentence.
    """
    for model in models:
        if (task := task_of(model)) != "classification":
            raise UserError(f"{what} is for classifiers, and model {model.name} is for {task}; name another model.")
