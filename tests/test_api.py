"""diffgen.api: every verb, with the command line's names."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import diffgen
from diffgen import api
from diffgen.cli import VERBS, build_parser

# the ways of one verb that are functions of their own
SPLIT = {"label": {"label_counts", "label_export", "label_import", "label_intended", "label_oracle"}}
QUICK = {"accept", "clear_cache", "doctor", "label_counts", "label_import", "label_intended", "limit_cache"}
QUICK |= {"rank", "report"}
QUICK |= {"browse", "delete_run", "describe_run", "list_runs", "run_settings", "verdict"}


def declared(file: str) -> set[str]:
    """Names that type checkers find in a module."""
    tree = ast.parse(Path(inspect.getfile(diffgen)).with_name(file).read_text(encoding="utf-8"))
    nodes = [node for block in tree.body if isinstance(block, ast.If) for node in ast.walk(block)]
    imported = {each.asname for node in nodes if isinstance(node, ast.ImportFrom) for each in node.names}
    return imported | {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def test_type_checkers_see_what_is_there() -> None:
    assert declared("api.py") == set(dir(api))
    assert declared("__init__.py") == set(dir(api)) - {"report"} == set(dir(diffgen)) - {"__version__"}


@pytest.mark.parametrize("name", dir(api))
def test_every_name_leads_somewhere(name: str) -> None:
    value = getattr(api, name)
    assert value is getattr(api, name)
    if name != "report":
        assert getattr(diffgen, name) is value


def test_the_command_line_has_no_verb_that_python_lacks() -> None:
    names = {module.__name__.rpartition(".")[2] for module in VERBS}
    usage = build_parser().format_help()
    for name in names:
        assert name.replace("_", "-") in usage.split()
    # the page is made of the others, and a shell completes no Python
    assert names - SPLIT.keys() - {"ui", "completion"} <= set(api.VERBS)
    assert SPLIT["label"] <= set(api.VERBS)


@pytest.mark.parametrize("verb", sorted(set(api.VERBS) - QUICK))
def test_whatever_takes_long_is_watched_and_stopped(verb: str) -> None:
    parameters = inspect.signature(getattr(api, verb)).parameters
    for name in ("events", "stop"):
        assert parameters[name].default is None
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
    assert "progress" not in parameters


@pytest.mark.parametrize("module", [api, diffgen])
def test_what_is_not_there(module: object) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'comparee'"):
        module.comparee  # type: ignore[attr-defined]  # noqa: B018


def test_the_package_of_reports_hides_no_verb() -> None:
    import diffgen.report.html

    assert inspect.ismodule(diffgen.report)
    assert diffgen.draw_report is api.report
