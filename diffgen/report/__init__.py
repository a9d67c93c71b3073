"""The report of a run: one HTML page and one Markdown summary, made from plain values (``ReportData``)."""

from diffgen.report.data import BehaviourGroup, FilterView, Picture, ReportData, ShrunkPair
from diffgen.report.html import render_html
from diffgen.report.markdown import render_markdown

__all__ = [
    "BehaviourGroup",
    "FilterView",
    "Picture",
    "ReportData",
    "ShrunkPair",
    "render_html",
    "render_markdown",
]
