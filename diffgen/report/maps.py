"""Maps of classes over a picture: what each model says of every part of it, and where they differ."""

from __future__ import annotations

import base64
import colorsys
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from diffgen.tasks.classification import role_name
from diffgen.types import BoolArray, UInt8Array

_TURN = 0.61803  # of the circle of hues from one class to the next, so that neighbours are far apart
_CLASS, _OTHER, _CONTESTED, _EDGE = 165, 110, 190, 255  # how much of a picture a colour covers, of 255
_RED, _YELLOW = (230, 20, 60), (255, 225, 0)


@dataclass(frozen=True)
class MapsView:
    """What lies over one picture.

    Attributes:
        panels: the contested region, where the maps differ, and each map: "A", "B", ... for what a model says, else
            words; and a transparent picture as data URI.
        legend: colour in CSS and name of each class that is in one of the maps; the first class has no colour.
    """

    panels: tuple[tuple[str, str], ...]
    legend: tuple[tuple[str, str], ...]


def make_maps(marks: NDArray[np.int16], names: tuple[str, ...]) -> MapsView:
    """The panels of a picture.

    Args:
        marks: int16 (M + 1, h, w), see :meth:`diffgen.tasks.segmentation.Segmentation.marks`.
        names: C names of classes.
    """
    maps, region = np.clip(marks[:-1], 0, len(names) - 1), marks[-1] > 0
    colours = np.array([_colour(number) for number in range(len(names))], dtype=np.uint8)
    apart = (maps != maps[:1]).any(axis=0)
    edge = region & ~_inner(region)
    layers = [(apart, (*_RED, _OTHER)), (region, (*_RED, _CONTESTED)), (edge, (*_YELLOW, _EDGE))]
    panels = [("contested", _painted(layers[2:])), ("different", _painted(layers))]
    panels += [(role_name(index), _data_uri(colours[each])) for index, each in enumerate(maps)]
    legend = [
        (f"rgb({','.join(map(str, colours[number, :3]))})" if number else "transparent", names[number])
        for number in np.unique(maps).tolist()
    ]
    return MapsView(tuple(panels), tuple(legend))


def _colour(number: int) -> tuple[int, int, int, int]:
    if number == 0:
        return 0, 0, 0, 0
    red, green, blue = colorsys.hsv_to_rgb(number * _TURN % 1, 0.9, 1.0 if number % 2 else 0.75)
    return round(255 * red), round(255 * green), round(255 * blue), _CLASS


def _inner(region: BoolArray) -> BoolArray:
    """The cells all of whose four neighbours are in the region, too."""
    around = np.pad(region, 1)
    return np.asarray(around[:-2, 1:-1] & around[2:, 1:-1] & around[1:-1, :-2] & around[1:-1, 2:])


def _painted(layers: Sequence[tuple[BoolArray, tuple[int, ...]]]) -> str:
    """Places, each in its colour, the last one on top."""
    pixels = np.zeros((*layers[0][0].shape, 4), dtype=np.uint8)
    for place, colour in layers:
        pixels[place] = colour
    return _data_uri(pixels)


def _data_uri(pixels: UInt8Array) -> str:
    """uint8 (h, w, 4) as PNG."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
