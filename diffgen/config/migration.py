"""Reads settings as earlier versions wrote them: two models in tables of their own, and the split among the GAN's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffgen.config.split import split_of_its_own

_OPENING = ("arch", "allow_pickle", "allow_remote", "remote", "isolate", "model_timeout")
_OLD = ("model_a", "model_b", "preprocessing_a", "preprocessing_b", "label_map")


def migrated(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a comparison with today's names; what is no table where one was is left for the checks to find."""
    values = split_of_its_own(values)
    made = {name: value for name, value in values.items() if name not in _OLD}
    if len(made) == len(values) or "models" in made:
        return dict(values)
    models = [_model(values, role) for role in "ab"]
    if "label_map" in values:
        models[1]["label_map"] = values["label_map"]
    return {**made, "models": models}


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
