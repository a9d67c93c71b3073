"""The form says exactly what the command line says, whatever is chosen in it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffgen import api
from diffgen.cli import build_parser, compare
from diffgen.config import CheckConfig, CompareConfig, ModelSpec, to_dict
from diffgen.config.layers import _PATHS
from diffgen.config.schema import every_setting
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.sources.registry import SOURCES
from diffgen.ui import form
from diffgen.ui.form import hint, refusal
from diffgen.ui.place import Place
from diffgen.ui.tab_check import check_words
from tests.conftest import ASSETS
from tests.ui.conftest import shared_of

_FIELDS = form.fields()


def _values(field: form.Field) -> st.SearchStrategy[Any]:
    """What a field can hold; also what the browser makes of it: whole numbers as fractions."""
    usual = st.just(field.start)
    if field.look == "switch":
        return st.booleans()
    if field.look == "choice":
        return usual | st.sampled_from(field.setting.choices)
    if field.look == "slider":
        low, high, step = field.ends
        steps = st.integers(0, int((high - low) / step) - 1)
        return usual | steps.map(lambda at: round(low + at * step, 6))
    return usual


@settings(max_examples=12)
@given(st.tuples(*map(_values, _FIELDS)), st.sampled_from([[], ["search.niches=none"], ["gan.steps=7"]]))
def test_the_words_give_the_settings_of_the_form(values: tuple[Any, ...], lines: list[str]) -> None:
    chosen = form.said(_FIELDS, values)
    words = ["compare", "a.onnx", "b.onnx", "--data", "digits", *form.options(chosen, lines)]
    arguments = build_parser().parse_args(words)
    arguments.progress = Progress()
    config, _ = compare.config_from(arguments, {}, arguments.options.settings(arguments), CompareConfig())
    expected = api.load_settings(**form.layer(chosen, lines))
    assert {**to_dict(config), "models": ()} == {**to_dict(expected), "models": ()}


def test_sources_are_chosen_by_their_names() -> None:
    (field,) = (each for each in _FIELDS if each.setting.key == "source.family")
    assert field.look == "choice" and field.setting.choices == SOURCES.names()


def test_what_is_as_usual_is_not_said() -> None:
    assert form.said(_FIELDS, [each.start for each in _FIELDS]) == {}


@pytest.mark.parametrize(
    ("values", "lines"),
    [({}, []), ({"budget": "30s", "seed": 4}, []), ({"search.population": 80}, []), ({}, ["search.niches=none"])],
)
def test_the_program_is_python_that_names_everything(values: dict[str, Any], lines: list[str]) -> None:
    program = form.python(["it's.onnx", 'b".onnx'], "digits", "runs/x", values, lines)
    called = [each for each in ast.walk(ast.parse(program)) if isinstance(each, ast.Call)]
    calls = {each.func.attr: each for each in called if isinstance(each.func, ast.Attribute)}
    assert [ast.literal_eval(each) for each in calls["compare"].args] == ["it's.onnx", 'b".onnx']
    if "load_settings" in calls:
        named = {str(each.arg): ast.literal_eval(each.value) for each in calls["load_settings"].keywords}
        assert to_dict(api.load_settings(**named)) == to_dict(api.load_settings(**form.layer(values, lines)))
    else:
        given = {each.arg: ast.literal_eval(each.value) for each in calls["compare"].keywords}
        assert given == {"data": "digits", "output": "runs/x", **values}


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return Place(tmp_path, (tmp_path,))


@pytest.mark.parametrize("text", ["nonsense", "search.populaton=3", "search.population"])
def test_a_line_that_is_no_setting_is_refused(here: Place, text: str) -> None:
    with pytest.raises(UserError):
        form.more(text, here)


def test_a_setting_reads_no_file_from_elsewhere(here: Place) -> None:
    (here.runs / "g.onnx").write_bytes(b"g")
    assert form.more(" search.niches=none \n\ngenerator.file = g.onnx", here) == [
        "search.niches=none",
        f"generator.file={here.runs / 'g.onnx'}",
    ]
    assert "source.diffusers.folder" in api.path_settings()
    for key in api.path_settings():
        for value in ("/etc/passwd", '"/etc/passwd"', "../../etc/passwd"):
            with pytest.raises(UserError, match="not in the folders"):
                form.more(f"{key}={value}", here)


def test_every_setting_that_names_a_file_is_known() -> None:
    named = {each.key for each in every_setting(CheckConfig) if {"FILE", "NPZ"} & {*(each.metavar or "").split("|")}}
    assert named < api.path_settings()
    of_models = {f"models.{each.key.rpartition('.')[2]}" for each in every_setting(ModelSpec) if each.is_path}
    assert {*_PATHS} == api.path_settings() | of_models  # what a file of settings takes from its own folder


def test_a_value_out_of_range_is_refused_before_anything_starts() -> None:
    with pytest.raises(UserError, match=r"search\.population"):
        form.check_settings({"search.population": 1}, [])


def test_limits_are_read_as_the_command_line_reads_them() -> None:
    fields = form.limits()
    said = form.said(fields, ["0.5%" if each.label == "max disagreement" else "3" for each in fields])
    assert said["limits.max_disagreement"] == "0.5%"
    assert said["limits.max_new_behaviours"] == 3
    with pytest.raises(UserError, match="max_accuracy_drop"):
        form.check_of_check({"limits.max_accuracy_drop": "much"}, [])


def test_options_are_named_as_the_fields_that_they_are() -> None:
    said = hint("--max-accuracy-drop needs labels; leave it out, or say --data-labels use, or --data-labels use.")
    assert said == (
        "On this page: --max-accuracy-drop is the field 'max accuracy drop' under 'Limits', --data-labels is the field "
        "'data labels' under 'More settings'."
    )
    assert "on the tab Run" in hint("'diffgen inspect MODEL --data D' finds out what it wants")
    assert hint("The model is missing; --no-such-option.") == ""
    assert refusal("a & b").count("dg-note") == 1
    assert refusal("Say --data-labels ignore.").count("dg-note") == 2


def test_a_check_can_be_told_to_leave_labels_aside(tmp_path: Path) -> None:
    """What the refusal of a check tells the user to say can be said on its tab."""

    place = Place(tmp_path, (ASSETS,))
    shared = shared_of(place)
    fields = (*form.limits(), *form.check_fields())
    values = tuple("ignore" if each.setting.key == "data_labels" else each.start for each in fields)
    given = ("a.onnx", "b.onnx", "digits:test", "500q", 0, "", "mine")
    name, words = check_words(shared, given, values, "random_images=300")
    assert name == "mine"
    assert words[-4:] == ["--data-labels", "ignore", "--set", "random_images=300"]
    with pytest.raises(UserError, match="no_such"):
        check_words(shared, given, values, "no_such=3")
