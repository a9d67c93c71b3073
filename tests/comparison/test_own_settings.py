"""Settings that techniques and families bring with them, as a run writes them down."""

from __future__ import annotations

import numpy as np
import pytest

from diffgen.comparison.image_source import settled_generator
from diffgen.comparison.requirements import check_settings, with_own_settings
from diffgen.config import CompareConfig, SourceConfig
from diffgen.config.plain import settings_among
from diffgen.errors import UserError
from diffgen.sources.operators import usual_operators
from diffgen.sources.pipeline import DiffusersSettings
from diffgen.sources.seeds import SeedsSettings, with_named_operators
from diffgen.types import UInt8Array


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("grey", [False, True])
@pytest.mark.parametrize("said", [{}, {"operators": "auto"}])
def test_a_run_names_its_operators(channels: int, grey: bool, said: dict[str, str]) -> None:
    """Genes are numbers of that list."""
    config = CompareConfig(source=SourceConfig(family="seeds", families={"seeds": said}))
    written = with_named_operators(with_own_settings(config), _images(channels, grey))
    assert settings_among(SeedsSettings, written.source.families).operators == usual_operators(1 if grey else channels)


def _images(channels: int, grey: bool) -> UInt8Array:
    images = np.random.default_rng(0).integers(256, size=(2, 1 if grey else channels, 8, 8), dtype=np.uint8)
    return np.repeat(images, channels, axis=1) if grey else images


def test_what_somebody_named_stays_named() -> None:
    config = CompareConfig(source=SourceConfig(family="seeds", families={"seeds": {"operators": ["jpeg"]}}))
    written = with_own_settings(config)
    assert with_named_operators(written, _images(1, False)) == written


def test_settings_that_are_not_in_use_are_not_written() -> None:
    config = CompareConfig(source=SourceConfig(family="gan"))
    written = with_own_settings(config)
    assert with_named_operators(written, _images(1, False)) == written


def test_a_folder_that_nobody_named_is_none_again() -> None:
    """It was read as a folder called none."""
    config = CompareConfig(source=SourceConfig(family="diffusers"))
    written = with_own_settings(with_own_settings(config))
    assert settings_among(DiffusersSettings, written.source.families) == DiffusersSettings()
    with pytest.raises(UserError, match="none is named; use --source diffusers:FOLDER"):
        check_settings(settled_generator(written))
    # a folder may be called so
    named = SourceConfig(family="diffusers", families={"diffusers": {"folder": "none"}})
    assert settings_among(DiffusersSettings, with_own_settings(CompareConfig(source=named)).source.families) == (
        DiffusersSettings(folder="none")
    )
