"""The tab on which people say what pictures show, and see what comes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import gradio as gr
from markupsafe import Markup

from diffgen import api
from diffgen.config import roles
from diffgen.errors import DiffgenError, UserError
from diffgen.labels.sheet import keys_of
from diffgen.ui.pieces import cards, joined, loading, note, nothing, section, table
from diffgen.ui.shared import EACH, LAST, QUIET, Shared, told, written
from diffgen.wording import count_of, percent


def selector(found: Mapping[str, Any]) -> Markup:
    """The share of right answers with it, of each model alone, and what choosing gains.

    Args:
        found: as :meth:`diffgen.SelectResult.as_dict` gives it.
    """
    models = sum(name.startswith("model_") for name in found["on_triggers"][0])
    names = roles(models)
    head = ("on", "pictures", *(f"{name} alone" for name in names), "with the selector", "best possible", "gain")
    keys = [*(f"model_{name.lower()}" for name in names), "ensemble", "oracle"]
    rows = [
        (
            each["name"],
            f"{each['pictures']:,}",
            *(percent(each[key]) for key in keys),
            f"{100 * each['gain']:+.1f} points",
        )
        for each in found["on_triggers"]
    ]
    for real in found["real"]:
        right = real["on_all"]
        shown = [percent(right[key]) if key in right else "" for key in (*names, "selector", "oracle")]
        gain = 100 * (right["selector"] - max(right[name] for name in names))
        rows.append((f"real images ({real['source']})", f"{real['images']:,}", *shown, f"{gain:+.1f} points"))
    text = f"Learnt from {count_of(found['examples'], 'labelled picture')}; the share that is answered right:"
    cost = found["cost"]
    share = f"{percent(abs(cost['saved']), 0)} {'less' if cost['saved'] >= 0 else 'more'} time"
    saved = f"The selector and one model take {share} than asking {'both' if models == 2 else 'all'}."
    return joined([note(text, "good"), table(head, rows), note(saved)])


INVALID = "invalid"
_MOST_BUTTONS = 60
# What draws the same parts does so in turn: else a drawing that was begun before a vote could be shown after its count.
_IN_TURN: dict[str, Any] = {"concurrency_id": "sheet", "concurrency_limit": 1}


def build(shared: Shared, run: gr.Dropdown, tab: gr.Tab) -> None:
    script = (files("diffgen.ui") / "assets" / "label.js").read_text(encoding="utf-8")
    with gr.Row(equal_height=False):
        with gr.Column(scale=6, min_width=320):
            person = gr.Textbox("", label="Who labels", placeholder="Ada", info="Each person labels alone, and blind.")
            sheet = gr.HTML(loading(), label="sheet", js_on_load=script, padding=False, elem_id="dg-sheet")
        with gr.Column(scale=4, min_width=320):
            people = gr.HTML(label="people", padding=False)
            with gr.Row():
                put = gr.Button("Put the labels into the run", variant="primary", size="sm", min_width=150)
                train = gr.Button("Train the selector", size="sm", min_width=150)
            outcome = gr.HTML(label="outcome", padding=False)
            worth = gr.HTML(label="selector", padding=False, elem_id="dg-selector")
            with gr.Accordion("The sheet", open=False):
                count = gr.Number(
                    0,  # Gradio shows a number that has no value as 0, too
                    label="Pictures",
                    precision=0,
                    minimum=0,
                    info="0: as many as a margin of 5 points asks for.",
                )
                with gr.Row():
                    draw = gr.Button("Draw a sheet", size="sm")
                    clear = gr.Button("Clear the sheet and its labels", size="sm", variant="stop")
    timer = gr.Timer(2.0, active=False)

    def all_of(name: str | None, who: str) -> tuple[Markup, Markup, Markup]:
        return sheet_html(shared, name, who), people_html(shared, name), known_html(shared, name)

    shown = [sheet, people, outcome]
    gr.on([run.change, tab.select, person.submit, person.blur], all_of, [run, person], shown, **{**EACH, **_IN_TURN})
    # of votes in quick succession the last is counted too
    sheet.input(lambda name: people_html(shared, name), [run], [people], **LAST, **_IN_TURN)

    def make(name: str | None, who: str, count: float | None) -> tuple[Markup, Markup, Markup]:
        made = shared.sheets.make(_chosen(name), None if not count else int(count))
        gr.Info(f"A sheet of {count_of(made, 'picture')} was drawn.", title="")
        return all_of(name, who)

    def forget(name: str | None, who: str) -> tuple[Markup, Markup, Markup]:
        shared.sheets.clear(_chosen(name))
        return all_of(name, who)

    draw.click(told(make), [run, person, count], shown, api_name="draw_sheet", **_IN_TURN)
    clear.click(
        told(forget),
        [run, person],
        shown,
        api_name=False,
        **_IN_TURN,
        js="(...all) => { if (!confirm('Clear the sheet, and what "
        "all people said on it?')) throw new Error('kept'); return all; }",
    )
    put.click(told(lambda name: _put(shared, name)), [run], [outcome], api_name="put_labels", **_IN_TURN)

    def learn(name: str | None) -> tuple[Any, Markup]:
        chosen = _chosen(name)
        shared.jobs.start("select", chosen, [str(shared.place.known(chosen)), "--force"])
        return gr.Timer(active=True), note("The selector is being trained.")

    train.click(told(learn), [run], [timer, worth], api_name="select")

    def learnt(name: str | None) -> tuple[Any, Markup]:
        return _learnt(shared, name)

    def entered(name: str | None) -> tuple[Any, Markup]:
        # it may come after a training was begun: the next look says whether there is something to look at
        return gr.Timer(active=True), learnt(name)[1]

    timer.tick(learnt, [run], [timer, worth], **QUIET)
    gr.on([run.change, tab.select], entered, [run], [timer, worth], **EACH)


def _chosen(name: str | None) -> str:
    if not name:
        raise UserError("Choose a run first.")
    return name


@written
def sheet_html(shared: Shared, name: str | None, who: str) -> Markup:
    """The picture that is to be labelled, and a key for each class."""
    if not name:
        return nothing("Choose a run above.")
    line = shared.line(name)
    if line is None or not line.figures:
        return nothing("A run can be labelled when its search has come to its end.")
    ids = shared.sheets.ids(name)
    if not ids:
        return nothing("No sheet yet: draw one under 'The sheet'.")
    if not who.strip():
        return note("Write who labels, and the first picture appears.")
    names = shared.seen.finds(name).class_names
    person = who.strip()
    # the version first: votes may be newer than it says, never older
    version = shared.sheets.version(name, person)
    said, drawn = shared.sheets.said(name, person), shared.sheets.drawn(name)
    about = {"run": name, "person": person, "ids": ids, "said": said, "version": version, "drawn": drawn}
    one = Markup(
        '<button type="button" class="dg-key" data-label="{}" data-key="{}" aria-pressed="false">'
        "<kbd>{}</kbd>{}</button>"
    )
    keys, invalid_key = keys_of(names)
    buttons = joined(
        one.format(label, key, key, label)
        for label, key in [*list(zip(names, keys, strict=True))[:_MOST_BUTTONS], (INVALID, invalid_key)]
    )
    by_name = Markup("")
    if len(names) > _MOST_BUTTONS:  # these have a button; all of them can be written
        by_name = Markup(
            '<p><label>Another class, by its name <input class="dg-by-name" list="dg-names" autocomplete="off"></label>'
            '<datalist id="dg-names">{}</datalist></p>'
        ).format(joined(Markup('<option value="{}"></option>').format(each) for each in names))
    return Markup(
        '<div class="dg-label" tabindex="0" data-sheet="{}" aria-label="labelling by keyboard">'
        '<div class="dg-progress-text"><b class="dg-label-at" aria-live="polite"></b>'
        '<span class="dg-label-done"></span></div><div class="dg-track"><div class="dg-fill"></div></div>'
        '<div class="dg-label-stage"><button type="button" class="dg-step-key" data-go="-1" '
        'aria-label="previous picture">\N{LEFTWARDS ARROW}</button><img class="dg-label-picture" alt="">'
        '<button type="button" class="dg-step-key" data-go="1" aria-label="next picture">\N{RIGHTWARDS ARROW}</button>'
        '</div><p class="dg-label-problem" role="alert"></p><p>What does it show? One key a picture; '
        "{} where it shows none of these; arrows go back and forth.</p>"
        '{}<div class="dg-keys">{}<button type="button" class="dg-key dg-no-label" data-label="" '
        'title="take the label away"><kbd>Del</kbd>no label</button></div></div>'
    ).format(json.dumps(about), invalid_key, by_name, buttons)


@written
def people_html(shared: Shared, name: str | None) -> Markup:
    """Who has labelled how many pictures."""
    if not name or shared.line(name) is None:
        return Markup("")
    count = len(shared.sheets.ids(name))
    rows = [(who, f"{done:,} of {count:,}") for who, done in shared.sheets.people(name).items()]
    if not rows:
        return section("People", nothing("Nobody has labelled yet. Two people who agree are worth more than one."))
    return section("People", table(("who", "labelled"), rows))


@written
def known_html(shared: Shared, name: str | None) -> Markup:
    """What is labelled in the run already."""
    line = shared.line(name)
    if not name or line is None or not line.figures:
        return Markup("")
    try:
        outcomes, sources = api.label_counts(shared.place.known(name))
    except DiffgenError:
        return Markup("")  # no valid trigger: the sheet says so
    if not any(sources.values()):
        return Markup("")
    return _outcomes(outcomes)


def _outcomes(outcomes: dict[str, int]) -> Markup:
    shown = [(f"{count:,}", what, "") for what, count in outcomes.items()]
    return section("In the run", cards(shown), "pictures with a label")


def _put(shared: Shared, name: str | None) -> Markup:
    found = shared.sheets.put(_chosen(name))
    classes = count_of(found.labelled, "picture has a class", "pictures have a class")
    rest = f"{count_of(found.invalid, 'shows', 'show')} none, {count_of(found.undecided, 'is', 'are')} undecided"
    parts = [f"{classes}, {rest}."]
    if found.kappa is not None:
        parts.append(f"{found.annotators} people; Cohen's kappa {found.kappa:.2f} ({_in_words(found.kappa)}).")
    elif found.annotators < 2:
        parts.append("With a second person, kappa says how far people agree.")
    return joined(
        [*(note(each, "good" if at == 0 else "plain") for at, each in enumerate(parts)), _outcomes(found.outcomes)]
    )


def _in_words(kappa: float) -> str:
    """Landis and Koch 1977, table 2."""
    words = ((0.8, "almost perfect"), (0.6, "substantial"), (0.4, "moderate"), (0.2, "fair"), (0.0, "slight"))
    return next((word for least, word in words if kappa > least), "poor")


def _learnt(shared: Shared, name: str | None) -> tuple[Any, Markup]:
    """Whether the selector of a run is being trained, and what it is worth: also after a reload."""
    job = shared.job(name, "select")
    if job is None:
        return gr.Timer(active=False), Markup("")
    if job.alive:
        return gr.Timer(active=True), note(
            f"The selector is being trained: {job.state().get('stage') or 'starting'} ..."
        )
    if job.problem:
        return gr.Timer(active=False), note(job.problem, "bad")
    return gr.Timer(active=False), selector(job.result())
