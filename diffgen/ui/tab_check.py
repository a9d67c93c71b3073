"""The tab that asks whether a candidate may replace a base."""

from __future__ import annotations

import shlex
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr
import numpy as np
from markupsafe import Markup

from diffgen import api
from diffgen.config import Budget, CheckConfig
from diffgen.errors import DiffgenError, UserError
from diffgen.report.data import GateBehaviour, GateView
from diffgen.report.gate import warning
from diffgen.runs.folder import RunFolder
from diffgen.ui import form
from diffgen.ui.form import hint, refusal
from diffgen.ui.pieces import (
    badge,
    inline,
    joined,
    loading,
    note,
    nothing,
    pager,
    report_link,
    section,
    sentence,
    strip_of,
    table,
)
from diffgen.ui.shared import EACH, LAST, Shared, html, told
from diffgen.ui.tab_run import component
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


_STORE = "regressions"
_USUAL = CheckConfig().compare.budget
_GIVEN = 7  # inputs before those that are made from settings


def build(shared: Shared, run: gr.Dropdown, tabs: gr.Tabs, tab: gr.Tab) -> None:
    with gr.Row(equal_height=False, elem_id="dg-check"):
        with gr.Column(scale=4, min_width=320):
            base = gr.Textbox(label="Base", info="The model that is in use.", placeholder="models/float.onnx")
            candidate = gr.Textbox(
                label="Candidate", info="The one that may replace it.", placeholder="models/int8.onnx"
            )
            data = gr.Textbox(label="Data", info="Real images, as under Run.", placeholder="digits:test")
            with gr.Row():
                budget = gr.Textbox(
                    label="Budget",
                    info="In queries a check is repeatable.",
                    placeholder=f"{_USUAL.queries}q, of large pictures {_USUAL.large}q",
                    min_width=120,
                )
                seed = gr.Number(0, label="Seed", precision=0, minimum=0, min_width=100)
            store = gr.Textbox(
                _STORE,
                label="Store",
                info=f"Folder of the behaviours that were accepted before, below {shared.place.runs}; need not exist.",
            )
            name = gr.Textbox(label="Name of the run", info="Empty: made from the models.")
            with gr.Accordion("Limits", open=False):
                own = [component(each) for each in form.limits()]
            with gr.Accordion("More settings", open=False):
                own += [component(each) for each in form.check_fields()]
                more = gr.Textbox(
                    "",
                    label="Every other setting, NAME=VALUE, one a line",
                    placeholder="random_images=20000",
                    lines=2,
                    info="diffgen check --help-all names them.",
                )
            start = gr.Button("Start the check", variant="primary")
            with gr.Accordion("The same without this page", open=False):
                line = gr.Code(label="In a terminal", language="shell", interactive=False, wrap_lines=True, lines=2)
        with gr.Column(scale=7, min_width=320, elem_id="dg-checked"):
            outcome = html(loading(), label="verdict", elem_id="dg-verdict")
            accept = gr.Button("Accept what is new into the store", visible=False, size="sm")
    asked: list[Any] = [base, candidate, data, budget, seed, store, name, *own, more]

    def words_of(*given: Any) -> tuple[str, list[str]]:
        return check_words(shared, given[:_GIVEN], given[_GIVEN:-1], given[-1])

    def copy(*given: Any) -> str:
        try:
            return shlex.join(["diffgen", "check", *words_of(*given)[1]])
        except DiffgenError as error:
            return f"# {error}"

    gr.on([each.change for each in asked], copy, asked, [line], **LAST)

    def begin(*given: Any) -> tuple[Any, Any]:
        name, words = words_of(*given)
        shared.jobs.start("check", name, words)
        return gr.Dropdown(choices=shared.names(), value=name), gr.Tabs(selected="live")

    start.click(told(begin), asked, [run, tabs], api_name="start_check")

    looked = gr.State(Pages())

    def show(name: str | None, pages: Pages) -> tuple[Markup, Any, Pages]:
        try:
            view = _view(shared, name)
            store, problem = ("", "") if view is None else _own_store(shared, view)
        except DiffgenError as error:
            return note(str(error), "bad"), gr.Button(visible=False), Pages()
        about = shared.about(name)
        pages = pages if pages.about == about else Pages(about)
        said = [note(problem, "warn")] if problem else []
        return joined([*said, _shown(shared, name, view, pages)]), _offer(view, store, pages), pages

    shown = [outcome, accept, looked]
    gr.on([run.change, tab.select], show, [run, looked], shown, **{**EACH, "api_name": "verdict"})

    def turn(name: str | None, pages: Pages, event: gr.EventData) -> tuple[Markup, Any, Pages]:
        return show(name, pages.on(int(event.page)))

    outcome.click(turn, [run, looked], shown, **EACH)

    def take(name: str | None, typed: str, pages: Pages) -> Any:
        if not name:
            raise UserError("Choose a check first.")
        view = _view(shared, name)
        if view is not None and not (pages.about == shared.about(name) and pages.all_new(view)):
            raise UserError("Look at all new behaviours of the check first; what is accepted must have been seen.")
        own = _own_store(shared, view)[0] if view is not None else ""
        found = api.accept(shared.place.known(name), own or shared.place.folder(typed, "store"))
        gr.Info(_accepted(found), title="")
        return gr.Button(f"Accepted into {Path(found.store).name}", interactive=False)

    accept.click(told(take), [run, store, looked], [accept], api_name="accept")


