"""The network in a file as a function of tensors, whatever it computes: users' own generators and discriminators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffgen.config import DEFAULT_MODEL_TIMEOUT, Isolate
from diffgen.errors import UserError
from diffgen.models.exported import declared_sides, on_device, open_program, tensor_inputs
from diffgen.models.isolation.model import Said, request
from diffgen.models.isolation.process import Child
from diffgen.models.loading import identify, is_isolated
from diffgen.models.model_settings import ModelSettings
from diffgen.models.onnx_graph import DTYPES, open_session
from diffgen.models.sniffing import FileKind
from diffgen.models.torch_module import InItsOwnType, try_eval
from diffgen.models.torchscript import open_torchscript
from diffgen.numerics import all_threads

# computes; the sides of the input that the file declares; the largest batch that it allows
_Opened = tuple[Callable[[torch.Tensor], Any], list[int | None] | None, int | None]
_FORMATS = "a TorchScript, torch.export (.pt2) or ONNX file"


class Network:
    """A TorchScript, torch.export or ONNX file with one input and one output. Opening one runs no foreign code.

    Args:
        device: where torch computes, and ONNX if onnxruntime can.
        isolate: see :func:`diffgen.models.load`.

    Attributes:
        digest: SHA-256 of its contents.
        sides: of the input as the file declares it, None for open ones; None for a file that declares nothing.
        largest: batch that the file allows, or None.

    Raises:
        UserError: there is no such file, it is of no such format, it cannot be read, or takes several inputs.
    """

    def __init__(
        self,
        path: Path,
        *,
        device: torch.device,
        isolate: Isolate = "auto",
    ) -> None:
        self.path = path
        self.name = path.name
        kind, self.digest = identify(path)
        self.format = kind.value
        openers = {
            FileKind.TORCHSCRIPT: self._open_torchscript,
            FileKind.TORCH_EXPORT: self._open_exported,
            FileKind.ONNX: self._open_onnx,
        }
        if kind not in openers:
            raise UserError(f"{path} is {kind.value}; give {_FORMATS}.")
        settings = ModelSettings(name=self.name, device=device)
        if is_isolated(kind, settings, isolate, arch=None, allow_pickle=False):
            opened = self._open_isolated(kind)
        else:
            opened = openers[kind](device)
        self._ask, self.sides, self.largest = opened
        self._batch = None if self.sides is None else self.sides[0]  # of each call, where the file fixes it

    @torch.inference_mode()
    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """The output for inputs float32 (N, ...), N >= 1, as the network gives it: (N, ...), of any type.

        Raises:
            UserError: it gives something else than one tensor with N rows.
            Exception: whatever the network raises.
        """
        size = self._batch or self.largest or len(inputs)
        rows = torch.cat([self.single_batch(_filled(part, self._batch))[: len(part)] for part in inputs.split(size)])
        if len(rows) != len(inputs):
            raise UserError(f"The network {self.name} gives {len(rows)} rows for {len(inputs)}; give one for each.")
        return rows

    def single_batch(self, batch: torch.Tensor) -> torch.Tensor:
        """The output for one batch of a size that the network takes, as :meth:`__call__` asks for it."""
        return self._single(self._ask(batch))

    def _single(self, answer: object) -> torch.Tensor:
        if isinstance(answer, dict):
            answer = list(answer.values())
        if isinstance(answer, list | tuple) and len(answer) == 1:
            answer = answer[0]
        if not isinstance(answer, torch.Tensor) or answer.ndim == 0:
            found = f"{len(answer)} outputs" if isinstance(answer, list | tuple) else f"a {type(answer).__name__}"
            raise UserError(f"The network {self.name} gives {found}; save it so that it gives one tensor.")
        return answer

    def _open_isolated(self, kind: FileKind) -> _Opened:
        child = Child(self.name, "NETWORK", DEFAULT_MODEL_TIMEOUT)
        said = Said(child.open({**request(self.path, kind), "as": "network"}), self.name)
        return lambda batch: child.ask(batch.to(torch.float32), ""), said.sides("sides"), said.count("largest")

    def _open_torchscript(self, device: torch.device) -> _Opened:
        module = open_torchscript(self.path, device).module
        try_eval(module)
        ask = InItsOwnType(module)
        return lambda batch: ask(batch.to(device)), None, None

    def _open_exported(self, device: torch.device) -> _Opened:
        program, _ = open_program(self.path, allow_pickle=False)
        count, tensors = tensor_inputs(program)
        if count != 1 or len(tensors) != 1:
            raise UserError(f"The network {self.name} takes {count} inputs; export it so that it takes one tensor.")
        sides, largest = declared_sides(program, tensors[0])
        dtype = tensors[0].dtype
        module = on_device(program, device, self.name).module()
        return lambda batch: module(batch.to(device, dtype)), sides, largest

    def _open_onnx(self, device: torch.device) -> _Opened:
        session = open_session(self.path, all_threads(), device)
        inputs = session.get_inputs()
        if len(inputs) != 1 or inputs[0].type not in DTYPES:
            found = ", ".join(f"{each.name} ({each.type})" for each in inputs)
            raise UserError(f"The network {self.name} takes {found}; export it so that it takes one float32 tensor.")
        sides = [side if isinstance(side, int) and side > 0 else None for side in inputs[0].shape or ()]
        dtype = DTYPES[inputs[0].type]

        def ask(batch: torch.Tensor) -> object:
            answers = session.run(None, {inputs[0].name: batch.cpu().numpy().astype(dtype, copy=False)})
            return [torch.from_numpy(each) if isinstance(each, np.ndarray) else each for each in answers]

        return ask, sides or None, None


def _filled(part: torch.Tensor, size: int | None) -> torch.Tensor:
    """A batch of the size that the file wants, filled up with copies of the last row."""
    missing = 0 if size is None else size - len(part)
    return part if missing <= 0 else torch.cat([part, part[-1:].expand(missing, *part.shape[1:])])
