"""A real MLServer on 127.0.0.1, in an environment of its own: beside torch and onnx it would change their versions.

    make mlserver

makes that environment in ``.venv-mlserver``; the variable DIFFGEN_MLSERVER names the Python of another one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[3]
_RUNTIME = Path(__file__).with_name("mlserver_runtime.py")
_PATIENCE = 1200.0


def mlserver_python() -> Path | None:
    """The Python of an environment with MLServer, or None."""
    given = os.environ.get("DIFFGEN_MLSERVER")
    python = Path(given) if given else _REPOSITORY / ".venv-mlserver" / "bin" / "python"
    return python if python.is_file() else None


class MlServer:
    """Serves ONNX files with one input (N, 1, 28, 28) until the block ends; whatever happens, the process ends too.

    Args:
        python: see :func:`mlserver_python`.
        models: ONNX files by name.
        folder: for its settings and its log.
    """

    def __init__(self, python: Path, models: dict[str, Path], folder: Path) -> None:
        self._python = python
        self._folder = folder
        ports = _free_ports(3)
        self.port = ports[0]
        settings = {"host": "127.0.0.1", "http_port": ports[0], "grpc_port": ports[1], "metrics_port": ports[2]}
        _write(folder / "settings.json", {**settings, "parallel_workers": 0, "debug": False})
        for name, file in models.items():
            place = folder / name
            place.mkdir()
            shutil.copy(_RUNTIME, place / _RUNTIME.name)
            described = {
                "name": name,
                "implementation": f"{_RUNTIME.stem}.OnnxModel",
                "parameters": {"uri": str(file.absolute()), "version": "v1"},
                "inputs": [{"name": "pixels", "datatype": "FP32", "shape": [-1, 1, 28, 28]}],
                "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, 10]}],
            }
            _write(place / "model-settings.json", described)

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self.port}"

    def address(self, name: str) -> str:
        """Of a model."""
        return f"{self.origin}/v2/models/{name}"

    def __enter__(self) -> MlServer:
        self._log = (self._folder / "log.txt").open("a")
        self._process = subprocess.Popen(
            [self._python, "-c", "from mlserver.cli import main; main()", "start", self._folder],
            cwd=self._folder,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": "", "OMP_WAIT_POLICY": "PASSIVE"},
        )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.origin}/v2/health/ready", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise RuntimeError(f"MLServer does not start:\n{(self._folder / 'log.txt').read_text()[-3000:]}")

    def kill(self) -> None:
        """SIGKILL, as when a machine fails; it can be entered again, at the same port."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._log.close()


def _write(file: Path, value: object) -> None:
    file.write_text(json.dumps(value), encoding="utf-8")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def main() -> None:
    """``python -m tests.models.remote.mlserver_process NAME=FILE.onnx ...``: serve until Ctrl-C."""
    import tempfile

    python = mlserver_python()
    if python is None:
        raise SystemExit("There is no MLServer; run make mlserver.")
    models = {name: Path(file) for name, _, file in (word.partition("=") for word in sys.argv[1:])}
    # so that the block below ends as it should
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory() as folder, MlServer(python, models, Path(folder)) as server:
        print(*(server.address(name) for name in models), sep="\n", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
