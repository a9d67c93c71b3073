"""Finds Ray and a cluster of it, and shares out what the cluster has."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from diffgen.errors import UserError
from diffgen.events import Progress
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


def check(address: str) -> None:
    """See before anything is computed that there is Ray, and a cluster; "auto" finds or starts one later.

    Raises:
        UserError: there is not.
    """
    package()
    if address != "auto":
        check_answers(address)


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


class Cluster:
    """A cluster that was joined, or started, for some workers.

    Args:
        address: of the cluster, or "auto".
        workers: how many there will be.

    Raises:
        UserError: Ray is not installed, or no cluster answers.

    Attributes:
        ray: the package.
    """

    def __init__(self, address: str, workers: int) -> None:
        self.ray = package()
        self._began = not self.ray.is_initialized()
        if self._began:
            connect(self.ray, address, workers)

    @property
    def cores(self) -> float:
        """Of all machines."""
        return float(self.ray.cluster_resources().get("CPU", 0.0))

    @property
    def gpus(self) -> float:
        """Of all machines."""
        return float(self.ray.cluster_resources().get("GPU", 0.0))

    def shares(self, workers: int, cores: float, *, gpus: bool, progress: Progress) -> tuple[float, float]:
        """Cores and GPUs of each worker; says so where there are too few cores.

        Args:
            workers: how many there are.
            cores: that each is to have.
            gpus: whether they compute on GPUs.
            progress: is told.

        Raises:
            UserError: they compute on GPUs, and the cluster has none.
        """
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        there = [node.get("CPU", 0.0) for node in nodes]
        if sum(there) < cores * workers:
            progress.warn(
                f"The Ray cluster has {sum(there):g} cores for {workers} workers; that is faster only where models "
                "spend their time waiting, such as remote ones."
            )
        if not gpus:
            return share(there, workers, cores), 0.0
        of_a_gpu = share([1.0 for node in nodes for _ in range(int(node.get("GPU", 0.0)))], workers, 1.0)
        if of_a_gpu == 0:
            raise UserError(
                "The networks compute on a GPU here, and the Ray cluster has none; start its machines with "
                "'ray start --num-gpus N', or say --device cpu."
            )
        return share(there, workers, cores), of_a_gpu

    def close(self) -> None:
        """Leave it, or end it where it was started for the workers."""
        if self._began:
            self.ray.shutdown()
            self._began = False


_UNIT = 10_000  # Ray counts in ten-thousandths


def share(places: Sequence[float], workers: int, wanted: float) -> float:
    """The largest share of each worker at which all of them find a place, but no more than ``wanted``.

    Args:
        places: what each machine has (cores), or each GPU (1); a worker's share is taken from one of these.
        workers: how many there are.
        wanted: of each.

    Returns:
        a share in ten-thousandths, rounded down; 0: there is nothing to share, or too little.
    """
    units, most = [int(each * _UNIT) for each in places], int(wanted * _UNIT)
    # a share that cannot be larger uses up one of the places: it is a whole fraction of that one
    sizes = {most, *(unit // count for unit in units for count in range(1, workers + 1))}
    for size in sorted(sizes, reverse=True):
        if 0 < size <= most and sum(unit // size for unit in units) >= workers:
            return size / _UNIT
    return 0.0
