"""Comparisons of detectors, from real pictures to the report."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import diffgen
from diffgen.comparison.opened_run import OpenedRun
from diffgen.config import Budget, CheckConfig, CompareConfig, ModelSpec, Opening, Preprocessing, TaskConfig, replace
from diffgen.data import load as load_data
from diffgen.errors import UserError
from diffgen.models import load
from diffgen.models.detections import SCORE, as_boxes
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import read_finished
from diffgen.tasks.classification import rows_by_key
from diffgen.types import ImageSet
from diffgen.ui.finds import detail
from diffgen.workflows.browse import TriggerQuery
from tests.models import detectors as networks
from tests.models.squares import Squares, pictures

IMAGES = pictures(60)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model that gives squares lower scores than the other."""
    folder = tmp_path_factory.mktemp("runs") / "lost"
    diffgen.compare(Squares("a"), Squares("b", gain=0.9), data=IMAGES, budget="600q", output=folder)
    return folder


def test_boxes_that_one_model_loses_are_found(run: Path) -> None:
    """A square whose score is near the threshold; it says what is lost."""
    results = read_finished(RunFolder.open(run))
    assert results.behaviours > 0
    said = {pair[:2] for pair in results.most_frequent}
    assert ("small sun", "nothing") in said
    assert all(one != "nothing" and other == "nothing" for one, other in said)
    assert results.no_jury.startswith("No jury: known boxes of the real images say who is right")
    assert RunFolder.open(run).manifest["status"] == "done"


def test_the_page_draws_the_boxes_of_a_find(run: Path) -> None:
    """Of those that the report shows, the contested one among them, with what the model says of it."""
    finds = diffgen.browse(run)
    number = next(each for each in range(len(finds)) if finds.find(each).picture.marks is not None)
    shown = detail(finds.find(number), "lost", "", finds.models, finds.class_names)
    assert shown.count("dg-contested") == 1
    assert re.search(r'<rect class="dg-a dg-lost dg-contested".*?<title>A: sun 0\.\d\d</title></rect>', shown)


def test_the_clearest_finds_are_shown_first(run: Path) -> None:
    """Of each verdict and behaviour in the report, on the page, and of behaviours too."""
    finds = diffgen.browse(run)
    table, shown = finds.triggers, finds.folder.read_arrays("report")["shown"]
    for rows in table.distinct_by_verdict.values():
        part = shown[rows[shown]]
        for _, places in rows_by_key(table.behaviours[part]):
            assert (np.diff(table.clearness[part[places]]) <= 0).all()
    numbers = finds.numbers(TriggerQuery())
    assert (np.diff(table.clearness[numbers]) <= 0).all()
    lines = finds.behaviours(numbers)
    assert len(lines) > 1
    assert (np.diff([table.clearness[line.leading].sum() for line in lines]) <= 1e-6).all()


def test_every_find_replays(run: Path) -> None:
    """Asked again, each model says of each find what it said."""
    again = diffgen.replay(run, Squares("a"), Squares("b", gain=0.9))
    assert again.replayed == again.same_labels > 0
    mended = diffgen.replay(run, Squares("a"), Squares("a"))
    assert mended.reproduced == 0


@pytest.mark.slow
def test_a_model_against_itself_finds_nothing(tmp_path: Path) -> None:
    """However near the threshold its scores are."""
    found = diffgen.compare(Squares("a"), Squares("a"), data=IMAGES, budget="400q", output=tmp_path / "run")
    assert (found.triggers, found.flips_per_1000) == (0, 0)


@pytest.mark.slow
def test_moved_boxes_are_found(tmp_path: Path) -> None:
    """A half-pixel shift counts for small objects: IoU of 12 pixels shifted by 2 is 0.53."""
    found = diffgen.compare(Squares("a"), Squares("b", offset=2), data=IMAGES, budget="300q", output=tmp_path / "run")
    assert ("small sun", "small sun, moved") in {pair[:2] for pair in found.most_frequent}


Told = Callable[[str, str, object], None]
_GROUP = "Detectors"


