"""Every setting of diffgen with its default: the one source for the Python API, the command line and config.toml."""

from __future__ import annotations

from dataclasses import asdict as asdict

from diffgen.config.budget import Budget as Budget
from diffgen.config.check import CheckConfig as CheckConfig
from diffgen.config.check import Limits as Limits
from diffgen.config.compare import CompareConfig as CompareConfig
from diffgen.config.compare import IslandConfig as IslandConfig
from diffgen.config.gan import GanConfig as GanConfig
from diffgen.config.gan import GeneratorConfig as GeneratorConfig
from diffgen.config.gan import PixelRange as PixelRange
from diffgen.config.gan import TrainGanConfig as TrainGanConfig
from diffgen.config.gan import TuningConfig as TuningConfig
from diffgen.config.images import SplitConfig as SplitConfig
from diffgen.config.models import DEFAULT_MODEL_TIMEOUT as DEFAULT_MODEL_TIMEOUT
from diffgen.config.models import DEFAULT_PREPROCESSING as DEFAULT_PREPROCESSING
from diffgen.config.models import DEFAULT_REMOTE as DEFAULT_REMOTE
from diffgen.config.models import MAX_MODELS as MAX_MODELS
from diffgen.config.models import Isolate as Isolate
from diffgen.config.models import ModelSpec as ModelSpec
from diffgen.config.models import Opening as Opening
from diffgen.config.models import Preprocessing as Preprocessing
from diffgen.config.models import RemoteConfig as RemoteConfig
from diffgen.config.models import Weights as Weights
from diffgen.config.models import is_address as is_address
from diffgen.config.models import roles as roles
from diffgen.config.parts import FILTER_PRESETS as FILTER_PRESETS
from diffgen.config.parts import FilterConfig as FilterConfig
from diffgen.config.parts import SourceConfig as SourceConfig
from diffgen.config.plain import applied as applied
from diffgen.config.plain import from_dict as from_dict
from diffgen.config.plain import to_dict as to_dict
from diffgen.config.schema import SettingError as SettingError
from diffgen.config.schema import given as given
from diffgen.config.schema import replace as replace
from diffgen.config.search import SearchConfig as SearchConfig
from diffgen.config.task import TaskConfig as TaskConfig
from diffgen.config.verbs import LabelConfig as LabelConfig
from diffgen.config.verbs import QuantizeConfig as QuantizeConfig
from diffgen.config.verbs import SelectorConfig as SelectorConfig
from diffgen.config.verbs import TrainingSetConfig as TrainingSetConfig
