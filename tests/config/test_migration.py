"""Settings of earlier versions are read, and what was trained with them is found again."""

from __future__ import annotations

from diffgen.config import CompareConfig, GanConfig, applied, to_dict
from diffgen.config.layers import assignment, normal
from diffgen.config.migration import stable_names


def test_a_renamed_setting_is_read_and_keeps_the_key_of_what_was_trained_with_it() -> None:
    assert normal({"gan": {"readings": 3}, "tuning": {"averaging": [0.1, 0.2]}}) == {
        "gan": {"monitor_checks": 3},
        "tuning": {"ema_complement": [0.1, 0.2]},
    }
    assert assignment("gan.readings = 3", CompareConfig) == {"gan": {"monitor_checks": 3}}
    kept = stable_names("gan", to_dict(GanConfig(monitor_checks=3)))
    assert kept["readings"] == 3 and "monitor_checks" not in kept
    assert applied(GanConfig(), normal({"gan": kept})["gan"]) == GanConfig(monitor_checks=3)
