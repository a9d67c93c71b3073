"""Every verb of the command line as a function of its name, and the types that go in and come out.

``import diffgen`` re-exports all of it. The two exceptions: ``diffgen.report`` is a package, so that the verb is
:func:`diffgen.draw_report` there; and what has several ways has several functions: ``label_export``, ``label_import``,
``label_oracle`` and ``label_intended`` of ``diffgen label``, ``export``, ``export_dataset``, ``export_to_store`` and
``export_for_training`` of ``diffgen export``.

What is heavy (torch, pymoo, ...) is imported when a name is first used: ``import diffgen`` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diffgen.comparison.own_settings import path_settings as path_settings
    from diffgen.comparison.settings_file import load_settings as load_settings
    from diffgen.comparison.stages import CompareResult as CompareResult
    from diffgen.config import Budget as Budget
    from diffgen.config import CheckConfig as CheckConfig
    from diffgen.config import CompareConfig as CompareConfig
    from diffgen.config import FilterConfig as FilterConfig
    from diffgen.config import GanConfig as GanConfig
    from diffgen.config import LabelConfig as LabelConfig
    from diffgen.config import Limits as Limits
    from diffgen.config import ModelSpec as ModelSpec
    from diffgen.config import Opening as Opening
    from diffgen.config import Preprocessing as Preprocessing
    from diffgen.config import QuantizeConfig as QuantizeConfig
    from diffgen.config import SearchConfig as SearchConfig
    from diffgen.config import SelectorConfig as SelectorConfig
    from diffgen.config import TrainGanConfig as TrainGanConfig
    from diffgen.config import TrainingSetConfig as TrainingSetConfig
    from diffgen.errors import DiffgenError as DiffgenError
    from diffgen.errors import RunError as RunError
    from diffgen.errors import Stopped as Stopped
    from diffgen.errors import UserError as UserError
    from diffgen.events import BehaviourFound as BehaviourFound
    from diffgen.events import Event as Event
    from diffgen.events import Listener as Listener
    from diffgen.events import Message as Message
    from diffgen.events import StageAdvanced as StageAdvanced
    from diffgen.events import StageEnded as StageEnded
    from diffgen.events import StageStarted as StageStarted
    from diffgen.events import StopToken as StopToken
    from diffgen.events import TriggersFound as TriggersFound
    from diffgen.filters import Filter as Filter
    from diffgen.gate.result import CheckResult as CheckResult
    from diffgen.origins import Origins as Origins
    from diffgen.search.proposal import Answers as Answers
    from diffgen.search.proposal import Proposal as Proposal
    from diffgen.selector.ensemble import SelectorEnsemble as SelectorEnsemble
    from diffgen.sources.base import Source as Source
    from diffgen.sources.space import Box as Box
    from diffgen.sources.space import NormalShell as NormalShell
    from diffgen.sources.space import Space as Space
    from diffgen.sources.space import WithClass as WithClass
    from diffgen.techniques import Preset as Preset
    from diffgen.techniques import RealImages as RealImages
    from diffgen.techniques import Technique as Technique
    from diffgen.techniques import TechniqueContext as TechniqueContext
    from diffgen.techniques import technique_names as technique_names
    from diffgen.types import ImageSet as ImageSet
    from diffgen.types import Scorer as Scorer
    from diffgen.workflows.accept import AcceptResult as AcceptResult
    from diffgen.workflows.accept import accept as accept
    from diffgen.workflows.browse import BehaviourLine as BehaviourLine
    from diffgen.workflows.browse import Find as Find
    from diffgen.workflows.browse import Finds as Finds
    from diffgen.workflows.browse import Wanted as Wanted
    from diffgen.workflows.browse import browse as browse
    from diffgen.workflows.check import check as check
    from diffgen.workflows.check import resume_check as resume_check
    from diffgen.workflows.compare import compare as compare
    from diffgen.workflows.demo import demo as demo
    from diffgen.workflows.demo import demo_gate as demo_gate
    from diffgen.workflows.doctor import Examination as Examination
    from diffgen.workflows.doctor import clear_cache as clear_cache
    from diffgen.workflows.doctor import doctor as doctor
    from diffgen.workflows.doctor import limit_cache as limit_cache
    from diffgen.workflows.export import ExportResult as ExportResult
    from diffgen.workflows.export import export as export
    from diffgen.workflows.export_dataset import export_dataset as export_dataset
    from diffgen.workflows.export_to_store import export_to_store as export_to_store
    from diffgen.workflows.export_training import TrainingSetResult as TrainingSetResult
    from diffgen.workflows.export_training import export_for_training as export_for_training
    from diffgen.workflows.inspect import Inspection as Inspection
    from diffgen.workflows.inspect import inspect as inspect
    from diffgen.workflows.label import LabelResult as LabelResult
    from diffgen.workflows.label import SheetResult as SheetResult
    from diffgen.workflows.label import label_counts as label_counts
    from diffgen.workflows.label import label_export as label_export
    from diffgen.workflows.label import label_import as label_import
    from diffgen.workflows.label import label_intended as label_intended
    from diffgen.workflows.label import label_oracle as label_oracle
    from diffgen.workflows.listing import RunLine as RunLine
    from diffgen.workflows.listing import delete_run as delete_run
    from diffgen.workflows.listing import describe_run as describe_run
    from diffgen.workflows.listing import list_runs as list_runs
    from diffgen.workflows.listing import run_settings as run_settings
    from diffgen.workflows.predict import PredictResult as PredictResult
    from diffgen.workflows.predict import predict as predict
    from diffgen.workflows.preview import Preview as Preview
    from diffgen.workflows.preview import preview as preview
    from diffgen.workflows.quantize import QuantizeResult as QuantizeResult
    from diffgen.workflows.quantize import quantize as quantize
    from diffgen.workflows.rank import RankResult as RankResult
    from diffgen.workflows.rank import rank as rank
    from diffgen.workflows.rank_export import ShortList as ShortList
    from diffgen.workflows.rank_export import rank_export as rank_export
    from diffgen.workflows.replay import ReplayResult as ReplayResult
    from diffgen.workflows.replay import replay as replay
    from diffgen.workflows.report import draw_report as draw_report
    from diffgen.workflows.resume import resume as resume
    from diffgen.workflows.select import SelectResult as SelectResult
    from diffgen.workflows.select import select as select
    from diffgen.workflows.shrink import ShrinkResult as ShrinkResult
    from diffgen.workflows.shrink import shrink as shrink
    from diffgen.workflows.sweep import SweepResult as SweepResult
    from diffgen.workflows.sweep import sweep as sweep
    from diffgen.workflows.train_gan import TrainGanResult as TrainGanResult
    from diffgen.workflows.train_gan import train_gan as train_gan
    from diffgen.workflows.verdict import verdict as verdict
    from diffgen.workflows.watch import Sight as Sight
    from diffgen.workflows.watch import Watcher as Watcher

    report = draw_report

# where each name comes from; "module:name" where it has another one there
_HOMES = {
    "AcceptResult": "diffgen.workflows.accept",
    "Answers": "diffgen.search.proposal",
    "BehaviourFound": "diffgen.events",
    "BehaviourLine": "diffgen.workflows.browse",
    "Box": "diffgen.sources.space",
    "Budget": "diffgen.config",
    "CheckConfig": "diffgen.config",
    "CheckResult": "diffgen.gate.result",
    "CompareConfig": "diffgen.config",
    "CompareResult": "diffgen.comparison.stages",
    "DiffgenError": "diffgen.errors",
    "Event": "diffgen.events",
    "Examination": "diffgen.workflows.doctor",
    "ExportResult": "diffgen.workflows.export",
    "Filter": "diffgen.filters",
    "FilterConfig": "diffgen.config",
    "Find": "diffgen.workflows.browse",
    "Finds": "diffgen.workflows.browse",
    "GanConfig": "diffgen.config",
    "ImageSet": "diffgen.types",
    "Inspection": "diffgen.workflows.inspect",
    "LabelConfig": "diffgen.config",
    "LabelResult": "diffgen.workflows.label",
    "Limits": "diffgen.config",
    "Listener": "diffgen.events",
    "Message": "diffgen.events",
    "ModelSpec": "diffgen.config",
    "NormalShell": "diffgen.sources.space",
    "Opening": "diffgen.config",
    "Origins": "diffgen.origins",
    "PredictResult": "diffgen.workflows.predict",
    "Preprocessing": "diffgen.config",
    "Preset": "diffgen.techniques",
    "Preview": "diffgen.workflows.preview",
    "Proposal": "diffgen.search.proposal",
    "QuantizeConfig": "diffgen.config",
    "QuantizeResult": "diffgen.workflows.quantize",
    "RankResult": "diffgen.workflows.rank",
    "RealImages": "diffgen.techniques",
    "ReplayResult": "diffgen.workflows.replay",
    "RunError": "diffgen.errors",
    "RunLine": "diffgen.workflows.listing",
    "Scorer": "diffgen.types",
    "SearchConfig": "diffgen.config",
    "SelectResult": "diffgen.workflows.select",
    "SelectorConfig": "diffgen.config",
    "SelectorEnsemble": "diffgen.selector.ensemble",
    "SheetResult": "diffgen.workflows.label",
    "ShortList": "diffgen.workflows.rank_export",
    "ShrinkResult": "diffgen.workflows.shrink",
    "SweepResult": "diffgen.workflows.sweep",
    "Sight": "diffgen.workflows.watch",
    "Source": "diffgen.sources.base",
    "Space": "diffgen.sources.space",
    "StageAdvanced": "diffgen.events",
    "StageEnded": "diffgen.events",
    "StageStarted": "diffgen.events",
    "StopToken": "diffgen.events",
    "Stopped": "diffgen.errors",
    "Technique": "diffgen.techniques",
    "TechniqueContext": "diffgen.techniques",
    "TrainGanConfig": "diffgen.config",
    "TrainGanResult": "diffgen.workflows.train_gan",
    "TrainingSetConfig": "diffgen.config",
    "TrainingSetResult": "diffgen.workflows.export_training",
    "TriggersFound": "diffgen.events",
    "UserError": "diffgen.errors",
    "Wanted": "diffgen.workflows.browse",
    "Watcher": "diffgen.workflows.watch",
    "WithClass": "diffgen.sources.space",
    "accept": "diffgen.workflows.accept",
    "browse": "diffgen.workflows.browse",
    "check": "diffgen.workflows.check",
    "clear_cache": "diffgen.workflows.doctor",
    "compare": "diffgen.workflows.compare",
    "delete_run": "diffgen.workflows.listing",
    "demo": "diffgen.workflows.demo",
    "demo_gate": "diffgen.workflows.demo",
    "describe_run": "diffgen.workflows.listing",
    "doctor": "diffgen.workflows.doctor",
    "draw_report": "diffgen.workflows.report",
    "export": "diffgen.workflows.export",
    "export_dataset": "diffgen.workflows.export_dataset",
    "export_for_training": "diffgen.workflows.export_training",
    "export_to_store": "diffgen.workflows.export_to_store",
    "inspect": "diffgen.workflows.inspect",
    "label_counts": "diffgen.workflows.label",
    "label_export": "diffgen.workflows.label",
    "label_import": "diffgen.workflows.label",
    "label_intended": "diffgen.workflows.label",
    "label_oracle": "diffgen.workflows.label",
    "limit_cache": "diffgen.workflows.doctor",
    "list_runs": "diffgen.workflows.listing",
    "load_settings": "diffgen.comparison.settings_file",
    "path_settings": "diffgen.comparison.own_settings",
    "predict": "diffgen.workflows.predict",
    "preview": "diffgen.workflows.preview",
    "quantize": "diffgen.workflows.quantize",
    "rank": "diffgen.workflows.rank",
    "rank_export": "diffgen.workflows.rank_export",
    "replay": "diffgen.workflows.replay",
    "report": "diffgen.workflows.report:draw_report",
    "resume": "diffgen.workflows.resume",
    "resume_check": "diffgen.workflows.check",
    "run_settings": "diffgen.workflows.listing",
    "select": "diffgen.workflows.select",
    "shrink": "diffgen.workflows.shrink",
    "sweep": "diffgen.workflows.sweep",
    "technique_names": "diffgen.techniques",
    "train_gan": "diffgen.workflows.train_gan",
    "verdict": "diffgen.workflows.verdict",
}

VERBS = (
    "accept",
    "browse",
    "check",
    "clear_cache",
    "compare",
    "delete_run",
    "demo",
    "demo_gate",
    "describe_run",
    "doctor",
    "export",
    "export_dataset",
    "export_for_training",
    "export_to_store",
    "inspect",
    "label_counts",
    "label_export",
    "label_import",
    "label_intended",
    "label_oracle",
    "limit_cache",
    "list_runs",
    "predict",
    "preview",
    "quantize",
    "rank",
    "rank_export",
    "replay",
    "report",
    "resume",
    "resume_check",
    "run_settings",
    "select",
    "shrink",
    "sweep",
    "train_gan",
    "verdict",
)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, there = _HOMES[name].partition(":")
    return getattr(importlib.import_module(module), there or name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
