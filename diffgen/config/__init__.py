"""Every setting of diffgen with its default: the one source for the Python API, the command line and config.toml."""

from __future__ import annotations

from dataclasses import asdict

from diffgen.config.budget import Budget
from diffgen.config.check import (
    CheckConfig,
    Limits,
)
from diffgen.config.compare import CompareConfig, IslandConfig
from diffgen.config.gan import GanConfig, GeneratorConfig, PixelRange, TrainGanConfig, TuningConfig
from diffgen.config.images import SplitConfig
from diffgen.config.models import (
    DEFAULT_MODEL_TIMEOUT,
    DEFAULT_PREPROCESSING,
    DEFAULT_REMOTE,
    MAX_MODELS,
    Isolate,
    ModelSpec,
    Opening,
    Preprocessing,
    RemoteConfig,
    Weights,
    is_address,
    roles,
)
from diffgen.config.parts import FILTER_PRESETS, FilterConfig, SourceConfig
from diffgen.config.plain import applied, from_dict, to_dict
from diffgen.config.schema import SettingError, given, replace
from diffgen.config.search import SearchConfig
from diffgen.config.task import TaskConfig
from diffgen.config.verbs import LabelConfig, QuantizeConfig, SelectorConfig, TrainingSetConfig

__all__ = [
    "DEFAULT_MODEL_TIMEOUT",
    "DEFAULT_PREPROCESSING",
    "DEFAULT_REMOTE",
    "FILTER_PRESETS",
    "MAX_MODELS",
    "Budget",
    "CheckConfig",
    "CompareConfig",
    "FilterConfig",
    "GanConfig",
    "GeneratorConfig",
    "IslandConfig",
    "Isolate",
    "LabelConfig",
    "Limits",
    "ModelSpec",
    "Opening",
    "PixelRange",
    "Preprocessing",
    "QuantizeConfig",
    "RemoteConfig",
    "SearchConfig",
    "SelectorConfig",
    "SettingError",
    "SourceConfig",
    "SplitConfig",
    "TaskConfig",
    "TrainGanConfig",
    "TrainingSetConfig",
    "TuningConfig",
    "Weights",
    "applied",
    "asdict",
    "from_dict",
    "given",
    "is_address",
    "replace",
    "roles",
    "to_dict",
]
