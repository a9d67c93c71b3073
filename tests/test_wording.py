"""Shares in words, and that whoever says one says it so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diffgen.gate import measurements as of_gate
from diffgen.runs.figures import JuryFigures
from diffgen.wording import percent, verdicts_rest_on


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0.0%"),
        (0.0001, "<0.1%"),
        (0.5, "50.0%"),
        (0.9999, ">99.9%"),
        (1, "100.0%"),
        (1 - 1e-16, "100.0%"),
        (0.1 + 0.2 + 0.7, "100.0%"),
        (float("nan"), "not a number"),
    ],
)
def test_percent_never_rounds_to_none_or_all(share: float, text: str) -> None:
    assert percent(share) == text


def test_a_check_has_the_digits_of_its_limits() -> None:
    assert [of_gate.percent(each) for each in (0, 0.00001, 0.0053, 0.99999, 1)] == [
        "0.00%",
        "<0.01%",
        "0.53%",
        ">99.99%",
        "100.00%",
    ]


def test_a_difference_that_is_none_is_the_only_one_written_as_none() -> None:
    assert [of_gate.points(each) for each in (0, -0.0, 1e-13, -1e-13, 0.00001, -0.00001, 0.0053, -0.0053)] == [
        *["0.00 points"] * 4,
        "<0.01 points",
        "above -0.01 points",
        "0.53 points",
        "-0.53 points",
    ]


def test_how_right_a_jury_is_that_only_confirms_known_labels() -> None:
    jury = JuryFigures(
        members=3,
        trained_on=5_000,
        agreed=False,
        held_out=500,
        accuracy=0.55,
        threshold=-1.9,
        unaided=-0.3,
        recognised=0.12,
        reliable=0.96,
        helped=0.5,
        helped_right=0.56,
    )
    said = str(jury)
    assert "names 55.0% right and recognises 12.0%, of which it names 96.0% right. A known label it only has to" in said
    assert said.endswith("as it does of 50.0%; of those on which it is that sure it names 56.0% right.")
    assert "known label" not in str(replace(jury, unaided=jury.threshold))


def test_what_verdicts_rest_on() -> None:
    said = verdicts_rest_on({"label": 1_200, "both": 0, "jury": 3})
    assert said == "the known label of the real image, which the jury only confirms, on 1,200, the jury alone on 3"
    assert verdicts_rest_on({"label": 0, "both": 0, "jury": 0}) == "nothing: no picture is recognised"


def test_a_jury_that_misses_one_of_many_does_not_name_all() -> None:
    jury = JuryFigures(
        members=3,
        trained_on=60_000,
        agreed=False,
        held_out=10_000,
        accuracy=0.9999,
        threshold=0.0,
        unaided=0.0,
        recognised=0.0001,
        reliable=0.9999,
        helped=0.0001,
        helped_right=0.9999,
    )
    assert "names >99.9% right and recognises <0.1%, of which it names >99.9% right." in str(jury)
