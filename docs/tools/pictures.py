"""The pictures of README and site, drawn from runs on the digits that ship with scikit-learn (BSD licence).

    python -m docs.tools.pictures            makes the runs and draws; some minutes
    python -m docs.tools.pictures --draw     draws again from the runs that are there

The same machine draws the same files: budgets are in queries. Nothing of other data sets comes into them.
"""

from __future__ import annotations

import argparse
import base64
import io
import math
import shutil
from collections.abc import Iterator
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image

import diffgen
from diffgen.data import load
from diffgen.report.data import BehaviourGroup, Picture, ReportData
from diffgen.report.reading import report_data
from diffgen.runs.results import FinishedRun
from diffgen.types import UInt8Array
from diffgen.workflows.demo import convolutional_classifier, save_onnx, train_classifier

WIDTH = 860
INK, MUTED, LINE = "#1b1c20", "#595f69", "#e5e2dc"
MODELS = {"A": "#0b62a8", "B": "#b34700"}
STATUS = {"PASS": "#1d7a3c", "WARN": "#8a5a00", "FAIL": "#b3261e", "ERROR": "#b3261e"}
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif"


class Card:
    """A white card to draw on, in pixels from its upper left corner.

    Attributes:
        height: of the card.
        about: what it shows, for those who cannot see it.
    """

    def __init__(self, height: int, about: str) -> None:
        self.height, self.about = height, about
        self._parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 14,
        colour: str = INK,
        bold: bool = False,
        at: str = "start",
    ) -> None:
        """A line of text whose foot is at ``y``; ``at`` says where ``x`` is: start, middle or end."""
        weight = ' font-weight="650"' if bold else ""
        anchor = "" if at == "start" else f' text-anchor="{at}"'
        place = f'x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{colour}"{weight}{anchor}'
        self._parts.append(f"<text {place}>{escape(text)}</text>")

    def box(self, x: float, y: float, width: float, height: float, colour: str, *, radius: float = 4) -> None:
        """A filled box."""
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"'
        self._parts.append(f'<rect {place} fill="{colour}"/>')

    def arrow(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """An arrow, level or upright or slanting."""
        length = math.hypot(to_x - x, to_y - y)
        ahead = (to_x - x) / length, (to_y - y) / length
        back = to_x - 9 * ahead[0], to_y - 9 * ahead[1]
        corners = [(to_x, to_y), *((back[0] - side * ahead[1], back[1] + side * ahead[0]) for side in (4.5, -4.5))]
        line = f'x1="{x:g}" y1="{y:g}" x2="{back[0]:g}" y2="{back[1]:g}"'
        self._parts.append(f'<line {line} stroke="{MUTED}" stroke-width="1.6"/>')
        points = " ".join(f"{one:g},{other:g}" for one, other in corners)
        self._parts.append(f'<polygon points="{points}" fill="{MUTED}"/>')

    def image(self, x: float, y: float, side: float, image: UInt8Array) -> None:
        """A picture, uint8 (C, H, W), in a square."""
        pixels = image[0] if image.shape[0] == 1 else np.moveaxis(image, 0, 2)
        buffer = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, format="PNG", optimize=True)
        code = base64.b64encode(buffer.getvalue()).decode("ascii")
        place = f'x="{x:g}" y="{y:g}" width="{side:g}" height="{side:g}"'
        self._parts.append(f'<image {place} href="data:image/png;base64,{code}"/>')

    def model(self, x: float, y: float, name: str, label: object, *, size: float = 14) -> None:
        """What a model says: its letter in its colour, and the label."""
        self.box(x, y - size, size * 1.25, size * 1.25, MODELS[name])
        self.text(x + size * 0.625, y, name, size=size * 0.85, colour="#ffffff", bold=True, at="middle")
        self.text(x + size * 1.6, y, str(label), size=size, bold=True)

    def write(self, file: Path) -> None:
        """As an SVG file."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}"'
        frame = f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.height - 1}" rx="10"'
        lines = [
            f'{head} height="{self.height}" role="img" font-family="{escape(_FONT)}">',
            f"<title>{escape(self.about)}</title>",
            f'{frame} fill="#ffffff" stroke="{LINE}"/>',
            *self._parts,
            "</svg>",
        ]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")


DOCS = Path(__file__).resolve().parent.parent
PICTURES, RUNS = DOCS / "pictures", DOCS / "_build" / "pictures"
_VERDICTS = ("B", "A", "B", "A", "all", "B", "A", "B")
_EDGE = 22


def make_runs(folder: Path) -> None:
    """A comparison with its pairs and its selector, and a check, of the models of ``diffgen demo``."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # too few queries for a GAN, as in the half minute of `diffgen demo`: all pictures are changed real ones
    run = diffgen.demo(output=folder / "demo", budget=diffgen.Budget(queries=19_000)).run
    diffgen.shrink(run)
    judge = train_classifier(convolutional_classifier(10), load("digits"), seed=11)
    save_onnx(judge, folder / "judge.onnx")
    diffgen.label_oracle(run, [folder / "judge.onnx"])
    diffgen.select(run)
    diffgen.demo_gate(output=folder / "gate", budget=diffgen.Budget(queries=4_000))


