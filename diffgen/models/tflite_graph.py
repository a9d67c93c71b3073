"""TensorFlow Lite files as LiteRT runs them on the CPU, without torch."""

from __future__ import annotations

import contextlib
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffgen.config import Preprocessing
from diffgen.errors import UserError
from diffgen.models.graphs import Graph, check_sides, sides_of_images
from diffgen.models.wording import reason

_INTEGERS = (np.int8, np.uint8, np.int16)
# LiteRT believes what a file says of itself and dies of some damaged ones, so that another process tries it first.
_TRIAL = """
import sys
sys.path[:] = sys.argv[2:]
import numpy as np
from ai_edge_litert.interpreter import Interpreter
interpreter = Interpreter(model_content=open(sys.argv[1], "rb").read(), num_threads=1)
interpreter.allocate_tensors()
for each in interpreter.get_input_details():
    interpreter.set_tensor(each["index"], np.zeros(each["shape"], each["dtype"]))
interpreter.invoke()
"""
_TRIAL_SECONDS = 60
# An integer input whose range reaches this value cannot have been calibrated on pixels in [0, 1].
_GREY_LEVELS_FROM = 16.0
# One whose range is that from -1 to 1, within so much, was calibrated on pixels that were brought there.
_AROUND_ONE = 0.05


@dataclass(frozen=True)
class _Tensor:
    """An input or output of the file.

    Attributes:
        index: what the interpreter calls it.
        name: what its author called it.
        dtype: float32, or a type of integers.
        scale, zero_point: of integers: the value is ``scale * (number - zero_point)``; a scale of 0 for none.
    """

    index: int
    name: str
    dtype: Any
    scale: float
    zero_point: int

    @property
    def highest(self) -> float:
        """The largest value that the integers reach."""
        return self.scale * (int(np.iinfo(self.dtype).max) - self.zero_point)

    @property
    def lowest(self) -> float:
        """The smallest value that the integers reach."""
        return self.scale * (int(np.iinfo(self.dtype).min) - self.zero_point)

    @property
    def declared(self) -> Preprocessing:
        """What the integers say of the pixels that they were calibrated on."""
        if not self.scale:
            return Preprocessing()
        if self.highest > _GREY_LEVELS_FROM:
            return Preprocessing(scale="0..255")
        if np.dtype(self.dtype).itemsize > 1 or abs(self.highest - 1) > _AROUND_ONE:
            return Preprocessing()
        if abs(self.lowest) <= _AROUND_ONE:
            return Preprocessing(scale="0..1")
        if abs(self.lowest + 1) > _AROUND_ONE:
            return Preprocessing()
        # so that grey levels 0 to 255 are the integers from their lowest to their highest
        mean, std = (self.zero_point - int(np.iinfo(self.dtype).min)) / 255, 1 / (255 * self.scale)
        return Preprocessing(scale="0..1", mean=(mean,), std=(std,))

    def numbers(self, values: NDArray[np.float32]) -> np.ndarray:
        """What the interpreter is handed for float32 values (N, ...)."""
        if self.dtype is np.float32:
            return values
        limits = np.iinfo(self.dtype)
        numbers = np.empty(values.shape, self.dtype)
        for made, image in zip(numbers, values, strict=True):  # one at a time, so that they stay near the processor
            steps = image
            if self.scale:
                steps = image.astype(np.float64) / self.scale
                # halves go away from zero, as in TensorFlow Lite's own QUANTIZE
                steps = np.copysign(np.floor(np.abs(steps) + 0.5), steps) + self.zero_point
            made[...] = steps.clip(limits.min, limits.max)
        return numbers

    def values(self, numbers: np.ndarray) -> np.ndarray:
        """What the interpreter's numbers mean; whole numbers without a scale are given back as they are."""
        if not self.scale:
            return numbers
        return (numbers.astype(np.float32) - np.float32(self.zero_point)) * np.float32(self.scale)


