"""The report's curves and histograms as inline SVG that takes its colours and fonts from the page.

matplotlib draws with placeholder colours; the SVG text is then rewritten so that the style sheet decides (light or
dark), nothing refers to the network, and equal data gives equal bytes. matplotlib is imported when a chart is drawn.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from diffgen.config import roles
from diffgen.report.data import OperatorsView
from diffgen.report.wording import figure, number
from diffgen.types import Float32Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

# Placeholder colours and what they become in the page.
_INK, _MUTED, _LINE, _GENERATED, _REAL, _A, _B = ("#" + f"{number:02}" * 3 for number in range(1, 8))
_PAGE_COLOURS = {
    _INK: "currentColor",
    _MUTED: "var(--muted)",
    _LINE: "var(--line)",
    _GENERATED: "var(--gen)",
    _REAL: "var(--real)",
    _A: "var(--a)",
    _B: "var(--b)",
}
_CURVE_COLOURS = {"generated": _GENERATED, "real": _REAL, "ink": _INK, "muted": _MUTED, "A": _A, "B": _B}
_OPERATOR_COLOURS = ("A", "B", "ink", "muted")  # of A, B, C and all after them
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "diffgen",
    "font.size": 10.5,
    "axes.edgecolor": _LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.labelcolor": _MUTED,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "xtick.color": _LINE,
    "ytick.color": _LINE,
    "xtick.labelcolor": _MUTED,
    "ytick.labelcolor": _MUTED,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "grid.color": _LINE,
    "grid.linewidth": 0.8,
    "lines.linewidth": 2,
    "path.simplify": True,
}
_LONG_DECIMAL = re.compile(r"-?\d+\.\d{3,}")
# Points (1/72 inch): the chart, the widest letter of its numbers, and what is kept free below and above the axes.
_WIDTH, _HEIGHT, _LETTER, _BELOW, _ABOVE = 360.0, 194.4, 6.7, 35.0, 5.0
#: Points of a curve; more cannot be told apart at the width of the page.
_MAX_POINTS = 160
_BINS = 32
#: Scores outside these quantiles are counted in the outermost bars, so that a few outliers cannot flatten the rest.
_QUANTILES = (0.005, 0.995)


def progress_chart(x: Sequence[float], y: Sequence[float], *, x_label: str, title: str, name: str) -> str:
    """One curve of the search.

    Args:
        x: queries or seconds, rising.
        y: what was found until then, as many values as ``x``.
        x_label: what stands below the axis.
        title: what a screen reader says, plain text.
        name: distinguishes the chart from all others of the page; letters, digits and hyphens.

    Returns:
        an ``<svg>`` element.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    points = np.array([x, y], dtype=np.float64)
    points = points[:, np.isfinite(points).all(axis=0)]
    if points.shape[1] > _MAX_POINTS:
        points = points[:, np.unique(np.linspace(0, points.shape[1] - 1, _MAX_POINTS).round().astype(int))]
    if points.shape[1] and points[0, 0] > 0:
        # Every search starts with nothing.
        points = np.concatenate([np.zeros((2, 1)), points], axis=1)

    def draw(axes: Axes) -> None:
        axes.plot(points[0], points[1], color=_GENERATED, solid_capstyle="round")
        axes.fill_between(points[0], points[1], color=_GENERATED, alpha=0.12, linewidth=0)
        if points.shape[1]:
            axes.plot(points[0, -1:], points[1, -1:], "o", color=_GENERATED, markersize=5)
        axes.set_xlim(0, max(1e-9, points[0].max(initial=0)) * 1.03)
        axes.set_ylim(0, max(1.0, points[1].max(initial=0)) * 1.08)
        axes.set_xlabel(x_label)
        axes.grid(axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))

    return _svg(draw, title, name)


