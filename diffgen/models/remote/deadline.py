"""A limit on the whole of a request: connecting, sending, and every line and byte of the answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


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
