"""Text in cells of Markdown tables."""

from __future__ import annotations

import re


def cell(text: str) -> str:
    """Text inside backticks in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def prose(text: str) -> str:
    """A sentence in a cell of a table: options and names of files in it become code."""
    plain = cell(text).replace("<", "&lt;").replace("*", "\\*")
    return re.sub(r"(?<![\w`-])(--[a-z][\w-]*|\[[a-z.]+\])(?![\w(])", r"`\1`", sentence(plain))


def sentence(text: str) -> str:
    """With a large first letter, unless the first word is a value."""
    first = text.split(" ", 1)[0]
    is_word = (first[1:].isalpha() and first[1:].islower()) or first in ("a", "A")
    return f"{text[:1].upper()}{text[1:]}" if is_word else text
