"""Comparisons of models that give each pixel a class, from real pictures to the report."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import diffgen
from diffgen.cli import main
from diffgen.config import CheckConfig, CompareConfig, ModelSpec, Opening, Preprocessing, TaskConfig
from diffgen.errors import UserError
from diffgen.models.sidecar import read_sidecar
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import read_finished
from diffgen.ui.finds import detail
from tests.models.painters import NAMES, Painter, export, pictures

IMAGES, _ = pictures(60)
Told = Callable[[str, str, object], None]
GROUP = "Maps of classes"
QUICK: dict[str, Any] = {"budget": "100q", "random_images": 20, "variations": 0}


@pytest.fixture(scope="module")
def of_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two ONNX files, of which the second wants brighter colours."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "data").mkdir()
    for number, image in enumerate(IMAGES):
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / "data" / f"{number:02}.png")
    models = [
        export(Painter("map" if name == "a" else "first", least), folder / f"{name}.onnx")
        for name, least in (("a", 0.25), ("b", 0.45))
    ]
    here = Opening(isolate="off")
    specs = tuple(ModelSpec(str(path), opening=here, class_names=NAMES) for path in models)
    config = CompareConfig(models=specs, task=TaskConfig(iou_below=0.6))
    diffgen.compare(data=folder / "data", config=config, budget="250q", output=folder / "run")
    return folder


def test_what_one_model_loses_is_found(of_files: Path) -> None:
    """A colour that is too dark for it; the run says what the models do."""
    run = RunFolder.open(of_files / "run")
    results = read_finished(run)
    assert results.behaviours > 0
    said = {pair[:2] for pair in results.most_frequent}
    assert said & {("red", "ground"), ("blue", "ground")}
    assert results.class_names == NAMES
    assert results.no_jury.startswith("No jury: known masks of the real images say who is right")
    assert run.manifest["status"] == "done"
    page = run.file("report.html").read_text()
    assert page.count('class="maps"') > 3
    assert ">ground<" in page


def test_the_page_draws_the_maps_of_a_find(of_files: Path) -> None:
    """Where they are contested, where they differ, and each; every class with its colour."""
    finds = diffgen.browse(of_files / "run")
    number = next(each for each in range(len(finds)) if finds.find(each).picture.marks is not None)
    shown = detail(finds.find(number), "run", "", finds.models, finds.class_names)
    assert re.findall(r"<figcaption><b>(\w+)</b></figcaption>", shown) == ["contested", "different", "A", "B"]
    legend = re.findall(r'<i style="background:([^"]+)"></i>(\w+)', shown)
    assert 1 < len(legend) <= len(NAMES) and {name for _, name in legend} <= set(NAMES)


def test_who_is_wrong_is_told_by_the_original_picture(of_files: Path) -> None:
    """Where both see a square in it, the model that loses it in a changed picture is wrong."""
    results = read_finished(RunFolder.open(of_files / "run"))
    assert results.faults is not None
    assert results.faults["B"]["pictures"] > results.faults["A"]["pictures"]


def test_every_find_replays(of_files: Path) -> None:
    """Asked again, each model says of each find what it said; and the run can be gone on with."""
    again = diffgen.replay(of_files / "run")
    assert again.replayed == again.same_labels > 0
    mended = diffgen.replay(of_files / "run", Painter("map"), Painter())
    assert mended.reproduced == 0


@pytest.mark.slow
def test_a_model_against_itself_finds_nothing(tmp_path: Path) -> None:
    """Whether it gives values or the classes themselves."""
    found = diffgen.compare(Painter(), Painter("map"), data=IMAGES, budget="300q", output=tmp_path / "run")
    assert (found.triggers, found.flips_per_1000) == (0, 0)


def test_a_find_can_be_attached_to_an_issue(of_files: Path) -> None:
    """Who gets it and has the two files sees the same maps."""
    number = int(RunFolder.open(of_files / "run").read_arrays("report")["shown"][0])
    made = diffgen.export_issue(of_files / "run", number)
    each = [f"{name}{kind}" for name in ("differing", "original") for kind in (".png", ".json", "-A.png", "-B.png")]
    assert made.files == (*each, "reproduce.py")
    place = re.fullmatch(r"A says (\w+), B says (\w+) at \[(.+)\]\.", made.sentence)
    assert place is not None
    x1, y1, x2, y2 = (int(float(side)) for side in place[3].split(","))
    for role, said in zip("AB", place.groups(), strict=False):
        cells = np.asarray(Image.open(Path(made.folder) / f"differing-{role}.png"))
        assert cells.shape == (48, 48) and NAMES.index(said) in cells[y1:y2, x1:x2]
        shares = json.loads((Path(made.folder) / "differing.json").read_text())[role]["shares"]
        assert shares == {NAMES[one]: round(float((cells == one).mean()), 4) for one in np.unique(cells)}
    words = ["reproduce.py", *(str(of_files / f"{name}.onnx") for name in "ab")]
    done = subprocess.run([sys.executable, *words], cwd=made.folder, capture_output=True, text=True, check=True)
    told = done.stdout.splitlines()
    assert [line.split()[:2] for line in told] == [[name, role] for name in ("differing", "original") for role in "AB"]
    assert all("100.00% as in" in line for line in told)
    (line,) = [line for line in told if line.startswith("differing B")]
    assert f"'ground': {shares['ground']}" in line


def test_the_smallest_change_that_loses_a_class(of_files: Path) -> None:
    """Both pictures of a pair nearly alike, and only in one of them the models differ."""
    shrunk = diffgen.shrink(of_files / "run", limit=3)
    assert shrunk.shrunk > 0
    arrays = RunFolder.open(of_files / "run").read_arrays("shrunk")
    said = arrays["agreeing_probabilities"].argmax(axis=2)
    assert (said == said[:, :1]).all()


@pytest.mark.slow
def test_one_of_three_models_stands_alone(tmp_path: Path) -> None:
    """The one that loses most."""
    models = Painter(least=0.3), Painter(least=0.35), Painter(least=0.6)
    found = diffgen.compare(*models, data=IMAGES, budget="200q", output=tmp_path / "run")
    assert found.many is not None
    assert found.many.alone["C"].pictures > found.many.alone["B"].pictures


@pytest.mark.parametrize(
    ("case", "settings", "words"),
    [
        ("a selector of maps", {"select": True}, "--select is for classifiers, and the models are for segmentation"),
        ("maps, and --task detection", {"task": "detection"}, "and --task says detection"),
    ],
)
def test_what_maps_have_not_is_refused(
    tmp_path: Path, case: str, settings: dict[str, Any], words: str, told: Told
) -> None:
    """In a sentence, and nothing is written."""
    with pytest.raises(UserError, match=words) as caught:
        diffgen.compare(Painter(), Painter(), data=IMAGES, budget="100q", output=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()
    told(GROUP, case, caught.value)


def test_explaining_maps_is_refused(of_files: Path, told: Told) -> None:
    """What is tried there is judged by probabilities of classes."""
    with pytest.raises(UserError, match=r"diffgen explain is for classifiers, and model a.onnx is for seg") as caught:
        diffgen.explain(of_files / "run")
    told(GROUP, "explaining why maps differ", caught.value)


def test_inspecting_a_model_that_gives_maps_is_refused_without_masks(of_files: Path, told: Told) -> None:
    """Nothing tells which of two ways to feed it is right."""
    with pytest.raises(UserError, match="gives maps of classes, and without masks") as caught:
        diffgen.inspect(of_files / "a.onnx", data=IMAGES)
    told(GROUP, "inspecting a model that gives maps, without masks", caught.value)


def test_masks_tell_how_a_model_is_fed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One for BGR and levels up to 255: what is found is written beside it, or told."""
    data, path = with_masks(tmp_path / "data"), tmp_path / "net.onnx"

    class Bytes(Painter):
        def forward(self, x: Any) -> Any:
            return super().forward(x.flip(1) / 255)

    export(Bytes(), path)
    found = diffgen.inspect(path, data=data, options=ModelSpec(class_names=NAMES), write=True)
    assert (found.chosen.preprocessing.channels, found.chosen.preprocessing.scale) == ("bgr", "0..255")
    assert found.labelled and found.alike == 1 and found.images == 40
    assert found.now is not None and found.chosen.accuracy is not None
    assert found.chosen.accuracy > 0.85 > 2 * (found.now.accuracy or 0)
    kept = read_sidecar(path).preprocessing
    assert (kept.channels, kept.outputs, kept.head) == ("bgr", "maps", "classes-first")
    path.with_name("net.onnx.toml").unlink()
    names = tmp_path / "data" / "classes.txt"
    assert main(["inspect", str(path), "--data", str(data), "--class-names", str(names)]) == 0
    told = capsys.readouterr().out
    assert "mean IoU" in told and "Best on 40 images with masks: 0..255, BGR." in told
    assert "--scale 0..255" in told and "--outputs maps --head classes-first" in told


