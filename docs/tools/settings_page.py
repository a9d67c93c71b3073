"""The page of every setting, made from the settings' own classes."""

from __future__ import annotations

from typing import Any

from diffgen.config import (
    CheckConfig,
    CompareConfig,
    LabelConfig,
    ModelSpec,
    QuantizeConfig,
    SelectorConfig,
    TrainGanConfig,
    TrainingSetConfig,
)
from diffgen.config.schema import Setting, every_setting
from diffgen.filters import FILTERS
from diffgen.sources.registry import SOURCES
from diffgen.techniques import TECHNIQUES
from docs.tools.cells import cell, prose, sentence


def settings_page() -> str:
    """Every setting: its name in files and for ``--set``, its option, default, range and meaning."""
    lines = [
        "# Every setting",
        "",
        "Made from the settings themselves. The name is the one in configuration files (`population = 200` under",
        "`[search]`) and of `--set` (`--set search.population=200`); the option, where there is one, does the same.",
        "[How files, options and defaults go together](../../howto/settings.md).",
        "",
    ]
    seen: set[str] = set()
    for title, about, kinds in _parts():
        rows: dict[str, list[Setting]] = {}
        for each in (each for kind in kinds for each in every_setting(kind)):
            if each.key not in seen:
                rows.setdefault(each.key.rpartition(".")[0], []).append(each)
                seen.add(each.key)
        if rows:
            lines += [f"## {title}", "", about, ""]
        for table, settings in rows.items():
            lines += [f"### `[{table}]`" if table else "### At the top of a file", ""]
            lines += ["| setting, option | what it is |", "|---|---|"]
            lines += [*map(_setting_row, settings), ""]
    return "\n".join(lines)


def all_settings() -> set[str]:
    """The names of all settings."""
    return {each.key for _, _, kinds in _parts() for kind in kinds for each in every_setting(kind)}


def _parts() -> tuple[tuple[str, str, tuple[Any, ...]], ...]:
    return (
        ("Comparisons", "Of `diffgen compare`, and of the search of `diffgen check`.", (CompareConfig,)),
        ("Each model", "In files `[[models]]`, once for each; `[models.preprocessing]` below it.", (ModelSpec,)),
        ("Single techniques", "They count where the technique is in use.", TECHNIQUES.settings_classes()),
        ("Single sources", "They count where the source is in use.", SOURCES.settings_classes()),
        ("Single filters", "They count where the filter is in use.", FILTERS.settings_classes()),
        ("Checks", "Of `diffgen check` alone.", (CheckConfig,)),
        ("Other verbs", "Of `diffgen train-gan`.", (TrainGanConfig,)),
        ("Quantizing", "Of `diffgen quantize`.", (QuantizeConfig,)),
        ("Labels", "Of `diffgen label`.", (LabelConfig,)),
        ("The selector", "Of `diffgen select`.", (SelectorConfig,)),
        ("Pictures to train with", "Of `diffgen export --for-training`.", (TrainingSetConfig,)),
    )


def _setting_row(each: Setting) -> str:
    names = f"`{each.key.rpartition('.')[2]}`" + (f"<br>`{each.option}`" if each.option else "")
    values = f"one of {', '.join(f'`{choice}`' for choice in each.choices)}" if each.choices else str(each.bounds or "")
    values = "`true` or `false`" if each.kind is bool else values
    if each.optional:
        none = "auto" if "auto" in (each.metavar or "") else "none"
        values = f"{values}{', or ' if values else 'or '}`{none}`"
    told = [prose(each.about)]
    if each.default not in (None, (), ""):
        told.append(f"Default `{cell(_value(each.default))}`" + (f"; {values}." if values else "."))
    elif values:
        told.append(f"{sentence(values) if values[0].isalpha() else values}.")
    return f"| {names} | {' '.join(told)} |"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_value, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)
