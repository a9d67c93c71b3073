"""Reads settings as earlier versions wrote them: other names, two models in tables of their own, the GAN's split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffgen.config.images import split_of_its_own

_OPENING = ("arch", "allow_pickle", "allow_remote", "remote", "isolate", "model_timeout")
_OLD = ("model_a", "model_b", "preprocessing_a", "preprocessing_b", "label_map")
# table -> name in earlier versions -> name today
_RENAMED = {
    "gan": {"readings": "monitor_checks"},
    "tuning": {"averaging": "ema_complement"},
    "filters": {
        "discriminator_threshold": "discriminator.threshold",
        "reconstruction_threshold": "reconstruction.threshold",
        "training_steps": "reconstruction.training_steps",
        "ssim_threshold": "ssim.threshold",
        "ssim_neighbors": "ssim.neighbors",
        "neighbors_threshold": "neighbors.threshold",
        "jury_threshold": "jury.threshold",
        "jury_shown": "jury.shown",
    },
}


def migrated(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a comparison with today's names; what is no table where one was is left for the checks to find."""
    values = {name: _renamed(name, table) for name, table in split_of_its_own(values).items()}
    made = {name: value for name, value in values.items() if name not in _OLD}
    if len(made) == len(values) or "models" in made:
        return dict(values)
    models = [_model(values, role) for role in "ab"]
    if "label_map" in values:
        models[1]["label_map"] = values["label_map"]
    return {**made, "models": models}


def current_key(key: str) -> str:
    """The full name of a setting today: ``gan.monitor_checks`` for ``gan.readings``."""
    table, _, name = key.rpartition(".")
    return f"{table}.{_RENAMED[table][name]}" if name in _RENAMED.get(table, {}) else key


def stable_names(table: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a table under the names that they had first: what is kept under a hash of them is found again."""
    before = {new: old for old, new in _RENAMED[table].items()}
    return {before.get(name, name): value for name, value in values.items()}


def _renamed(table: str, values: Any) -> Any:
    if table not in _RENAMED or not isinstance(values, Mapping):
        return values
    made = {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}
    for old, new in _RENAMED[table].items():
        if old in made:
            inner, _, name = new.rpartition(".")
            place = made.setdefault(inner, {}) if inner else made
            if isinstance(place, dict):  # else the checks find what is there
                place.setdefault(name, made.pop(old))
    return made


def _model(values: Mapping[str, Any], role: str) -> dict[str, Any]:
    said = values.get(f"model_{role}", {})
    if not isinstance(said, Mapping):
        said = {"path": said}
    model = {name: value for name, value in said.items() if name not in _OPENING}
    opening = {name: said[name] for name in _OPENING if name in said}
    if opening:
        model["opening"] = opening
    if f"preprocessing_{role}" in values:
        model["preprocessing"] = values[f"preprocessing_{role}"]
    return model
