"""What was found, as HTML: who says what, behaviours and pictures by the page, and one picture with all about it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from diffgen import api
from diffgen.report.cards import MarkView, extent_of, make_marks
from diffgen.report.data import Picture
from diffgen.report.maps import MapsView
from diffgen.tasks.classification import role_name, who_is_wrong
from diffgen.types import Float32Array, Int64Array
from diffgen.ui.pieces import badge, joined, nothing, pager, picture_address, section, strip_pieces, thumbnails
from diffgen.wording import count_of, percent

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


BEHAVIOURS, PICTURES = 12, 60  # on one page
_WHAT = "a way to disagree, and where: a cell is a group of real images that look alike"


def behaviours(
    finds: api.RunTriggers,
    lines: tuple[api.BehaviourLine, ...],
    name: str,
    stamp: str,
    page: int,
    chosen: api.BehaviourLine | None,
) -> Markup:
    """A page of behaviours, each with some pictures; the chosen one is marked."""
    page = min(page, max(0, (len(lines) - 1) // BEHAVIOURS))
    names = finds.class_names
    one = Markup(
        '<button type="button" class="dg-group" data-pick="{}" aria-pressed="{}"><span class="dg-group-text">'
        '<b>{}</b><span>{}</span></span><span class="dg-group-pictures" aria-hidden="true">{}</span></button>'
    )
    here = lines[page * BEHAVIOURS : (page + 1) * BEHAVIOURS]
    pieces = iter(strip_pieces(name, stamp, [number for each in here for number in each.leading]))
    drawn = joined(
        one.format(
            ",".join(map(str, (*each.labels, each.cell))),
            "true" if each is chosen else "false",
            ", ".join(f"{role_name(at)}: {names[said]}" for at, said in enumerate(each.labels)),
            _about(each, len(finds.models)),
            joined(next(pieces) for _ in each.leading),
        )
        for each in here
    )
    if not lines:
        return section("Behaviours", nothing("No picture is like that; loosen a filter."))
    listed = Markup('<div class="dg-groups">{}</div>').format(drawn)
    return section("Behaviours", listed + pager(page, BEHAVIOURS, len(lines), "behaviours"), _WHAT)


def _about(line: api.BehaviourLine, models: int) -> Markup:
    count = f"{count_of(len(line.rows), 'picture')}, cell {line.cell}"
    wrong = badge(who_is_wrong(line.verdict, models)) if line.verdict else badge("not named")
    return Markup("{} {}").format(count, wrong)


def pictures(
    finds: api.RunTriggers,
    numbers: Int64Array,
    name: str,
    stamp: str,
    page: int,
    chosen: api.BehaviourLine | None,
) -> Markup:
    """A page of pictures that can be picked."""
    if len(numbers) == 0:
        return Markup("")
    page = min(page, (len(numbers) - 1) // PICTURES)
    shown = numbers[page * PICTURES : (page + 1) * PICTURES]
    labels, wrong = finds.labels(shown), finds.triggers.faults[shown]
    tones = np.where(wrong.any(axis=1), "wrong", "plain").tolist()
    texts = [
        said(number, labels[at].tolist(), finds.class_names)
        + (", the jury says who is wrong" if wrong[at].any() else "")
        for at, number in enumerate(shown.tolist())
    ]
    title = "Pictures" if chosen is None else "Pictures of this behaviour"
    body = thumbnails(name, stamp, list(zip(shown.tolist(), texts, tones, strict=True)))
    legend = "click one to see why" + ("; a red frame: the jury says who is wrong" if wrong.any() else "")
    return section(title, body + pager(page, PICTURES, len(numbers), "pictures"), legend)


def said(number: int, labels: list[int], names: tuple[str, ...]) -> str:
    """What each model says of a trigger, for a screen reader."""
    each = [
        f"{role_name(model)} says {names[label] if label < len(names) else label}" for model, label in enumerate(labels)
    ]
    return f"trigger {number}: {', '.join(each)}"


_ROWS = 6  # classes that are shown


def detail(find: api.TriggerDetails, run: str, stamp: str, models: tuple[str, ...], names: tuple[str, ...]) -> Markup:
    """A trigger: what each model says, how it came about, and the pictures that belong to it."""
    picture = find.picture
    number = picture.identifier
    source, views = picture_address(run, number, stamp=stamp), make_marks(picture.marks, names)
    if isinstance(views, MapsView):
        over = Markup('<img src="{}" alt="">')
        figures = [_figure(source, title, "", over.format(layer)) for title, layer in views.panels] + [_legend(views)]
    else:
        boxes = _boxes(views, extent_of(picture.image)) if views else ""
        figures = [_figure(source, f"trigger {number}", "what was found", boxes)]
    if find.seed is not None:
        address = picture_address(run, number, "seed", stamp)
        figures.append(_figure(address, f"real image {find.seed:,}", "what it was made from"))
    elif picture.nearest_real is not None:
        figures.append(_figure(picture_address(run, number, "nearest", stamp), "nearest real image", ""))
    if find.shrunk is not None:
        pair = find.shrunk
        # another pair is another address: the browser keeps pictures
        address = picture_address(run, number, "shrunk", f"{stamp}-{pair.difference:.6g}")
        figures.append(_figure(address.replace(".png", "/agreeing.png"), "shrunk: they agree", ""))
        text = f"{pair.difference:.2f} grey levels further"
        figures.append(_figure(address.replace(".png", "/trigger.png"), "shrunk: they differ", text))
    return Markup(
        '<article class="dg-detail" aria-label="trigger {}"><div class="dg-figures">{}</div><div class="dg-about">'
        "<h4>{}</h4>{}{}{}</div></article>"
    ).format(
        number,
        joined(figures),
        ", ".join(f"{role_name(model)} says {_name(names, label)}" for model, label in enumerate(picture.labels)),
        _verdict(picture, names),
        bars(find.answers, picture, models, names),
        _facts(find),
    )


def _figure(address: str, title: str, text: str, over: str = "") -> Markup:
    return Markup(
        '<figure><span class="dg-marked"><img src="{}" alt="{}" onerror="this.closest(\'figure\').classList.add('
        "'dg-gone')\">{}</span><figcaption><b>{}</b>{}</figcaption></figure>"
    ).format(address, title, over, title, text)


def _legend(view: MapsView) -> Markup:
    colours = joined(Markup('<i style="background:{}"></i>{}').format(*each) for each in view.legend)
    return Markup('<p class="dg-legend">{}</p>').format(colours)


def _boxes(views: Sequence[MarkView], extent: tuple[int, int]) -> Markup:
    """Boxes over a picture of a width and height, as the report draws them."""
    rects = joined(
        Markup('<rect class="dg-{} dg-{} {}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
            each.role, each.kind, "dg-contested" * each.contested, each.x, each.y, each.width, each.height, each.text
        )
        for each in views
    )
    return Markup('<svg viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">{}</svg>').format(
        *extent, rects
    )


def _verdict(picture: Picture, names: tuple[str, ...]) -> Markup:
    parts = []
    jury = picture.jury
    if picture.rejected_by is not None:
        parts.append(Markup("{} by the filter {}").format(badge("rejected"), picture.rejected_by))
    if jury is not None:
        sure = "" if jury.recognised else " (not sure)"
        if jury.rests_on == "label":
            sure = " (which only confirms the known label)"
        if jury.instead_of is not None:
            sure = f" (but made from {_name(names, jury.instead_of)})"
        who = "Its real image shows" if jury.rests_on in ("seed", "agreed", "boxes") else "The jury sees"
        parts.append(Markup("{} <b>{}</b>{}").format(who, _name(names, jury.named), sure))
    if picture.blame:
        parts.append(Markup('<b class="dg-wrong">{}</b>').format(picture.blame))
    return Markup('<p class="dg-verdict">{}</p>').format(Markup(" · ").join(parts)) if parts else Markup("")


def bars(answers: Float32Array, picture: Picture, models: tuple[str, ...], names: tuple[str, ...]) -> Markup:
    """The highest probabilities of every model, class by class."""
    order = np.argsort(-answers.max(axis=0), kind="stable").tolist()
    must = {*picture.labels, *(() if picture.jury is None else (picture.jury.named,))}
    shown = [label for label in order if label in must or label in order[:_ROWS]]
    wrong = set(picture.wrong)
    head = joined(
        Markup('<th scope="col"><span class="dg-role dg-role-{}">{}</span> {}</th>').format(
            model % 8, role_name(model), name
        )
        for model, name in enumerate(models)
    )

    def cell(model: int, label: int) -> Markup:
        share = float(np.clip(np.nan_to_num(answers[model, label]), 0, 1))
        kind = " dg-says" if picture.labels[model] == label else ""
        kind += " dg-false" if kind and model in wrong else ""
        # as in the report: of many small values "0.0%" is easier to read than "<0.1%"
        return Markup(
            '<td class="dg-bar{}"><span class="dg-bar-track"><span class="dg-bar-fill dg-role-{}" style="width:{}%">'
            "</span></span><span>{}</span></td>"
        ).format(kind, model % 8, round(100 * share, 1), "0.0%" if share < 0.0005 else percent(share))

    body = joined(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            _name(names, label), joined(cell(model, label) for model in range(len(models)))
        )
        for label in shown
    )
    return Markup(
        '<div class="dg-scroll"><table class="dg-bars"><caption>probability of each class</caption>'
        "<thead><tr><td></td>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(head, body)


def _facts(find: api.TriggerDetails) -> Markup:
    picture = find.picture
    facts = [("how it was made", picture.origin)] if picture.origin else []
    facts.append(("found", f"query {find.query:,}, generation {find.generation:,}"))
    if find.cell >= 0:
        facts.append(("cell of the real images", str(find.cell)))
    if picture.scores:
        facts.append(("scores", ", ".join(f"{name} {score:.3g}" for name, score in picture.scores.items())))
    rows = joined(Markup("<dt>{}</dt><dd>{}</dd>").format(*each) for each in facts)
    return Markup('<dl class="dg-facts">{}</dl>').format(rows)


def _name(names: tuple[str, ...], label: int) -> str:
    return names[label] if 0 <= label < len(names) else str(label)
