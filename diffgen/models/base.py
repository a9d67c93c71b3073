"""The black box: what every model under test is to the rest of diffgen, whatever file it came from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import get_args, overload

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.config import DEFAULT_PREPROCESSING, Preprocessing
from diffgen.errors import DiffgenError, RunError, UserError
from diffgen.models.answer_store import AnswerStore
from diffgen.models.class_names import Background, background_in, in_order, inverse, names_without, own_order
from diffgen.models.detections import BoxReader
from diffgen.models.detector_heads import looks_like_boxes
from diffgen.models.detectors import prepare_reader
from diffgen.models.graphs import DeclaredSides, sides_of_images
from diffgen.models.inputs import ImageShape, PixelTransform, as_tensor, check_images, grey_levels_only
from diffgen.models.maps import MapReader, looks_like_maps
from diffgen.models.model_settings import ModelSettings
from diffgen.models.outputs import (
    TASKS,
    OutputKind,
    checked_rows,
    decide_outputs,
    find_fault,
    find_first_fault,
    leave_unanswered,
    names_several_labels,
    outputs_in_words,
    picked,
    to_probabilities,
)
from diffgen.models.patience import leave_the_rest
from diffgen.models.shapes import check_single, declared_size, find_layout
from diffgen.models.wording import NoClassesError, counted, reason, shape_text
from diffgen.sampling import random_rows
from diffgen.types import Float32Array, UInt8Array

PREPARED = 256  # images that a model looks at first
_BACKGROUNDS: tuple[Background, ...] = get_args(Background)
_FEWEST_CLASSES = 2
_IMAGENET = 1000  # classes; TensorFlow's nets for them have 1,001 values, the first one for the background


class BlackBox(ABC):
    """A model of pictures that can be asked for its answer and nothing else: no gradients, no layers.

    A format adds :meth:`_ask`, and what its files declare. ``prepare`` is called once, then ``predict`` as often as
    one likes.

    Attributes:
        name, path, digest, device, batch_size, class_order, arch, unpickled: see :class:`ModelSettings`.
        url: its address, for a model that a server answers for.
        format: what kind of model it is, in words.
        class_names: K names in the order of :meth:`predict`'s columns, or empty; as many as classes after ``prepare``.
        preprocessing: nothing in it is None; after ``prepare`` neither layout nor outputs is "auto".
        image_shape: (C, H, W) of the images it is asked about; known after ``prepare``.
        num_classes: K; 0 before ``prepare``.
        answers_with: what its own outputs are, in words, by their values alone; known after ``prepare``.
        several_labels: it gives an image several labels, and nobody has said that the highest value alone counts.
        fixed_batch: the only batch size that the model takes, or None. Shorter batches are padded.
        largest_batch: the most images that it takes at once, or None: nobody says.
        alone: images are handed over one at a time; see :meth:`ask_alone`.
        remarks: sentences for whoever opens it.
        answers: what asking it costs, and which of its answers are remembered.
        lenient: a row with NaN or infinity is no answer, and not an error: ``predict`` gives all classes alike for it.
        unanswered: how many such rows there were.
        declared: what its file says of its pre-processing, or one that lies beside it.
        fed_by: the name of a file beside it that says how it is fed, or empty.
        is_table: it knows what was said of the images that it lists, and answers about no others.
        isolated: it computes in a process of its own, behind the second wall (:mod:`diffgen.models.isolation`).
    """

    format = "a model"
    remarks: tuple[str, ...] = ()
    is_table = False
    isolated = False

    def __init__(self, settings: ModelSettings) -> None:
        self.name = settings.name
        self.path = settings.path
        self.url: str | None = None
        self.digest = settings.digest
        self.device = settings.device
        self.batch_size = settings.batch_size
        self._said = settings.preprocessing
        self.declared = Preprocessing()
        self.fed_by = ""
        self.preprocessing = settings.preprocessing.over(DEFAULT_PREPROCESSING)
        self.class_order = settings.class_order
        self.class_names = in_order(settings.class_names, settings.class_order)
        self.arch = settings.arch
        self.unpickled = settings.unpickled
        self.image_shape: ImageShape | None = None
        self.num_classes = 0
        self.answers_with = ""
        self.several_labels = False
        self.fixed_batch: int | None = None
        self.largest_batch: int | None = None
        # Where _ask wants its input; formats that compute outside torch change it to the CPU.
        self._input_device = settings.device
        # Sides of one image as the file declares them; a format whose files declare them fills this in.
        self._sides: DeclaredSides | None = None
        self._takes_bytes = False
        self._transform: Callable[[torch.Tensor], torch.Tensor] | None = None
        self._kind: OutputKind = "logits"
        # of what is no classifier
        self._reader: BoxReader | MapReader = BoxReader(self.name)
        self._own_remarks: tuple[str, ...] = ()  # as it was prepared
        self._placing: PixelTransform | None = None  # where in the image is what it finds
        self.alone = False
        self.lenient = False
        self.unanswered = 0
        self.answers = AnswerStore()
        self._columns = 0  # of the raw outputs; one for two classes is possible
        self._all_names: tuple[str, ...] = ()  # in the model's own order, with that of the background
        self._named_by_file = not settings.class_names

    @abstractmethod
    def _ask(self, batch: torch.Tensor) -> object:
        """Ask the model itself, in inference mode.

        Args:
            batch: float32 (N, C, H, W), (N, H, W, C), (N, C * H * W) or (N, C * H * W, 1) on ``_input_device``,
                contiguous, free to be overwritten.

        Returns:
            A tensor (N, K) if all is well; several outputs, and anything else that the model gives, are passed on as
            they are, to be picked from or named in the message.
        """

    def _admit(self, preprocessing: Preprocessing) -> Preprocessing:
        """Pre-processing that the model can have, made from one where nothing is None.

        Raises:
            UserError: it asks for what the model cannot have.
        """
        return grey_levels_only(preprocessing, self.name) if self._takes_bytes else preprocessing

    def _declare_input(self, shapes: Sequence[Sequence[int | None]], *, mend: str, bytes_alone: bool = False) -> None:
        """Take over what a file declares of its inputs; of one of images, the first side is that of the batch.

        Args:
            shapes: of all inputs, None for open sides.
            mend: how to get a file that takes images, worded to follow a semicolon.
            bytes_alone: it takes uint8, so that ``scale`` becomes "0..255".

        Raises:
            UserError: there are several inputs, or it is none of images.
        """
        self._sides = sides_of_images(self.name, shapes, mend)
        self.fixed_batch, self._takes_bytes = shapes[0][0], bytes_alone
        self.preprocessing = self._admit(self.preprocessing)

    def declare(self, declared: Preprocessing) -> None:
        """Feed it as its file says, or one beside it, where nobody says otherwise; what was declared first wins.

        Raises:
            UserError: it asks for what the model cannot have.
        """
        if self._takes_bytes:
            declared = replace(declared, scale=None, mean=None, std=None)
        if declared_size(self._sides) is not None:
            declared = replace(declared, size=None)
        self.declared = self.declared.above(declared)
        self.preprocessing = self._admit(self._said.above(self.declared).over(DEFAULT_PREPROCESSING))

    def set_preprocessing(self, preprocessing: Preprocessing) -> None:
        """Begin anew with other pre-processing; ``prepare`` is to be called again.

        Args:
            preprocessing: what is not said in it (None) gets its default.

        Raises:
            UserError: it asks for what the model cannot have.
        """
        self.preprocessing = self._admit(preprocessing.over(DEFAULT_PREPROCESSING))
        self._said = preprocessing
        self.num_classes = 0
        self.alone = False

    def ask_alone(self) -> None:
        """From now on hand over one image at a time, because its answer depends on what else is in the batch.

        Where the model takes one batch size only, the rest of the batch are copies of the image.
        """
        self.alone = True

    @property
    def detects(self) -> bool:
        """Whether it finds boxes: its answers are those of :mod:`diffgen.models.detections`."""
        return self.preprocessing.outputs == "boxes"

    @property
    def classifies(self) -> bool:
        """Whether its answers are classes of whole pictures, as far as is known."""
        return self.preprocessing.outputs not in TASKS

    @property
    def input_size(self) -> tuple[int, int] | None:
        """Height and width of what the model itself takes, as pre-processing or file say; None: neither does."""
        if self.preprocessing.size:
            height, width = self.preprocessing.size
            return height, width
        return declared_size(self._sides)

    @property
    def size_open(self) -> bool:
        """Whether nobody has said what size it is handed, and it declares none, so that it gets that of the data."""
        return (
            self._said.size is None
            and not self.preprocessing.size
            and (self._sides is None or self._sides.count(None) > 1)
        )

    @property
    def own_class_names(self) -> tuple[str, ...]:
        """The class names in the model's own order, or none."""
        return own_order(self.class_names, self.class_order)

    def map_classes(self, class_order: tuple[int, ...]) -> None:
        """Count the model's own class ``i`` as ``class_order[i]``: its columns and names are put into that order.

        Raises:
            UserError: not one number for each class.
        """
        if self.num_classes and sorted(class_order) != list(range(self.num_classes)):
            raise UserError(
                f"The order of the classes of model {self.name} has {counted(len(class_order), 'number')} but the "
                f"model answers with {self.num_classes} classes; give each of them once."
            )
        self.class_names = in_order(self.own_class_names, class_order)
        self.class_order = class_order

    def prepare(self, images: torch.Tensor | UInt8Array) -> None:
        """Find out whether the model takes such images and how its answers are to be read.

        What ``preprocessing`` leaves to "auto" is decided on these images and written into it. What it fixes, as in
        the replay of a run, is only checked.

        Args:
            images: uint8 (N, C, H, W), N >= 1: real images, better some dozens than one. Of more than 256 so many are
                looked at, drawn at random.

        Raises:
            UserError: the model doesn't take them (the message names what it takes), or doesn't answer with one row
                of at least two finite values per image; a ``lenient`` one has to for some of them only.
        """
        check_images(images, self.name)
        if len(images) == 0:
            raise UserError(f"Model {self.name} cannot be prepared without images; give some real ones.")
        if len(images) > PREPARED:
            images = images[np.sort(random_rows(len(images), PREPARED))]
        self.num_classes = 0
        _, channels, height, width = images.shape
        self.image_shape = (int(channels), int(height), int(width))
        if not self.classifies:
            prepare_reader(self, images, self.image_shape)
            return
        try:
            with torch.inference_mode():
                layout, raw = find_layout(self, images, self.image_shape)
                check_single(self, images)
        except NoClassesError as error:
            if self.preprocessing.outputs != "auto":
                raise
            prepare_reader(self, images, self.image_shape, instead=error)
            return
        said = self.preprocessing.outputs
        given: OutputKind | None = None if said == "auto" else said
        finite = torch.isfinite(raw).all(dim=1)
        if self.lenient and finite.any():
            raw = raw[finite]
        fault = find_first_fault(raw, given)
        if fault is not None:
            raise UserError(f"On real images, model {self.name} {fault}")
        self._kind = given or decide_outputs(raw)
        self.answers_with = outputs_in_words(raw)
        # also where it is prepared again, for images of another size, and what was found of its outputs is given
        self.several_labels = (given is None or self.several_labels) and names_several_labels(raw)
        self.preprocessing = replace(self.preprocessing, layout=layout, outputs=self._kind)
        self._columns = raw.shape[1]
        self._all_names = self._all_names or self.own_class_names
        if self.background_said:
            self.set_background(next(each for each in _BACKGROUNDS if each == self._said.background))
        elif self.background_named:
            self.set_background(background_in(self._all_names))
        else:
            tensorflows = (self._columns, len(self._all_names)) == (_IMAGENET + 1, _IMAGENET)
            self.set_background("first" if tensorflows else "none")

    @property
    def background_said(self) -> bool:
        """Whether somebody has said which of the values is for the background; of a detector, class names may, too."""
        named = self.detects and background_in(self._all_names) != "none"
        return named or self._said.background in _BACKGROUNDS

    @property
    def values(self) -> int:
        """How many values a prepared model answers with, that for the background among them."""
        return max(self._columns, _FEWEST_CLASSES)

    @property
    def background_named(self) -> bool:
        """Whether a class name says which of the values is for the background, and nobody else does."""
        named = len(self._all_names) == self._columns and background_in(self._all_names) != "none"
        return named and not self.background_said and self._columns > _FEWEST_CLASSES

    @property
    def background_open(self) -> bool:
        """Whether nobody has said, and no class name says, which of the values is for the background."""
        return self.classifies and not self.background_said and not self.background_named

    def set_background(self, where: Background) -> None:
        """Leave out the first or the last of a prepared model's values, which is for none of the classes; or none.

        Raises:
            UserError: fewer than two classes would be left, or the class names are not as many as the classes.
        """
        left = self._columns - (where != "none")
        if where != "none" and left < _FEWEST_CLASSES:
            raise UserError(
                f"Model {self.name} answers with {counted(self._columns, 'value')}, so that without one for the "
                "background there is nothing to tell apart; leave --background out."
            )
        self.preprocessing = replace(self.preprocessing, background=where)
        self.num_classes = max(left, _FEWEST_CLASSES)
        self.class_names = in_order(names_without(self._all_names, self.num_classes, where), self.class_order)
        if self.class_order:
            self.map_classes(self.class_order)
        if len(self.class_names) in (0, self.num_classes):
            return
        if self._named_by_file:
            self.class_names = ()  # they name something else than the classes
            return
        short = self._columns == len(self.class_names) + 1
        raise UserError(
            f"Model {self.name} answers with {self.num_classes} classes but its class_names are "
            f"{len(self.class_names)}; give one for each class"
            + (", or say with --background first (or last) which value is for none of them." if short else ".")
        )

    def give_up(self) -> None:
        """End an answer that another thread waits for; a model of this process goes on to its end."""
        return

    @contextmanager
    def feeding(self, transform: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
        """While the block runs, a prepared model is handed something else than its pre-processing makes of the images.

        Args:
            transform: from uint8 (N, C, H, W) to what the model takes, as :class:`PixelTransform` gives it.
        """
        own, self._transform = self._transform, transform
        try:
            yield
        finally:
            self._transform = own

    @overload
    def predict(self, images: torch.Tensor) -> torch.Tensor: ...
    @overload
    def predict(self, images: UInt8Array) -> Float32Array: ...
    def predict(self, images: torch.Tensor | UInt8Array) -> torch.Tensor | Float32Array:
        """Class probabilities of images, or the boxes or classes of pixels that are found in them.

        Args:
            images: uint8 (N, C, H, W), N >= 0, of the shape that the model was prepared with; on any device.

        Returns:
            float32 (N, K) in [0, 1], rows sum to 1: a tensor on ``device`` for a tensor, an array for an array. Of a
            detector float32 (N, P * 6), see :mod:`diffgen.models.detections`; of maps (N, h * w), see
            :mod:`diffgen.models.maps`.

        Raises:
            UserError: the images are not such images, ``prepare`` was not called, or the model's answer is not one
                row of values per image.
            RunError: the model raised, or gave values that are not what its outputs were found to be, or not finite
                where it is not ``lenient``.
        """
        raw = self._checked_outputs(images)
        if len(raw) > 0 and self.classifies:
            raw = to_probabilities(raw, self._kind)
            if self.class_order:
                raw = raw[:, torch.as_tensor(inverse(self.class_order), device=raw.device)]
        elif self._columns != self.num_classes and self.classifies:
            raw = raw.new_empty((0, self.num_classes))
        return raw.to(self.device) if isinstance(images, torch.Tensor) else raw.cpu().numpy()

    def raw_outputs(self, images: UInt8Array) -> Float32Array:
        """What the model itself gives, before anything is made of it: logits, or what it gives in their place.

        A value for the background is left out.

        Args:
            images: as for :meth:`predict`.

        Returns:
            float32 (N, K), or (N, 1) for the second of two classes, in the model's own order of classes.

        Raises:
            UserError, RunError: as :meth:`predict`.
        """
        return self._checked_outputs(images).cpu().numpy()

    def answers_background(self, images: UInt8Array) -> NDArray[np.bool_]:
        """Of which images the value that is left out for the background is the highest; bool (N,). None without one.

        Raises:
            UserError, RunError: as :meth:`predict`.
        """
        where = self.preprocessing.background if self.classifies else "none"
        if where not in ("first", "last"):
            return np.zeros(len(images), dtype=np.bool_)
        best = self._all_outputs(images).argmax(dim=1).cpu().numpy()
        return np.equal(best, 0 if where == "first" else self._columns - 1)

    def without_answer(self, images: UInt8Array) -> NDArray[np.bool_]:
        """Of which images not all values are finite; bool (N,). The model is asked.

        Raises:
            UserError, RunError: as :meth:`predict`.
        """
        return (~torch.isfinite(self._asked(images)).all(dim=1)).cpu().numpy()

    def _checked_outputs(self, images: torch.Tensor | UInt8Array) -> torch.Tensor:
        """The raw outputs but that for the background, float32 (N, columns), without fault; in memory of their own."""
        raw, where = self._all_outputs(images), self.preprocessing.background
        if where == "none" or not self.classifies:
            return raw
        return (raw[:, 1:] if where == "first" else raw[:, :-1]).contiguous()

    def _all_outputs(self, images: torch.Tensor | UInt8Array) -> torch.Tensor:
        raw = self._asked(images)
        if len(raw) == 0:
            return raw
        fault = find_fault(raw, self._kind)
        if fault is not None and self.lenient:
            self.unanswered += leave_unanswered(raw, self._kind)  # of a detector, an image without objects
            fault = find_fault(raw, self._kind)
        if fault is None and not self.classifies:
            fault = self._fault_of_classes(raw)
        if fault is not None:
            raise RunError(f"Model {self.name} {fault}")
        return raw

    def _fault_of_classes(self, raw: torch.Tensor) -> str | None:
        highest = int(self._reader.numbers_in(raw).max())
        if highest < self.num_classes:
            return None
        return (
            f"found {'an object' if self.detects else 'a pixel'} of class {highest}, but of {self.num_classes} classes "
            "alone until now; name all of its classes with --class-names FILE."
        )

    def _asked(self, images: torch.Tensor | UInt8Array) -> torch.Tensor:
        check_images(images, self.name)
        if self.num_classes == 0:
            raise UserError(f"Model {self.name} is not prepared; call prepare with some real images first.")
        if tuple(images.shape[1:]) != self.image_shape:
            raise UserError(
                f"Model {self.name} was prepared for {shape_text(self.image_shape or ())} images but is asked about "
                f"{shape_text(tuple(images.shape[1:]))} ones; load it again for these."
            )
        # Made outside of inference mode, so that whoever gets it may change it in place.
        raw = torch.empty((len(images), self._columns), device=self._input_device)
        size = 1 if self.alone else self.fixed_batch or self.batch_size
        for start in range(0, len(raw), size):
            if start:
                leave_the_rest()
            chunk = images if len(raw) <= size else images[start : start + size]
            try:
                with torch.inference_mode():
                    rows = self._raw_outputs(chunk)
            except DiffgenError:
                raise
            except Exception as error:
                raise RunError(
                    f"Model {self.name} failed on {counted(len(chunk), 'image')} ({reason(error)}); repair it."
                ) from error
            if rows.shape[1] != self._columns:
                raise RunError(f"Model {self.name} gave {rows.shape[1]} values per image, before {self._columns}.")
            raw[start : start + size] = rows
        return raw

    def _raw_outputs(self, chunk: torch.Tensor | UInt8Array) -> torch.Tensor:
        """The model's own answer, floating (N, K), to at most one batch of images; its exceptions pass through."""
        assert self._transform is not None
        images = as_tensor(chunk) if isinstance(chunk, np.ndarray) else chunk
        count = len(images)
        missing = self.fixed_batch - count if self.fixed_batch else 0
        if missing > 0:
            images = torch.cat([images, images[-1:].expand(missing, -1, -1, -1)])
        answer = self._ask(self._transform(images))
        return self._rows(answer, count + missing)[:count]

    def _rows(self, answer: object, count: int) -> torch.Tensor:
        """The output that is to be read, if it is one row of values per image; boxes and maps from all of them."""
        if not self.classifies:
            output = self.preprocessing.output
            transform = self._placing or self._transform
            assert isinstance(transform, PixelTransform)
            return self._reader.rows(self._picked(answer) if output else answer, count, transform, self.preprocessing)
        try:
            return checked_rows(self._picked(answer), count, self.name)
        except UserError as error:
            if looks_like_boxes(answer, count) or looks_like_maps(answer):
                raise NoClassesError(str(error)) from error
            raise

    def _picked(self, answer: object) -> object:
        """The one output that is to be read."""
        return picked(answer, self.preprocessing.output or "", self.name)
