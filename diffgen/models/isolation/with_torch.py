"""What a child does with a file that needs torch; the server imports this, and what opens such files, beforehand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.config import Preprocessing, from_dict, replace, to_dict
from diffgen.models.isolation.channel import Ask, Part
from diffgen.models.loading import open_file
from diffgen.models.model_settings import ModelSettings
from diffgen.models.named_outputs import named_outputs
from diffgen.models.network import Network
from diffgen.models.sniffing import FileKind

_AskTorch = Callable[[torch.Tensor, str, bool], dict[str, torch.Tensor]]


def opened(path: Path, message: dict[str, Any], number: int) -> tuple[Ask, dict[str, Any]]:
    """Open a file behind the wall: how it is asked, and what it says of itself.

    Args:
        number: of the child. The children of one server would draw the same numbers, and a model that answers at random
            would agree with itself.
    """
    torch.manual_seed(number)
    torch.set_num_threads(int(message["threads"]))  # behind the wall, because it may start a thread
    asked, said = _opened_network(path) if message["as"] == "network" else _opened_model(path, message)

    @torch.inference_mode()
    def ask(batch: NDArray[np.float32], output: str, everything: bool) -> list[Part]:
        answer = asked(torch.from_numpy(batch), output, everything)
        tensors = {name: each.detach().to("cpu").contiguous() for name, each in answer.items()}
        return [
            Part(name, str(each.dtype).removeprefix("torch."), each.shape, each.reshape(-1).view(torch.uint8).numpy())
            for name, each in tensors.items()
        ]

    return ask, said


def _opened_model(path: Path, message: dict[str, Any]) -> tuple[_AskTorch, dict[str, Any]]:
    settings = ModelSettings(
        name=message["name"],
        path=path,
        batch_size=int(message["batch_size"]),
        preprocessing=from_dict(Preprocessing, message["preprocessing"]),
    )
    allow_pickle = bool(message["allow_pickle"])
    box = open_file(path, FileKind[message["kind"]], settings, arch=None, allow_pickle=allow_pickle)

    def asked(batch: torch.Tensor, output: str, everything: bool) -> dict[str, torch.Tensor]:
        wanted = replace(box.preprocessing, output=output, outputs="boxes" if everything else "auto")
        if box.preprocessing != wanted:
            box.preprocessing = wanted
        answer = box._ask(batch)
        return named_outputs(answer) if everything else {"": box._rows(answer, len(batch))}

    return asked, {
        "format": box.format,
        "fixed_batch": box.fixed_batch,
        "batch_size": box.batch_size,
        "largest_batch": box.largest_batch,
        "class_names": list(box.class_names),
        "remarks": list(box.remarks),
        "declared": to_dict(box.declared),
        "takes_bytes": box._takes_bytes,
        "sides": None if box._sides is None else list(box._sides),
        "unpickled": box.unpickled,
    }


def _opened_network(path: Path) -> tuple[_AskTorch, dict[str, Any]]:
    network = Network(path, device=torch.device("cpu"), isolate="off")
    return lambda batch, *_: {"": network.single_batch(batch)}, {"sides": network.sides, "largest": network.largest}
