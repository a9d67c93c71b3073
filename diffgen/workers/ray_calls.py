"""Calls as tasks of a Ray cluster, on whichever machines it has."""

from __future__ import annotations

from typing import Any

from diffgen.models.wording import reason
from diffgen.workers.calls import Ended, Function, attempt
from diffgen.workers.messages import Failed, Said
from diffgen.workers.ray_cluster import Cluster

_AGAIN = 2  # times that Ray itself starts a call again whose machine or process is gone


class RayCalls:
    """Calls as tasks; see :class:`diffgen.workers.calls.Calls`. What they say on the way is not heard.

    Args:
        cluster: where they run; closed with them.
        cores: of each.
        gpus: of each.
    """

    def __init__(self, cluster: Cluster, *, cores: float, gpus: float) -> None:
        self._cluster, self._ray = cluster, cluster.ray
        self._options = {
            "num_cpus": cores,
            "num_gpus": gpus,
            "max_retries": _AGAIN,
            "max_calls": 1,  # a process is used once: nothing of a call is left to the next one
            "scheduling_strategy": "SPREAD",
        }
        self._running: dict[Any, int] = {}

    def start(self, number: int, function: Function, *arguments: Any) -> None:
        """Call it wherever there is room."""
        task = self._ray.remote(**self._options)(_attempt)
        self._running[task.remote(function, arguments)] = number

    def events(self, seconds: float) -> list[tuple[int, Said | Ended]]:
        """What is heard of the calls, after so many ``seconds`` at most."""
        asked = list(self._running)
        done, _ = self._ray.wait(asked, num_returns=1, timeout=seconds) if asked else ([], [])
        return [(self._running.pop(each), self._end_of(each)) for each in done]

    def _end_of(self, reference: Any) -> Ended:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return Ended(Failed(f"its Ray worker is gone: {reason(error)}"))

    def close(self) -> None:
        """End all calls, whatever they are doing, and the cluster where it was started for them."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        self._cluster.close()


def _attempt(function: Function, arguments: tuple[Any, ...]) -> Ended:
    """The call, on the machine where it runs."""
    return attempt(lambda event: None, function, arguments)
