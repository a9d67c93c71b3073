"""Settings that techniques and families bring with them, as a run writes them down."""

from __future__ import annotations

import numpy as np
import pytest

from diffgen.comparison.own_settings import with_named_operators, with_own_settings
from diffgen.config import CompareConfig, SourceConfig
from diffgen.config.tables import settings_among
from diffgen.sources.operators import usual_operators
from diffgen.sources.seeds import SeedsSettings
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
