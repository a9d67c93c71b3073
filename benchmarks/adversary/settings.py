"""Options and configuration files with what cannot be, and servers that mean no good."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.adversary.harness import Case

_COMPARE = "diffgen compare a.pt b.onnx --data data.npz --technique real_data --filters none -q -o out"
_TOKEN = "s3cr3t-t0ken-of-mine"


def cases() -> Iterator[Case]:
    """About sixty."""
    nines = "9" * 5000
    for option in (
        "--budget 0q", "--budget 1e3q", "--budget nan", "--budget -5s", f"--budget {nines}q", "--seed -1", "--seed 1e9",
        f"--seed {nines}", "--batch-size 0", "--batch-size -3", "--batch-size x", "--resize 7", "--resize 99999",
        f"--size {nines}", "--mean nan", "--std 0", "--std inf", "--scale 1..2", "--layout abcd", "--outputs x",
        "--technique nothing", "--preset nothing", "--divergence typo", "--diversity typo", "--reducer typo",
        "--until typo", "--filters typo", "--filters ssim,ssim", "--false-alarm-rate 2", "--false-alarm-rate nan",
        "--set filters.ssim.threshold=5", "--device toaster", "--label-map nowhere.json", "--config nowhere.toml",
        "--generator g.pt --latent-dim 1000000000000", "--generator g.pt --latent-dim 0", "--gan nowhere.safetensors",
        "--query-budget 0", "--retries -1", "--timeout 0", "--unknown 3", "--validity typo",
    ):  # fmt: skip
        yield Case(
            "settings", f"`{option if len(option) < 60 else option[:20] + '...'}`", f"{_COMPARE} --budget 50q {option}"
        )
    for verb in ("--margin 1e-300", "--margin 0", "--confidence 1", "--count 0", "--count -1"):
        yield Case("settings", f"`label --export sheet {verb}`", f"diffgen label run --export sheet {verb}")
    for name, text in {
        "is empty": "",
        "nests 5,000 brackets": "a = " + "[" * 5000,
        "begins with a byte order mark": "\ufeffseed = 3\n",
        "sets what there is not": "nothing = 3\n",
        "sets a text for a number": "seed = 'x'\n",
        "is 5 MiB long": "# " + "x" * 5 * 2**20,
        "is not text": "\udcff",
        "sets NaN": "[filters]\nfalse_alarm = nan\n",
        "names a technique in a list": "[search]\ntechnique = ['diffgan']\n",
    }.items():
        codes = (0,) if name in ("is empty", "begins with a byte order mark") else (2,)
        yield Case(
            "settings", f"a configuration that {name}", f"{_COMPARE} --budget 50q --config c.toml",
            partial(_write, text), codes=codes,
        )  # fmt: skip
    yield from _servers()


def _write(text: str, folder: Path, victim: Path) -> None:
    (folder / "c.toml").write_bytes(text.encode("utf-8", "surrogateescape"))


def _say(answer: bytes, connection: socket.socket) -> None:
    connection.sendall(answer)


def _servers() -> Iterator[Case]:
    remote = (
        "compare http://127.0.0.1:{port}/v2/models/m b.onnx --data data.npz --technique real_data --filters none -q "
        "-o out"
    )
    settings = "--retries 1 --timeout 2 --auth-env TOKEN --budget 50q"
    ok = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
    spelled = {
        "as it was sent": _TOKEN,
        "in capitals": _TOKEN.upper(),
        "reversed": _TOKEN[::-1],
        "in base64": base64.b64encode(f"Bearer {_TOKEN}".encode()).decode(),
        "in hex": _TOKEN.encode().hex(),
    }
    answers: dict[str, Callable[[socket.socket], None]] = {
        "says nothing": lambda s: time.sleep(30),
        "hangs up": lambda s: None,
        "answers with noise": lambda s: s.sendall(bytes(range(256)) * 50),
        "sends headers without end": lambda s: _drip(s, b"HTTP/1.1 200 OK\r\n", b"X: 0\r\n"),
        "sends a body without end": lambda s: _drip(s, b"HTTP/1.1 200 OK\r\n\r\n", b" "),
        "leads elsewhere": lambda s: s.sendall(
            b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/x\r\nContent-Length: 0\r\n\r\n"
        ),
        "asks to wait for a day": lambda s: s.sendall(
            b"HTTP/1.1 503 No\r\nRetry-After: 86400\r\nContent-Length: 0\r\n\r\n"
        ),
        "answers with 100,000 brackets": lambda s: s.sendall(ok % (100_000, b"[" * 100_000)),
        "answers with a list": lambda s: s.sendall(ok % (2, b"[]")),
    }
    for how, word in spelled.items():
        said = json.dumps({"error": f"header {word} is not known"}).encode()
        refused = b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said)
        answers[f"repeats the header {how}"] = partial(_say, refused)
        meta = json.dumps(
            {
                "name": "m",
                "platform": "x",
                "inputs": [{"name": word, "datatype": "BYTES", "shape": [-1]}],
                "outputs": [],
            }
        ).encode()
        answers[f"names its input after the header {how}"] = partial(_say, ok % (len(meta), meta))
    for name, answer in answers.items():
        listener = _Listener(answer)
        yield Case(
            "servers", f"a server that {name}", f"diffgen {remote.format(port=listener.port)} {settings}",
            codes=(2, 3), seconds=60, environment={"TOKEN": f"Bearer {_TOKEN}"}, check=_Silent(spelled),
        )  # fmt: skip
    yield Case(
        "servers", "the header itself in place of the variable's name",
        f"diffgen {remote.format(port=9)} --auth-env 'Bearer {_TOKEN}'",
        says=rf"(?s)\A(?!.*{_TOKEN})",
    )  # fmt: skip


class _Silent:
    """Sees that no file of the case holds the token."""

    def __init__(self, spelled: dict[str, str]) -> None:
        self._spelled = [each.lower().encode() for each in spelled.values()]

    def __call__(self, folder: Path) -> str:
        for path in folder.rglob("*"):
            if path.is_file() and any(each in path.read_bytes().lower() for each in self._spelled):
                return f"the header stands in {path.name}"
        return ""


def _drip(connection: socket.socket, first: bytes, what: bytes) -> None:
    connection.sendall(first)
    for _ in range(600):
        connection.sendall(what)
        time.sleep(0.1)


class _Listener:
    """Answers every connection in one way, in a thread, as long as the program runs."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._answer = answer
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(65_536)
                self._answer(connection)
            except OSError:
                return  # the other side has hung up, as it may
