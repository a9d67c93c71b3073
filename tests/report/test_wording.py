"""Sentences and numbers, and the Markdown summary that is made of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from diffgen.metrics.richness import Discovery
from diffgen.report.markdown import escape_markdown, render_markdown
from diffgen.report.wording import clean_text, duration, figure, headline
from diffgen.wording import count_of
from tests.report.changes import changed


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.42, "0.4 s"), (12.4, "12 s"), (60, "60 s"), (119.6, "2 min"), (3599, "59 min 59 s"),
     (7200, "2 h"), (9000, "2 h 30 min"), (float("nan"), "unknown time")],
)  # fmt: skip
def test_duration(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.001, "0.001"), (2.4e-7, "2.4 × 10⁻⁷"), (-1.5, "−1.5"), (1234567, "1.23 × 10⁶"),  # noqa: RUF001
     (float("inf"), "not finite")],
)  # fmt: skip
def test_figure(value, text):
    assert figure(value) == text


def test_count_of():
    assert [count_of(amount, "query", "queries") for amount in (0, 1, 1234)] == [
        "0 queries",
        "1 query",
        "1,234 queries",
    ]


def test_clean_text_can_be_written():
    assert clean_text("a\0\udc80é").encode("utf-8").decode() == "a\N{REPLACEMENT CHARACTER}?é"


def test_sentence_of_the_usual_result(report_data):
    data = changed(report_data, valid_triggers=1234, behaviours=87, queries=50_000, seconds=60.0)
    assert headline(data).sentence == (
        "A and B disagree on 1,234 valid generated pictures, in 87 different ways, found with 50,000 queries in 60 s."
    )
    assert headline(data).meaning == ()


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ({"valid_triggers": 1, "behaviours": 1}, "A and B disagree on 1 valid generated picture, found with"),
        (
            {"valid_triggers": 5, "behaviours": 1},
            "A and B disagree on 5 valid generated pictures, all in the same way,",
        ),
        ({"valid_triggers": 0}, "No valid disagreement found between A and B, with"),
        ({"valid_triggers": 0, "triggers": 0}, "No disagreement found between A and B, with"),
        ({"valid_triggers": 0, "triggers": 0, "queries": 0}, "No generated picture was asked about"),
        ({"filters": ()}, "generated pictures, in"),
    ],
)
def test_sentences_of_rare_results(report_data, numbers, sentence):
    data = changed(report_data, **numbers)
    assert sentence in headline(data).sentence
    assert (" valid " in headline(data).sentence) == (" valid " in sentence)


def test_meaning_of_rejected_triggers(report_data):
    data = changed(report_data, triggers=7, valid_triggers=0)
    assert "disagree on 7 generated pictures, but the validity filters rejected every one" in headline(data).meaning[0]


def test_unconfirmed_triggers_are_named(report_data):
    data = changed(report_data, verified_single=10, verified_batch=20, unconfirmed=1)
    assert headline(data).notes == (
        "Asked again after the search: 10 one at a time and 20 in batches.",
        "1 trigger did not disagree again and is in no other count.",
    )
    assert "All disagreed again." in headline(report_data).notes[0]
    assert headline(changed(report_data, verified_single=0)).notes == ("No trigger was asked again after the search.",)


def test_alerts(report_data):
    assert headline(report_data).alerts == ()
    alerts = headline(changed(report_data, interrupted=True, filters=())).alerts
    assert [alert.split()[:3] for alert in alerts] == [["The", "search", "was"], ["No", "validity", "filter"]]


def test_markdown_says_the_same_as_the_page(report_data):
    text = render_markdown(report_data)
    assert headline(report_data).sentence in text
    assert (
        f"| valid triggers | {report_data.results.valid_triggers} of {report_data.results.triggers} triggers |" in text
    )
    matrix = report_data.pairs.matrix()
    best = np.unravel_index(int(matrix.argmax()), matrix.shape)
    assert f"| {best[0]} | {best[1]} | {matrix.max()} |" in text
    assert len(text.splitlines()) < 60
    assert text == render_markdown(replace(report_data))


def test_markdown_without_triggers(without_triggers):
    text = render_markdown(without_triggers)
    assert "**No disagreement found between A and B, with" in text
    assert "What it does not mean" in text
    assert "Most frequent label pairs" not in text


def test_markdown_escapes_names(report_data):
    names = ("<script>", "a|b", "`c`", "[x](javascript:y)", "# line\n\n# next", "*d*", "![i](j)", "\udc80", "8", "9")
    text = render_markdown(changed(report_data, class_names=names, model_names=("<img src=x>", "_b_")))
    assert "<script>" not in text
    assert "<img" not in text
    assert "\n# next" not in text
    assert "](" not in text
    text.encode("utf-8")
    tables = [line for line in text.splitlines() if line.startswith("| ") and line.count(" | ") == 2]
    assert tables


def test_escape_markdown():
    assert escape_markdown("a|b\n`<i>`") == r"a\|b \`&lt;i&gt;\`"


def test_what_begins_where_the_models_disagree_already_is_told_apart(report_data):
    data = changed(report_data, behaviours=87, behaviours_of_agreement=60)
    assert data.real_disagreement_count > 0
    said = (
        "60 of the 87 behaviours were met on pictures that do not begin with a real image on which A and B disagree "
        "already."
    )
    assert said in headline(data).notes
    assert render_markdown(data).count(said) == 1
    unknown = changed(data, behaviours_of_agreement=None)
    assert "disagree already" not in " ".join(headline(unknown).notes)


def test_what_is_left_is_said_as_a_lower_bound(report_data):
    data = changed(report_data, behaviours=87, behaviours_at_least=120, discovery=Discovery(4000, 14))
    notes = " ".join(headline(data).notes)
    assert "An estimated lower bound of all behaviours is 120 (Chao1" in notes
    assert "In its last 4,000 queries the search met 14 new behaviours: 3.5 for every 1,000 queries." in notes
    text = render_markdown(data)
    assert "| behaviours, lower bound of all | 120 |" in text
    assert "| new behaviours, last 4,000 queries | 3.5 for every 1,000 queries |" in text
    ended = changed(report_data, behaviours=87, behaviours_at_least=87, discovery=Discovery(4000, 0), saturated=True)
    assert "In its last 4,000 queries the search met no new behaviour." in " ".join(headline(ended).notes)
    assert "Chao" not in " ".join(headline(ended).notes)