def draw(runs: Path, pictures: Path) -> None:
    """Draw every picture from the runs."""
    pictures.mkdir(exist_ok=True)
    demo, gate = (report_data(FinishedRun.open(runs / each)) for each in ("demo", "gate"))
    finds(demo).write(pictures / "finds.svg")
    compare(demo).write(pictures / "compare.svg")
    check(gate).write(pictures / "check.svg")
    shrink(demo).write(pictures / "shrink.svg")
    select(demo).write(pictures / "select.svg")


def finds(data: ReportData) -> Card:
    """The strip of README: eight finds, what each model says, and who is wrong."""
    names = data.class_names
    card = Card(168, "Eight pictures on which two classifiers disagree, with what each says and who is wrong.")
    for place, picture in enumerate(_varied(data)):
        x = _EDGE + place * 103
        card.image(x, 16, 92, picture.image)
        for offset, role, label in zip((0, 47), "AB", picture.labels, strict=True):
            card.model(x + offset, 130, role, names[label], size=13)
        wrong = "both" if len(picture.wrong) == 2 else "AB"[picture.wrong[0]]
        colour = INK if wrong == "both" else MODELS[wrong]
        card.text(x, 151, "both wrong" if wrong == "both" else f"{wrong} is wrong", size=12, colour=colour, bold=True)
    return card


def _varied(data: ReportData) -> Iterator[Picture]:
    """A picture for each of ``_VERDICTS``, no two of the same real class as long as there are others."""
    shown: list[int] = []
    used: set[int] = set()
    for verdict in _VERDICTS:
        sure = [each for group in data.groups if group.verdict == verdict for each in group.pictures]
        sure = sorted(sure, key=lambda each: -each.scores.get("jury", 0.0))
        free = [(shown.count(_named(each)), place) for place, each in enumerate(sure) if each.identifier not in used]
        picture = sure[min(free)[1]]
        shown.append(_named(picture))
        used.add(picture.identifier)
        yield picture


def _named(picture: Picture) -> int:
    assert picture.jury is not None
    return picture.jury.named


def compare(data: ReportData) -> Card:
    """The headline of a report, and its first behaviours."""
    assert data.results.faults is not None
    card = Card(318, "The head of a report: who is wrong how often, and behaviours with their pictures.")
    for verdict, x in (("B", _EDGE), ("A", 310), ("all", 600)):
        pictures, ways = (data.results.faults[verdict][name] for name in ("pictures", "behaviours"))
        card.text(x, 50, f"{pictures:,}", size=34, bold=True, colour=MODELS.get(verdict, INK))
        card.text(x, 74, "both are wrong" if verdict == "all" else f"{verdict} alone is wrong", bold=True)
        card.text(x, 92, f"pictures, in {ways:,} ways", size=12, colour=MUTED)
    groups = [_clearest(data, verdict) for verdict in ("B", "A")]
    for place, group in enumerate(groups):
        _behaviour(card, data, group, _EDGE + place * 416)
    return card


def _clearest(data: ReportData, verdict: str) -> BehaviourGroup:
    """Of the twelve most frequent behaviours of a verdict the one on each of whose pictures the jury is sure."""
    groups = [each for each in data.groups if each.verdict == verdict and len(each.pictures) >= 4][:12]
    return max(groups, key=lambda group: min(each.scores["jury"] for each in group.pictures[:4]))


def _behaviour(card: Card, data: ReportData, group: BehaviourGroup, x: float) -> None:
    names = data.class_names
    card.model(x, 134, "A", names[group.labels[0]])
    card.model(x + 52, 134, "B", names[group.labels[1]])
    card.text(x + 110, 134, f"{group.verdict} is wrong", size=13, bold=True, colour=MODELS[group.verdict])
    card.text(x + 196, 134, f"on {group.count} pictures", size=13, colour=MUTED)
    for number, picture in enumerate(group.pictures[:4]):
        card.image(x + number * 100, 148, 92, picture.image)
        if picture.nearest_real is not None:
            card.image(x + number * 100, 246, 36, picture.nearest_real)
            card.text(x + number * 100 + 41, 260, "nearest", size=10.5, colour=MUTED)
            card.text(x + number * 100 + 41, 274, "real image", size=10.5, colour=MUTED)
    card.text(x, 304, group.made_by or "made in several ways", size=12, colour=MUTED)


