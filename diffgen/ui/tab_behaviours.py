"""The tab that leads from the matrix to behaviours, to pictures, to one picture."""

from __future__ import annotations

from typing import Any

import gradio as gr
import numpy as np
from markupsafe import Markup

from diffgen import api
from diffgen.errors import DiffgenError, UserError
from diffgen.tasks.classification import role_name, who_is_wrong
from diffgen.types import Int64Array
from diffgen.ui.draw.matrix import matrix
from diffgen.ui.draw.parts import badge, joined, note, nothing, pager, section, strip_pieces, thumbnails
from diffgen.ui.draw.picture import detail
from diffgen.ui.shared import Shared, choice, html, told, written
from diffgen.ui.tab_live import said

BEHAVIOURS, PICTURES = 12, 60  # on one page
_ANY = "any"
INTO_VIEW = """() => requestAnimationFrame(() => [...document.querySelectorAll('.dg-detail')].filter(
  (each) => each.offsetParent).forEach((each) => each.scrollIntoView({behavior: 'smooth', block: 'nearest'})))"""
_UNNAMED = "the jury cannot name it"
_SHOWN = [
    ("valid and distinct", "distinct"),
    ("valid, alike ones too", "valid"),
    ("rejected by a filter", "rejected"),
    ("all", "all"),
]