class TfliteGraph(Graph):
    """A file with one image input, of floating-point numbers or of integers with scale and zero point.

    It takes batches of any size if its graph allows it; otherwise the declared one becomes ``fixed_batch``. Where
    nothing is said of the scale of the pixels, a file whose integers reach beyond 16 gets 0..255, and one whose 8 bits
    reach from -1 to 1 gets them as they are: the mean and std that turn every grey level into its integer. Where its
    integers say nothing, the normalization in its metadata is taken.

    Args:
        name: of the model, for messages.
        alone: it is opened in a process of its own, where a crash does no harm and nobody reads stderr.

    Raises:
        UserError: LiteRT is missing or cannot read the file, or the graph takes something else than images.
    """

    format = "a TensorFlow Lite model"

    def __init__(self, path: Path, name: str, *, threads: int, alone: bool = False) -> None:
        super().__init__(name)
        self._path, self._threads = path, threads
        self._quiet = contextlib.nullcontext if alone else _quiet
        self._interpreter = self._opened(tried=alone)
        inputs, outputs = self._interpreter.get_input_details(), self._interpreter.get_output_details()
        shapes = [[int(side) for side in each.get("shape_signature", each["shape"])] for each in inputs]
        sides = [[side if side > 0 else None for side in shape] for shape in shapes]
        self.sides = sides_of_images(name, sides, "convert it so that it takes (N, H, W, C)")
        self.fixed_batch = sides[0][0]
        self.takes_bytes = any(each["dtype"] is np.uint8 and not each["quantization"][0] for each in inputs)
        self._input, self._outputs = _tensor(inputs[0]), [_tensor(each) for each in outputs]
        self._check_type(self._input)
        if self._input.scale:
            self.format = f"{self.format} ({np.dtype(self._input.dtype).name})"
        self._shape: tuple[int, ...] | None = None
        if self.fixed_batch is not None and self._takes_more_than(self.fixed_batch):
            self.fixed_batch = None
        self.declared = self._input.declared.above(declared_normalization(path.read_bytes()))

    def _ask(self, batch: NDArray[np.float32], output: str, *, everything: bool) -> dict[str, Any]:
        try:
            return self._invoked(batch)
        except RuntimeError as error:
            _refuse_operators_of_tensorflow(self._path, error)
            raise

    def _invoked(self, batch: NDArray[np.float32]) -> dict[str, np.ndarray]:
        check_sides(self.sides, batch.shape[1:])  # it could be made to take other sides, and would answer nonsense
        if batch.shape != self._shape:
            self._shape = None
            with self._quiet():
                self._interpreter.resize_tensor_input(self._input.index, batch.shape)
                self._interpreter.allocate_tensors()
            self._shape = batch.shape
        self._interpreter.set_tensor(self._input.index, self._input.numbers(batch))
        self._interpreter.invoke()
        return {each.name: each.values(self._interpreter.get_tensor(each.index)) for each in self._outputs}

    def _check_type(self, tensor: _Tensor) -> None:
        unscaled = tensor.dtype in _INTEGERS and not tensor.scale and tensor.dtype is not np.uint8
        if unscaled or tensor.dtype not in (np.float32, *_INTEGERS):
            without = " without a scale" if unscaled else ""
            raise UserError(
                f"Model {self.name} takes {np.dtype(tensor.dtype).name} values{without}, which is not supported; "
                "convert it so that it takes float32 or quantized images."
            )

    def _takes_more_than(self, declared: int) -> bool:
        """Whether larger batches than the declared one are taken too, and answered in the same way.

        Files without an open batch mostly do, but a graph may hold the batch size as a constant.
        """
        if self.sides is None or None in self.sides:
            return False
        reach = self._input.highest if self._input.scale else 1.0
        shape = (declared + 1, *(int(side or 0) for side in self.sides))
        batch = np.random.default_rng(0).random(shape, dtype=np.float32) * np.float32(reach)
        try:
            alone, together = (self.ask(batch[:size], "", everything=True) for size in (declared, declared + 1))
            near = 1e-4 + 2 * max((each.scale for each in self._outputs), default=0.0)
            return all(
                np.allclose(together[name][:declared].astype(np.float32), answer.astype(np.float32), 1e-3, near)
                and len(together[name]) == declared + 1
                for name, answer in alone.items()
            )
        except Exception:  # to refuse is an answer here, in whatever way LiteRT does it
            self._interpreter = self._opened(tried=True)
            self._shape = None
            return False

    def _opened(self, *, tried: bool) -> Any:
        """An interpreter with its tensors allocated; ``tried``: it is known not to bring the process down."""
        path = self._path
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError as error:
            raise UserError(
                f"{path} is a TensorFlow Lite model, and asking it needs LiteRT; run pip install 'diffgen[tflite]'."
            ) from error
        if not tried:
            _try_in_another_process(path)
        try:
            with self._quiet():
                # by its content and not by its path: that way LiteRT looks first whether the file is whole
                interpreter = Interpreter(model_content=path.read_bytes(), num_threads=self._threads)
                interpreter.allocate_tensors()
                interpreter.get_input_details(), interpreter.get_output_details()
        except Exception as error:  # ValueError and RuntimeError, but also what damaged names lead to
            _refuse_operators_of_tensorflow(path, error)
            raise UserError(
                f"{path} is a TensorFlow Lite model that LiteRT cannot read ({reason(error)}); convert it again."
            ) from error
        return interpreter


