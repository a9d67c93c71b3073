"""Pages of the reference that are made from the program: every verb's options, every setting, the Python functions."""

from __future__ import annotations

from pathlib import Path

from docs.tools.command_pages import command_page, commands_page, verbs
from docs.tools.python_page import python_page
from docs.tools.settings_page import settings_page

FOLDER = "generated"


def write_pages(reference: Path) -> None:
    """Write all pages below ``reference``/generated; files that would stay as they are keep their times."""
    pages = {f"{verb}.md": command_page(verb) for verb in verbs()}
    pages |= {"commands.md": commands_page(), "settings.md": settings_page(), "python.md": python_page()}
    folder = reference / FOLDER
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.md"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        file = folder / name
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
