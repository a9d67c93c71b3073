"""Settings that a Python program names as the command line's options are named."""

from __future__ import annotations

import pytest

from diffgen.config import CheckConfig, CompareConfig, SettingError, applied
from diffgen.config.named import NamedCheckSettings, NamedSettings, keys, layer

OBJECTS = {"technique", "generator"}  # parameters of their own


def test_type_checkers_know_every_option() -> None:
    assert NamedSettings.__annotations__.keys() == keys().keys() - OBJECTS
    assert keys().keys() >= OBJECTS
    of_check = NamedCheckSettings.__annotations__.keys()
    assert of_check >= {"max_accuracy_drop", "random_images", "seed"}
    assert of_check == keys(CheckConfig).keys() - OBJECTS


def test_names_reach_the_settings() -> None:
    named: NamedSettings = {"seed": 7, "gan_schedule": "quick", "false_alarm_rate": 0.4, "device": None}
    config = applied(CompareConfig(device="cpu"), layer(named))
    assert (config.seed, config.gan.schedule, config.filters.false_alarm, config.device) == (7, "quick", 0.4, "cpu")


def test_a_name_that_is_none() -> None:
    with pytest.raises(SettingError, match=r"The setting sede is not known; .*seed"):
        layer({"sede": 7})
