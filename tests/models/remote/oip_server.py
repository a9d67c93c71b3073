"""A small server of the Open Inference Protocol v2 in a thread: real models, answered on 127.0.0.1.

It parses and writes the protocol with code of its own, as an independent reading of it.
"""

from __future__ import annotations

import hashlib
import json
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

DTYPES = {"FP32": np.float32, "FP64": np.float64, "UINT8": np.uint8, "INT64": np.int64, "FP16": np.float16}
NAMES = {np.dtype(kind): name for name, kind in DTYPES.items()}
_HEADER_LENGTH = "Inference-Header-Content-Length"


@dataclass
class Served:
    """A model that is served.

    Attributes:
        answer: from an array as it was sent, (N, ...), to one output or several by name.
        shape, datatype: of the input; -1 for open sides.
        outputs: names and datatypes.
        shapes: of outputs, where it is not (-1, 10).
        versions: that there are.
        largest: most images at once; more are refused.
        inputs: in place of one called "pixels".
    """

    answer: Callable[[np.ndarray], np.ndarray | dict[str, np.ndarray]]
    shape: tuple[int, ...] = (-1, 1, 28, 28)
    datatype: str = "FP32"
    outputs: dict[str, str] = field(default_factory=lambda: {"logits": "FP32"})
    shapes: dict[str, list[int]] = field(default_factory=dict)
    versions: tuple[str, ...] = ("1",)
    largest: int | None = None
    inputs: list[dict[str, Any]] | None = None


