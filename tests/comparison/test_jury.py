"""The jury of a comparison: what teaches it, when there is none, and how sure it has to be."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffgen.comparison.jury import PreparedJury, RealLabels, prepare_jury, reliable_from
from diffgen.config import CompareConfig, FilterConfig, SplitConfig
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features.jury import NO_LABEL
from diffgen.types import ImageSet, Int64Array

_CPU = torch.device("cpu")


def _prepared(images: ImageSet, labels: Int64Array, origin: str = "given", *, shown: int = 6_000) -> PreparedJury:
    split, known = DataSplit(images, SplitConfig()), RealLabels(labels, origin)
    config = CompareConfig(filters=FilterConfig(filters={"jury": {"shown": shown}}))
    return prepare_jury(split, known, config, device=_CPU, progress=Progress())


def _digits() -> tuple[ImageSet, Int64Array]:
    digits = load("digits:test")
    assert digits.labels is not None
    return digits, digits.labels


def test_it_recognises_real_images_and_no_noise() -> None:
    images, labels = _digits()
    made = _prepared(images, labels)
    assert made.recogniser is not None and made.figures is not None and not made.missing
    assert made.recogniser.unaided is not None and made.recogniser.unaided >= made.recogniser.threshold
    assert made.figures.helped is not None and made.figures.helped <= made.figures.accuracy
    assert made.figures.accuracy > 0.85 and made.figures.reliable is not None and made.figures.reliable >= 0.95
    reading = made.recogniser.read(torch.from_numpy(images.images))
    assert (reading.named == labels).mean() > 0.85
    noise = np.random.default_rng(0).integers(0, 256, images.images[:200].shape, dtype=np.uint8)
    assert made.recogniser.read(torch.from_numpy(noise)).recognised.mean() < reading.recognised.mean() / 2
    assert _prepared(images, labels).note == made.note, "the second one comes from the cache"


def test_what_was_made_from_a_labelled_image_must_be_named_like_it() -> None:
    images, labels = _digits()
    recogniser = _prepared(images, labels).recogniser
    assert recogniser is not None
    pictures = torch.from_numpy(images.images)
    alone = recogniser.read(pictures)
    wrong = recogniser.read(pictures, (alone.named + 1) % 10)
    assert not wrong.recognised.any()
    right = recogniser.read(pictures, alone.named)
    assert (right.recognised | ~alone.recognised).all(), "help makes nothing unrecognisable"
    unknown = recogniser.read(pictures, np.full(len(pictures), NO_LABEL))
    np.testing.assert_array_equal(unknown.recognised, alone.recognised)


def test_without_labels_it_learns_what_the_models_agree_on() -> None:
    images, labels = _digits()
    known = np.where(np.arange(len(labels)) % 4 == 0, NO_LABEL, labels)
    made = _prepared(ImageSet(images.images, None, None, "bare"), known, "a digest", shown=2_000)
    assert made.figures is not None and made.figures.agreed
    assert made.figures.trained_on < len(labels) * 0.75
    assert "that the models agree on" in str(made.figures)


def test_there_is_none_where_nothing_could_be_learned() -> None:
    images, labels = _digits()
    none = np.full(len(labels), NO_LABEL)
    assert "the models agree on none" in _prepared(images, none, "digest").missing
    assert "one label only" in _prepared(images, np.zeros_like(labels)).missing
    few = ImageSet(images.images[:60], labels[:60], None, "few")
    made = _prepared(few, labels[:60])
    assert "take 100" in made.missing and made.recogniser is None and made.note is None
    shuffled = np.random.default_rng(1).permutation(labels)
    assert "wrong too often" in _prepared(images, shuffled, "shuffled", shown=640).missing


@given(
    st.lists(st.tuples(st.floats(-2, 0, width=32), st.booleans()), min_size=1, max_size=120),
    st.floats(-2, 0, width=32),
)
def test_names_are_reliable_from_the_threshold_on(answers: list[tuple[float, bool]], at_least: float) -> None:
    sure = np.asarray([each for each, _ in answers], dtype=np.float32)
    right = np.asarray([each for _, each in answers])
    found = reliable_from(sure, right, at_least=at_least)
    fewest = min(20, len(sure))
    candidates = [
        float(value)
        for value in np.unique(sure)
        if value >= np.float32(at_least) and (sure >= value).sum() >= fewest and right[sure >= value].mean() >= 0.95
    ]
    assert found == (min(candidates) if candidates else None)