@pytest.mark.parametrize(
    ("case", "settings", "words"),
    [
        ("a jury for detectors", {"jury": "other.onnx"}, "--jury is for classifiers"),
        ("a selector of detectors", {"select": True}, "--select is for classifiers, and the models are for detection"),
        ("another task than the models'", {"task": "classification"}, "and --task says classification"),
        ("the jury as a filter of detectors", {"filters": "jury"}, "--filters jury is for classifiers"),
        ("labels of whole pictures for detectors", {"data_labels": "use"}, "--data-labels use is for classifiers"),
    ],
)
def test_what_boxes_have_not_is_refused(
    tmp_path: Path, case: str, settings: dict[str, Any], words: str, told: Told
) -> None:
    """In a sentence, and nothing is written."""
    with pytest.raises(UserError, match=words) as caught:
        diffgen.compare(Squares("a"), Squares("b"), data=IMAGES, budget="100q", output=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()
    told(_GROUP, case, caught.value)


def test_a_detector_beside_a_classifier_is_refused(tmp_path: Path, told: Told) -> None:
    """Boxes and classes have nothing in common."""
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(3 * 48 * 48, 3))
    with pytest.raises(UserError, match="for detection and B") as caught:
        diffgen.compare(Squares("boxes"), classifier, data=IMAGES, budget="100q", output=tmp_path / "run")
    told(_GROUP, "a detector and a classifier", caught.value)


def test_explaining_detectors_is_refused(of_files: Path, told: Told) -> None:
    """What is tried there is judged by probabilities of classes."""
    with pytest.raises(UserError, match="diffgen explain is for classifiers") as caught:
        diffgen.explain(of_files / "run")
    told(_GROUP, "explaining why detectors differ", caught.value)


def test_nothing_reported_is_nothing_found(tmp_path: Path) -> None:
    """Two detectors without a box agree."""
    models = Squares("a", gain=0.0), Squares("b", gain=0.0)
    found = diffgen.compare(*models, data=IMAGES, budget="100q", output=tmp_path / "run")
    assert (found.triggers, found.flips_per_1000) == (0, 0)


@pytest.mark.slow
def test_one_of_three_detectors_stands_alone(tmp_path: Path) -> None:
    """The one that loses most."""
    models = Squares("a"), Squares("b", gain=0.95), Squares("c", gain=0.7)
    found = diffgen.compare(*models, data=IMAGES, budget="200q", output=tmp_path / "run")
    assert found.many is not None
    assert found.many.alone["C"].pictures > found.many.alone["B"].pictures


def test_labels_of_pictures_are_left_out(tmp_path: Path) -> None:
    """A folder of classes says nothing of boxes."""
    labels = np.arange(len(IMAGES)) % 2
    found = diffgen.compare(
        Squares("a"), Squares("b", gain=0.9), data=(IMAGES, labels), budget="100q", output=tmp_path / "run"
    )
    assert found.accuracy is None


QUICK = {"budget": "100q", "random_images": 20, "variations": 0}


def test_a_candidate_that_loses_boxes_is_refused(tmp_path: Path) -> None:
    """Also where no limit is set, and JUnit says how many of the boxes."""
    run = tmp_path / "run"
    result = diffgen.check(Squares("a"), Squares("b", gain=0.7), data=IMAGES, output=run, **QUICK)
    assert result.status == "FAIL"
    assert "lost_boxes" in {each.name for each in result.conditions if each.status == "FAIL"}
    assert "of 1,000 boxes" in (run / "junit.xml").read_text()


def test_the_same_detector_is_let_through(tmp_path: Path) -> None:
    """A model beside itself, also with limits of its own."""
    limits = {"max_lost": "20%", "max_renamed": "20%"}
    result = diffgen.check(Squares("a"), Squares("a"), data=IMAGES, output=tmp_path / "run", **QUICK, **limits)
    assert result.status in ("PASS", "WARN")
    assert {"lost_boxes", "renamed_boxes"} <= {each.name for each in result.conditions}


def counting_from(first: int) -> Callable[[np.ndarray], list[dict[str, Any]]]:
    """A detector with its class numbers from 0 or from 1."""
    network = networks.Headed("torchvision")
    return lambda batch: [
        {**each, "labels": each["labels"] - 1 + first} for each in network(torch.as_tensor(batch).float())
    ]


