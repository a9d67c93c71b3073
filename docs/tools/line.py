"""The pictures of the published line: its figure, and what each stage gives on the digits of scikit-learn.

python -m docs.tools.line            makes the run of docs/tutorials/published.md and draws; some five minutes
python -m docs.tools.line --draw     draws again from the run that is there
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import diffgen
from diffgen.data import load
from diffgen.report.data import Picture, ReportData
from diffgen.report.reading import report_data
from diffgen.runs.results import FinishedRun
from diffgen.workflows.demo import convolutional_classifier, dense_classifier, save_onnx, train_classifier
from docs.tools.pictures import DOCS, INK, LINE, MODELS, MUTED, PICTURES, Card, finds, select

RUN = DOCS / "_build" / "line"
_EDGE, _BOX, _GAP, _HIGH = 22, 186, 24, 112
_PALE = "#f4f2ee"

# row by row: number, title, lines below it; the numbers are those of the table in docs/explanation/method.md
_ROWS: tuple[tuple[tuple[str, str, tuple[str, ...]], ...], ...] = (
    (
        ("1", "Real images", ("and five transformations", "of each", "section 3.1")),
        ("2", "GAN", ("trained once, kept; tuned", "by Optuna: FID and KID", "section 3.2")),
        ("3", "Latent vectors", ("population of NSGA-II,", "drawn from the prior", "section 3.3.1")),
        ("4", "Two black boxes", ("asked in batches; only", "their answers are seen", "section 3.5")),
    ),
    (
        ("8", "New generation", ("SBX, polynomial mutation,", "rank and crowding", "3.4, Eq. 4 and 5")),
        ("7", "Diversity", ("far from the clusters of", "HDBSCAN over all finds", "3.3.2.2, Eq. 2")),
        ("6", "Divergence", ("of both answers; + 1", "where labels differ", "3.3.2.1, Eq. 1")),
        ("5", "Archive", ("every picture on which", "the models disagree", "Algorithm 1")),
    ),
    (
        ("12", "Selector", ("random forest: which", "model to trust", "section 5.4")),
        ("11", "Figures", ("validity, geometric and", "Shannon diversity", "5.2, 5.3, Eq. 6 and 7")),
        ("10", "SSIM", ("with the nearest real", "image: 0.4, or calibrated", "section 3.6.2")),
        ("9", "Discriminator", ("score of the GAN's own,", "calibrated", "section 3.6.1")),
    ),
)
_SEARCH = ("3", "4", "6", "7", "8")
_ARROWS = ("1 2", "2 3", "3 4", "4 5", "5 6", "6 7", "7 8", "5 9", "9 10", "10 11", "11 12")


def figure() -> Card:
    """The line: twelve boxes, and how they follow each other."""
    card = Card(
        3 * _HIGH + 2 * 44 + 2 * _EDGE,
        "DiffGAN as diffgen runs it: real images, GAN, search, filters, figures, selector.",
    )
    places: dict[str, tuple[float, float]] = {}
    for row, boxes in enumerate(_ROWS):
        for column, (number, title, lines) in enumerate(boxes):
            x, y = _EDGE + column * (_BOX + _GAP), _EDGE + row * (_HIGH + 44)
            places[number] = x, y
            card.box(x, y, _BOX, _HIGH, MODELS["A"] if number in _SEARCH else LINE, radius=8)
            card.box(x + 1.5, y + 1.5, _BOX - 3, _HIGH - 3, "#ffffff" if number in _SEARCH else _PALE, radius=7)
            card.text(x + 12, y + 25, number, size=13, bold=True, colour=MODELS["B"])
            card.text(x + 36, y + 25, title, size=15, bold=True)
            for place, line in enumerate(lines):
                last = place == len(lines) - 1
                card.text(x + 12, y + 50 + place * 19 + 6 * last, line, size=12.5, colour=MUTED if last else INK)
    for arrow in _ARROWS:
        one, other = (places[name] for name in arrow.split())
        card.arrow(*_between(one, other))
    left, below, to_x, foot = _between(places["8"], places["3"])  # the next generation goes round the corner
    turn = below - 22.0
    card.box(left - 0.8, turn - 0.8, 1.6, below - turn + 0.8, MUTED, radius=0)
    card.box(left - 0.8, turn - 0.8, to_x - left + 1.6, 1.6, MUTED, radius=0)
    card.arrow(to_x, turn, to_x, foot)
    return card


def _between(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float, float, float]:
    """From the edge of one box to that of the next."""
    (x, y), (to_x, to_y) = one, other
    if y == to_y:
        right = to_x > x
        return x + _BOX * right, y + _HIGH / 2, to_x + _BOX * (not right), y + _HIGH / 2
    down = to_y > y
    return x + _BOX / 2, y + _HIGH * down, to_x + _BOX / 2, to_y + _HIGH * (not down)


def gan(data: ReportData) -> Card:
    """What the GAN draws at random."""
    card = Card(214, "Pictures that the GAN draws at random, not searched for.")
    for place, image in enumerate(data.samples[:30]):
        card.image(_EDGE + place % 15 * 54.6, 18 + place // 15 * 58, 50, image)
    facts = data.results.gan
    for place, name in enumerate(("updates", "recognised", "covered")):
        card.text(_EDGE, 156 + place * 22, f"{name}: {facts[name]}", size=13)
    return card


def filters(data: ReportData) -> Card:
    """What each filter rejects, and what both accept."""
    rows: list[tuple[str, Sequence[Picture]]] = [("accepted by both", data.accepted)]
    for view in data.filters:
        rows.append((f"rejected by {view.name}", [each for each in data.rejected if each.rejected_by == view.name]))
    card = Card(24 + 104 * len(rows), "Finds that both filters accept, and finds that one of them rejects.")
    for row, (title, pictures) in enumerate(rows):
        _row(card, 20 + row * 104, title, pictures)
    return card


def _row(card: Card, y: float, title: str, pictures: Sequence[Picture]) -> None:
    card.text(_EDGE, y + 14, title, size=14, bold=True)
    for place, picture in enumerate(pictures[:12]):
        card.image(_EDGE + place * 68, y + 26, 62, picture.image)


def make_run(folder: Path) -> None:
    """The run of the tutorial."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    training = load("digits:train")
    save_onnx(train_classifier(convolutional_classifier(10), training, seed=0), folder / "modelA.onnx")
    save_onnx(train_classifier(dense_classifier(10), training, seed=0), folder / "modelB.onnx")
    save_onnx(train_classifier(convolutional_classifier(10), load("digits"), seed=11), folder / "reference.onnx")
    diffgen.compare(
        folder / "modelA.onnx",
        folder / "modelB.onnx",
        data="digits:test",
        preset="diffgan",
        oracle=folder / "reference.onnx",
        budget="20000q",
        output=folder / "run",
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="draw again from the run that is there")
    if not parser.parse_args().draw:
        make_run(RUN)
    data = report_data(FinishedRun.open(RUN / "run"))
    for name, card in (("", figure()), ("-gan", gan(data)), ("-finds", finds(data)), ("-filters", filters(data))):
        card.write(PICTURES / f"line{name}.svg")
    if data.selection is not None:
        select(data).write(PICTURES / "line-selector.svg")


if __name__ == "__main__":
    main()
