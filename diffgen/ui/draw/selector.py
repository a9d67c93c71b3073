"""What a selector that was trained is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from diffgen.config import roles
from diffgen.ui.draw.parts import joined, note, table
from diffgen.wording import count_of, percent


def selector(found: Mapping[str, Any]) -> Markup:
    """The share of right answers with it, of each model alone, and what choosing gains.

    Args:
        found: as :meth:`diffgen.SelectResult.as_dict` gives it.
    """
    models = sum(name.startswith("model_") for name in found["on_triggers"][0])
    names = roles(models)
    head = ("on", "pictures", *(f"{name} alone" for name in names), "with the selector", "best possible", "gain")
    keys = [*(f"model_{name.lower()}" for name in names), "ensemble", "oracle"]
    rows = [
        (
            each["name"],
            f"{each['pictures']:,}",
            *(percent(each[key]) for key in keys),
            f"{100 * each['gain']:+.1f} points",
        )
        for each in found["on_triggers"]
    ]
    for real in found["real"]:
        right = real["on_all"]
        shown = [percent(right[key]) if key in right else "" for key in (*names, "selector", "oracle")]
        gain = 100 * (right["selector"] - max(right[name] for name in names))
        rows.append((f"real images ({real['source']})", f"{real['images']:,}", *shown, f"{gain:+.1f} points"))
    text = f"Learnt from {count_of(found['examples'], 'labelled picture')}; the share that is answered right:"
    cost = found["cost"]
    saved = f"The selector and one model take {_share(cost['saved'])} than asking {_all(models)}."
    return joined([note(text, "good"), table(head, rows), note(saved)])


def _share(saved: float) -> str:
    return f"{percent(abs(saved), 0)} {'less' if saved >= 0 else 'more'} time"


def _all(models: int) -> str:
    return "both" if models == 2 else "all"
