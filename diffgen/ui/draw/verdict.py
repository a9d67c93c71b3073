"""The verdict of a check."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from diffgen.report.data import GateView
from diffgen.ui.draw.parts import badge, joined, note, report_link, section, sentence, table

_MOST = 12  # behaviours that are listed
_WORDS = "shift: the largest change of a probability; cell: a group of real images that look alike"
_MEANING = {
    "PASS": "The candidate may replace the base.",
    "WARN": "No limit is broken, but look at what is marked WARN.",
    "FAIL": "The candidate may not replace the base.",
    "ERROR": "The check did not come to its end.",
}


def verdict(view: GateView) -> Markup:
    """Status, conditions, and the behaviours that were met."""
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
    parts = [head, *(note(each) for each in view.verdicts)]
    parts.append(section("Conditions", table(("value", "", "measured", "interval", "limit", "why"), rows)))
    if view.behaviours:
        new = sum(each.new for each in view.behaviours)
        shown = [
            (
                f"{each.names[0]} \N{RIGHTWARDS ARROW} {each.names[1]}",
                badge("new") if each.new else "known",
                f"{each.count:,}",
                f"{each.faults:,}",
                f"{each.shift:.2f}",
                str(each.cell),
            )
            for each in view.behaviours[:_MOST]
        ]
        names = ("base says \N{RIGHTWARDS ARROW} candidate says", "", "pictures", "candidate wrong", "shift", "cell")
        of_store = f" to {Path(view.store).name}" if view.store else ""
        listed = f", the first {_MOST} are listed" if len(view.behaviours) > _MOST else ""
        parts.append(
            section(
                "Behaviours",
                table(names, shown, _WORDS),
                f"{new:,} of {len(view.behaviours):,} were new{of_store}{listed}",
            )
        )
    return joined(parts)
