"""The process that children are made from: it holds the libraries, and never a model.

It is started fresh (not forked from diffgen), with a short environment and three descriptors of ``/dev/null``. Each
child is a fork of it, which takes milliseconds where importing torch again takes seconds. It ends, and all children
with it, when its socket is closed, as when diffgen ends in whatever way.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import sys

from diffgen.models.isolation.channel import Gone, receive_with_descriptors, send
from diffgen.models.isolation.wall import die_with_parent

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
    sys.dont_write_bytecode = True
    with socket.socket(fileno=descriptor) as connection:
        # after fork() only what is imported already is quick
        import diffgen.models.exported
        import diffgen.models.isolation.host
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
            from diffgen.models.isolation.host import close_all_but, serve

            close_all_but(channel)
            serve(channel, number)
            code = 0
    finally:
        os._exit(code)
