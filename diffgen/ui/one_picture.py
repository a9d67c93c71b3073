"""The part of the page that shows one picture, and that asks the models again or shrinks: of it, or of all."""

from __future__ import annotations

from typing import Any

import gradio as gr
from markupsafe import Markup

from diffgen.errors import UserError
from diffgen.tasks.classification import role_name
from diffgen.ui.draw.parts import note
from diffgen.ui.draw.picture import detail
from diffgen.ui.jobs import Job
from diffgen.ui.shared import EACH, QUIET, Shared, told, written

_SECONDS = 1.0  # between two looks at what was started
_VERBS = ("replay", "shrink")
INTO_VIEW = """() => requestAnimationFrame(() => [...document.querySelectorAll('.dg-detail')].filter(
  (each) => each.offsetParent).forEach((each) => each.scrollIntoView({behavior: 'smooth', block: 'nearest'})))"""


def build(shared: Shared, run: gr.Dropdown, tab: gr.Tab, number: gr.Number) -> None:
    """Draw it.

    Args:
        shared: what the tabs have in common.
        run: the chosen run.
        tab: on which it stands.
        number: of the chosen picture.
    """
    one = gr.HTML(label="trigger", padding=False, elem_id="dg-one")
    with gr.Row(elem_classes="dg-buttons", visible=False) as own:
        replay = gr.Button("Ask the models about this picture now (replay)", size="sm", min_width=200)
        shrink = gr.Button("Make its difference small now (shrink)", size="sm", min_width=200)
    outcome = gr.HTML(label="outcome", padding=False, elem_id="dg-outcome")
    with gr.Accordion("All pictures of this run", open=False), gr.Row(elem_classes="dg-buttons"):
        replay_all = gr.Button("Ask the models again (replay)", size="sm", min_width=200)
        shrink_some = gr.Button("Smallest differences (shrink)", size="sm", min_width=200)
    timer = gr.Timer(_SECONDS, active=False)

    def show(name: str | None, number: float | None) -> tuple[Markup, Any]:
        return drawn(shared, name, number), gr.Row(visible=name is not None and number is not None)

    shown = number.change(show, [run, number], [one, own], api_name="picture", show_progress="hidden")
    shown.then(None, None, None, js=INTO_VIEW)

    def going_on(name: str | None, before: tuple[Any, ...]) -> tuple[Any, Any, tuple[Any, ...]]:
        job = shared.job(name, *_VERBS)
        alive, now = job is not None and job.alive, shared.about(name)
        if now and now == before:
            return gr.Timer(active=True) if alive else gr.skip(), gr.skip(), now
        return gr.Timer(active=alive), "", now

    about = gr.State(())  # what the outcome is about
    gr.on([run.change, tab.select], going_on, [run, about], [timer, outcome, about], **EACH)

    def ask(verb: str) -> Any:
        def asked(name: str | None, number: float | None) -> Any:
            if not name or number is None:
                raise UserError("Choose a picture first.")
            return start(verb, name, "--trigger", str(int(number)))

        return told(asked)

    def ask_all(verb: str) -> Any:
        def asked(name: str | None) -> Any:
            if not name:
                raise UserError("Choose a run first.")
            return start(verb, name)

        return told(asked)

    def start(verb: str, name: str, *words: str) -> tuple[Any, Markup]:
        shared.jobs.start(verb, name, [str(shared.place.known(name)), *words])
        return gr.Timer(active=True), note(f"diffgen {verb} has started.")

    replay.click(ask("replay"), [run, number], [timer, outcome], api_name="replay_one")
    shrink.click(ask("shrink"), [run, number], [timer, outcome], api_name="shrink_one")
    replay_all.click(ask_all("replay"), [run], [timer, outcome], api_name="replay")
    shrink_some.click(ask_all("shrink"), [run], [timer, outcome], api_name="shrink")

    def look(name: str | None, number: float | None) -> tuple[Any, Any, Any]:
        job = shared.job(name, *_VERBS)
        if job is None:
            return gr.Timer(active=False), "", gr.skip()
        if job.alive:
            return gr.skip(), note(f"diffgen {job.verb}: {job.state().get('stage') or 'starting'} ..."), gr.skip()
        # the pair that shrink has found is shown beside the picture
        return gr.Timer(active=False), came_out(job), drawn(shared, name, number)

    timer.tick(look, [run, number], [timer, outcome, one], **QUIET)


@written
def drawn(shared: Shared, name: str | None, number: float | None) -> Markup:
    """Everything that is known of a picture, or nothing where none is chosen."""
    if name is None or number is None:
        return Markup("")
    finds = shared.seen.finds(name)
    return detail(finds.find(int(number)), name, shared.stamp(name), finds.models, finds.class_names)


def came_out(job: Job) -> Markup:
    """What replay or shrink said at its end."""
    if job.problem:
        return note(job.problem, "bad")
    found = job.result()
    if job.verb == "shrink":
        return note(_shrunk(found, one="--trigger" in job.words), "good" if found["shrunk"] else "warn")
    if "said_again" not in found:
        return note(f"{found['reproduced']:,} of {found['replayed']:,} disagreements were there again.", "good")
    [labels] = found["said_again"]
    said = ", ".join(f"{role_name(model)} says {label}" for model, label in enumerate(labels))
    if found["reproduced"]:
        return note(f"They still disagree: {said}.", "good")
    return note(f"They agree now: {said}.", "warn")


def _shrunk(found: dict[str, Any], *, one: bool) -> str:
    if not found["shrunk"]:
        return "No picture on which the models agree was found on the way; nothing was shrunk."
    what = "Shrunk" if one else f"{found['shrunk']:,} of {found['tried']:,} triggers were shrunk"
    return f"{what}: from {found['before']:.1f} to {found['after']:.2f} grey levels."