def build(shared: Shared, run: gr.Dropdown, tab: gr.Tab) -> None:
    """Draw the tab."""
    with gr.Row():
        shown = gr.Dropdown(_SHOWN, value="distinct", label="Pictures", min_width=180)
        verdict = choice([_ANY], value=_ANY, label="Who is wrong", min_width=180)
        operator = choice([_ANY], value=_ANY, label="Made by", min_width=140)
        model = choice([_ANY], value=_ANY, label="Model", min_width=120)
        label = choice([_ANY], value=_ANY, label="says", min_width=120)
    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=320):
            with gr.Row(visible=False) as pairs:
                rows = choice([("A", 0)], value=0, label="Down", min_width=100)
                columns = choice([("B", 1)], value=1, label="Across", min_width=100)
            table = html(label="matrix", elem_id="dg-matrix")
            clear = gr.Button("Show all fields", size="sm", visible=False)
        with gr.Column(scale=6, min_width=320):
            groups = html(label="behaviours", elem_id="dg-behaviours")
    pictures = html(label="pictures", elem_id="dg-pictures")
    number = gr.Number(label="Trigger", precision=0, visible="hidden", elem_id="dg-trigger")
    one = gr.HTML(label="trigger", padding=False, elem_id="dg-one")
    with gr.Row(elem_classes="dg-buttons"):
        replay = gr.Button("Ask the models again (replay)", size="sm", min_width=200)
        shrink = gr.Button("Smallest difference (shrink)", size="sm", min_width=200)
    outcome = gr.HTML(label="outcome", padding=False)
    field = gr.State(())  # what the models say in the field that was picked
    behaviour = gr.State(())  # labels and cell of the behaviour that was picked
    pages = gr.State((0, 0))  # of behaviours, of pictures
    timer = gr.Timer(2.0, active=False)
    filters: list[Any] = [run, shown, verdict, operator, model, label]

    def offers(name: str | None) -> tuple[Any, ...]:
        """What can be chosen of a run."""
        try:
            finds = shared.seen.finds(name or "")
        except DiffgenError:
            none = gr.Dropdown(choices=[_ANY], value=_ANY)
            two = [gr.Dropdown(choices=[(role_name(at), at)], value=at) for at in (0, 1)]
            return none, none, none, none, *two, gr.Row(visible=False), (), (), (0, 0), None
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
        )

    made = [verdict, operator, model, label, rows, columns, pairs, field, behaviour, pages, number]
    state = [*filters, rows, columns, field, behaviour, pages]
    drawn = [table, groups, pictures, clear]

    def draw(*given: Any) -> tuple[Any, ...]:
        return draw_all(shared, *given)

    def anew() -> tuple[tuple[()], tuple[int, int]]:
        return (), (0, 0)

    quiet: dict[str, Any] = {"api_name": False, "show_progress": "hidden"}
    gr.on([run.change, tab.select], offers, [run], made, **quiet).then(draw, state, drawn, **quiet)
    gr.on(
        [each.input for each in (shown, verdict, operator, model, label, rows, columns)],
        anew,
        None,
        [behaviour, pages],
        **quiet,
    ).then(draw, state, drawn, **quiet)

    def pick_field(row: int, column: int, count: str | None, event: gr.EventData) -> Any:
        a, b = map(int, event.pick.split(","))
        line = shared.line(count)
        wanted: list[int | None] = [None] * max(2, 0 if line is None else len(line.models))
        wanted[row], wanted[column] = a, b
        return tuple(wanted), (), (0, 0)

    table.select(pick_field, [rows, columns, run], [field, behaviour, pages], **quiet).then(draw, state, drawn, **quiet)
    clear.click(lambda: ((), (), (0, 0)), None, [field, behaviour, pages], **quiet).then(draw, state, drawn, **quiet)

    def pick_behaviour(pages: tuple[int, int], event: gr.EventData) -> Any:
        return tuple(map(int, event.pick.split(","))), (pages[0], 0)

    def turn(at: int) -> Any:
        def turned(pages: tuple[int, int], event: gr.EventData) -> tuple[int, int]:
            return (max(0, int(event.page)), pages[1]) if at == 0 else (pages[0], max(0, int(event.page)))

        return turned

    groups.select(pick_behaviour, [pages], [behaviour, pages], **quiet).then(draw, state, drawn, **quiet)
    groups.click(turn(0), [pages], [pages], **quiet).then(draw, state, drawn, **quiet)
    pictures.click(turn(1), [pages], [pages], **quiet).then(draw, state, drawn, **quiet)
    pictures.select(_picked, None, [number], **quiet)

    @written
    def show(name: str | None, number: float | None) -> Markup:
        if name is None or number is None:
            return Markup("")
        finds = shared.seen.finds(name)
        return detail(finds.find(int(number)), name, shared.stamp(name), finds.models, finds.class_names)

    shown_now = number.change(show, [run, number], [one], api_name="picture", show_progress="hidden")
    shown_now.then(None, None, None, js=INTO_VIEW)

    def ask(verb: str) -> Any:
        def asked(name: str | None) -> Any:
            if not name:
                raise UserError("Choose a run first.")
            shared.jobs.start(verb, name, [str(shared.place.known(name))])
            return gr.Timer(active=True), note(f"diffgen {verb} has started.")

        return told(asked)

    replay.click(ask("replay"), [run], [timer, outcome], api_name="replay")
    shrink.click(ask("shrink"), [run], [timer, outcome], api_name="shrink")
    timer.tick(lambda name: came_out(shared, name), [run], [timer, outcome], **quiet)
    hidden = gr.Button(visible=False)
    hidden.click(lambda *given: as_json(shared, *given), filters, [gr.JSON(visible=False)], api_name="behaviours")


def _picked(event: gr.EventData) -> int:
    return int(event.pick)


def wanted_of(
    shown: str, verdict: str, operator: str, model: str, label: str, said: tuple[int | None, ...] = ()
) -> api.Wanted:
    """What the fields ask for."""
    return api.Wanted(
        shown=shown,  # type: ignore[arg-type]
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
        section("Who says what", table, f"{len(wide):,} pictures"),
        _groups(finds, lines, name, stamp, pages[0], chosen),
        _pictures(finds, numbers if chosen is None else chosen.rows, name, stamp, pages[1], chosen),
        gr.Button(visible=bool(field)),
    )


