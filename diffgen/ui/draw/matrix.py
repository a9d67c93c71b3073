"""What one model says against what another says, as a table of counts whose fields can be picked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from diffgen.tasks.classification import role_name
from diffgen.types import Int64Array
from diffgen.ui.draw.parts import joined, nothing
from diffgen.wording import count_of

_ALL = 12  # with at most so many classes all of them are shown
_MOST = 15  # rows and columns otherwise; what is left is counted below
_SHORT_NAME = 4  # letters that stand above a column of a narrow page
_STEPS = 8  # of the colour scale


def matrix(
    labels: Int64Array,
    names: Sequence[str],
    pair: tuple[int, int],
    *,
    said: tuple[int | None, ...] = (),
    what: str = "picture",
    picks: bool = True,
) -> Markup:
    """The table of two models.

    Args:
        labels: int64 (N, M), what each model says.
        names: of the classes; those that are missing are named by their number.
        pair: rows and columns, numbers of models.
        said: the labels that are picked at present, None where any.
        what: is counted, one of it.
        picks: fields are buttons; else there is nothing to pick.
    """
    if len(labels) == 0:
        return nothing("Nothing found yet.")
    a, b = labels[:, pair[0]], labels[:, pair[1]]
    rows, columns = _shown(a, len(names)), _shown(b, len(names))
    keys, counts = np.unique(np.stack([a, b], axis=1), axis=0, return_counts=True)
    counted = dict(zip(map(tuple, keys.tolist()), counts.tolist(), strict=True))
    highest = max((count for (x, y), count in counted.items() if x != y), default=1)
    roles = role_name(pair[0]), role_name(pair[1])
    chosen = (said[pair[0]], said[pair[1]]) if said else (None, None)

    def name(label: int) -> str:
        return names[label] if label < len(names) else str(label)

    def field(row: int, column: int) -> Markup:
        count = counted.get((row, column), 0)
        if count == 0:
            return Markup('<td class="dg-none{}"></td>').format(" dg-same" if row == column else "")
        heat = min(_STEPS, max(1, int(np.ceil(_STEPS * np.sqrt(count / highest)))))
        text = f"{roles[0]} says {name(row)}, {roles[1]} says {name(column)}: {count_of(count, what)}"
        if not picks:
            cell = Markup('<td><span class="dg-heat dg-heat-{}" title="{}">{}</span></td>')
            return cell.format(heat, text, _short(count))
        return Markup(
            '<td><button type="button" class="dg-heat dg-heat-{}" data-pick="{},{}" aria-pressed="{}" aria-label="{}" '
            'title="{}">{}</button></td>'
        ).format(
            heat,
            row,
            column,
            "true" if chosen == (row, column) else "false",
            text,
            text,
            _short(count),
        )

    head = joined(
        Markup('<th scope="col" title="{}"><span>{}</span></th>').format(name(each), name(each)) for each in columns
    )
    body = joined(
        Markup('<tr><th scope="row" title="{}">{}</th>{}</tr>').format(
            name(row), name(row), joined(field(row, column) for column in columns)
        )
        for row in rows
    )
    inside = sum(count for (x, y), count in counted.items() if x in rows and y in columns)
    longest = max(len(name(each)) for each in (*rows, *columns))
    rest = f"{len(labels) - inside:,} more in other classes." if inside < len(labels) else ""
    return Markup(
        '<div class="dg-scroll"><table class="dg-matrix{}">'
        "<caption>down: what {} says, across: what {} says. {}</caption>"
        '<thead><tr><td class="dg-corner">{}\\{}</td>{}</tr></thead><tbody>{}</tbody></table></div>'
    ).format(" dg-long" if longest > _SHORT_NAME else "", *roles, rest, *roles, head, body)


def _shown(said: Int64Array, classes: int) -> list[int]:
    """The classes on one side: all of few, else the most frequent ones, in their order."""
    found, counts = np.unique(said, return_counts=True)
    if max(classes, int(found.max()) + 1) <= _ALL:
        return list(range(max(classes, int(found.max()) + 1)))
    return sorted(found[np.argsort(-counts, kind="stable")][:_MOST].tolist())


def _short(count: int) -> str:
    if count >= 10_000:
        return f"{count // 1000}k"
    return f"{count / 1000:.1f}k" if count >= 1000 else str(count)
