"""The child as diffgen sees it: asked with a limit of time, and believed in nothing."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import socket
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from diffgen.errors import ServiceError, Stopped, UserError
from diffgen.models.isolation.channel import Gone, ProtocolError, SharedMemory, receive, send
from diffgen.models.isolation.starting import Server, start
from diffgen.models.patience import hurried_until
from diffgen.models.wording import ForeignError, NoClassesError, cleaned, counted

_SLICE = 0.2  # seconds between two looks at whether somebody asked to stop
_TO_DIE = 2.0
_MAX_ANSWER = 1 << 30
_MAX_PARTS = 1 << 12  # boxes, scores and labels of each image
_DTYPES = {
    **{"float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16},
    **{"bool": torch.uint8, "uint16": torch.uint16, "uint32": torch.uint32, "uint64": torch.uint64},
    **{"uint8": torch.uint8, "int8": torch.int8, "int16": torch.int16, "int32": torch.int32, "int64": torch.int64},
}


class ModelDied(ServiceError):
    """The process of a model ended, or was ended because it took too long; nothing more can be asked of it."""


class Child:
    """One model in a process of its own.

    Args:
        name: of the model, for messages.
        kind: of the file, by its name.
        timeout: seconds that opening the file, and each batch, may take.
    """

    def __init__(self, name: str, kind: str, timeout: float) -> None:
        self._name = name
        self._timeout = timeout
        self._server = start()
        made, self._handle, self._connection = self._server.new(kind)
        self._number, self.pid = int(made["child"]), int(made["pid"])
        self._poll = select.poll()
        self._poll.register(self._connection, select.POLLIN)
        self._batch: SharedMemory | None = None
        self._answer: SharedMemory | None = None
        self._longest = 0.0
        self._ended: str | None = None
        self._lock = threading.Lock()
        self._closed = weakref.finalize(self, _close, self._handle, self._connection, self._server, self._number)

    def open(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Put up the wall and open the file; what it says of itself, unchecked.

        Raises:
            UserError: the file cannot be opened, or its process died or took too long.
        """
        try:
            return self._exchange({"verb": "open", **request}, "it opened its file")
        except ForeignError as error:
            raise UserError(f"Model {self._name} cannot be opened behind the wall ({error}).") from error
        except ModelDied as error:
            raise UserError(str(error)) from error

    def ask(self, batch: torch.Tensor, output: str, *, everything: bool = False) -> dict[str, torch.Tensor]:
        """The model's answer to float32 ``batch``, by name, of types and shapes that the caller checks.

        Args:
            output: which of several outputs is wanted, or empty.
            everything: all outputs, as detectors and maps are read by; otherwise there is one.

        Raises:
            UserError: the answer is not what is wanted of a model.
            MemoryError: there is not memory enough.
            ForeignError: whatever else the model raised.
            ModelDied: its process ended, or took too long.
        """
        with self._lock:
            shape = tuple(batch.shape)
            doing = f"it answered {counted(len(batch), 'image')}"
            self._batch = self._enough(self._batch, 4 * batch.numel(), "batch")
            torch.from_numpy(self._batch.floats(shape)).copy_(batch)
            started = time.monotonic()
            request = {"verb": "ask", "shape": list(shape), "output": output, "everything": everything}
            said = self._exchange(request, doing)
            self._longest = max(self._longest, time.monotonic() - started)
            if "needs" in said:
                size = said["needs"]
                if type(size) is not int or not 0 < size <= _MAX_ANSWER:
                    raise self._died("gave an answer that is larger than any that could be meant")
                self._answer = self._enough(self._answer, size, "answer")
                said = self._exchange({"verb": "hand over"}, doing)
            parts = self._read(said)
            if not everything and len(parts) != 1:
                raise self._died("gave an answer that cannot be")
            return parts

    def give_up(self) -> None:
        """End the process also where another thread waits for its answer; that thread gets a :class:`ModelDied`."""
        if self._closed.alive:
            self._kill()

    def close(self) -> None:
        """End the process."""
        self._ended = self._ended or f"The process of model {self._name} was closed."
        self._closed()

    def _enough(self, memory: SharedMemory | None, size: int, purpose: str) -> SharedMemory:
        if memory is not None and memory.size >= size:
            return memory
        made, descriptor = SharedMemory.make(max(size, 1 << 16))
        try:
            self._exchange({"verb": "memory", "for": purpose, "size": made.size}, "it took memory", [descriptor])
        finally:
            os.close(descriptor)
        return made

    def _read(self, said: dict[str, Any]) -> dict[str, torch.Tensor]:
        """The tensors that an answer describes, by name; copies, since the other side may still write there."""
        parts, found, start = said.get("parts"), {}, 0
        for part in parts if isinstance(parts, list) and 0 < len(parts) <= _MAX_PARTS else [None]:
            part = part if isinstance(part, dict) else {}
            sides, dtype = part.get("shape"), _DTYPES.get(str(part.get("dtype")))
            possible = isinstance(sides, list) and all(type(s) is int and 0 <= s < 2**31 for s in sides)
            if not possible or dtype is None or self._answer is None:
                raise self._died("gave an answer that cannot be")
            shape: tuple[int, ...] = tuple(sides or ())
            size = math.prod(shape) * dtype.itemsize
            if start + size > self._answer.size:
                raise self._died("gave an answer that cannot be")
            values = torch.from_numpy(self._answer.part(start, size)).clone().view(dtype).view(shape)
            found[cleaned(part.get("name"))] = values.bool() if part["dtype"] == "bool" else values
            start += size
        return found

    def _exchange(self, request: dict[str, Any], doing: str, descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        if self._ended is not None:
            raise ModelDied(self._ended)
        started = time.monotonic()

        def wait() -> None:
            self._wait(started, doing)

        try:
            send(self._connection, request, descriptors)
            said = receive(self._connection, wait)
        except Gone as gone:
            raise self._died(None) from gone
        except ProtocolError as error:
            raise self._died("said something that is no answer") from error
        except ModelDied:
            raise
        except BaseException:
            # what it would still answer belongs to nobody
            self._kill()
            self._ended = f"The process of model {self._name} was ended by an interruption; load the model again."
            raise
        if "error" in said:
            text = cleaned(said.get("text"))
            if said["error"] == "user":
                raise UserError(text)
            if said["error"] == "no classes":
                raise NoClassesError(text)
            if said["error"] == "memory":
                raise MemoryError(text)
            raise ForeignError(text)
        return said

    def _wait(self, started: float, doing: str) -> None:
        """Return when there is something to read."""
        while True:
            now = time.monotonic()
            left = started + self._timeout - now
            if self._poll.poll(max(0.0, min(left, _SLICE)) * 1000):
                return
            if left <= 0:
                self._kill()
                self._ended = (
                    f"Model {self._name} was ended because {self._timeout:g} s passed before {doing}; allow more "
                    "time with --model-timeout SECONDS, or look for a loop in it."
                )
                raise ModelDied(self._ended)
            until = hurried_until(started, self._longest)
            if until is not None and now > until:
                error = Stopped()
                error.add_note(f"model {self._name} was asked to stop, but did not come back, so its process was ended")
                raise error

    def _died(self, how: str | None) -> ModelDied:
        """End what is left of the process; the error that says how it ended.

        Args:
            how: what it did wrong, or None: it closed its socket, perhaps because it died.
        """
        if how is None:
            dead = select.poll()
            dead.register(self._handle, select.POLLIN)
            natural = bool(dead.poll(_TO_DIE * 1000))
            self._kill()
            code = self._code() if natural else None
            how = "ended without an answer" if code is None else f"ended by itself ({_spoken(code)})"
        else:
            self._kill()
        self._ended = (
            f"The process of model {self._name} {how}; the file may be damaged or hostile, or memory too small."
        )
        return ModelDied(self._ended)

    def _code(self) -> int | None:
        self._closed.detach()
        code = self._server.code(self._number)
        os.close(self._handle)
        self._connection.close()
        return code

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)


def _spoken(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return {"SIGSEGV": "SIGSEGV, a crash", "SIGKILL": "SIGKILL, as when memory runs out"}.get(name, name)


def _close(handle: int, connection: socket.socket, server: Server, number: int) -> None:
    """End a child and tell the server to forget it."""
    connection.close()
    with contextlib.suppress(ProcessLookupError, OSError):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    os.close(handle)
    if server.alive:
        server.forget(number)
