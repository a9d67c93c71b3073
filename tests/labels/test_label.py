"""Labels of a run: sheets, several annotators, reference models, intended classes, and every mistake."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from diffgen.config import LabelConfig, ModelSpec
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.labels.reading import label_values, merge
from diffgen.labels.sheet import image_id
from diffgen.labels.store import INVALID, UNLABELLED, LabelStore
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import read_finished, write_results
from diffgen.workflows.label import (
    label_counts,
    label_export,
    label_import,
    label_intended,
    read_store,
    read_valid_triggers,
)
from diffgen.workflows.label_oracle import label_oracle
from tests.labels.conftest import TRIGGERS, make_run, truth_of
from tests.recording import Recording

VALID = TRIGGERS - 1


def write_csv(path: Path, rows: list[tuple[str, object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "label"), *rows])
    return path


@pytest.fixture
def truth_rows(run: RunFolder) -> list[tuple[str, object]]:
    """A whole and right sheet of all valid triggers."""
    ids = [image_id(each) for each in read_valid_triggers(run).hashes]
    return list(zip(ids, truth_of(VALID).tolist(), strict=True))


def classifier(seed: int, count: int = 400) -> Callable[[np.ndarray], np.ndarray]:
    digits = load("digits:train")
    rows = np.random.default_rng(seed).permutation(len(digits))[:count]
    model = LogisticRegression(max_iter=300).fit(digits.images[rows].reshape(count, -1) / 255, digits.labels[rows])
    return lambda pixels: model.predict_proba(pixels.reshape(len(pixels), -1)).astype(np.float32)


def test_labels_keep_their_source_and_people_come_first(
    run: RunFolder, truth_rows: list[tuple[str, object]], tmp_path: Path
) -> None:
    label_oracle(run.path, classifier(0))
    before, _ = read_store(run, read_valid_triggers(run)).of(read_valid_triggers(run).hashes)
    rows = [(identifier, "invalid" if n == 0 else label) for n, (identifier, label) in enumerate(truth_rows[:10])]
    result = label_import(run.path, [write_csv(tmp_path / "a.csv", rows)])
    assert (result.labelled, result.invalid) == (9, 1)
    finds = read_valid_triggers(run)
    labels, sources = read_store(run, finds).of(finds.hashes)
    assert sources.tolist() == ["human"] * 10 + ["oracle"] * (VALID - 10)
    assert labels[:10].tolist() == [INVALID, *truth_of(VALID)[1:10]]
    assert np.array_equal(labels[10:], before[10:])
    assert label_counts(run.path)[1] == {"human": 10, "oracle": VALID, "intended": 0}


def test_the_outcomes_are_counted(run: RunFolder, truth_rows: list[tuple[str, object]], tmp_path: Path) -> None:
    result = label_import(run.path, str(write_csv(tmp_path / "a.csv", truth_rows)))
    assert result.outcomes == {"only A right": 20, "only B right": 20, "both wrong": 19, "invalid": 0}


def test_three_annotators(run: RunFolder, truth_rows: list[tuple[str, object]], tmp_path: Path) -> None:
    ids, truth = zip(*truth_rows, strict=True)
    second, third = list(truth), list(truth)
    second[0] = third[0] = (truth[0] + 1) % 10  # outvotes the first
    second[1], third[1] = (truth[1] + 1) % 10, (truth[1] + 2) % 10  # three words
    second[2] = "invalid"
    sheets = [
        write_csv(tmp_path / f"{name}.csv", list(zip(ids, labels, strict=True)))
        for name, labels in (("a", truth), ("b", second), ("c", third))
    ]
    result = label_import(run.path, sheets)
    finds = read_valid_triggers(run)
    store = read_store(run, finds)
    labels, _ = store.of(finds.hashes)
    assert labels[:3].tolist() == [(truth[0] + 1) % 10, UNLABELLED, truth[2]]
    assert np.array_equal(labels[3:], truth[3:])
    assert (result.undecided, result.annotators) == (1, 3)
    assert store.about["human"]["ties"] == 1
    assert store.about["human"]["unanimous"] == VALID - 3
    assert result.kappa == pytest.approx(np.mean(store.about["human"]["kappas"]))
    assert 0.9 < result.kappa < 1


def test_a_label_that_is_in_doubt_now_is_none(
    run: RunFolder, truth_rows: list[tuple[str, object]], tmp_path: Path
) -> None:
    label_import(run.path, [write_csv(tmp_path / "old.csv", truth_rows[:6])])
    ids, truth = zip(*truth_rows[:4], strict=True)
    # of the first they differ, of the second one says something, of the third nobody does
    votes = ([*truth[:2], "", truth[3]], [(truth[0] + 1) % 10, "", "", truth[3]])
    sheets = [
        write_csv(tmp_path / f"{name}.csv", list(zip(ids, labels, strict=True)))
        for name, labels in zip("ab", votes, strict=True)
    ]
    with pytest.raises(UserError, match="for 1 of these pictures; add --force"):
        label_import(run.path, sheets, partial=True)
    result = label_import(run.path, sheets, partial=True, force=True)
    finds = read_valid_triggers(run)
    store = read_store(run, finds)
    assert store.of(finds.hashes)[0][:7].tolist() == [UNLABELLED, *truth_of(VALID)[1:6], UNLABELLED]
    # those of the first time that are left are among them
    assert (result.labelled, result.undecided, sum(result.outcomes.values())) == (5, 2, 5)
    about = store.about["human"]
    assert about["annotators"] == ["a.csv", "b.csv"]
    assert [each["annotators"] for each in about["earlier"]] == [["old.csv"]]
    label_import(run.path, [write_csv(tmp_path / "all.csv", truth_rows)], force=True)
    assert "earlier" not in read_store(run, finds).about["human"]


def test_kappa_against_its_definition() -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-1, 4, 300)
    b = np.where(rng.random(300) < 0.6, a, rng.integers(-1, 4, 300))
    observed = np.mean(a == b)
    chance = sum(np.mean(a == k) * np.mean(b == k) for k in range(-1, 4))
    assert merge(np.stack([a, b])).kappa == pytest.approx((observed - chance) / (1 - chance))
    assert merge(np.array([[1, 1], [1, 1]])).kappa is None


@given(st.lists(st.lists(st.integers(-2, 3), min_size=3, max_size=3), min_size=1, max_size=6))
def test_majority_against_counting(annotations: list[list[int]]) -> None:
    for column, label in enumerate(merge(np.array(annotations)).labels.tolist()):
        votes = [row[column] for row in annotations if row[column] != UNLABELLED]
        best = [vote for vote in set(votes) if all(votes.count(vote) > votes.count(o) for o in set(votes) - {vote})]
        assert label == (best[0] if best else UNLABELLED)


def test_reference_models_have_to_agree(run: RunFolder) -> None:
    oracles = [classifier(0, 300), classifier(1, 60)]
    result = label_oracle(run.path, oracles)
    finds = read_valid_triggers(run)
    said = [oracle(finds.images.astype(np.float32) / 255).argmax(axis=1) for oracle in oracles]
    labels, _ = read_store(run, finds).of(finds.hashes)
    assert np.array_equal(labels, np.where(said[0] == said[1], said[0], UNLABELLED))
    assert 0 < result.undecided < VALID
    assert result.labelled == VALID - result.undecided
    # the same again changes nothing and needs no --force; other answers do
    assert label_oracle(run.path, oracles).labelled == result.labelled
    with pytest.raises(UserError, match="add --force"):
        label_oracle(run.path, [classifier(2, 40)])
    assert label_oracle(run.path, [classifier(2, 40)], force=True).labelled == VALID


def test_a_reference_model_with_other_classes(run: RunFolder) -> None:
    with pytest.raises(UserError, match="7 classes but the run has 10"):
        label_oracle(run.path, [lambda pixels: np.full((len(pixels), 7), 1 / 7, np.float32)])


def test_a_reference_model_that_counts_its_classes_otherwise(run: RunFolder) -> None:
    """Its file names them, as the run does: what it says is a name, whatever the number."""
    words = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    write_results(run, replace(read_finished(run), class_names=tuple(words)))
    plain, order = classifier(0), np.random.default_rng(0).permutation(10)
    label_oracle(run.path, [plain])
    hashes, said = read_valid_triggers(run).hashes, Recording()
    before, _ = read_store(run, read_valid_triggers(run)).of(hashes)
    named = ModelSpec(class_names=tuple(words[order]))
    label_oracle(run.path, [lambda pixels: plain(pixels)[:, order]], options=named, events=said, force=True)
    after, _ = read_store(run, read_valid_triggers(run)).of(hashes)
    assert np.array_equal(after, before)
    assert any("counted as the run does, by their names" in line for line in said.lines)


def layout(latent_dim: object, classes: object) -> dict[str, object]:
    return {"latent_dim": latent_dim, "classes": classes, "prior": "normal"}


def with_class(latent_dim: int) -> np.ndarray:
    return np.column_stack([np.zeros((TRIGGERS, latent_dim)), truth_of(TRIGGERS)]).astype(np.float32)


def test_intended_classes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", latents=with_class(20), manifest={"latents": layout(20, 10)})
    assert label_intended(run.path).labelled == VALID
    labels, sources = read_store(run, read_valid_triggers(run)).of(read_valid_triggers(run).hashes)
    assert np.array_equal(labels, truth_of(VALID))
    assert set(sources.tolist()) == {"intended"}


@pytest.mark.parametrize("entry", [None, layout(20, 0)], ids=["no generator", "a generator without classes"])
def test_no_class_was_intended(entry: object, tmp_path: Path) -> None:
    latents = None if entry is None else np.zeros((TRIGGERS, 20), np.float32)
    run = make_run(tmp_path / "run", latents=latents, manifest={"latents": entry})
    with pytest.raises(UserError, match="no class was intended"):
        label_intended(run.path)
    assert not (run.path / "labels.npz").exists()


@pytest.mark.parametrize(
    "entry", [{}, layout(20, "ten"), layout(-1, 10), layout(20, True), layout(2**70, 10), layout(21, 10), [], "normal"]
)
def test_latent_vectors_that_cannot_be(entry: object, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", latents=with_class(20), manifest={"latents": entry})
    with pytest.raises(UserError, match="the run folder is damaged"):
        label_intended(run.path)
    assert not (run.path / "labels.npz").exists()


MISTAKES = {
    "unknown id": (lambda rows: [("t000000000000", 1), *rows], "is none of this run's"),
    "twice": (lambda rows: [*rows, rows[0]], "twice"),
    "no class": (lambda rows: [(rows[0][0], 12), *rows[1:]], "is not a class; write one of 0, 1, 2"),
    "no label": (lambda rows: [(rows[0][0], ""), *rows[1:]], "no label for 1 of 59 pictures .* --partial"),
    "empty sheet": (lambda rows: [(identifier, "") for identifier, _ in rows], "label its pictures first"),
    "no rows": (lambda rows: [], "has no rows"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_bad_sheets(mistake: str, run: RunFolder, truth_rows: list[tuple[str, object]], tmp_path: Path) -> None:
    label_oracle(run.path, [classifier(0)])
    before = (run.path / "labels.npz").read_bytes()
    spoil, message = MISTAKES[mistake]
    with pytest.raises(UserError, match=message):
        label_import(run.path, [write_csv(tmp_path / "a.csv", spoil(truth_rows))])
    assert (run.path / "labels.npz").read_bytes() == before


def test_sheets_that_do_not_match(run: RunFolder, truth_rows: list[tuple[str, object]], tmp_path: Path) -> None:
    a, b = write_csv(tmp_path / "a.csv", truth_rows[:20]), write_csv(tmp_path / "b.csv", truth_rows[1:20])
    with pytest.raises(UserError, match="do not hold the same pictures \\(1 are in one of them only"):
        label_import(run.path, [a, b])
    with pytest.raises(UserError, match="named twice"):
        label_import(run.path, [a, a])
    assert not (run.path / "labels.npz").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\x00label", "not text in UTF-8"),
        (b"picture,class\n1,2\n", "no columns 'id' and 'label'"),
        (b"", "no columns 'id' and 'label'"),
        (b'id,label\n"t1,2\n', "is not CSV"),
    ],
)
def test_files_that_are_no_sheets(content: bytes, message: str, run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(UserError, match=message):
        label_import(run.path, [tmp_path / "a.csv"])
    with pytest.raises(UserError, match="cannot be read"):
        label_import(run.path, [tmp_path / "missing.csv"])


def test_a_spreadsheet_of_another_country(run: RunFolder, truth_rows: list[tuple[str, object]], tmp_path: Path) -> None:
    lines = ["\ufeffID;file;Label", *(f"{identifier};x.png; {label} " for identifier, label in truth_rows)]
    (tmp_path / "a.csv").write_bytes("\r\n".join(lines).encode())
    assert label_import(run.path, [tmp_path / "a.csv"]).labelled == VALID


def test_part_of_a_sheet(run: RunFolder, truth_rows: list[tuple[str, object]], tmp_path: Path) -> None:
    rows = [(identifier, label if n < 7 else "") for n, (identifier, label) in enumerate(truth_rows)]
    result = label_import(run.path, [write_csv(tmp_path / "a.csv", rows)], partial=True)
    assert (result.labelled, result.undecided) == (7, VALID - 7)


def test_a_run_without_triggers(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", triggers=0)
    for action in (
        lambda: label_export(run.path, tmp_path / "sheet"),
        lambda: label_import(run.path, [tmp_path / "a.csv"]),
        lambda: label_intended(run.path),
    ):
        with pytest.raises(UserError, match="has no valid trigger"):
            action()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_damaged_labels_are_told(run: RunFolder) -> None:
    (run.path / "labels.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(UserError, match="cannot be read"):
        label_counts(run.path)


def test_names_are_numbers_only_where_no_name_is_one() -> None:
    assert label_values(["cat", "Dog"]) == {"0": 0, "1": 1, "invalid": INVALID, "cat": 0, "dog": 1, "Dog": 1}
    assert label_values(["3", "8"]) == {"3": 0, "8": 1, "invalid": INVALID}
    assert label_values(["valid", "invalid"])["invalid"] == 1


def test_a_letter_and_its_capital_are_two_classes(run: RunFolder, tmp_path: Path) -> None:
    """As EMNIST has them: the page writes the name of the class, and each has to come back as itself."""
    results = read_finished(run)
    names = ("a", "A", "Cat", "cAT", "crane", "crane", "6", "7", "8", "9")
    write_results(run, replace(results, class_names=names))
    ids = [image_id(each) for each in read_valid_triggers(run).hashes]
    rows = list(zip(ids, ("a", "A", "Cat", "cAT"), strict=False))
    label_import(run.path, write_csv(tmp_path / "good.csv", rows))
    finds = read_valid_triggers(run)
    assert read_store(run, finds).of(finds.hashes)[0][:4].tolist() == [0, 1, 2, 3]
    for either in ("CAT", "crane"):
        with pytest.raises(UserError, match=f"The label '{either}' in line 2 of .* is not a class"):
            label_import(run.path, write_csv(tmp_path / "bad.csv", [(ids[0], either)]))


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(UNLABELLED, 3), st.sampled_from(["human", "oracle"])), max_size=12
    )
)
def test_the_store_against_a_dictionary(entries: list[tuple[int, int, str]]) -> None:
    store, plain = LabelStore.empty(2), {}
    for picture, label, source in entries:
        digest = np.array([[picture, 7]], np.uint8)
        store = store.added(source, digest, np.array([label]), {}, replace=True)
        plain[picture, source] = label
        if label == UNLABELLED:
            del plain[picture, source]
    store = LabelStore.from_arrays(store.as_arrays())
    labels, sources = store.of(np.array([[picture, 7] for picture in range(6)], np.uint8))
    for picture in range(6):
        known = [source for source in ("human", "oracle") if (picture, source) in plain]
        assert sources[picture] == (known[0] if known else "")
        assert labels[picture] == (plain[picture, known[0]] if known else UNLABELLED)


@pytest.mark.parametrize("wrong", [{"confidence": 1.0}, {"margin": 0.0}, {"count": 0}, {"seed": -1}])
def test_settings_that_cannot_be(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError):
        LabelConfig(**wrong)


@pytest.mark.parametrize(("name", "value"), [("margin", 1e-300), ("margin", 0.0), ("confidence", 1 - 1e-17)])
def test_a_margin_that_no_sheet_can_reach_is_refused(name, value, told):
    with pytest.raises(UserError, match=f"{name} .* give a number from 0.0001 to 0.9999") as caught:
        LabelConfig(**{name: value})
    told("`diffgen label`", f"`--{name} {value}`", caught.value)
