"""Geometric diversity of a run, on real digits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from diffgen.comparison.results import SUBSET, measure_diversity
from diffgen.comparison.stages import CompareResult
from diffgen.features import cells
from diffgen.features.encoder import DomainEncoder
from diffgen.report.reading import report_data
from diffgen.runs.folder import RunFolder
from diffgen.runs.images import ImageColumn
from diffgen.runs.results import FinishedRun
from diffgen.types import ImageSet


@pytest.fixture(scope="module")
def encoder(digits: ImageSet) -> DomainEncoder:
    return cells.prepare(digits).encoder


def test_digits_of_one_class_are_less_diverse_than_those_of_all(encoder: DomainEncoder, digits: ImageSet) -> None:
    images = ImageColumn.of(digits.images)
    alike = images.chosen(np.flatnonzero(digits.labels == 0))
    found = measure_diversity(encoder, alike, images)
    assert found is not None
    assert found["found"]["mean"] < found["real"]["mean"] - 5 * found["real"]["deviation"]
    assert found["real"]["mean"] < 0


def test_the_figure_is_the_log_determinant_of_the_gram_matrix(encoder: DomainEncoder, digits: ImageSet) -> None:
    """Of as many pictures as one draw holds, so that every draw is the same set."""
    images = torch.from_numpy(digits.images[:SUBSET])
    features = torch.nn.functional.normalize(encoder.encode(images).double(), dim=1)
    column = ImageColumn.of(images.numpy())
    found = measure_diversity(encoder, column, column)
    assert found is not None
    assert found["found"] == {
        "mean": pytest.approx(float(torch.logdet(features @ features.T)), abs=0.01),
        "deviation": 0,
    }


def test_without_enough_pictures_or_with_copies_there_is_none(encoder: DomainEncoder, digits: ImageSet) -> None:
    images = ImageColumn.of(digits.images)
    assert measure_diversity(encoder, images.chosen(np.arange(SUBSET - 1)), images) is None
    assert measure_diversity(encoder, images.chosen(np.zeros(SUBSET, dtype=np.int64)), images) is None


def test_a_run_says_how_diverse_its_pictures_are(finished: CompareResult) -> None:
    folder = RunFolder.open(finished.run)
    found = folder.results()["geometric_diversity"]
    assert (found is None) == (finished.distinct_valid_triggers < SUBSET)
    assert bool(report_data(FinishedRun.open(folder)).diversity) == (found is not None)
    assert found is None or np.isfinite(found["found"]["mean"])
