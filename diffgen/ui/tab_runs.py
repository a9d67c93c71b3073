"""The tab with all runs: open, compare two, report, export, delete."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import gradio as gr
from markupsafe import Markup

from diffgen import api
from diffgen.errors import UserError
from diffgen.tasks.classification import role_name
from diffgen.ui.pieces import badge, joined, loading, nothing, report_link, section, sentence, table
from diffgen.ui.place import lines
from diffgen.ui.shared import EACH, LAST, QUIET, Shared, choice, html, told, written

_MOST = 200
_FIGURES = {
    "queries": "queries",
    "seconds": "seconds",
    "triggers": "disagreements",
    "distinct_valid_triggers": "valid finds",
    "recognised_distinct_triggers": "recognised finds",
    "behaviours": "behaviours",
    "recognised_behaviours": "recognised behaviours",
    "label_pairs": "label pairs",
}


def build(shared: Shared, run: gr.Dropdown, tabs: gr.Tabs, tab: gr.Tab, states: gr.State) -> None:
    """Draw the tab; ``states`` changes when a run comes, goes, or is in another state."""
    listed = html(loading(), label="runs", elem_id="dg-runs")
    with gr.Row(equal_height=False):
        with gr.Column(scale=6, min_width=320):
            other = choice([], label="Beside the chosen run", value=None)
            beside = gr.HTML(label="beside", padding=False)
        with gr.Column(scale=4, min_width=320):
            links = gr.HTML(label="files", padding=False)
            delete = gr.Button("Delete this run ...", variant="stop", size="sm")
            with gr.Group(visible=False) as sure:
                again = gr.Textbox(label="Write its name to delete it for good", elem_id="dg-delete")
                with gr.Row():
                    keep = gr.Button("Keep it", size="sm")
                    gone = gr.Button("Delete for good", variant="stop", size="sm")

    shown = gr.State(())  # what the rest is about

    def show(name: str | None, before: tuple[Any, ...]) -> tuple[Any, ...]:
        found = lines(shared.place)
        others = [each.name for each in found if each.name != name]
        now = shared.about(name)
        listing = _table(shared, found, name), _links(shared, name), now
        if now and now == before:
            return *listing, gr.Dropdown(choices=others), gr.skip(), gr.skip()
        return *listing, gr.Dropdown(choices=others, value=None), "", gr.Group(visible=False)

    outputs = [listed, links, shown, other, beside, sure]
    gr.on([run.change, tab.select], show, [run, shown], outputs, **EACH)

    # what happens to runs is seen once for all tabs
    states.change(lambda name: _table(shared, lines(shared.place), name), [run], [listed], **LAST)

    def opened(event: gr.EventData) -> tuple[Any, Any]:
        name = str(event.pick)
        return gr.Dropdown(choices=shared.names(name), value=name), gr.Tabs(selected="live")

    listed.select(opened, None, [run, tabs], **EACH)
    other.change(written(lambda name, other: compared(shared, name, other)), [run, other], [beside], api_name="beside")
    delete.click(lambda: (gr.Group(visible=True), ""), None, [sure, again], **QUIET)
    keep.click(lambda: gr.Group(visible=False), None, [sure], **QUIET)

    def drop(name: str | None, written_name: str) -> tuple[Any, Any]:
        _delete(shared, name, written_name)
        return gr.Dropdown(choices=shared.names(), value=None), gr.Group(visible=False)

    gone.click(told(drop), [run, again], [run, sure], api_name="delete").then(show, [run, shown], outputs, **LAST)


def _delete(shared: Shared, name: str | None, again: str) -> None:
    if not name or again.strip() != name:
        raise UserError("That is not its name; nothing was deleted.")
    job = shared.job(name)
    if job is not None and job.alive:
        raise UserError(f"'diffgen {job.verb}' works on this run; stop it first.")
    if name not in shared.failed():  # such a one has no folder
        api.delete_run(shared.place.known(name))
    shared.jobs.forget(name)
    shared.seen.forget(name)
    shared.sheets.forget(name)


def _table(shared: Shared, found: tuple[api.RunLine, ...], chosen: str | None) -> Markup:
    states, failed = dict(shared.states()), shared.failed()
    if not states and not failed:
        return nothing("No run yet. Put one together under Run.")
    button = Markup('<button type="button" class="dg-name" data-pick="{}" aria-pressed="{}">{}</button>')
    rows: list[tuple[str, ...]] = []
    names = {each.name for each in found}
    for name in (name for name in states if name not in names):
        pressed = "true" if name == chosen else "false"
        rows.append((button.format(name, pressed, name), badge(states[name]), "", "", "", "", ""))
    for name, problem in failed.items():
        pressed = "true" if name == chosen else "false"
        rows.append((button.format(name, pressed, name), badge("broken off"), sentence(problem), "", "", "", ""))
    for each in found[:_MOST]:
        figures = each.figures or {}
        models = ", ".join(f"{role_name(at)} {name}" for at, name in enumerate(each.models))
        rows.append(
            (
                button.format(each.name, "true" if each.name == chosen else "false", each.name),
                joined([badge(states.get(each.name, each.status)), *([badge(each.check)] if each.check else [])]),
                models or sentence(each.problem),
                each.data,
                f"{each.triggers:,}",
                f"{round(figures['behaviours']):,}" if "behaviours" in figures else "",
                Markup('<span class="dg-when">{}</span>').format(each.created[:16].replace("T", " ")),
            )
        )
    head = ("run", "", "models", "data", "disagreements", "behaviours", "begun (UTC)")
    more = f"the newest {_MOST} of {len(found):,}" if len(found) > _MOST else ""
    return section("Runs", table(head, rows), more)


def _links(shared: Shared, name: str | None) -> Markup:
    line = shared.line(name)
    if not name or line is None or not line.figures:
        return nothing("Report and export are there when a search has come to its end.")
    return Markup(
        '<p class="dg-links">{} <a class="dg-link" href="files/{}/export.zip" download>Export all pictures as a zip</a>'
        "</p>"
    ).format(report_link(name), quote(name))


def _checked(line: api.RunLine) -> str:
    """The verdict of a check; of a comparison, that it is none."""
    if not line.is_check:
        return "no check"
    return badge(line.check) if line.check else "no verdict yet"


def compared(shared: Shared, name: str | None, other: str | None) -> Markup:
    """Two runs side by side: figures, and the settings in which they differ. UserError if one cannot be read."""
    if not name or not other:
        return Markup("")
    one, two = (api.describe_run(shared.place.known(each)) for each in (name, other))
    figures = [
        (text, *(f"{round((each.figures or {})[key]):,}" if key in (each.figures or {}) else "" for each in (one, two)))
        for key, text in _FIGURES.items()
    ]
    facts = [
        ("models", ", ".join(one.models), ", ".join(two.models)),
        ("data", one.data, two.data),
        ("status", badge(one.status), badge(two.status)),
    ]
    if one.is_check or two.is_check:
        facts.append(("check", _checked(one), _checked(two)))
    left, right = (api.run_settings(each.path) for each in (one, two))
    differing = [
        (key, str(left.get(key, "")), str(right.get(key, "")))
        for key in sorted({*left, *right})
        if left.get(key) != right.get(key) and key != "models"
    ]
    head = ("", one.name, two.name)
    parts = [section("Side by side", table(head, [*facts, *figures]))]
    parts.append(
        section("Settings that differ", table(head, differing)) if differing else nothing("All settings are alike.")
    )
    return joined(parts)
