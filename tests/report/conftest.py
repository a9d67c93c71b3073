"""Report data of two real classifiers on scikit-learn's digits; blends of two digits stand in for a generator's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from diffgen.metrics.richness import Discovery
from diffgen.report.data import BehaviourGroup, FilterView, Picture, ReportData
from diffgen.report.html import render_html
from diffgen.runs.figures import Calibration, Preflight
from diffgen.runs.results import RunResults
from diffgen.tasks.classification import LabelPairs
from tests.report.changes import changed

_HELD_OUT = 400
_VOID = {"meta", "link", "img", "input", "br", "hr"}


class Page(HTMLParser):
    """Reads a report as a browser would, as far as the tests need it.

    Collects elements, texts and what is wrong with the nesting of tags.
    """

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.problems: list[str] = []
        self.text = ""
        self.script = ""
        self.style = ""
        self._open: list[str] = []
        self.feed(source)
        self.close()
        self.problems += [f"<{tag}> is never closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.problems.append(f"<{tag}> at {self.getpos()} has an attribute twice: {names}")
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.problems.append(f"</{tag}> at {self.getpos()} closes {self._open[-1:] or 'nothing'}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["script"]:
            self.script += data
        elif self._open[-1:] == ["style"]:
            self.style += data
        else:
            self.text += data

    def all(self, tag: str, **attributes: str) -> list[dict[str, str]]:
        """The attributes of every ``tag`` that has ``attributes`` (``class_`` for class)."""
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [
            own
            for name, own in self.elements
            if name == tag and all(own.get(key) == value for key, value in wanted.items())
        ]

    @property
    def flat_text(self) -> str:
        """The visible text on one line."""
        return " ".join(self.text.split())


@pytest.fixture(scope="session")
def read_page() -> type[Page]:
    """Makes a ``Page`` of the source of a report."""
    return Page


@pytest.fixture(scope="session")
def page(report_data: ReportData) -> Page:
    """The page of ``report_data``."""
    return Page(render_html(report_data))


def _disagreements(labels_a: np.ndarray, labels_b: np.ndarray, classes: int) -> np.ndarray:
    matrix = np.zeros((classes, classes), np.int64)
    np.add.at(matrix, (labels_a, labels_b), 1)
    np.fill_diagonal(matrix, 0)
    return matrix


def _groups(pictures: list[Picture], cells: np.ndarray) -> tuple[BehaviourGroup, ...]:
    found: dict[tuple[int, int, int], list[Picture]] = defaultdict(list)
    for picture, cell in zip(pictures, cells, strict=True):
        found[(*picture.labels, int(cell))].append(picture)
    ordered = sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    return tuple(BehaviourGroup(key[:-1], key[-1], len(own), tuple(own)) for key, own in ordered)


@pytest.fixture(scope="session")
def report_data() -> ReportData:
    """A whole report: triggers, rejected ones, real disagreements, curves, filter scores, samples."""
    digits = load_digits()
    images = np.round(digits.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = digits.target.astype(np.int64)
    flat = images.reshape(len(images), -1) / 255
    model_a = LogisticRegression(max_iter=200).fit(flat[:-_HELD_OUT], labels[:-_HELD_OUT])
    model_b = GaussianNB(var_smoothing=0.01).fit(flat[:-_HELD_OUT], labels[:-_HELD_OUT])

    random = np.random.default_rng(0)
    first, second = random.integers(len(images), size=(2, 600))
    blends = np.round(0.6 * images[first] + 0.4 * images[second]).astype(np.uint8)

    def ask(pictures: np.ndarray) -> np.ndarray:
        rows = pictures.reshape(len(pictures), -1) / 255
        return np.stack([model_a.predict_proba(rows), model_b.predict_proba(rows)], axis=1).astype(np.float32)

    answers, real_answers = ask(blends), ask(images[-_HELD_OUT:])
    said, real_said = answers.argmax(axis=2), real_answers.argmax(axis=2)
    scores = -np.abs(blends.astype(int) - images[first]).mean(axis=(1, 2, 3)).astype(np.float32)
    real_scores = (-random.gamma(2.0, 6.0, 200)).astype(np.float32)
    threshold = float(np.quantile(scores, 0.2))

    triggers = np.flatnonzero(said[:, 0] != said[:, 1])
    pictures = [
        Picture(
            image=blends[index],
            labels=(int(said[index, 0]), int(said[index, 1])),
            probabilities=answers[index],
            identifier=int(index),
            scores={"distance": float(scores[index])},
            rejected_by=None if scores[index] >= threshold else "distance",
            nearest_real=images[first[index]],
        )
        for index in triggers
    ]
    valid = [picture for picture in pictures if picture.rejected_by is None]
    groups = _groups(valid, np.array([picture.identifier % 3 for picture in valid]))
    real_triggers = np.flatnonzero(real_said[:, 0] != real_said[:, 1])
    valid_said = np.array([picture.labels for picture in valid])
    matrix = _disagreements(valid_said[:, 0], valid_said[:, 1], 10)
    accuracy = (real_said == labels[-_HELD_OUT:, None]).mean(axis=0)
    results = RunResults(
        class_names=tuple(str(digit) for digit in range(10)),
        triggers=len(pictures),
        valid_triggers=len(valid),
        behaviours=len(groups),
        label_pairs=int(np.count_nonzero(matrix)),
        queries=600,
        seconds=12.5,
        interrupted=False,
        verified_single=len(valid),
        verified_batch=0,
        unconfirmed=0,
        preflight=Preflight(
            images=_HELD_OUT,
            agreement=float((real_said[:, 0] == real_said[:, 1]).mean()),
            accuracy=(float(accuracy[0]), float(accuracy[1])),
            outputs=("logits", "probabilities"),
            numeric_noise=2.4e-7,
            margin=0.001,
        ),
        pair_counts=LabelPairs.of_matrix(matrix),
        real_matrix=LabelPairs.of_matrix(_disagreements(real_said[:, 0], real_said[:, 1], 10)),
        history={
            "seconds": [3.0, 6.0, 12.5],
            "queries": [200.0, 400.0, 600.0],
            "triggers": [float(len(pictures) // 3), float(len(pictures) // 2), float(len(pictures))],
            "behaviours": [10.0, 20.0, float(len(groups))],
            "label_pairs": [8.0, 12.0, 20.0],
        },
        gan={"source": "blends of two digits"},
        distinct_valid_triggers=len(valid),
        behaviours_at_least=0,
        discovery=Discovery(0, 0),
        effective_label_pairs=0.0,
        effective_behaviours=0.0,
        calibration=Calibration(false_alarm=0.02, reached=None, held_out=0),
        filters=(),
        real_disagreements=len(real_triggers),
    )
    return ReportData(
        run="digits-run",
        created="2025-01-02 03:04 UTC",
        version="0.0.1",
        command="diffgen compare a.onnx b.onnx --budget 600q",
        model_names=("logistic.onnx", "bayes.onnx"),
        data_name="digits",
        technique="blend",
        preset="default",
        results=results,
        groups=groups,
        rejected=tuple(picture for picture in pictures if picture.rejected_by)[:8],
        real_disagreements=tuple(
            Picture(
                image=images[-_HELD_OUT:][index],
                labels=(int(real_said[index, 0]), int(real_said[index, 1])),
                probabilities=real_answers[index],
                identifier=int(index),
                true_label=int(labels[-_HELD_OUT:][index]),
            )
            for index in real_triggers
        ),
        filters=(
            FilterView(
                name="distance",
                description="mean difference from the nearest real image",
                threshold=threshold,
                trigger_scores=scores[triggers],
                real_scores=real_scores,
                rejected=len(pictures) - len(valid),
            ),
        ),
        samples=blends[:12],
        settings={"seed": 0, "search": {"population": 100, "reducer": None}},
        files={"model A": {"path": "a.onnx", "sha256": "0" * 64}, "model B": {"path": "b.onnx", "sha256": "1" * 64}},
    )


@pytest.fixture
def without_triggers(report_data: ReportData) -> ReportData:
    """The same run, had it found nothing."""
    return changed(
        report_data,
        triggers=0,
        valid_triggers=0,
        behaviours=0,
        label_pairs=0,
        verified_single=0,
        pair_counts=LabelPairs.of_matrix(np.zeros_like(report_data.pairs.matrix())),
        groups=(),
        rejected=(),
        filters=tuple(
            replace(view, trigger_scores=np.zeros(0, np.float32), rejected=0) for view in report_data.filters
        ),
        history={
            key: [0.0] * 3 if key not in ("queries", "seconds") else x for key, x in report_data.results.history.items()
        },
    )


@pytest.fixture
def with_pictures(report_data: ReportData) -> Callable[[tuple[int, int, int], int, int], ReportData]:
    """Makes a report of ``number`` noise pictures of a shape with ``classes`` classes: the worst case for its size."""

    def make(shape: tuple[int, int, int], number: int, classes: int) -> ReportData:
        random = np.random.default_rng(1)

        def picture(identifier: int) -> Picture:
            label_a = identifier % classes
            return Picture(
                image=random.integers(0, 256, shape, np.uint8),
                labels=(label_a, (label_a + 1 + identifier // classes) % classes),
                probabilities=random.dirichlet(np.full(classes, 0.1), 2).astype(np.float32),
                identifier=identifier,
                scores={"distance": -1.0},
                nearest_real=random.integers(0, 256, shape, np.uint8),
            )

        groups = _groups([picture(index) for index in range(number)], np.zeros(number, int))
        said = [group.labels for group in groups for _ in range(group.count)]
        return changed(
            report_data,
            class_names=tuple(f"class {index}" for index in range(classes)),
            triggers=number,
            valid_triggers=number,
            behaviours=len(groups),
            label_pairs=len(groups),
            groups=groups,
            pair_counts=LabelPairs.of(np.array(said), classes),
            real_matrix=LabelPairs.of(np.empty((0, 2), np.int64), classes),
            rejected=(),
            real_disagreements=(),
            samples=np.zeros((0, *shape), np.uint8),
        )

    return make