def test_classes_that_are_counted_otherwise_are_refused(tmp_path: Path, told: Told) -> None:
    """What is deployed differs, however alike the boxes are once they are shifted back."""
    given = {"data": networks.pictures(60, seed=4)[0], "output": tmp_path / "run", "technique": "as_is"}
    here = ModelSpec(class_names=("red", "blue"))
    told_later = replace(here, preprocessing=Preprocessing(background="first"))
    unsaid, said = (CheckConfig(compare=CompareConfig(models=(here, each))) for each in (here, told_later))
    with pytest.raises(UserError, match="counts its classes from 1, as its answers show, and the other from") as caught:
        diffgen.check(counting_from(0), counting_from(1), config=unsaid, **given, **QUICK)
    assert not (tmp_path / "run").exists()
    told(_GROUP, "a candidate whose classes are counted from 1", caught.value)
    same = diffgen.check(counting_from(0), counting_from(1), config=said, **given, **QUICK)
    assert same.status in ("PASS", "WARN")
    assert same.values["renamed_boxes"].count == 0
    assert not any(same.values[name] for name in ("sure_disagreement_real", "class_disagreement_real"))


def test_the_smallest_change_that_loses_a_box(run: Path) -> None:
    """Both pictures of a pair nearly alike, and only in one of them the models differ."""
    shrunk = diffgen.shrink(run, models=(Squares("a"), Squares("b", gain=0.9)), data=IMAGES, limit=3)
    assert shrunk.shrunk > 0
    assert shrunk.before is not None
    assert shrunk.after is not None
    assert shrunk.after < shrunk.before
    arrays = RunFolder.open(run).read_arrays("shrunk")
    assert (
        arrays["agreeing_probabilities"].argmax(axis=2) == arrays["agreeing_probabilities"].argmax(axis=2)[:, :1]
    ).all()


# -- files, as others have them ----------------------------------------------------------------------------------------


def in_coco(folder: Path, images: np.ndarray, boxes: list[np.ndarray]) -> Path:
    """Pictures with their boxes, red and blue, in a folder as COCO has them."""
    (folder / "images").mkdir(parents=True)
    entries, found = [], []
    for number, (image, own) in enumerate(zip(images, boxes, strict=True)):
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / "images" / f"{number:03}.png")
        height, width = image.shape[1:]
        entries.append({"id": number, "file_name": f"{number:03}.png", "width": width, "height": height})
        for x1, y1, x2, y2, label in own.tolist():
            bbox = [x1, y1, x2 - x1, y2 - y1]
            found.append({"id": len(found), "image_id": number, "category_id": int(label), "bbox": bbox})
    names = [{"id": number, "name": name} for number, name in enumerate(("red", "blue"))]
    told = {"images": entries, "annotations": found, "categories": names}
    (folder / "annotations.json").write_text(json.dumps(told))
    return folder


