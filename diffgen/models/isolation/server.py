"""The process that children are made from: it holds the libraries, and never a model.

It is started fresh (not forked from diffgen), with a short environment and three descriptors of ``/dev/null``. Each
child is a fork of it, which takes milliseconds where importing torch again takes seconds. It ends, and all children
with it, when its socket is closed, as when diffgen ends in whatever way.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import signal
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffgen.config import Preprocessing, from_dict, replace, to_dict
from diffgen.errors import UserError
from diffgen.models.isolation.channel import Gone, SharedMemory, bytes_of, receive_with_descriptors, send
from diffgen.models.isolation.wall import die_with_parent, raise_wall
from diffgen.models.model_settings import ModelSettings
from diffgen.models.named_outputs import named_outputs
from diffgen.models.outputs import NoClassesError
from diffgen.models.sniffing import FileKind
from diffgen.models.wording import reason

# What only some files need, by the name of their kind; imported once, and before a wall is up: it makes folders on the
# way in.
_IMPORTS = {
    "TORCH_EXPORT": ("torch.export.pt2_archive",),
    "KERAS_ZIP": ("keras", "h5py", "diffgen.models.keras"),
    "KERAS_HDF5": ("keras", "h5py", "diffgen.models.keras"),
    "TFLITE": ("ai_edge_litert.interpreter", "diffgen.models.tflite"),
}


def main(descriptor: int) -> None:
    """Serve until the socket is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with socket.socket(fileno=descriptor) as connection:
        # after fork() only what is imported already is quick
        import diffgen.models.exported
        import diffgen.models.network
        import diffgen.models.onnx
        import diffgen.models.torchscript  # noqa: F401

        with contextlib.suppress(Gone):
            _serve(connection)
    os.killpg(os.getpid(), signal.SIGKILL)  # children that loop too; this process is its own group


def _serve(connection: socket.socket) -> None:
    children: dict[int, int] = {}
    made = 0
    while True:
        message, descriptors = receive_with_descriptors(connection)
        if message["verb"] == "new":
            made += 1
            for name in _IMPORTS.get(message["kind"], ()):
                with contextlib.suppress(ImportError):  # opening the file says what to install
                    importlib.import_module(name)
            (channel,) = descriptors
            pid = os.fork()
            if pid == 0:
                _live(channel, made)
            os.close(channel)
            children[made] = pid
            handle = os.pidfd_open(pid)
            send(connection, {"child": made, "pid": pid}, [handle])
            os.close(handle)
        else:  # "end": how it ended; whoever asks has seen to it that it does
            pid = children.pop(int(message["child"]))
            _, status = os.waitpid(pid, 0)
            send(connection, {"code": os.waitstatus_to_exitcode(status)})


def _live(channel: int, number: int) -> None:
    """Be a child, and nothing after that."""
    code = 1
    try:
        parent = os.getppid()
        die_with_parent()
        if os.getppid() == parent:
            _close_all_but(channel)
            with socket.socket(fileno=channel) as connection:
                Host(connection, number).serve()
            code = 0
    finally:
        os._exit(code)


# -- what runs in the child: it puts up the wall, opens one model, and answers batches until nobody asks any more ----


