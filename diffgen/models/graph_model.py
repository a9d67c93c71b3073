"""A file that computes without torch as a black box of this process."""

from __future__ import annotations

import numpy as np
import torch

from diffgen.models.base import BlackBox
from diffgen.models.graphs import Graph
from diffgen.models.model_settings import ModelSettings


class GraphModel(BlackBox):
    """A graph that is handed arrays, whatever the device."""

    def __init__(self, graph: Graph, settings: ModelSettings) -> None:
        super().__init__(settings)
        self._input_device = torch.device("cpu")
        self._graph = graph
        self.format = graph.format
        self._sides, self.fixed_batch, self._takes_bytes = graph.sides, graph.fixed_batch, graph.takes_bytes
        self.preprocessing = self._admit(self.preprocessing)
        self.declare(graph.declared)
        if self._named_by_file:
            self.class_names = graph.class_names

    def _ask(self, batch: torch.Tensor) -> object:
        output = self.preprocessing.output or ""
        answers = {
            name: torch.from_numpy(each) if isinstance(each, np.ndarray) else each
            for name, each in self._graph.ask(batch.numpy(), output, everything=not self.classifies).items()
        }
        return answers if len(answers) > 1 else next(iter(answers.values()))
