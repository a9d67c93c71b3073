"""What a report shows, as plain values: the border between those who compute and those who draw."""

from diffgen.report.data.gate import ConditionView, GateBehaviour, GateView
from diffgen.report.data.pictures import BehaviourGroup, JuryOpinion, Picture, ShrunkPair
from diffgen.report.data.run import FilterView, ReportData, RunFacts, VerdictData
from diffgen.report.data.selection import SelectionView, TrustView

__all__ = [
    "BehaviourGroup",
    "ConditionView",
    "FilterView",
    "GateBehaviour",
    "GateView",
    "JuryOpinion",
    "Picture",
    "ReportData",
    "RunFacts",
    "SelectionView",
    "ShrunkPair",
    "TrustView",
    "VerdictData",
]
