"""The page: its head with the chosen run, and the tabs."""

from __future__ import annotations

import math
import os
import reprlib
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.themes.utils.fonts import Font
from gradio.utils import get_upload_folder
from markupsafe import Markup

import diffgen
from diffgen.errors import UserError
from diffgen.ui import tab_behaviours, tab_check, tab_label, tab_live, tab_run, tab_runs
from diffgen.ui.pieces import badge
from diffgen.ui.shared import EACH, QUIET, Shared, choice, told

_SECONDS = 5.0  # between two looks at which runs there are
_FONTS = [Font(name) for name in ("system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif")]
_MONO = [Font(name) for name in ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace")]
# a screen reader hears what changes in it; the piece stays while what is in it is drawn anew
_READ_OUT = "element.setAttribute('role', 'status'); element.setAttribute('aria-atomic', 'true');"
# what the address begins with is read here, and written by assets/history.js
_TAB_IN_ADDRESS = "() => location.hash.slice(1)"
_ARRIVED = "(tab) => window.dispatchEvent(new CustomEvent('dg-arrived', {detail: tab}))"
_CHOSEN = "() => window.dispatchEvent(new Event('dg-run'))"

# before there is a chosen run: the address still says which
_WITHOUT_TOKEN = """() => {
  const at = new URL(location);
  at.searchParams.delete('token');
  history.replaceState(null, '', at);
}"""


def look() -> dict[str, Any]:
    """Theme, style sheet and words, for whoever mounts the page."""
    theme = gr.themes.Default(
        primary_hue="indigo", neutral_hue="slate", radius_size="lg", font=_FONTS, font_mono=_MONO
    ).set(body_text_size="15px", block_shadow="none", block_label_text_weight="600")
    assets = files("diffgen.ui") / "assets"
    # a word that Gradio reads out and has in no language; English is what it falls back to
    words = gr.I18n(en={"common.complete": "done"})
    return {"theme": theme, "css": (assets / "page.css").read_text(encoding="utf-8"), "i18n": words}


class _Page(gr.Blocks):  # type: ignore[misc]
    """Looks at what every call brings, from whatever program, before Gradio does.

    A file must be one that was dropped onto the page: Gradio would copy it to where it is served, since its own check
    is left out for a page that is mounted in an application. A value must be one that its field can hold.
    """

    def __init__(self, **about: Any) -> None:
        super().__init__(**about)
        self._uploads = Path(get_upload_folder())

    async def preprocess_data(self, block_fn: Any, inputs: list[Any], *rest: Any, **more: Any) -> Any:
        told(refuse_files)(inputs, self._uploads)
        inputs = [told(held)(field, value) for field, value in zip(block_fn.inputs, inputs, strict=False)]
        return await super().preprocess_data(block_fn, inputs, *rest, **more)


def refuse_files(given: Any, uploads: Path) -> None:
    """See that JSON values name no file, as Gradio writes one, outside of a folder, or raise UserError."""
    left = [given]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            left += value.values()
            if "path" in value and not _is_below(str(value["path"]), uploads):
                raise UserError(
                    f"The file {str(value['path'])[:200]!r} was not dropped onto this page, or is gone; drop it again, "
                    "or write its path."
                )


def held(field: Any, value: Any) -> Any:
    """A value as a field of the page holds it. UserError if it cannot hold that."""
    kinds: set[type[Any]]
    if isinstance(field, gr.Textbox):
        kinds, value = {str}, "" if value is None else value
    elif isinstance(field, gr.Number | gr.Slider):
        kinds = {int, float}
    elif isinstance(field, gr.Dropdown):
        kinds = {type(each) for _, each in field.choices} or {str}
    else:
        return value
    if value is None and not isinstance(field, gr.Slider):
        return None
    if type(value) not in kinds or (type(value) is not str and not math.isfinite(value)):
        raise UserError(f"The field {field.label} cannot hold {reprlib.repr(value)}; give it another value.")
    return value


def _is_below(path: str, folder: Path) -> bool:
    try:
        return os.path.isfile(path) and Path(path).resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError):  # no such path can be
        return False


