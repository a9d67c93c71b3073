"""Behaviours and pictures that were found, a page of each."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from diffgen import api
from diffgen.tasks.classification import role_name, who_is_wrong
from diffgen.types import Int64Array
from diffgen.ui.draw.parts import badge, joined, nothing, pager, section, strip_pieces, thumbnails
from diffgen.wording import count_of

BEHAVIOURS, PICTURES = 12, 60  # on one page
_WHAT = "a way to disagree, and where: a cell is a group of real images that look alike"


def behaviours(
    finds: api.Finds,
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
    finds: api.Finds,
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
