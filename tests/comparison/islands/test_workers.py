"""Searches on real workers: processes, and actors of a Ray cluster of several nodes."""

from __future__ import annotations

import multiprocessing.spawn
import os
import signal
import threading
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from typing import Any

import pytest

from diffgen.errors import UserError
from diffgen.events import Event, Progress, StageAdvanced
from diffgen.pool.processes import Processes
from diffgen.pool.ray_cluster import Cluster, RayPool
from tests.comparison.islands.conftest import Search
from tests.comparison.islands.test_driver import Finished, assert_same
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
    pool = Processes()

    def kill() -> None:
        pid = pool._running[1][0].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    run = search(listener=Once(120, kill))
    assert_same(run, run.on(pool), finished)
    assert run.listener.warnings[0].startswith(
        "Worker 2 broke off while it searched (its process was ended by the signal SIGKILL"
    )
    assert not pool._running


@pytest.mark.skipif(os.name != "posix", reason="Windows has no /bin/false")
def test_a_process_that_dies_at_boot_is_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    resource_tracker.ensure_running()  # itself a Python of multiprocessing
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", b"/bin/false")
    large: Any = bytes(2**20)
    pool = Processes()
    starting = threading.Thread(target=pool.start, args=(0, print, large), daemon=True)
    starting.start()
    starting.join(20)
    assert not starting.is_alive()
    ((number, ended),) = pool.events(20)
    assert number == 0
    assert ended.failure.text.startswith("its process ended with the code 1, before it began")
    assert ended.failure.died
    assert not pool._running


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


@pytest.fixture
def ray_pool(ray_cluster: Any) -> Iterator[RayPool]:
    made = Cluster(ray_cluster.address, 2)
    yield RayPool(made, *made.shares(2, 1, gpus=False, progress=Progress(None)))


@pytest.mark.slow
def test_ray_a_node_of_which_goes(search: Make, finished: Finished, ray_cluster: Any, ray_pool: RayPool) -> None:
    lost = list(ray_cluster.worker_nodes)[-1]
    run = search(listener=Once(120, lambda: ray_cluster.remove_node(lost, allow_graceful=False)))
    assert_same(run, run.on(ray_pool), finished)


@pytest.mark.slow
def test_ray_an_actor_of_which_is_killed(search: Make, finished: Finished, ray_pool: RayPool) -> None:
    import ray

    run = search(listener=Once(120, lambda: ray.kill(ray_pool._actors[0])))
    assert_same(run, run.on(ray_pool), finished)
    assert "its actor is gone" in run.listener.warnings[-1]
