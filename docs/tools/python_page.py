"""The page of the public functions and classes, from their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import diffgen

_VERBS_FIRST = ("compare", "resume", "check", "resume_check", "accept")
_EXTENSION = [
    "Filter",
    "Technique",
    "TechniqueContext",
    "Preset",
    "Proposal",
    "Answers",
    "Origins",
    "RealImages",
    "Source",
    "Space",
    "Box",
]
_EXTENSION += ["NormalShell", "WithClass", "Scorer"]


def python_groups() -> dict[str, list[str]]:
    """Every public name of ``diffgen`` under the heading where it stands."""
    groups: dict[str, list[str]] = {
        "Functions": [*_VERBS_FIRST],
        "What they return": [],
        "Settings": [],
        "While something runs": [],
        "Techniques, filters and generators of your own": [*_EXTENSION],
        "Errors": [],
        "Other": [],
    }
    placed = {name for names in groups.values() for name in names}
    for name in dir(diffgen):
        if name.startswith("_") or name in placed:
            continue
        value = getattr(diffgen, name)
        if inspect.isfunction(value):
            group = "Functions"
        elif inspect.isclass(value) and issubclass(value, BaseException):
            group = "Errors"
        elif hasattr(value, "__table__"):
            group = "Settings"
        elif getattr(value, "__module__", "") == "diffgen.events":
            group = "While something runs"
        elif inspect.isclass(value) and name.endswith(("Result", "Inspection", "Examination")):
            group = "What they return"
        else:
            group = "Other"
        groups[group].append(name)
    return groups


def python_page() -> str:
    """The public functions and classes, from their docstrings."""
    lines = [
        "# Python",
        "",
        "`import diffgen` gives everything on this page. All values after the first are named.",
        "",
    ]
    for title, names in python_groups().items():
        if not names:
            continue
        lines += [f"## {title}", ""]
        for name in names:
            value = getattr(diffgen, name)
            kind = "function" if inspect.isfunction(value) else "class" if inspect.isclass(value) else "data"
            lines += ["```{eval-rst}", f".. auto{kind}:: diffgen.{name}", *_class_options(title, kind), "```", ""]
    lines += ["## In test suites", "", "```{eval-rst}", ".. autofunction:: diffgen.testing.assert_no_regression", "```"]
    return "\n".join([*lines, ""])


def _class_options(title: str, kind: str) -> Iterator[str]:
    if kind == "class" and title in ("Techniques, filters and generators of your own", "Other"):
        yield "   :members:"
    if kind == "class" and title in ("Settings", "What they return", "While something runs"):
        yield "   :class-doc-from: class"
