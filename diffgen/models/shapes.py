"""When a model refuses images: find out what it takes, so that the message names both sides."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from diffgen.errors import UserError
from diffgen.models.inputs import ImageShape, Layout
from diffgen.models.wording import reason, shape_text, spoken_list

_CHANNELS = (1, 3)
_SIZES = (28, 32, 64, 96, 128, 224)
_NAMED = 3

DeclaredShape = tuple[int | None, int | None, int | None]


def refusal(
    *,
    name: str,
    image_shape: ImageShape,
    layout: Layout,
    declared: Callable[[Layout], DeclaredShape | None],
    accepts: Callable[[Layout, ImageShape], bool],
    error: Exception,
) -> UserError:
    """Why a model does not take the data's images.

    Args:
        name: of the model.
        image_shape: (C, H, W) of the data.
        layout: the order of axes in which the images were handed over.
        declared: (C, H, W) that the model's file declares when read in a layout, or None: it declares nothing.
        accepts: asks the model whether it takes black images of a shape in a layout.
        error: what the model said to the data's images.

    Returns:
        The error to raise, which names what the model takes if that could be found, else the model's own reason.
    """
    own = shape_text(image_shape)
    other: Layout = "nhwc" if layout == "nchw" else "nchw"
    here, there = declared(layout), declared(other)
    if here is not None and there is not None and not fits(here, image_shape):
        if fits(there, image_shape):
            return _other_layout(name, own, layout, other)
        return _two_sides(name, shape_text(here), own)

    taken = _probe(accepts, image_shape)
    if (layout, image_shape) in taken:
        # Black images of this shape are taken, so that the shape is not the reason.
        return _own_words(name, own, error)
    if (other, image_shape) in taken:
        return _other_layout(name, own, layout, other)
    shapes = [shape for found, shape in taken if found == layout] or [shape for _, shape in taken]
    if not shapes:
        return _own_words(name, own, error)
    channels = {shape[0] for shape in shapes}
    if len(shapes) > 1 and len(channels) == 1 and image_shape[0] not in channels:
        return _two_sides(name, f"{channels.pop()}-channel", own)
    named = [shape_text(shape) for shape in shapes]
    return _two_sides(name, spoken_list(named if len(named) <= _NAMED else [*named[:_NAMED], "larger"]), own)


def fits(declared: DeclaredShape, image_shape: ImageShape) -> bool:
    """Whether images of a shape are what a declared shape with open sides (None) asks for."""
    return all(wanted is None or wanted == side for wanted, side in zip(declared, image_shape, strict=True))


def _probe(accepts: Callable[[Layout, ImageShape], bool], image_shape: ImageShape) -> list[tuple[Layout, ImageShape]]:
    channels, *own_size = image_shape
    sizes = dict.fromkeys([(own_size[0], own_size[1]), *((side, side) for side in _SIZES)])
    depths = dict.fromkeys([channels, *_CHANNELS])
    layouts: tuple[Layout, ...] = ("nchw", "nhwc")
    tries = [(layout, (depth, *size)) for layout, size, depth in product(layouts, sizes, depths)]
    return [(layout, shape) for layout, shape in tries if accepts(layout, shape)]


def _other_layout(name: str, own: str, layout: Layout, other: Layout) -> UserError:
    return UserError(
        f"Model {name} takes {own} images in the layout {other} but its pre-processing says {layout}; set layout to "
        f"{other}, or leave it out."
    )


def _two_sides(name: str, takes: str, own: str) -> UserError:
    return UserError(
        f"Model {name} takes {takes} images but the data has {own}; compare it on data of that shape, or pass a "
        "Python function that converts the images and then asks the model."
    )


def _own_words(name: str, own: str, error: Exception) -> UserError:
    if isinstance(error, UserError):
        return error
    return UserError(f"Model {name} fails on the data's {own} images: {reason(error)}")
