"""torch.export programs, as torch.export.save writes them (.pt2)."""

from __future__ import annotations

import logging
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from diffgen.errors import UserError
from diffgen.models.base import BlackBox
from diffgen.models.model_settings import ModelSettings
from diffgen.models.untrusted import UntrustedError, check_program, checked_copy
from diffgen.models.wording import counted, reason

_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8)


class ExportedModel(BlackBox):
    """A graph with one image input.

    A batch size that was fixed by the export becomes ``fixed_batch``, the largest one that it allows bounds
    ``batch_size``.

    Args:
        settings: name, device and so on. For a graph that takes uint8, ``scale`` becomes "0..255".
        allow_pickle: the user trusts the file, so that it may hold more than a graph and its weights.

    Raises:
        UserError: torch cannot read the file, it holds what could run code, or the graph takes something else than
            images.
    """

    format = "a torch.export program (.pt2)"

    def __init__(self, path: Path, settings: ModelSettings, *, allow_pickle: bool = False) -> None:
        super().__init__(settings)
        program, self.unpickled = open_program(path, allow_pickle=allow_pickle)
        count, tensors = tensor_inputs(program)
        largest = None
        mend = "export it with one float32 input of shape (N, C, H, W)"
        if count == len(tensors) == 1 and tensors[0].dtype in _DTYPES:
            sides, largest = declared_sides(program, tensors[0])
            self._declare_input([sides], mend=mend, bytes_alone=tensors[0].dtype == torch.uint8)
        else:
            text = "; ".join(f"{str(t.dtype).removeprefix('torch.')} ({', '.join(map(str, t.shape))})" for t in tensors)
            raise UserError(
                f"Model {self.name} takes {counted(count, 'input')} ({text or 'no tensors'}), not images alone; {mend}."
            )
        self._dtype = tensors[0].dtype
        if largest is not None:
            self.batch_size, self.largest_batch = min(self.batch_size, largest), largest
        # Its mode was set when it was exported: eval() of such a module only raises.
        self._module = on_device(program, settings.device, settings.name).module()

    def _ask(self, batch: torch.Tensor) -> object:
        return self._module(batch if batch.dtype == self._dtype else batch.to(self._dtype))


def tensor_inputs(program: Any) -> tuple[int, list[torch.Tensor]]:
    """How many inputs a program takes, and those of them that are tensors, as it was traced with them."""
    names = set(program.graph_signature.user_inputs)
    nodes = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    return len(nodes), [node.meta["val"] for node in nodes if isinstance(node.meta.get("val"), torch.Tensor)]


def declared_sides(program: Any, tensor: torch.Tensor) -> tuple[list[int | None], int | None]:
    """The sides of an input (None for open ones), and the largest batch if there is a bound."""
    shape: list[Any] = list(tensor.shape)  # whole numbers, or symbols for open sides
    sides = [side if isinstance(side, int) else None for side in shape]
    if sides[0] is not None:
        return sides, None
    upper = getattr(program.range_constraints.get(shape[0].node.expr), "upper", None)
    return sides, int(upper) if upper is not None and getattr(upper, "is_Integer", False) else None


def open_program(path: Path, *, allow_pickle: bool) -> tuple[Any, bool]:
    """The program, and whether it was only opened because the user trusts it.

    Raises:
        UserError: torch cannot read the file, or it holds what could run code.
    """
    try:
        with _quiet(), path.open("rb") as file:
            try:
                with zipfile.ZipFile(file) as archive:
                    content = checked_copy(archive)
                    _register_quantized(archive)
                program = torch.export.load(content)
                check_program(program)
            except UntrustedError as error:
                if not allow_pickle:
                    raise UserError(
                        f"{path} is a torch.export program that is not opened because {error}, and opening it could "
                        "run any code; export it to ONNX, or add --allow-pickle if you trust it."
                    ) from error
                file.seek(0)
                return torch.export.load(file), True
            return program, False
    except UserError:
        raise
    except Exception as error:  # damaged files fail in as many ways as there are lines in the reader
        raise UserError(
            f"{path} is a torch.export program that torch {torch.__version__} cannot read ({reason(error)}); export "
            "it again with this version of torch."
        ) from error


def _register_quantized(archive: zipfile.ZipFile) -> None:
    """Make the operators known that the quantization of torch.export programs (PT2E) writes, if there are any."""
    graphs = [name for name in archive.namelist() if name.endswith(".json") and "/models/" in f"/{name}"]
    if any(b"quantized_decomposed" in archive.read(name) for name in graphs):
        import torch.ao.quantization.fx._decomposed  # noqa: F401


def on_device(program: Any, device: torch.device, name: str) -> Any:
    """The program with its weights on a device. UserError if it cannot be moved."""
    from torch.export.passes import move_to_device_pass

    try:
        with _quiet():
            return move_to_device_pass(program, str(device))
    except Exception as error:
        raise UserError(
            f"Model {name} cannot be moved to {device} ({reason(error)}); export it on that device."
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch says on the way to people who develop it."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
