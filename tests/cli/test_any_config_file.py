"""Whatever a file of settings holds: it gives settings that can be printed and read again, or an error of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diffgen.cli import compare
from diffgen.comparison.settings_file import read_settings_file
from diffgen.config import CompareConfig, to_dict
from diffgen.config.layers import written
from diffgen.errors import UserError
from tests.cli.conftest import both_from, parser

scalars = st.one_of(
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["60s", "500q", "paper", "none", "auto", "digits", "generator", "a.pt"]),
)
names = st.sampled_from(
    [
        "a",
        "path",
        "force",
        "gan-steps",
        "false_alarm_rate",
        "mean",
        "steps",
        "prior",
        "population",
        "arch",
        *to_dict(CompareConfig()),
    ]
) | st.text(max_size=8)
tables = st.dictionaries(names, scalars | st.lists(scalars, max_size=3), max_size=4)
documents = st.dictionaries(names, scalars | st.lists(scalars, max_size=3) | tables, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(document=documents)
def test_any_toml_gives_settings_or_a_user_error(document: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "any.toml"
    file.write_text(tomli_w.dumps(document), encoding="utf-8")
    words = ["compare", "--config", str(file)]
    try:
        config, base = both_from(words)
    except UserError as error:
        assert "\n" not in str(error) or "\n" in repr(document)
        return
    printed = compare.to_toml(written(config, base), parser().parse_args(words))
    file.write_text(printed, encoding="utf-8")
    assert both_from(words)[0] == config


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_give_settings_or_a_user_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "any.toml").write_bytes(content)
    try:
        read_settings_file(tmp_path / "any.toml")
    except UserError as error:
        assert "any.toml" in str(error)