@pytest.fixture(scope="module")
def of_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two ONNX files, of which the second is handed darker pictures."""
    folder = tmp_path_factory.mktemp("files")
    data = in_coco(folder / "data", *networks.pictures(60, seed=2))
    models = [networks.export("yolov8", folder / f"{name}.onnx", names='{0: "red", 1: "blue"}') for name in "ab"]
    fed, here = (Preprocessing(), Preprocessing(std=(2.0,))), Opening(isolate="off")
    specs = tuple(ModelSpec(str(path), each, here) for path, each in zip(models, fed, strict=True))
    config = CompareConfig(models=specs, task=TaskConfig(score=0.5))
    diffgen.compare(data=data, config=config, budget="200q", output=folder / "run")
    return folder


def test_a_find_can_be_attached_to_an_issue(of_files: Path, told: Told) -> None:
    """Who gets it and has the two files sees what is said of it."""
    number = int(RunFolder.open(of_files / "run").read_arrays("report")["shown"][0])
    made = diffgen.export_issue(of_files / "run", number)
    assert made.files == ("differing.png", "differing.json", "original.png", "original.json", "reproduce.py")
    said = json.loads((Path(made.folder) / "differing.json").read_text())
    assert len(said["A"]["boxes"]) > len(said["B"]["boxes"])
    assert said["A"]["boxes"][0]["category"] in ("red", "blue")
    words = ["reproduce.py", *(str(of_files / f"{name}.onnx") for name in "ab")]
    done = subprocess.run([sys.executable, *words], cwd=made.folder, capture_output=True, text=True, check=True)
    told = {tuple(line.split(" ", 2)[:2]): ast.literal_eval(line.split(" ", 2)[2]) for line in done.stdout.splitlines()}
    for role in "AB":
        scores = [box[4] for box in told["differing", role]]
        assert scores == pytest.approx([box["score"] for box in said[role]["boxes"]], abs=0.01)
    with pytest.raises(UserError, match="add --force to replace an issue"):
        diffgen.export_issue(of_files / "run", number)
    with pytest.raises(UserError, match="give a number from its report"):
        diffgen.export_issue(of_files / "run", 10**6, of_files / "none")


def test_finds_are_written_as_coco_has_them(of_files: Path) -> None:
    """Pictures and known boxes are read again as data, and what a model says as its answers."""
    run, out = of_files / "run", of_files / "coco"
    made = diffgen.export_coco(run, out)
    table = RunFolder.open(run).read_judged()
    table = table[table.distinct]
    table = table[np.argsort(-table.clearness, kind="stable")]
    assert made.pictures == len(table) > 0
    written = json.loads((out / "labels.json").read_text())
    assert [each["id"] for each in written["images"]] == table.numbers.tolist()
    assert [each["id"] for each in written["annotations"]] == list(range(1, len(written["annotations"]) + 1))
    assert {each["contested"]["A"] for each in written["images"]} <= {
        f"{size} {name}{form}"
        for size in ("small", "medium")
        for name in ("red", "blue")
        for form in ("", ", moved", ", twice")
    } | {"nothing"}
    data = load_data(out)  # by name, which is the number
    table, entries = table[np.argsort(table.numbers)], sorted(written["images"], key=lambda each: each["id"])
    np.testing.assert_array_equal(data.images, table.images)
    assert data.boxes is not None
    assert data.class_names == ("red", "blue")
    for image, boxes, entry in zip(data.images, data.boxes, entries, strict=True):
        assert boxes is not None
        for x1, y1, x2, y2, label in boxes.round().astype(int).tolist() if entry["known"] else ():
            inside = image[2 * label, y1:y2, x1:x2].astype(float)
            assert inside.mean() > image[2 - 2 * label].mean()  # it is where the square of that colour is
    for role, model, count in zip("AB", ("a", "b"), made.boxes, strict=True):
        box = load(out / f"{role}.json", class_names=("red", "blue"))
        box.bind(data)
        box.prepare(data.images)
        spec = OpenedRun(RunFolder.open(run)).config.models["AB".index(role)]
        real = load(of_files / f"{model}.onnx", preprocessing=spec.preprocessing)
        real.prepare(data.images)
        np.testing.assert_allclose(box.predict(data.images), real.predict(data.images), atol=1e-3)
        scores = [each["score"] for each in json.loads((out / f"{role}.json").read_text())]
        assert sum(score >= 0.5 for score in scores) == count
    with pytest.raises(UserError, match="add --force to replace an export"):
        diffgen.export_coco(run, out)


def test_boxes_of_other_classes_than_the_models_are_refused(tmp_path: Path, told: Told) -> None:
    """Whatever the models report would count as wrong."""
    data = in_coco(tmp_path / "data", *networks.pictures(60))
    with pytest.raises(UserError, match="are of red and blue, and the models have none of these classes") as caught:
        diffgen.compare(Squares("a"), Squares("b"), data=data, budget="60q", output=tmp_path / "run")
    told(_GROUP, "known boxes of other classes than the models'", caught.value)


def test_pictures_without_any_object_are_compared(tmp_path: Path) -> None:
    """With known boxes, of which there are none, in empty files: what is reported is wrong, and nothing was lost."""
    images = pictures(60)
    for folder in ("images", "labels"):
        (tmp_path / "data" / folder).mkdir(parents=True)
    (tmp_path / "data" / "classes.txt").write_text("sun\nmoon\n")
    for number, image in enumerate(images):
        Image.fromarray(image.transpose(1, 2, 0)).save(tmp_path / "data" / "images" / f"{number:03}.png")
        (tmp_path / "data" / "labels" / f"{number:03}.txt").touch()
    models = Squares("a"), Squares("b", gain=0.9)
    result = diffgen.check(*models, data=tmp_path / "data", output=tmp_path / "run", technique="as_is", **QUICK)
    assert result.values["map_drop"] is None
    assert result.values["box_error_rise"] is None
    assert result.values["lost_boxes"].count > 0
    faults = read_finished(RunFolder.open(tmp_path / "run")).faults
    assert faults is not None
    assert (faults["A"]["pictures"] > 0, faults["B"]["pictures"]) == (True, 0)


@pytest.mark.slow
def test_classifiers_have_no_boxes_to_export(tmp_path: Path, told: Told) -> None:
    """Said before a folder is made."""
    models = [nn.Sequential(nn.Flatten(), nn.Linear(3 * 48 * 48, 3)) for _ in range(2)]
    diffgen.compare(*models, data=IMAGES, budget="60q", technique="as_is", output=tmp_path / "run")
    with pytest.raises(UserError, match="compares no detectors") as caught:
        diffgen.export_coco(tmp_path / "run", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    told(_GROUP, "classifiers, and --coco", caught.value)
    with pytest.raises(UserError, match="does not compare two detectors, or two models that give maps") as caught:
        diffgen.export_issue(tmp_path / "run", 0, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    told(_GROUP, "classifiers, and --issue", caught.value)


def test_a_run_of_files_is_replayed_and_gone_on_with(of_files: Path) -> None:
    """The settings know the task, so that nothing is guessed again."""
    again = diffgen.replay(of_files / "run")
    assert again.replayed == again.same_labels > 0
    assert diffgen.resume(of_files / "run").triggers > 0


def test_known_boxes_say_who_is_wrong(of_files: Path) -> None:
    """The model that no longer sees what is there, also where the picture was turned or moved."""
    run = RunFolder.open(of_files / "run")
    results = read_finished(run)
    assert results.faults is not None
    assert results.recognised_distinct_triggers is not None
    assert results.recognised_distinct_triggers > 0.5 * results.distinct_valid_triggers
    assert results.faults["B"]["pictures"] > 0
    # the first one is where its boxes have another size than what was made larger or smaller
    assert results.faults["B"]["pictures"] > 2 * results.faults["A"]["pictures"]
    assert "B is wrong" in run.file("report.html").read_text()


@pytest.mark.parametrize("left_out", [0, 1])
def test_where_objects_have_no_box_nobody_says_that_nothing_is_there(left_out: int, tmp_path: Path) -> None:
    """The first square of each picture has no box; both models report it in the real one, and one loses it later."""
    reported = as_boxes(Squares("a").predict(IMAGES))
    known = tuple(each[each[:, SCORE] >= 0.3][left_out:, [0, 1, 2, 3, 5]] for each in reported)
    data = ImageSet(IMAGES, None, ("sun", "moon"), "squares", boxes=known)
    diffgen.compare(Squares("a"), Squares("b", gain=0.9), data=data, budget="300q", output=tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    warned = [each for each in run.manifest["warnings"] if "leaves objects out" in each]
    triggers = run.read_judged()
    named = triggers.known.named[triggers.recognised]
    assert len(warned) == left_out
    assert len(named) > 0
    assert left_out == 0 or (named != 0).all()


def test_boxes_are_held_against_what_is_known(of_files: Path) -> None:
    """The second file's scores are lower, in the same order: the precision is what it was, and boxes are lost."""
    config = CheckConfig(compare=replace(OpenedRun(RunFolder.open(of_files / "run")).config, technique="as_is"))
    models = (str(of_files / "a.onnx"), str(of_files / "b.onnx"))
    result = diffgen.check(*models, data=of_files / "data", output=of_files / "check", config=config)
    found = {each.name: each.status for each in result.conditions}
    assert (found["lost_boxes"], found["map_drop"]) == ("FAIL", "PASS")
    assert "sure_disagreement_real" not in found
    drop = result.values["map_drop"]
    assert drop.base > 0.6
    known = read_finished(RunFolder.open(of_files / "run")).preflight.known_scores
    assert known == pytest.approx((drop.base, drop.candidate), abs=1e-6)


def test_boxes_that_were_kept_stand_for_their_model(tmp_path: Path) -> None:
    """A table of boxes is asked about its own pictures alone: nothing is varied, timed, or said of its outputs."""
    images, known = networks.pictures(60, seed=3)
    data = in_coco(tmp_path / "data", images, known)
    answers = [
        {"image_id": number, "category_id": int(label), "bbox": [x1, y1, x2 - x1, y2 - y1], "score": 0.9}
        for number, boxes in enumerate(known)
        for x1, y1, x2, y2, label in boxes.tolist()
    ]
    for name, kept in (("all", answers), ("most", answers[:-6])):
        (tmp_path / f"{name}.json").write_text(json.dumps(kept))
    here = ModelSpec(class_names=("red", "blue"), opening=Opening(isolate="off"))
    config = CompareConfig(models=(here, here), technique="as_is", budget=Budget(queries=60))
    files = [str(tmp_path / f"{name}.json") for name in ("all", "most")]
    result = diffgen.check(*files, data=data, config=CheckConfig(compare=config), output=tmp_path / "check")
    assert result.milliseconds == (None, None)
    assert result.values["lost_boxes"].count == 6
    assert "outputs" not in {each.name for each in result.conditions}
