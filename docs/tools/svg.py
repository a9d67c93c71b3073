"""A card of text and small pictures as an SVG file, which looks alike on GitHub, on the site and on paper."""

from __future__ import annotations

import base64
import io
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image

from diffgen.types import UInt8Array

WIDTH = 860
INK, MUTED, LINE = "#1b1c20", "#595f69", "#e5e2dc"
MODELS = {"A": "#0b62a8", "B": "#b34700"}
STATUS = {"PASS": "#1d7a3c", "WARN": "#8a5a00", "FAIL": "#b3261e", "ERROR": "#b3261e"}
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif"


class Card:
    """A white card to draw on, in pixels from its upper left corner.

    Attributes:
        height: of the card.
        about: what it shows, for those who cannot see it.
    """

    def __init__(self, height: int, about: str) -> None:
        self.height, self.about = height, about
        self._parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 14,
        colour: str = INK,
        bold: bool = False,
        at: str = "start",
    ) -> None:
        """A line of text whose foot is at ``y``; ``at`` says where ``x`` is: start, middle or end."""
        weight = ' font-weight="650"' if bold else ""
        anchor = "" if at == "start" else f' text-anchor="{at}"'
        place = f'x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{colour}"{weight}{anchor}'
        self._parts.append(f"<text {place}>{escape(text)}</text>")

    def box(self, x: float, y: float, width: float, height: float, colour: str, *, radius: float = 4) -> None:
        """A filled box."""
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"'
        self._parts.append(f'<rect {place} fill="{colour}"/>')

    def image(self, x: float, y: float, side: float, image: UInt8Array) -> None:
        """A picture, uint8 (C, H, W), in a square."""
        pixels = image[0] if image.shape[0] == 1 else np.moveaxis(image, 0, 2)
        buffer = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, format="PNG", optimize=True)
        code = base64.b64encode(buffer.getvalue()).decode("ascii")
        place = f'x="{x:g}" y="{y:g}" width="{side:g}" height="{side:g}"'
        self._parts.append(f'<image {place} href="data:image/png;base64,{code}"/>')

    def model(self, x: float, y: float, name: str, label: object, *, size: float = 14) -> None:
        """What a model says: its letter in its colour, and the label."""
        self.box(x, y - size, size * 1.25, size * 1.25, MODELS[name])
        self.text(x + size * 0.625, y, name, size=size * 0.85, colour="#ffffff", bold=True, at="middle")
        self.text(x + size * 1.6, y, str(label), size=size, bold=True)

    def write(self, file: Path) -> None:
        """As an SVG file."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}"'
        frame = f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.height - 1}" rx="10"'
        lines = [
            f'{head} height="{self.height}" role="img" font-family="{escape(_FONT)}">',
            f"<title>{escape(self.about)}</title>",
            f'{frame} fill="#ffffff" stroke="{LINE}"/>',
            *self._parts,
            "</svg>",
        ]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
