"""The tab that leads from the matrix to behaviours, to pictures, to one picture."""

from __future__ import annotations

from typing import Any, Literal

import gradio as gr
from markupsafe import Markup

from diffgen import api
from diffgen.errors import DiffgenError, UserError
from diffgen.tasks.classification import role_name, who_is_wrong
from diffgen.ui.finds import behaviours, detail, matrix, pictures
from diffgen.ui.jobs import Job
from diffgen.ui.pieces import loading, note, nothing, section
from diffgen.ui.shared import EACH, LAST, QUIET, Shared, choice, html, told, written
from diffgen.wording import count_of

_SECONDS = 1.0  # between two looks at what was started
_VERBS = ("replay", "shrink")
INTO_VIEW = """() => requestAnimationFrame(() => [...document.querySelectorAll('.dg-detail')].filter(
  (each) => each.offsetParent).forEach((each) => each.scrollIntoView({behavior: 'smooth', block: 'nearest'})))"""


def build_one(shared: Shared, run: gr.Dropdown, tab: gr.Tab, number: gr.Number) -> None:
    """Draw the part that shows one picture, and that asks the models again or shrinks: of it, or of all."""
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


_ANY = "any"
_UNNAMED = "the jury cannot name it"
_SHOWN: dict[Literal["distinct", "valid", "rejected", "all"], str] = {
    "distinct": "valid and distinct",
    "valid": "valid, alike ones too",
    "rejected": "rejected by a filter",
    "all": "all",
}


def build(shared: Shared, run: gr.Dropdown, tab: gr.Tab) -> None:
    with gr.Row():
        shown = gr.Dropdown(
            [(text, each) for each, text in _SHOWN.items()], value="distinct", label="Pictures", min_width=180
        )
        verdict = choice([_ANY], value=_ANY, label="Who is wrong", min_width=180)
        operator = choice([_ANY], value=_ANY, label="Made by", min_width=140)
        model = choice([_ANY], value=_ANY, label="Model", min_width=120)
        label = choice([_ANY], value=_ANY, label="Says class", min_width=120)
    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=320):
            with gr.Row(visible=False) as pairs:
                rows = choice([("A", 0)], value=0, label="Down", min_width=100)
                columns = choice([("B", 1)], value=1, label="Across", min_width=100)
            table = html(loading(), label="matrix", elem_id="dg-matrix")
            clear = gr.Button("Show all fields", size="sm", visible=False)
        with gr.Column(scale=6, min_width=320):
            groups = html(label="behaviours", elem_id="dg-behaviours")
    pictures = html(label="pictures", elem_id="dg-pictures")
    number = gr.Number(label="Trigger", precision=0, visible="hidden", elem_id="dg-trigger")
    build_one(shared, run, tab, number)
    field = gr.State(())  # what the models say in the field that was picked
    behaviour = gr.State(())  # labels and cell of the behaviour that was picked
    pages = gr.State((0, 0))  # of behaviours, of pictures
    offered = gr.State(())  # what can be chosen now is about this
    filters: list[Any] = [run, shown, verdict, operator, model, label]

    def offers(name: str | None, before: tuple[Any, ...]) -> tuple[Any, ...]:
        """What can be chosen of a run; what was chosen of the same run stays, unless more was found since."""
        now = shared.about(name)
        if now and now == before:
            return (gr.skip(),) * len(made)
        try:
            finds = shared.seen.finds(name or "")
        except DiffgenError:
            none = gr.Dropdown(choices=[_ANY], value=_ANY)
            two = [gr.Dropdown(choices=[(role_name(at), at)], value=at) for at in (0, 1)]
            return none, none, none, none, *two, gr.Row(visible=False), (), (), (0, 0), None, ()
        verdicts = [(who_is_wrong(each, len(finds.models)), each) for each in finds.verdicts if each]
        models = [(f"{role_name(at)}: {each}", str(at)) for at, each in enumerate(finds.models)]
        places = [(f"{role_name(at)}: {each}", at) for at, each in enumerate(finds.models)]
        return (
            gr.Dropdown(choices=[_ANY, *verdicts, (_UNNAMED, "")], value=_ANY),
            gr.Dropdown(choices=[_ANY, *[(each.replace("_", " "), each) for each in finds.operators]], value=_ANY),
            gr.Dropdown(choices=[("any model", _ANY), *models], value=_ANY),
            gr.Dropdown(choices=[_ANY, *[(each, str(at)) for at, each in enumerate(finds.class_names)]], value=_ANY),
            gr.Dropdown(choices=places, value=0),
            gr.Dropdown(choices=places, value=1),
            gr.Row(visible=len(finds.models) > 2),
            (),
            (),
            (0, 0),
            None,
            now,
        )

    made = [verdict, operator, model, label, rows, columns, pairs, field, behaviour, pages, number, offered]
    state = [*filters, rows, columns, field, behaviour, pages]
    drawn = [table, groups, pictures, clear]

    def draw(*given: Any) -> tuple[Any, ...]:
        return draw_all(shared, *given)

    def anew() -> tuple[tuple[()], tuple[int, int]]:
        return (), (0, 0)

    gr.on([run.change, tab.select], offers, [run, offered], made, **EACH).then(draw, state, drawn, **LAST)
    asked = [each.input for each in (shown, verdict, operator, model, label, rows, columns)]
    gr.on(asked, anew, None, [behaviour, pages], **LAST).then(draw, state, drawn, **LAST)

    def pick_field(row: int, column: int, count: str | None, event: gr.EventData) -> Any:
        a, b = map(int, event.pick.split(","))
        line = shared.line(count)
        wanted: list[int | None] = [None] * max(2, 0 if line is None else len(line.models))
        wanted[row], wanted[column] = a, b
        return tuple(wanted), (), (0, 0)

    table.select(pick_field, [rows, columns, run], [field, behaviour, pages], **EACH).then(draw, state, drawn, **LAST)
    clear.click(lambda: ((), (), (0, 0)), None, [field, behaviour, pages], **LAST).then(draw, state, drawn, **LAST)

    def pick_behaviour(pages: tuple[int, int], event: gr.EventData) -> Any:
        return tuple(map(int, event.pick.split(","))), (pages[0], 0)

    def turn(at: int) -> Any:
        def turned(pages: tuple[int, int], event: gr.EventData) -> tuple[int, int]:
            return (max(0, int(event.page)), pages[1]) if at == 0 else (pages[0], max(0, int(event.page)))

        return turned

    groups.select(pick_behaviour, [pages], [behaviour, pages], **EACH).then(draw, state, drawn, **LAST)
    groups.click(turn(0), [pages], [pages], **EACH).then(draw, state, drawn, **LAST)
    pictures.click(turn(1), [pages], [pages], **EACH).then(draw, state, drawn, **LAST)
    pictures.select(_picked, None, [number], **EACH)


