"""The tab that shows a search while it goes on, and stops or resumes it."""

from __future__ import annotations

import time
from typing import Any

import gradio as gr
from markupsafe import Markup

from diffgen import api
from diffgen.errors import UserError
from diffgen.tasks.classification import role_name
from diffgen.ui.finds import detail, matrix, said
from diffgen.ui.form import refusal
from diffgen.ui.jobs import INTERRUPTED, Job
from diffgen.ui.pieces import cards, curve, joined, loading, note, nothing, progress, report_link, section, thumbnails
from diffgen.ui.shared import EACH, LAST, QUIET, SEARCHES, Shared, choice, html, told, written
from diffgen.wording import percent

_SECONDS = 1.5  # between two looks
_NEWEST = 36  # finds that are shown
_MESSAGES = 8
# drawn anew every few seconds: no note, which would be read out each time
_WARNING = Markup('<p class="dg-note dg-warn">{}</p>')


# A fold that the user has opened stays open when the piece of the page is drawn anew.
_FOLDS = """
const open = new Set();
element.addEventListener('toggle', ({target}) => {
  if (!target.dataset.fold || !target.isConnected) return;
  if (target.open) open.add(target.dataset.fold); else open.delete(target.dataset.fold);
}, true);
watch('value', () => {
  for (const each of element.querySelectorAll('details[data-fold]')) each.open = open.has(each.dataset.fold);
});
"""


def build(shared: Shared, run: gr.Dropdown, tab: gr.Tab) -> None:
    with gr.Row(elem_classes="dg-buttons"):
        stop = gr.Button("Stop", variant="stop", size="sm", min_width=90, visible=False)
        resume = gr.Button("Resume", variant="primary", size="sm", min_width=90, visible=False)
        report = gr.HTML(label="report link", padding=False, min_height=0)
    state = gr.HTML(loading(), label="state", padding=False, js_on_load=_FOLDS)
    with gr.Row(equal_height=False):
        with gr.Column(scale=6, min_width=320):
            with gr.Row(visible=False) as pairs:
                rows = choice([("A", 0)], value=0, label="Down", min_width=100)
                columns = choice([("B", 1)], value=1, label="Across", min_width=100)
            table = gr.HTML(label="matrix", padding=False, elem_id="dg-live-matrix")
        with gr.Column(scale=5, min_width=320):
            curves = gr.HTML(label="curves", padding=False)
    finds = html(label="newest finds", elem_id="dg-live-finds")
    chosen = gr.Number(label="Trigger", precision=0, visible="hidden", elem_id="dg-live-trigger")
    one = gr.HTML(label="trigger", padding=False)
    timer = gr.Timer(_SECONDS)
    known = gr.State("")

    def tick(name: str | None, row: int, column: int, known: str) -> tuple[Any, ...]:
        stamp = fingerprint(shared, name, row, column)
        if stamp == known:
            return (gr.skip(),) * 9
        status, job = shared.status(name or ""), shared.job(name)
        alive = job is not None and job.alive
        can_resume = status in ("interrupted", "broken off") and not alive and shared.line(name) is not None
        stopping = job is not None and job.stopping
        buttons = gr.Button("Stop at once" if stopping else "Stop", visible=alive), gr.Button(visible=can_resume)
        return (*drawn(shared, name, row, column), *buttons, stamp)

    outputs = [state, table, curves, finds, pairs, report, stop, resume, known]
    seen = [run, rows, columns, known]
    timer.tick(tick, seen, outputs, **QUIET)
    changes = [run.change, rows.change, columns.change, tab.select]
    gr.on(changes, tick, seen, outputs, **EACH)

    def models_of(name: str | None) -> tuple[Any, Any, None, Markup]:
        line = shared.line(name)
        count = max(2, 0 if line is None else len(line.models))
        choices = [(f"{role_name(at)}: {line.models[at]}" if line else role_name(at), at) for at in range(count)]
        return gr.Dropdown(choices=choices, value=0), gr.Dropdown(choices=choices, value=1), None, Markup("")

    run.change(models_of, [run], [rows, columns, chosen, one], **EACH)

    def picked(event: gr.EventData) -> int:
        return int(event.pick)

    finds.select(picked, None, [chosen], **EACH)

    @written
    def show(name: str | None, number: float | None) -> Markup:
        if name is None or number is None:
            return Markup("")
        find = shared.seen.find(name, int(number))
        return detail(find, name, shared.stamp(name), shared.seen.sight(name).models, class_names(shared, name))

    chosen.change(show, [run, chosen], [one], api_name="trigger", show_progress="hidden")
    stop.click(told(lambda name: _stop(shared, name)), [run], None, api_name="stop").then(tick, seen, outputs, **LAST)
    resume.click(told(lambda name: _resume(shared, name)), [run], None, api_name="resume")


