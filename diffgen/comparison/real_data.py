"""The real images of a comparison, in a size that suits its models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diffgen.config import roles
from diffgen.config.images import ReadingConfig, Sides
from diffgen.data.loading import load_with
from diffgen.data.resize import LARGEST, Resizer, Usual, size_text
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.models import BlackBox
from diffgen.models.inputs import before_crop
from diffgen.types import ImageSet


def load_stored(source: Any, config: ReadingConfig, progress: Progress) -> ImageSet:
    """Images as settings say that were settled before. UserError as :func:`diffgen.data.load`."""
    return _read(source, Resizer(config.resize, config.fit), config, progress)


def load_for(
    source: Any, models: Sequence[BlackBox], config: ReadingConfig, progress: Progress
) -> tuple[ImageSet, Sides]:
    """Real images for models that are open, and the size that they were brought to, or None: their own.

    Pictures that differ in size are brought to the largest input that a model declares; so are pictures of one larger
    size, where all models declare theirs; for detectors these keep their proportions. A picture is never enlarged where
    all have one size: each model does that by itself, as part of its pre-processing.

    Raises:
        UserError: see :func:`diffgen.data.load`; or a model declares an input that images cannot be brought to.
    """
    usual = None if config.resize is not None else usual_size(models)
    resizer = Resizer(config.resize, config.fit, usual)
    images = _read(source, resizer, config, progress)
    if config.resize is None and resizer.size is not None:
        height, width = resizer.size
        whole = resizer.usual is not None and resizer.size != resizer.usual.size
        progress.say(
            f"Nobody named a size: images are brought to {size_text(resizer.size)}, "
            + ("as large as fits into " if whole else "")
            + "the largest input that a model declares"
            + (
                " (--resize says otherwise)."
                if whole
                else f", by the rule {config.fit} (--resize and --fit say otherwise)."
            )
        )
        return images, height if height == width else resizer.size
    return images, config.resize


def _read(source: Any, resizer: Resizer, config: ReadingConfig, progress: Progress) -> ImageSet:
    return load_with(source, resizer, skip_broken=config.skip_broken, exif=config.exif, progress=progress)


def usual_size(models: Sequence[BlackBox]) -> Usual | None:
    """What pictures are brought to where nobody says it: the larger side of the inputs, for height and width each.

    Raises:
        UserError: a model declares more than images may have.
    """
    known = [
        (role, before_crop(size, model.preprocessing.crop or 0.0))
        for role, model in zip(roles(models), models, strict=True)
        if (size := model.input_size)
    ]
    if not known:
        return None
    for role, size in known:
        if max(size) > LARGEST:
            raise UserError(
                f"Model {role} takes images of {size_text(size)} pixels, and images may have {LARGEST} a side; say "
                "with --resize what they are to be brought to."
            )
    height, width = (max(sides) for sides in zip(*(size for _, size in known), strict=True))
    whole = any(not model.classifies for model in models)
    return Usual((height, width), shrinks=len(known) == len(models), whole=whole)


def announce_sizes(models: Sequence[BlackBox], images: ImageSet, progress: Progress) -> None:
    """Say which models are fed as a file beside them says, and for which images are resized. They must be prepared."""
    for role, model in zip(roles(models), models, strict=True):
        if model.fed_by:
            progress.say(f"Model {role} ({model.name}) is fed as {model.fed_by} beside it says.")
    height, width = images.image_shape[1:]
    by_size: dict[tuple[int, int], list[str]] = {}
    for role, model in zip(roles(models), models, strict=True):
        size = model.preprocessing.size
        if size and (size[0], size[1]) != (height, width):
            by_size.setdefault((size[0], size[1]), []).append(role)
    if by_size:
        each = " and ".join(f"to {size_text(size)} for {' and '.join(letters)}" for size, letters in by_size.items())
        progress.say(f"Images of {size_text((height, width))} are resized {each}, as part of the pre-processing.")
