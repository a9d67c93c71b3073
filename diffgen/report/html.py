"""The report as one HTML file that opens from disk and loads nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from functools import cache, partial
from itertools import zip_longest
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from diffgen.config.layers import flattened
from diffgen.report import gallery, gate, line, selection, tables, wording
from diffgen.report.cards import display_size
from diffgen.report.charts import operator_charts, progress_chart, score_histogram
from diffgen.report.data import FilterView, ReportData, VerdictData
from diffgen.tasks.classification import MATRIX_CLASSES, role_name
from diffgen.types import UInt8Array
from diffgen.wording import count_of, verdicts_rest_on

#: Width in CSS pixels that thumbnails come close to.
_THUMBNAIL = 96

#: Of longer lists among the settings, such as class names, only so many entries are shown.
_LONG_LIST, _SHOWN_OF_LIST = 30, 3

#: Longer class names stand above their bars and turned by 90 degrees above their columns.
_SHORT_NAME = 3

_MATRIX_TITLES = {"generated picture": "Generated", "changed real image": "Changed"}
_PARTS = (
    ("gate", "Verdict"),
    ("line", "The published line"),
    ("cause", "Probable cause"),
    ("models", "Model by model"),
    ("gallery", "Pictures"),
    ("jury", "Who says it"),
    ("matrix", "Who says what"),
    ("operators", "Each change"),
    ("shrunk", "Smallest steps"),
    ("preflight", "Real images first"),
    ("real", "Real disagreements"),
    ("selector", "Which model to trust"),
    ("search", "Search"),
    ("validity", "Validity"),
    ("generator", "Generator"),
    ("settings", "Settings"),
)


def render_html(data: ReportData) -> str:
    """The report page.

    Everything that comes from the user (names, paths, commands) is escaped, and the page forbids the browser to load
    anything or to run another script than its own. Equal data gives equal text.

    Args:
        data: what to show; any list and array may be empty.

    Returns:
        a whole HTML document; write it as UTF-8.
    """
    many = tables.make_many(data)
    environment = make_environment() if many is None else make_environment(role_name(len(data.model_names) - 1))
    script, style = asset(environment, "script.js"), asset(environment, "style.css")
    if many is not None:
        script = Markup("\n").join((script, asset(environment, "many.js")))
        style = Markup("\n").join((style, asset(environment, "many.css")))
        style = style.replace("calc(var(--models) + 1)", str(len(data.model_names) + 1))  # grids count no variables
    shown, names = gallery.make_gallery(data), data.class_names
    listed = len(data.class_names) > MATRIX_CLASSES
    generated_pairs, real_pairs = _pair_lists(data) if listed else _matrices(data)
    page = environment.get_template("report.html.j2").render(
        data=data,
        style=style,
        script=script,
        many=many,
        script_hash=_hash_for_policy(script),
        picture_size=_picture_size(data),
        long_names=max(map(len, data.class_names), default=0) > _SHORT_NAME,
        parts=_parts(data),
        pairs=gallery.make_pairs(data),
        seen=gallery.make_seen(data.cause, names),
        headline=wording.headline(data),
        faults=wording.larger_first(data.results.faults or {}),
        glance=_glance(shown),
        listed=listed,
        generated_pairs=generated_pairs,
        generated_title=_pairs_title(_MATRIX_TITLES.get(data.noun, "Found"), generated_pairs, "picture"),
        real_pairs=real_pairs,
        real_title=_pairs_title("Real", real_pairs, "image"),
        gallery=shown,
        filters=[sorted({(group.labels[at], names[group.labels[at]]) for group in shown.groups}) for at in (0, 1)],
        real_cards=gallery.make_cards(
            data, data.real_disagreements, "real image", gallery.REAL_PICTURES, gallery.REAL_BYTES
        ),
        rejected_cards=gallery.make_cards(
            data, data.rejected, "rejected trigger", gallery.REJECTED_PICTURES, gallery.REJECTED_BYTES
        ),
        accepted_cards=gallery.make_cards(
            data, data.accepted, "trigger", gallery.REJECTED_PICTURES, gallery.REJECTED_BYTES
        ),
        near_duplicates=wording.near_duplicates(data),
        samples=gallery.make_samples(data.samples),
        progress=_progress(data),
        operator_charts=operator_charts(data.operators),
        verdict=None if data.gate is None else gate.verdict(data.gate),
        gate_groups=gate.make_gate(data),
        selection=None if data.selection is None else selection.make_selection(data.selection, data.class_names),
        filter_charts=_filter_charts(data),
        settings=tuple(settings_sections(data.settings)),
        line=line.make_line(data),
        sketch=line.is_sketch(data),
    )
    return wording.clean_text(page)


def render_verdict(data: VerdictData) -> str:
    """The page of a check whose search did not come to its end: what was measured until then, and why it broke off.

    As :func:`render_html`, without a script: there is nothing on it to choose from.
    """
    environment = make_environment()
    pictures = [picture for each in data.gate.behaviours for picture in each.pictures]
    page = environment.get_template("verdict.html.j2").render(
        data=data,
        style=asset(environment, "style.css"),
        script_hash="",
        picture_size=display_size(pictures[0].image, _THUMBNAIL) if pictures else (_THUMBNAIL, _THUMBNAIL),
        long_names=max(map(len, data.class_names), default=0) > _SHORT_NAME,
        verdict=gate.verdict(data.gate),
        gate_groups=gate.make_gate(data),
        seen=gallery.make_seen(data.cause, data.class_names),
        settings=tuple(settings_sections(data.settings)),
    )
    return wording.clean_text(page)


def _parts(data: ReportData) -> list[tuple[str, str]]:
    """The parts of the page that this run has something for."""
    juried = data.results.jury is not None or bool(data.results.no_jury)
    there = {
        "gate": data.gate is not None,
        "line": bool(line.make_line(data)),
        "cause": data.cause is not None,
        "models": data.results.many is not None,
        "jury": juried,
        "operators": data.operators is not None,
        "shrunk": bool(data.shrunk),
        "selector": data.selection is not None,
    }
    parts = [part for part in _PARTS if there.get(part[0], True)]
    return [
        ("generator", "Pictures' origin") if data.results.mutated and part[0] == "generator" else part for part in parts
    ]


@cache
def make_environment(last: str = "C") -> Environment:
    """Where the templates of all pages are found, compiled once, with their filters; ``last`` is the last model."""
    environment = Environment(
        loader=PackageLoader("diffgen.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        badges=partial(_badges, last=last),
        capitalised=wording.capitalised,
        count_of=count_of,
        duration=wording.duration,
        figure=wording.figure,
        number=wording.number,
        percent=wording.percent,
        rest_on=verdicts_rest_on,
        share=lambda value: f"{min(1.0, max(0.0, value)):.4f}",
    )
    return environment


def asset(environment: Environment, name: str) -> Markup:
    """A template file that is no template, which no page escapes; the loader also finds it inside a zipped package."""
    assert environment.loader is not None
    return Markup(environment.loader.get_source(environment, name)[0].strip().replace("\r\n", "\n"))


def _hash_for_policy(script: str) -> str:
    """What the content security policy wants to know of the one script that may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def _badges(sentence: str, last: str) -> Markup:
    """The single letters A, B, ... up to the ``last`` one of one of our own sentences as coloured marks."""
    marked = re.sub(
        rf"\b([A-{last}])\b", lambda found: f'<b class="badge {found[1].lower()}">{found[1]}</b>', str(escape(sentence))
    )
    # "A and B" stays on one line.
    return Markup(re.sub(r"<b [^>]*>A</b> and <b [^>]*>B</b>,?", r'<span class="together">\g<0></span>', marked))


