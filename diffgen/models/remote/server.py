"""One server, asked over HTTP: authorization, timeouts, and a bounded number of tries."""

from __future__ import annotations

import base64
import contextlib
import os
import random
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote

from diffgen.config import RemoteConfig
from diffgen.errors import ServiceError, UserError
from diffgen.models.remote.protocol import Garbled, read_object
from diffgen.models.wording import counted

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0  # seconds between two tries
_LONGEST_WAIT = 300.0  # that a server may ask for, for one question in all
_CONNECT_SECONDS = 10.0
_CHUNK = 1 << 16
_LARGEST_BODY = 1 << 28
_SHOWN = 120  # letters of a server's own words
_TOO_MANY, _SERVER_ERRORS, _OWN_ERROR = 429, 500, 500

Read = TypeVar("Read")


@dataclass(frozen=True)
class Reply:
    """The body of an answer, and its headers."""

    body: bytes
    headers: Mapping[str, str]


class Refused(Exception):
    """The server answered that it does not do what it was asked for.

    Attributes:
        status: of HTTP.
        words: what the status means, or the server's own words, cut off.
    """

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"HTTP {status}" + (f": {words}" if words else ""))
        self.status = status
        self.words = words


class Server:
    """A server that is asked one thing after another.

    A try that ends with a lost connection, a timeout, HTTP 429, HTTP 5xx or an answer that cannot be read is made
    again, ``retries`` times, after pauses that double and are drawn at random around that; a server that names a time
    (Retry-After) is given that time. Anything else is the server's word. Redirects are never followed, so that the
    Authorization header never goes anywhere else. Certificates are verified. A server that was sent that header is not
    quoted: of what it refuses, only the status is told.

    Args:
        origin: scheme, host and port.
        name: of the model, for messages.
        remote: nothing in it is None but ``auth_env`` and ``query_budget``.

    Raises:
        UserError: urllib3 is missing, or the environment variable with the header is, or it holds no header.

    Attributes:
        retried: tries that were made again so far.
    """

    def __init__(self, origin: str, name: str, remote: RemoteConfig) -> None:
        try:
            import urllib3
        except ImportError as error:
            raise UserError(
                f"{origin} is the address of a server, and asking it needs urllib3; run pip install diffgen[remote]."
            ) from error
        assert remote.timeout is not None and remote.retries is not None
        self._urllib3 = urllib3
        self._name = name
        self._origin = origin
        self._seconds = remote.timeout
        self._retries = remote.retries
        self._secret = Secret(remote.auth_env)
        self._headers = {"Authorization": self._secret.header} if self._secret else {}
        context = {"ssl_context": ssl.create_default_context()} if origin.startswith("https:") else {}
        self._never_connected = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
        self._pool = urllib3.connection_from_url(origin, maxsize=1, **context)
        self._deadline = Deadline(self._pool)
        # of its own: the search's random numbers do not depend on how a server behaves
        self._random = random.Random()
        self.retried = 0

    def ask(
        self,
        path: str,
        read: Callable[[Reply], Read],
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        before: Callable[[], None] = lambda: None,
        unsent: Callable[[], None] = lambda: None,
        own_errors: int | None = None,
    ) -> Read:
        """GET, or POST where there is a body.

        Args:
            read: makes of the answer what is wanted.
            before: called before every try; what it raises is passed on.
            unsent: called after a try for which there was no connection.
            own_errors: how often HTTP 500, with which a server may also refuse, is tried again; None: as the others.

        Raises:
            Refused: HTTP 4xx other than 429; HTTP 500 at every try.
            ServiceError: every try failed in another way, or the server leads elsewhere.
        """
        started = time.monotonic()
        tries = 0
        waited = 0.0
        while True:
            before()
            tries += 1
            wait = 0.0
            refusal: Refused | None = None
            try:
                status, reply = self._once(path, body, {**self._headers, **(headers or {})})
            except (self._urllib3.exceptions.HTTPError, OSError) as error:
                if isinstance(error, self._never_connected):
                    unsent()
                self._check_certificate(error)
                problem = self._worded(error)
            else:
                if status == 200:
                    try:
                        if self._secret.stands_in(reply.body):
                            raise Garbled("its answer repeats the Authorization header")
                        return read(reply)
                    except Garbled as error:
                        problem = str(error)
                else:
                    refusal = Refused(status, self._words_of(reply) or _meaning(status))
                    self._check_refusal(refusal, reply)
                    problem, wait = str(refusal), self._asked_to_wait(reply)
            own = refusal is not None and refusal.status == _OWN_ERROR
            allowed = self._retries if own_errors is None or not own else min(own_errors, self._retries)
            waited += wait
            if tries > allowed or waited > _LONGEST_WAIT:
                if refusal is not None and own:
                    raise refusal
                asked = f", and asks to wait {wait:,.0f} s" if waited > _LONGEST_WAIT else ""
                raise ServiceError(
                    f"The server {self._origin} of model {self._name} gave no usable answer in "
                    f"{counted(tries, 'try').replace('trys', 'tries')} within {time.monotonic() - started:.0f} s "
                    f"({problem}{asked}); see that it runs."
                )
            self.retried += 1
            pause = min(_FIRST_PAUSE * 2.0 ** (tries - 1), _LONGEST_PAUSE) * self._random.uniform(0.5, 1.5)
            time.sleep(max(pause, wait))

    def _once(self, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, Reply]:
        too_long = self._urllib3.exceptions.TimeoutError("the request takes longer than the timeout")
        with self._deadline.within(self._seconds, lambda: too_long):
            return self._sent_and_read(path, body, headers)

    def _sent_and_read(self, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, Reply]:
        response = self._pool.urlopen(
            "GET" if body is None else "POST",
            path,
            body=body,
            headers=headers,
            retries=False,
            redirect=False,
            preload_content=False,
            timeout=self._urllib3.Timeout(connect=min(_CONNECT_SECONDS, self._seconds), read=self._seconds),
        )
        try:
            content = bytearray()
            while chunk := response.read1(_CHUNK):
                content += chunk
                if len(content) > _LARGEST_BODY:
                    raise self._urllib3.exceptions.HTTPError(f"its answer is longer than {_LARGEST_BODY:,} bytes")
        except BaseException:
            response.close()  # the connection too: what is left in it belongs to nobody
            raise
        finally:
            response.release_conn()
        return response.status, Reply(bytes(content), response.headers)

    def _check_certificate(self, error: Exception) -> None:
        """A certificate that is not trusted stays so."""
        reason = error.args[-1] if isinstance(error, self._urllib3.exceptions.SSLError) and error.args else error
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise ServiceError(
                f"The certificate of {self._origin} is not trusted ({reason.verify_message}); name a file with the "
                "certificate of its authority in the environment variable SSL_CERT_FILE."
            ) from error

    def _check_refusal(self, refusal: Refused, reply: Reply) -> None:
        """Raise what asking again would not change."""
        if 300 <= refusal.status < 400:
            where = "" if self._secret else _plain(reply.headers.get("Location", "")).partition("?")[0]
            where = where or "somewhere else"
            raise ServiceError(
                f"The server {self._origin} of model {self._name} leads on to {where} (HTTP {refusal.status}), which "
                "is not followed; give the address where the model is."
            )
        if refusal.status in (401, 403):
            hint = "its Authorization header is not accepted" if self._secret else "it wants an Authorization header"
            raise ServiceError(
                f"The server {self._origin} does not let us ask model {self._name} ({refusal}); {hint}, so name an "
                "environment variable that holds the right one with --auth-env."
            )
        if refusal.status != _TOO_MANY and refusal.status < _SERVER_ERRORS:
            raise refusal

    def _asked_to_wait(self, reply: Reply) -> float:
        given = reply.headers.get("Retry-After")
        if given is None:
            return 0.0
        try:
            return float(self._urllib3.Retry().parse_retry_after(given))
        except (self._urllib3.exceptions.InvalidHeader, ValueError, OverflowError):
            return 0.0

    def _worded(self, error: Exception) -> str:
        exceptions = self._urllib3.exceptions
        if isinstance(error, exceptions.ProtocolError):
            return "the connection was lost"
        if isinstance(error, exceptions.NameResolutionError):
            return "there is no such host"
        if isinstance(error, exceptions.NewConnectionError):
            return "nothing listens there"
        if isinstance(error, exceptions.TimeoutError):
            return f"no answer within {self._seconds:g} s"
        return type(error).__name__ if self._secret else _plain(f"{type(error).__name__}: {error}")

    def _words_of(self, reply: Reply) -> str:
        """What the server says, from the JSON of the protocol or as it stands; nothing if it was sent the header."""
        if self._secret:
            return ""
        text = reply.body.decode("utf-8", errors="replace")
        if text.lstrip().startswith("<"):
            return "a web page"
        with contextlib.suppress(Garbled):
            said = read_object(reply.body).get("error")
            text = said if isinstance(said, str) else text
        return _plain(text)


