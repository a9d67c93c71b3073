"""The summary of a run as Markdown, short enough for a pull request or a log."""

from __future__ import annotations

import html
import re

from diffgen.report import wording
from diffgen.report.data import ReportData
from diffgen.report.line import make_line
from diffgen.report.tables import make_many
from diffgen.tasks.classification import role_name
from diffgen.wording import count_of, verdicts_rest_on

_MAX_PAIRS = 10
#: What Markdown, or HTML inside it, could read as markup.
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~^$@:])")


def render_markdown(data: ReportData) -> str:
    """``summary.md``: headline, numbers, most frequent label pairs, validity, provenance. Equal data gives equal text.

    Names and paths of the user are escaped: they show as they are and never as markup.
    """
    headline = wording.headline(data)
    lines = [f"# diffgen: {escape_markdown(data.run)}", ""]
    for sentence in data.preflight.warnings:
        lines += [f"> **Warning:** {escape_markdown(sentence)}", ""]
    lines += [f"**{headline.sentence}**", ""]
    lines += [f"- {role_name(index)}: {escape_markdown(name)}" for index, name in enumerate(data.model_names)]
    lines += [f"- data: {escape_markdown(data.data_name)}", ""]
    for sentence in headline.alerts:
        lines += [f"> **Warning:** {sentence}", ""]
    jury, missing = data.results.jury, data.results.no_jury
    who = [] if jury is None else [str(jury)]
    if data.results.verdicts_rest_on is not None:
        who.append(f"The verdicts rest on: {verdicts_rest_on(data.results.verdicts_rest_on)}.")
    if missing and wording.nobody_named(missing) not in headline.also:
        who.append(missing)
    for sentence in (*headline.also, *headline.meaning, *headline.notes, *who):
        lines += [sentence, ""]
    lines += _numbers(data) + _line(data) + _pairs(data) + _validity(data) + _provenance(data)
    return wording.clean_text("\n".join(lines).rstrip() + "\n")


def escape_markdown(text: str) -> str:
    """``text`` on one line, with everything that Markdown or HTML would interpret made harmless."""
    one_line = " ".join(text.split())
    return _SPECIAL.sub(r"\\\1", html.escape(one_line, quote=False))


def _numbers(data: ReportData) -> list[str]:
    pre, found = data.preflight, data.results
    rows = [
        (
            "valid triggers",
            f"{wording.number(data.headline_count)} of {count_of(found.triggers, 'trigger')}",
        ),
        (
            "behaviours",
            f"{wording.number(found.behaviours)} in {count_of(found.label_pairs, 'label pair')}",
        ),
        *_discovery(data),
        ("queries", f"{wording.number(found.queries)} in {wording.duration(found.seconds)}"),
        ("agreement on real images", f"{wording.percent(pre.agreement)} of {wording.number(pre.images)}"),
        ("real images with a disagreement", wording.number(data.real_disagreement_count)),
    ]
    for measure, shares in (("accuracy", pre.accuracy), (pre.measure, pre.known_scores)):
        if shares is not None:
            of = ", of ".join(role_name(index) for index in range(len(shares)))
            rows.append((f"{measure} of {of}", ", ".join(wording.percent(value) for value in shares)))
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows), ""]


def _line(data: ReportData) -> list[str]:
    """The stages of the published line, where the run went it."""
    rows = [f"| {row.section} | {row.title} | {escape_markdown(row.text)} |" for row in make_line(data)]
    return ["| section of the paper | stage | in this run |", "|---|---|---|", *rows, ""] if rows else []


def _discovery(data: ReportData) -> list[tuple[str, str]]:
    found = data.results.discovery
    if data.results.behaviours == 0:
        return []
    return [
        ("behaviours, lower bound of all", wording.number(data.results.behaviours_at_least)),
        (f"new behaviours, last {count_of(found.queries, 'query', 'queries')}", wording.rate(found)),
    ]


def _many(data: ReportData) -> list[str]:
    """One row a model, of three models or more."""
    view = make_many(data)
    if view is None:
        return []
    lines = ["## Model by model", "", f"| model | {' | '.join(view.columns)} |", f"|---|{'---:|' * len(view.columns)}"]
    lines += [f"| {row.role} | {' | '.join(row.figures)} |" for row in view.rows]
    letters = [row.role for row in view.rows]
    lines += ["", "## Which two differ", "", f"| | {' | '.join(letters)} |", f"|---|{'---:|' * len(letters)}"]
    for role, cells in view.tables[0].rows:
        lines.append(f"| {role} | {' | '.join('' if cell is None else cell.text for cell in cells)} |")
    return [*lines, "", view.majority, ""] if view.majority else [*lines, ""]


def _pairs(data: ReportData) -> list[str]:
    if data.results.many is not None:
        return _many(data)
    if not len(data.pairs):
        return []
    lines = ["## Most frequent label pairs", "", "| A says | B says | pictures |", "|---|---|---:|"]
    for row in data.pairs.by_frequency()[:_MAX_PAIRS]:
        names = (escape_markdown(data.class_names[label]) for label in data.pairs.pairs[row].tolist())
        lines.append(f"| {' | '.join(names)} | {wording.number(int(data.pairs.counts[row]))} |")
    return [*lines, ""]


def _validity(data: ReportData) -> list[str]:
    if not data.filters:
        return []
    lines = ["## Validity filters", "", "| filter | threshold | rejected |", "|---|---:|---:|"]
    for view in data.filters:
        name, threshold = escape_markdown(view.name), wording.figure(view.threshold)
        lines.append(f"| {name} | {threshold} | {wording.number(view.rejected)} |")
    if data.calibration:
        lines += ["", data.calibration]
    if data.diversity:
        lines += ["", data.diversity]
    return [*lines, ""]


def _provenance(data: ReportData) -> list[str]:
    lines = ["## Provenance", ""]
    lines.append(
        f"diffgen {escape_markdown(data.version)}, technique {escape_markdown(data.technique)}, "
        f"preset {escape_markdown(data.preset)}, {escape_markdown(data.created)}"
    )
    lines.append("")
    for role, entry in data.files.items():
        digest = escape_markdown(entry.get("sha256", "")[:16])
        lines.append(f"- {escape_markdown(role)}: {escape_markdown(entry.get('path', ''))} (SHA-256 {digest}…)")
    return [*lines, "", "The pictures are in report.html beside this file."]
