"""Finds out how a model takes images: in which layout, how many at once, and whether one alone."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import torch

from diffgen.config import replace
from diffgen.errors import ServiceError, UserError
from diffgen.models.inputs import ImageShape, Layout, PixelTransform, batch_sides, model_shape
from diffgen.models.shapes import fits, layouts_by_declaration, refusal
from diffgen.models.wording import reason
from diffgen.types import UInt8Array

if TYPE_CHECKING:
    from diffgen.models.base import BlackBox

_OUT_OF_MEMORY = (MemoryError, torch.OutOfMemoryError)
# Of what a model is handed at once; a sidecar may ask for images of 4096 x 4096.
_MAX_INPUT_BYTES = 1 << 30
# Tried in turn on a model that refuses the usual batch without saying why.
_FIXED_BATCHES = (1, 2, 4, 8, 10, 16, 32, 50, 64, 100, 128, 256)


def find_layout(
    box: BlackBox, images: torch.Tensor | UInt8Array, image_shape: ImageShape
) -> tuple[Layout, torch.Tensor]:
    """The layout in which the model takes the images, and its raw outputs, float32 (N, K), for them."""
    _adopt_size(box, image_shape)
    shape = model_shape(box.preprocessing, image_shape, box.name)
    most = max(1, _MAX_INPUT_BYTES // (4 * math.prod(shape)))
    box.batch_size = min(box.batch_size, most)
    layouts = box._layouts(shape)
    first_error: Exception | None = None
    for layout in layouts:
        box._transform = PixelTransform(box.preprocessing, layout, image_shape, box._input_device, box.name)
        try:
            return layout, _all_raw_outputs(box, images, most)
        except ServiceError:
            raise
        except _OUT_OF_MEMORY as error:
            raise UserError(
                f"Model {box.name} has too little memory for {box.fixed_batch or box.batch_size} images at "
                "once; give a smaller batch size."
            ) from error
        except Exception as error:  # whatever a foreign model raises is its way to refuse; explained below
            first_error = first_error or error
    assert first_error is not None
    raise refusal(
        name=box.name,
        image_shape=image_shape,
        handed=shape,
        layout=layouts[0],
        layouts=layouts_by_declaration(box._sides, shape),
        declared=box._declared_shape,
        accepts=functools.partial(accepts, box),
        error=first_error,
    ) from first_error


def _adopt_size(box: BlackBox, image_shape: ImageShape) -> None:
    """Where nobody says what size a model is handed, and its file declares another one than the images have: that one.

    It becomes part of the pre-processing, as if it had been said.
    """
    if box.preprocessing.size:
        return
    handed = model_shape(box.preprocessing, image_shape, box.name)
    declared = [shape for layout in box._layouts(handed) if (shape := box._declared_shape(layout)) is not None]
    if any(fits(shape, handed) for shape in declared):
        return
    for channels, height, width in declared:
        if channels == handed[0] and height is not None and width is not None:
            box.preprocessing = replace(box.preprocessing, size=(height, width))
            return


def _all_raw_outputs(box: BlackBox, images: torch.Tensor | UInt8Array, most: int) -> torch.Tensor:
    try:
        return _in_batches(box, images)
    except (*_OUT_OF_MEMORY, ServiceError):
        raise
    except Exception as error:
        if box.fixed_batch is not None or len(images) == 1:
            raise
        # Perhaps it takes one size of batch only, as a graph does that was traced with one and says nothing. One
        # that answered, but in another shape, is asked for one image alone: ten columns for ten images would pass.
        for size in (1,) if isinstance(error, UserError) else [each for each in _FIXED_BATCHES if each <= most]:
            box.fixed_batch = size
            try:
                return _in_batches(box, images)
            except ServiceError:
                raise
            except Exception:  # not this size either
                box.fixed_batch = None
        raise


def _in_batches(box: BlackBox, images: torch.Tensor | UInt8Array) -> torch.Tensor:
    size = box.fixed_batch or box.batch_size
    # Copies, because a function may give the same array at every call.
    parts = [
        box._raw_outputs(images[start : start + size]).to(torch.float32, copy=True)
        for start in range(0, len(images), size)
    ]
    if len({part.shape[1] for part in parts}) > 1:
        raise UserError(f"Model {box.name} gives rows of different lengths for different images.")
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def check_single(box: BlackBox, images: torch.Tensor | UInt8Array) -> None:
    """Refuse a model that fails on a batch of one, as one does that squeezes its output."""
    if box.fixed_batch is not None or len(images) == 1:
        return
    try:
        with box.answers.bypass("alone"):
            box._raw_outputs(images[:1])
    except ServiceError:
        raise
    except Exception as error:
        raise UserError(
            f"Model {box.name} answers {len(images)} images at once but not a single one ({reason(error)}); "
            "export it so that it keeps the axis of the images."
        ) from error


def accepts(box: BlackBox, layout: Layout, image_shape: ImageShape) -> bool:
    """Whether the model answers black images of a shape with rows of values."""
    sides = batch_sides(layout, image_shape)
    count = box.fixed_batch or 1
    try:
        box._rows(box._ask(torch.zeros((count, *sides), device=box._input_device)), count)
    except ServiceError:
        raise
    except Exception:  # to refuse is an answer here, in whatever way the model does it
        return False
    return True
