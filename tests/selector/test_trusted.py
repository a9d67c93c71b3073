"""Behaviours in which one model is to be trusted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diffgen.report.data import SelectionView
from diffgen.report.selection import make_selection
from diffgen.runs.triggers import TriggerTable, Verdicts
from diffgen.selector.examples import trusted_behaviours

NAMES = tuple("0123456789")


def table(said: list[list[int]], cells: list[int]) -> TriggerTable:
    """Finds of which these are the models' labels; the pictures do not matter."""
    finds = TriggerTable.of(np.zeros((len(said), 1, 4, 4), np.uint8), np.eye(10, dtype=np.float32)[said])
    return finds.judged(Verdicts.replayed(np.array(cells)))


def test_all_labelled_pictures_of_a_behaviour_count() -> None:
    finds = table([[3, 5]] * 10 + [[3, 5]] * 4 + [[1, 2]] * 5, [0] * 10 + [1] * 4 + [0] * 5)
    # of the first behaviour: A is right on 5, B on 1, neither on 2; one shows nothing, one has no label
    labels = np.array([3, 3, 3, 3, 3, 5, 7, 8, -1, -2, 5, 5, 5, 3, 1, 1, 2, 2, 9])
    about, shown = trusted_behaviours(finds, labels)
    assert about == [
        {"trust": "A", "labels": [3, 5], "cell": 0, "right": [5, 1], "labelled": 8, "shown": 5},
        {"trust": "B", "labels": [3, 5], "cell": 1, "right": [1, 3], "labelled": 4, "shown": 3},
    ]
    assert shown.tolist() == [0, 1, 2, 3, 4, 10, 11, 12]


def test_of_three_models() -> None:
    about, shown = trusted_behaviours(table([[3, 5, 3]] * 6, [2] * 6), np.array([3, 3, 3, 5, 9, 9]))
    assert about == [{"trust": "A", "labels": [3, 5, 3], "cell": 2, "right": [3, 1, 3], "labelled": 6, "shown": 3}]
    assert shown.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("labels", "right", "labelled", "sentence"),
    [
        ((3, 5), (5, 1), 8, "Where A says 3 and B says 5, trust A: right on 5 of 8 labelled pictures, B on 1."),
        ((3, 5, 3), (5, 1, 4), 8, "Where they say A, C 3; B 5, trust A: right on 5 of 8 labelled pictures."),
    ],
)
def test_what_is_said_of_a_behaviour(
    labels: tuple[int, ...], right: tuple[int, ...], labelled: int, sentence: str
) -> None:
    behaviour = {"trust": "A", "labels": [*labels], "cell": 0, "right": [*right], "labelled": labelled}
    selection = make_selection(view(len(labels), behaviours=(behaviour,)), NAMES)
    ((_, (told,)), *_) = selection.trusted
    assert told.sentence == sentence


@pytest.mark.parametrize("models", [2, 3])
def test_the_cost_says_what_the_selector_chose_for(models: int) -> None:
    assert "of the finds (the real images are gone)" in make_selection(view(models, of_real=False), NAMES).cost.lower()
    assert "of the real images" in make_selection(view(models, of_real=True), NAMES).cost.lower()
    assert "costs 61% more against asking" in make_selection(view(models), NAMES).cost


def view(models: int, behaviours: tuple[dict[str, Any], ...] = (), **cost: bool) -> SelectionView:
    """A selector of so many models, and what it costs."""
    roles = "abc"[:models]
    times = {**{f"model_{role}": 1.0 for role in roles}, **{f"share_{role}": 1 / models for role in roles}}
    about = {
        "features": "pixels",
        "examples": 9,
        "both_wrong": 2,
        "sources": {"human": 9},
        "on_triggers": [],
        "real": [],
        "cost": {**times, "of_real": True, "selector": 2.0, "ensemble": 3.0, "saved": -0.61, **cost},
        "behaviours": [*behaviours],
    }
    return SelectionView(about, tuple(np.zeros((0, 1, 4, 4), np.uint8) for _ in behaviours))