def check(data: ReportData) -> Card:
    """The verdict of a check: its conditions, and behaviours that nobody accepted."""
    assert data.gate is not None
    rows = [row for row in data.gate.rows if row.status and row.name != "search"]
    new = data.gate.new[:6]
    card = Card(64 + 24 * len(rows) + 152, "The verdict of a check: its conditions, and new behaviours in pictures.")
    card.box(_EDGE, 18, 74, 28, STATUS[data.gate.status], radius=6)
    card.text(_EDGE + 37, 38, data.gate.status, size=16, colour="#ffffff", bold=True, at="middle")
    card.text(_EDGE + 90, 38, f"May {data.gate.candidate} replace {data.gate.base}?", size=18, bold=True)
    y = 76
    for row in rows:
        card.text(_EDGE, y, row.status, size=12, bold=True, colour=STATUS[row.status])
        card.text(_EDGE + 56, y, row.title, size=13)
        card.text(WIDTH - _EDGE, y, row.value.split(" (")[0], size=13, colour=MUTED, at="end")
        y += 24
    card.text(_EDGE, y + 8, f"{len(data.gate.new)} new behaviours of 8 bits, in pictures:", size=13, bold=True)
    for number, behaviour in enumerate(new):
        x = _EDGE + number * 138
        if behaviour.pictures:
            card.image(x, y + 22, 76, behaviour.pictures[0].image)
        card.text(x, y + 116, f"base {behaviour.names[0]}, now {behaviour.names[1]}", size=12)
    return card


def shrink(data: ReportData) -> Card:
    """Pairs of pictures that look the same, on one of which the models disagree."""
    names, pairs = data.class_names, [each for each in data.shrunk if each.difference < 1][:4]
    card = Card(196, "Pairs of pictures that look alike: on one the models agree, on the other they do not.")
    for place, pair in enumerate(pairs):
        x = _EDGE + place * 208
        card.image(x, 18, 88, pair.agreeing.image)
        card.image(x + 96, 18, 88, pair.trigger.image)
        for left, picture in ((x, pair.agreeing), (x + 96, pair.trigger)):
            card.model(left, 130, "A", names[picture.labels[0]], size=13)
            card.model(left + 44, 130, "B", names[picture.labels[1]], size=13)
        card.text(x, 154, "agree", size=12, bold=True, colour=STATUS["PASS"])
        card.text(x + 96, 154, "disagree", size=12, bold=True, colour=STATUS["FAIL"])
        card.text(x, 176, f"{pair.difference:.2f} of 255 grey levels apart", size=12, colour=MUTED)
    return card


_JUDGED_ON = {
    "random": "kinds it has seen",
    "by behaviour": "kinds it has not",
    "by real image": "real images it has not",
}


def select(data: ReportData) -> Card:
    """What the selector is worth, and behaviours in which it trusts one model."""
    assert data.selection is not None
    judged = data.selection.about["on_triggers"]
    bars = [("always the better model", judged[0]["majority"], MUTED)]
    for each in judged:
        colour = STATUS["PASS" if each["name"] == "random" else "WARN"]
        bars.append((f"selector, {_JUDGED_ON[each['name']]}", each["accuracy"], colour))
    card = Card(232, "How often the chosen model is right, and behaviours in which one model is to be trusted.")
    card.text(_EDGE, 34, "Right model chosen, of 100 finds", size=14, bold=True)
    for place, (name, share, colour) in enumerate(bars):
        y = 58 + place * 42
        card.text(_EDGE, y, name, size=13)
        card.box(_EDGE, y + 7, 250, 14, "#eceae5")
        card.box(_EDGE, y + 7, 250 * share, 14, colour)
        card.text(_EDGE + 262, y + 19, f"{100 * share:.0f}", size=14, bold=True)
    for row, role in enumerate("AB"):
        pairs = zip(data.selection.about["behaviours"], data.selection.images, strict=True)
        trusted = [each for each in pairs if each[0]["trust"] == role]
        y = 20 + row * 104
        card.text(350, y + 14, f"trust {role}", size=14, bold=True, colour=MODELS[role])
        for place, (each, images) in enumerate(trusted[:5]):
            card.image(420 + place * 86, y, 68, images[0])
            said = "A {}, B {}".format(*(data.class_names[label] for label in each["labels"]))
            card.text(420 + place * 86, y + 86, said, size=12, colour=MUTED)
    return card


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="draw again from the runs that are there")
    if not parser.parse_args().draw:
        make_runs(RUNS)
    draw(RUNS, PICTURES)
    for file in sorted(PICTURES.glob("*.svg")):
        print(f"{file.relative_to(DOCS.parent)}  {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
