"""What the schema says of a setting."""

from __future__ import annotations

import pytest

from diffgen.config import Limits, SettingError
from diffgen.config.schema import Bounds


@pytest.mark.parametrize(
    ("bounds", "sentence"),
    [
        (Bounds(0, 1), "a number from 0 to 1"),
        (Bounds(0, 1, open_high=True), "a number from 0 to below 1"),
        (Bounds(0, 10, open_low=True), "a number above 0 and up to 10"),
        (Bounds(0, 1, open_low=True, open_high=True), "a number above 0 and below 1"),
        (Bounds(1), "1 or more"),
        (Bounds(0, open_low=True), "more than 0"),
        (Bounds(high=0), "0 or less"),
    ],
)
def test_a_range_is_told_in_plain_english(bounds: Bounds, sentence: str) -> None:
    assert str(bounds) == sentence


def test_values_without_names_are_told_by_the_settings_name() -> None:
    assert Limits(0.005) == Limits(max_disagreement=0.005)
    with pytest.raises(SettingError, match=r"The setting limits\.max_accuracy_drop .* is 7"):
        Limits(None, 7.0)
    with pytest.raises(TypeError, match="each of its"):
        Limits(*[None] * 99)
    with pytest.raises(TypeError, match="each of its"):
        Limits(0.1, max_disagreement=0.2)