def score_histogram(triggers: Float32Array, real: Float32Array, threshold: float, *, title: str, name: str) -> str:
    """The scores of one filter: triggers as bars, held-out real images as an outline, and the threshold.

    Both are drawn as shares of their own number, since there may be far more of one than of the other.

    Args:
        triggers, real: float32 (any number,); what is not finite is left out.
        threshold: lowest score that passes.
        title, name: as in ``progress_chart``.

    Returns:
        an ``<svg>`` element.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    triggers, real = triggers[np.isfinite(triggers)], real[np.isfinite(real)]
    edges = np.linspace(*_range(triggers, real, threshold), _BINS + 1)

    def shares(scores: Float32Array) -> Float32Array:
        counts = np.histogram(np.clip(scores, edges[0], edges[-1]), edges)[0]
        return np.asarray(counts / max(1, len(scores)), dtype=np.float32)

    def draw(axes: Axes) -> None:
        if np.isfinite(threshold):
            axes.axvspan(float(edges[0]), threshold, color=_MUTED, alpha=0.10, linewidth=0)
        axes.stairs(shares(triggers), edges, fill=True, color=_GENERATED, alpha=0.55, linewidth=0)
        axes.stairs(shares(real), edges, color=_REAL, linewidth=1.8)
        highest = max(shares(triggers).max(initial=0), shares(real).max(initial=0), 0.01)
        axes.set_ylim(0, float(highest) * 1.22)
        axes.set_xlim(float(edges[0]), float(edges[-1]))
        if np.isfinite(threshold):
            axes.axvline(threshold, color=_INK, linewidth=1.4, linestyle=(0, (4, 3)))
            right = threshold > (edges[0] + edges[-1]) / 2
            axes.annotate(
                f"threshold {figure(threshold)}",
                (threshold, float(highest) * 1.2),
                xytext=(-5 if right else 5, 0),
                textcoords="offset points",
                ha="right" if right else "left",
                va="top",
                color=_INK,
            )
        axes.set_xlabel("score (higher is more real)")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_locator(MaxNLocator(3))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value * 100:g}%"))
        axes.grid(axis="y")

    return _svg(draw, title, name)


@dataclass(frozen=True)
class Curve:
    """One curve of a chart with several.

    Attributes:
        x, y: equally long; what is not finite is left out.
        colour: "generated", "real", "ink", "muted", or that of a model, "A" or "B".
        dashed: for a curve that goes with another of the same colour.
    """

    name: str
    x: Sequence[float]
    y: list[float]
    colour: str
    dashed: bool = False


def curves_chart(
    curves: Sequence[Curve], *, x_label: str, title: str, name: str, percent: bool = False, mark: float | None = None
) -> str:
    """Several curves over one axis.

    Args:
        curves: with more points than the page can show, neighbouring ones are averaged.
        x_label, title, name: as in ``progress_chart``.
        percent: the values are shares, and the axis goes from 0 to 100 % at least.
        mark: where a vertical line says "kept", or None.

    Returns:
        an ``<svg>`` element.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    def draw(axes: Axes) -> None:
        for curve in curves:
            points = _thinned(np.array([curve.x, curve.y], dtype=np.float64))
            axes.plot(
                points[0],
                points[1],
                color=_CURVE_COLOURS[curve.colour],
                linestyle=(0, (4, 2.5)) if curve.dashed else "-",
                marker="o" if points.shape[1] == 1 else None,
                linewidth=1.8,
                label=curve.name,
            )
        if percent:
            axes.set_ylim(-0.02, max(1.05, axes.get_ylim()[1]))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value * 100:.0f}%"))
        if mark is not None:
            axes.axvline(mark, color=_INK, linewidth=1.2, linestyle=(0, (1, 2)))
            right = mark > sum(axes.get_xlim()) / 2
            axes.annotate(
                "kept",
                (mark, 0.02),
                xycoords=("data", "axes fraction"),
                xytext=(-5 if right else 5, 0),
                textcoords="offset points",
                ha="right" if right else "left",
                va="bottom",
                color=_INK,
            )
        axes.set_xlabel(x_label)
        axes.grid(axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        # above the axes: nowhere inside them is sure to be free
        axes.legend(
            loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, labelcolor=_INK,
            borderaxespad=0, columnspacing=1.4, handlelength=1.6, handletextpad=0.5, fontsize=10,
        )  # fmt: skip

    return _svg(draw, title, name)


def operator_charts(view: OperatorsView | None) -> tuple[tuple[str, Markup], ...]:
    """Of each operator its title and an SVG, in the order of their names in the settings."""
    if view is None:
        return ()
    charts = []
    for at, each in enumerate(view.curves):
        right = zip(
            roles(each.accuracy), each.accuracy, chain(_OPERATOR_COLOURS, repeat(_OPERATOR_COLOURS[-1])), strict=False
        )
        curves = [Curve(f"{role} right", each.x, list(y), colour) for role, y, colour in right]
        curves.append(Curve("disagree", each.x, list(each.disagreement), "generated", dashed=True))
        title = f"{each.operator}, {each.strength}"
        told = f"accuracy and disagreement of the models by {title}"
        svg = curves_chart(curves, x_label=each.strength, title=told, name=f"operator-{at}", percent=True)
        charts.append((each.operator, Markup(svg)))
    return tuple(charts)


def trials_chart(numbers: list[int], values: list[float], *, title: str) -> str:
    """The objective of each trial of a study as a point, and the lowest until then as a line.

    Args:
        numbers: of the trials, rising.
        values: lower is better, more than 0 or not.
        title: as in ``progress_chart``.

    Returns:
        an ``<svg>`` element.
    """
    from matplotlib.ticker import MaxNLocator

    def draw(axes: Axes) -> None:
        lowest = np.minimum.accumulate(np.asarray(values, dtype=np.float64))
        axes.step(numbers, lowest, where="post", color=_GENERATED, linewidth=1.8)
        axes.plot(numbers, values, "o", color=_GENERATED, markersize=5, alpha=0.55, markeredgewidth=0)
        if len(values) and min(values) > 0 and max(values) > 20 * min(values):
            axes.set_yscale("log")
        axes.set_xlabel("trial")
        axes.set_ylabel("KID")
        axes.grid(axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))

    return _svg(draw, title, "trials")


