"""What all tabs of the page have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from html import escape
from typing import Any, ParamSpec, TypeVar

import gradio as gr
from markupsafe import Markup

from diffgen import api
from diffgen.errors import DiffgenError, UserError
from diffgen.ui.jobs import INTERRUPTED, Job, Jobs
from diffgen.ui.labelling import Sheets
from diffgen.ui.pieces import note
from diffgen.ui.place import Place, Seen, lines

P = ParamSpec("P")
R = TypeVar("R")

# what is clicked in a piece of HTML says so by data-pick or data-page
PICKS = """
const known = (each) => each.dataset.pick ?? each.getAttribute('aria-label');
let picked = null;
element.addEventListener('click', (event) => {
  const at = event.target.closest('[data-pick],[data-page]');
  if (!at || at.disabled) return;
  picked = known(at);
  if (at.dataset.page !== undefined) trigger('click', {page: Number(at.dataset.page)});
  else trigger('select', {pick: at.dataset.pick});
});
// what was picked is drawn anew: who uses the keyboard goes on from there, and not from the top of the page
watch('value', () => {
  if (picked === null || document.activeElement !== document.body) return;
  const all = [...element.querySelectorAll('[data-pick]:not(:disabled),[data-page]:not(:disabled)')];
  (all.find((each) => known(each) === picked) ?? all[0])?.focus({preventScroll: true});
  picked = null;
});
"""

SEARCHES = ("compare", "check")  # verbs that make a run
QUIET: dict[str, Any] = {"api_name": False, "show_progress": "hidden"}
# Of an event that comes while the one before it is worked on: what is drawn from fields is drawn once more with what
# they say then (LAST); what was picked is in the event itself, so that each counts, one after the other (EACH). Gradio
# would drop it. An event that several functions listen to, as that another run is chosen or a tab entered, is for EACH
# alone: what Gradio does once more is the whole event, with all that listen, which then defer each other without end.
LAST: dict[str, Any] = {**QUIET, "trigger_mode": "always_last"}
EACH: dict[str, Any] = {**QUIET, "trigger_mode": "multiple", "concurrency_limit": 1}


@dataclass(frozen=True)
class Shared:
    """What the tabs are made of.

    Attributes:
        place: folders that may be looked into.
        sheets: labels that people give.
        first: name of the run that is shown first, or empty.
    """

    place: Place
    jobs: Jobs
    seen: Seen
    sheets: Sheets
    first: str = ""

    def states(self, chosen: str | None = None) -> tuple[tuple[str, str], ...]:
        """All runs and how it stands with each, the newest first; those that are being started have no folder yet.

        A chosen one whose start failed has none either: it stays as long as its job is remembered, which says why.
        """
        found = lines(self.place)
        names = {each.name for each in found}
        alive = [job for job in self.jobs.every() if job.alive]
        searched = {job.run for job in alive if job.verb in SEARCHES}
        begun = dict.fromkeys((job.run for job in alive if job.run not in names), "starting")
        if chosen and chosen not in names and (job := self.job(chosen)) is not None and job.problem:
            begun.setdefault(chosen, "broken off")
        return (*begun.items(), *((each.name, "running" if each.name in searched else each.status) for each in found))

    def failed(self) -> dict[str, str]:
        """Runs that were never begun, the newest first, and why: their newest start failed, and was not stopped."""
        newest: dict[str, Job] = {}
        for job in self.jobs.every():
            newest.setdefault(job.run, job)
        missing = (
            job for name, job in newest.items() if job.verb in SEARCHES and not (self.place.runs / name).exists()
        )
        return {job.run: job.problem for job in missing if job.problem and not job.problem.startswith(INTERRUPTED)}

    def names(self, chosen: str | None = None) -> list[str]:
        """Of the same runs, in the same order."""
        return [name for name, _ in self.states(chosen)]

    def free_name(self, wanted: str) -> str:
        """A name for a new run that no run has, nor one that is being started."""
        return self.place.free_name(wanted, {job.run for job in self.jobs.every() if job.alive})

    def status(self, name: str) -> str:
        """Of a run: as :class:`diffgen.RunLine` has it, "starting", or empty where there is none."""
        line = self.line(name)
        job = self.jobs.of(name, *SEARCHES) if name else None
        if line is not None:
            return "running" if job is not None and job.alive else line.status
        return "" if job is None else "starting" if job.alive else "broken off"

    def line(self, name: str | None) -> api.RunLine | None:
        """What is known of a run, or None: there is no folder of that name."""
        if not name:
            return None
        try:
            return api.describe_run(self.place.known(name))
        except UserError:
            return None

    def about(self, name: str | None) -> tuple[Any, ...]:
        """Tells what a tab shows from what it is to show: another run, or more finds of it; empty: there is no run.

        What was done on a tab stays while this is the same: the answer on entering it may come later.
        """
        line = self.line(name)
        return () if line is None else (line.name, line.created, line.triggers)

    def stamp(self, name: str) -> str:
        """Tells a run from another one that had the same name before."""
        line = self.line(name)
        return "" if line is None else line.created

    def job(self, name: str | None, *verbs: str) -> Job | None:
        """The newest job about a run; one that was over before the run began was about another of its name."""
        job = self.jobs.of(name, *verbs) if name else None
        begun = "" if job is None or job.alive else self.stamp(job.run)
        return None if job is None or job.last_sign < begun else job


# A class, since Gradio makes each one that is updated anew; by `type` alone, since the metaclass of Gradio would write
# a stub file beside this one.
_AS_SAID = {"preprocess": lambda self, payload: payload, "is_template": True, "__module__": __name__}
_Choice: Any = type.__new__(type(gr.Dropdown), "Choice", (gr.Dropdown,), _AS_SAID)


def choice(options: Sequence[Any], **more: Any) -> gr.Dropdown:
    """A choice whose options change while the page is open.

    What was chosen is checked where it is used: Gradio would refuse what is no option any more, or not yet.
    """
    made: gr.Dropdown = _Choice(options, **more)
    return made


def html(value: Any = "", *, label: str, **more: Any) -> gr.HTML:
    """A piece of the page whose buttons can be picked; ``label`` names it for the API."""
    return gr.HTML(value, label=label, js_on_load=PICKS, padding=False, **more)


def told(function: Callable[P, R]) -> Callable[P, R]:
    """An error of the user is told in a box at the edge of the page, and nothing changes."""

    @wraps(function)
    def heard(*given: P.args, **named: P.kwargs) -> R:
        try:
            return function(*given, **named)
        except DiffgenError as error:
            said = escape(str(error), quote=False)  # the box at the edge shows HTML
            raise gr.Error(said, duration=12, title="", print_exception=False) from error

    return heard


def written(function: Callable[P, Markup]) -> Callable[P, Markup]:
    """An error of the user is written where the piece of the page would stand."""

    @wraps(function)
    def heard(*given: P.args, **named: P.kwargs) -> Markup:
        try:
            return function(*given, **named)
        except DiffgenError as error:
            return note(str(error), "bad")

    return heard
