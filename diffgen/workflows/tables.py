"""Tables as CSV, with cells that are safe in spreadsheets, and names that are safe on disks."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_LONGEST_NAME = 40
# what some file system does not take, and what shells and web servers stumble over
_UNSAFE = re.compile(r"[^\w.-]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def plain_cell(value: Any) -> Any:
    """A value for a table; text that a spreadsheet would run as a formula is shown with an apostrophe before it."""
    if isinstance(value, str) and value.startswith(_STARTS_A_FORMULA):
        return f"'{value}"
    return value


def as_csv(columns: Mapping[str, list[Any]], *, head: bool = True) -> str:
    """A table, column by column, as text; without its ``head`` it goes on with one."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if head:
        writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([plain_cell(value) for value in row])
    return text.getvalue()


def safe_name(text: str) -> str:
    """A name from a file as a part of a file name that every file system takes; never empty, never a path."""
    plain = unicodedata.normalize("NFKC", text)
    plain = _UNSAFE.sub("_", plain).strip("._")[:_LONGEST_NAME].strip("._")
    return f"_{plain}" if not plain or _RESERVED.fullmatch(plain) else plain
