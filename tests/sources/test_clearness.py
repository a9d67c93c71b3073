"""How clearly real images show their label: what a jury gives it, kept in the cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.config import SplitConfig
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.events import Event, Progress
from diffgen.features import jury
from diffgen.features.jury import Jury
from diffgen.runs.cache import ENVIRONMENT
from diffgen.sources.preferences import clearness, prepare_clearness
from diffgen.types import ImageSet

SILENT = Progress()


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    return load("digits")


@pytest.fixture(scope="module")
def judges(digits: ImageSet) -> Jury:
    return jury.train(torch.from_numpy(digits.images), torch.from_numpy(digits.labels), shown=5_000)


def test_it_is_what_the_jury_gives_the_label(digits: ImageSet, judges: Jury) -> None:
    found = clearness(digits.images, digits.labels, judges, SILENT)
    for row in (0, 500, 1_100):  # beyond one portion of images, and one image at a time
        said = judges.answers(torch.from_numpy(digits.images[row : row + 1]))[0]
        place = judges.labels.tolist().index(int(digits.labels[row]))
        np.testing.assert_allclose(found[row], said[place], atol=1e-5)
    assert np.median(found) > 0.9


def test_a_wrong_label_and_one_that_the_jury_never_saw_are_not_clear(digits: ImageSet, judges: Jury) -> None:
    right = clearness(digits.images, digits.labels, judges, SILENT)
    wrong = clearness(digits.images, (digits.labels + 1) % 10, judges, SILENT)
    assert np.median(wrong) < 0.05 < np.median(right)
    assert not clearness(digits.images[:5], np.full(5, 77), judges, SILENT).any()


def test_without_labels_the_jurys_own_name_counts(digits: ImageSet, judges: Jury) -> None:
    found = clearness(digits.images, None, judges, SILENT)
    np.testing.assert_allclose(found, judges.answers(torch.from_numpy(digits.images)).max(dim=1).values, atol=1e-5)


def test_a_picture_of_nothing_is_less_clear_than_a_digit(digits: ImageSet, judges: Jury) -> None:
    nothing = np.random.default_rng(0).integers(0, 256, (50, *digits.images.shape[1:]), dtype=np.uint8)
    unclear = clearness(nothing, None, judges, SILENT)
    assert np.median(unclear) < np.quantile(clearness(digits.images, None, judges, SILENT), 0.25)


def test_it_is_asked_for_once(digits: ImageSet, judges: Jury, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    split = DataSplit(digits, SplitConfig())
    first = prepare_clearness(split, judges, SILENT)
    (file,) = (tmp_path / "filters").glob("*.safetensors")
    with monkeypatch.context() as silenced:
        silenced.setattr(Jury, "answers", None)
        np.testing.assert_array_equal(prepare_clearness(split, judges, SILENT), first)
    file.write_bytes(b"cut off")
    said: list[Event] = []
    np.testing.assert_array_equal(prepare_clearness(split, judges, Progress(said.append)), first)
    assert "clearness" in str(said[0]) and "made anew" in str(said[0])
