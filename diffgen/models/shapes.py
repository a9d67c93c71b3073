"""When a model refuses images: find out what it takes, so that the message names both sides."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING

import torch

from diffgen.config import replace
from diffgen.errors import ServiceError, UserError
from diffgen.models.graphs import DeclaredSides, agree
from diffgen.models.inputs import LAYOUTS, ImageShape, Layout, PixelTransform, batch_sides, model_shape
from diffgen.models.wording import NoClassesError, reason, shape_text, spoken_list
from diffgen.types import UInt8Array

if TYPE_CHECKING:
    from diffgen.models.base import BlackBox

_CHANNELS = (1, 3)
USUAL_SIZES = (28, 32, 64, 96, 128, 224)
_NAMED = 3

DeclaredShape = tuple[int | None, int | None, int | None]


def refusal(
    *,
    name: str,
    image_shape: ImageShape,
    handed: ImageShape,
    layout: Layout,
    layouts: Sequence[Layout],
    declared: Callable[[Layout], DeclaredShape | None],
    accepts: Callable[[Layout, ImageShape], bool],
    error: Exception,
) -> UserError:
    """Why a model does not take the data's images.

    Args:
        image_shape: (C, H, W) of the data.
        handed: (C, H, W) of what the model was handed, which its pre-processing may have made another.
        layout: the one in which the images were handed over.
        layouts: those that the model's file leaves open.
        declared: (C, H, W) that the model's file declares when read in a layout, or None: it declares nothing.
        accepts: asks the model whether it takes black images of a shape in a layout.
        error: what the model said to the data's images.

    Returns:
        The error to raise, which names what the model takes if that could be found, else the model's own reason.
    """
    own = shape_text(handed) if handed == image_shape else f"{shape_text(handed)} (after its pre-processing)"
    offer = _Offer(handed, image_shape)
    other: Layout = "nhwc" if layout == "nchw" else "nchw"
    here, there = declared(layout), declared(other)
    if here is not None and there is not None and not fits(here, handed):
        if fits(there, handed):
            return _other_layout(name, own, layout, other)
        return _two_sides(name, shape_text(here), own, offer.towards(here) or offer.towards(there))

    taken = probe(accepts, handed, layouts)
    if (layout, handed) in taken:
        # Black images of this shape are taken, so that the shape is not the reason.
        return _own_words(name, own, error)
    fitting = next((found for found, shape in taken if shape == handed), None)
    if fitting is not None:
        return _other_layout(name, own, layout, fitting)
    shapes = [shape for found, shape in taken if found == layout] or [shape for _, shape in taken]
    if not shapes:
        return _own_words(name, own, error)
    channels = {shape[0] for shape in shapes}
    if len(shapes) > 1 and len(channels) == 1 and handed[0] not in channels:
        return _two_sides(name, f"{channels.pop()}-channel", own, offer.towards(shapes[0]))
    named = [shape_text(shape) for shape in shapes]
    takes = spoken_list(named if len(named) <= _NAMED else [*named[:_NAMED], "larger"])
    return _two_sides(name, takes, own, offer.towards(shapes[0]))


class _Offer:
    """The options that turn images of the data into what a model takes."""

    def __init__(self, handed: ImageShape, image_shape: ImageShape) -> None:
        self._handed = handed
        self._data_channels = image_shape[0]

    def towards(self, wanted: DeclaredShape) -> str:
        """The options, or nothing where none would do."""
        channels, height, width = wanted
        options = []
        if channels not in (None, self._handed[0]):
            way = {(1, 3): "grey-to-rgb", (3, 1): "rgb-to-grey"}.get((self._data_channels, channels or 0))
            if way is None:
                return ""
            options.append(f"--channels {way}")
        if height is not None and width is not None and (height, width) != self._handed[1:]:
            options.append(f"--size {height}" if height == width else f"--size {height}x{width}")
        return " ".join(options)


def fits(declared: DeclaredShape, image_shape: ImageShape) -> bool:
    """Whether images of a shape are what a declared shape with open sides (None) asks for."""
    return all(map(agree, declared, image_shape))


def declared_shape(sides: DeclaredSides | None, layout: Layout) -> DeclaredShape | None:
    """(C, H, W) of the declared sides of one image, read in a layout; None where the file does not tell them apart."""
    if sides is None or len(sides) < 3:
        return None
    first, second, third = sides
    return (third, first, second) if layout == "nhwc" else (first, second, third)


def declared_size(sides: DeclaredSides | None) -> tuple[int, int] | None:
    """Height and width of the declared sides of one image, before any image is known; None where one is open.

    The layout is the one that puts 1 or 3 channels where channels belong, (C, H, W) before (H, W, C).
    """
    layouts: tuple[Layout, ...] = ("nchw", "nhwc")
    for layout in layouts:
        channels, height, width = declared_shape(sides, layout) or (None, None, None)
        if channels in _CHANNELS and height is not None and width is not None:
            return height, width
    return None


def layouts_by_declaration(sides: DeclaredSides | None, image_shape: ImageShape) -> tuple[Layout, ...]:
    """The layouts to try, the one first in which the declared sides of one image fit the images."""
    if sides is None:
        return LAYOUTS
    if len(sides) < 3:
        return ("flat" if len(sides) == 1 else "flat-1",)
    as_nchw, as_nhwc = declared_shape(sides, "nchw"), declared_shape(sides, "nhwc")
    assert as_nchw is not None and as_nhwc is not None
    fits_nchw, fits_nhwc = fits(as_nchw, image_shape), fits(as_nhwc, image_shape)
    declares_nhwc = sides[2] in _CHANNELS and sides[0] not in _CHANNELS
    nhwc_first = (fits_nhwc and not fits_nchw) or (fits_nhwc == fits_nchw and declares_nhwc)
    return ("nhwc", "nchw") if nhwc_first else ("nchw", "nhwc")


def probe(
    accepts: Callable[[Layout, ImageShape], bool], image_shape: ImageShape, layouts: Sequence[Layout]
) -> list[tuple[Layout, ImageShape]]:
    """Layouts and shapes (C, H, W) of black images that a model takes, those most like ``image_shape`` first."""
    channels, *own_size = image_shape
    sizes = dict.fromkeys([(own_size[0], own_size[1]), *((side, side) for side in USUAL_SIZES)])
    depths = dict.fromkeys([channels, *_CHANNELS])
    tries = [(layout, (depth, *size)) for layout, size, depth in product(layouts, sizes, depths)]
    return [(layout, shape) for layout, shape in tries if accepts(layout, shape)]


def _other_layout(name: str, own: str, layout: Layout, other: Layout) -> UserError:
    return UserError(
        f"Model {name} takes {own} images in the layout {other} but its pre-processing says {layout}; set layout to "
        f"{other}, or leave it out."
    )


def _two_sides(name: str, takes: str, own: str, options: str) -> UserError:
    mend = f"add {options} to convert them for it, or compare it on data of that shape" if options else ""
    return UserError(
        f"Model {name} takes {takes} images but the data has {own}; {mend or 'compare it on data of that shape'}."
    )


def _own_words(name: str, own: str, error: Exception) -> UserError:
    if isinstance(error, UserError):
        return error
    return UserError(f"Model {name} fails on the data's {own} images: {reason(error)}")


# -- how a model takes images: in which layout, how many at once, and whether one alone ------------------------------

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
    layouts = _layouts(box, shape)
    first_error: Exception | None = None
    for layout in layouts:
        box._transform = PixelTransform(box.preprocessing, layout, image_shape, box._input_device, box.name)
        try:
            return layout, _all_raw_outputs(box, images, most)
        except (ServiceError, NoClassesError):
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
        declared=functools.partial(declared_shape, box._sides),
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
    declared = [shape for layout in _layouts(box, handed) if (shape := declared_shape(box._sides, layout)) is not None]
    if any(fits(shape, handed) for shape in declared):
        return
    for channels, height, width in declared:
        if channels == handed[0] and height is not None and width is not None:
            box.preprocessing = replace(box.preprocessing, size=(height, width))
            return


def _all_raw_outputs(box: BlackBox, images: torch.Tensor | UInt8Array, most: int) -> torch.Tensor:
    try:
        return _in_batches(box, images)
    except (*_OUT_OF_MEMORY, ServiceError, NoClassesError):
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
            except (ServiceError, NoClassesError):
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


def shapes_taken(box: BlackBox, image_shape: ImageShape) -> list[ImageShape]:
    """Shapes (C, H, W) that a model takes, those that are most like a given one first.

    Sides that its file declares are believed; where it says nothing it is asked about black images of the usual sizes.
    """
    layouts = layouts_by_declaration(box._sides, image_shape)
    declared = [shape for layout in layouts if (shape := declared_shape(box._sides, layout)) is not None]
    whole = [(c, h, w) for c, h, w in declared if c in _CHANNELS and h is not None and w is not None]
    if whole:
        return [(int(c or 0), h, w) for c, h, w in whole]
    with torch.inference_mode():
        return list(dict.fromkeys(shape for _, shape in probe(functools.partial(accepts, box), image_shape, layouts)))


def _layouts(box: BlackBox, image_shape: ImageShape) -> tuple[Layout, ...]:
    """The layouts to try in turn; of those with a row of values only, where the pre-processing says "flat"."""
    layouts = layouts_by_declaration(box._sides, image_shape)
    given = box.preprocessing.layout
    if given == "auto" or given is None:
        return layouts
    if given == "flat":
        return tuple(layout for layout in layouts if layout.startswith("flat")) or (given,)
    return (given,)
