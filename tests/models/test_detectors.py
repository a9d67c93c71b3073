"""Detectors: heads, suppression, the way into the network's input and back, and what is refused."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffgen.config import DEFAULT_PREPROCESSING, Preprocessing, TaskConfig, replace
from diffgen.errors import RunError, UserError
from diffgen.models import load, read_class_names
from diffgen.models.detections import CLASS, SCORE, as_boxes
from diffgen.models.inputs import PixelTransform
from diffgen.models.panel import seated
from tests.models.detectors import HEADS_OF_ONNX, Headed, export, pictures

CERTAIN = 0.8  # scores of what lies within two pixels of a square


def overlap(a, b):
    """Intersection over union of two boxes."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    inner = max(width, 0) * max(height, 0)
    return inner / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inner)


def check_finds(answers, known, *, within=0.85):
    """See that every known box is found, with its class, and nothing else with a high score."""
    for rows, truth in zip(as_boxes(answers), known, strict=True):
        certain = rows[rows[:, SCORE] >= CERTAIN]
        assert len(certain) == len(truth)
        for real in truth:
            best = max(certain, key=lambda row: overlap(row, real))
            assert overlap(best, real) > within and best[CLASS] == real[4]


def check_layout(answers, height, width):
    """See that an answer is made as it is promised."""
    boxes = as_boxes(answers)
    assert answers.dtype == np.float32 and boxes.shape[1:] == (100, 6)
    there = boxes[..., CLASS] >= 0
    assert (np.diff(boxes[..., SCORE], axis=1) <= 0).all()
    assert (boxes[~there] == (0, 0, 0, 0, 0, -1)).all() and (boxes[there][:, SCORE] >= 0.01).all()
    x1, y1, x2, y2 = boxes[there][:, :4].T
    assert ((x1 >= 0) & (x1 < x2) & (x2 <= width) & (y1 >= 0) & (y1 < y2) & (y2 <= height)).all()


@pytest.mark.parametrize("kind", HEADS_OF_ONNX)
def test_heads_of_onnx_files_are_found_out(kind, tmp_path):
    images, known = pictures()
    box = load(export(kind, tmp_path / "net.onnx"))
    box.prepare(images)
    named = {"dets": "end-to-end", "three outputs": "torchvision"}.get(kind, kind.removesuffix("-logits"))
    assert box.detects and box.preprocessing.head == named.removesuffix("-shares")
    assert box.num_classes == 2
    answers = box.predict(images)
    check_layout(answers, 64, 64)
    check_finds(answers, known)
    other = load(tmp_path / "net.onnx", isolate="off")
    other.prepare(images)
    np.testing.assert_array_equal(other.predict(images), answers)


@pytest.mark.parametrize("kind", ["end-to-end", "ssd", "torchvision", "yolov8"])
def test_heads_of_networks_in_memory(kind):
    images, known = pictures()
    box = load(Headed(kind))
    box.prepare(images)
    assert box.preprocessing.head == kind
    assert box.preprocessing.background == ("first" if kind == "torchvision" else "none")
    check_finds(box.predict(images), known)
    tensor = box.predict(torch.from_numpy(images))
    np.testing.assert_array_equal(tensor.numpy(), box.predict(images))
    assert box.predict(images[:0]).shape == (0, 600)


def test_torchscript_of_torchvisions_detectors(tmp_path):
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large

    network = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3).eval()
    images, _ = pictures(3)
    box = load(network)
    box.prepare(images)
    assert box.preprocessing.head == "torchvision" and box.preprocessing.background == "first"
    assert box.num_classes <= 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(network).save(tmp_path / "net.pt")
    # it takes a list of images, and changes lists in a way that no file may which nobody trusts
    scripted = load(tmp_path / "net.pt", allow_pickle=True)
    scripted.prepare(images)
    np.testing.assert_allclose(scripted.predict(images), box.predict(images), atol=1e-3)


