"""Hostile and clumsy uses: a few of every size of trouble here, all of them with the slow tests."""

from __future__ import annotations

import pytest

from benchmarks.adversary.__main__ import all_cases, main


def test_there_are_many_cases_of_every_kind():
    cases = all_cases()
    names = [(case.kind, case.name) for case in cases]
    assert len(names) == len(set(names)) >= 150
    assert {case.kind for case in cases} == {
        "models", "data", "runs", "stores", "outputs", "streams", "signals", "concurrency", "servers", "settings",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_few_uses_end_as_promised(capsys):
    assert main(["--every", "150", "--slowness", "15"]) == 0, capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", sorted({case.kind for case in all_cases()}))
def test_every_use_ends_as_promised(kind, capsys):
    assert main(["--only", kind, "--slowness", "15"]) == 0, capsys.readouterr().out
