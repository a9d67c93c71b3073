"""ONNX files, run by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffgen.config import replace
from diffgen.errors import UserError
from diffgen.models.base import BlackBox, ModelSettings
from diffgen.models.inputs import ImageShape, Layout
from diffgen.models.shapes import DeclaredShape, fits
from diffgen.models.wording import reason

_DTYPES: dict[str, type[np.generic]] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
}
_CHANNELS = (1, 3)


class OnnxModel(BlackBox):
    """A graph with one image input and one output.

    It runs on the CPU, or on the GPU if the device is one and onnxruntime was built for it. A declared batch size
    becomes ``fixed_batch``; a declared layout of (N, H, W, C) with 1 or 3 channels is recognised.

    Args:
        path: the file.
        settings: name, device and so on. For a graph that takes uint8, ``scale`` becomes "0..255".

    Raises:
        UserError: onnxruntime is missing or cannot read the file, or the graph takes or gives something else.

    Attributes:
        provider: the part of onnxruntime that runs it, such as "CPUExecutionProvider".
    """

    def __init__(self, path: Path, settings: ModelSettings) -> None:
        super().__init__(settings)
        # Whatever the provider, arrays go in and come out through the CPU.
        self._input_device = torch.device("cpu")
        self._session = _open(path, settings)
        self.provider: str = self._session.get_providers()[0]
        declared = self._single_input()
        self._input_name: str = declared.name
        self._dtype = self._input_dtype(declared.type)
        self._output_names = [self._single_output()]
        self._dims = self._image_dims(declared.shape)

    def _ask(self, batch: torch.Tensor) -> object:
        array = batch.numpy()
        if self._dtype is not np.float32:
            array = array.astype(self._dtype)
        answer = self._session.run(self._output_names, {self._input_name: array})[0]
        return torch.from_numpy(answer) if isinstance(answer, np.ndarray) else answer

    def _layouts(self, image_shape: ImageShape) -> tuple[Layout, ...]:
        first: Layout = "nchw"
        other: Layout = "nhwc"
        if self._dims is not None:
            as_nchw = fits(_channels_first(self._dims, "nchw"), image_shape)
            as_nhwc = fits(_channels_first(self._dims, "nhwc"), image_shape)
            declares_nhwc = self._dims[2] in _CHANNELS and self._dims[0] not in _CHANNELS
            if (as_nhwc and not as_nchw) or (as_nhwc == as_nchw and declares_nhwc):
                first, other = other, first
        return (first, other)

    def _declared_shape(self, layout: Layout) -> DeclaredShape | None:
        return None if self._dims is None else _channels_first(self._dims, layout)

    def _single_input(self) -> Any:
        inputs = self._session.get_inputs()
        if len(inputs) != 1:
            raise UserError(
                f"Model {self.name} takes {len(inputs)} inputs ({', '.join(i.name for i in inputs)}), which is not "
                "supported yet; export it so that it takes the images alone."
            )
        return inputs[0]

    def _single_output(self) -> str:
        outputs = self._session.get_outputs()
        if len(outputs) != 1:
            raise UserError(
                f"Model {self.name} gives {len(outputs)} outputs ({', '.join(o.name for o in outputs)}), which is not "
                "supported yet; export it so that it gives the class probabilities or logits alone."
            )
        name: str = outputs[0].name
        return name

    def _input_dtype(self, declared: str) -> type[np.generic]:
        if declared not in _DTYPES:
            raise UserError(
                f"Model {self.name} takes {declared}, which is not supported yet; export it so that it takes float32 "
                "images."
            )
        if declared == "tensor(uint8)":
            if self.preprocessing.mean or self.preprocessing.std:
                raise UserError(
                    f"Model {self.name} takes uint8 images, which a mean or std cannot be applied to; leave them out."
                )
            # Grey levels are the only thing that it can be meant to get: in [0, 1], bytes could be 0 and 1 only.
            self.preprocessing = replace(self.preprocessing, scale="0..255")
        return _DTYPES[declared]

    def _image_dims(self, shape: list[int | str | None] | None) -> DeclaredShape | None:
        """The sides of one image as declared, None for open ones; takes over a declared batch size."""
        if not shape:
            return None
        sides = [side if isinstance(side, int) and side > 0 else None for side in shape]
        if len(sides) != 4:
            text = ", ".join("?" if side is None else str(side) for side in sides)
            raise UserError(
                f"Model {self.name} takes an input of shape ({text}), not images; export it together with the step "
                "that turns images of shape (N, C, H, W) into that."
            )
        self.fixed_batch = sides[0]
        return (sides[1], sides[2], sides[3])


def _channels_first(dims: DeclaredShape, layout: Layout) -> DeclaredShape:
    return dims if layout == "nchw" else (dims[2], dims[0], dims[1])


def _open(path: Path, settings: ModelSettings) -> Any:
    """An onnxruntime session."""
    try:
        import onnxruntime
    except ImportError as error:
        raise UserError(
            f"{path} is an ONNX file, and reading it needs onnxruntime; run pip install onnxruntime."
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 3
    # Threads that wait by spinning take the processor from torch between two calls: with a torch model asked in turn
    # on 2 cores, a batch of 256 took 4 ms with spinning and 1.4 ms without.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        # Without the fallback: it prints to the screen, and tries once more what has just failed.
        return onnxruntime.InferenceSession(
            str(path), options, providers=_providers(onnxruntime, settings.device), enable_fallback=0
        )
    except Exception as error:  # onnxruntime's exceptions have no common class of their own
        raise UserError(
            f"{path} is an ONNX file that onnxruntime {onnxruntime.__version__} cannot read ({reason(error)}); export "
            "it again, if need be with a lower opset_version."
        ) from error


def _providers(onnxruntime: Any, device: torch.device) -> list[Any]:
    providers: list[Any] = ["CPUExecutionProvider"]
    if device.type == "cuda" and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        # TF32 has 10 bits of mantissa, and the exhaustive search picks its kernels by timing them: both would move
        # the answers from run to run.
        cuda = {"device_id": device.index or 0, "use_tf32": 0, "cudnn_conv_algo_search": "HEURISTIC"}
        providers.insert(0, ("CUDAExecutionProvider", cuda))
    return providers
