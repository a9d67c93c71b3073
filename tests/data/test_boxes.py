"""Pictures with boxes: three kinds of files beside them, and boxes that follow their picture."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from diffgen.data import load
from diffgen.data.resize import Resizer
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.types import ImageSet

COUNT, HEIGHT, WIDTH = 52, 24, 40
NAMES = ("cat", "dog")


def known_boxes():
    """Of each picture x1, y1, x2, y2, class; the second has none, the third no file where that can be."""
    draw = np.random.default_rng(0)
    boxes = []
    for number in range(COUNT):
        rows = []
        for _ in range(0 if number == 1 else 1 + number % 3):
            x, y = draw.integers(0, WIDTH - 10), draw.integers(0, HEIGHT - 10)
            rows.append((x, y, x + draw.integers(3, 10), y + draw.integers(3, 10), draw.integers(2)))
        boxes.append(np.array(rows, dtype=np.float32).reshape(-1, 5))
    boxes[0][0, 4], boxes[3][0, 4] = 0, 1  # of both classes there is one
    return boxes


KNOWN = known_boxes()


def write_pictures(folder: Path, numbers=range(COUNT)):
    folder.mkdir(parents=True)
    draw = np.random.default_rng(1)
    for number in numbers:
        pixels = draw.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:03}.png")


def voc(folder: Path) -> Path:
    write_pictures(folder / "JPEGImages")
    (folder / "Annotations").mkdir()
    for number, rows in enumerate(KNOWN):
        if number == 2:
            continue
        corners = ("xmin", "ymin", "xmax", "ymax")
        objects = "".join(
            f"<object><name>{NAMES[int(row[4])]}</name><bndbox>"
            + "".join(f"<{name}>{value:g}</{name}>" for name, value in zip(corners, row, strict=False))
            + "</bndbox></object>"
            for row in rows
        )
        size = f"<size><width>{WIDTH}</width><height>{HEIGHT}</height></size>"
        (folder / "Annotations" / f"{number:03}.xml").write_text(f"<annotation>{size}{objects}</annotation>")
    return folder


def yolo(folder: Path, *, beside: bool = False) -> Path:
    write_pictures(folder / "images")
    labels = folder / ("images" if beside else "labels")
    labels.mkdir(exist_ok=True)
    for number, rows in enumerate(KNOWN):
        if number == 2:
            continue
        lines = []
        for x1, y1, x2, y2, kind in rows.tolist():
            middle = (x1 + x2) / 2 / WIDTH, (y1 + y2) / 2 / HEIGHT
            lines.append(f"{kind:.0f} {middle[0]} {middle[1]} {(x2 - x1) / WIDTH} {(y2 - y1) / HEIGHT}")
        (labels / f"{number:03}.txt").write_text("\n".join(lines))
    if beside:
        (labels / "classes.txt").write_text("cat\ndog\n")
    else:
        (folder / "data.yaml").write_text("train: images\nnames:\n  0: cat\n  1: dog\n")
    return folder


def coco(folder: Path) -> Path:
    write_pictures(folder / "pictures")
    images = [{"id": 7 + n, "file_name": f"{n:03}.png", "width": WIDTH, "height": HEIGHT} for n in range(COUNT)]
    annotations = [
        {"image_id": 7 + n, "category_id": 3 + 5 * int(k), "bbox": [x1, y1, x2 - x1, y2 - y1], "iscrowd": 0}
        for n, rows in enumerate(KNOWN)
        for x1, y1, x2, y2, k in rows.tolist()
    ]
    crowd = {"image_id": 7, "category_id": 3, "bbox": [0, 0, 9, 9], "iscrowd": 1}
    categories = [{"id": 8, "name": "dog"}, {"id": 3, "name": "cat"}]
    content = {"images": images, "annotations": [*annotations, crowd], "categories": categories}
    (folder / "annotations.json").write_text(json.dumps(content))
    return folder


MADE = {"voc": voc, "yolo": yolo, "yolo beside": lambda folder: yolo(folder, beside=True), "coco": coco}


class Heard:
    """What was said."""

    def __init__(self):
        self.text = ""

    def __call__(self, event):
        self.text += str(getattr(event, "text", "")) + "\n"


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("zipped", [False, True])
def test_three_kinds_of_files_say_the_same(kind, zipped, tmp_path):
    path = MADE[kind](tmp_path / "set")
    if zipped:
        path = Path(shutil.make_archive(str(tmp_path / "set"), "zip", path))
    heard = Heard()
    found = load(path, progress=Progress(heard))
    assert found.class_names == NAMES and found.labels is None and len(found.images) == COUNT
    assert found.boxes is not None and [Path(name).stem for name in found.names] == [f"{n:03}" for n in range(COUNT)]
    for number, (rows, known) in enumerate(zip(found.boxes, KNOWN, strict=True)):
        if number == 2 and kind != "coco":
            assert rows is None
        else:
            assert rows.dtype == np.float32
            np.testing.assert_allclose(rows, known, atol=1e-4)
    total = sum(len(each) for n, each in enumerate(KNOWN) if n != 2 or kind == "coco")
    assert f"{total} boxes of 2 classes in {COUNT - (kind != 'coco')} images" in heard.text
    assert "1 of them without any object" in heard.text
    assert ("of 1 images nobody knows" in heard.text) == (kind != "coco")
    assert ("1 boxes of crowds" in heard.text) == (kind == "coco")


def test_selections_and_digests_take_boxes_along(tmp_path):
    found = load(yolo(tmp_path / "set"))
    some = found.at(np.array([4, 0, 2]))
    np.testing.assert_array_equal(some.images, found.images[[4, 0, 2]])
    assert some.boxes[2] is None and some.names[0] == found.names[4]
    np.testing.assert_array_equal(some.boxes[1], found.boxes[0])
    mask = np.arange(COUNT) > 49
    assert len(found.at(mask).boxes) == len(found.at(mask)) == 2
    other = ImageSet(found.images, None, NAMES, "x", boxes=(None, *found.boxes[1:]))
    assert len({found.digest, other.digest, ImageSet(found.images, None, NAMES, "x").digest}) == 3
    assert load(found) is found
    with pytest.raises(UserError, match="not as many as 52 images"):
        load(ImageSet(found.images, None, NAMES, "x", boxes=found.boxes[:3]))


def test_a_divided_set_gives_the_part_that_models_have_not_seen(tmp_path):
    yolo(tmp_path / "flat")
    for kind in ("images", "labels"):
        for part in ("train", "val"):
            shutil.copytree(tmp_path / "flat" / kind, tmp_path / "set" / kind / part)
        shutil.rmtree(tmp_path / "set" / kind / "train" / "x", ignore_errors=True)
    shutil.copy(tmp_path / "flat" / "data.yaml", tmp_path / "set")
    assert {name.split("/")[1] for name in load(tmp_path / "set").names} == {"val"}
    assert {name.split("/")[1] for name in load(f"{tmp_path / 'set'}:train").names} == {"train"}
    with pytest.raises(UserError, match="has no part 'test'"):
        load(f"{yolo(tmp_path / 'whole')}:test")


def test_files_of_coco_for_each_part_belong_to_pictures_of_one_name(tmp_path):
    for part in ("train2017", "val2017"):
        coco(tmp_path / part)
        shutil.move(tmp_path / part / "annotations.json", tmp_path / f"instances_{part}.json")
    found = load(tmp_path)
    assert len(found) == COUNT and all(name.startswith("val2017/") for name in found.names)


# -- boxes follow their picture --------------------------------------------------------------------------------------


def bright(picture):
    """What is bright in a picture, as a box."""
    rows, columns = np.flatnonzero((picture > 127).any(axis=1)), np.flatnonzero((picture > 127).any(axis=0))
    return columns[0], rows[0], columns[-1] + 1, rows[-1] + 1


@settings(max_examples=80, deadline=None)
@given(*[st.integers(16, 70)] * 4, st.sampled_from(["crop", "pad", "stretch"]), st.integers(0, 2**32 - 1))
def test_boxes_go_where_the_pixels_go(height, width, rows, columns, fit, seed):
    draw = np.random.default_rng(seed)
    x1, x2 = np.sort(draw.choice(width + 1, 2, replace=False))
    y1, y2 = np.sort(draw.choice(height + 1, 2, replace=False))
    picture = np.zeros((height, width), dtype=np.uint8)
    picture[y1:y2, x1:x2] = 255
    resizer = Resizer((rows, columns), fit)
    moved = resizer.boxes(np.array([[x1, y1, x2, y2, 3]], dtype=np.float32), (height, width))
    seen = resizer(picture)
    if len(moved) == 0:
        # less than half of it is left: of pixels that were scaled, no more than that and half a pixel on each side
        assert fit == "crop" and (height, width) != (rows, columns)
        return
    assert moved[0, 4] == 3
    sides = moved[0, 2:4] - moved[0, :2]
    if sides.min() >= 3:
        np.testing.assert_allclose(bright(seen), moved[0, :4], atol=1.01)


def test_what_the_crop_leaves_less_than_half_of_is_no_object(tmp_path):
    resizer = Resizer((16, 16), "crop")
    boxes = np.array([[0, 0, 20, 10, 0], [0, 0, 19, 10, 0], [40, 0, 50, 10, 1]], dtype=np.float32)
    # of 16 x 48, columns 16 to 32 are kept
    found = resizer.boxes(np.array([[12, 0, 20, 10, 0], [11, 0, 20, 10, 1], [14, 2, 18, 4, 2]], np.float32), (16, 48))
    np.testing.assert_allclose(found, [[0, 0, 4, 10, 0], [0, 0, 4, 10, 1], [0, 2, 2, 4, 2]][::2])
    assert len(resizer.boxes(boxes[2:], (16, 48))) == 0
    heard = Heard()
    cut = load(yolo(tmp_path / "set"), resize=16, progress=Progress(heard))
    assert cut.images.shape == (COUNT, 3, 16, 16) and "less than half of them" in heard.text
    whole = load(tmp_path / "set", resize=16, fit="stretch")
    for rows, known in zip(whole.boxes, KNOWN, strict=True):
        if rows is not None:
            np.testing.assert_allclose(rows[:, :4], known[:, :4] * np.array([16 / WIDTH, 16 / HEIGHT] * 2), atol=1e-3)


def test_a_set_without_any_object(tmp_path):
    path = voc(tmp_path / "set")
    for file in (path / "Annotations").iterdir():
        file.write_text("<annotation></annotation>")
    heard = Heard()
    found = load(path, progress=Progress(heard))
    assert found.class_names is None and sum(each is not None and len(each) == 0 for each in found.boxes) == COUNT - 1
    assert "0 boxes of 0 classes" in heard.text and f"{COUNT - 1} of them without any object" in heard.text


def test_what_is_beside_the_picture_is_counted(tmp_path):
    path = yolo(tmp_path / "set")
    lines = ["0 0.5 0.5 1.2 0.5", "1 1.4 0.5 0.2 0.2", "1 0.5 0.5 0 0.1", "0 0.1 0.1 0.3 0.1 0.2 0.4"]
    (path / "labels" / "000.txt").write_text("\n".join(lines) + "\n\n")
    heard = Heard()
    found = load(path, progress=Progress(heard))
    expected = [[0, 6, 40, 18, 0], [4, 2.4, 12, 9.6, 0]]
    np.testing.assert_allclose(found.boxes[0], expected, atol=1e-4)
    assert "1 boxes of" in heard.text and "cut off at its sides" in heard.text
    assert "2 boxes of" in heard.text and "lie beside their picture" in heard.text


def test_pictures_on_their_side_are_told(tmp_path):
    path = voc(tmp_path / "set")
    for number in range(COUNT):
        file = path / "JPEGImages" / f"{number:03}.png"
        with Image.open(file) as image:
            turned = image.transpose(Image.Transpose.ROTATE_90)
        exif = Image.Exif()
        exif[0x0112] = 6
        turned.save(file, exif=exif)
    heard = Heard()
    load(path, progress=Progress(heard))
    assert "lie on their side" in heard.text and "--exif apply" in heard.text
    heard = Heard()
    upright = load(path, exif="apply", progress=Progress(heard))
    assert upright.image_shape == (3, HEIGHT, WIDTH) and "their side" not in heard.text


# -- what is refused -------------------------------------------------------------------------------------------------

GROUP = "Boxes beside pictures"
YOLO_FAULTS = {
    "0 0.5 0.5 0.1": "line 2 of 'labels/000.txt' in 'set' has 4 values; write class, middle, width and height",
    "0 0.5 0.5 0.1 0.1 0.9": "has 6 values",
    "2 0.5 0.5 0.1 0.1": "the class 2, which is not one of the 2 classes that are named",
    "0.5 0.5 0.5 0.1 0.1": "the class 0.5",
    "0 20 12 4 4": "values beyond 1; write shares",
    "cat 0.5 0.5 0.1 0.1": "is not made of numbers",
    "0 nan 0.5 0.1 0.1": "write class, middle, width and height",
}


@pytest.mark.parametrize(("line", "words"), YOLO_FAULTS.items())
def test_a_text_that_is_malformed_is_named_or_its_picture_left_out(line, words, tmp_path, monkeypatch, told):
    monkeypatch.chdir(tmp_path)
    path = yolo(tmp_path / "set")
    (path / "labels" / "000.txt").write_text(f"0 0.5 0.5 0.1 0.1\n{line}\n")
    with pytest.raises(UserError) as error:
        load("set")
    assert words in str(error.value) and "--skip-broken" in str(error.value)
    told(GROUP, f"YOLO text: {line}", error.value)
    assert len(load("set", skip_broken=True)) == COUNT - 1


VOC_FAULTS = {
    "<annotation><object>": "no element found",
    "<annotation><object><name>cat</name></object></annotation>": "could not convert",
    '<!DOCTYPE a [<!ENTITY x "y">]><annotation></annotation>': "it declares entities",
    "<annotation><object><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></object>"
    "</annotation>": "an object has no name",
    "<annotation><size><width>30</width><height>40</height></size></annotation>": "belong to a picture of 30x40",
}


@pytest.mark.parametrize(("text", "words"), VOC_FAULTS.items())
def test_xml_that_cannot_be_is_refused(text, words, tmp_path, told):
    path = voc(tmp_path / "set")
    (path / "Annotations" / "000.xml").write_text(text)
    with pytest.raises(UserError) as error:
        load(path)
    assert words in str(error.value) and "'JPEGImages/000.png'" in str(error.value)
    told(GROUP, f"VOC: {text}", error.value)
    assert len(load(path, skip_broken=True)) == COUNT - 1


def changed(content, **changes):
    return {**content, **changes}


COCO_FAULTS = {
    "no category": (lambda c: changed(c, categories=c["categories"][:1]), "the category 3, which is none of its"),
    "no box": (lambda c: changed(c, annotations=[{"image_id": 7, "category_id": 3}]), "KeyError: 'bbox'"),
    "half a box": (lambda c: changed(c, annotations=[{"image_id": 7, "category_id": 3, "bbox": [1, 2]}]), "cannot be"),
    "no names": (lambda c: changed(c, images=[{"id": 7}]), "KeyError: 'file_name'"),
    "other pictures": (lambda c: changed(c, images=[{"id": 7, "file_name": "x.png"}]), "None of the images"),
    "a list": (lambda c: changed(c, images="all"), "has no COCO annotations"),
}


@pytest.mark.parametrize("fault", COCO_FAULTS)
def test_coco_that_cannot_be_is_refused(fault, tmp_path, told):
    path = coco(tmp_path / "set") / "annotations.json"
    change, words = COCO_FAULTS[fault]
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(UserError) as error:
        load(path.parent)
    assert words in str(error.value)
    told(GROUP, f"COCO: {fault}", error.value)


def test_damaged_files_for_all_pictures_are_refused(tmp_path):
    path = coco(tmp_path / "coco") / "annotations.json"
    path.write_text(path.read_text()[:-5])
    with pytest.raises(UserError, match=r"'annotations\.json' is no JSON"):
        load(path.parent)
    path = yolo(tmp_path / "yolo") / "data.yaml"
    path.write_text("names: {0: cat, 2: dog}")
    with pytest.raises(UserError, match="not numbered 0, 1, 2"):
        load(path.parent)
    path.write_text("names: [cat")
    with pytest.raises(UserError, match=r"The class names in 'data\.yaml'"):
        load(path.parent)
    path = voc(tmp_path / "voc")
    for each in (path / "Annotations").iterdir():
        each.rename(each.with_name(f"x{each.name}"))
    with pytest.raises(UserError, match="No XML file of"):
        load(path)


def test_folders_of_classes_with_texts_are_read_as_before(tmp_path):
    for name in ("a", "b"):
        write_pictures(tmp_path / name, range(26))
        for number in range(26):
            (tmp_path / name / f"{number:03}.txt").write_text("a cat on a mat")
            (tmp_path / name / f"{number:03}.json").write_text('{"images": 1}')
    (tmp_path / "a" / "classes.txt").write_text("a\nb")
    found = load(tmp_path)
    assert found.boxes is None and found.class_names == ("a", "b")