def _thinned(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """(2, n) without what is not finite; neighbours averaged so that at most ``_MAX_POINTS`` are left."""
    points = points[:, np.isfinite(points).all(axis=0)]
    if points.shape[1] <= _MAX_POINTS:
        return points
    return np.stack([part.mean(axis=1) for part in np.array_split(points, _MAX_POINTS, axis=1)], axis=1)


def _range(triggers: Float32Array, real: Float32Array, threshold: float) -> tuple[float, float]:
    ends = [float(end) for scores in (triggers, real) if len(scores) for end in np.quantile(scores, _QUANTILES)]
    if np.isfinite(threshold):
        ends.append(threshold)
    if not ends:
        return 0.0, 1.0
    low, high = min(ends), max(ends)
    margin = 0.03 * (high - low) or max(abs(low), 1.0) * 0.05
    return low - margin, high + margin


def _svg(draw: Callable[[Axes], None], title: str, name: str) -> str:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        # A user's own matplotlibrc must not change the report.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        chart = Figure(figsize=(_WIDTH / 72, _HEIGHT / 72))
        chart.patch.set_alpha(0)
        axes = chart.add_subplot()
        axes.patch.set_alpha(0)
        draw(axes)
        if axes.get_ylabel() or axes.get_legend() is not None:
            chart.set_layout_engine("constrained")
        else:
            axes.set_position(_between_labels(axes))
        buffer = io.StringIO()
        FigureCanvasSVG(chart).print_svg(buffer, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _restyle(buffer.getvalue(), title, name)


def _between_labels(axes: Axes) -> tuple[float, float, float, float]:
    """Left, bottom, width and height of the axes, shares of the chart, with room for the numbers and the one label.

    matplotlib's own layout draws the chart twice to measure its texts, a third of the time of a chart; the page sets
    them in a font of its own anyway, so that widths by the number of letters are as good.
    """
    down, along = _numbers(axes.yaxis, axes.get_ylim()), _numbers(axes.xaxis, axes.get_xlim())
    left = 9 + _LETTER * max((len(text) for _, text in down), default=0)
    # the last number stands in the middle below its tick, and may go beyond the end of the axis
    beyond = max((_LETTER * len(text) / 2 - (1 - place) * (_WIDTH - left) for place, text in along), default=0.0)
    right = 4 + max(0.0, beyond)
    return left / _WIDTH, _BELOW / _HEIGHT, 1 - (left + right) / _WIDTH, 1 - (_BELOW + _ABOVE) / _HEIGHT


def _numbers(axis: Axis, limits: tuple[float, float]) -> list[tuple[float, str]]:
    """Where along the axis its numbers stand, 0..1, and what they are."""
    low, high = limits
    places = axis.get_majorticklocs()
    texts = axis.get_major_formatter().format_ticks(list(places))
    return [((at - low) / (high - low), text) for at, text in zip(places, texts, strict=True) if low <= at <= high]


def _restyle(svg: str, title: str, name: str) -> str:
    """matplotlib's SVG file as an element of the page."""
    svg = svg[svg.index("<svg") :]
    # Name spaces, size, metadata and matplotlib's own style sheet have no place inside an HTML page.
    head_end = svg.index(">")
    view_box = re.search(r'viewBox="[^"]*"', svg[:head_end])
    assert view_box is not None
    body = svg[head_end + 1 :].replace("xlink:href", "href")
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r"font-family: [^;\"]*;? ?|<g/>| transform=\"rotate\(-0 [^\"]*\"", "", body)
    # Ids are unique in a file, not in a page with several charts: keep those that are referred to, with a prefix.
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', body))
    body = re.sub(r' id="([^"]*)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", body)
    body = re.sub(r'(url\(|href=")#', rf"\1#{name}-", body)
    # A hundredth of a unit is far below a pixel. Only inside attributes: the texts are numbers that are read.
    body = re.sub(r'="[^"]*"', lambda found: _LONG_DECIMAL.sub(lambda long: f"{float(long[0]):.2f}", found[0]), body)
    for placeholder, colour in _PAGE_COLOURS.items():
        body = body.replace(placeholder, colour)
    body = re.sub(r"\n\s*", "\n", body)
    label = escape(title)
    return f'<svg class="chart" {view_box[0]} role="img" aria-label="{label}"><title>{label}</title>{body.strip()}'
