"""Asking over HTTP: what is tried again and what is not, pauses, redirects, certificates, and the secret."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from diffgen.config import RemoteConfig
from diffgen.errors import ServiceError, UserError
from diffgen.models.remote.protocol import Garbled
from diffgen.models.remote.server import Refused, Reply, Server
from tests.models.remote.oip_server import OipServer

SECRET = "Bearer s3cr3t-t0ken"


class Script:
    """Answers requests with given statuses in turn, and then with 200."""

    def __init__(self, *answers: tuple[int, dict[str, str]] | str, words: str = "no") -> None:
        self.answers = list(answers)
        self.words = words
        self.requests = 0

    def __call__(self, handler: BaseHTTPRequestHandler | Any) -> bool:
        self.requests += 1
        if not self.answers:
            handler.give(200, {"fine": True})
            return True
        answer = self.answers.pop(0)
        if answer == "drop":
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
        elif answer == "cut":
            handler.send_response(200)
            handler.send_header("Content-Length", "100")
            handler.end_headers()
            handler.wfile.write(b'{"fine": ')
            handler.wfile.flush()
            handler.close_connection = True
        elif isinstance(answer, str):
            handler.give_bytes(200, answer.encode(), {})
        else:
            handler.give(answer[0], {"error": self.words}, answer[1])
        return True


def read(reply: Reply) -> bytes:
    if b"fine" not in reply.body:
        raise Garbled("its answer is not fine")
    return reply.body


def remote(**settings: Any) -> RemoteConfig:
    return RemoteConfig(**{"timeout": 5.0, "retries": 3, **settings})


def asked(script: Script, method: str = "POST", **settings: Any) -> bytes:
    with OipServer({}, intercept=script) as server:
        client = Server(f"http://127.0.0.1:{server.port}", "m", remote(**settings))
        return client.ask("/x", read, body=b"{}" if method == "POST" else None)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("fault", ["drop", "cut", "<html>", (429, {}), (500, {}), (502, {}), (503, {}), (504, {})])
def test_what_may_pass_is_tried_again(fault: Any, method: str, pauses: list[float]) -> None:
    script = Script(fault, fault)
    assert b"fine" in asked(script, method)
    assert script.requests == 3 and len(pauses) == 2


@pytest.mark.parametrize("status", [400, 404, 405, 409, 413, 422])
def test_a_refusal_is_not_tried_again(status: int, pauses: list[float]) -> None:
    script = Script((status, {}), words="wrong shape")
    with pytest.raises(Refused, match=f"HTTP {status}: wrong shape") as caught:
        asked(script)
    assert (caught.value.status, script.requests, pauses) == (status, 1, [])


@pytest.mark.parametrize("status", [401, 403])
def test_missing_rights_say_which_option_is_missing(status: int, pauses: list[float]) -> None:
    script = Script((status, {}))
    with pytest.raises(ServiceError, match=r"wants an Authorization header.*--auth-env"):
        asked(script)
    assert script.requests == 1


@pytest.mark.parametrize("retries", [0, 2])
def test_tries_are_bounded_and_pauses_double(retries: int, pauses: list[float]) -> None:
    script = Script(*["drop"] * 10)
    with pytest.raises(ServiceError, match=rf"in {retries + 1} tr.*the connection was lost.*see that it runs"):
        asked(script, retries=retries)
    assert script.requests == retries + 1
    for number, pause in enumerate(pauses):
        assert 0.05 * 2**number <= pause <= 0.15 * 2**number


def test_pauses_end_at_ten_seconds_and_differ(pauses: list[float]) -> None:
    with pytest.raises(ServiceError):
        asked(Script(*[(503, {})] * 30), retries=29)
    assert max(pauses) <= 15 and len(set(pauses)) == len(pauses)
    assert all(pause >= 5 for pause in pauses[7:])


def test_the_server_is_given_the_time_that_it_asks_for(pauses: list[float]) -> None:
    asked(Script((429, {"Retry-After": "7"}), (503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})))
    assert pauses[0] == 7.0
    assert pauses[1] < 1  # a time that is over


def test_a_wait_that_is_too_long_is_not_begun(pauses: list[float]) -> None:
    with pytest.raises(ServiceError, match="asks to wait 3,600 s"):
        asked(Script((503, {"Retry-After": "3600"})))
    assert pauses == []


def test_a_retry_after_that_is_none_is_passed_over(pauses: list[float]) -> None:
    asked(Script((503, {"Retry-After": "soon"})))
    assert len(pauses) == 1 and pauses[0] < 1


def test_http_500_at_every_try_is_the_servers_own_word(pauses: list[float]) -> None:
    with pytest.raises(Refused, match="HTTP 500: no"):
        asked(Script(*[(500, {})] * 4))
    assert len(pauses) == 3


def test_a_server_that_says_nothing_times_out(pauses: list[float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        client = Server(f"http://127.0.0.1:{deaf.getsockname()[1]}", "m", remote(timeout=0.1, retries=1))
        with pytest.raises(ServiceError, match=r"2 tries.*no answer within 0\.1 s"):
            client.ask("/x", read)


def test_one_byte_at_a_time_is_not_listened_to_for_ever(pauses: list[float]) -> None:
    stop = threading.Event()

    def drip(handler: Any) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        handler.close_connection = True
        while not stop.wait(0.02):
            try:
                handler.wfile.write(b" ")
                handler.wfile.flush()
            except OSError:
                break
        return True

    with OipServer({}, intercept=drip) as server:
        client = Server(f"http://127.0.0.1:{server.port}", "m", remote(timeout=0.3, retries=0))
        with pytest.raises(ServiceError, match=r"no answer within 0\.3 s"):
            client.ask("/x", read)
        stop.set()


def test_nothing_listens(pauses: list[float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(ServiceError, match="nothing listens there"):
        Server(f"http://127.0.0.1:{port}", "m", remote(retries=1)).ask("/x", read)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("header", [True, False])
def test_redirects_are_not_followed(status: int, header: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("H3_TOKEN", SECRET)
    elsewhere, here = Script(), Script()
    with OipServer({}, intercept=elsewhere) as other, OipServer({}, intercept=here) as server:
        for target in (f"http://127.0.0.1:{other.port}/x?key=1", f"//localhost:{other.port}/x", "/y"):
            here.answers = [(status, {"Location": target})]
            client = Server(f"http://127.0.0.1:{server.port}", "m", remote(auth_env="H3_TOKEN" if header else None))
            where = "somewhere else" if header else target.partition("?")[0]  # it may hold the header
            with pytest.raises(ServiceError, match=re.escape(f"leads on to {where} (HTTP {status})")):
                client.ask("/x", read, body=b"{}")
    assert elsewhere.requests == 0
    assert here.requests == 3


_TOKEN = SECRET.rpartition(" ")[2]


@pytest.mark.parametrize(
    "spelled",
    [
        SECRET,
        _TOKEN.upper(),
        _TOKEN[::-1],
        base64.b64encode(SECRET.encode()).decode(),
        _TOKEN.encode().hex(),
        _TOKEN[:7],
    ],
)
def test_the_header_is_sent_and_never_said(spelled: str, monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> None:
    monkeypatch.setenv("H3_TOKEN", f"  {SECRET}\n")
    for status, meaning in ((400, "Bad Request"), (401, "Unauthorized"), (418, "Teapot"), (500, "Internal"), (503, "")):
        script = Script(*[(status, {})] * 9, words=f"the header '{spelled}' is not known")
        with OipServer({}, intercept=script) as server:
            client = Server(f"http://127.0.0.1:{server.port}", "m", remote(auth_env="H3_TOKEN"))
            with pytest.raises((Refused, ServiceError)) as caught:
                client.ask("/x", read)
            assert {headers["Authorization"] for headers in server.headers} == {SECRET}
        assert f"HTTP {status}" in str(caught.value) and meaning in str(caught.value)
        assert spelled.lower() not in (str(caught.value) + repr(caught.value)).lower()


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
def test_an_answer_that_repeats_the_header_is_not_read(
    before: str, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    monkeypatch.setenv("H3_TOKEN", SECRET)
    encoded = base64.b64encode(f"{before}{_TOKEN}xyz".encode()).decode()
    for spelled in (SECRET.upper(), _TOKEN[::-1], encoded, _TOKEN.encode().hex()):
        script = Script(*[(200, {})] * 9, words=f"outputs_{spelled}_0")
        with OipServer({}, intercept=script) as server:
            client = Server(f"http://127.0.0.1:{server.port}", "m", remote(auth_env="H3_TOKEN", retries=1))
            with pytest.raises(ServiceError, match="its answer repeats the Authorization header") as caught:
                client.ask("/x", read)
        assert spelled.lower() not in str(caught.value).lower()


def test_a_server_that_drips_its_headers_is_left_at_the_timeout(pauses: list[float]) -> None:
    """One line every 50 ms: no single read ever takes long."""

    def drip(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(4096)
                    connection.sendall(b"HTTP/1.1 200 OK\r\n")
                    for number in range(10_000):
                        connection.sendall(f"X-{number % 90}: 0\r\n".encode())
                        threading.Event().wait(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=drip, args=(listener,), daemon=True).start()
        client = Server(f"http://127.0.0.1:{listener.getsockname()[1]}", "m", remote(timeout=0.5, retries=1))
        with pytest.raises(ServiceError, match=r"in 2 tries .* \(no answer within 0\.5 s\)"):
            client.ask("/x", read)


def test_a_variable_without_a_header_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("H3_TOKEN", raising=False)
    with pytest.raises(UserError, match="variable H3_TOKEN is not set"):
        Server("http://127.0.0.1:1", "m", remote(auth_env="H3_TOKEN"))
    with pytest.raises(UserError, match="not the name of an environment variable") as caught:
        Server("http://127.0.0.1:1", "m", remote(auth_env=SECRET))
    assert "s3cr3t" not in str(caught.value)
    monkeypatch.setenv("H3_TOKEN", "a\r\nX-Evil: s3cr3t")
    with pytest.raises(UserError, match="must be one line") as caught:
        Server("http://127.0.0.1:1", "m", remote(auth_env="H3_TOKEN"))
    assert "s3cr3t" not in str(caught.value)


def test_certificates_are_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "certificate.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -addext subjectAltName=IP:127.0.0.1"
    try:
        parts = (tmp_path / "key.pem", tmp_path / "cert.pem")
        subprocess.run(
            [*make.split(), "-keyout", parts[0], "-out", parts[1]], check=True, capture_output=True, env=os.environ
        )
    except FileNotFoundError:
        pytest.skip("There is no openssl to make a certificate with.")
    file.write_bytes(b"".join(part.read_bytes() for part in parts))
    script = Script()
    with OipServer({}, intercept=script, certificate=file) as server:
        origin = f"https://127.0.0.1:{server.port}"
        with pytest.raises(ServiceError, match=r"certificate of .* is not trusted.*SSL_CERT_FILE"):
            Server(origin, "m", remote()).ask("/x", read)
        assert script.requests == 0
        monkeypatch.setenv("SSL_CERT_FILE", str(parts[1]))
        assert b"fine" in Server(origin, "m", remote()).ask("/x", read)


def test_every_try_is_told_before_it_is_made(pauses: list[float]) -> None:
    tries: list[int] = []

    def spend() -> None:
        if len(tries) == 2:
            raise ServiceError("spent")
        tries.append(1)

    script = Script("drop", "drop", "drop")
    with OipServer({}, intercept=script) as server:
        client = Server(f"http://127.0.0.1:{server.port}", "m", remote())
        with pytest.raises(ServiceError, match="spent"):
            client.ask("/x", read, before=spend)
    assert script.requests == 2


def test_without_urllib3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "urllib3", None)
    with pytest.raises(UserError, match=re.escape("pip install diffgen[remote]")):
        Server("http://127.0.0.1:1", "m", remote())


def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> None:
    monkeypatch.setattr("diffgen.models.remote.server._LARGEST_BODY", 1000)
    with pytest.raises(ServiceError, match="longer than 1,000 bytes"):
        asked(Script("fine" * 1000), retries=0)