def _stop(shared: Shared, name: str | None) -> None:
    job = shared.job(name)
    if job is None or not job.alive:
        raise UserError("Nothing that this page started works on this run.")
    again = job.was_stopped
    job.stop()
    gr.Info("Ending at once." if again else _stopping(job, begun=shared.line(name) is not None), title="")


def _stopping(job: Job, *, begun: bool) -> str:
    """What becomes of a run that was stopped and is not over yet."""
    if job.verb not in SEARCHES:
        return f"Stopping: 'diffgen {job.verb}' ends, and the run stays as it is."
    if not begun:
        return "Stopping: the search has not begun, so that there is nothing to keep."
    return (
        "Stopping: no more is searched for; what was found is kept, and is judged and reported now. Press 'Stop at "
        "once' to leave that out."
    )


def _resume(shared: Shared, name: str | None) -> None:
    line = shared.line(name)
    if name is None or line is None:
        raise UserError("Choose the run that is to go on.")
    if line.status == "done":
        raise UserError("This run came to its end; nothing is left to go on with.")
    shared.jobs.start("check" if line.is_check else "compare", name, ["--resume", str(line.path)])
    gr.Info("The run goes on.", title="")


def fingerprint(shared: Shared, name: str | None, row: int, column: int) -> str:
    """Changes when there is something new to see."""
    job, line = shared.job(name), shared.line(name)
    state = {} if job is None else job.state()
    alive = job is not None and job.alive
    # while something runs, its clock goes on
    clock = int(time.time() / 5) if alive else 0
    known = line and (line.status, line.triggers, line.figures)
    warned = line and line.warnings
    stopping = job is not None and job.stopping
    return repr((name, row, column, known, warned, state.get("updated"), alive, stopping, clock))


def drawn(shared: Shared, name: str | None, row: int, column: int) -> tuple[Any, ...]:
    """State, matrix, curves, newest finds, whether models can be chosen, and the link to the report."""
    empty = Markup("")
    if not name:
        start = nothing("No run is chosen. Put one together under Run, or choose one above.")
        return start, empty, empty, empty, gr.Row(visible=False), empty
    line, job = shared.line(name), shared.job(name, *SEARCHES)
    state = joined([_beside(shared.job(name)), _state(line, job)])
    if line is None or line.status == "damaged":
        return state, empty, empty, empty, gr.Row(visible=False), empty
    try:
        sight, names = shared.seen.sight(name), class_names(shared, name)
    except UserError as error:
        return note(str(error), "bad"), empty, empty, empty, gr.Row(visible=False), empty
    count = len(sight.models)
    pair = (row if row < count else 0, column if column < count else 1)
    over = bool(line.figures)
    link = report_link(name)
    return (
        state,
        section(
            "Who says what",
            matrix(sight.labels, names, pair, what="disagreement", picks=False),
            "all disagreements so far",
        ),
        _curves(sight),
        _newest(shared, name, sight, names),
        gr.Row(visible=count > 2),
        link if over else empty,
    )


def _beside(job: Job | None) -> Markup:
    """That something else than a search works on the run, which Stop ends then."""
    if job is None or not job.alive or job.verb in SEARCHES:
        return Markup("")
    return note(_stopping(job, begun=True) if job.stopping else f"'diffgen {job.verb}' works on this run.")


def _state(line: api.RunLine | None, job: Job | None) -> Markup:
    parts: list[Markup] = []
    if job is not None and job.alive:
        parts.append(_stage(job.state(), begun=line is not None))
        if job.stopping:
            parts.append(_WARNING.format(_stopping(job, begun=line is not None)))
    elif line is None or line.status not in ("done", "running"):
        parts.append(_outcome(line, job))
    if line is not None and line.problem:
        parts.append(note(line.problem, "bad"))
    if line is not None:
        parts.append(_figures(line, {} if job is None else job.state().get("figures", {})))
    parts.append(_said({} if job is None else job.state(), () if line is None else line.warnings))
    return joined(parts)


def _outcome(line: api.RunLine | None, job: Job | None) -> Markup:
    """How a run that did not come to its end was stopped or broke off, and what is left of it."""
    problem = "" if job is None else job.problem
    if problem and not problem.startswith(INTERRUPTED):
        return refusal(problem, "warn" if line and line.status == "interrupted" else "bad")
    code = None if job is None else job.state().get("exit_code")
    over = "" if code is None else f" (exit code {code})"
    if line is None:
        said = f"It was stopped before the search began{over}; nothing was kept. Start it again under Run."
        return note(said, "warn") if problem else Markup("")
    if line.status == "interrupted":
        said = (
            f"It was stopped{over}. What was found until then is kept, judged and reported; Resume goes on from there."
        )
        return note(said, "warn")
    said = (
        f"It was stopped at once{over}. What was found until then is kept, but not judged; Resume goes on from there."
    )
    return note(said, "warn") if problem else Markup("")


