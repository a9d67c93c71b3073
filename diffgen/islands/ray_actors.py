"""Workers as actors of a Ray cluster, on whichever machines it has."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from diffgen.errors import UserError
from diffgen.events import Progress, StopToken
from diffgen.islands.island import Island
from diffgen.islands.messages import Begin, Epoch, Event, Job, Ready, Report, Tick
from diffgen.models.wording import reason
from diffgen.workers.messages import Failed, Said, failed
from diffgen.workers.ray_cluster import Cluster

_WORK, _TALK = "work", "talk"


class RayIsland:
    """An island as an actor; it works in one thread and can be talked to in another."""

    def __init__(self, job: Job, number: int) -> None:
        self._job, self._number = job, number
        self._stop = StopToken()
        self._said: deque[Tick | Said] = deque(maxlen=1_000)
        self._island: Island | None = None

    def open(self) -> Ready | Failed:
        """Open everything."""
        try:
            self._island = Island(self._job, self._number, self._said.append, self._stop)
            return self._island.ready
        except Exception as error:  # of models, data or filters: the driver says it and decides
            return failed(error)

    def work(self, task: Begin | Epoch) -> Report | Failed | None:
        """Do a task; None: there is nothing to report."""
        assert self._island is not None
        try:
            if isinstance(task, Begin):
                self._island.begin(task)
                return None
            return self._island.epoch(task)
        except Exception as error:  # of a model or a technique: the driver says it and decides
            return failed(error)

    def talk(self) -> list[Tick | Said]:
        """What was said since the last call."""
        return [self._said.popleft() for _ in range(len(self._said))]

    def stop(self) -> None:
        """End the search in good order."""
        self._stop.stop()


class RayActors:
    """The workers of a run as actors; see :class:`diffgen.islands.crew.Crew`.

    Args:
        job: what they work on.
        address: of the cluster, or "auto".
        gpus: whether they compute on GPUs, which are shared out among them.
        progress: where to say what is to be known of the cluster.

    Raises:
        UserError: Ray is not installed, no cluster answers, or it has no GPU for them.
    """

    def __init__(self, job: Job, address: str, *, gpus: bool, progress: Progress) -> None:
        self._cluster = Cluster(address, job.islands)
        self._ray = self._cluster.ray
        try:
            self._cpus, self._gpus = self._cluster.shares(job.islands, job.threads, gpus=gpus, progress=progress)
        except UserError:
            self._cluster.close()
            raise
        self._job = self._ray.put(job)
        self._actors: dict[int, Any] = {}
        self._waiting: dict[Any, int] = {}  # what was asked -> the island
        self._talks: dict[Any, int] = {}
        self._replaced: set[int] = set()

    def start(self, number: int) -> None:
        """Start the worker of an island; one that takes another's place begins also where no core is free."""
        free = self._ray.available_resources().get("CPU", 0.0)
        cpus = 0.0 if number in self._replaced and free < self._cpus else self._cpus
        kind = self._ray.remote(
            num_cpus=cpus,
            num_gpus=self._gpus,
            max_restarts=0,
            scheduling_strategy="SPREAD",
            concurrency_groups={_WORK: 1, _TALK: 2},
        )(RayIsland)
        self._replaced.add(number)
        self._actors[number] = kind.remote(self._job, number)
        self._ask(number, self._actors[number].open.options(concurrency_group=_WORK).remote())
        self._listen(number)

    def _ask(self, number: int, reference: Any) -> None:
        self._waiting[reference] = number

    def _listen(self, number: int) -> None:
        self._talks[self._actors[number].talk.options(concurrency_group=_TALK).remote()] = number

    def tell(self, number: int, message: Begin | Epoch) -> None:
        """Hand a worker its next task."""
        if number in self._actors:
            self._ask(number, self._actors[number].work.options(concurrency_group=_WORK).remote(message))

    def stop(self) -> None:
        """Let all workers end in good order."""
        for actor in self._actors.values():
            actor.stop.options(concurrency_group=_TALK).remote()

    def events(self, seconds: float) -> list[tuple[int, Event]]:
        """What the workers have to say, after so many ``seconds`` at most."""
        asked = list(self._waiting)
        if not asked:
            time.sleep(seconds)
        done, _ = self._ray.wait(asked, num_returns=1, timeout=seconds) if asked else ([], [])
        if done:
            done, _ = self._ray.wait(asked, num_returns=len(asked), timeout=0)
        talks, _ = (
            self._ray.wait(list(self._talks), num_returns=len(self._talks), timeout=0) if self._talks else ([], [])
        )
        found: list[tuple[int, Event]] = []
        for reference in [*talks, *(each for each in asked if each in set(done))]:
            number = self._talks.pop(reference, self._waiting.pop(reference, -1))
            if number not in self._actors:
                continue
            found += [(number, event) for event in self._answers(number, reference, reference in talks)]
        return found

    def _answers(self, number: int, reference: Any, talk: bool) -> list[Event]:
        """What an actor gave; one that is dead has failed."""
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self.end(number)
            return [Failed(f"its actor is gone: {reason(error)}", died=True)]
        if talk:
            self._listen(number)
            return list(answer)
        if isinstance(answer, Failed):
            self.end(number)
        return [] if answer is None else [answer]

    def end(self, number: int) -> None:
        """End a worker, whatever it is doing."""
        actor = self._actors.pop(number, None)
        # what was asked of it says nothing about the one that takes its place
        for asked in (self._waiting, self._talks):
            for reference in [each for each, island in asked.items() if island == number]:
                del asked[reference]
        if actor is not None:
            self._ray.kill(actor)

    def close(self) -> None:
        """End all workers, and the cluster where it was started for them."""
        for number in list(self._actors):
            self.end(number)
        self._cluster.close()
