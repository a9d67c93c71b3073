"""diffgen.api: every verb, with the command line's names."""

from __future__ import annotations

import inspect

import pytest

import diffgen
from diffgen import api
from diffgen.cli import VERBS as COMMANDS
from diffgen.cli import build_parser

# the ways of one verb that are functions of their own
SPLIT = {"label": {"label_counts", "label_export", "label_import", "label_intended", "label_oracle"}}
VERBS = {
    name
    for name in dir(api)
    if inspect.isfunction(getattr(api, name)) and getattr(api, name).__module__.startswith("diffgen.workflows.")
}
QUICK = {"accept", "clear_cache", "doctor", "draw_report", "label_counts", "label_import", "label_intended"}
QUICK |= {"browse", "delete_run", "describe_run", "limit_cache", "list_runs", "rank", "run_settings", "verdict"}


@pytest.mark.parametrize("name", dir(api))
def test_every_name_leads_somewhere(name: str) -> None:
    assert getattr(diffgen, name) is getattr(api, name)
    assert name in dir(diffgen)


def test_the_command_line_has_no_verb_that_python_lacks() -> None:
    names = {module.__name__.rpartition(".")[2] for module in COMMANDS}
    usage = build_parser().format_help()
    for name in names:
        assert name.replace("_", "-") in usage.split()
    # the page is made of the others, and a shell completes no Python
    assert names - SPLIT.keys() - {"ui", "completion", "report"} <= VERBS
    assert SPLIT["label"] | {"draw_report"} <= VERBS


@pytest.mark.parametrize("verb", sorted(VERBS - QUICK))
def test_whatever_takes_long_is_watched_and_stopped(verb: str) -> None:
    parameters = inspect.signature(getattr(api, verb)).parameters
    for name in ("events", "stop"):
        assert parameters[name].default is None
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
    assert "progress" not in parameters


@pytest.mark.parametrize("module", [api, diffgen])
def test_what_is_not_there(module: object) -> None:
    with pytest.raises(AttributeError, match=r"attribute '?comparee"):
        module.comparee  # type: ignore[attr-defined]  # noqa: B018
