"""Says where the page has what a message of the command line names: an option, or a command."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup

from diffgen.ui import form
from diffgen.ui.draw.parts import joined, note

_OPTION = re.compile(r"--[a-z][a-z-]*")


def hint(message: str) -> str:
    """Where the options and commands of a message are found on the page: sentences, or nothing.

    >>> hint("Say --data-labels ignore to check without labels.")
    "On this page: --data-labels is the field 'data labels' under 'More settings'."
    """
    return " ".join(_sentences(message))


def refusal(message: str, tone: str = "bad") -> Markup:
    """A message in a box, and below it where the page has what the message names."""
    return joined([note(message, tone), *map(note, filter(None, [hint(message)]))])


def _sentences(message: str) -> Iterator[str]:
    places = {each.setting.option: (each.label, "More settings") for each in (*form.fields(), *form.check_fields())}
    places |= {each.setting.option: (each.label, "Limits") for each in form.limits()}
    found = [(option, *places[option]) for option in dict.fromkeys(_OPTION.findall(message)) if option in places]
    if found:
        said = ", ".join(f"{option} is the field '{label}' under '{where}'" for option, label, where in found)
        yield f"On this page: {said}."
    if "diffgen inspect" in message:
        yield (
            "What 'diffgen inspect' finds out stands on the tab Run, once the model and the data are named there; "
            "'Feed it like this' on the card of a model has every run feed it so from then on."
        )
