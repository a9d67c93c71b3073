"""Small charts: how the models answer as an operator gets stronger."""

from __future__ import annotations

from itertools import chain, repeat

from markupsafe import Markup

from diffgen.config import roles
from diffgen.report.charts import Curve, curves_chart
from diffgen.report.data.operators import OperatorsView

_COLOURS = ("A", "B", "ink", "muted")  # of A, B, C and all after them


def operator_charts(view: OperatorsView | None) -> tuple[tuple[str, Markup], ...]:
    """Of each operator its title and an SVG, in the order of their names in the settings."""
    if view is None:
        return ()
    charts = []
    for number, each in enumerate(view.curves):
        right = zip(roles(each.accuracy), each.accuracy, chain(_COLOURS, repeat(_COLOURS[-1])), strict=False)
        curves = [Curve(f"{role} right", each.x, list(y), colour) for role, y, colour in right]
        curves.append(Curve("disagree", each.x, list(each.disagreement), "generated", dashed=True))
        title = f"{each.operator}, {each.strength}"
        told = f"accuracy and disagreement of the models by {title}"
        svg = curves_chart(curves, x_label=each.strength, title=told, name=f"operator-{number}", percent=True)
        charts.append((each.operator, Markup(svg)))
    return tuple(charts)