def onnx_model(path: Path, **settings: Any) -> Served:
    """An ONNX file with one input."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    given = session.get_outputs()
    kinds = {"tensor(float)": "FP32", "tensor(int64)": "INT64"}
    names = [each.name for each in given]
    return Served(
        lambda pixels: dict(zip(names, session.run(names, {name: pixels}), strict=True)),
        outputs={each.name: kinds[each.type] for each in given},
        shapes={each.name: [side if isinstance(side, int) else -1 for side in each.shape] for each in given},
        **settings,
    )


class OipServer:
    """Serves until the block ends.

    Args:
        models: by name.
        binary: offer the extension for binary tensors.
        token: Authorization header that is wanted, or None.
        certificate: a file with certificate and key, for https.
        intercept: called with a handler before it answers; True: it has answered itself.

    Attributes:
        seen: how often each image was asked about, by a digest of its bytes.
        requests: sizes of the batches, in order.
        headers: of every request.
    """

    def __init__(
        self,
        models: dict[str, Served],
        *,
        binary: bool = False,
        token: str | None = None,
        certificate: Path | None = None,
        intercept: Callable[[BaseHTTPRequestHandler], bool] | None = None,
    ) -> None:
        self.models = models
        self.binary = binary
        self.token = token
        self.intercept = intercept
        self.seen: Counter[bytes] = Counter()
        self.requests: list[int] = []
        self.headers: list[dict[str, str]] = []
        self._certificate = certificate

    @property
    def images(self) -> int:
        """Images that were asked about."""
        return sum(self.requests)

    def address(self, name: str) -> str:
        """Of a model."""
        scheme = "http" if self._certificate is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}/v2/models/{name}"

    def __enter__(self) -> OipServer:
        outer = self

        class Handler(_Handler):
            server_of = outer

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        if self._certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._certificate)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take no more connections."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    server_of: OipServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 30

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        self._handle(b"")

    def do_POST(self) -> None:
        self._handle(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _handle(self, body: bytes) -> None:
        server = self.server_of
        server.headers.append(dict(self.headers))
        if server.intercept is not None and server.intercept(self):
            return
        given = self.headers.get("Authorization")
        if server.token is not None and given != server.token:
            self.give(401, {"error": f"the token {given} is not known"})
            return
        words = self.path.strip("/").split("/")
        if words == ["v2"]:
            extensions = ["binary_tensor_data"] if server.binary else []
            extensions += ["model_configuration"] if any(m.largest for m in server.models.values()) else []
            self.give(200, {"name": "test", "version": "1", "extensions": extensions})
            return
        model = server.models.get(words[2]) if len(words) > 2 and words[:2] == ["v2", "models"] else None
        if model is None:
            self.give(404, {"error": f"Request for unknown model: '{'/'.join(words[2:])}' is not found"})
            return
        rest = words[3:]
        if rest[:1] == ["versions"]:
            if rest[1] not in model.versions:
                self.give(404, {"error": f"no version {rest[1]}"})
                return
            rest = rest[2:]
        if not rest:
            self.give(200, self._metadata(words[2], model))
        elif rest == ["config"]:
            self.give(200, {"max_batch_size": model.largest or 0})
        elif rest == ["infer"]:
            self._infer(model, body)
        else:
            self.give(404, {"error": "no such path"})

    def _metadata(self, name: str, model: Served) -> dict[str, Any]:
        one = {"name": "pixels", "datatype": model.datatype, "shape": list(model.shape)}
        return {
            "name": name,
            "versions": list(model.versions),
            "platform": "test",
            "inputs": [one] if model.inputs is None else model.inputs,
            "outputs": [
                {"name": n, "datatype": kind, "shape": model.shapes.get(n, [-1, 10])}
                for n, kind in model.outputs.items()
            ],
        }

    def _infer(self, model: Served, body: bytes) -> None:
        size = self.headers.get(_HEADER_LENGTH)
        message = json.loads(body if size is None else body[: int(size)])
        (given,) = message["inputs"]
        kind = np.dtype(DTYPES[given["datatype"]])
        if size is None:
            pixels = np.array(given["data"], dtype=kind).reshape(given["shape"])
        else:
            raw = body[int(size) :]
            assert len(raw) == given["parameters"]["binary_data_size"]
            pixels = np.frombuffer(raw, dtype=kind).reshape(given["shape"])
        self.server_of.requests.append(len(pixels))
        self.server_of.seen.update(hashlib.sha256(image.tobytes()).digest() for image in pixels)
        if model.largest is not None and len(pixels) > model.largest:
            self.give(400, {"error": f"inference request batch-size must be <= {model.largest}"})
            return
        declared = model.shape
        if len(declared) != pixels.ndim or any(w not in (-1, s) for w, s in zip(declared, pixels.shape, strict=True)):
            self.give(400, {"error": f"unexpected shape {list(pixels.shape)}, expecting {list(declared)}"})
            return
        try:
            found = model.answer(pixels)
        except Exception as error:
            self.give(500, {"error": f"{type(error).__name__}: {error}"})
            return
        arrays = found if isinstance(found, dict) else {next(iter(model.outputs)): found}
        wanted = [each["name"] for each in message.get("outputs", [])] or list(arrays)
        binary = bool((message.get("parameters") or {}).get("binary_data_output"))
        self._give_arrays({name: arrays[name] for name in wanted if name in arrays}, binary=binary)

    def _give_arrays(self, arrays: dict[str, np.ndarray], *, binary: bool) -> None:
        outputs, raw = [], b""
        for name, array in arrays.items():
            output: dict[str, Any] = {"name": name, "datatype": NAMES[array.dtype], "shape": list(array.shape)}
            if binary:
                output["parameters"] = {"binary_data_size": array.nbytes}
                raw += struct.pack(f"<{array.nbytes}s", array.tobytes())
            else:  # as orjson does it, NaN becomes null
                flat = array.ravel().tolist()
                output["data"] = [None if value != value else value for value in flat]
            outputs.append(output)
        head = json.dumps({"model_name": "x", "outputs": outputs}).encode()
        self.give_bytes(200, head + raw, {_HEADER_LENGTH: str(len(head))} if binary else {})

    def give(self, status: int, value: object, headers: dict[str, str] | None = None) -> None:
        """Answer with JSON."""
        self.give_bytes(status, json.dumps(value).encode(), headers or {})

    def give_bytes(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """Answer."""
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


def hang_up(handler: BaseHTTPRequestHandler) -> bool:
    """To intercept with: the connection ends without an answer."""
    handler.close_connection = True
    return True
