"""The badges of README: small SVG files, written from what setup.cfg and CITATION.cff say, and fetched from nowhere.

python -m docs.tools.badges
"""

from __future__ import annotations

import configparser
import re
from html import escape
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parent.parent.parent
BADGES = _REPOSITORY / "docs" / "pictures" / "badges"
_LETTER, _GAP, _HEIGHT = 6.4, 8, 20  # of 11 pixels Verdana, as such badges have them


def badges() -> dict[str, str]:
    """Name of a file -> its text, for each badge."""
    setup = configparser.ConfigParser()
    setup.read(_REPOSITORY / "setup.cfg", encoding="utf-8")
    least = setup["options"]["python_requires"].removeprefix(">=")
    citation = (_REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    version = re.search(r"^version: (.+)$", citation, re.MULTILINE)
    assert version is not None
    return {
        "python.svg": badge("Python", f"{least} or later", "#0b62a8"),
        "licence.svg": badge("licence", setup["metadata"]["license_expression"], "#1d7a3c"),
        "citation.svg": badge("cite", f"CITATION.cff, {version[1]}", "#6b4fa0"),
    }


def badge(left: str, right: str, colour: str) -> str:
    """Two words beside each other, as an SVG file."""
    first, second = (round(len(text) * _LETTER + 2 * _GAP) for text in (left, right))
    width, half = first + second, second - 3
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" role="img" '
            'font-family="Verdana, DejaVu Sans, sans-serif" font-size="11" fill="#ffffff" text-anchor="middle">',
            f"<title>{escape(left)}: {escape(right)}</title>",
            f'<rect width="{width}" height="{_HEIGHT}" rx="3" fill="#595f69"/>',
            f'<path d="M{first} 0h{half}a3 3 0 0 1 3 3v14a3 3 0 0 1 -3 3h-{half}z" fill="{colour}"/>',
            f'<text x="{first / 2:g}" y="14">{escape(left)}</text>',
            f'<text x="{first + second / 2:g}" y="14">{escape(right)}</text>',
            "</svg>",
            "",
        ]
    )


def main() -> None:
    """The command."""
    BADGES.mkdir(parents=True, exist_ok=True)
    for name, text in badges().items():
        (BADGES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