def build(shared: Shared) -> gr.Blocks:
    """Everything that is on the page."""
    with _Page(title="diffgen", analytics_enabled=False, fill_width=False) as page:
        brand = Markup('<h1 class="dg-brand">diffgen<small>{}</small></h1>')
        with gr.Row(elem_id="dg-head", equal_height=True):
            gr.HTML(brand.format(diffgen.__version__), padding=False, label="brand")
            run = choice(
                shared.names(),
                value=None,
                label="Run",
                elem_id="dg-run",
                scale=3,
                min_width=220,
                allow_custom_value=False,
            )
            state = gr.HTML(label="run status", padding=False, elem_id="dg-status", js_on_load=_READ_OUT)
        script = (files("diffgen.ui") / "assets" / "history.js").read_text(encoding="utf-8")
        wanted_tab = gr.Textbox(label="Tab", visible="hidden")  # as the address names it
        listed = gr.State([])  # all runs, and how it stands with each
        with gr.Tabs(elem_id="dg-tabs") as tabs:
            with gr.Tab("Run", id="run") as begin:
                tab_run.build(shared, page, run, tabs)
            with gr.Tab("Live", id="live") as live:
                tab_live.build(shared, run, live)
            with gr.Tab("Behaviours", id="behaviours") as behaviours:
                tab_behaviours.build(shared, run, behaviours)
            with gr.Tab("Label", id="label") as label:
                tab_label.build(shared, run, label)
            with gr.Tab("Check", id="check") as check:
                tab_check.build(shared, run, tabs, check)
            with gr.Tab("Runs", id="runs") as runs:
                tab_runs.build(shared, run, tabs, runs, listed)
        # after the tabs, which it watches
        steps = gr.HTML(label="history", padding=False, js_on_load=script, visible="hidden")
        shown = [each.id for each in (begin, live, behaviours, label, check, runs)]
        timer = gr.Timer(_SECONDS)

        def arrive(tab: str, request: gr.Request) -> tuple[Any, Any]:
            wanted = dict(request.query_params).get("run") or shared.first
            names = shared.names(wanted)
            running = [name for name in names[:20] if shared.status(name) in ("running", "starting")]
            chosen = wanted if wanted in names else next(iter([*running, *names]), None)
            usual = "live" if chosen in running else ""
            return gr.Dropdown(choices=names, value=chosen), tab if tab in shown else usual

        def again(chosen: str | None, known: list[list[str]]) -> tuple[Any, list[list[str]], Markup]:
            states = [[*each] for each in shared.states(chosen)]
            names = [name for name, _ in states]
            if chosen is not None and chosen not in names:
                gr.Info(f"There is no run {escape(chosen)} any more.", title="")
                changed = gr.Dropdown(choices=names, value=None)
            else:  # the value stays as it is: another one may have been chosen meanwhile
                changed = gr.Dropdown(choices=names) if names != [name for name, _ in known] else gr.skip()
            return changed, states, _status(shared, chosen)

        arrived = page.load(arrive, [wanted_tab], [run, wanted_tab], api_name=False, js=_TAB_IN_ADDRESS)
        arrived.then(None, [wanted_tab], None, js=_ARRIVED)
        page.load(None, None, None, js=_WITHOUT_TOKEN)
        timer.tick(again, [run, listed], [run, listed, state], **QUIET)
        run.change(lambda name: _status(shared, name), [run], [state], **{**EACH, "api_name": "status"})
        run.change(None, None, None, js=_CHOSEN)

        def go(event: gr.EventData) -> tuple[Any, Any]:
            wanted = str(event.run)
            names = shared.names(wanted)
            return (
                gr.Dropdown(choices=names, value=wanted if wanted in names else None),
                gr.Tabs(selected=event.tab) if event.tab in shown else gr.skip(),
            )

        steps.select(go, None, [run, tabs], **EACH)
    page.queue(default_concurrency_limit=4)
    return page


def _status(shared: Shared, name: str | None) -> Markup:
    """In a word, and for who hears the page with what it is doing."""
    status = shared.status(name) if name else ""
    job = shared.job(name)
    stage = job.state().get("stage", "") if job is not None and job.alive else ""
    if job is not None and job.stopping:
        return badge("stopping") + Markup('<span class="dg-heard"> {}</span>').format(stage)
    return badge(status) + Markup('<span class="dg-heard"> {}</span>').format(stage) if status else Markup("")
