"""Makes cells of tables safe for spreadsheets."""

from __future__ import annotations

from typing import Any

_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def plain_cell(value: Any) -> Any:
    """A value for a table; text that a spreadsheet would run as a formula is shown with an apostrophe before it."""
    if isinstance(value, str) and value.startswith(_STARTS_A_FORMULA):
        return f"'{value}"
    return value
