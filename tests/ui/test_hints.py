"""Where the page has what a message of the command line names."""

from __future__ import annotations

from pathlib import Path

import pytest

from diffgen.errors import UserError
from diffgen.ui import form
from diffgen.ui.form import hint, refusal
from diffgen.ui.place import Place
from diffgen.ui.tab_check import check_words
from tests.conftest import ASSETS
from tests.ui.conftest import shared_of


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
