"""Searches on real workers: processes, and actors of a Ray cluster of several nodes."""

from __future__ import annotations

import multiprocessing.spawn
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import pytest

from diffgen.errors import UserError
from diffgen.events import Event, Progress, StageAdvanced
from diffgen.islands.messages import Job
from diffgen.islands.processes import Processes
from diffgen.workers.messages import Failed
from tests.islands.conftest import Search
from tests.islands.test_driver import Finished, assert_same
from tests.recording import Recording

Make = Callable[..., Search]


class Once(Recording):
    """Does something, once, when so many queries of a search were asked."""

    def __init__(self, queries: int, then: Callable[[], None]) -> None:
        super().__init__()
        self._queries = queries
        self._then = then
        self.done = False

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if isinstance(event, StageAdvanced) and event.name.startswith("Searching") and not self.done:
            self.done = event.done >= self._queries
            if self.done:
                self._then()


def test_processes_one_of_which_is_killed(search: Make, finished: Finished) -> None:
    crews: list[Processes] = []

    def make(job: Job) -> Processes:
        crews.append(Processes(job))
        return crews[0]

    def kill() -> None:
        os.kill(crews[0].pids()[1], signal.SIGKILL)

    run = search(listener=Once(120, kill))
    assert_same(run, run.on(make), finished)
    assert run.listener.warnings[0].startswith(
        "Worker 2 broke off while it searched (its process was ended by the signal SIGKILL"
    )
    assert crews[0].pids() == {}


@pytest.mark.skipif(os.name != "posix", reason="Windows has no /bin/false")
def test_a_process_that_dies_at_boot_is_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    resource_tracker.ensure_running()  # itself a Python of multiprocessing
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", b"/bin/false")
    large: Any = bytes(2**20)
    crew = Processes(Job(Path("/no/such"), large, large, islands=1, threads=1))
    starting = threading.Thread(target=crew.start, args=(0,), daemon=True)
    starting.start()
    starting.join(20)
    assert not starting.is_alive()
    assert crew.events(20) == [(0, Failed("its process ended with the code 1", died=True))]
    assert crew.pids() == {}


def test_every_worker_says_which_file_it_cannot_read(search: Make, told: Callable[..., None]) -> None:
    run = search()
    manifest = run.prepared.folder.manifest
    files = {role: {**entry, "path": f"/no/such/{role}.pt"} for role, entry in manifest["files"].items()}
    gone = Search(run.prepared, (None, None), run.run, run.listener)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(manifest, "files", files)
        run = search("gone")
    gone.run = run.run
    with pytest.raises(UserError) as caught:
        gone()
    text = str(caught.value)
    assert "Worker 1 cannot begin" in text
    assert "Worker 2 cannot begin" in text
    assert text.count("/no/such/A.pt") == 2
    told("Workers", "a model's file that no worker can read", text)


# -- Ray ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ray_a_node_of_which_goes(search: Make, finished: Finished, ray_cluster: Any) -> None:
    from diffgen.islands.ray_actors import RayActors

    lost = list(ray_cluster.worker_nodes)[-1]
    run = search(listener=Once(120, lambda: ray_cluster.remove_node(lost, allow_graceful=False)))

    def make(job: Job) -> RayActors:
        return RayActors(job, ray_cluster.address, gpus=False, progress=Progress(run.listener))

    assert_same(run, run.on(make), finished)


@pytest.mark.slow
def test_ray_an_actor_of_which_is_killed(search: Make, finished: Finished, ray_cluster: Any) -> None:
    from diffgen.islands.ray_actors import RayActors

    made: list[RayActors] = []

    def make(job: Job) -> RayActors:
        made.append(RayActors(job, ray_cluster.address, gpus=False, progress=Progress(run.listener)))
        return made[0]

    def kill() -> None:
        import ray

        ray.kill(made[0]._actors[0])

    run = search(listener=Once(120, kill))
    assert_same(run, run.on(make), finished)
    assert "its actor is gone" in run.listener.warnings[-1]
