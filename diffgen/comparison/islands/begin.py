"""What has to be right before workers begin: settings, threads, objects that can be sent, and the same things."""

from __future__ import annotations

import math
import os
import pickle
from typing import Any

from diffgen.comparison.islands.messages import Job, Ready
from diffgen.comparison.machine import differing
from diffgen.comparison.plan import Objects, Prepared
from diffgen.config import CompareConfig, IslandConfig, roles
from diffgen.errors import UserError
from diffgen.models.wording import reason
from diffgen.numerics import all_threads
from diffgen.pool.calls import Pool
from diffgen.pool.processes import Processes
from diffgen.techniques import technique_class

_THRESHOLDS_APART = 0.05  # of each other; rounding is far below


def check_islands(config: CompareConfig) -> None:
    """See that a search with these settings can run on islands, or raise UserError."""
    islands = config.islands
    if islands.used and config.budget.queries is not None and config.budget.queries < islands.workers:
        raise UserError(
            f"The budget of {config.budget.queries:,} queries is too small for {islands.workers} workers; give at "
            "least one query to each."
        )
    if islands.used and config.ask == "staged":
        raise UserError("Asking in stages and several workers do not go together; leave one of them out.")
    if islands.used and technique_class(config.technique).asks_known_images:
        raise UserError(f"The technique {config.technique} asks about each real image once; leave the workers out.")
    if islands.ray != "none":
        from diffgen.pool.ray_cluster import check

        check(islands.ray)


def threads_of(config: IslandConfig) -> int:
    """Threads of each worker: of this machine its share of those that one process would use."""
    if config.threads is not None:
        return config.threads
    return 1 if config.ray != "none" else max(1, all_threads() // config.workers)


def job_of(prepared: Prepared) -> Job:
    """What the workers of a run need besides its folder; notes in the manifest with how many threads they compute.

    Raises:
        UserError: a model may be asked about so many images only, or something cannot be sent to another process.
    """
    config, folder = prepared.config.islands, prepared.folder
    for role, model in zip(roles(prepared.models), prepared.models, strict=True):
        if model.answers.images_left is not None:
            raise UserError(
                f"Model {role} has a --query-budget, which several workers cannot share; leave one of them out."
            )
    _check_sendable(prepared.objects)
    threads = int(folder.manifest.get("worker_threads") or threads_of(config))
    folder.save_manifest(worker_threads=threads)
    return Job(folder.path.absolute(), prepared.objects, prepared.real, config.workers, threads)


def make_pool(prepared: Prepared) -> tuple[Pool, Any]:
    """Where the workers of a run search, and the job that each is handed; says what is to be known of their number.

    Raises:
        UserError: they cannot be made.
    """
    config, progress, job = prepared.config.islands, prepared.progress, job_of(prepared)
    if config.ray != "none":
        from diffgen.pool.ray_cluster import Cluster, RayPool

        cluster, gpus = Cluster(config.ray, job.islands), prepared.device.type == "cuda"
        shares = cluster.shares(job.islands, job.threads, gpus=gpus, progress=progress)
        return RayPool(cluster, *shares), cluster.ray.put(job)  # sent once, not to every worker
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if config.workers > cores:
        progress.warn(
            f"{config.workers} workers share {cores} core{'s' if cores > 1 else ''}; that is faster only where models "
            "spend their time waiting, such as remote ones."
        )
    return Processes(), job


def _check_sendable(given: Objects) -> None:
    """See that everything that was given as an object can go to another process, or raise UserError."""
    own, models = given.extensions, given.models
    parts = [(f"Model {role}", each) for role, each in zip(roles(models), models, strict=True)]
    parts += [("The technique", own.technique), ("The generator", own.generator), ("The filters", own.filters)]
    for what, thing in parts:
        try:
            pickle.dumps(thing)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise UserError(
                f"{what} cannot be sent to workers ({reason(error)}); give a file, or something that a module defines "
                "by name, or leave --workers out."
            ) from error


def refusal(own: Ready, theirs: Ready) -> str | None:
    """Why a worker may not take part, as a sentence, or None: it works with the same things as this process."""
    differ = differing(own.made_of, theirs.made_of)
    differ += [
        f"the threshold of the filter {name} {theirs.thresholds.get(name, math.nan):.3g} instead of {value:.3g}"
        for name, value in own.thresholds.items()
        if not math.isclose(theirs.thresholds.get(name, math.nan), value, rel_tol=_THRESHOLDS_APART, abs_tol=1e-6)
    ]
    if not differ:
        return None
    return (
        f"on {theirs.place} it has {', '.join(differ)}; install the same versions everywhere, and let all machines "
        "share the cache folder (DIFFGEN_CACHE)."
    )
