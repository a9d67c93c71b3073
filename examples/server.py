"""Answers for an ONNX model in the Open Inference Protocol v2, with nothing but onnxruntime and Python's own server.

    python server.py models/int8.onnx --port 8080
    diffgen compare models/float.onnx http://127.0.0.1:8080/v2/models/int8 --data val/ --budget 10000q

The second command needs ``pip install 'diffgen[remote]'``. The server is for trying things out, on this machine alone:
it wants no token and speaks no TLS. In production Triton, MLServer, KServe or OpenVINO answer in the same protocol.
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import onnxruntime


def serve(file: Path, port: int) -> ThreadingHTTPServer:
    """A server that knows one model, by its file's name without the ending; ``serve_forever()`` starts it."""
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    model = f"/v2/models/{file.stem}"
    metadata = {
        "name": file.stem,
        "versions": ["1"],
        "platform": "onnxruntime",
        "inputs": [tensor(each) for each in session.get_inputs()],
        "outputs": [tensor(each) for each in session.get_outputs()],
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay open for the next question
        disable_nagle_algorithm, wbufsize = True, -1  # an answer leaves at once, and whole

        def do_GET(self) -> None:
            known = {"/v2": {"name": "examples/server.py", "version": "1", "extensions": []}, model: metadata}
            self.give(200 if self.path in known else 404, known.get(self.path, {"error": f"no {self.path} here"}))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path != f"{model}/infer":
                self.give(404, {"error": f"no {self.path} here"})
                return
            given = {each["name"]: array(each) for each in json.loads(body)["inputs"]}
            names = [each["name"] for each in metadata["outputs"]]
            answers = zip(metadata["outputs"], session.run(names, given), strict=True)
            outputs = [{**each, "shape": list(made.shape), "data": made.ravel().tolist()} for each, made in answers]
            self.give(200, {"model_name": file.stem, "outputs": outputs})

        def give(self, status: int, answer: object) -> None:
            """Answer with JSON."""
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Not a line for each question."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def tensor(node: onnxruntime.NodeArg) -> dict[str, object]:
    """What the protocol says of an input or an output; open sides are -1."""
    if node.type != "tensor(float)":
        raise SystemExit(f"{node.name} is a {node.type}; this server knows float32 alone.")
    shape = [side if isinstance(side, int) else -1 for side in node.shape]
    return {"name": node.name, "datatype": "FP32", "shape": shape}


def array(given: dict) -> np.ndarray:
    """An input of a question."""
    return np.array(given["data"], dtype=np.float32).reshape(given["shape"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="an ONNX file")
    parser.add_argument("--port", type=int, default=8080)
    arguments = parser.parse_args()
    with serve(arguments.file, arguments.port) as server:
        print(f"http://127.0.0.1:{server.server_port}/v2/models/{arguments.file.stem}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
