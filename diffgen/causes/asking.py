"""Asks a model about pictures that are fed otherwise than its pre-processing says, counts that, and remembers it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from diffgen.causes.base import Change, Seen, Stage
from diffgen.causes.geometry import Geometry
from diffgen.config import Preprocessing, replace
from diffgen.models import BlackBox
from diffgen.models.inputs import LAYOUTS, ImageShape, Layout, PixelTransform, batch_sides, model_shape
from diffgen.types import Float32Array, Int64Array, UInt8Array


class SpentError(Exception):
    """The queries that an explanation may take are used up."""


@dataclass
class Purse:
    """Queries: images that either model was asked about."""

    most: int
    spent: int = 0

    def pay(self, images: int) -> None:
        if self.spent + images > self.most:
            raise SpentError
        self.spent += images


@dataclass(eq=False)
class Asked:
    """One model and what it said of the images of a sample.

    Args:
        box: prepared for the images.
        images: uint8 (N, C, H, W).
        purse: pays for what is asked.
    """

    box: BlackBox
    images: UInt8Array
    purse: Purse
    _known: dict[tuple[Change, ...], dict[int, Float32Array]] = field(default_factory=dict)

    def as_is(self, rows: Int64Array) -> Float32Array:
        """float32 (n, K): what it says of some images, fed as its own pre-processing says."""
        return self._remembered((), rows, self.again)

    def changed(self, changes: tuple[Change, ...], rows: Int64Array) -> Float32Array:
        """float32 (n, K): what it says of some images with changes."""
        fed = tuple(each for each in changes if each.stage is not Stage.ANSWERS)

        def ask(missing: Int64Array) -> Float32Array:
            with self.box.feeding(self.transform(fed)):
                return self.again(missing)

        read = torch.from_numpy(self._remembered(fed, rows, ask) if fed else self.as_is(rows))
        for each in changes:
            read = each.apply(read) if each.stage is Stage.ANSWERS else read
        return read.numpy()

    def fed_with(self, preprocessing: Preprocessing, rows: Int64Array) -> Float32Array:
        """float32 (n, K): what it says of some images with other pre-processing; not remembered.

        Raises:
            UserError, RunError: it does not take that.
        """
        box = self.box
        with box.feeding(PixelTransform(preprocessing, self._layout, self.image_shape, box._input_device, box.name)):
            return self.again(rows)

    def again(self, rows: Int64Array) -> Float32Array:
        """float32 (n, K): what it says of some images at once, as it is fed now; that is paid for, and not remembered.

        Raises:
            SpentError: it may not be asked about so many.
        """
        left = self.box.answers.images_left
        if left is not None and len(rows) > left:
            raise SpentError
        self.purse.pay(len(rows))
        return self.box.predict(self.images[rows])

    def inputs(self, changes: tuple[Change, ...], rows: Int64Array) -> torch.Tensor:
        """What it is handed for some images."""
        return self.transform(changes)(torch.from_numpy(self.images[rows]))

    def pictures(self, changes: tuple[Change, ...], rows: Int64Array) -> UInt8Array:
        """uint8 (n, C', H', W'): what it is handed for some images, as pictures."""
        own = self.box.preprocessing
        handed = self.inputs(changes, rows)
        pixels = (handed.permute(0, 3, 1, 2) if own.layout == "nhwc" else handed).reshape(len(rows), *self.shape)
        for values, undo in ((own.std, torch.mul), (own.mean, torch.add)):
            if values:
                pixels = undo(pixels, pixels.new_tensor(values).view(-1, 1, 1))
        pixels = pixels * (255 if own.scale == "0..1" else 1)
        pixels = pixels.flip(1) if own.channels == "bgr" else pixels
        return np.asarray(pixels.round().clamp(0, 255).to(torch.uint8).cpu().numpy())

    def transform(self, changes: Sequence[Change]) -> Callable[[torch.Tensor], torch.Tensor]:
        """From uint8 (N, C, H, W) to what the model takes, with changes in the order of their stages."""
        own, device, layout, shape = self.box.preprocessing, self.box._input_device, self._layout, self.shape
        resized = (self.image_shape[0], *shape[1:])
        resize: Callable[[torch.Tensor], torch.Tensor] = Geometry.of(own, (shape[1], shape[2]))
        resize = next((each.apply for each in reversed(changes) if each.stage is Stage.RESIZE), resize)
        levels = PixelTransform(replace(own, size=(), crop=0.0), "nchw", resized, device, self.box.name)

        def at(stage: Stage, pixels: torch.Tensor) -> torch.Tensor:
            for each in changes:
                if each.stage is stage:
                    pixels = each.apply(pixels)
            return pixels

        def made(images: torch.Tensor) -> torch.Tensor:
            pixels = resize(at(Stage.PICTURE, images.to(device).to(torch.float32)))
            for stage in (Stage.PIXELS, Stage.CHANNELS, Stage.LEVELS):
                pixels = at(stage, pixels)
            pixels = at(Stage.INPUT, levels(pixels.contiguous()))
            if layout == "nhwc":
                return pixels.permute(0, 2, 3, 1).contiguous()
            return pixels.contiguous().view(len(pixels), *batch_sides(layout, shape))

        return made

    @property
    def _layout(self) -> Layout:
        return next(each for each in LAYOUTS if each == self.box.preprocessing.layout)

    @property
    def image_shape(self) -> ImageShape:
        """(C, H, W) of the images."""
        assert self.box.image_shape is not None
        return self.box.image_shape

    @property
    def shape(self) -> ImageShape:
        """(C', H', W') of what it is handed."""
        return model_shape(self.box.preprocessing, self.image_shape, self.box.name)

    def seen(self, own: Float32Array, other: Float32Array) -> Seen:
        """What causes know of this model."""
        box = self.box
        return Seen(box.preprocessing, self.image_shape, self.shape, own, other, box.class_names, box._takes_bytes)

    def _remembered(
        self, key: tuple[Change, ...], rows: Int64Array, ask: Callable[[Int64Array], Float32Array]
    ) -> Float32Array:
        known = self._known.setdefault(key, {})
        missing = np.array([row for row in dict.fromkeys(rows.tolist()) if row not in known], dtype=np.int64)
        if len(missing):
            known.update(zip(missing.tolist(), ask(missing), strict=True))
        return np.stack([known[row] for row in rows.tolist()])
