"""The process that children are made from: it holds the libraries, and never a model.

It is started fresh (not forked from diffgen), with a short environment and three descriptors of ``/dev/null``. Each
child is a fork of it, which takes milliseconds where importing torch again takes seconds; torch itself is imported for
the first file that needs it. It ends, and all children with it, when its socket is closed, as when diffgen ends in
whatever way.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import signal
import socket
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffgen.config import Preprocessing, from_dict, to_dict
from diffgen.errors import UserError
from diffgen.models.graphs import Graph
from diffgen.models.isolation.channel import Ask, Gone, Part, SharedMemory, receive_with_descriptors, send
from diffgen.models.isolation.wall import die_with_parent, raise_wall
from diffgen.models.named_outputs import named_arrays
from diffgen.models.onnx_graph import OnnxGraph
from diffgen.models.tflite_graph import TfliteGraph
from diffgen.models.wording import NoClassesError, described, no_rows, reason

# What only some files need, by the name of their kind; imported once, and before a wall is up: it makes folders on the
# way in.
_TORCH = "diffgen.models.isolation.with_torch"
_IMPORTS = {
    "ONNX": (),
    "TFLITE": ("ai_edge_litert.interpreter",),
    "TORCHSCRIPT": (_TORCH,),
    "TORCH_EXPORT": (_TORCH, "torch.export.pt2_archive"),
    "KERAS_ZIP": (_TORCH, "keras", "h5py", "diffgen.models.keras"),
    "KERAS_HDF5": (_TORCH, "keras", "h5py", "diffgen.models.keras"),
    "NETWORK": (_TORCH,),  # of any format
}


def main(descriptor: int, kind: str) -> None:
    """Serve until the socket is closed; files of a kind are made ready for at once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with socket.socket(fileno=descriptor) as connection, contextlib.suppress(Gone):
        _import_for(kind)
        _serve(connection)
    os.killpg(os.getpid(), signal.SIGKILL)  # children that loop too; this process is its own group


def _import_for(kind: str) -> None:
    for name in _IMPORTS[kind]:
        with contextlib.suppress(ImportError):  # opening the file says what to install
            importlib.import_module(name)


def _serve(connection: socket.socket) -> None:
    children: dict[int, int] = {}
    made = 0
    while True:
        message, descriptors = receive_with_descriptors(connection)
        if message["verb"] == "new":
            _import_for(message["kind"])
            made += 1
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
        number: of this child; what is random in it depends on it.
    """

    def __init__(self, connection: socket.socket, number: int) -> None:
        self._connection = connection
        self._number = number
        self._batch: SharedMemory | None = None
        self._answer: SharedMemory | None = None
        self._held: list[Part] | None = None  # an answer that the memory was too small for
        self._asked: Ask | None = None

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
                memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"  # torch's own
                answer = {"error": "memory" if memory else "raised", "text": reason(error)}
                if isinstance(error, UserError):
                    other = isinstance(error, NoClassesError)
                    answer = {"error": "no classes" if other else "user", "text": str(error)}
            send(self._connection, answer)

    def _open(self, message: dict[str, Any], _: list[int]) -> dict[str, Any]:
        # so that messages name the file as the user did
        os.chdir(message["folder"])
        path = Path(message["path"])
        # the children of one server would draw the same numbers, and a model that answers at random would agree with
        # itself
        np.random.seed(self._number)
        random.seed(self._number)
        # torch makes sure that there is a place for temporary files, and Python would try one out by writing there
        tempfile.tempdir = os.environ["TORCHINDUCTOR_CACHE_DIR"] = "/"
        raise_wall([path, *map(Path, message["readable"])])
        if message["as"] == "model" and message["kind"] in ("ONNX", "TFLITE"):
            self._asked, said = _opened_graph(path, message)
        else:
            from diffgen.models.isolation.with_torch import opened

            self._asked, said = opened(path, message, self._number)
        return said

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
        batch = self._batch.floats(tuple(message["shape"]))
        self._held = self._asked(batch, message["output"], bool(message["everything"]))
        return self._hand_over(message, [])

    def _hand_over(self, _: dict[str, Any], __: list[int]) -> dict[str, Any]:
        assert self._held is not None
        size = sum(len(each.content) for each in self._held)
        if self._answer is None or self._answer.size < size:
            return {"needs": max(size, 1)}
        start, parts = 0, []
        for each in self._held:
            self._answer.part(start, len(each.content))[:] = each.content
            parts.append({"name": each.name, "shape": list(each.shape), "dtype": each.dtype})
            start += len(each.content)
        self._held = None
        return {"parts": parts}


def _opened_graph(path: Path, message: dict[str, Any]) -> tuple[Ask, dict[str, Any]]:
    """Open a file that needs no torch behind the wall: how it is asked, and what it says of itself."""
    name, threads = message["name"], int(message["threads"])
    graph: Graph
    if message["kind"] == "TFLITE":
        graph = TfliteGraph(path, name, threads=threads, alone=True)
    else:
        graph = OnnxGraph(path, name, from_dict(Preprocessing, message["preprocessing"]), threads=threads)

    def ask(batch: NDArray[np.float32], output: str, everything: bool) -> list[Part]:
        answers = graph.ask(batch, output, everything=everything)
        answer = answers if len(answers) > 1 else next(iter(answers.values()))
        arrays = named_arrays(answer)
        if not everything and not isinstance(answer, np.ndarray):
            # arrays in a list may be boxes
            raise (NoClassesError if arrays else UserError)(no_rows(name, described(answer)))
        return [
            Part(key, each.dtype.name, each.shape, np.asarray(each, order="C").reshape(-1).view(np.uint8))
            for key, each in arrays.items()
        ]

    return ask, {
        "format": graph.format,
        "fixed_batch": graph.fixed_batch,
        "class_names": list(graph.class_names),
        "declared": to_dict(graph.declared),
        "takes_bytes": graph.takes_bytes,
        "sides": None if graph.sides is None else list(graph.sides),
    }


def _close_all_but(kept: int) -> None:
    """Close every descriptor of this process but its standard ones and one more."""
    most = os.sysconf("SC_OPEN_MAX")
    os.closerange(3, kept)
    os.closerange(kept + 1, most)
