"""What has to be right before workers begin."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import pytest

from diffgen.comparison.islands.begin import check_islands, job_of, refusal, threads_of
from diffgen.comparison.islands.island import ready
from diffgen.comparison.islands.messages import Ready
from diffgen.comparison.plan import Objects, Prepared
from diffgen.config import Budget, CompareConfig, IslandConfig, SettingError, replace
from diffgen.errors import UserError
from diffgen.parts import Extensions
from diffgen.pool.ray_cluster import check_answers
from diffgen.workflows.compare import compare


def test_fewer_queries_than_workers(told: Callable[..., None]) -> None:
    config = CompareConfig(budget=Budget(queries=3), islands=IslandConfig(workers=4))
    with pytest.raises(UserError) as caught:
        check_islands(config)
    told("Workers", "fewer queries than workers", caught.value)
    check_islands(replace(config, budget=Budget(queries=4)))
    check_islands(replace(config, budget=Budget(seconds=1)))


@pytest.mark.parametrize("workers", [0, -1, 1_001])
def test_a_number_of_workers_that_cannot_be(workers: int, told: Callable[..., None]) -> None:
    with pytest.raises(SettingError) as caught:
        IslandConfig(workers=workers)
    told("Workers", f"--workers {workers}", caught.value)


def test_workers_share_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: 8)
    assert [threads_of(IslandConfig(workers=count)) for count in (1, 2, 3, 8, 100)] == [8, 4, 2, 1, 1]
    assert threads_of(IslandConfig(workers=2, threads=5)) == 5
    # what the cores of the driver's machine are says nothing about the cluster's
    assert threads_of(IslandConfig(workers=2, ray="auto")) == 1


def test_objects_that_cannot_be_sent(prepared: Prepared, told: Callable[..., None]) -> None:
    for case, objects in (
        ("a model that is a lambda", Objects((lambda images: images, None))),
        ("a technique of a function's own", Objects(extensions=Extensions(technique=_local_class()))),
    ):
        with pytest.raises(UserError) as caught:
            job_of(replace(prepared, objects=objects))
        told("Workers", case, caught.value)


def _local_class() -> Any:
    class Local:
        pass

    return Local


def test_a_worker_with_other_versions_or_another_cache(prepared: Prepared, told: Callable[..., None]) -> None:
    own = ready(prepared)
    assert refusal(own, own) is None
    assert own.thresholds
    other = Ready("node7", {**own.made_of, "diffgen": "9.9", "torch": "1.0"}, own.thresholds)
    told("Workers", "one with other versions", f"Worker 2 cannot begin: {refusal(own, other)}")
    name, value = next(iter(own.thresholds.items()))
    rounded = Ready("node7", own.made_of, {**own.thresholds, name: value * 1.001})
    assert refusal(own, rounded) is None
    here = dataclasses.replace(
        own, made_of={**own.made_of, "cells": "1" * 16}
    )  # its digits differ from machine to machine
    trained_again = Ready("node7", {**own.made_of, "cells": "0" * 16}, {**own.thresholds, name: value * 1.5})
    told("Workers", "one with another cache", f"Worker 2 cannot begin: {refusal(here, trained_again)}")
    missing = Ready("node7", own.made_of, {})
    assert name in str(refusal(own, missing))


@pytest.mark.parametrize("address", ["nowhere", "ray://", "127.0.0.1:1", "ray://127.0.0.1:1", "host:port"])
def test_a_ray_address_that_cannot_be(address: str, told: Callable[..., None]) -> None:
    with pytest.raises(UserError) as caught:
        check_answers(address)
    told("Workers", f"--ray {address}", caught.value)


def test_ray_is_missing(monkeypatch: pytest.MonkeyPatch, told: Callable[..., None]) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    config = CompareConfig(islands=IslandConfig(ray="auto"), budget=Budget(queries=10))
    with pytest.raises(UserError) as caught:
        compare("a.pt", "b.pt", data="digits", config=config)
    told("Workers", "--ray without Ray", caught.value)
