"""Label sheets of a run: how many pictures are on one, and which."""

from __future__ import annotations

import csv
import string
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from diffgen.config import LabelConfig
from diffgen.errors import UserError
from diffgen.labels.sheet import image_id, keys_of, sample_size
from diffgen.metrics.counting import NOT_VALID
from diffgen.runs.folder import RunFolder
from diffgen.workflows.label import label_export, read_valid_triggers
from tests.labels.conftest import TRIGGERS, make_run

VALID = TRIGGERS - 1


@pytest.mark.parametrize(("population", "wanted"), [(10_000, 370), (10**9, 385), (1200, 292), (50, 45), (1, 1), (0, 0)])
def test_sample_size_as_in_the_tables(population: int, wanted: int) -> None:
    assert sample_size(population, confidence=0.95, margin=0.05) == wanted


@given(st.integers(1, 10**6), st.floats(0.5, 0.999), st.floats(0.005, 0.4))
def test_a_sample_is_never_larger_than_what_there_is(population: int, confidence: float, margin: float) -> None:
    size = sample_size(population, confidence=confidence, margin=margin)
    assert 1 <= size <= population
    assert size <= sample_size(population + 1, confidence=confidence, margin=margin)


def test_the_sheet_holds_the_pictures_byte_for_byte(run: RunFolder, tmp_path: Path) -> None:
    result = label_export(run.path, tmp_path / "sheet")
    assert result.distinct_valid_triggers == VALID
    assert result.pictures == sample_size(VALID, confidence=0.95, margin=0.05)
    finds = read_valid_triggers(run)
    by_id = {image_id(digest): image for digest, image in zip(finds.hashes, finds.images, strict=True)}
    with (tmp_path / "sheet" / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["id"] for row in rows}) == len(rows) == result.pictures
    for row in rows:
        assert row["label"] == ""
        assert np.array_equal(np.asarray(Image.open(tmp_path / "sheet" / row["file"])), by_id[row["id"]][0])
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_sheet_has_no_near_duplicate(tmp_path: Path) -> None:
    leaders = np.arange(TRIGGERS)
    leaders[1:20] = 0
    leaders[-1] = NOT_VALID
    run = make_run(tmp_path / "run", verdicts={"near_duplicate_of": leaders})
    result = label_export(run.path, tmp_path / "sheet", config=LabelConfig(count=TRIGGERS))
    assert (result.pictures, result.distinct_valid_triggers) == (VALID - 19, VALID - 19)
    finds = read_valid_triggers(run)
    repeated = {image_id(digest) for digest in finds.hashes[1:20]}
    with (tmp_path / "sheet" / "labels.csv").open(newline="") as file:
        ids = {row["id"] for row in csv.DictReader(file)}
    assert ids == {image_id(digest) for digest in finds.hashes} - repeated


def test_a_sheet_replaces_nothing(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "sheet").mkdir()
    (tmp_path / "sheet" / "labels.csv").write_text("my labels")
    with pytest.raises(UserError, match="name another folder"):
        label_export(run.path, tmp_path / "sheet")
    assert (tmp_path / "sheet" / "labels.csv").read_text() == "my labels"


# -- which key each class has when somebody labels by keyboard --


@pytest.mark.parametrize(
    ("names", "keys", "invalid"),
    [
        (list(string.digits), list(string.digits), "x"),
        (list(string.ascii_lowercase), list(string.ascii_lowercase), "-"),
        (list(string.ascii_uppercase), list(string.ascii_lowercase), "-"),
        (["cat", "dog", "bird"], ["0", "1", "2"], "x"),
        (["1", "one", "k", "thing"], ["1", "0", "k", "2"], "x"),
        (["a", "A", "b"], ["", "", "b"], "x"),
        (["x", "X", "-"], ["", "", "-"], "."),
    ],
)
def test_a_letter_is_its_own_key(names: list[str], keys: list[str], invalid: str) -> None:
    assert keys_of(names) == (tuple(keys), invalid)


@given(st.lists(st.one_of(st.characters().map(str), st.text(max_size=3)), min_size=1, max_size=80))
def test_no_key_stands_for_two_things_or_for_another_letter(names: list[str]) -> None:
    keys, invalid = keys_of(names)
    given_keys = [key for key in keys if key]
    assert len(set(given_keys)) == len(given_keys)
    letters = {name.strip().lower() for name in names}
    for name, key in zip(names, keys, strict=True):
        assert key in ("", name.strip().lower()) or key not in letters
    assert invalid not in letters