def detections(kind, pixels):
    """What a Python function gives for images in [0, 1], one thing for each."""
    found = Headed("torchvision")(torch.from_numpy(pixels))
    for each in found:
        boxes, scores, labels = each["boxes"].numpy(), each["scores"].numpy(), each["labels"].numpy() - 1
        some = scores > 0.05
        boxes, scores, labels = boxes[some], scores[some], labels[some]
        match kind:
            case "objects":
                yield SimpleNamespace(xyxy=boxes, confidence=scores, class_id=labels)
            case "arrays":
                yield np.concatenate([boxes, scores[:, None], labels[:, None]], axis=1)
            case "mappings":
                yield {"boxes": boxes, "scores": scores, "labels": labels}


@pytest.mark.parametrize("kind", ["objects", "arrays", "mappings"])
def test_functions_give_what_supervision_gives_or_arrays_or_mappings(kind):
    images, known = pictures()
    images[3] = 0  # nothing is found there
    known[3] = known[3][:0]
    box = load(lambda pixels: list(detections(kind, pixels)), preprocessing=Preprocessing(head="detections"))
    box.prepare(images)
    assert box.detects and "detections" in box.answers_with
    answers = box.predict(images)
    check_finds(answers, known)
    assert (as_boxes(answers)[3][:, CLASS] == -1).all()


def test_boxes_come_back_through_letterbox_and_stretch(tmp_path):
    for height, width in ((128, 96), (96, 128)):
        images, known = pictures(6, height, width, side=32)
        for fitting in ("letterbox", "letterbox-top-left"):
            box = load(export("yolov8", tmp_path / "net.onnx"), preprocessing=Preprocessing(fitting=fitting))
            box.prepare(images)
            answers = box.predict(images)
            check_layout(answers, height, width)
            check_finds(answers, known, within=0.8)
    images, known = pictures(6, 128, 96, side=32)
    box.set_preprocessing(Preprocessing(fitting="stretch"))
    box.prepare(images)
    stretched = as_boxes(box.predict(images))[:, 0]
    # a box of 16 x 16 in 64 x 64 is one of 32 x 24 in a picture of 128 x 96
    np.testing.assert_allclose(stretched[:, 3] - stretched[:, 1], 32, atol=1e-3)
    np.testing.assert_allclose(stretched[:, 2] - stretched[:, 0], 24, atol=1e-3)


def test_what_a_file_of_ultralytics_says_is_done(tmp_path):
    import onnx

    path = export("yolov8", tmp_path / "net.onnx", names="{0: 'red', 1: 'blue'}")
    model = onnx.load(str(path))
    for key, value in {"task": "detect", "imgsz": "[64, 64]"}.items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, str(path))
    for isolate in ("auto", "off"):
        box = load(path, isolate=isolate)
        assert box.detects
        box.prepare(pictures(4, 128, 96)[0])
        fed = box.preprocessing
        assert (fed.fitting, fed.antialias, fed.size, fed.head) == ("letterbox", False, (64, 64), "yolov8")
        assert box.class_names == ("red", "blue") and box.remarks == ()


def test_what_nobody_says_is_done_as_the_makers_do_it_and_said(tmp_path):
    images, known = pictures(6, 96, 128, side=32)
    box = load(export("yolox", tmp_path / "net.onnx"))
    box.prepare(images)
    fed = box.preprocessing
    assert (fed.fitting, fed.channels, fed.scale) == ("letterbox-top-left", "bgr", "0..255")
    assert ["YOLOX" in each or "makers" in each for each in box.remarks] == [True]
    check_finds(box.predict(images), known, within=0.8)
    again = load(tmp_path / "net.onnx", preprocessing=fed)
    again.prepare(images)
    assert again.remarks == () and again.preprocessing == fed


def test_names_of_a_single_class_come_from_a_file(tmp_path):
    (tmp_path / "names.txt").write_text("square\n")
    names = read_class_names(tmp_path / "names.txt")
    box = load(lambda pixels: Headed("yolov8")(torch.from_numpy(pixels))[:, :5], class_names=names)
    box.prepare(pictures()[0])
    assert box.class_names == ("square",) and box.num_classes == 1


