"""Calls on a Ray cluster: finds Ray and a cluster, shares out what it has, and runs each call in an actor."""

from __future__ import annotations

import os
import queue
import re
import signal
import socket
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.models.wording import reason
from diffgen.pool.calls import Ended, Failed, Function, Link, attempt

_SECONDS_TO_CONNECT = 5.0
_OBJECT_STORE = 200 * 2**20  # bytes, of a cluster that is started for a run; reports are a few MB
_ADDRESS = re.compile(r"(?:ray://)?(?P<host>[^/:\s]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})")


def package() -> Any:
    """The package, which is imported only here. UserError if it is not installed."""
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
    """Join a cluster, or start one. UserError if nothing answers at the address, or a cluster of another version."""
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
    """See that something answers at an address, or raise UserError; Ray itself would try for minutes."""
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

    Raises:
        UserError: Ray is not installed, or no cluster answers.
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
            cores: that each is to have.
            gpus: whether they compute on GPUs.

        Raises:
            UserError: they compute on GPUs, and the cluster has none; it is closed.
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
            self.close()
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


_AGAIN = 2  # times that Ray itself starts a call again whose machine or process is gone
_SECONDS_OF_TALK = 0.25
_GROUPS = {"work": 1, "talk": 1, "tell": 1}  # with one thread each, so that what is told keeps its order


class Worker:
    """A call as an actor; it works in one thread, and is heard and told in others."""

    def __init__(self) -> None:
        self._said: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._link = Link(self._said.put)

    def work(self, function: Function, *arguments: Any) -> None:
        """Do the call; its end is the last that it says."""
        self._said.put(attempt(self._link, function, arguments))

    def talk(self) -> list[Any]:
        """What was said since the last call, after a moment at most."""
        try:
            said = [self._said.get(timeout=_SECONDS_OF_TALK)]
        except queue.Empty:
            return []
        while not self._said.empty():
            said.append(self._said.get())
        return said

    def tell(self, message: Any) -> None:
        """Put something into what the call was told."""
        self._link.told.put(message)

    def stop(self) -> None:
        """Let the call end in good order."""
        self._link.stop.stop()


class RayPool:
    """Calls as actors; see :class:`diffgen.pool.calls.Pool`.

    Args:
        cluster: where they run; closed with them.
        cores: of each.
        gpus: of each.
        begins_again: Ray itself begins a call again whose machine or process is gone, two times.
    """

    def __init__(self, cluster: Cluster, cores: float, gpus: float, *, begins_again: bool = False) -> None:
        self._cluster, self._ray = cluster, cluster.ray
        again = _AGAIN if begins_again else 0
        self._cores = cores
        self._options = {
            "num_gpus": gpus,
            "max_restarts": again,
            "max_task_retries": again,
            "scheduling_strategy": "SPREAD",
            "concurrency_groups": _GROUPS,
        }
        self._actors: dict[int, Any] = {}
        self._asked: dict[Any, int] = {}  # what was asked of an actor -> its number
        self._replaced: set[int] = set()

    def start(self, number: int, function: Function, *arguments: Any) -> None:
        """Call it wherever there is room; one that takes another's place begins also where no core is free."""
        free = self._ray.available_resources().get("CPU", 0.0)
        cores = 0.0 if number in self._replaced and free < self._cores else self._cores
        self._replaced.add(number)
        self._actors[number] = self._ray.remote(num_cpus=cores, **self._options)(Worker).remote()
        self._ask(number, "work", function, *arguments)
        self._ask(number, "talk")

    def _ask(self, number: int, name: str, *arguments: Any) -> None:
        reference = getattr(self._actors[number], name).options(concurrency_group=name).remote(*arguments)
        self._asked[reference] = number

    def tell(self, number: int, message: Any) -> None:
        """Put something into what a call was told; one that is dead is heard of in :meth:`events`."""
        if number in self._actors:
            self._ask(number, "tell", message)

    def stop(self) -> None:
        """Let all calls end in good order."""
        for actor in self._actors.values():
            actor.stop.options(concurrency_group="tell").remote()

    def events(self, seconds: float) -> list[tuple[int, Any]]:
        """What the calls said, and an :class:`Ended` of each that is over, after so many ``seconds`` at most."""
        asked = list(self._asked)
        if not asked:
            time.sleep(seconds)
            return []
        done, _ = self._ray.wait(asked, num_returns=1, timeout=seconds)
        if done:
            done, _ = self._ray.wait(asked, num_returns=len(asked), timeout=0)
        heard: list[tuple[int, Any]] = []
        for reference in done:
            number = self._asked.pop(reference, None)
            if number is not None:  # it was not ended by what was heard just now
                heard += [(number, event) for event in self._answer(number, reference)]
        return heard

    def _answer(self, number: int, reference: Any) -> list[Any]:
        """What an actor gave; one that is dead has failed."""
        try:
            said = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            said = [Ended(Failed(f"its actor is gone: {reason(error)}", died=True))]
        if said is None:
            return []
        if said and isinstance(said[-1], Ended):
            self.end(number)
        else:
            self._ask(number, "talk")
        return list(said)

    def end(self, number: int) -> None:
        """End a call, whatever it is doing; what was asked of it says nothing about the one that takes its place."""
        if number not in self._actors:
            return
        self._ray.kill(self._actors.pop(number))
        self._asked = {reference: other for reference, other in self._asked.items() if other != number}

    def close(self) -> None:
        """End all calls, and the cluster where it was started for them."""
        for number in list(self._actors):
            self.end(number)
        self._cluster.close()
