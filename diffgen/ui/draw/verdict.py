"""The verdict of a check."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from markupsafe import Markup

from diffgen.report.data import GateBehaviour, GateView
from diffgen.report.gate import warning
from diffgen.ui.draw.parts import badge, inline, joined, note, pager, report_link, section, sentence, table
from diffgen.ui.draw.strip import strip_of
from diffgen.wording import count_of

BEHAVIOURS = 12  # on one page
_PICTURES = 6  # of one behaviour
_WORDS = "shift: the largest change of a probability; cell: a group of real images that look alike"
_MEANING = {
    "PASS": "The candidate may replace the base as far as this check can tell.",
    "WARN": "No limit is broken, but look at what is marked WARN.",
    "FAIL": "The candidate may not replace the base.",
    "ERROR": "The check did not come to its end.",
}


def verdict(view: GateView, page: int = 0) -> Markup:
    """Status, conditions, and a page of the behaviours that were met."""
    rows = [
        (
            each.title,
            badge(each.status) if each.status else "",
            each.value,
            each.interval,
            each.limit,
            sentence(each.sentence),
        )
        for each in view.rows
    ]
    head = Markup('<div class="dg-status">{}<b>{}</b>{}<span>{} against {}, on {}</span></div>').format(
        badge(view.status),
        _MEANING.get(view.status, ""),
        report_link(view.run),
        view.candidate,
        view.base,
        view.data_name,
    )
    parts = [head, *(note(each) for each in (warning(view), *view.verdicts) if each)]
    parts.append(section("Conditions", table(("value", "", "measured", "interval", "limit", "why"), rows)))
    if view.behaviours:
        parts.append(_behaviours(view, page))
    return joined(parts)


def _behaviours(view: GateView, page: int) -> Markup:
    """A page of behaviours with their pictures."""
    page = min(page, (len(view.behaviours) - 1) // BEHAVIOURS)
    here = view.behaviours[page * BEHAVIOURS : (page + 1) * BEHAVIOURS]
    of_store = f" to {Path(view.store).name}" if view.store else ""
    return section(
        "Behaviours",
        Markup('<div class="dg-groups">{}</div>{}').format(
            joined(map(_behaviour, here)), pager(page, BEHAVIOURS, len(view.behaviours), "behaviours")
        ),
        f"{len(view.new):,} of {len(view.behaviours):,} were new{of_store}; {_WORDS}",
    )


def _behaviour(each: GateBehaviour) -> Markup:
    images = [picture.image for picture in each.pictures[:_PICTURES]]
    facts = [
        count_of(each.count, "picture"),
        *([f"candidate wrong on {each.faults:,}"] if each.faults else []),
        f"shift {each.shift:.2f}",
        f"cell {each.cell}",
    ]
    base, candidate = each.names
    strip = Markup("")
    if images:
        strip = Markup('<img class="dg-strip" src="{}" alt="{}" style="width:{}%">').format(
            inline(strip_of(np.stack(images))),
            f"{len(images)} of the pictures: base says {base}, candidate says {candidate}",
            round(100 * len(images) / _PICTURES, 2),
        )
    return Markup(
        '<div class="dg-group"><span class="dg-group-text"><b>base: {}, candidate: {}</b><span>{} {}</span></span>{}'
        "</div>"
    ).format(base, candidate, badge("new") if each.new else "known,", ", ".join(facts), strip)
