"""Labelled finds as a set of pictures to train with: who labelled them, how they are divided, and who can read them."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from diffgen.comparison.stages import CompareResult
from diffgen.config import Budget, CompareConfig, FilterConfig, SourceConfig, TrainingSetConfig, replace
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.labels.sheet import image_id
from diffgen.metrics.near_duplicates import directions_of
from diffgen.runs.folder import RunFolder
from diffgen.runs.outputs import MARKER
from diffgen.workflows.compare import compare
from diffgen.workflows.export_training import class_folders, export_for_training
from diffgen.workflows.label import label_import
from tests.labels.conftest import make_run, truth_of

TRIGGERS = 60


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "pictures.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def contents(folder: Path) -> dict[str, bytes]:
    """Everything below a folder but the mark of ours, which is never the same twice."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != MARKER]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def with_jury(path: Path, **changes: Any) -> RunFolder:
    """A run in which a jury names the truth, and recognises three of four pictures; five are of one seed each."""
    verdicts = {
        "named": truth_of(TRIGGERS),
        "certainty": np.full(TRIGGERS, -0.1, np.float32),
        "recognised": np.arange(TRIGGERS) % 4 > 0,
    }
    return make_run(path, triggers=TRIGGERS, seeds=np.arange(TRIGGERS) // 5, verdicts={**verdicts, **changes})


@pytest.fixture(scope="module")
def from_seeds(
    model_files: dict[str, Path], small_config: CompareConfig, tmp_path_factory: pytest.TempPathFactory
) -> CompareResult:
    """A finished comparison whose triggers were made from real images; not to be changed."""
    config = replace(
        small_config,
        budget=Budget(queries=1_500),
        source=SourceConfig(family="seeds"),
        filters=FilterConfig(names=("jury",), filters=small_config.filters.filters),
    )
    folder = tmp_path_factory.mktemp("runs") / "seeds"
    return compare(model_files["a"], model_files["b"], data="digits:test", config=config, output=folder)


def test_of_a_real_run(from_seeds: CompareResult, tmp_path: Path) -> None:
    result = export_for_training(from_seeds.run, tmp_path / "out")
    table, triggers = rows(tmp_path / "out"), RunFolder.open(from_seeds.run).read_judged()
    assert result.train + result.test == len(table) == from_seeds.recognised_distinct_triggers == result.by_jury > 40
    assert result.test == sum(row["file"].startswith("test/") for row in table) > 0
    labels = load("digits:test").labels
    assert labels is not None
    for row in table:
        number = int(row["number"])
        assert triggers.valid[number] and triggers.recognised[number]
        assert np.array_equal(np.asarray(Image.open(tmp_path / "out" / row["file"])), triggers.images[number, 0])
        assert row["file"].split("/")[1] == row["label"] == row["jury_label"]
        assert row["labelled_by"] == "jury"
        # a recognised picture shows what its seed showed
        assert labels[int(row["seed_row"])] == int(row["seed_label"]) == int(row["label"])
        said = triggers.labels[number].tolist()
        assert [int(row["label_a"]), int(row["label_b"])] == said
        wrong = [role for role, each in zip("AB", said, strict=True) if each != int(row["label"])]
        assert row["wrong"] == " ".join(wrong)
    pictures = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.png")}
    assert pictures == {row["file"] for row in table}


def test_no_seed_and_no_near_duplicate_on_both_sides(from_seeds: CompareResult, tmp_path: Path) -> None:
    export_for_training(from_seeds.run, tmp_path / "out", config=TrainingSetConfig(test_share=0.5))
    table = rows(tmp_path / "out")
    side = np.array([row["file"].startswith("test/") for row in table])
    seeds = np.array([int(row["seed_row"]) for row in table])
    assert len(set(seeds.tolist())) < len(seeds)
    assert not set(seeds[side]) & set(seeds[~side])
    images = RunFolder.open(from_seeds.run).read_triggers().images[[int(row["number"]) for row in table]]
    vectors = directions_of(images)
    one, other = np.nonzero(vectors @ vectors.T >= 0.95)
    assert len(one) > len(images)
    assert (side[one] == side[other]).all()


def test_diffgen_and_torchvision_read_it(
    from_seeds: CompareResult, model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path
) -> None:
    datasets = pytest.importorskip("torchvision.datasets")
    out = tmp_path / "out"
    export_for_training(from_seeds.run, out, config=TrainingSetConfig(test_share=0.5))
    for part in ("train", "test"):
        wanted = sorted((row["file"], int(row["label"])) for row in rows(out) if row["file"].startswith(part))
        theirs = datasets.ImageFolder(str(out / part), allow_empty=True)
        found = [(Path(path).relative_to(out).as_posix(), label) for path, label in theirs.samples]
        assert sorted(found) == wanted
        assert theirs.classes == [str(label) for label in range(10)]
        for source in (f"{out}:{part}", str(out / part)):
            ours = load(source)
            assert ours.labels is not None
            assert sorted(ours.labels.tolist()) == sorted(label for _, label in wanted)
            assert ours.class_names == tuple(theirs.classes)
    config = replace(small_config, stop_after="real")
    again = compare(model_files["a"], model_files["b"], data=str(out / "test"), config=config, output=tmp_path / "run")
    # all are finds, so the models disagree on each
    results = RunFolder.open(again.run).results()
    assert results["preflight"]["agreement"] == 0
    table = [row for row in rows(out) if row["file"].startswith("test/")]
    right = [np.mean([row[f"label_{role}"] == row["label"] for row in table]) for role in "ab"]
    assert results["preflight"]["accuracy"] == pytest.approx(right)


def test_the_same_bytes_again_and_others_with_another_seed(from_seeds: CompareResult, tmp_path: Path) -> None:
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        run = Path(shutil.copytree(from_seeds.run, tmp_path / f"run-{name}"))
        export_for_training(run, tmp_path / name, config=TrainingSetConfig(seed=seed))
    one, two, three = (contents(tmp_path / name) for name in ("one", "two", "three"))
    assert one == two
    assert one.keys() != three.keys()


def test_batches_make_no_difference(from_seeds: CompareResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures and table are written some at a time."""
    for name, size in (("whole", 2048), ("parts", 7)):
        monkeypatch.setattr("diffgen.workflows.export_training.BATCH", size)
        run = Path(shutil.copytree(from_seeds.run, tmp_path / f"run-{name}"))
        export_for_training(run, tmp_path / name)
    assert contents(tmp_path / "whole") == contents(tmp_path / "parts")


def test_a_run_of_drawn_pictures(gan_run: CompareResult, tmp_path: Path) -> None:
    result = export_for_training(gan_run.run, tmp_path / "out", config=TrainingSetConfig(test_share=0.5))
    table = rows(tmp_path / "out")
    assert len(table) == gan_run.recognised_distinct_triggers == result.train + result.test
    assert {row["seed_row"] for row in table} == {""}
    assert not [row for row in table if row["recipe"]]


def test_what_people_say_goes_first(tmp_path: Path) -> None:
    """People name what the jury cannot, correct it, and take out what shows nothing."""
    run = with_jury(tmp_path / "run", near_duplicate_of=np.arange(TRIGGERS))
    triggers, truth = run.read_triggers(), truth_of(TRIGGERS)
    ids = [image_id(digest) for digest in triggers.hashes]
    said = {4: int(truth[4]), 5: int(truth[5] + 1) % 10, 6: "invalid"}
    sheet = tmp_path / "sheet.csv"
    sheet.write_text("id,label\n" + "".join(f"{ids[number]},{label}\n" for number, label in said.items()))
    label_import(run.path, [sheet])
    result = export_for_training(run.path, tmp_path / "out", config=TrainingSetConfig(test_share=0.4))
    found = {int(row["number"]): row for row in rows(tmp_path / "out")}
    by_jury = {number for number in range(TRIGGERS - 1) if number % 4} - {5, 6}
    assert found.keys() == by_jury | {4, 5}
    assert (result.by_people, result.by_jury) == (2, len(by_jury))
    for number in (4, 5):
        assert (found[number]["labelled_by"], int(found[number]["label"])) == ("people", said[number])
        assert int(found[number]["jury_label"]) == truth[number]


def test_one_of_near_duplicates_and_all_that_people_named(tmp_path: Path) -> None:
    leaders = np.arange(TRIGGERS) // 3 * 3
    leaders[-1] = -1  # rejected
    run = with_jury(tmp_path / "run", near_duplicate_of=leaders)
    truth = truth_of(TRIGGERS)
    ids = [image_id(digest) for digest in run.read_triggers().hashes]
    sheet = tmp_path / "sheet.csv"
    sheet.write_text(f"id,label\n{ids[10]},{truth[10]}\n{ids[11]},{truth[11]}\n{ids[13]},invalid\n")
    label_import(run.path, [sheet])
    export_for_training(run.path, tmp_path / "out", config=TrainingSetConfig(test_share=0.4))
    found = {int(row["number"]) for row in rows(tmp_path / "out")}
    # of 9, 10, 11 people named two; of 12, 13, 14 they called one invalid; of the others the first recognised one
    others = {min(number for number in range(first, first + 3) if number % 4) for first in range(0, TRIGGERS, 3)}
    assert found == {each for each in others if each // 3 not in (3, 4)} | {10, 11}


def test_classes_without_a_picture_keep_their_numbers(tmp_path: Path) -> None:
    only = np.isin(truth_of(TRIGGERS), (2, 7, 9))
    run = with_jury(tmp_path / "run", recognised=only)
    said: list[Any] = []
    result = export_for_training(
        run.path, tmp_path / "out", config=TrainingSetConfig(test_share=0.5), events=said.append
    )
    assert set(result.missing) >= {"0", "1", "3", "4", "5", "6", "8"}
    assert any("allow_empty=True" in str(each) for each in said)
    for part in ("train", "test"):
        assert sorted(path.name for path in (tmp_path / "out" / part).iterdir()) == [str(label) for label in range(10)]
    about = json.loads((tmp_path / "out" / "about.json").read_text())
    for each in about["classes"]:
        for part in ("train", "test"):
            assert each[part] == len(list((tmp_path / "out" / part / each["folder"]).iterdir()))


def test_where_the_seeds_come_from_is_said(tmp_path: Path) -> None:
    said: list[Any] = []
    export_for_training(with_jury(tmp_path / "run").path, tmp_path / "out", events=said.append)
    assert any("made from images of digits:test; measure a model" in str(each) for each in said)


@given(st.lists(st.text(max_size=12), min_size=2, max_size=14))
def test_class_folders_are_in_order_for_everybody(names: list[str]) -> None:
    folders = class_folders(names)
    assert len({folder.casefold() for folder in folders}) == len(names)
    assert folders == sorted(folders)
    assert not {folder.casefold() for folder in folders} <= {"train", "test", "val"}


@pytest.mark.parametrize(
    ("names", "folders"),
    [
        (["0", "1", "2"], ["0", "1", "2"]),
        ([str(label) for label in range(11)], [f"{label:02}" for label in range(11)]),
        (["cat", "dog"], ["cat", "dog"]),
        (["dog", "cat"], ["0-dog", "1-cat"]),
        (["Cat", "cat"], ["0-Cat", "1-cat"]),
        (["../../escape", "b"], ["0-escape", "1-b"]),
        (["test", "train"], ["0-test", "1-train"]),
    ],
)
def test_names_of_class_folders(names: list[str], folders: list[str]) -> None:
    assert class_folders(names) == folders


def test_replaced_with_force_only_and_nothing_foreign_is_removed(tmp_path: Path) -> None:
    run = with_jury(tmp_path / "run").path
    export_for_training(run, tmp_path / "out")
    before = contents(tmp_path / "out")
    with pytest.raises(UserError, match="--force"):
        export_for_training(run, tmp_path / "out")
    assert contents(tmp_path / "out") == before
    export_for_training(run, tmp_path / "out", config=TrainingSetConfig(seed=1), force=True)
    assert contents(tmp_path / "out") != before
    (tmp_path / "out" / "test" / "3" / "mine.png").write_bytes(b"mine")
    with pytest.raises(UserError, match=r"mine\.png, which diffgen did not make"):
        export_for_training(run, tmp_path / "out", force=True)
    assert (tmp_path / "out" / "test" / "3" / "mine.png").read_bytes() == b"mine"


def test_a_share_that_leaves_nothing_to_train_with_is_refused(tmp_path: Path) -> None:
    # of one picture a label, half is one
    run = with_jury(tmp_path / "run", recognised=np.isin(np.arange(TRIGGERS), (3, 30)))
    with pytest.raises(UserError, match=r"All 2 labelled finds .* would be to test on"):
        export_for_training(run.path, tmp_path / "out", config=TrainingSetConfig(test_share=0.5))
    assert not (tmp_path / "out").exists()


def test_what_is_refused(tmp_path: Path, told: Callable[[str, str, object], None]) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    jury = with_jury(tmp_path / "jury").path
    cases: dict[str, tuple[Path, Path]] = {
        "a run without jury and without labels by people": (make_run(tmp_path / "run").path, tmp_path / "out"),
        "a run of whose finds none is recognised": (
            with_jury(tmp_path / "none", recognised=np.zeros(TRIGGERS, np.bool_)).path,
            tmp_path / "out",
        ),
        "a run with two recognised finds": (
            with_jury(tmp_path / "two", recognised=np.isin(np.arange(TRIGGERS), (3, 30))).path,
            tmp_path / "out",
        ),
        "a jury that names classes that the run does not have": (
            with_jury(tmp_path / "other", named=np.full(TRIGGERS, 10)).path,
            tmp_path / "out",
        ),
        "a folder that is not empty": (jury, tmp_path / "full"),
        "no run": (tmp_path / "full", tmp_path / "out"),
    }
    for case, (run, output) in cases.items():
        with pytest.raises(UserError) as caught:
            export_for_training(run, output)
        told("`diffgen export --for-training`", case, caught.value)
    assert not (tmp_path / "out").exists()
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]
