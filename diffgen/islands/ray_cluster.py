"""Finds Ray, and a cluster of it."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from importlib import import_module
from typing import Any

from diffgen.errors import UserError
from diffgen.models.wording import reason

_SECONDS_TO_CONNECT = 5.0
_OBJECT_STORE = 200 * 2**20  # bytes, of a cluster that is started for a run; reports are a few MB
_ADDRESS = re.compile(r"(?:ray://)?(?P<host>[^/:\s]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})")


def package() -> Any:
    """The package, which is imported only here.

    Raises:
        UserError: it is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when it is imported
    try:
        return import_module("ray")
    except ImportError as error:
        raise UserError(
            "Workers on a Ray cluster need Ray, which is not installed; install diffgen[ray], or leave --ray out."
        ) from error


def connect(ray: Any, address: str, workers: int) -> None:
    """Join a cluster, or start one.

    Raises:
        UserError: nothing answers at the address, or a cluster of another version.
    """
    usual: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address != "auto":
        check_answers(address)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        if address == "auto":
            try:
                ray.init(address="auto", **usual)
            except ConnectionError:
                cores = max(os.cpu_count() or 1, workers)
                own = {"num_cpus": cores, "include_dashboard": False, "object_store_memory": _OBJECT_STORE}
                ray.init(address="local", **own, **usual)
        else:
            ray.init(address=address, **usual)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise UserError(
            f"The Ray cluster {address} cannot be joined ({reason(error)}); see that it runs the same versions of Ray "
            "and Python, and that its address is right."
        ) from error
    finally:
        # Ray puts handlers of its own in the place of those that end a search in good order
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                if handler is not None:
                    signal.signal(number, handler)


def check_answers(address: str) -> None:
    """See that something answers at an address; Ray itself would try for minutes.

    Raises:
        UserError: nothing does, or it is no address.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise UserError(f"The Ray address {address!r} is not understood; write auto, host:port or ray://host:port.")
    try:
        with socket.create_connection((match["host"].strip("[]"), int(match["port"])), _SECONDS_TO_CONNECT):
            return
    except (OSError, OverflowError) as error:
        raise UserError(
            f"No Ray cluster answers at {address} ({getattr(error, 'strerror', None) or error}); start one with "
            "'ray start --head', or use --workers without --ray."
        ) from error
