"""Settings of earlier versions are read, and what was trained with them is found again."""

from __future__ import annotations

import pytest

from diffgen.config import CompareConfig, GanConfig, SettingError, SplitConfig, applied, from_dict, to_dict
from diffgen.config.layers import assignment, normal
from diffgen.config.migration import migrated, stable_names


def test_a_renamed_setting_is_read_and_keeps_the_key_of_what_was_trained_with_it() -> None:
    assert normal({"gan": {"readings": 3}, "tuning": {"averaging": [0.1, 0.2]}}) == {
        "gan": {"monitor_checks": 3},
        "tuning": {"ema_complement": [0.1, 0.2]},
    }
    assert assignment("gan.readings = 3", CompareConfig) == {"gan": {"monitor_checks": 3}}
    kept = stable_names("gan", to_dict(GanConfig(monitor_checks=3)))
    assert kept["readings"] == 3 and "monitor_checks" not in kept
    assert applied(GanConfig(), normal({"gan": kept})["gan"]) == GanConfig(monitor_checks=3)


def test_flat_thresholds_of_filters_are_read() -> None:
    old = {"ssim_threshold": 0.2, "ssim_neighbors": 5, "training_steps": 9, "names": ["ssim"]}
    config = from_dict(CompareConfig, migrated({"filters": old})).filters
    assert (config.ssim.threshold, config.ssim.neighbors, config.reconstruction.training_steps) == (0.2, 5, 9)
    beside = normal({"filters": {**old, "ssim": {"threshold": 0.3}}})
    assert applied(CompareConfig(), beside).filters.ssim.threshold == 0.3
    assert assignment("filters.jury_threshold = -0.5", CompareConfig) == {"filters": {"jury": {"threshold": -0.5}}}
    with pytest.raises(SettingError, match=r"filters\.ssim is 3, but it has settings of its own"):
        applied(CompareConfig(), normal({"filters": {"ssim": 3, "ssim_threshold": 0.4}}))


def test_settings_of_version_0_1_keep_their_split() -> None:
    old = {"gan": {"steps": 9, "holdout": 0.25, "seed": 7}}
    config = from_dict(CompareConfig, migrated(old))
    assert config.split == SplitConfig(holdout=0.25, seed=7)
    assert (config.gan.steps, config.gan.seed) == (9, 7)
    # today's say it themselves, and the GAN's seed moves nothing
    assert from_dict(CompareConfig, migrated({"gan": {"seed": 7}})).split == SplitConfig()
    assert from_dict(CompareConfig, migrated(to_dict(config))) == config
