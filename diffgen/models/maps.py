"""Maps of classes: finds out in which layout a model gives them, and reads one of the cells of the image from it.

Read are, by the names that ``--head`` takes (N images, C classes):

=================  ==========================================================================================
``classes-first``  (N, C, H, W): probabilities or logits, as torch and ONNX have them
``classes-last``   (N, H, W, C): the same, as TensorFlow has them
``class-map``      (N, H, W), or with an axis of 1 for C: whole numbers, the classes themselves
=================  ==========================================================================================

With one class only a value is for "there" against the background.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import torch
from torch.nn import functional

from diffgen.config import Preprocessing
from diffgen.config.models import MapKind
from diffgen.errors import UserError
from diffgen.models.detector_heads import NoHeadError, Size, looks_like_boxes
from diffgen.models.inputs import PixelTransform
from diffgen.models.named_outputs import Outputs, named_outputs
from diffgen.models.wording import counted, no_such_output, shape_text
from diffgen.tasks.segmentation import map_sides
from diffgen.wording import count_of

MAPS: tuple[MapKind, ...] = get_args(MapKind)
_USUAL = ("out", "logits")  # what torchvision and transformers call their maps, beside others for training
_MOST_BYTES = 1 << 30  # of the outputs to one batch
_COARSEST = 8  # pixels of the input for one of a map that holds classes themselves
_FEWEST = 4  # rows and columns of a map; what a classifier gives for one place is none


@dataclass(frozen=True)
class MapHead:
    """How the outputs of one model are read.

    Attributes:
        size: height and width of its maps.
        classes: C, with the background where the model has one value for "there"; 0: whole numbers do not tell.
        above: of that one value, from what on it is there; None: there are several.
    """

    kind: MapKind
    output: str
    size: Size
    classes: int
    above: float | None = None

    finished: ClassVar[bool] = True  # nothing is to be suppressed

    @property
    def words(self) -> str:
        """For people."""
        values = "classes" if self.kind == "class-map" else f"values of {count_of(self.classes, 'class', 'classes')}"
        return f"{values} ({self.kind}, {self.size[0]}x{self.size[1]})"

    def classes_at(self, outputs: Outputs, places: torch.Tensor) -> torch.Tensor:
        """float32 (N, h, w), classes at places of what the model was handed, float32 (h, w, 2) from -1 to 1; x first.

        Values of neighbours are weighed, as where a map is enlarged, before the highest one decides; of whole numbers
        the nearest one is taken. NaN where a value was not finite.
        """
        values = _first(outputs[self.output], self.kind).float()
        grid = places.to(values.device).expand(len(values), -1, -1, -1)
        whole = self.kind == "class-map"
        found = functional.grid_sample(
            values, grid, mode="nearest" if whole else "bilinear", padding_mode="border", align_corners=False
        )
        bad = ~torch.isfinite(values).flatten(1).all(dim=1)
        if whole:
            classes = found[:, 0]
        else:
            classes = found.argmax(dim=1).float() if self.above is None else (found[:, 0] > self.above).float()
        classes[bad] = torch.nan
        return classes


class MapReader:
    """Reads the answers of one model.

    Args:
        name: of the model, for messages.
        seen: some of its outputs, and to how many images they belong.

    Attributes:
        most_at_once: images that the model is to be asked about at once.
        outputs, from_one: as of a :class:`~diffgen.models.detections.BoxReader`.
    """

    outputs: ClassVar[Literal["maps"]] = "maps"
    from_one: ClassVar[bool] = False

    def __init__(self, name: str, seen: Sequence[tuple[Outputs, int]]) -> None:
        self.head: MapHead | None = None
        self.most_at_once = 1
        self._name = name
        self._seen = seen

    def rows(self, answer: object, count: int, transform: PixelTransform, preprocessing: Preprocessing) -> torch.Tensor:
        """Maps as a model's answer.

        Args:
            answer: to ``count`` images.
            preprocessing: is not looked at.

        Returns:
            float32 (count, h * w) on the CPU, the class of each cell, see :func:`diffgen.tasks.segmentation.map_sides`.
            An image for which a value was not finite has NaN everywhere.

        Raises:
            UserError: the model has not answered as on the first images.
        """
        assert self.head is not None
        outputs = named_outputs(answer)
        found = outputs.get(self.head.output)
        if found is None or len(found) != count or _first(found, self.head.kind).shape[2:] != self.head.size:
            raise UserError(
                f"Model {self._name} gives other maps than for the first images; let them have one size, and one for "
                "each image."
            )
        classes = self.head.classes_at(outputs, transform.places(map_sides(transform.own)))
        wrong = classes[(classes < 0) | (classes.isfinite() & (classes != classes.round()))]
        if len(wrong):
            raise UserError(
                f"Model {self._name} gives {float(wrong[0]):g} as the class of a pixel; let its maps hold whole "
                "numbers from 0."
            )
        return classes.flatten(1).cpu()

    def numbers_in(self, rows: torch.Tensor) -> torch.Tensor:
        """The classes in answers, float32 of any shape."""
        return rows

    def find(self, size: Size, names: Sequence[str], preprocessing: Preprocessing) -> MapHead:
        """Find the head on the outputs so far.

        Args:
            size: height and width of what the model was handed.
            names: of its classes, or none.
            preprocessing: says of ``head`` what is known.

        Raises:
            NoHeadError: there is none.
            UserError: it is left open which output, or which axis, is meant.
        """
        output = _output(self._seen[0][0], self._name)
        values = [outputs[output] for outputs, _ in self._seen]
        axes = (3, 4) if preprocessing.head == "class-map" else (4,)
        said = [each for each in MAPS if each == preprocessing.head and values[0].ndim in axes]
        kinds = said if preprocessing.head in MAPS else _kinds(values, size, len(names))
        if not kinds or any(len(each) != count for each, (_, count) in zip(values, self._seen, strict=True)):
            raise NoHeadError(
                f"Model {self._name} gives shape {shape_text(values[0].shape)} for images of {size[0]}x{size[1]} "
                "pixels, and no maps of classes; export it so that it gives (N, C, H, W), (N, H, W, C) or (N, H, W)."
            )
        if len(kinds) > 1:
            raise UserError(
                f"Model {self._name} gives shape {shape_text(values[0].shape)}, of which the second or the last axis "
                f"may be that of the classes; say --head {kinds[0]} or --head {kinds[1]}."
            )
        maps = [_first(each, kinds[0]) for each in values]
        _, classes, height, width = maps[0].shape
        self.most_at_once = max(1, _MOST_BYTES // maps[0][0].float().nbytes)
        self.head = MapHead(kinds[0], output, (height, width), 0 if kinds[0] == "class-map" else classes)
        if self.head.classes == 1:
            shares = all(bool(((each >= 0) & (each <= 1)).all()) for each in maps)
            self.head = replace(self.head, classes=2, above=0.5 if shares else 0.0)
        self._seen = ()
        return self.head


def looks_like_maps(answer: object) -> bool:
    """Whether what a model gave may be maps of classes, by its shapes; of several outputs all are maps."""
    shapes = [tuple(each.shape) for each in named_outputs(answer).values()]
    axes = (3, 4) if len(shapes) == 1 else (4,)
    return bool(shapes) and all(
        len(shape) in axes and sum(side >= _FEWEST for side in shape[1:]) > 1 for shape in shapes
    )


def are_maps(outputs: Outputs, count: int, size: Size) -> bool:
    """Whether outputs that are boxes or maps are maps, of images of a height and width."""
    several = len(outputs) > 1 and looks_like_boxes(outputs, count)
    return looks_like_maps(outputs) and not several and any(_kinds([each], size, 0) for each in outputs.values())


def _output(outputs: Outputs, name: str) -> str:
    """Which of several outputs is the map."""
    maps = [key for key, each in outputs.items() if each.ndim in (3, 4)]
    usual = [key for key in maps if key in _USUAL]
    chosen = usual if len(usual) == 1 else maps
    if len(chosen) > 1:
        raise UserError(no_such_output(name, chosen, "", counted(len(outputs), "output")))
    if not chosen:
        raise NoHeadError(f"Model {name} gives {counted(len(outputs), 'output')}, of which none is a map of classes.")
    return chosen[0]


def _kinds(values: Sequence[torch.Tensor], size: Size, names: int) -> list[MapKind]:
    """The heads that such an output may be of, by its shape and values; its maps have the proportions of the input."""
    first = values[0]
    whole = all(bool(((each == each.round()) & (each >= 0)).all()) for each in values)
    if first.ndim == 3:
        fine = first.shape[1] * _COARSEST >= size[0]
        return ["class-map"] if whole and fine and _proportional(first.shape[1:], size) else []
    if first.ndim != 4:
        return []
    layouts: dict[MapKind, tuple[torch.Size, int]] = {
        "classes-first": (first.shape[2:], first.shape[1]),
        "classes-last": (first.shape[1:3], first.shape[3]),
    }
    fits: list[MapKind] = [kind for kind, (sides, _) in layouts.items() if _proportional(sides, size)]
    if any(layouts[kind][1] == 1 for kind in fits) and whole:
        return ["class-map"]
    named = [kind for kind in fits if layouts[kind][1] == names]
    return named if len(named) == 1 else fits


def _proportional(sides: torch.Size, size: Size) -> bool:
    """Whether a map may be one of an input of a height and width, each side divided by one number and rounded."""
    height, width = sides
    return min(height, width) >= _FEWEST and abs(height * size[1] - width * size[0]) <= max(size)


def _first(values: torch.Tensor, kind: MapKind) -> torch.Tensor:
    """(N, C, H, W) of whatever layout."""
    if kind == "classes-last" or (kind == "class-map" and values.ndim == 4 and values.shape[3] == 1):
        return values.permute(0, 3, 1, 2)
    return values[:, None] if values.ndim == 3 else values