def _picture_size(data: ReportData) -> tuple[int, int]:
    """Width and height of a thumbnail; all pictures of a run have the same shape."""
    shape_of: UInt8Array | None = None
    pictures = [*(picture for group in data.groups for picture in group.pictures), *data.real_disagreements]
    if pictures:
        shape_of = pictures[0].image
    elif len(data.samples):
        shape_of = data.samples[0]
    return (_THUMBNAIL, _THUMBNAIL) if shape_of is None else display_size(shape_of, _THUMBNAIL)


def _glance(shown: gallery.Gallery) -> tuple[gallery.GroupView, ...]:
    """The most frequent behaviour of the first label pairs, the verdicts in turn; what has none only where all have."""
    parts = [part for part in shown.parts if not part.folded] or list(shown.parts)
    columns = []
    for part in parts:
        first: dict[tuple[int, ...], gallery.GroupView] = {}
        for group in part.groups:
            first.setdefault(group.labels, group)
        columns.append(list(first.values()))
    turns = [group for row in zip_longest(*columns) for group in row if group is not None]
    return tuple(turns[: gallery.GLANCE_PICTURES])


def _matrices(data: ReportData) -> tuple[tables.MatrixView, tables.MatrixView]:
    """Who says what, as tables that can be compared side by side."""
    generated, real = data.pairs.matrix(), data.real_pairs.matrix()
    rows, columns = tables.axes((generated, real), data.class_names)
    return (
        tables.matrix_view(generated, rows, columns, f"{data.noun}s"),
        tables.matrix_view(real, rows, columns, "real images"),
    )