class Host:
    """One model behind the wall.

    Args:
        connection: to the process that asks.
        number: of this child; what is random in it depends on it.
    """

    def __init__(self, connection: socket.socket, number: int) -> None:
        self._connection = connection
        self._number = number
        self._batch: SharedMemory | None = None
        self._answer: SharedMemory | None = None
        self._held: dict[str, torch.Tensor] | None = None  # an answer that the memory was too small for
        self._asked: Callable[[torch.Tensor, str, bool], dict[str, torch.Tensor]] | None = None

    def serve(self) -> None:
        """Do what is asked, one message after another."""
        verbs = {"open": self._open, "memory": self._take_memory, "ask": self._ask, "hand over": self._hand_over}
        while True:
            try:
                message, descriptors = receive_with_descriptors(self._connection)
            except Gone:
                return
            try:
                answer = verbs[message["verb"]](message, descriptors)
            except Exception as error:  # whatever a model raises is its answer
                memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
                answer = {"error": "memory" if memory else "raised", "text": reason(error)}
                if isinstance(error, UserError):
                    other = isinstance(error, NoClassesError)
                    answer = {"error": "no classes" if other else "user", "text": str(error)}
            send(self._connection, answer)

    def _open(self, message: dict[str, Any], _: list[int]) -> dict[str, Any]:
        kind = FileKind[message["kind"]]
        # so that messages name the file as the user did
        os.chdir(message["folder"])
        path = Path(message["path"])
        # the children of one server would draw the same numbers, and a model that answers at random would agree with
        # itself
        torch.manual_seed(self._number)
        np.random.seed(self._number)
        random.seed(self._number)
        # torch makes sure that there is a place for temporary files, and Python would try one out by writing there
        tempfile.tempdir = os.environ["TORCHINDUCTOR_CACHE_DIR"] = "/"
        raise_wall([path, *map(Path, message["readable"])])
        torch.set_num_threads(int(message["threads"]))  # behind the wall, because it may start a thread
        return self._open_network(path) if message["as"] == "network" else self._open_model(path, kind, message)

    def _open_model(self, path: Path, kind: FileKind, message: dict[str, Any]) -> dict[str, Any]:
        settings = ModelSettings(
            name=message["name"],
            path=path,
            batch_size=int(message["batch_size"]),
            preprocessing=from_dict(Preprocessing, message["preprocessing"]),
        )
        from diffgen.models.loading import open_file

        box = open_file(path, kind, settings, arch=None, allow_pickle=bool(message["allow_pickle"]), alone=True)

        def asked(batch: torch.Tensor, output: str, everything: bool) -> dict[str, torch.Tensor]:
            wanted = replace(box.preprocessing, output=output, outputs="boxes" if everything else "auto")
            if box.preprocessing != wanted:
                box.preprocessing = wanted
            answer = box._ask(batch)
            return named_outputs(answer) if everything else {"": box._rows(answer, len(batch))}

        self._asked = asked
        return {
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

    def _open_network(self, path: Path) -> dict[str, Any]:
        from diffgen.models.network import Network

        network = Network(path, device=torch.device("cpu"), isolate="off")
        self._asked = lambda batch, *_: {"": network.single_batch(batch)}
        return {"sides": network.sides, "largest": network.largest}

    def _take_memory(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        (descriptor,) = descriptors
        memory = SharedMemory(descriptor, int(message["size"]))
        if message["for"] == "batch":
            self._batch = memory
        else:
            self._answer = memory
        return {}

    def _ask(self, message: dict[str, Any], _: list[int]) -> dict[str, Any]:
        assert self._batch is not None and self._asked is not None
        self._held = None
        batch = self._batch.tensor(tuple(message["shape"]), torch.float32)
        with torch.inference_mode():
            answer = self._asked(batch, message["output"], bool(message["everything"]))
            self._held = {name: each.detach().to("cpu").contiguous() for name, each in answer.items()}
        return self._hand_over(message, [])

    def _hand_over(self, _: dict[str, Any], __: list[int]) -> dict[str, Any]:
        assert self._held is not None
        sizes = [bytes_of(tuple(each.shape), each.dtype) for each in self._held.values()]
        if self._answer is None or self._answer.size < sum(sizes):
            return {"needs": sum(sizes)}
        start, parts = 0, []
        for (name, each), size in zip(self._held.items(), sizes, strict=True):
            self._answer.tensor((size,), torch.uint8, start).copy_(each.reshape(-1).view(torch.uint8))
            parts.append({"name": name, "shape": list(each.shape), "dtype": str(each.dtype).removeprefix("torch.")})
            start += size
        self._held = None
        return {"parts": parts}


def _close_all_but(kept: int) -> None:
    """Close every descriptor of this process but its standard ones and one more."""
    most = os.sysconf("SC_OPEN_MAX")
    os.closerange(3, kept)
    os.closerange(kept + 1, most)
