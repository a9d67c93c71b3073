"""The black box: what every model under test is to the rest of diffgen, whatever file it came from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import overload

import numpy as np
import torch

from diffgen.config import Preprocessing
from diffgen.errors import DiffgenError, RunError, UserError
from diffgen.models.inputs import ImageShape, Layout, PixelTransform, as_tensor, check_images
from diffgen.models.outputs import OutputKind, checked_rows, decide_outputs, find_fault, to_probabilities
from diffgen.models.shapes import DeclaredShape, refusal
from diffgen.models.wording import counted, reason, shape_text
from diffgen.types import Float32Array, UInt8Array

_OUT_OF_MEMORY = (MemoryError, torch.OutOfMemoryError)


@dataclass(frozen=True)
class ModelSettings:
    """What is known of a model before it is opened.

    Attributes:
        name: shown in messages and reports.
        path: its file, or None.
        digest: SHA-256 of the file's contents, or None.
        device: where its answers are wanted.
        batch_size: most images handed to it at once.
        preprocessing: as the user or a recorded run gave it.
    """

    name: str
    path: Path | None = None
    digest: str | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    batch_size: int = 256
    preprocessing: Preprocessing = field(default_factory=Preprocessing)

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise UserError(f"The batch size {self.batch_size} of model {self.name} is not positive; give 1 or more.")


class BlackBox(ABC):
    """A classifier that can be asked for probabilities and nothing else: no gradients, no layers.

    A format adds :meth:`_ask`, and what its files declare. ``prepare`` is called once, then ``predict`` as often as
    one likes.

    Attributes:
        name, path, digest, device, batch_size: see :class:`ModelSettings`.
        preprocessing: resolved after ``prepare``: neither layout nor outputs is "auto".
        image_shape: (C, H, W) of the images it is asked about; known after ``prepare``.
        num_classes: K; 0 before ``prepare``.
        fixed_batch: the only batch size that the model takes, or None. Shorter batches are padded.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self.name = settings.name
        self.path = settings.path
        self.digest = settings.digest
        self.device = settings.device
        self.batch_size = settings.batch_size
        self.preprocessing = settings.preprocessing
        self.image_shape: ImageShape | None = None
        self.num_classes = 0
        self.fixed_batch: int | None = None
        # Where _ask wants its input; formats that compute outside torch change it to the CPU.
        self._input_device = settings.device
        self._transform: PixelTransform | None = None
        self._kind: OutputKind = "logits"

    @abstractmethod
    def _ask(self, batch: torch.Tensor) -> object:
        """Ask the model itself, in inference mode.

        Args:
            batch: float32 (N, C, H, W) or (N, H, W, C) on ``_input_device``, contiguous, free to be overwritten.

        Returns:
            A tensor (N, K) if all is well; anything else that the model gives is passed on as it is, to be named in
            the message.
        """

    def _layouts(self, image_shape: ImageShape) -> tuple[Layout, ...]:
        """The layouts to try in turn where none is given."""
        return ("nchw", "nhwc")

    def _declared_shape(self, layout: Layout) -> DeclaredShape | None:
        """(C, H, W) that the file declares, read in a layout; None for what it leaves open or doesn't say."""
        return None

    def prepare(self, images: torch.Tensor | UInt8Array) -> None:
        """Find out whether the model takes such images and how its answers are to be read.

        What ``preprocessing`` leaves to "auto" is decided on these images and written into it. What it fixes, as in
        the replay of a run, is only checked.

        Args:
            images: uint8 (N, C, H, W), N >= 1: real images, better some dozens than one.

        Raises:
            UserError: the model doesn't take them (the message names what it takes), or doesn't answer with one row
                of at least two finite values per image.
        """
        check_images(images, self.name)
        if len(images) == 0:
            raise UserError(f"Model {self.name} cannot be prepared without images; give some real ones.")
        self.num_classes = 0
        self.image_shape = _shape_of(images)
        with torch.inference_mode():
            layout, raw = self._find_layout(images, self.image_shape)
            self._check_single(images)
        given = self.preprocessing.outputs
        # Only a finite answer can be judged; taken for logits, nothing but NaN and infinity is a fault.
        fault = find_fault(raw, "logits" if given == "auto" else given)
        if fault is not None:
            raise UserError(f"On real images, model {self.name} {fault}")
        self._kind = decide_outputs(raw) if given == "auto" else given
        self.preprocessing = replace(self.preprocessing, layout=layout, outputs=self._kind)
        self.num_classes = raw.shape[1]

    @overload
    def predict(self, images: torch.Tensor) -> torch.Tensor: ...
    @overload
    def predict(self, images: UInt8Array) -> Float32Array: ...
    def predict(self, images: torch.Tensor | UInt8Array) -> torch.Tensor | Float32Array:
        """Class probabilities of images.

        Args:
            images: uint8 (N, C, H, W), N >= 0, of the shape that the model was prepared with; on any device.

        Returns:
            float32 (N, K) in [0, 1], rows sum to 1: a tensor on ``device`` for a tensor, an array for an array.

        Raises:
            UserError: the images are not such images, ``prepare`` was not called, or the model's answer is not one
                row of values per image.
            RunError: the model raised, or gave values that are not finite or not what its outputs were found to be.
        """
        check_images(images, self.name)
        if self.num_classes == 0:
            raise UserError(f"Model {self.name} is not prepared; call prepare with some real images first.")
        if tuple(images.shape[1:]) != self.image_shape:
            raise UserError(
                f"Model {self.name} was prepared for {shape_text(self.image_shape or ())} images but is asked about "
                f"{shape_text(_shape_of(images))} ones; load it again for these."
            )
        # Made outside of inference mode, so that whoever gets it may change it in place.
        raw = torch.empty((len(images), self.num_classes), device=self._input_device)
        if len(raw) > 0:
            with torch.inference_mode():
                self._fill(raw, images)
            fault = find_fault(raw, self._kind)
            if fault is not None:
                raise RunError(f"Model {self.name} {fault}")
            raw = to_probabilities(raw, self._kind)
        return raw.to(self.device) if isinstance(images, torch.Tensor) else raw.cpu().numpy()

    def _fill(self, raw: torch.Tensor, images: torch.Tensor | UInt8Array) -> None:
        """Write the raw outputs for all images into ``raw``."""
        size = self.fixed_batch or self.batch_size
        for start in range(0, len(raw), size):
            chunk = images if len(raw) <= size else images[start : start + size]
            try:
                rows = self._raw_outputs(chunk)
            except DiffgenError:
                raise
            except Exception as error:
                raise RunError(
                    f"Model {self.name} failed on {counted(len(chunk), 'image')}: {reason(error)}"
                ) from error
            if rows.shape[1] != self.num_classes:
                raise RunError(f"Model {self.name} gave {rows.shape[1]} values per image, before {self.num_classes}.")
            raw[start : start + size] = rows

    def _raw_outputs(self, chunk: torch.Tensor | UInt8Array) -> torch.Tensor:
        """The model's own answer, floating (N, K), to at most one batch of images; its exceptions pass through."""
        assert self._transform is not None
        images = as_tensor(chunk) if isinstance(chunk, np.ndarray) else chunk
        count = len(images)
        missing = self.fixed_batch - count if self.fixed_batch else 0
        if missing > 0:
            images = torch.cat([images, images[-1:].expand(missing, -1, -1, -1)])
        answer = self._ask(self._transform(images))
        return checked_rows(answer, count + missing, self.name)[:count]

    def _find_layout(self, images: torch.Tensor | UInt8Array, image_shape: ImageShape) -> tuple[Layout, torch.Tensor]:
        """The layout in which the model takes the images, and its raw outputs, float32 (N, K), for them."""
        given = self.preprocessing.layout
        layouts = self._layouts(image_shape) if given == "auto" else (given,)
        first_error: Exception | None = None
        for layout in layouts:
            self._transform = PixelTransform(self.preprocessing, layout, image_shape[0], self._input_device, self.name)
            try:
                return layout, self._all_raw_outputs(images)
            except _OUT_OF_MEMORY as error:
                raise UserError(
                    f"Model {self.name} has too little memory for {self.fixed_batch or self.batch_size} images at "
                    "once; give a smaller batch size."
                ) from error
            except Exception as error:  # whatever a foreign model raises is its way to refuse; explained below
                first_error = first_error or error
        assert first_error is not None
        raise refusal(
            name=self.name,
            image_shape=image_shape,
            layout=layouts[0],
            declared=self._declared_shape,
            accepts=self._accepts,
            error=first_error,
        ) from first_error

    def _all_raw_outputs(self, images: torch.Tensor | UInt8Array) -> torch.Tensor:
        try:
            return self._in_batches(images)
        except _OUT_OF_MEMORY:
            raise
        except Exception:
            if self.fixed_batch is not None or len(images) == 1:
                raise
            # Perhaps it takes one image at a time only, as a graph does that was traced with one and says nothing.
            self.fixed_batch = 1
            try:
                return self._in_batches(images)
            except Exception:
                self.fixed_batch = None
            raise

    def _in_batches(self, images: torch.Tensor | UInt8Array) -> torch.Tensor:
        size = self.fixed_batch or self.batch_size
        # Copies, because a function may give the same array at every call.
        parts = [
            self._raw_outputs(images[start : start + size]).to(torch.float32, copy=True)
            for start in range(0, len(images), size)
        ]
        if len({part.shape[1] for part in parts}) > 1:
            raise UserError(f"Model {self.name} gives rows of different lengths for different images.")
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _check_single(self, images: torch.Tensor | UInt8Array) -> None:
        """Refuse a model that fails on a batch of one, as one does that squeezes its output."""
        if self.fixed_batch is not None or len(images) == 1:
            return
        try:
            self._raw_outputs(images[:1])
        except Exception as error:
            raise UserError(
                f"Model {self.name} answers {len(images)} images at once but not a single one: {reason(error)}"
            ) from error

    def _accepts(self, layout: Layout, image_shape: ImageShape) -> bool:
        """Whether the model answers black images of a shape with rows of values."""
        channels, height, width = image_shape
        sides = (channels, height, width) if layout == "nchw" else (height, width, channels)
        count = self.fixed_batch or 1
        try:
            checked_rows(self._ask(torch.zeros((count, *sides), device=self._input_device)), count, self.name)
        except Exception:  # to refuse is an answer here, in whatever way the model does it
            return False
        return True


def _shape_of(images: torch.Tensor | UInt8Array) -> ImageShape:
    _, channels, height, width = images.shape
    return int(channels), int(height), int(width)
