"""ONNX files as onnxruntime runs them, without torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from diffgen.config import Preprocessing
from diffgen.config.models import MAX_SIDE
from diffgen.errors import UserError
from diffgen.models.class_names import names_from_metadata
from diffgen.models.graphs import Graph, declared_outputs, sides_of_images, wanted_outputs
from diffgen.models.wording import reason

if TYPE_CHECKING:
    import torch

DTYPES: dict[str, type[np.generic]] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
}
# what the grey levels 0 and 255 become
_RANGES = {
    "nominalrange_0_255": (0, 255),
    "normalized_0_1": (0, 1),
    "normalized_1_1": (-1, 1),
    "nominalrange_16_235": (16, 235),
}


class OnnxGraph(Graph):
    """A graph with one image input.

    A declared layout of (N, H, W, C) with 1 or 3 channels is recognised.

    Args:
        name: of the model, for messages.
        said: of its pre-processing, in place of what the file says.
        device: a GPU, if onnxruntime was built for it; None for the CPU.

    Raises:
        UserError: onnxruntime is missing or cannot read the file, or the graph takes or gives something else.

    Attributes:
        provider: the part of onnxruntime that runs it, such as "CPUExecutionProvider".
    """

    format = "an ONNX file"

    def __init__(
        self, path: Path, name: str, said: Preprocessing, *, threads: int, device: torch.device | None = None
    ) -> None:
        super().__init__(name)
        self._session = open_session(path, threads, device)
        self.provider: str = self._session.get_providers()[0]
        try:
            declared = self._single_input()
            self._input_name: str = declared.name
            self._dtype = self._input_dtype(declared.type)
            self._output_names = [output.name for output in self._session.get_outputs()]
            if declared.shape:
                sides = [side if isinstance(side, int) and side > 0 else None for side in declared.shape]
                mend = "export it together with the step that turns images of shape (N, C, H, W) into that"
                self.sides, self.fixed_batch = sides_of_images(name, [sides], mend), sides[0]
                self.takes_bytes = self._dtype is np.uint8
            self._metadata = self._session.get_modelmeta().custom_metadata_map
        except UnicodeDecodeError as error:  # onnxruntime takes names that are no text, and fails when asked for them
            raise UserError(
                f"{path} is an ONNX file with names that are no text ({reason(error)}); export it again."
            ) from error
        self.declared = _declared(self._metadata)
        shapes = {each.name: each.shape or () for each in self._session.get_outputs()}
        self.declared = self.declared.above(declared_outputs(said.above(self.declared), shapes))
        read = said.above(self.declared)
        wanted_outputs(name, list(shapes), read.output or "", everything=read.outputs in ("boxes", "maps"))

    @property
    def class_names(self) -> tuple[str, ...]:
        return names_from_metadata(self._metadata)

    def fed(self, batch: NDArray[np.float32]) -> dict[str, np.ndarray]:
        """What the session is handed for a batch: the name of its input, and an array."""
        return {self._input_name: batch.astype(self._dtype, copy=False)}

    def _ask(self, batch: NDArray[np.float32], output: str, *, everything: bool) -> dict[str, Any]:
        names = wanted_outputs(self.name, self._output_names, output, everything=everything)
        return dict(zip(names, self._session.run(names, self.fed(batch)), strict=True))

    def _single_input(self) -> Any:
        inputs = self._session.get_inputs()
        if len(inputs) != 1:
            raise UserError(
                f"Model {self.name} takes {len(inputs)} inputs ({', '.join(i.name for i in inputs)}), which is not "
                "supported yet; export it so that it takes the images alone."
            )
        return inputs[0]

    def _input_dtype(self, declared: str) -> type[np.generic]:
        if declared not in DTYPES:
            raise UserError(
                f"Model {self.name} takes {declared}, which is not supported yet; export it so that it takes float32 "
                "images."
            )
        return DTYPES[declared]


def _declared(metadata: Mapping[str, str]) -> Preprocessing:
    """What the metadata of a graph says of its images: ONNX's own keys for them, and those of Ultralytics."""
    about = {key.lower(): value.lower() for key, value in metadata.items()}
    order = about.get("image.bitmappixelformat", "")
    said: dict[str, Any] = {}
    if about.get("image.nominalpixelrange") in _RANGES:
        low, high = _RANGES[about["image.nominalpixelrange"]]
        if (low, high) == (0, 255):
            said = {"scale": "0..255", "mean": (), "std": ()}
        else:
            # what 0 and 1 become
            mean, std = -low / (high - low), 1 / (high - low)
            said = {"scale": "0..1", "mean": (mean,) if mean else (), "std": (std,) if std != 1 else ()}
    if about.get("task") == "detect":
        said |= {"outputs": "boxes", "fitting": "letterbox", "antialias": False}
    sides = re.fullmatch(r"\[(\d{1,4}), ?(\d{1,4})\]", about.get("imgsz", ""))
    if (
        sides is not None
        and about.get("task") in ("classify", "detect")
        and all(1 <= int(each) <= MAX_SIDE for each in sides.groups())
    ):
        said |= {"size": (int(sides[1]), int(sides[2]))} | ({"crop": 1.0} if about["task"] == "classify" else {})
    return Preprocessing(channels="bgr" if order.startswith("bgr") else None, **said)


def open_session(path: Path, threads: int, device: torch.device | None = None) -> Any:
    """An onnxruntime session. UserError if onnxruntime is missing or cannot read the file."""
    try:
        import onnxruntime
    except ImportError as error:
        raise UserError(
            f"{path} is an ONNX file, and reading it needs onnxruntime; run pip install onnxruntime."
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 3
    # Threads that wait by spinning take the processor from torch between two calls: with a torch model asked in turn
    # on 2 cores, a batch of 256 took 4 ms with spinning and 1.4 ms without.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        # Without the fallback: it prints to the screen, and tries once more what has just failed.
        return onnxruntime.InferenceSession(
            str(path), options, providers=_providers(onnxruntime, device), enable_fallback=0
        )
    except Exception as error:  # onnxruntime's exceptions have no common class of their own
        raise UserError(
            f"{path} is an ONNX file that onnxruntime {onnxruntime.__version__} cannot read ({reason(error)}); export "
            "it again, if need be with a lower opset_version."
        ) from error


def _providers(onnxruntime: Any, device: torch.device | None) -> list[Any]:
    providers: list[Any] = ["CPUExecutionProvider"]
    if device and device.type == "cuda" and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        # TF32 has 10 bits of mantissa, and the exhaustive search picks its kernels by timing them: both would move
        # the answers from run to run.
        cuda = {"device_id": device.index or 0, "use_tf32": 0, "cudnn_conv_algo_search": "HEURISTIC"}
        providers.insert(0, ("CUDAExecutionProvider", cuda))
    return providers