def test_a_graph_of_one_image_is_asked_one_at_a_time(tmp_path):
    images, known = pictures()
    box = load(export("end-to-end", tmp_path / "net.onnx", batch=False))
    box.prepare(images)
    assert box.fixed_batch == 1
    check_finds(box.predict(images), known)


# -- suppression, and pixels -----------------------------------------------------------------------------------------


def suppressed_slowly(boxes, scores, classes, iou):
    """Indices that are kept: one after the other, each unless a better one of its class covers it."""
    kept = []
    for i in sorted(range(len(boxes)), key=lambda i: (-scores[i], i)):
        if all(classes[i] != classes[j] or overlap(boxes[i], boxes[j]) <= iou for j in kept):
            kept.append(i)
    return kept


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 60), st.sampled_from([0.3, 0.5, 0.7, 1.0]))
def test_suppression_is_that_of_a_slow_loop(seed, number, iou):
    draw = np.random.default_rng(seed)
    corner = draw.uniform(2, 30, (number, 2))
    boxes = np.concatenate([corner, corner + draw.uniform(5, 25, (number, 2))], axis=1).astype(np.float32)
    scores = draw.permutation(np.linspace(0.02, 1, max(number, 1)))[:number].astype(np.float32)
    classes = draw.integers(0, 3, number)
    middles = np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], axis=1)
    table = np.zeros((1, 7, 80), dtype=np.float32)
    table[0, :4] = 20  # candidates of score 0
    table[0, :4, :number] = middles.T
    table[0, 4 + classes, np.arange(number)] = scores
    box = load(
        lambda pixels: np.repeat(table, len(pixels), axis=0),
        preprocessing=Preprocessing(outputs="boxes", head="yolov8", nms_iou=iou, most_boxes=60, fitting="stretch"),
    )
    images = np.zeros((1, 3, 64, 64), dtype=np.uint8)
    box.prepare(images)
    found = as_boxes(box.predict(images))[0]
    kept = suppressed_slowly(boxes, scores, classes, iou)
    # boxes whose overlap is the limit to the last bit may go either way
    near = [abs(overlap(a, b) - iou) < 1e-5 for a in boxes for b in boxes]
    if not any(near) or iou == 1.0:
        np.testing.assert_allclose(found[: len(kept), :4], boxes[kept], atol=1e-4)
        np.testing.assert_array_equal(found[: len(kept), CLASS], classes[kept])
        assert (found[len(kept) :, CLASS] == -1).all()


def test_ten_thousand_candidates_and_more(tmp_path):
    draw = np.random.default_rng(0)
    table = np.concatenate([draw.uniform(0, 64, (2, 30_000)), np.full((2, 30_000), 3.0), draw.random((80, 30_000))])
    box = load(lambda pixels: np.repeat(table[None].astype(np.float32), len(pixels), axis=0))
    images = np.zeros((2, 3, 64, 64), dtype=np.uint8)
    box.prepare(images)
    check_layout(box.predict(images), 64, 64)
    assert box.num_classes == 80 and (as_boxes(box.predict(images))[..., CLASS] >= 0).all()


