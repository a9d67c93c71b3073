"""diffgen finds realistic pictures on which two image classifiers disagree, and puts them to use.

>>> import diffgen
>>> result = diffgen.compare("float.onnx", "int8.onnx", data="val/", budget="60s")  # doctest: +SKIP
>>> result.valid_triggers, result.run  # doctest: +SKIP

Every verb of the command line is a function here; :mod:`diffgen.api` lists them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diffgen.api import AcceptResult as AcceptResult
    from diffgen.api import Answers as Answers
    from diffgen.api import BehaviourFound as BehaviourFound
    from diffgen.api import BehaviourLine as BehaviourLine
    from diffgen.api import Box as Box
    from diffgen.api import Budget as Budget
    from diffgen.api import CheckConfig as CheckConfig
    from diffgen.api import CheckResult as CheckResult
    from diffgen.api import CompareConfig as CompareConfig
    from diffgen.api import CompareResult as CompareResult
    from diffgen.api import DiffgenError as DiffgenError
    from diffgen.api import Event as Event
    from diffgen.api import Examination as Examination
    from diffgen.api import ExportResult as ExportResult
    from diffgen.api import Filter as Filter
    from diffgen.api import FilterConfig as FilterConfig
    from diffgen.api import Find as Find
    from diffgen.api import Finds as Finds
    from diffgen.api import GanConfig as GanConfig
    from diffgen.api import ImageSet as ImageSet
    from diffgen.api import Inspection as Inspection
    from diffgen.api import LabelConfig as LabelConfig
    from diffgen.api import LabelResult as LabelResult
    from diffgen.api import Limits as Limits
    from diffgen.api import Listener as Listener
    from diffgen.api import Message as Message
    from diffgen.api import ModelSpec as ModelSpec
    from diffgen.api import NormalShell as NormalShell
    from diffgen.api import Opening as Opening
    from diffgen.api import Origins as Origins
    from diffgen.api import PredictResult as PredictResult
    from diffgen.api import Preprocessing as Preprocessing
    from diffgen.api import Preset as Preset
    from diffgen.api import Preview as Preview
    from diffgen.api import Proposal as Proposal
    from diffgen.api import QuantizeConfig as QuantizeConfig
    from diffgen.api import QuantizeResult as QuantizeResult
    from diffgen.api import RankResult as RankResult
    from diffgen.api import RealImages as RealImages
    from diffgen.api import ReplayResult as ReplayResult
    from diffgen.api import RunError as RunError
    from diffgen.api import RunLine as RunLine
    from diffgen.api import Scorer as Scorer
    from diffgen.api import SearchConfig as SearchConfig
    from diffgen.api import SelectorConfig as SelectorConfig
    from diffgen.api import SelectorEnsemble as SelectorEnsemble
    from diffgen.api import SelectResult as SelectResult
    from diffgen.api import SheetResult as SheetResult
    from diffgen.api import ShortList as ShortList
    from diffgen.api import ShrinkResult as ShrinkResult
    from diffgen.api import Sight as Sight
    from diffgen.api import Source as Source
    from diffgen.api import Space as Space
    from diffgen.api import StageAdvanced as StageAdvanced
    from diffgen.api import StageEnded as StageEnded
    from diffgen.api import StageStarted as StageStarted
    from diffgen.api import Stopped as Stopped
    from diffgen.api import StopToken as StopToken
    from diffgen.api import SweepResult as SweepResult
    from diffgen.api import Technique as Technique
    from diffgen.api import TechniqueContext as TechniqueContext
    from diffgen.api import TrainGanConfig as TrainGanConfig
    from diffgen.api import TrainGanResult as TrainGanResult
    from diffgen.api import TrainingSetConfig as TrainingSetConfig
    from diffgen.api import TrainingSetResult as TrainingSetResult
    from diffgen.api import TriggersFound as TriggersFound
    from diffgen.api import UserError as UserError
    from diffgen.api import Wanted as Wanted
    from diffgen.api import Watcher as Watcher
    from diffgen.api import WithClass as WithClass
    from diffgen.api import accept as accept
    from diffgen.api import browse as browse
    from diffgen.api import check as check
    from diffgen.api import clear_cache as clear_cache
    from diffgen.api import compare as compare
    from diffgen.api import delete_run as delete_run
    from diffgen.api import demo as demo
    from diffgen.api import demo_gate as demo_gate
    from diffgen.api import describe_run as describe_run
    from diffgen.api import doctor as doctor
    from diffgen.api import draw_report as draw_report
    from diffgen.api import export as export
    from diffgen.api import export_dataset as export_dataset
    from diffgen.api import export_for_training as export_for_training
    from diffgen.api import export_to_store as export_to_store
    from diffgen.api import inspect as inspect
    from diffgen.api import label_counts as label_counts
    from diffgen.api import label_export as label_export
    from diffgen.api import label_import as label_import
    from diffgen.api import label_intended as label_intended
    from diffgen.api import label_oracle as label_oracle
    from diffgen.api import limit_cache as limit_cache
    from diffgen.api import list_runs as list_runs
    from diffgen.api import load_settings as load_settings
    from diffgen.api import path_settings as path_settings
    from diffgen.api import predict as predict
    from diffgen.api import preview as preview
    from diffgen.api import quantize as quantize
    from diffgen.api import rank as rank
    from diffgen.api import rank_export as rank_export
    from diffgen.api import replay as replay
    from diffgen.api import resume as resume
    from diffgen.api import resume_check as resume_check
    from diffgen.api import run_settings as run_settings
    from diffgen.api import select as select
    from diffgen.api import shrink as shrink
    from diffgen.api import sweep as sweep
    from diffgen.api import technique_names as technique_names
    from diffgen.api import train_gan as train_gan
    from diffgen.api import verdict as verdict

__version__ = "0.1.0"

_PACKAGE = "report"  # diffgen.report is a package; the verb of that name is draw_report here


def __getattr__(name: str) -> Any:
    api = importlib.import_module("diffgen.api")
    if name == _PACKAGE or name not in dir(api):
        raise AttributeError(f"module 'diffgen' has no attribute {name!r}")
    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*dir(importlib.import_module("diffgen.api")), "__version__"} - {_PACKAGE})