def _groups(
    finds: api.Finds,
    lines: tuple[api.BehaviourLine, ...],
    name: str,
    stamp: str,
    page: int,
    chosen: api.BehaviourLine | None,
) -> Markup:
    page = min(page, max(0, (len(lines) - 1) // BEHAVIOURS))
    names = finds.class_names
    one = Markup(
        '<button type="button" class="dg-group" data-pick="{}" aria-pressed="{}"><span class="dg-group-text">'
        '<b>{}</b><span>{}</span></span><span class="dg-group-pictures" aria-hidden="true">{}</span></button>'
    )
    here = lines[page * BEHAVIOURS : (page + 1) * BEHAVIOURS]
    pieces = iter(strip_pieces(name, stamp, [number for each in here for number in each.leading]))
    drawn = joined(
        one.format(
            ",".join(map(str, (*each.labels, each.cell))),
            "true" if each is chosen else "false",
            ", ".join(f"{role_name(at)}: {names[said]}" for at, said in enumerate(each.labels)),
            _about(each, len(finds.models)),
            joined(next(pieces) for _ in each.leading),
        )
        for each in here
    )
    if not lines:
        return section("Behaviours", nothing("No picture is like that; loosen a filter."))
    listed = Markup('<div class="dg-groups">{}</div>').format(drawn)
    return section(
        "Behaviours", listed + pager(page, BEHAVIOURS, len(lines), "behaviours"), "a way to disagree, and where"
    )


def _about(line: api.BehaviourLine, models: int) -> Markup:
    count = f"{len(line.rows):,} picture{'' if len(line.rows) == 1 else 's'}, cell {line.cell}"
    wrong = badge(who_is_wrong(line.verdict, models)) if line.verdict else badge("not named")
    return Markup("{} {}").format(count, wrong)


def _pictures(
    finds: api.Finds,
    numbers: Int64Array,
    name: str,
    stamp: str,
    page: int,
    chosen: api.BehaviourLine | None,
) -> Markup:
    if len(numbers) == 0:
        return Markup("")
    page = min(page, (len(numbers) - 1) // PICTURES)
    shown = numbers[page * PICTURES : (page + 1) * PICTURES]
    labels, wrong = finds.labels(shown), finds.triggers.faults[shown]
    tones = np.where(wrong.any(axis=1), "wrong", "plain").tolist()
    texts = [said(number, labels[at].tolist(), finds.class_names) for at, number in enumerate(shown.tolist())]
    title = "Pictures" if chosen is None else "Pictures of this behaviour"
    body = thumbnails(name, stamp, list(zip(shown.tolist(), texts, tones, strict=True)))
    return section(title, body + pager(page, PICTURES, len(numbers), "pictures"), "click one to see why")


def came_out(shared: Shared, name: str | None) -> tuple[Any, Markup]:
    """How far replay or shrink is, and what came of it."""
    job = shared.job(name, "replay", "shrink")
    if job is None:
        return gr.Timer(active=False), Markup("")
    if job.alive:
        return gr.skip(), note(f"diffgen {job.verb}: {job.state().get('stage') or 'starting'} ...")
    if job.problem:
        return gr.Timer(active=False), note(job.problem, "bad")
    found = job.result()
    if job.verb == "replay":
        text = f"{found['reproduced']:,} of {found['replayed']:,} disagreements were there again."
    else:
        text = f"{found['shrunk']:,} of {found['tried']:,} triggers were shrunk"
        text += f": from {found['before']:.1f} to {found['after']:.1f} grey levels." if found["shrunk"] else "."
    return gr.Timer(active=False), note(text, "good")


def as_json(
    shared: Shared, name: str | None, shown: str, verdict: str, operator: str, model: str, label: str
) -> dict[str, Any]:
    """What the tab shows, in numbers."""
    finds = shared.seen.finds(name or "")
    numbers = finds.numbers(wanted_of(shown, verdict, operator, model, label))
    return {
        "pictures": len(numbers),
        "first": numbers[:PICTURES].tolist(),
        "behaviours": [
            {"labels": list(each.labels), "cell": each.cell, "count": len(each.rows), "verdict": each.verdict}
            for each in finds.behaviours(numbers)[:BEHAVIOURS]
        ],
    }
