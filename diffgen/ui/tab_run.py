"""The tab on which a comparison is put together and started."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import gradio as gr
from markupsafe import Markup

from diffgen import api
from diffgen.config import MAX_MODELS, Budget, CompareConfig
from diffgen.config.schema import every_setting
from diffgen.errors import DiffgenError, UserError
from diffgen.runs.files import write_whole
from diffgen.tasks.classification import role_name
from diffgen.ui import form
from diffgen.ui.choosing import Pick, doubted, inspected, previewed, tree
from diffgen.ui.pieces import joined, note, nothing
from diffgen.ui.shared import EACH, QUIET, Shared, html, told, written

_USUAL = CompareConfig()
# For as long as the browser's tab is open; the address of a server may hold a key, so that such a field is not kept.
_KEEP = """(...said) => {
  sessionStorage.setItem('diffgen-run', JSON.stringify(said.map((each) => String(each).includes('://') ? '' : each)));
}"""
_KEPT = "(...said) => JSON.parse(sessionStorage.getItem('diffgen-run')) ?? said"


Found: TypeAlias = dict[tuple[str, str], api.Inspection]


class Choices(NamedTuple):
    """What the form says besides the settings that the schema describes."""

    models: str
    data: str
    technique: str
    preset: str
    budget: str
    seed: float
    name: str
    more: str


class Wish(NamedTuple):
    """A comparison that can be started."""

    models: tuple[str, ...]
    data: str
    name: str
    values: dict[str, Any]
    lines: list[str]
    words: list[str]


def wish(shared: Shared, choices: Choices, values: tuple[Any, ...]) -> Wish:
    """What the form asks for, checked as far as it can be at once. UserError if it cannot be."""
    models = [shared.place.given(line, "model") for line in (choices.models or "").splitlines() if line.strip()]
    if not 2 <= len(models) <= MAX_MODELS:
        raise UserError(f"A comparison needs 2 to {MAX_MODELS} models, one a line; {len(models)} are given.")
    place = shared.place
    data = place.given(choices.data, "data")
    name = choices.name.strip() or shared.free_name("-vs-".join(Path(each).stem for each in models[:2]))
    folder = shared.place.run(name)
    if folder.exists():
        raise UserError(f"There is a run {name!r} already; write another name, or none.")
    given = {
        "technique": choices.technique,
        "preset": choices.preset.strip(),
        "budget": str(Budget.parse(choices.budget)),
        "seed": int(choices.seed or 0),
    }
    settings = {key: value for key, value in given.items() if value and str(value) != str(getattr(_USUAL, key))}
    settings |= form.said(form.fields(), values)
    lines = form.more(choices.more, place)
    form.check_settings(settings, lines)
    words = [*models, "--data", data, "-o", str(folder), *form.options(settings, lines)]
    return Wish(tuple(models), data, name, settings, lines, words)


def build(shared: Shared, page: gr.Blocks, run: gr.Dropdown, tabs: gr.Tabs) -> None:
    """Draw the tab; a run that is started becomes the chosen one, and what was typed is there after a reload."""
    place = shared.place

    def pick_from(what: Literal["model", "data"]) -> Any:
        """What can be picked, as it is when the page is opened and not when it was started."""
        named = {"model": "models", "data": "images"}[what]
        with gr.Accordion(f"Pick {named} from a folder", open=False):
            return html(written(partial(tree, place, "", what)), label=f"folders of {named}", elem_id=f"dg-tree-{what}")

    with gr.Row(equal_height=False):
        with gr.Column(scale=5, min_width=320):
            gr.Markdown("### 1 · Models", elem_classes="dg-step")
            models = gr.Textbox(
                label="Models, one a line: A, B, and so on",
                info=f"A file below {', '.join(map(str, place.files))}, or the address of a server.",
                lines=3,
                max_lines=MAX_MODELS,
                placeholder="models/float.onnx\nmodels/int8.onnx",
                elem_id="dg-models",
            )
            with gr.Row():
                drop = gr.File(label="Drop model files here", file_count="multiple", type="filepath", height=140)
            model_tree = pick_from("model")
            about = html(nothing("What each model is and wants appears here."), label="models", elem_id="dg-about")
        with gr.Column(scale=5, min_width=320):
            gr.Markdown("### 2 · Real images", elem_classes="dg-step")
            data = gr.Textbox(
                label="Data",
                info="A folder, zip, .npz or .parquet file below the same folders; digits or torchvision:CIFAR10.",
                placeholder="digits:test",
                elem_id="dg-data",
            )
            names = ["digits:test", "torchvision:MNIST", "torchvision:CIFAR10"]
            well_known = gr.Examples([[each] for each in names], [data], label="Well known")
            drop_data = gr.File(label="Drop a .zip, .npz or .parquet file here", type="filepath", height=140)
            data_tree = pick_from("data")
            sheet = gr.HTML(nothing("A contact sheet of the images appears here."), label="data", padding=False)
    gr.Markdown("### 3 · Search", elem_classes="dg-step")
    with gr.Row():
        budget = gr.Textbox(
            str(_USUAL.budget), label="Budget", info="Seconds, minutes, or queries: 60s, 5m, 20000q.", min_width=160
        )
        seed = gr.Number(
            _USUAL.seed, label="Seed", precision=0, minimum=0, info="The same seed, the same run.", min_width=160
        )
        name = gr.Textbox(label="Name of the run", info="Empty: made from the models.", min_width=160)
    with gr.Accordion("More settings", open=False):
        explained = {each.key: each.about for each in every_setting(CompareConfig)}
        techniques = api.part_lines()["--technique"]
        technique = gr.Dropdown(
            list(techniques),
            value=_USUAL.technique,
            label="Technique",
            info=" ".join([explained["technique"], *(f"{name}: {line}" for name, line in techniques.items())]),
        )
        preset = gr.Textbox(_USUAL.preset, label="Preset", info=explained["preset"])
        own = _fields(form.fields())
        more = gr.Textbox(
            label="Every other setting, NAME=VALUE, one a line",
            placeholder="search.niches=none",
            lines=2,
            info="diffgen compare --help-all names them.",
        )
    with gr.Row():
        start = gr.Button("Start the search", variant="primary", size="lg", elem_id="dg-start")
    with gr.Group(visible=False) as doubt:
        why = gr.HTML(label="doubt", elem_id="dg-doubt")
        with gr.Row():
            leave = gr.Button("Do not start", size="sm")
            anyway = gr.Button("Start all the same", variant="stop", size="sm")
    found = gr.State({})  # model and data -> what was found out of it
    with gr.Accordion("The same without this page", open=False), gr.Row():
        line = gr.Code(label="In a terminal", language="shell", interactive=False, wrap_lines=True, lines=2)
        program = gr.Code(label="In Python", language="python", interactive=False)
    asked: list[Any] = [models, data, technique, preset, budget, seed, name, more, *own]

    def look(models: str, data: str) -> Iterator[tuple[Markup, Markup, Found]]:
        yield from looked_at(shared, models, data)

    # one after the other: what was asked last is also what is seen last, and a start knows what was seen
    in_turn: dict[str, Any] = {"concurrency_id": "look", "concurrency_limit": 1}
    looks: dict[str, Any] = {"show_progress": "minimal", **in_turn}
    again: dict[str, Any] = {"api_name": False, "trigger_mode": "always_last", **looks}
    seen = look, [models, data], [about, sheet, found]
    gr.on([models.blur, models.submit, data.blur, data.submit], *seen, **{**again, "api_name": "inspect"})
    well_known.load_input_event.then(*seen, **again)

    def feed(data: str, event: gr.EventData) -> Any:
        model = place.given(str(event.pick), "model")
        api.inspect(model, data=place.given(data, "data"), write=True, force=True)
        return gr.Group(visible=False)

    about.select(told(feed), [data], [doubt], api_name=False, **looks).success(*seen, **again)

    def take(files: list[str] | None, models: str) -> str:
        return added(models, [kept(shared, each) for each in files or ()])

    drop.upload(told(take), [drop, models], [models], api_name=False).then(*seen, **again)
    drop_data.upload(told(lambda file: kept(shared, file)), [drop_data], [data], api_name=False).then(*seen, **again)

    def pick_model(models: str, event: gr.EventData) -> tuple[Any, str]:
        what, path = Pick.of(str(event.pick))
        return (tree(place, path, "model"), models) if what == "open" else (gr.skip(), added(models, [path]))

    def pick_data(data: str, event: gr.EventData) -> tuple[Any, str]:
        what, path = Pick.of(str(event.pick))
        return (tree(place, path, "data"), data) if what == "open" else (gr.skip(), path)

    model_tree.select(told(pick_model), [models], [model_tree, models], **EACH).then(*seen, **again)
    data_tree.select(told(pick_data), [data], [data_tree, data], **EACH).then(*seen, **again)

    def copies(*given: Any) -> tuple[str, str]:
        try:
            found = wish(shared, Choices(*given[:8]), given[8:])
        except DiffgenError as error:
            return f"# {error}", f"# {error}"
        output = str(place.runs / found.name)
        return (
            shlex.join(["diffgen", "compare", *found.words]),
            form.python(found.models, found.data, output, found.values, found.lines),
        )

    gr.on(
        [each.change for each in asked],
        copies,
        asked,
        [line, program],
        api_name="command",
        show_progress="hidden",
        trigger_mode="always_last",
    )

    def begin(*given: Any) -> tuple[Any, ...]:
        wished = wish(shared, Choices(*given[:8]), given[8:])
        shared.jobs.start("compare", wished.name, wished.words)
        return gr.Dropdown(choices=shared.names(), value=wished.name), gr.Tabs(selected="live"), gr.Group(visible=False)

    def begin_unless(known: Found, *given: Any) -> tuple[Any, ...]:
        doubts = joined(at_chance(wish(shared, Choices(*given[:8]), given[8:]), known))
        if doubts:
            return gr.skip(), gr.skip(), gr.Group(visible=True), doubts
        return *begin(*given), ""

    start.click(told(begin_unless), [found, *asked], [run, tabs, doubt, why], api_name="start", **in_turn)
    anyway.click(told(begin), asked, [run, tabs, doubt], api_name="start_anyway")
    leave.click(lambda: gr.Group(visible=False), None, [doubt], **QUIET)
    typed = [models, data, technique, preset, budget, seed, name]
    page.load(None, typed, typed, js=_KEPT)
    gr.on([each.change for each in typed], None, typed, None, js=_KEEP)


def _fields(fields: tuple[form.Field, ...]) -> list[Any]:
    """A component for each field, three in a row."""
    made: list[Any] = []
    for at in range(0, len(fields), 3):
        with gr.Row():
            made += [component(each) for each in fields[at : at + 3]]
    return made


def component(field: form.Field) -> Any:
    """What a field is on the page."""
    setting = field.setting
    about: dict[str, Any] = {"label": field.label, "info": setting.about, "min_width": 220}
    if field.look == "switch":
        return gr.Checkbox(bool(field.start), **about)
    if field.look == "choice":
        choices = [("as usual", "")] if setting.optional else []
        return gr.Dropdown([*choices, *setting.choices], value=field.start or "", **about)
    if field.look == "slider":
        low, high, step = field.ends
        return gr.Slider(low, high, value=field.start, step=step, **about)
    if field.look == "number":
        return gr.Number(field.start, **about)
    return gr.Textbox(field.start, placeholder="as usual", **about)


def at_chance(wish: Wish, known: Found) -> Iterator[Markup]:
    """Of each model that is hardly right more often than by guessing as it is fed, a sentence."""
    if form.layer(wish.values, wish.lines).get("data_labels") == "ignore":
        return
    for index, model in enumerate(wish.models):
        try:
            found = known.get((model, wish.data)) or api.inspect(model, data=wish.data)
        except DiffgenError:
            continue  # the run says it, with all of its settings
        if found.now_at_chance:
            yield doubted(index, found)


def looked_at(shared: Shared, models: str, data: str) -> Iterator[tuple[Markup, Markup, Found]]:
    """What each model is, and what the data look like, as far as it is known by now."""
    cards: list[Markup] = []
    known: Found = {}
    sheet = nothing("A contact sheet of the images appears here.")
    source = None
    if (data or "").strip():
        try:
            source = shared.place.given(data, "data")
            sheet = previewed(api.preview(source))
        except DiffgenError as error:
            source, sheet = None, note(str(error), "bad")
    paths = [line for line in (models or "").splitlines() if line.strip()]
    if not paths:
        yield nothing("What each model is and wants appears here."), sheet, known
        return
    for index, path in enumerate(paths[:MAX_MODELS]):
        waiting = nothing(f"Looking at {role_name(index)} ...") if source else note("Say which images, too.")
        yield joined([*cards, waiting]), sheet, known
        if source is None:
            return
        try:
            model = shared.place.given(path, "model")
            known[model, source] = api.inspect(model, data=source)
            cards.append(inspected(index, known[model, source]))
        except DiffgenError as error:
            cards.append(note(f"{role_name(index)}: {error}", "bad"))
    yield joined(cards), sheet, known


def added(models: str, paths: list[str]) -> str:
    """Lines of models with more of them at the end, none twice."""
    return "\n".join(dict.fromkeys([*filter(None, (models or "").splitlines()), *paths]))


def kept(shared: Shared, file: str) -> str:
    """Where a dropped file stays: beside the runs, since a run that is resumed opens it again."""
    source = Path(file)
    target = shared.place.own("uploads", "kept", source.parent.name, source.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, lambda temporary: shutil.copyfile(source, temporary), durable=False)
    return str(target)
