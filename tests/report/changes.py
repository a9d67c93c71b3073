"""Report data with other values, whether they are figures of the run or the report's own."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from diffgen.report.data import ReportData


def changed(data: ReportData, **values: Any) -> ReportData:
    """``data`` with other values: those that are no fields of it are figures of its run.

    Where the valid triggers are changed alone, there are no near-duplicates among them.
    """
    if "valid_triggers" in values:
        values.setdefault("distinct_valid_triggers", values["valid_triggers"])
    own = {each.name for each in fields(data)}
    figures = {name: value for name, value in values.items() if name not in own}
    given = {name: value for name, value in values.items() if name in own}
    return replace(data, **given, results=replace(data.results, **figures))