def _plain(text: str) -> str:
    """Foreign text for a message: on one line, cut off."""
    text = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return (text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...").rstrip(".")


def _meaning(status: int) -> str:
    """The standard phrase of a status of HTTP, or nothing."""
    return HTTPStatus(status).phrase if status in set(HTTPStatus) else ""


# -- a limit on the whole of a request: connecting, sending, and every line and byte of the answer -------------------


class Deadline:
    """Ends the requests of a connection pool that take too long.

    A timeout for each read does not: a server that sends a line of its headers now and then would be waited for without
    end.

    Args:
        pool: an urllib3 pool that has made no connection yet; its connections are watched from now on.
    """

    def __init__(self, pool: Any) -> None:
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._expired = False
        connect = pool.ConnectionCls.connect
        deadline = self

        class Watched(pool.ConnectionCls):  # type: ignore[misc]
            def connect(self) -> None:
                connect(self)
                deadline._watch(self.sock)

        pool.ConnectionCls = Watched

    def _watch(self, connected: socket.socket) -> None:
        with self._lock:
            self._socket = connected
            if self._expired:
                self._shut()

    @contextmanager
    def within(self, seconds: float, expired: Callable[[], Exception]) -> Iterator[None]:
        """Run the block, and cut its connection off after so many seconds.

        Raises:
            Exception: what ``expired`` makes, in place of whatever the cut made of the block.
        """
        self._expired = False
        timer = threading.Timer(seconds, self._expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        except Exception as error:
            if self._expired:
                raise expired() from error
            raise
        finally:
            timer.cancel()
        if self._expired:
            raise expired()

    def _expire(self) -> None:
        with self._lock:
            self._expired = True
            self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):  # it is closed already
                self._socket.shutdown(socket.SHUT_RDWR)


# -- the Authorization header: read from the environment, sent to the server, and never shown ------------------------

_SHORTEST = 6  # letters of a token that are looked for in answers; shorter ones stand in anything
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Secret:
    """The value of the header; empty for none.

    Args:
        variable: name of the environment variable that holds it, or None: there is none.

    Raises:
        UserError: the variable is not set, is not the name of a variable, or holds no header.
    """

    def __init__(self, variable: str | None) -> None:
        self.header = "" if variable is None else _read(variable)

    def __bool__(self) -> bool:
        return bool(self.header)

    def stands_in(self, answer: bytes) -> bool:
        """Whether an answer repeats the token: as it was sent, in other letters, reversed, in base64, hex or a URL."""
        if not self.header:
            return False
        lowered = answer.lower()
        return any(spelling in lowered for spelling in self._spellings)

    @cached_property
    def _spellings(self) -> tuple[bytes, ...]:
        token = self.header.rpartition(" ")[2]
        if len(token) < _SHORTEST:
            token = self.header
        plain = token.encode()
        found = {plain, plain[::-1], plain.hex().encode(), quote(token, safe="").encode()}
        for before in range(3):
            # the token somewhere inside of a longer text: the letters that hold nothing but its own bits
            first = -(-before * 4 // 3)
            whole = (before + len(plain)) * 8 // 6
            found.add(base64.b64encode(b"\0" * before + plain)[first:whole])
        return tuple(each.lower() for each in found if len(each) >= _SHORTEST)


def _read(variable: str) -> str:
    if not _VARIABLE.fullmatch(variable):
        raise UserError(
            "What --auth-env was given is not the name of an environment variable; give the name of the one that holds "
            "the Authorization header, never the header itself."
        )
    value = os.environ.get(variable, "").strip()
    if not value:
        raise UserError(
            f"The environment variable {variable} is not set; let it hold the whole Authorization header, such as "
            "'Bearer ...'."
        )
    if not (value.isascii() and value.isprintable()):
        raise UserError(f"The environment variable {variable} holds no Authorization header; it must be one line.")
    return value