def test_a_candidate_that_loses_classes_is_refused(tmp_path: Path) -> None:
    """Also where no limit is set, and JUnit says how many pixels have changed."""
    run = tmp_path / "run"
    result = diffgen.check(Painter(), Painter(least=0.6), data=IMAGES, output=run, **QUICK)
    assert result.status == "FAIL"
    failed = {each.name for each in result.conditions if each.status == "FAIL"}
    assert {"changed_pixels", "lost_classes"} <= failed
    assert "gained_classes" not in failed
    assert result.values["map_distance"].share > 0.1
    assert "of 1,000 pixels" in (run / "junit.xml").read_text()


def test_the_same_maps_are_let_through(tmp_path: Path) -> None:
    """A model beside itself, also with limits of its own."""
    limits = {"max_pixels_changed": "20%", "max_classes_lost": "20%"}
    result = diffgen.check(Painter(), Painter("map"), data=IMAGES, output=tmp_path / "run", **QUICK, **limits)
    assert result.status in ("PASS", "WARN")
    assert {"changed_pixels", "lost_classes"} <= {each.name for each in result.conditions}
    assert "sure_disagreement_real" not in {each.name for each in result.conditions}


@pytest.mark.slow
def test_a_deeplab_that_is_handed_blue_for_red_is_refused(shared_folder: Path, tmp_path: Path) -> None:
    """Beside itself, as it was made to be fed."""
    pytest.importorskip("ai_edge_litert", reason="the extra tflite is not installed")
    file = shared_folder / "models" / "pascal-deeplab-quant" / "deeplabv3_mnv2_dm05_pascal_quant.tflite"
    data = tmp_path / "data"
    data.mkdir()
    for number, path in enumerate(sorted((shared_folder / "data" / "photographs" / "images").glob("*/*"))[::5]):
        (data / f"{number:02}.jpg").symlink_to(path.resolve())
    fed = tuple(ModelSpec(str(file), Preprocessing(channels=channels)) for channels in ("rgb", "bgr"))
    config = CheckConfig(compare=CompareConfig(models=fed, technique="as_is"))
    limits: dict[str, Any] = {"budget": "40q", "random_images": 10, "variations": 0, "max_pixels_changed": "2%"}
    result = diffgen.check(
        str(file), str(file), data=data, config=config, output=tmp_path / "run", resize=257, **limits
    )
    assert {each.name: each.status for each in result.conditions}["changed_pixels"] == "FAIL"
    assert result.values["map_distance"].share > 0.1


