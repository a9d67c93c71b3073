"""Tables of answers: every form of file, images that are missing, and what a table cannot be asked."""

from __future__ import annotations

import csv
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.data import load as load_data
from diffgen.errors import UserError
from diffgen.models import load
from diffgen.models.answer_table import AnswerTable
from diffgen.runs.triggers import image_hashes
from diffgen.types import ImageSet
from tests.cli.conftest import diffgen_command  # noqa: F401


@pytest.fixture(scope="module")
def data() -> ImageSet:
    digits = load_data("digits:test")
    assert digits.labels is not None
    return ImageSet(digits.images[:120], digits.labels[:120], digits.class_names, "some digits")


@pytest.fixture(scope="module")
def answers() -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.full(10, 0.2), 120).astype(np.float32)


def write_csv(path: Path, columns: dict[str, Any]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def of_classes(answers: np.ndarray) -> dict[str, Any]:
    return {f"class {number}": answers[:, number].tolist() for number in range(answers.shape[1])}


def opened(path: Path, data: ImageSet) -> AnswerTable:
    box = load(path)
    assert isinstance(box, AnswerTable)
    box.bind(data)
    box.prepare(data.images)
    return box


def test_every_form_gives_the_same_answers(data: ImageSet, answers: np.ndarray, tmp_path: Path) -> None:
    order = np.random.default_rng(1).permutation(120)
    hashes = [each.hex() for each in image_hashes(data.images)]
    np.savez(tmp_path / "rows.npz", probabilities=answers)
    np.savez(tmp_path / "ids.npz", probabilities=answers[order], id=order)
    np.savez(tmp_path / "hashes.npz", probabilities=answers[order], hash=np.array(hashes)[order])
    write_csv(tmp_path / "ids.csv", {"id": order.tolist(), **of_classes(answers[order])})
    write_csv(tmp_path / "hashes.csv", {"hash": np.array(hashes)[order].tolist(), **of_classes(answers[order])})
    names = ["rows.npz", "ids.npz", "hashes.npz", "ids.csv", "hashes.csv"]
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    arrow = pytest.importorskip("pyarrow")
    parquet.write_table(arrow.table({"id": order.tolist(), **of_classes(answers[order])}), tmp_path / "ids.parquet")
    rng = np.random.default_rng(2)
    for name in (*names, "ids.parquet"):
        box, asked = opened(tmp_path / name, data), rng.permutation(120)[:50]
        np.testing.assert_allclose(box.predict(data.images[asked]), answers[asked], atol=1e-5)
        tensor = box.predict(torch.from_numpy(data.images[asked]))
        np.testing.assert_allclose(tensor.numpy(), answers[asked], atol=1e-5)


def test_labels_are_sure_answers(data: ImageSet, tmp_path: Path) -> None:
    said = np.random.default_rng(3).integers(0, 7, 120)
    np.savez(tmp_path / "labels.npz", labels=said)
    box = opened(tmp_path / "labels.npz", data)
    assert box.num_classes == 10, "as many as the data has"
    answers = box.predict(data.images)
    assert answers.argmax(axis=1).tolist() == said.tolist() and (answers.max(axis=1) == 1).all()


def test_what_is_no_table_or_lacks_images(
    data: ImageSet, answers: np.ndarray, tmp_path: Path, told: Callable[..., None]
) -> None:
    hashes = [each.hex() for each in image_hashes(data.images)]
    files = {
        "a table that lacks images": {"id": list(range(100)), **of_classes(answers[:100])},
        "a table of other rows than the data": {"label": [1] * 90, "note": ["x"] * 90},
        "a table that names a row beyond the data": {"id": [*range(119), 500], "label": [1] * 120},
        "a table that names an image twice": {"id": [*range(119), 3], "label": [1] * 120},
        "a table with hashes that are none": {"hash": ["xyz"] * 120, "label": [1] * 120},
        "a table with hashes of another length": {"hash": [each[:8] for each in hashes], "label": [1] * 120},
        "a table with labels that are no classes": {"id": list(range(120)), "label": [0.5] * 120},
        "a table with answers that are no numbers": {"id": list(range(120)), "label": ["cat"] * 120},
        "a table of logits": {"id": list(range(120)), **of_classes(4 * answers)},
        "a table of one class": {"id": list(range(120)), "only": [1.0] * 120},
    }
    for case, columns in files.items():
        path = write_csv(tmp_path / "answers.csv", columns)
        with pytest.raises(UserError) as raised:
            opened(path, data)
        told("tables of answers", case, raised.value)
    (tmp_path / "damaged.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(UserError):
        load(tmp_path / "damaged.npz")


def test_a_table_that_is_damaged_inside(answers: np.ndarray, tmp_path: Path, told: Callable[..., None]) -> None:
    path = tmp_path / "answers.npz"
    np.savez(path, probabilities=answers)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(UserError) as raised:
        load(path)
    told("tables of answers", "a table (.npz) with a damaged byte", raised.value)


def test_a_label_of_many_classes_takes_no_square_of_them(data: ImageSet, tmp_path: Path) -> None:
    said = np.arange(120)
    said[7] = 65_535
    np.savez(tmp_path / "labels.npz", labels=said)
    box = load(tmp_path / "labels.npz")
    assert isinstance(box, AnswerTable)
    tracemalloc.start()
    box.bind(data)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert box._answers.argmax(axis=1).tolist() == said.tolist() and box._answers.sum() == 120
    assert most < 2 * box._answers.nbytes


def test_a_table_is_asked_about_no_other_image(data: ImageSet, answers: np.ndarray, tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", probabilities=answers)
    box = opened(tmp_path / "rows.npz", data)
    with pytest.raises(UserError, match="has no answer to 2 of 3 images"):
        box.predict(np.concatenate([data.images[:1], 255 - data.images[:2]]))


def test_compare_and_check(
    data: ImageSet,
    tmp_path: Path,
    diffgen_command: Callable[..., Any],  # noqa: F811
    told: Callable[..., None],
) -> None:
    digits = load_data("digits:test")
    assert digits.labels is not None
    rng = np.random.default_rng(4)
    paths = []
    for name, wrong in (("a.npz", 0.02), ("b.npz", 0.05)):
        said = np.where(rng.random(len(digits)) < wrong, rng.integers(0, 10, len(digits)), digits.labels)
        np.savez(tmp_path / name, probabilities=np.eye(10)[said] * 0.8 + 0.02)
        paths.append((tmp_path / name, said))
    (a, said_a), (b, said_b) = paths
    words = ("--data", "digits:test", "--device", "cpu", "--set", "filters.jury.shown=640")
    refused = diffgen_command("compare", a, b, *words, "-o", tmp_path / "run")
    assert refused.code == 2 and not (tmp_path / "run").exists()
    told("tables of answers", "a search with a table", refused.err.removeprefix("diffgen: "))
    outcome = diffgen_command("compare", a, b, *words, "--technique", "as_is", "--json", "-o", tmp_path / "run")
    assert outcome.code == 0, outcome.err
    values = json.loads(outcome.out.splitlines()[-1])
    assert values["triggers"] == int((said_a != said_b).sum()) and values["queries"] == len(digits)
    assert "ms an image" in outcome.out and "A -, B -" in outcome.out
    refused = diffgen_command("check", a, b, *words, "--technique", "as_is", "-o", tmp_path / "checked")
    assert refused.code == 2
    assert "--variations 0" in refused.err
    told("tables of answers", "variations of a check with a table", refused.err.removeprefix("diffgen: "))
    alone = ("--technique", "as_is", "--variations", "0", "--max-disagreement", "20%")
    outcome = diffgen_command("check", a, b, *words, *alone, "-o", tmp_path / "checked")
    assert outcome.code in (0, 1), outcome.out + outcome.err
    assert "calibration error (ECE)" in outcome.out and "flips" in outcome.out
