"""TensorFlow Lite files, run by LiteRT on the CPU."""

from __future__ import annotations

from pathlib import Path

from diffgen.models.graph_model import GraphModel
from diffgen.models.model_settings import ModelSettings
from diffgen.models.tflite_graph import TfliteGraph
from diffgen.numerics import all_threads


class TfliteModel(GraphModel):
    """A :class:`TfliteGraph` as a black box, whatever the device on the CPU; raises what that raises."""

    format = TfliteGraph.format

    def __init__(self, path: Path, settings: ModelSettings) -> None:
        super().__init__(TfliteGraph(path, settings.name, threads=all_threads()), settings)
        if settings.device.type != "cpu":
            self.remarks = (f"Model {self.name} runs on the CPU, where LiteRT computes.",)