def _stage(state: dict[str, Any], *, begun: bool) -> Markup:
    stage = str(state.get("stage") or "")
    if not stage:  # between two of them
        return progress("Working on the run" if begun else "Preparing", None, "")
    total, done = state.get("total"), state.get("done") or 0
    share = min(1.0, done / total) if total else None
    waited = time.time() - float(state.get("since") or time.time())
    left = ""
    if share is not None and 0.02 < share < 1:
        left = f", about {_time(waited * (1 / share - 1))} left"
    return progress(stage, share, f"{'' if share is None else percent(share, 0) + ', '}{_time(waited)}{left}")


def _time(seconds: float) -> str:
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60:02d} s"


def _figures(line: api.RunLine, now: dict[str, float]) -> Markup:
    found = dict(line.figures or {})
    if not found:
        shown = [
            (f"{round(now['queries']):,}" if "queries" in now else "", "queries", _rate(now, "queries")),
            (f"{line.triggers:,}", "disagreements written", _rate(now, "triggers")),
            (f"{round(now['behaviours']):,}" if "behaviours" in now else "", "behaviours", "in the search"),
            (percent(now["valid_share"], 0) if "valid_share" in now else "", "pass the filters", "of a sample"),
        ]
        return cards(each for each in shown if each[0])
    told = (
        ("queries", "queries", f"in {_time(found['seconds'])}" if "seconds" in found else ""),
        ("triggers", "disagreements", "distinct pictures"),
        ("distinct_valid_triggers", "valid finds", "without near-duplicates"),
        ("recognised_distinct_triggers", "recognised", "the jury says who is wrong"),
        ("behaviours", "behaviours", "ways to disagree"),
    )
    return cards((f"{round(found[key]):,}", what, more) for key, what, more in told if key in found)


def _rate(now: dict[str, float], name: str) -> str:
    rate = now.get(f"{name}_per_s")
    return "" if rate is None else f"{rate:,.0f} a second"


def _said(state: dict[str, Any], warned: tuple[str, ...]) -> Markup:
    """What it warns of, to be seen at once, since figures may mean nothing then; the rest behind a click.

    Args:
        state: of what the page started, or nothing.
        warned: what the run itself keeps of its warnings, whoever started it.
    """
    messages = [each for each in state.get("messages", []) if each["level"] != "detail"]
    told = [each["text"] for each in messages if each["level"] == "warning"]
    # that it is being stopped, or was, the page says in its own words
    told = [each for each in dict.fromkeys([*warned, *told]) if not each.startswith("Stopping: ")]
    warnings = [_WARNING.format(each) for each in told]
    answers = [Markup("<p><b>{}</b></p>").format(each["text"]) for each in messages if each["level"] == "answer"]
    plain = [each["text"] for each in messages if each["level"] not in ("warning", "answer")][-_MESSAGES:]
    if not plain:
        return joined([*answers, *warnings])
    items = joined(Markup("<li>{}</li>").format(text) for text in reversed(plain))
    rest = Markup('<details class="dg-said" data-fold="said"><summary>What it says ({})</summary><ul>{}</ul></details>')
    return joined([*answers, *warnings, rest.format(len(plain), items)])


def _curves(sight: api.SearchSnapshot) -> Markup:
    triggers = [(query, count) for query, count, _ in sight.curve]
    kinds = [(query, count) for query, _, count in sight.curve]
    return joined(
        [
            curve(triggers, "Disagreements", "queries", "a"),
            curve(kinds, "Different answers", "queries", "b"),
        ]
    )


def _newest(shared: Shared, name: str, sight: api.SearchSnapshot, names: tuple[str, ...]) -> Markup:
    numbers = range(sight.triggers - 1, max(-1, sight.triggers - 1 - _NEWEST), -1)
    if not numbers:
        return Markup("")
    shown = [(number, said(number, sight.labels[number].tolist(), names), "plain") for number in numbers]
    return section("Newest finds", thumbnails(name, shared.stamp(name), shown), "click one to see why")


def class_names(shared: Shared, name: str) -> tuple[str, ...]:
    """Of a run: they are known when its search has come to its end."""
    line = shared.line(name)
    if line is None or not line.figures:
        return ()
    return shared.seen.finds(name).class_names
