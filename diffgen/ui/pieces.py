"""Small pieces of HTML that all tabs have, in which every name is escaped: figures, notes, thumbnails, curves."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from urllib.parse import quote

import numpy as np
from markupsafe import Markup
from PIL import Image

from diffgen.runs.pictures import png_bytes
from diffgen.types import UInt8Array

_TONES = {
    "running": "busy",
    "done": "good",
    "stopping": "warn",
    "interrupted": "warn",
    "broken off": "warn",
    "damaged": "bad",
    "starting": "busy",
    "good": "good",
    "nearly useless on these images": "bad",
    "fed wrongly": "bad",
    "new": "warn",
    "rejected": "warn",
    "PASS": "good",
    "WARN": "warn",
    "FAIL": "bad",
    "ERROR": "bad",
}


def joined(parts: Iterable[Markup]) -> Markup:
    """Pieces one after the other."""
    return Markup("").join(parts)


def note(text: str, tone: str = "plain") -> Markup:
    """A sentence in a box: plain, good, warn or bad. A bad one is read out at once."""
    role = "alert" if tone == "bad" else "status"
    return Markup('<div class="dg-note dg-{}" role="{}">{}</div>').format(tone, role, text)


def nothing(text: str) -> Markup:
    """What stands where there is nothing to see yet."""
    return Markup('<div class="dg-empty">{}</div>').format(text)


def loading() -> Markup:
    """What stands where the page opens, until the server has answered."""
    return Markup('<div class="dg-loading">Loading ...</div>')


def badge(status: str) -> Markup:
    """A short word in its colour."""
    return Markup('<span class="dg-badge dg-{}">{}</span>').format(_TONES.get(status, "plain"), status)


def cards(figures: Iterable[tuple[str, str, str]]) -> Markup:
    """Figures side by side: (value, what it is, more about it)."""
    one = Markup(
        '<div class="dg-card"><div class="dg-value">{}</div><div class="dg-what">{}</div>'
        '<div class="dg-more">{}</div></div>'
    )
    return Markup('<div class="dg-cards">{}</div>').format(joined(one.format(*each) for each in figures))


def progress(name: str, share: float | None, text: str) -> Markup:
    """A bar with its name; without a share it only says that something goes on."""
    known = "" if share is None else Markup(' aria-valuenow="{}"').format(round(100 * share))
    width = "100%" if share is None else f"{100 * share:.1f}%"
    return Markup(
        '<div class="dg-progress" role="progressbar" aria-label="{}" aria-valuemin="0" aria-valuemax="100"{}>'
        '<div class="dg-progress-text"><b>{}</b><span>{}</span></div>'
        '<div class="dg-track"><div class="dg-fill{}" style="width:{}"></div></div></div>'
    ).format(name, known, name, text, " dg-unknown" if share is None else "", width)


def section(title: str, body: Markup, aside: str = "") -> Markup:
    """A heading and what belongs to it."""
    return Markup('<section class="dg-section"><h3>{}<small>{}</small></h3>{}</section>').format(title, aside, body)


def picture_address(run: str, number: int, what: str = "picture", stamp: str = "") -> str:
    """Where the picture of a trigger is loaded from; a stamp keeps those of a run of the same name apart."""
    return f"files/{quote(run)}/{what}/{number}.png?{quote(stamp)}"


def strip_pieces(run: str, stamp: str, numbers: Sequence[int]) -> list[Markup]:
    """Small pictures of some triggers: pieces of one strip that is loaded once, whatever their number."""
    address = f"files/{quote(run)}/sheet.png?n={','.join(map(str, numbers))}&{quote(stamp)}"
    piece = Markup(
        '<span class="dg-piece" style="background-image:url(&quot;{}&quot;);background-size:{}% 100%;'
        'background-position:{}% 0"></span>'
    )
    last = max(1, len(numbers) - 1)
    return [piece.format(address, 100 * len(numbers), round(100 * at / last, 4)) for at in range(len(numbers))]


def inline(image: UInt8Array) -> str:
    """An image as an address that holds all of it, for uint8 (C, H, W)."""
    return "data:image/png;base64," + base64.b64encode(png_bytes(image)).decode("ascii")


def thumbnails(run: str, stamp: str, shown: Sequence[tuple[int, str, str]]) -> Markup:
    """Pictures that can be picked: (number, what a screen reader says, tone of the frame)."""
    one = Markup('<button type="button" class="dg-thumb dg-{}" data-pick="{}" aria-label="{}" title="{}">{}</button>')
    pieces = strip_pieces(run, stamp, [number for number, _, _ in shown])
    body = joined(
        one.format(tone, number, text, text, piece) for (number, text, tone), piece in zip(shown, pieces, strict=True)
    )
    return Markup('<div class="dg-thumbs">{}</div>').format(body)


def pager(page: int, per_page: int, count: int, what: str) -> Markup:
    """Where one is among pages, with buttons to the others."""
    pages = max(1, -(-count // per_page))
    button = Markup('<button type="button" data-page="{}" aria-label="{}"{}>{}</button>')
    shown = [
        button.format(0, "first page", _off(page == 0), "«"),
        button.format(page - 1, "previous page", _off(page == 0), "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}"),
        Markup('<span aria-live="polite">{} of {} · {} {}</span>').format(
            f"{page + 1:,}", f"{pages:,}", f"{count:,}", what
        ),
        button.format(page + 1, "next page", _off(page >= pages - 1), "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"),
        button.format(pages - 1, "last page", _off(page >= pages - 1), "»"),
    ]
    return Markup('<nav class="dg-pager" aria-label="pages of {}">{}</nav>').format(what, joined(shown))


def sentence(text: str) -> Markup:
    """A sentence in a table: it takes the room of some words a line, however narrow the page, and no less."""
    return Markup('<span class="dg-sentence">{}</span>').format(text) if text else Markup("")


def report_link(run: str) -> Markup:
    """To the report of a run that has come to its end."""
    link = Markup('<a class="dg-link" href="files/{}/report.html" target="_blank" rel="noopener">Open the report</a>')
    return link.format(quote(run))


def _off(disabled: bool) -> Markup:
    return Markup(" disabled") if disabled else Markup("")


def table(head: Sequence[str], rows: Iterable[Sequence[str | Markup]], caption: str = "") -> Markup:
    """A table; its first column names the rows."""
    cell = Markup('<td data-head="{}">{}</td>')  # a narrow page may write the head beside the cell
    body = joined(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(row[0], joined(map(cell.format, head[1:], row[1:])))
        for row in rows
    )
    heads = joined(Markup('<th scope="col">{}</th>').format(each) for each in head)
    title = Markup("<caption>{}</caption>").format(caption) if caption else Markup("")
    return Markup(
        '<div class="dg-scroll"><table class="dg-table">{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    ).format(title, heads, body)


_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 520, 190, 46, 24


def curve(points: Sequence[tuple[float, float]], title: str, x: str, tone: str = "a") -> Markup:
    """One rising curve.

    Args:
        points: (x, y), ascending in x.
        x: what x is.
    """
    if len(points) < 2:
        return nothing(f"{title}: a curve appears with the first finds.")
    high_x, high_y = _ceiling(points[-1][0]), _ceiling(max(y for _, y in points))
    wide, high = _WIDTH - _LEFT - 10, _HEIGHT - _BOTTOM - 10

    def place(at: float, value: float) -> tuple[float, float]:
        return _LEFT + wide * at / high_x, 10 + high * (1 - value / high_y)

    line = " ".join(f"{px:.1f},{py:.1f}" for px, py in (place(*each) for each in points))
    last = place(*points[-1])
    first = place(points[0][0], 0)
    area = f"{first[0]:.1f},{first[1]:.1f} {line} {last[0]:.1f},{10 + high:.1f}"
    grid = joined(
        Markup('<line x1="{}" x2="{}" y1="{}" y2="{}"/><text x="{}" y="{}" text-anchor="end">{}</text>').format(
            _LEFT, _WIDTH - 10, y, y, _LEFT - 6, y + 4, _text(high_y * share)
        )
        for share, y in ((share, place(0, high_y * share)[1]) for share in (0, 0.5, 1))
    )
    return Markup(
        '<figure class="dg-curve"><figcaption>{}<b>{}</b></figcaption>'
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}: {} after {} {}"><g class="dg-grid">{}'
        '<text x="{}" y="{}" text-anchor="end">{} {}</text></g>'
        '<polygon class="dg-area-{}" points="{}"/><polyline class="dg-line-{}" points="{}"/>'
        '<circle class="dg-dot-{}" cx="{:.1f}" cy="{:.1f}" r="4"/></svg></figure>'
    ).format(
        title,
        f"{points[-1][1]:,.0f}",
        _WIDTH,
        _HEIGHT,
        title,
        f"{points[-1][1]:,.0f}",
        f"{points[-1][0]:,.0f}",
        x,
        grid,
        _WIDTH - 10,
        _HEIGHT - 6,
        _text(high_x),
        x,
        tone,
        area,
        tone,
        line,
        tone,
        *last,
    )


def _ceiling(value: float) -> float:
    """A round number that is not below: 1, 2 or 5 times a power of ten."""
    size = 1.0
    while size * 10 <= value:
        size *= 10
    return next((size * step for step in (1, 2, 3, 4, 5, 6, 8, 10) if size * step >= value), value) or 1.0


def _text(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1000:g}k" if value >= 10_000 else f"{value:g}"


LONGEST_SIDE = 96  # pixels of one picture on the strip


def strip_of(images: UInt8Array) -> UInt8Array:
    """uint8 (C, h, N * w): pictures side by side, reduced where they are large, for uint8 (N, C, H, W)."""
    height, width = images.shape[2:]
    if max(height, width) > LONGEST_SIDE:
        share = LONGEST_SIDE / max(height, width)
        size = max(1, round(width * share)), max(1, round(height * share))
        images = np.stack([_reduced(image, size) for image in images])
    return np.concatenate(list(images), axis=2)


def _reduced(image: UInt8Array, size: tuple[int, int]) -> UInt8Array:
    channels = [np.asarray(Image.fromarray(plane).resize(size, Image.Resampling.BOX)) for plane in image]
    return np.stack(channels)