def _refuse_operators_of_tensorflow(path: Path, error: Exception) -> None:
    """Say it where what LiteRT raises is due to an operator that the converter has left to TensorFlow.

    Raises:
        UserError: it is.
    """
    operators = re.findall(r"\bFlex(\w+)", str(error))
    if operators:
        raise UserError(
            f"{path} is a TensorFlow Lite model that computes {operators[0]} with TensorFlow itself, which LiteRT does "
            "not do; convert it with tf.lite.OpsSet.TFLITE_BUILTINS alone, or without that operator."
        ) from error


def _try_in_another_process(path: Path) -> None:
    """Open and ask the file once where a crash does no harm; other failures are for the caller to meet.

    Raises:
        UserError: that process died, or went on for a minute.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TRIAL, str(path), *sys.path],
            capture_output=True,
            timeout=_TRIAL_SECONDS,
            check=False,
        )
        died = done.returncode < 0
    except subprocess.TimeoutExpired:
        died = True
    if died:
        raise UserError(
            f"{path} is a TensorFlow Lite model that LiteRT crashes on or does not come to an end with; it is damaged, "
            "so copy or convert it again."
        )


def _tensor(details: dict[str, Any]) -> _Tensor:
    scale, zero_point = details["quantization"]
    return _Tensor(int(details["index"]), str(details["name"]), details["dtype"], float(scale), int(zero_point))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the messages about delegates that LiteRT prints directly to stderr."""
    sys.stderr.flush()
    kept = os.dup(2)
    silent = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(silent, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(silent)
        os.close(kept)


# -- the metadata of a file: how the pixels of its input were normalized ---------------------------------------------
#
# A FlatBuffer in a FlatBuffer: one entry of Model.metadata is named TFLITE_METADATA and gives the number of the buffer
# that holds ModelMetadata. A field is found by its number in schema.fbs and metadata_schema.fbs.

_MODEL_BUFFERS, _MODEL_METADATA = 4, 6
_NAME = 0  # of an entry, and of its buffer's number the one after it
_DATA = 0  # of a buffer
_SUBGRAPHS, _INPUTS, _PROCESS_UNITS = 3, 2, 4
_KIND, _OPTIONS, _NORMALIZATION = 0, 1, 1  # of a process unit: what kind it is, the options of that kind, and the kind
_MEAN, _STD = 0, 1
_MOST = 4  # values: one for each channel


def declared_normalization(content: bytes) -> Preprocessing:
    """Mean and std that the metadata of a file names for its first input, or nothing.

    Args:
        content: of the file, whoever made it. What cannot be read says nothing.
    """
    from flatbuffers.table import Table

    try:
        for entry in _tables(_root(Table, content), _MODEL_METADATA):
            if _text(entry, _NAME) == b"TFLITE_METADATA":
                number = struct.unpack_from("<I", content, entry.Pos + entry.Offset(_slot(_NAME + 1)))[0]
                buffer = next(islice(_tables(_root(Table, content), _MODEL_BUFFERS), number, None))
                start, length = _vector(buffer, _DATA)
                return _normalization(_root(Table, content[start : start + length]))
    except (struct.error, IndexError, StopIteration, OverflowError, TypeError, ValueError):
        pass
    return Preprocessing()


def _normalization(metadata: Any) -> Preprocessing:
    for subgraph in islice(_tables(metadata, _SUBGRAPHS), 1):
        for image in islice(_tables(subgraph, _INPUTS), 1):
            for unit in _tables(image, _PROCESS_UNITS):
                if unit.Bytes[unit.Pos + unit.Offset(_slot(_KIND))] == _NORMALIZATION:
                    options = type(unit)(unit.Bytes, unit.Indirect(unit.Pos + unit.Offset(_slot(_OPTIONS))))
                    mean, std = _floats(options, _MEAN), _floats(options, _STD)
                    if mean and std and 0.0 not in std:
                        return Preprocessing(scale="0..255", mean=mean, std=std)
    return Preprocessing()


def _root(table: Any, content: bytes) -> Any:
    return table(content, struct.unpack_from("<I", content, 0)[0])


def _slot(number: int) -> int:
    """Where a table's list of fields says where a field is."""
    return 4 + 2 * number


def _vector(table: Any, number: int) -> tuple[int, int]:
    """Where the values of a field begin, and how many there are."""
    offset = table.Offset(_slot(number))
    return (table.Vector(offset), table.VectorLen(offset)) if offset else (0, 0)


def _tables(table: Any, number: int) -> Iterator[Any]:
    start, length = _vector(table, number)
    for place in range(length):
        yield type(table)(table.Bytes, table.Indirect(start + 4 * place))


def _floats(table: Any, number: int) -> tuple[float, ...]:
    start, length = _vector(table, number)
    return struct.unpack_from(f"<{min(length, _MOST)}f", table.Bytes, start)


def _text(table: Any, number: int) -> bytes:
    offset = table.Offset(_slot(number))
    return table.String(table.Pos + offset) if offset else b""
