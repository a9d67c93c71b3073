"""The file of a sweep: what it compares, and every way in which it can be wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.errors import UserError
from diffgen.workflows.sweep_outcomes import Outcome, medians
from diffgen.workflows.sweep_plan import read_plan

_PAIR = '[[pairs]]\nname = "one"\nmodels = ["a.pt", "b.onnx"]\ndata = "digits"\n'
_GOOD = f"""
output = "sweeps/first"
techniques = ["diffgan", "dflare"]
seeds = [1, 2, 3]
budgets = ["200q", "1m,500q"]
{_PAIR}
[[pairs]]
name = "two"
models = ["/models/c.pt", "http://host/v2/models/d", "e.pt"]
data = "digits:test"
[settings.search]
population = 40
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "sweep.toml"
    file.write_text(text)
    return file


def test_the_home_of_a_user_whom_nobody_knows_stays_as_it_is(tmp_path: Path) -> None:
    plan = read_plan(write(tmp_path, _GOOD.replace('"a.pt"', '"~nobody-of-this-name/a.pt"')))
    assert plan.cells[0].models[0] == str(tmp_path / "~nobody-of-this-name" / "a.pt")


def test_the_cells_are_the_product_of_all_that_is_listed(tmp_path: Path) -> None:
    plan = read_plan(write(tmp_path, _GOOD))
    assert plan.output == tmp_path / "sweeps" / "first"
    assert len(plan.cells) == 2 * 2 * 3 * 2
    first, last = plan.cells[0], plan.cells[-1]
    assert first.name == "one-diffgan-200q-1"
    assert first.models == (str(tmp_path / "a.pt"), str(tmp_path / "b.onnx"))
    assert last.name == "two-dflare-1m+500q-3"
    assert last.models == ("/models/c.pt", "http://host/v2/models/d", str(tmp_path / "e.pt"))
    config = last.config()
    assert (config.technique, config.seed, config.budget.seconds, config.budget.queries) == ("dflare", 3, 60.0, 500)
    assert config.search.population == 40
    assert len({each.name for each in plan.cells}) == len(plan.cells)


def test_every_technique_has_its_first_seed_before_any_has_its_second(tmp_path: Path) -> None:
    """What is broken off compares all of them, and what makes a machine slower meets all alike."""
    cells = read_plan(write(tmp_path, _GOOD)).cells
    assert [each.seed for each in cells] == sorted([1, 2, 3] * 8)
    assert [each.name for each in cells[:5]] == [
        "one-diffgan-200q-1",
        "one-diffgan-1m+500q-1",
        "one-dflare-200q-1",
        "one-dflare-1m+500q-1",
        "two-diffgan-200q-1",
    ]


_BAD = {
    "no TOML": "output =",
    "no pairs": 'output = "x"',
    "an unknown key": f'output = "x"\ntechnique = "diffgan"\n{_PAIR}',
    "an unknown key of a pair": f'output = "x"\n{_PAIR}model = "c"\n',
    "no output": _PAIR,
    "one model": 'output = "x"\n[[pairs]]\nname = "one"\nmodels = ["a"]\ndata = "digits"\n',
    "a pair without a name": 'output = "x"\n[[pairs]]\nmodels = ["a", "b"]\ndata = "digits"\n',
    "a name with a slash": 'output = "x"\n[[pairs]]\nname = "../up"\nmodels = ["a", "b"]\ndata = "digits"\n',
    "no data": 'output = "x"\n[[pairs]]\nname = "one"\nmodels = ["a", "b"]\n',
    "seeds that are texts": f'output = "x"\nseeds = ["1"]\n{_PAIR}',
    "seeds that are true": f'output = "x"\nseeds = [true]\n{_PAIR}',
    "no seeds": f'output = "x"\nseeds = []\n{_PAIR}',
    "a seed twice": f'output = "x"\nseeds = [1, 1]\n{_PAIR}',
    "a seed below 0": f'output = "x"\nseeds = [-1]\n{_PAIR}',
    "a budget that is none": f'output = "x"\nbudgets = ["soon"]\n{_PAIR}',
    "an unknown technique": f'output = "x"\ntechniques = ["diffgam"]\n{_PAIR}',
    "an unknown setting": f'output = "x"\n{_PAIR}[settings]\npopulation = 5\n',
    "a setting that the sweep goes through": f'output = "x"\n{_PAIR}[settings]\nseed = 5\n',
    "too many cells": f'output = "x"\nseeds = [{",".join(map(str, range(400)))}]\n'
    f"budgets = [{','.join(repr(f'{number}q') for number in range(1, 301))}]\n{_PAIR}",
}


@pytest.mark.parametrize("case", _BAD)
def test_a_file_that_cannot_be(case: str, tmp_path: Path, told: Callable[..., None]) -> None:
    with pytest.raises(UserError) as caught:
        read_plan(write(tmp_path, _BAD[case]))
    assert "sweep.toml" in str(caught.value)
    told("Sweeps", case, caught.value)


def test_no_such_file(tmp_path: Path, told: Callable[..., None]) -> None:
    with pytest.raises(UserError) as caught:
        read_plan(tmp_path / "none.toml")
    told("Sweeps", "a file that is not there", caught.value)


def test_a_folder_as_the_file(tmp_path: Path, told: Callable[..., None]) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError) as caught:
        read_plan(tmp_path / "folder")
    told("Sweeps", "a folder as the file", caught.value)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["done", "open"]), st.integers(0, 100)), max_size=12))
def test_medians_are_over_the_seeds_that_are_done(given: list[tuple[str, str, int]]) -> None:
    outcomes = [
        Outcome("run", pair, "diffgan", "9q", seed, status, behaviours=value if status == "done" else None)
        for seed, (pair, status, value) in enumerate(given)
    ]
    for (pair, _, _), count, values in medians(outcomes):
        own = sorted(value for name, status, value in given if name == pair and status == "done")
        assert count == len(own)
        if own:
            middle = len(own) // 2
            assert values["behaviours"] == (own[middle] if len(own) % 2 else (own[middle - 1] + own[middle]) / 2)
        else:
            assert values["behaviours"] is None
        assert values["queries"] is None
