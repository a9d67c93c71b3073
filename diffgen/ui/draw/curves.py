"""Curves of a search as a drawing that scales, in the colours of the page."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from diffgen.ui.draw.parts import joined, nothing

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 520, 190, 46, 24


def curve(points: Sequence[tuple[float, float]], title: str, x: str, tone: str = "a") -> Markup:
    """One rising curve.

    Args:
        points: (x, y), ascending in x.
        title: what y is.
        x: what x is.
        tone: of the line.
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