def _picked(event: gr.EventData) -> int:
    return int(event.pick)


def wanted_of(
    shown: str, verdict: str, operator: str, model: str, label: str, said: tuple[int | None, ...] = ()
) -> api.TriggerQuery:
    """What the fields ask for."""
    return api.TriggerQuery(
        shown=next(each for each in _SHOWN if each == shown),  # Gradio lets nothing else through
        verdict=None if verdict == _ANY else verdict,
        operator="" if operator == _ANY else operator,
        label=None if label == _ANY else int(label),
        model=None if model == _ANY else int(model),
        said=tuple(said),
    )


def draw_all(
    shared: Shared,
    name: str | None,
    shown: str,
    verdict: str,
    operator: str,
    model: str,
    label: str,
    row: int,
    column: int,
    field: tuple[int | None, ...],
    behaviour: tuple[int, ...],
    pages: tuple[int, int],
) -> tuple[Any, ...]:
    """Matrix, behaviours, pictures, and the button that shows all fields again."""
    hidden = gr.Button(visible=False)
    if not name:
        return nothing("Choose a run above."), "", "", hidden
    line = shared.line(name)
    if line is not None and not line.figures and not line.problem:
        return nothing("Behaviours are known when the search has come to its end; see Live."), "", "", hidden
    try:
        finds = shared.seen.finds(name)
        field = tuple(field) if len(field) == len(finds.models) else ()
        wanted = wanted_of(shown, verdict, operator, model, label)
        wide = finds.numbers(wanted)
        numbers = finds.numbers(wanted_of(shown, verdict, operator, model, label, field)) if field else wide
        lines = finds.behaviours(numbers)
    except DiffgenError as error:
        return note(str(error), "bad"), "", "", hidden
    stamp = shared.stamp(name)
    table = matrix(finds.labels(wide), finds.class_names, (row, column), said=field)
    chosen = next((each for each in lines if (*each.labels, each.cell) == tuple(behaviour)), None)
    return (
        section("Who says what", table, count_of(len(wide), "picture")),
        behaviours(finds, lines, name, stamp, pages[0], chosen),
        pictures(finds, numbers if chosen is None else chosen.rows, name, stamp, pages[1], chosen),
        gr.Button(visible=bool(field)),
    )