class Pages(NamedTuple):
    """Which behaviours of a check were shown: what is accepted must have been seen.

    Attributes:
        about: tells the check, see :meth:`diffgen.ui.shared.Shared.about`.
        page: of its behaviours that is shown.
        last: of the pages that were shown, one after the other.
    """

    about: tuple[Any, ...] = ()
    page: int = 0
    last: int = 0

    def on(self, page: int) -> Pages:
        """With another page; who leaps over some has not seen these."""
        page = max(0, page)
        return self._replace(page=page, last=page if page == self.last + 1 else self.last)

    def all_new(self, view: GateView) -> bool:
        """Whether all new behaviours were shown; they are the first."""
        return len(view.new) <= (self.last + 1) * BEHAVIOURS


def _view(shared: Shared, name: str | None) -> GateView | None:
    """The verdict of a check; None: there is none yet."""
    line = shared.line(name)
    return api.verdict(line.path) if line is not None and line.check else None


def _own_store(shared: Shared, view: GateView) -> tuple[str, str]:
    """The store that a check was held against, as a whole path, or why it is not used; both empty: there was none."""
    if not view.store:
        return "", ""
    about = RunFolder.open(shared.place.known(view.run)).manifest.get("check")
    begun = str(about.get("store")) if isinstance(about, dict) else ""
    # as typed it counts from a folder that the manifest alone knows; who went on with the check may name another one
    store = begun if f"/{begun}".endswith(f"/{view.store}") else view.store
    try:
        if Path(store).is_absolute():
            return shared.place.folder(store, "store"), ""
    except UserError:
        pass
    return "", (
        f"The page may not write into the store of this check, {store}; accept into the one that the field Store "
        "names, or start the page with --files FOLDER."
    )


def _accepted(found: api.AcceptResult) -> str:
    """What was put into the store, as the box at the edge shows it: as HTML."""
    added, known = count_of(found.added, "behaviour was", "behaviours were"), count_of(found.known, "was", "were")
    return f"{added} added to {escape(found.store, quote=False)}; {known} known."


def _offer(view: GateView | None, store: str, pages: Pages) -> Any:
    """The button, which names the store of the check; else what is new goes into that of the field."""
    if view is None or not pages.all_new(view):
        return gr.Button(visible=False)
    where = Path(store).name or "the store that the field names"
    return gr.Button(f"Accept what is new into {where}", visible=True, interactive=True)


def check_words(shared: Shared, given: tuple[Any, ...], values: tuple[Any, ...], more: str) -> tuple[str, list[str]]:
    """The name of the run, and the words behind ``diffgen check``. UserError if something is missing or cannot be."""
    base, candidate, data, budget, seed, store, name = given
    place = shared.place
    models = [place.given(base, "base"), place.given(candidate, "candidate")]
    source = place.given(data, "data")
    name = name.strip() or shared.free_name("check-" + "-vs-".join(each.rpartition("/")[2] for each in models))
    folder = place.run(name)
    if folder.exists():
        raise UserError(f"There is a run {name!r} already; write another name, or none.")
    settings = form.said((*form.limits(), *form.check_fields()), values)
    lines = form.more(more, place, CheckConfig)
    form.check_of_check(settings, lines)
    words = [*models, "--data", source, "-o", str(folder)]
    words += ["--budget", str(Budget.parse(budget))] if budget.strip() else []
    words += ["--seed", str(int(seed))] if seed else []
    words += ["--store", place.folder(store, "store")] if store.strip() else []
    return name, [*words, *form.options(settings, lines, CheckConfig)]


def _shown(shared: Shared, name: str | None, view: GateView | None, pages: Pages) -> Markup:
    """The verdict, or what is missing for one."""
    if view is not None:
        told = [hint(" ".join(view.verdicts))]
        if not pages.all_new(view):
            told.append("What is new can be accepted when all of it was shown; look at the other pages, too.")
        return joined([verdict(view, pages.page), *map(note, filter(None, told))])
    line = shared.line(name)
    if line is None:
        if name and (problem := shared.failed().get(name)):
            return refusal(problem)
        starting = shared.status(name or "") == "starting"
        return nothing("The run is being started." if starting else "Choose a check above, or start one.")
    text = "The verdict appears when the check has come to its end."
    return nothing(text if line.is_check else "This run is a comparison and no check.")