def letterboxed_slowly(image, size, *, middle):
    """One pixel at a time: float32 (C, H, W), nearest pixels."""
    channels, height, width = image.shape
    share = min(size[0] / height, size[1] / width)
    rows, columns = (max(1, (round if middle else int)(side * share)) for side in (height, width))
    top, left = ((size[0] - rows) // 2, (size[1] - columns) // 2) if middle else (0, 0)
    out = np.full((channels, *size), 114, dtype=np.float32)
    for y in range(rows):
        for x in range(columns):
            out[:, top + y, left + x] = image[:, int((y + 0.5) * height / rows), int((x + 0.5) * width / columns)]
    return out


@settings(max_examples=40, deadline=None)
@given(*[st.integers(3, 40)] * 4, st.booleans())
def test_letterbox_is_that_of_a_slow_loop_and_boxes_come_back(height, width, rows, columns, middle):
    image = np.random.default_rng(0).integers(0, 256, (3, height, width), dtype=np.uint8)
    fed = replace(
        DEFAULT_PREPROCESSING,
        **{"fitting": "letterbox" if middle else "letterbox-top-left", "size": (rows, columns)},
        **{"interpolation": "nearest", "scale": "0..255"},
    )
    transform = PixelTransform(fed, "nchw", (3, height, width), torch.device("cpu"), "m")
    pixels = transform(torch.from_numpy(image[None]))[0].numpy()
    np.testing.assert_array_equal(pixels, letterboxed_slowly(image, (rows, columns), middle=middle))
    across, down = transform.scale
    left, top = transform.origin
    own = torch.tensor([[0.25 * width, 0.0, width, 0.5 * height]])
    handed = own * torch.tensor([across, down] * 2) + torch.tensor([left, top] * 2)
    torch.testing.assert_close(transform.to_image(handed), own, atol=1e-3, rtol=1e-4)
    assert transform.to_image(torch.tensor([[-50.0, -50, 500, 500]])).tolist() == [[0, 0, width, height]]


def test_boxes_come_back_where_the_middle_is_cut_out():
    fed = replace(DEFAULT_PREPROCESSING, size=(32, 32), crop=0.5)
    transform = PixelTransform(fed, "nchw", (3, 64, 128), torch.device("cpu"), "m")
    assert transform.to_image(torch.tensor([[0.0, 0, 32, 32]])).tolist() == [[48, 16, 80, 48]]


# -- what is refused -------------------------------------------------------------------------------------------------

GROUP = "Detectors"
NOTHING = np.zeros((4, 3, 64, 64), dtype=np.uint8)


def refused(function, *, images=NOTHING, **settings):
    with pytest.raises(UserError) as error:
        load(function, name="m", preprocessing=Preprocessing(**settings)).prepare(images)
    return str(error.value)


def test_logits_without_a_word_on_the_last_one_are_refused(told):
    found = refused(Headed("rt-detr"), images=pictures()[0])
    told(GROUP, "logits of which nothing says whether the last is for no object", found)
    assert "--head detr" in found and "--head rt-detr" in found
    images, known = pictures()
    box = load(Headed("rt-detr"), preprocessing=Preprocessing(head="rt-detr"))
    box.prepare(images)
    best = as_boxes(box.predict(images))[:, 0]
    assert all(max(overlap(row, real) for real in truth) > 0.85 for row, truth in zip(best, known, strict=True))


def test_what_is_no_detector_is_refused_as_no_classifier():
    assert refused(lambda pixels: np.zeros((len(pixels), 7, 7), np.float32)) == (
        "Model m gives an array of shape (4, 7, 7) for 4 images; export it so that it gives shape (N, K), here (4, "
        "number of classes)."
    )


def test_heads_that_are_not_there_are_refused(told):
    table = np.random.default_rng(0).random((4, 6, 50), dtype=np.float32) * 60
    found = refused(lambda pixels: table, outputs="boxes", head="ssd")
    assert "an ssd head cannot be read" in found and "--head" in found
    told(GROUP, "--head ssd for one array", found)
    assert "axis of the images" in refused(lambda pixels: table[:2], outputs="boxes")
    assert "nothing that boxes" in refused(lambda pixels: "boxes", outputs="boxes")
    rows = [{"boxes": np.zeros((3, 4)), "scores": np.zeros(2), "labels": np.zeros(3)}] * 4
    found = refused(lambda pixels: rows)
    assert "boxes (n, 4), scores (n,) and labels (n,)" in found
    told(GROUP, "three boxes and two scores", found)


def test_values_that_are_not_finite_are_refused_or_are_no_boxes():
    images, known = pictures()

    def sometimes(pixels):
        answer = Headed("yolov8")(torch.from_numpy(pixels)).numpy()
        answer[[i for i, each in enumerate(pixels) if each.max() < 0.5], :, 0] = np.nan
        return answer

    box = load(sometimes, name="m")
    box.prepare(images)
    broken = images.copy()
    broken[2] = 0
    with pytest.raises(RunError, match="NaN or infinite values for 1 of 12 images"):
        box.predict(broken)
    assert "NaN" in refused(sometimes, images=broken)
    box.lenient = True
    known[2] = known[2][:0]
    check_finds(box.predict(broken), known)
    assert box.unanswered == 1


def test_class_names_of_other_classes_are_refused_or_left_out(tmp_path, told):
    images, _ = pictures()
    path = export("yolov8", tmp_path / "net.onnx", names="['a', 'b', 'c']")
    box = load(path)
    box.prepare(images)
    assert box.class_names == () and box.num_classes == 2
    with pytest.raises(UserError, match="finds objects of 2 classes or more but its class_names are 3") as error:
        load(path, class_names=("a", "b", "c")).prepare(images)
    told(GROUP, "three class names for two classes", error.value)


def test_names_with_a_background_number_classes_from_one():
    images, known = pictures()

    def from_one(pixels):
        return [{**each, "labels": each["labels"] + 1} for each in detections("mappings", pixels)]

    names = ("__background__", "red", "blue")
    box = load(from_one, class_names=names, preprocessing=Preprocessing(head="detections"))
    for _ in range(2):  # also where it is prepared again
        box.prepare(images)
        assert box.class_names == ("red", "blue") and box.preprocessing.background == "first"
        check_finds(box.predict(images), known)


def test_a_detector_that_finds_nothing_is_one_and_is_remarked():
    box = load(Headed("yolov8"))
    box.prepare(NOTHING)
    assert (as_boxes(box.predict(NOTHING))[..., CLASS] == -1).all()
    assert any("finds nothing at all in 4 real images" in each for each in box.remarks)
    box.prepare(pictures(4)[0])
    assert not any("finds nothing" in each for each in box.remarks)


def test_classes_that_were_not_seen_before_are_refused():
    images, _ = pictures()

    def shifted(pixels):
        found = [*detections("mappings", pixels)]
        for each, own in zip(found, pixels, strict=True):
            each["labels"] = each["labels"] + (7 if own.max() < 0.1 else 0)
            each["boxes"], each["scores"] = np.array([[1, 1, 9, 9]]), np.array([0.9])
            each["labels"] = np.resize(each["labels"], 1) if len(each["labels"]) else np.array([7])
        return found

    box = load(shifted, name="m", preprocessing=Preprocessing(head="detections"))
    box.prepare(images)
    assert box.num_classes == 2
    with pytest.raises(RunError, match="an object of class 7, but of 2 classes alone until now"):
        box.predict(np.zeros_like(images))
    box = load(shifted, name="m", class_names=("red", "blue"), preprocessing=Preprocessing(head="detections"))
    with pytest.raises(UserError, match="finds objects of 8 classes or more but its class_names are 2"):
        box.prepare(np.zeros_like(images))


def test_letterbox_and_crop_together_are_refused(tmp_path, told):
    path = export("yolov8", tmp_path / "net.onnx")
    with pytest.raises(UserError, match="a crop, and keeps the whole picture") as error:
        load(path, preprocessing=Preprocessing(fitting="letterbox", crop=0.875)).prepare(pictures()[0])
    told(GROUP, "--fitting letterbox --crop 0.875", error.value)


def test_detectors_without_a_class_in_common_are_refused(told):
    images, _ = pictures()
    models = [load(Headed("yolov8"), class_names=names) for names in (("red", "blue"), ("cat", "dog"), ("dog", "red"))]
    for box in models:
        box.prepare(images)
    with pytest.raises(UserError, match=r"A and B have no class in common \(red and blue; cat and dog\)") as error:
        seated(models[:2], TaskConfig())
    told(GROUP, "detectors of other classes", error.value)
    one, _ = seated([models[0], models[2]], TaskConfig())
    assert one.panel.task.classes == ("red", "blue", "dog")


def test_suppression_that_differs_is_refused(tmp_path, told):
    images, _ = pictures()
    models = []
    for iou in (0.5, 0.7):
        box = load(Headed("yolov8"), preprocessing=Preprocessing(nms_iou=iou))
        box.prepare(images)
        models.append(box)
    with pytest.raises(
        UserError, match=r"--nms-iou is 0\.5 for A and 0\.7 for B; give all detectors the same"
    ) as error:
        seated(models, TaskConfig())
    told(GROUP, "--a-nms-iou 0.5", error.value)