def with_masks(folder: Path, names: str = "ground\nred\nblue\n") -> Path:
    """Pictures of which all but the first have a mask, and the names of its classes."""
    images, maps = pictures(60, seed=3)
    for place in ("images", "masks"):
        (folder / place).mkdir(parents=True)
    (folder / "classes.txt").write_text(names)
    for number, (image, mask) in enumerate(zip(images, maps, strict=True)):
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / "images" / f"{number:02}.png")
        if number:
            Image.fromarray(mask.astype(np.uint8)).save(folder / "masks" / f"{number:02}.png")
    return folder


def test_known_masks_say_who_is_wrong(tmp_path: Path) -> None:
    """Also where the models differ on the real image already, so that nothing else would say it."""
    specs = (ModelSpec(class_names=NAMES), ModelSpec(class_names=NAMES[::-1]))

    class Turned(Painter):
        def forward(self, x: Any) -> Any:
            return super().forward(x).flip(1)

    config = CompareConfig(models=specs, task=TaskConfig(iou_below=0.6))
    models = Painter(least=0.5), Turned(least=0.7)
    out = tmp_path / "run"
    diffgen.compare(*models, data=with_masks(tmp_path / "data"), config=config, budget="150q", output=out)
    results = read_finished(RunFolder.open(out))
    assert results.faults is not None
    assert results.verdicts_rest_on is not None
    assert results.verdicts_rest_on["seed"] > 0
    assert results.preflight.known_scores is not None
    assert results.preflight.known_scores[0] > results.preflight.known_scores[1]
    assert "mean IoU with masks of A, of B" in (out / "summary.md").read_text()
    assert results.faults["B"]["pictures"] > results.faults["A"]["pictures"]
    table = RunFolder.open(out).read_judged()
    known = table[table.recognised & (table.known.certainty > 0)]
    assert known.known.seed_differs is not None and known.known.seed_differs.any()
    assert "(known label)" in (out / "report.html").read_text()


def test_masks_of_other_classes_than_the_models_are_refused(tmp_path: Path, told: Told) -> None:
    """By name, or by number where nobody names them."""
    data = with_masks(tmp_path / "data", "sky\nsea\nland\n")
    config = CompareConfig(models=(ModelSpec(class_names=NAMES), ModelSpec(class_names=NAMES)))
    ask = {"config": config, "budget": "60q", "output": tmp_path / "run"}
    with pytest.raises(UserError, match="and the models have none of these classes") as caught:
        diffgen.compare(Painter(), Painter(), data=data, **ask)
    told(GROUP, "masks of other classes than the models'", caught.value)
    (data / "classes.txt").unlink()
    Image.new("L", (48, 48), 7).save(data / "masks" / "09.png")
    with pytest.raises(UserError, match=r"09\.png in .* has the class 7, and the 3 classes that have names") as caught:
        diffgen.compare(Painter(), Painter(), data=data, **ask)
    told(GROUP, "a mask without names, and a class that the models have not", caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_candidate_that_fits_the_masks_less_is_refused(tmp_path: Path) -> None:
    """The mean IoU of both with them, of the pictures that have one."""
    specs = (ModelSpec(class_names=NAMES), ModelSpec(class_names=NAMES))
    config = CheckConfig(compare=CompareConfig(models=specs))
    data = with_masks(tmp_path / "data")
    result = diffgen.check(Painter(), Painter(least=0.6), data=data, config=config, output=tmp_path / "run", **QUICK)
    drop = result.values["iou_drop"]
    assert drop.of == 59 and drop.base > 0.85 > drop.candidate
    assert "iou_drop" in {each.name for each in result.conditions if each.status == "FAIL"}
    assert "mean IoU" in (tmp_path / "run" / "junit.xml").read_text()
