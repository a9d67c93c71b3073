"""Who is wrong: sentences, parts of the gallery, and what a card says."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest

from diffgen.report.cards import make_card
from diffgen.report.data import BehaviourGroup, JuryOpinion, Picture, ReportData
from diffgen.report.gallery import make_gallery
from diffgen.report.html import render_html
from diffgen.report.markdown import render_markdown
from diffgen.report.reading import opinion
from diffgen.report.wording import headline, verdict_sentences
from diffgen.runs.figures import JuryFigures
from diffgen.runs.results import verdicts_rest_on
from diffgen.runs.triggers import UNKNOWN_LABEL, TriggerTable, Verdicts
from tests.report.changes import changed

_JURY = JuryFigures(
    members=3,
    trained_on=900,
    agreed=False,
    held_out=100,
    accuracy=0.97,
    threshold=-0.9,
    unaided=-0.5,
    recognised=0.91,
    reliable=0.99,
    helped=0.96,
    helped_right=0.98,
)


def _judged(picture: Picture, verdict: str) -> Picture:
    """The same picture with an opinion of the jury that makes for the verdict."""
    a, b = picture.labels
    other = next(label for label in range(10) if label not in (a, b))
    named = {"B": a, "A": b, "all": other, "": a}[verdict]
    return replace(picture, jury=JuryOpinion(named, recognised=bool(verdict)))


@pytest.fixture
def judged(report_data: ReportData) -> ReportData:
    """The run with a jury; its verdicts take turns over the behaviours."""
    turns = cycle(["B", "A", "all", ""])
    groups = sorted(
        (
            replace(group, verdict=verdict, pictures=tuple(_judged(each, verdict) for each in group.pictures))
            for group, verdict in zip(report_data.groups, turns, strict=False)
        ),
        key=lambda group: ["B", "A", "all", ""].index(group.verdict),
    )
    faults = {
        verdict: {
            "pictures": sum(group.count for group in groups if group.verdict == verdict),
            "behaviours": sum(group.verdict == verdict for group in groups),
        }
        for verdict in ("B", "A", "all")
    }
    recognised = sum(each["pictures"] for each in faults.values())
    return changed(
        report_data,
        groups=tuple(groups),
        jury=_JURY,
        faults=faults,
        recognised_triggers=recognised,
        recognised_distinct_triggers=recognised,
        recognised_behaviours=sum(each["behaviours"] for each in faults.values()),
    )


def test_the_first_sentence_says_who_is_wrong(judged, report_data):
    assert judged.results.faults is not None
    pictures, ways = (judged.results.faults["B"][name] for name in ("pictures", "behaviours"))
    said = headline(judged)
    assert said.sentence == f"B is wrong where A is right on {pictures} pictures, in {ways} ways."
    assert said.also[0].startswith("A is wrong where B is right on ")
    assert said.also[1].startswith("Both are wrong on ")
    assert said.also[2] == headline(report_data).sentence, "the wider count stays beside it"
    assert said.also[3].startswith("The jury cannot name ")
    assert headline(report_data).also == ()


def test_the_larger_side_leads_below_what_was_found_wrong_with_the_real_images(judged):
    faults = {"B": {"pictures": 37, "behaviours": 9}, "A": {"pictures": 1_809, "behaviours": 30}}
    faults["all"] = {"pictures": 4_000, "behaviours": 40}
    warned = replace(judged.preflight, warnings=("Model A is right on only 10 % of the real images.",))
    data = changed(judged, faults=faults, preflight=warned)
    said = headline(data)
    assert said.sentence == "A is wrong where B is right on 1,809 pictures, in 30 ways."
    assert said.also[0] == "B is wrong where A is right on 37 pictures, in 9 ways."
    page = render_html(data)
    tiles = page[page.index('class="tiles verdicts"') :]
    assert tiles.index("1,809") < tiles.index("37") < tiles.index("4,000")
    assert page.index("right on only 10 %") < page.index("<h1")
    summary = render_markdown(data)
    assert summary.index("right on only 10 %") < summary.index("**A")


def test_one_picture_is_no_way_to_be_wrong_in(judged):
    data = changed(judged, faults={"B": {"pictures": 1, "behaviours": 1}, "A": {"pictures": 0, "behaviours": 0}})
    assert verdict_sentences(data.results.faults, 2) == ("B is wrong where A is right on 1 picture.",)
    none = changed(judged, recognised_triggers=0, faults={"B": {"pictures": 0, "behaviours": 0}})
    assert verdict_sentences(none.results.faults, 2) == verdict_sentences(None, 2) == ()
    assert "nobody is said to be wrong" in headline(none).also[0]


def test_the_gallery_goes_by_verdict_and_folds_what_has_no_name(judged, read_page):
    parts = make_gallery(judged).parts
    assert [part.verdict for part in parts] == ["B", "A", "all", ""]
    assert [part.folded for part in parts] == [False, False, False, True]
    assert sum(part.pictures for part in parts) == judged.headline_count
    page = read_page(render_html(judged))
    assert page.problems == []
    assert [own["class"] for own in page.all("div") if own.get("class", "").startswith("verdict-part")] == [
        "verdict-part b",
        "verdict-part a",
        "verdict-part all",
    ]
    assert "the jury" in page.flat_text and "3 small classifiers" in page.flat_text
    folded = page.flat_text.split("What the jury cannot name")[1]
    assert "nobody is said to be wrong" in folded
    assert [own["id"] for own in page.all("section")][:2] == ["gallery", "jury"]


def test_what_a_filter_rejected_is_nobody_s_fault(judged):
    """The page says that a picture is recognised when it is valid."""
    picture = next(group for group in judged.groups if group.verdict == "B").pictures[0]
    assert picture.wrong == (1,)
    assert replace(picture, rejected_by="ssim").wrong == ()


def test_many_verdicts_leave_room_for_rare_behaviours(judged):
    """Three verdicts of 40 behaviours with five pictures each: every behaviour has one before all places are taken."""
    picture = judged.groups[0].pictures[0]
    groups = tuple(
        BehaviourGroup((1, 2), cell, 5, (picture,) * 5, verdict) for verdict in ("B", "A", "all") for cell in range(40)
    )
    gallery = make_gallery(changed(judged, groups=groups))
    assert [len(part.groups) for part in gallery.parts] == [40, 40, 40]
    assert [len(part.groups[0].cards) for part in gallery.parts] == [5, 5, 5]


def test_a_gallery_without_a_jury_has_one_part(report_data):
    (part,) = make_gallery(report_data).parts
    assert (part.verdict, part.title, part.folded) == ("", "", False)


def test_a_card_says_what_the_jury_says_and_who_is_wrong(report_data):
    first = report_data.groups[0].pictures[0]

    def card(picture: Picture):
        return make_card(picture, source="", nearest=None, kind="trigger", names=report_data.class_names, filters=())

    name = report_data.class_names[first.labels[0]]
    sure = card(_judged(first, "B"))
    assert (sure.jury, sure.blame, sure.wrong) == (f"the jury: {name} (sure)", "B is wrong", ("b",))
    assert card(_judged(first, "all")).blame == "both are wrong"
    unsure = card(_judged(first, ""))
    assert (unsure.jury, unsure.blame) == (f"the jury: {name} (not sure)", "")
    seed = next(label for label in range(10) if label != first.labels[0])
    other = card(replace(first, jury=JuryOpinion(first.labels[0], recognised=False, instead_of=seed)))
    assert other.jury == f"the jury: {name} (but made from {seed})"
    assert (card(first).jury, card(first).blame, card(first).wrong) == ("", "", ())


def test_it_is_told_what_a_verdict_rests_on(report_data):
    """The known label of the real image, a jury that is sure by itself, or both."""
    said = np.eye(10, dtype=np.float32)[[[1, 2]] * 5]
    sure = np.array([-1.5, -0.1, -0.1, -0.1, -1.5], dtype=np.float32)
    verdicts = replace(
        Verdicts.replayed(np.zeros(5, dtype=np.int64)),
        seed_labels=np.array([1, 1, UNKNOWN_LABEL, 2, UNKNOWN_LABEL]),
        named=np.ones(5, dtype=np.int64),
        certainty=sure,
        recognised=np.array([True, True, True, False, False]),
    )
    images = np.arange(5, dtype=np.uint8).reshape(5, 1, 1, 1)
    triggers = TriggerTable.of(images, said).judged(verdicts)
    assert triggers.bases(-0.5).tolist() == ["label", "both", "jury", "", ""]
    assert verdicts_rest_on(triggers, _JURY) == {"label": 1, "both": 1, "jury": 1}
    captions = []
    for row in range(5):
        picture = replace(report_data.groups[0].pictures[0], jury=opinion(triggers, row, 10, _JURY))
        names = tuple(f"c{label}" for label in range(10))
        captions.append(make_card(picture, source="", nearest=None, kind="trigger", names=names, filters=()).jury)
    assert captions == [
        "known label: c1 (the jury agrees)",
        "label and jury: c1 (sure)",
        "the jury: c1 (sure)",
        "the jury: c1 (but made from c2)",
        "the jury: c1 (not sure)",
    ]
    # where there is no jury the real image names it
    assert triggers.bases(None).tolist() == ["seed", "seed", "agreed", "", ""]
    assert verdicts_rest_on(triggers, None) == {"seed": 2, "agreed": 1}
    counts = {"label": 7, "both": 0, "jury": 2}
    page = changed(report_data, jury=_JURY, verdicts_rest_on=counts)
    told = "the known label of the real image, which the jury only confirms, on 7, the jury alone on 2"
    assert told in render_html(page)
    assert f"The verdicts rest on: {told}." in render_markdown(page)


def test_three_models_may_be_wrong_together(report_data):
    first = report_data.groups[0].pictures[0]
    three = replace(first, labels=(1, 2, 1), probabilities=first.probabilities[[0, 1, 0]], jury=JuryOpinion(2, True))
    card = make_card(three, source="", nearest=None, kind="trigger", names=report_data.class_names, filters=())
    assert (card.blame, card.wrong) == ("A and C are wrong", ("a", "c"))


def test_the_summary_leads_with_it(judged, report_data):
    text = render_markdown(judged)
    assert text.index("B is wrong where A is right") < text.index("A is wrong where B is right") < text.index("| |")
    assert "The jury: 3 small classifiers, trained on 900 labelled real images" in text
    assert "jury" not in render_markdown(report_data)
    assert "one label only" in render_markdown(changed(report_data, no_jury="No jury: one label only."))


@pytest.mark.parametrize(("noun", "title"), [("changed real image", "Changed real images"), ("picture", "Pictures")])
def test_pictures_made_from_real_ones_are_not_called_generated(report_data, read_page, noun, title):
    text = read_page(render_html(replace(report_data, noun=noun))).flat_text
    assert f"valid {noun}s, in" in text
    assert f"{title} on which A and B disagree" in text
    assert "enerated picture" not in text
