"""ONNX files, run by onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from diffgen.models.graph_model import GraphModel
from diffgen.models.inputs import as_tensor
from diffgen.models.model_settings import ModelSettings
from diffgen.models.onnx_graph import OnnxGraph
from diffgen.numerics import all_threads
from diffgen.types import UInt8Array


class OnnxModel(GraphModel):
    """An :class:`OnnxGraph` as a black box; ``provider`` is its attribute.

    It runs on the CPU, or on the GPU if the device is one and onnxruntime was built for it. Class names are read from
    its metadata unless they are given. For a graph that takes uint8, ``scale`` becomes "0..255".

    Raises:
        UserError: see :class:`OnnxGraph`.
    """

    format = OnnxGraph.format
    _graph: OnnxGraph

    def __init__(self, path: Path, settings: ModelSettings) -> None:
        said, device = settings.preprocessing, settings.device
        graph = OnnxGraph(path, settings.name, said, threads=all_threads(), device=device)
        super().__init__(graph, settings)
        self.provider = graph.provider
        if device.type == "cuda" and self.provider == "CPUExecutionProvider":
            self.remarks = (f"Model {self.name} runs on the CPU; onnxruntime-gpu in place of onnxruntime mends that.",)

    def feed(self, images: UInt8Array) -> dict[str, np.ndarray]:
        """What the graph itself is handed for images: the name of its input, and the pre-processed array.

        Args:
            images: uint8 (N, C, H, W) of the shape that the model was prepared with; N is ``fixed_batch`` if there is
                one.
        """
        assert self._transform is not None, "prepare comes first"
        return self._graph.fed(self._transform(as_tensor(images)).numpy())

    def _picked(self, answer: object) -> object:
        return answer  # by the graph already
