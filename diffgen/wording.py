"""Counts in words, the same in the command line, the report and the messages of a test."""

from __future__ import annotations


def count_of(amount: int, one: str, many: str | None = None) -> str:
    """``1 picture``, ``2 pictures``, ``1,234 pictures``; ``many`` is the plural where it is no mere s more."""
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"
