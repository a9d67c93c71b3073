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
    """Queries: images that either model was asked about.

    Attributes:
        most: that may be asked.
        spent: that were.
    """

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
        return self._remembered((), rows, lambda missing: self.box.predict(self.images[missing]))

    def changed(self, changes: tuple[Change, ...], rows: Int64Array) -> Float32Array:
        """float32 (n, K): what it says of some images with changes."""
        changes = tuple(sorted(changes, key=lambda each: each.stage))
        fed = tuple(each for each in changes if each.stage is not Stage.ANSWERS)
        if not fed:
            answers = self.as_is(rows)
        else:
            transform = self.transform(fed)

            def ask(missing: Int64Array) -> Float32Array:
                with self.box.feeding(transform):
                    return self.box.predict(self.images[missing])

            answers = self._remembered(fed, rows, ask)
        read = torch.from_numpy(answers)
        for each in changes[len(fed) :]:
            read = each.apply(read)
        return read.numpy()

    def fed_with(self, preprocessing: Preprocessing, rows: Int64Array) -> Float32Array:
        """float32 (n, K): what it says of some images with other pre-processing; that is paid for and not remembered.

        Raises:
            UserError, RunError: it does not take that.
        """
        assert self.box.image_shape is not None
        self.purse.pay(len(rows))
        transform = PixelTransform(
            preprocessing, self._layout, self.box.image_shape, self.box._input_device, self.box.name
        )
        with self.box.feeding(transform):
            return self.box.predict(self.images[rows])

    def inputs(self, changes: tuple[Change, ...], rows: Int64Array) -> torch.Tensor:
        """What it is handed for some images."""
        return self.transform(tuple(sorted(changes, key=lambda each: each.stage)))(torch.from_numpy(self.images[rows]))

    def pictures(self, changes: tuple[Change, ...], rows: Int64Array) -> UInt8Array:
        """uint8 (n, C', H', W'): what it is handed for some images, as pictures."""
        own = self.box.preprocessing
        handed = self.transform(changes)(torch.from_numpy(self.images[rows]))
        shape = self.shape
        if own.layout == "nhwc":
            handed = handed.permute(0, 3, 1, 2)
        pixels = handed.reshape(len(rows), *shape)
        for values, undo in ((own.std, torch.mul), (own.mean, torch.add)):
            if values:
                pixels = undo(pixels, pixels.new_tensor(values).view(-1, 1, 1))
        pixels = pixels * (255 if own.scale == "0..1" else 1)
        pixels = pixels.flip(1) if own.channels == "bgr" else pixels
        return np.asarray(pixels.round().clamp(0, 255).to(torch.uint8).cpu().numpy())

    def transform(self, changes: Sequence[Change]) -> Callable[[torch.Tensor], torch.Tensor]:
        """From uint8 (N, C, H, W) to what the model takes, with changes in the order of their stages."""
        own, device = self.box.preprocessing, self.box._input_device
        layout = self._layout
        assert self.box.image_shape is not None
        shape = self.shape
        resized = (self.box.image_shape[0], *shape[1:])
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
    def shape(self) -> ImageShape:
        """(C', H', W') of what it is handed."""
        assert self.box.image_shape is not None
        return model_shape(self.box.preprocessing, self.box.image_shape, self.box.name)

    def seen(self, own: Float32Array, other: Float32Array) -> Seen:
        """What causes know of this model."""
        assert self.box.image_shape is not None
        return Seen(
            self.box.preprocessing,
            self.box.image_shape,
            self.shape,
            own,
            other,
            self.box.class_names,
            self.box._takes_bytes,
        )

    def _remembered(
        self, key: tuple[Change, ...], rows: Int64Array, ask: Callable[[Int64Array], Float32Array]
    ) -> Float32Array:
        known = self._known.setdefault(key, {})
        missing = np.array([row for row in dict.fromkeys(rows.tolist()) if row not in known], dtype=np.int64)
        if len(missing):
            self.purse.pay(len(missing))
            known.update(zip(missing.tolist(), ask(missing), strict=True))
        return np.stack([known[row] for row in rows.tolist()])
