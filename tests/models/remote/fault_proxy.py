"""A proxy on 127.0.0.1 that passes requests on to a server and spoils some of them, as a seed says."""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

FAULTS = ("delay", "error", "busy", "garbage", "truncated", "dropped", "answer lost")
_HOP_BY_HOP = ("connection", "transfer-encoding", "content-length", "keep-alive", "host", "server", "date")


class FaultProxy:
    """Between a client and the server at ``origin``.

    Faults: "delay" answers after ``delay`` seconds; "error" is an HTTP 500, 502 or 504 and "busy" a 429 or 503 with
    Retry-After, which the server never hears of; "garbage" is a 200 with what is no JSON; "truncated" breaks the
    connection in the middle of the answer; "dropped" closes it before the server is asked, "answer lost" after.

    Args:
        origin: of the server.
        rate: share of the requests that are spoilt.
        seed: which ones, and how.
        delay: seconds.
        kinds: out of ``FAULTS``.

    Attributes:
        injected: how often each fault was dealt out.
        requests: all requests.
    """

    def __init__(
        self, origin: str, *, rate: float, seed: int, delay: float = 0.05, kinds: tuple[str, ...] = FAULTS
    ) -> None:
        self.origin = origin
        self.rate = rate
        self.delay = delay
        self.kinds = kinds
        self.injected: Counter[str] = Counter()
        self.requests = 0
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def address(self, name: str) -> str:
        """Of a model, seen through the proxy."""
        return f"http://127.0.0.1:{self.port}/v2/models/{name}"

    def draw(self) -> tuple[str | None, float]:
        """The fault of the next request, and a number in [0, 1) for its details."""
        with self._lock:
            self.requests += 1
            hit, kind, detail = self._random.random(), self._random.choice(self.kinds), self._random.random()
            if hit >= self.rate:
                return None, detail
            self.injected[kind] += 1
            return kind, detail

    def __enter__(self) -> FaultProxy:
        outer = self

        class Handler(_Handler):
            proxy = outer

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    proxy: FaultProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 30
    _upstream: http.client.HTTPConnection | None = None

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        self._handle(b"")

    def do_POST(self) -> None:
        self._handle(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _handle(self, body: bytes) -> None:
        kind, detail = self.proxy.draw()
        if kind == "error":
            self._give((500, 502, 504)[int(detail * 3)], b'{"error": "injected"}', {})
        elif kind == "busy":
            self._give((429, 503)[int(detail * 2)], b"busy", {"Retry-After": "0"})
        elif kind == "dropped":
            self._hang_up()
        else:
            try:
                status, answer, headers = self._forward(body)
            except (OSError, http.client.HTTPException):  # the server itself is gone
                self._upstream = None
                self._hang_up()
                return
            if kind == "delay":
                time.sleep(self.proxy.delay)
            if kind == "answer lost":
                self._hang_up()
            elif kind == "garbage":
                self._give(200, (b"<html>oops</html>", b"\xff\x00{", b"[]", b'{"outputs": [{}]}')[int(detail * 4)], {})
            elif kind == "truncated":
                self._give(status, answer[: int(detail * len(answer))], headers, promised=len(answer))
                self._hang_up()
            else:
                self._give(status, answer, headers)

    def _forward(self, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        if self._upstream is None:
            self._upstream = http.client.HTTPConnection(urlsplit(self.proxy.origin).netloc, timeout=1200)
            self._upstream.connect()
            self._upstream.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
        self._upstream.request(self.command, self.path, body=body or None, headers=headers)
        response = self._upstream.getresponse()
        answer = response.read()
        return response.status, answer, {n: v for n, v in response.getheaders() if n.lower() not in _HOP_BY_HOP}

    def _give(self, status: int, body: bytes, headers: dict[str, str], promised: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if promised is None else promised))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