def _pair_lists(data: ReportData) -> tuple[tables.PairList, tables.PairList]:
    """The same as lists of the most frequent pairs, for many classes."""
    return (
        tables.pair_list(data.pairs, data.class_names, f"{data.noun}s"),
        tables.pair_list(data.real_pairs, data.class_names, "real images"),
    )


def _pairs_title(kind: str, view: tables.MatrixView | tables.PairList, noun: str) -> str:
    if not view.total:
        return f"{kind}: none"
    return f"{kind}: {count_of(view.total, noun)} in {count_of(view.pairs, 'label pair')}"


def _progress(data: ReportData) -> tuple[tuple[str, tuple[tuple[str, str, Markup], ...]], ...]:
    """Per x axis its charts as (title, last value, SVG)."""
    history = data.results.history
    if not history.get("queries"):
        return ()
    tabs = []
    for by, key in (("queries", "queries"), ("time", "seconds")):
        x = history.get(key, [])
        charts = []
        for series, title in (("triggers", "triggers"), ("behaviours", "behaviours"), ("label_pairs", "label pairs")):
            y = history.get(series, [])
            if not x or len(x) != len(y):
                continue
            last = wording.number(y[-1])
            told = f"{title} found over {by}: {last} at the end"
            chart = progress_chart(x, y, x_label=key, title=told, name=f"{by}-{series}")
            charts.append((title, last, Markup(chart)))
        if charts:
            tabs.append((by, tuple(charts)))
    return tuple(tabs)


def _filter_charts(data: ReportData) -> tuple[tuple[FilterView, Markup], ...]:
    charts = []
    for index, view in enumerate(data.filters):
        title = f"scores of {view.name}: triggers and held-out real images, threshold {wording.figure(view.threshold)}"
        chart = score_histogram(
            view.trigger_scores, view.real_scores, view.threshold, title=title, name=f"filter-{index}"
        )
        charts.append((view, Markup(chart)))
    return tuple(charts)


def settings_sections(settings: dict[str, Any]) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Section -> entries as text; what stands outside a section comes first."""
    outside = tuple((name, _value(value)) for name, value in settings.items() if not isinstance(value, dict))
    if outside:
        yield "run", outside
    for name, value in settings.items():
        if isinstance(value, dict):
            yield name, tuple((key, _value(entry)) for key, entry in flattened(value))


def _value(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(_value(entry) for entry in _cut(value)) or "none"
    return str(_cut(value))


def _cut(value: Any) -> Any:
    """The same without the end of long lists."""
    if isinstance(value, dict):
        return {name: _cut(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)) and len(value) > _LONG_LIST:
        return [*value[:_SHOWN_OF_LIST], f"... ({len(value):,} in all)"]
    return value
